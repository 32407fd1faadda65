//! The engine's state, what the caller may do to it, and the iteration boundary.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::config::{BatchingConfig, BatchingError, QueueOrder};
use super::cost::{CostUnits, UNIT_BITS};
use super::decodes::Decodes;
use super::free_list::FreeList;
use super::sequence::{Sequence, Stage};
use super::timeline::{Timeline, to_ns};
use super::waiting::Waiting;
use super::{Job, Progress, RefusalCause};

/// A continuous-batching engine. See the module for what it does and how it must be driven.
#[derive(Clone, Debug)]
pub struct BatchingEngine {
    pub(super) config: BatchingConfig,
    pub(super) units: CostUnits,
    /// Iterations that are composed beyond the running one: 1 with async scheduling, else 0.
    pub(super) lead: u64,

    pub(super) sequences: Vec<Sequence>,
    vacant: Vec<u32>,
    slots: BTreeMap<u64, u32>,
    arrivals: u64,
    /// Prompt tokens found in the prefix cache so far and not yet given to a job as whole blocks.
    shared_tokens: f64,
    pub(super) admissions: u64,
    /// The place that the next preempted job takes at the head of the queue; counts down.
    pub(super) head_place: i64,
    pub(super) waiting: Waiting,

    /// Running sequences: prefilling, decoding and finishing.
    pub(super) running: u32,
    /// The one sequence whose prompt is partly computed, always the latest admitted.
    pub(super) prefilling: Option<u32>,
    pub(super) decodes: Decodes,
    /// Ends of decoding sequences: (iteration, admission, slot); entries of those who left it early
    /// stay until they surface.
    pub(super) finishes: BinaryHeap<Reverse<(u64, u64, u32)>>,
    /// Sequences whose last token is under way, by iteration: (iteration, slot, arrival).
    pub(super) finishing: VecDeque<(u64, u32, u64)>,
    /// Blocks and tokens that finishing sequences hold.
    pub(super) finishing_blocks: u64,
    pub(super) finishing_tokens: u64,
    /// First tokens under way, by iteration.
    pub(super) firsts: VecDeque<(u64, u32, u64)>,
    pub(super) free_list: FreeList,

    pub(super) timeline: Timeline,
    /// The last iteration whose end has been handled, and the iteration whose end is handled next.
    pub(super) done: u64,
    next_step: u64,
    /// When `advance` must be called next, ns; `u64::MAX` for never.
    next_ns: u64,
    /// Up to when boundaries are settled: those at or before it can no longer be changed.
    settled: Option<u64>,
    /// Something changed that the decisions made in bulk did not foresee.
    dirty: bool,
    /// Sequences to take out of the batch at the next boundary, with their arrivals.
    cancelled: Vec<(u32, u64)>,
    refused: Vec<u64>,
    refused_ns: u64,
    /// Reused at every boundary.
    ending: Vec<(u64, u32)>,
    pub(super) preemptions: u64,
}

impl BatchingEngine {
    /// An idle engine.
    ///
    /// # Errors
    /// The first setting that is outside its range.
    pub fn new(config: BatchingConfig) -> Result<Self, BatchingError> {
        config.check()?;
        Ok(Self {
            units: CostUnits::new(&config.cost),
            lead: u64::from(config.async_scheduling),
            sequences: Vec::new(),
            vacant: Vec::new(),
            slots: BTreeMap::new(),
            arrivals: 0,
            shared_tokens: 0.0,
            admissions: 0,
            head_place: 0,
            waiting: Waiting::default(),
            running: 0,
            prefilling: None,
            decodes: Decodes::new(config.block_tokens),
            finishes: BinaryHeap::new(),
            finishing: VecDeque::new(),
            finishing_blocks: 0,
            finishing_tokens: 0,
            firsts: VecDeque::new(),
            free_list: FreeList::default(),
            timeline: Timeline::default(),
            done: 0,
            next_step: 0,
            next_ns: u64::MAX,
            settled: None,
            dirty: false,
            cancelled: Vec::new(),
            refused: Vec::new(),
            refused_ns: u64::MAX,
            ending: Vec::new(),
            preemptions: 0,
            config,
        })
    }

