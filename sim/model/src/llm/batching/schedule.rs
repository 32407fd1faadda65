//! The scheduler: what the next iteration computes.

use std::cmp::Reverse;

use super::Progress;
use super::config::QueueOrder;
use super::cost::Load;
use super::engine::BatchingEngine;
use super::sequence::{Sequence, Stage};
use super::timeline::Segment;

impl BatchingEngine {
    /// Blocks that hold `tokens`.
    pub(super) fn blocks_for(&self, tokens: u64) -> u64 {
        tokens.div_ceil(u64::from(self.config.block_tokens))
    }

    /// Blocks that a sequence itself holds when it holds `tokens`.
    pub(super) fn own_blocks(&self, sequence: &Sequence, tokens: u64) -> u64 {
        self.blocks_for(tokens).saturating_sub(sequence.shared_blocks)
    }

    /// Blocks held once iteration `step` is decided.
    pub(super) fn blocks_at(&self, step: u64) -> u64 {
        self.decodes.blocks(step) + self.finishing_blocks + self.prefilling_blocks()
    }

    /// Decides the next iteration, and with it all that follow until something changes. `time` (units)
    /// and `ns` are now. False if there is nothing to compute.
    pub(super) fn decide(&mut self, time: u128, ns: u64, out: &mut Vec<Progress>) -> bool {
        let step = self.timeline.last() + 1;
        self.retire(step);
        let preempted = self.make_room(step, ns, out);
        let mut load =
            Load { decodes: self.decodes.count(), resident: self.decodes.tokens(step), ..Load::default() };
        let mut budget = u64::from(self.config.max_batched_tokens) - load.decodes;
        if let Some(slot) = self.prefilling {
            self.prefill(slot, step, &mut budget, &mut load);
        }
        if !preempted {
            self.admit(step, ns, &mut budget, &mut load, out);
        }
        if load.is_empty() {
            return false;
        }
        let mut last = step;
        let growth = self.units.growth(load.decodes);
        if load.prefill_tokens == 0 && !preempted {
            // Nobody can be let in before a running one leaves, so all goes on like this until the next
            // finish or the last block.
            let finish = self.next_finish().expect("a batch without prefill has decoding sequences");
            let limit = u64::from(self.config.kv_blocks) - self.finishing_blocks - self.prefilling_blocks();
            last = self.decodes.last_within(step, finish, limit);
        }
        let start = self.timeline.end(time).max(time);
        let duration = self.units.duration(&load);
        self.timeline.push(Segment { first: step, last, start, duration, growth });
        true
    }

    fn prefilling_blocks(&self) -> u64 {
        self.prefilling.map_or(0, |slot| {
            let sequence = &self.sequences[slot as usize];
            self.own_blocks(sequence, sequence.computed)
        })
    }

    /// The iteration of the next last token.
    fn next_finish(&mut self) -> Option<u64> {
        while let Some(&Reverse((finish, admission, slot))) = self.finishes.peek() {
            if self.is_decoding(admission, slot) {
                return Some(finish);
            }
            self.finishes.pop();
        }
        None
    }

    fn is_decoding(&self, admission: u64, slot: u32) -> bool {
        let sequence = &self.sequences[slot as usize];
        sequence.stage == Stage::Decoding && sequence.admission == admission
    }

    /// Takes the sequences whose last token comes before iteration `step` out of the decoding ones:
    /// they keep their seat and blocks until that token is out.
    pub(super) fn retire(&mut self, step: u64) {
        while let Some(finish) = self.next_finish().filter(|&finish| finish < step) {
            let Some(Reverse((_, _, slot))) = self.finishes.pop() else { return };
            let sequence = &mut self.sequences[slot as usize];
            sequence.stage = Stage::Finishing;
            let sequence = &self.sequences[slot as usize];
            let tokens = sequence.most_tokens();
            self.decodes.remove(sequence.offset, sequence.shared_blocks);
            self.finishing_tokens += tokens;
            self.finishing_blocks += self.own_blocks(sequence, tokens);
            self.finishing.push_back((finish, slot, sequence.arrival));
        }
    }

    /// Preempts until the running sequences have their blocks for iteration `step`. True if it did.
    fn make_room(&mut self, step: u64, ns: u64, out: &mut Vec<Progress>) -> bool {
        let mut preempted = false;
        while self.blocks_wanted(step) > u64::from(self.config.kv_blocks) {
            let slot = self.victim().expect("a single sequence always fits: longer ones were refused");
            self.preempt(slot, step);
            let sequence = &self.sequences[slot as usize];
            if !sequence.cancelled {
                out.push(Progress::Preempted { id: sequence.id, at: ns });
            }
            preempted = true;
        }
        preempted
    }

    /// Blocks that the running sequences hold once iteration `step` is decided, if all of them go on.
    fn blocks_wanted(&self, step: u64) -> u64 {
        let prefilling = self.prefilling.map_or(0, |slot| {
            let sequence = &self.sequences[slot as usize];
            let budget = u64::from(self.config.max_batched_tokens) - self.decodes.count();
            self.own_blocks(sequence, sequence.prefill_tokens().min(sequence.computed + budget))
        });
        self.decodes.blocks(step) + self.finishing_blocks + prefilling
    }

    /// Who is preempted next. Linear in the batch: preemption is rare, and costs the engine far more.
    fn victim(&self) -> Option<u32> {
        let running = self.sequences.iter().enumerate().filter(|(_, sequence)| {
            matches!(sequence.stage, Stage::Prefilling | Stage::Decoding | Stage::Finishing)
        });
        let slot = match self.config.queue {
            QueueOrder::Arrival => running.max_by_key(|(_, sequence)| sequence.admission),
            QueueOrder::Priority => running.max_by_key(|(_, sequence)| sequence.place),
        };
        slot.map(|(slot, _)| slot as u32)
    }

