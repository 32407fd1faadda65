//! The naive twin: the same engine, iteration by iteration and block by block, written as plainly as
//! it can be. The tests hold the fast engine to it, to the nanosecond.

use std::collections::VecDeque;

use super::config::{BatchingConfig, QueueOrder};
use super::cost::{CostUnits, Load, UNIT_BITS};
use super::{Job, Progress, RefusalCause};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Waiting,
    Running,
    Gone,
}

#[derive(Clone, Debug)]
struct Twinned {
    id: u64,
    tokens_in: u64,
    tokens_out: u64,
    place: (u8, i64),
    stage: Stage,
    started: bool,
    cancelled: bool,
    decoding: bool,
    admission: u64,
    /// Answer tokens that came out, and those that came out or are under way.
    known: u64,
    asked: u64,
    computed: u64,
    /// Blocks of the prompt that others hold; its own come after these.
    shared: usize,
    blocks: Vec<usize>,
    /// Own blocks full when it was last preempted.
    full: u64,
}

/// An iteration under way: when it ends, and for whom it makes a token.
type Flight = (u128, Vec<usize>);

/// The twin. Sequences are never removed, so that an index is a name for ever.
pub(super) struct Twin {
    config: BatchingConfig,
    units: CostUnits,
    sequences: Vec<Twinned>,
    running: Vec<usize>,
    flights: VecDeque<Flight>,
    free: VecDeque<usize>,
    /// What each block last held: a sequence and the place in it.
    content: Vec<(usize, usize)>,
    wake: Option<u64>,
    cancels: Vec<usize>,
    refused: Vec<(u64, u64)>,
    admissions: u64,
    head_place: i64,
    shared_tokens: f64,
    pub(super) iterations: u64,
    pub(super) preemptions: u64,
    pub(super) events: Vec<Progress>,
}

impl Twin {
    pub(super) fn new(config: BatchingConfig) -> Self {
        let blocks = config.kv_blocks as usize;
        Self {
            units: CostUnits::new(&config.cost),
            config,
            sequences: Vec::new(),
            running: Vec::new(),
            flights: VecDeque::new(),
            free: (0..blocks).collect(),
            content: vec![(usize::MAX, 0); blocks],
            wake: None,
            cancels: Vec::new(),
            refused: Vec::new(),
            admissions: 0,
            head_place: 0,
            shared_tokens: 0.0,
            iterations: 0,
            preemptions: 0,
            events: Vec::new(),
        }
    }

    pub(super) fn submit(&mut self, now: u64, job: Job) {
        self.settle_before(now);
        let number = self.sequences.len() as i64 + 1;
        let priority = if self.config.queue == QueueOrder::Priority { job.priority } else { 0 };
        let (tokens_in, tokens_out) = (u64::from(job.tokens_in.max(1)), u64::from(job.tokens_out.max(1)));
        self.shared_tokens += tokens_in as f64 * self.config.prefix_hit_share;
        let block = u64::from(self.config.block_tokens);
        let shared = (self.shared_tokens as u64 / block).min((tokens_in - 1) / block) as usize;
        self.shared_tokens -= (shared as u64 * block) as f64;
        let fits = self.blocks_for(tokens_in + tokens_out - 1) - shared <= self.config.kv_blocks as usize;
        self.sequences.push(Twinned {
            id: job.id,
            tokens_in,
            tokens_out,
            place: (priority, number),
            stage: if fits { Stage::Waiting } else { Stage::Gone },
            started: false,
            cancelled: false,
            decoding: false,
            admission: 0,
            known: 0,
            asked: 0,
            computed: 0,
            shared,
            blocks: Vec::new(),
            full: 0,
        });
        if !fits {
            self.refused.push((job.id, now));
        } else if self.flights.is_empty() && self.wake.is_none() {
            self.wake = Some(now);
        }
    }

    /// Iterations that are composed from now on take `factor` times as long.
    pub(super) fn set_pace(&mut self, now: u64, factor: f64) {
        self.settle_before(now);
        self.units = CostUnits::new(&self.config.cost.times(factor));
    }

    pub(super) fn cancel(&mut self, now: u64, id: u64) -> bool {
        self.settle_before(now);
        let found = self.sequences.iter().position(|s| s.id == id && s.stage != Stage::Gone && !s.cancelled);
        let Some(index) = found else { return false };
        if self.sequences[index].stage == Stage::Waiting {
            self.sequences[index].stage = Stage::Gone;
        } else {
            self.sequences[index].cancelled = true;
            self.cancels.push(index);
        }
        true
    }