    /// Hands in a job. It waits from `now` on and is looked at by the next iteration boundary. A job
    /// that can never fit is refused at the next `advance`.
    pub fn submit(&mut self, now: u64, job: Job) {
        debug_assert!(
            now <= self.next_ns,
            "advance() was due at {} ns, before this submission",
            self.next_ns
        );
        debug_assert!(!self.slots.contains_key(&job.id), "job {} is in the engine already", job.id);
        self.arrivals += 1;
        let place = match self.config.queue {
            QueueOrder::Arrival => (0, self.arrivals as i64),
            QueueOrder::Priority => (job.priority, self.arrivals as i64),
        };
        let mut sequence = Sequence::new(&job, self.arrivals, place);
        sequence.shared_blocks = self.share_prefix(sequence.tokens_in);
        if self.own_blocks(&sequence, sequence.most_tokens()) > u64::from(self.config.kv_blocks) {
            self.refused.push(job.id);
            self.refused_ns = self.refused_ns.min(now);
            return;
        }
        let slot = if let Some(slot) = self.vacant.pop() {
            self.sequences[slot as usize] = sequence;
            slot
        } else {
            self.sequences.push(sequence);
            self.sequences.len() as u32 - 1
        };
        self.slots.insert(job.id, slot);
        self.waiting.push(place, slot);
        // Only a job at the head of the queue that finds a seat changes what was decided in bulk.
        if self.running < self.config.max_seqs && self.waiting.head(&self.sequences) == Some(slot) {
            self.interrupt(now);
        }
    }

    /// The next job's share of what all jobs find in the prefix cache, blocks. What does not make a whole
    /// block is carried over to the next job, so that the share holds whatever the lengths.
    fn share_prefix(&mut self, tokens_in: u64) -> u64 {
        let block = u64::from(self.config.block_tokens);
        self.shared_tokens += tokens_in as f64 * self.config.prefix_hit_share;
        // The last token is always computed, and with it its block.
        let blocks = (self.shared_tokens as u64 / block).min((tokens_in - 1) / block);
        self.shared_tokens -= (blocks * block) as f64;
        blocks
    }

    /// Takes a job out, as when its client goes away: from the queue at once, from the batch at the
    /// next iteration boundary. Nothing more is reported of it. False if there is no such job.
    pub fn cancel(&mut self, now: u64, id: u64) -> bool {
        debug_assert!(
            now <= self.next_ns,
            "advance() was due at {} ns, before this cancellation",
            self.next_ns
        );
        let Some(slot) = self.slots.remove(&id) else { return false };
        if self.sequences[slot as usize].stage == Stage::Waiting {
            self.vacate(slot);
            self.waiting.left(&self.sequences);
        } else {
            let sequence = &mut self.sequences[slot as usize];
            sequence.cancelled = true;
            self.cancelled.push((slot, sequence.arrival));
        }
        self.interrupt(now);
        true
    }

    /// From the next iteration boundary on, iterations take `factor` times as long as configured.
    pub fn set_pace(&mut self, now: u64, factor: f64) {
        self.units = CostUnits::new(&self.config.cost.times(factor));
        self.interrupt(now);
    }

    /// When [`BatchingEngine::advance`] must be called next, ns; none while nothing can happen.
    pub fn next_event(&self) -> Option<u64> {
        let next = self.next_ns.min(self.refused_ns);
        (next != u64::MAX).then_some(next)
    }

    /// Handles everything up to and including `now` and appends what happened, in order of time.
    pub fn advance(&mut self, now: u64, out: &mut Vec<Progress>) {
        if self.refused_ns <= now {
            let at = self.refused_ns;
            let refusals = self.refused.drain(..);
            out.extend(refusals.map(|id| Progress::Refused { id, at, why: RefusalCause::TooLong }));
            self.refused_ns = u64::MAX;
        }
        while self.next_ns <= now {
            self.boundary(out);
        }
        self.settled = self.settled.max(Some(now));
    }

    /// Makes the first iteration boundary at or after `now` that is not settled the next one handled.
    fn interrupt(&mut self, now: u64) {
        self.dirty = true;
        if self.timeline.last() == self.done {
            // Nothing runs: the engine wakes at once.
            self.next_step = self.done;
            self.next_ns = now;
            return;
        }
        let unsettled = self.settled.map_or(0, |settled| settled.saturating_add(1));
        let step = self.timeline.first_ending_at(now.max(unsettled), self.done);
        if let Some(step) = step.filter(|&step| step < self.next_step) {
            self.next_step = step;
            self.next_ns = to_ns(self.timeline.end_of(step));
        }
    }

