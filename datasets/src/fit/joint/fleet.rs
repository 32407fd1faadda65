//! Several engines behind one log: replicas, and how requests are spread over them.

use forebay_model::llm::batching::{BatchingConfig, BatchingEngine, BatchingError, Job, Progress};
use serde::{Deserialize, Serialize};

use super::super::replay::Replayed;
use super::segment::Segment;

/// How the requests of a log came to its engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// One after the other.
    RoundRobin,
    /// To the engine with fewest requests, of equals the first.
    LeastLoaded,
    /// Replicas that step together, as experts spread over them make them do: they wait for each other in
    /// every iteration, and are one engine with the seats, budget and cache of all.
    Lockstep,
}

/// Equal engines behind one log.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// One of them.
    pub engine: BatchingConfig,
    /// How many there are.
    pub replicas: u32,
    /// How requests are spread over them.
    pub spread: Spread,
}

impl Fleet {
    /// A single engine.
    pub fn single(engine: BatchingConfig) -> Self {
        Self { engine, replicas: 1, spread: Spread::LeastLoaded }
    }

    /// The engines that a simulation runs: how many, and each one's settings.
    pub fn engines(&self) -> (usize, BatchingConfig) {
        let mut engine = self.engine.clone();
        if self.spread != Spread::Lockstep {
            return (self.replicas as usize, engine);
        }
        engine.max_seqs = engine.max_seqs.saturating_mul(self.replicas);
        engine.max_batched_tokens = engine.max_batched_tokens.saturating_mul(self.replicas);
        engine.kv_blocks = engine.kv_blocks.saturating_mul(self.replicas);
        (1, engine)
    }
}

/// What a replay shows besides the times of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// Most KV blocks in use in one engine.
    pub kv_blocks: u64,
    /// Most sequences in the batch of one engine.
    pub running: u32,
    /// Preemptions, all engines together.
    pub preemptions: u64,
}

/// Replays a segment until all requests of interest are over; those that are not over then, or were
/// refused, have NaN for times. For `start_delay_s` from its first arrival nothing is taken in.
///
/// # Errors
/// A configuration outside its ranges.
pub fn replay_fleet(
    segment: &Segment,
    fleet: &Fleet,
    start_delay_s: f64,
) -> Result<(Vec<Replayed>, Peaks), BatchingError> {
    trace_fleet(segment, fleet, start_delay_s).map(|traced| (traced.replayed, traced.peaks))
}

/// A replay with what the engines did.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) replayed: Vec<Replayed>,
    pub(super) peaks: Peaks,
    /// The engine of each request.
    pub(super) engine: Vec<u32>,
    /// How many iterations of its engine were over when each request arrived, had its first token and its
    /// last.
    pub(super) steps: Vec<[u64; 3]>,
    pub(super) engines: usize,
}

/// As [`replay_fleet`].
pub(super) fn trace_fleet(
    segment: &Segment,
    fleet: &Fleet,
    start_delay_s: f64,
) -> Result<Traced, BatchingError> {
    let (count, config) = fleet.engines();
    let engine = BatchingEngine::new(config)?;
    let bare = Replayed { first_token_s: f64::NAN, last_token_s: f64::NAN };
    let mut run = Run {
        engines: vec![engine; count],
        loads: vec![0; count],
        replayed: vec![bare; segment.requests.len()],
        steps: vec![[0; 3]; segment.requests.len()],
        judged_end: segment.judged.end,
        left: segment.judged.end,
        peaks: Peaks::default(),
        out: Vec::new(),
    };
    let mut engine_of = Vec::with_capacity(segment.requests.len());
    let opening_s = segment.requests.first().map_or(0.0, |first| first.arrival_s) + start_delay_s;
    for (index, request) in segment.requests.iter().enumerate() {
        let now = (request.arrival_s.max(opening_s) * 1e9).round() as u64;
        for engine in 0..count {
            run.advance(engine, now);
        }
        if run.left == 0 {
            break;
        }
        let to = match fleet.spread {
            _ if count == 1 => 0,
            Spread::RoundRobin => (segment.turn + index) % count,
            Spread::LeastLoaded | Spread::Lockstep => {
                (0..count).min_by_key(|&engine| run.loads[engine]).unwrap_or(0)
            }
        };
        run.loads[to] += 1;
        run.steps[index][0] = run.engines[to].iterations(now);
        engine_of.push(to as u32);
        let (tokens_in, tokens_out) = (request.tokens_in, request.tokens_out);
        run.engines[to].submit(now, Job { id: index as u64, tokens_in, tokens_out, priority: 0 });
    }
    for engine in 0..count {
        run.advance(engine, u64::MAX);
    }
    run.peaks.preemptions = run.engines.iter().map(BatchingEngine::preemptions).sum();
    let Run { replayed, peaks, steps, .. } = run;
    Ok(Traced { replayed, peaks, engine: engine_of, steps, engines: count })
}

struct Run {
    engines: Vec<BatchingEngine>,
    loads: Vec<u32>,
    replayed: Vec<Replayed>,
    steps: Vec<[u64; 3]>,
    judged_end: usize,
    /// Requests before `judged_end` that are not over.
    left: usize,
    peaks: Peaks,
    out: Vec<Progress>,
}

impl Run {
    /// Lets an engine work until just before an instant, or until nothing of interest is left.
    fn advance(&mut self, engine: usize, before: u64) {
        let place = &mut self.engines[engine];
        while let Some(at) = place.next_event().filter(|&at| at < before && self.left > 0) {
            // Blocks only grow between two events, so that the most are in use just before one.
            self.peaks.kv_blocks = self.peaks.kv_blocks.max(place.kv_blocks_used(at.saturating_sub(1)));
            place.advance(at, &mut self.out);
            self.peaks.running = self.peaks.running.max(place.running());
            let steps = place.iterations(at);
            for progress in self.out.drain(..) {
                let over = match progress {
                    Progress::FirstToken { id, at } => {
                        self.replayed[id as usize].first_token_s = at as f64 * 1e-9;
                        self.steps[id as usize][1] = steps;
                        continue;
                    }
                    Progress::Finished { id, at } => {
                        self.replayed[id as usize].last_token_s = at as f64 * 1e-9;
                        self.steps[id as usize][2] = steps;
                        id
                    }
                    Progress::Refused { id, .. } => id,
                    Progress::Started { .. } | Progress::Preempted { .. } => continue,
                };
                self.loads[engine] -= 1;
                self.left -= usize::from((over as usize) < self.judged_end);
            }
        }
    }
}
