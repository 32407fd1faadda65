//! What can be read from an engine at any time.

use super::engine::BatchingEngine;

impl BatchingEngine {
    /// Sequences in the batch, those whose last token is under way included.
    pub fn running(&self) -> u32 {
        self.running
    }

    /// Jobs in the queue.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether an iteration is running.
    pub fn is_busy(&self) -> bool {
        self.timeline.last() > self.done
    }

    /// Blocks in use at `now`, ns, at or after the last `advance`.
    pub fn kv_blocks_used(&self, now: u64) -> u64 {
        self.blocks_at(self.decided_at(now))
    }

    /// Share of the KV cache in use at `now`, 0 to 1.
    pub fn kv_share(&self, now: u64) -> f64 {
        self.kv_blocks_used(now) as f64 / f64::from(self.config.kv_blocks)
    }

    /// Tokens whose keys and values running sequences hold at `now`.
    pub fn resident_tokens(&self, now: u64) -> u64 {
        let prefilling = self.prefilling.map_or(0, |slot| self.sequences[slot as usize].computed);
        self.decodes.tokens(self.decided_at(now)) + self.finishing_tokens + prefilling
    }

    /// Iterations over at `now`, since the start.
    pub fn iterations(&self, now: u64) -> u64 {
        // The first that ends after `now` is the one running.
        let running = self.timeline.first_ending_at(now.saturating_add(1), self.done);
        running.map_or(self.timeline.last(), |step| step - 1)
    }

    /// Preemptions since the start.
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// The last iteration that stands decided at `now`.
    fn decided_at(&self, now: u64) -> u64 {
        (self.iterations(now) + 1 + self.lead).min(self.timeline.last())
    }
}