    /// Every boundary up to and including `now`.
    pub(super) fn advance(&mut self, now: u64) {
        for (id, at) in std::mem::take(&mut self.refused) {
            self.events.push(Progress::Refused { id, at, why: RefusalCause::TooLong });
        }
        while let Some(ns) = self.next_boundary().filter(|&ns| ns <= now) {
            self.boundary(ns);
        }
    }

    fn settle_before(&mut self, now: u64) {
        while let Some(ns) = self.next_boundary().filter(|&ns| ns < now) {
            self.boundary(ns);
        }
    }

    pub(super) fn next_boundary(&self) -> Option<u64> {
        self.flights.front().map(|flight| (flight.0 >> UNIT_BITS) as u64).or(self.wake)
    }

    pub(super) fn blocks_used(&self) -> u64 {
        self.sequences.iter().map(|s| s.blocks.len() as u64).sum()
    }

    pub(super) fn resident_tokens(&self) -> u64 {
        self.running.iter().map(|&i| self.sequences[i].computed).sum()
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.sequences.iter().filter(|s| s.stage == Stage::Waiting).count()
    }

    pub(super) fn blocks_free(&self) -> usize {
        self.free.len()
    }

    fn blocks_for(&self, tokens: u64) -> usize {
        tokens.div_ceil(u64::from(self.config.block_tokens)) as usize
    }

    fn boundary(&mut self, ns: u64) {
        self.wake = None;
        let mut time = u128::from(ns) << UNIT_BITS;
        if let Some((end, makers)) = self.flights.pop_front() {
            time = end;
            self.iterations += 1;
            self.output(ns, makers);
        }
        for index in std::mem::take(&mut self.cancels) {
            if self.sequences[index].stage == Stage::Running {
                self.sequences[index].stage = Stage::Gone;
                self.leave(index);
            }
        }
        let depth = if self.config.async_scheduling { 2 } else { 1 };
        while self.flights.len() < depth {
            let Some((load, makers)) = self.decide(ns) else { break };
            let start = self.flights.back().map_or(time, |flight| flight.0);
            self.flights.push_back((start + self.units.duration(&load), makers));
        }
    }

    fn output(&mut self, at: u64, makers: Vec<usize>) {
        let mut finished = Vec::new();
        for index in makers {
            let sequence = &mut self.sequences[index];
            if sequence.stage == Stage::Gone {
                continue;
            }
            sequence.known += 1;
            if sequence.known == 1 && !sequence.cancelled {
                self.events.push(Progress::FirstToken { id: sequence.id, at });
            }
            if sequence.known == sequence.tokens_out {
                finished.push(index);
            }
        }
        finished.sort_by_key(|&index| self.sequences[index].admission);
        for index in finished {
            if !self.sequences[index].cancelled {
                self.events.push(Progress::Finished { id: self.sequences[index].id, at });
            }
            self.sequences[index].stage = Stage::Gone;
            self.leave(index);
        }
    }

    /// Out of the batch: blocks go to the end of the free list, the last one first.
    fn leave(&mut self, index: usize) {
        self.running.retain(|&other| other != index);
        let blocks = std::mem::take(&mut self.sequences[index].blocks);
        self.free.extend(blocks.into_iter().rev());
    }

    fn take_blocks(&mut self, index: usize) {
        let wanted = self.blocks_for(self.sequences[index].computed) - self.sequences[index].shared;
        while self.sequences[index].blocks.len() < wanted {
            let block = self.free.pop_front().expect("room was made or checked");
            self.content[block] = (index, self.sequences[index].blocks.len());
            self.sequences[index].blocks.push(block);
        }
    }

    /// Tokens that each running sequence would compute: (index, tokens, whether it decodes).
    fn plan(&self) -> Vec<(usize, u64, bool)> {
        let mut budget = u64::from(self.config.max_batched_tokens);
        let mut plan = Vec::new();
        for &index in &self.running {
            let sequence = &self.sequences[index];
            if sequence.asked < sequence.tokens_out {
                let left = sequence.tokens_in + sequence.asked - sequence.computed;
                plan.push((index, left.min(budget), sequence.decoding));
                budget -= left.min(budget);
            }
        }
        plan
    }