    /// The end of iteration `next_step`, or the moment an idle engine wakes.
    fn boundary(&mut self, out: &mut Vec<Progress>) {
        let step = self.next_step;
        let ns = self.next_ns;
        let woken = step == self.done;
        let time = if woken { u128::from(ns) << UNIT_BITS } else { self.timeline.end_of(step) };
        self.done = step;
        self.retire(step + 1);
        self.emit(step, ns, out);
        self.drop_cancelled();
        if self.dirty || self.timeline.last() <= step + self.lead {
            self.dirty = false;
            if self.timeline.last() > step + self.lead {
                self.timeline.cut_after(step + self.lead);
            }
            while self.timeline.last() <= step + self.lead {
                if !self.decide(time, ns, out) {
                    break;
                }
            }
        }
        self.timeline.forget_until(step);
        self.plan_next(step);
    }

    /// Reports what iteration `step` produced: first tokens, then finished jobs, each in the order of
    /// their admission.
    fn emit(&mut self, step: u64, at: u64, out: &mut Vec<Progress>) {
        while let Some(&(_, slot, arrival)) = self.firsts.front().filter(|first| first.0 <= step) {
            self.firsts.pop_front();
            let sequence = &self.sequences[slot as usize];
            if sequence.arrival == arrival && !sequence.cancelled {
                out.push(Progress::FirstToken { id: sequence.id, at });
            }
        }
        while let Some(&(_, slot, arrival)) = self.finishing.front().filter(|last| last.0 <= step) {
            self.finishing.pop_front();
            if self.sequences[slot as usize].arrival == arrival {
                self.ending.push((self.sequences[slot as usize].admission, slot));
            }
        }
        let mut ending = std::mem::take(&mut self.ending);
        ending.sort_unstable();
        for (_, slot) in ending.drain(..) {
            let sequence = &self.sequences[slot as usize];
            if !sequence.cancelled {
                out.push(Progress::Finished { id: sequence.id, at });
                self.slots.remove(&sequence.id);
            }
            self.dirty |= self.waiting.len() > 0;
            self.release(slot, step);
        }
        self.ending = ending;
    }

    /// Takes the cancelled sequences out of the batch.
    fn drop_cancelled(&mut self) {
        let mut cancelled = std::mem::take(&mut self.cancelled);
        for (slot, arrival) in cancelled.drain(..) {
            let sequence = &self.sequences[slot as usize];
            if sequence.arrival == arrival && sequence.stage != Stage::Vacant {
                self.release(slot, self.timeline.last().min(self.done + self.lead));
            }
        }
        self.cancelled = cancelled;
    }

    /// Takes a sequence out of the engine, wherever it is; `decided` is the last iteration that stands.
    fn release(&mut self, slot: u32, decided: u64) {
        let sequence = &self.sequences[slot as usize];
        if sequence.stage == Stage::Waiting {
            self.vacate(slot);
            self.waiting.left(&self.sequences);
        } else {
            let blocks = self.leave_batch(slot, decided);
            self.free_list.append(blocks);
            self.vacate(slot);
        }
    }

    /// Empties a slot.
    fn vacate(&mut self, slot: u32) {
        let sequence = &mut self.sequences[slot as usize];
        sequence.stage = Stage::Vacant;
        sequence.arrival = 0;
        self.free_list.forget(slot);
        self.vacant.push(slot);
    }

    /// Finds the next boundary at which anything happens.
    fn plan_next(&mut self, step: u64) {
        let last = self.timeline.last();
        if last == step {
            self.next_ns = u64::MAX;
            return;
        }
        // Its decision is due, or the output of an iteration before it.
        let mut next = last.saturating_sub(self.lead).max(step + 1);
        for produced in [self.firsts.front(), self.finishing.front()].into_iter().flatten() {
            next = next.min(produced.0.max(step + 1));
        }
        self.next_step = next;
        self.next_ns = to_ns(self.timeline.end_of(next));
    }
}
