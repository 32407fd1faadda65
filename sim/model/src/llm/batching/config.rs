//! Settings of the batching engine: those of the real engine that change what it does, with the names
//! they go by here, and the check that they make sense together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cost::IterationCost;

/// Largest block size accepted, tokens. Real engines use 16 to 128.
const BLOCK_TOKENS_MAX: u32 = 1024;
/// Largest number of sequences accepted in one batch.
const MAX_SEQS_MAX: u32 = 65_536;
/// Largest cache accepted, tokens; keeps every exact sum inside 128 bits.
const CACHE_TOKENS_MAX: u64 = 1 << 31;

/// How the waiting queue is ordered, and who is preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// First come, first served; the latest admitted is preempted and returns to the head.
    #[default]
    Arrival,
    /// By priority (0 first), then by arrival; the last in that order is preempted.
    Priority,
}

/// Settings of one engine (one replica of one model).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchingConfig {
    /// What an iteration costs.
    pub cost: IterationCost,
    /// Most sequences in the batch, 1 to 65 536 (vLLM: `max_num_seqs`).
    pub max_seqs: u32,
    /// Most tokens computed in one iteration, at least `max_seqs` (vLLM: `max_num_batched_tokens`).
    pub max_batched_tokens: u32,
    /// KV cache, blocks, at least 1 (vLLM prints it at start: `num_gpu_blocks`).
    pub kv_blocks: u32,
    /// Tokens in a block, 1 to 1024.
    #[serde(default = "default_block_tokens")]
    pub block_tokens: u32,
    /// Share of all prompt tokens found in the prefix cache, 0 to 1, spread evenly over the jobs in whole
    /// blocks. They are not computed again, and their blocks are those of the job that computed them
    /// first: right for system prompts and jobs that overlap, too favourable for conversations whose
    /// earlier turn has long left the batch.
    #[serde(default)]
    pub prefix_hit_share: f64,
    /// Order of the waiting queue.
    #[serde(default)]
    pub queue: QueueOrder,
    /// Compose the next iteration while one runs (vLLM: `async_scheduling`, on since 0.14).
    #[serde(default = "default_true")]
    pub async_scheduling: bool,
    /// Let a job in only if its whole prompt fits in the free blocks, not just its first chunk (vLLM:
    /// `scheduler_reserve_full_isl`).
    #[serde(default = "default_true")]
    pub reserve_full_prompt: bool,
    /// A preempted job finds its blocks again as long as no one took them (vLLM:
    /// `enable_prefix_caching`).
    #[serde(default = "default_true")]
    pub resume_from_cache: bool,
}

fn default_block_tokens() -> u32 {
    16
}

fn default_true() -> bool {
    true
}

/// A setting outside its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found}: it must be {allowed}")]
pub struct BatchingError {
    /// The setting, as it is spelled in a scenario.
    pub field: &'static str,
    /// What was found.
    pub found: String,
    /// What is allowed.
    pub allowed: String,
}

impl BatchingError {
    pub(super) fn new(field: &'static str, found: &dyn ToString, allowed: &str) -> Self {
        Self { field, found: found.to_string(), allowed: allowed.to_owned() }
    }
}

impl BatchingConfig {
    /// Checks every range.
    ///
    /// # Errors
    /// The first setting that is outside its range.
    pub fn check(&self) -> Result<(), BatchingError> {
        self.cost.check()?;
        if self.max_seqs == 0 || self.max_seqs > MAX_SEQS_MAX {
            return Err(BatchingError::new("max_seqs", &self.max_seqs, "1 to 65536"));
        }
        if self.max_batched_tokens < self.max_seqs {
            let allowed = format!("at least max_seqs ({}): each sequence needs a token", self.max_seqs);
            return Err(BatchingError::new("max_batched_tokens", &self.max_batched_tokens, &allowed));
        }
        if self.block_tokens == 0 || self.block_tokens > BLOCK_TOKENS_MAX {
            return Err(BatchingError::new("block_tokens", &self.block_tokens, "1 to 1024"));
        }
        let tokens = u64::from(self.kv_blocks) * u64::from(self.block_tokens);
        if tokens == 0 || tokens > CACHE_TOKENS_MAX {
            return Err(BatchingError::new(
                "kv_blocks",
                &self.kv_blocks,
                "at least 1, and at most 2^31 tokens in all",
            ));
        }
        if !(0.0..=1.0).contains(&self.prefix_hit_share) {
            return Err(BatchingError::new("prefix_hit_share", &self.prefix_hit_share, "0 to 1"));
        }
        Ok(())
    }
}