    fn make_room(&mut self, at: u64) -> bool {
        let mut preempted = false;
        loop {
            let plan = self.plan();
            let wanted: usize = self
                .running
                .iter()
                .map(|&index| {
                    let more = plan.iter().find(|entry| entry.0 == index).map_or(0, |entry| entry.1);
                    self.blocks_for(self.sequences[index].computed + more) - self.sequences[index].shared
                })
                .sum();
            if wanted <= self.config.kv_blocks as usize {
                return preempted;
            }
            let victim = match self.config.queue {
                QueueOrder::Arrival => self.running.iter().max_by_key(|&&i| self.sequences[i].admission),
                QueueOrder::Priority => self.running.iter().max_by_key(|&&i| self.sequences[i].place),
            };
            let index = *victim.expect("a single sequence fits");
            self.leave(index);
            let sequence = &mut self.sequences[index];
            sequence.full = sequence.computed / u64::from(self.config.block_tokens) - sequence.shared as u64;
            sequence.stage = Stage::Waiting;
            sequence.decoding = false;
            sequence.computed = 0;
            if self.config.queue == QueueOrder::Arrival {
                self.head_place -= 1;
                sequence.place = (0, self.head_place);
            }
            self.events.push(Progress::Preempted { id: sequence.id, at });
            self.preemptions += 1;
            preempted = true;
        }
    }

    fn decide(&mut self, at: u64) -> Option<(Load, Vec<usize>)> {
        let preempted = self.make_room(at);
        let mut load = Load::default();
        let mut makers = Vec::new();
        let mut budget = u64::from(self.config.max_batched_tokens);
        for (index, tokens, decodes) in self.plan() {
            budget -= tokens;
            self.compute(index, tokens, decodes, &mut load, &mut makers);
        }
        while !preempted && budget > 0 && self.running.len() < self.config.max_seqs as usize {
            let waiting = (0..self.sequences.len()).filter(|&i| self.sequences[i].stage == Stage::Waiting);
            let Some(index) = waiting.min_by_key(|&i| self.sequences[i].place) else { break };
            let Some(chunk) = self.let_in(index, budget, at) else { break };
            budget -= chunk;
            self.compute(index, chunk, false, &mut load, &mut makers);
        }
        (!load.is_empty()).then_some((load, makers))
    }

    fn let_in(&mut self, index: usize, budget: u64, at: u64) -> Option<u64> {
        let sequence = &self.sequences[index];
        let block = u64::from(self.config.block_tokens);
        let total = sequence.tokens_in + sequence.known;
        let most = (total - 1) / block - sequence.shared as u64;
        let mut found = Vec::new();
        if self.config.resume_from_cache {
            for place in 0..sequence.full.min(most) as usize {
                let Some(&there) = self.free.iter().find(|&&b| self.content[b] == (index, place)) else {
                    break;
                };
                found.push(there);
            }
        }
        let computed = (sequence.shared + found.len()) as u64 * block;
        let chunk = (total - computed).min(budget);
        let wanted = if self.config.reserve_full_prompt { total } else { computed + chunk };
        if self.blocks_for(wanted) - sequence.shared > self.free.len() {
            return None;
        }
        self.free.retain(|block| !found.contains(block));
        self.admissions += 1;
        let sequence = &mut self.sequences[index];
        sequence.blocks = found;
        sequence.computed = computed;
        sequence.asked = sequence.known;
        sequence.stage = Stage::Running;
        sequence.admission = self.admissions;
        if !sequence.started {
            sequence.started = true;
            self.events.push(Progress::Started { id: sequence.id, at });
        }
        self.running.push(index);
        Some(chunk)
    }

    fn compute(
        &mut self,
        index: usize,
        tokens: u64,
        decodes: bool,
        load: &mut Load,
        makers: &mut Vec<usize>,
    ) {
        if tokens == 0 {
            return;
        }
        let context = self.sequences[index].computed;
        self.sequences[index].computed += tokens;
        self.take_blocks(index);
        if decodes {
            load.decodes += 1;
            load.resident += context + 1;
        } else {
            load.add_chunk(context, tokens);
        }
        let sequence = &mut self.sequences[index];
        if sequence.computed == sequence.tokens_in + sequence.asked {
            sequence.decoding = true;
            sequence.asked += 1;
            makers.push(index);
        }
    }
}