    /// Puts a running sequence back into the queue at the decision of iteration `step`.
    fn preempt(&mut self, slot: u32, step: u64) {
        let held = self.sequences[slot as usize].held_tokens(step - 1);
        let stage = self.sequences[slot as usize].stage;
        let blocks = self.leave_batch(slot, step - 1);
        let sequence = &mut self.sequences[slot as usize];
        match stage {
            Stage::Decoding => sequence.generated = held + 1 - sequence.tokens_in,
            Stage::Finishing => sequence.generated = sequence.tokens_out,
            Stage::Prefilling | Stage::Waiting | Stage::Vacant => {}
        }
        sequence.stage = Stage::Waiting;
        sequence.computed = 0;
        if self.config.queue == QueueOrder::Arrival {
            self.head_place -= 1;
            sequence.place = (0, self.head_place);
        }
        self.waiting.push(sequence.place, slot);
        self.preemptions += 1;
        let full = if self.config.resume_from_cache && stage != Stage::Finishing {
            (held / u64::from(self.config.block_tokens))
                .saturating_sub(self.sequences[slot as usize].shared_blocks)
        } else {
            0
        };
        let free = u64::from(self.config.kv_blocks).saturating_sub(self.blocks_at(step - 1));
        self.free_list.append_preempted(slot, blocks, full, free);
    }

    /// Takes a sequence out of the batch, as it stands after iteration `decided` was decided, and
    /// returns the blocks it held.
    pub(super) fn leave_batch(&mut self, slot: u32, decided: u64) -> u64 {
        let sequence = &self.sequences[slot as usize];
        let tokens = sequence.held_tokens(decided);
        let blocks = self.own_blocks(sequence, tokens);
        match sequence.stage {
            Stage::Prefilling => self.prefilling = None,
            Stage::Decoding => {
                self.decodes.remove(sequence.offset, sequence.shared_blocks);
                if self.finishes.len() > 2 * self.decodes.count() as usize + 64 {
                    self.forget_stale_finishes(slot);
                }
            }
            Stage::Finishing => {
                self.finishing_tokens -= tokens;
                self.finishing_blocks -= blocks;
            }
            Stage::Waiting | Stage::Vacant => return 0,
        }
        self.running -= 1;
        blocks
    }

    fn forget_stale_finishes(&mut self, leaving: u32) {
        let mut finishes = std::mem::take(&mut self.finishes);
        finishes
            .retain(|&Reverse((_, admission, slot))| slot != leaving && self.is_decoding(admission, slot));
        self.finishes = finishes;
    }

    /// Lets waiting jobs in, in their order, while there is budget, a seat and room.
    fn admit(&mut self, step: u64, ns: u64, budget: &mut u64, load: &mut Load, out: &mut Vec<Progress>) {
        while *budget > 0 && self.running < self.config.max_seqs {
            let Some(slot) = self.waiting.head(&self.sequences) else { return };
            let free = u64::from(self.config.kv_blocks) - self.blocks_at(step);
            let total = self.sequences[slot as usize].prefill_tokens();
            let (found, computed) = self.cached_tokens(slot, free);
            let wanted = if self.config.reserve_full_prompt { total } else { total.min(computed + *budget) };
            if self.own_blocks(&self.sequences[slot as usize], wanted) > free {
                return;
            }
            self.waiting.pop();
            self.free_list.take_back(slot, found);
            self.admissions += 1;
            self.running += 1;
            let sequence = &mut self.sequences[slot as usize];
            sequence.stage = Stage::Prefilling;
            sequence.admission = self.admissions;
            sequence.computed = computed;
            if !sequence.started {
                sequence.started = true;
                out.push(Progress::Started { id: sequence.id, at: ns });
            }
            self.prefilling = Some(slot);
            self.prefill(slot, step, budget, load);
        }
    }

    /// What a waiting job need not compute: blocks of its own that it finds again, and tokens in all.
    fn cached_tokens(&self, slot: u32, free: u64) -> (u64, u64) {
        let sequence = &self.sequences[slot as usize];
        let block = u64::from(self.config.block_tokens);
        let shared = sequence.shared_blocks;
        // The last token is always computed, and with it its block.
        let most = (sequence.prefill_tokens() - 1) / block - shared;
        let found = if sequence.started { self.free_list.surviving(slot, free).min(most) } else { 0 };
        (found, (shared + found) * block)
    }

    /// Computes the next chunk of a prompt in iteration `step`.
    fn prefill(&mut self, slot: u32, step: u64, budget: &mut u64, load: &mut Load) {
        let sequence = &mut self.sequences[slot as usize];
        let total = sequence.prefill_tokens();
        let chunk = (total - sequence.computed).min(*budget);
        if chunk == 0 {
            return;
        }
        load.add_chunk(sequence.computed, chunk);
        *budget -= chunk;
        sequence.computed += chunk;
        if sequence.computed < total {
            return;
        }
        // The prompt is complete: this iteration also yields an answer token.
        self.prefilling = None;
        if sequence.generated == 0 {
            self.firsts.push_back((step, slot, sequence.arrival));
        }
        sequence.finish = step + sequence.tokens_out - sequence.generated - 1;
        if sequence.finish == step {
            sequence.stage = Stage::Finishing;
            self.finishing.push_back((step, slot, sequence.arrival));
            self.finishing_tokens += total;
            self.finishing_blocks += self.own_blocks(&self.sequences[slot as usize], total);
        } else {
            sequence.stage = Stage::Decoding;
            sequence.offset = total as i64 - step as i64;
            self.decodes.add(sequence.offset, sequence.shared_blocks);
            self.finishes.push(Reverse((sequence.finish, sequence.admission, slot)));
        }
    }
}
