//! The `slots` model of an LLM engine: parallel slots per replica, each serving one call.
//!
//! A call's work is its time on an otherwise idle replica. With a slow-down the replica's clock runs
//! slower the more slots are busy, for all its calls at once (generalised processor sharing): the
//! replica keeps a virtual time that advances at 1 / factor, and calls end at fixed virtual times.
//! Without one (`slowdown_per_busy = 0`) the end of a call is known when it starts, and each call has
//! an event of its own.

use super::router::Router;
use crate::ids::{AttemptId, DeviceId};
use crate::scenario::{LlmSlots, OnOutOfMemory};
use crate::stages::WaitingLine;
use forebay_engine::{DistError, Handle, Sampler, Span, Time};

/// A call that runs on a replica with a slow-down.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) id: AttemptId,
    /// Virtual times of its start, its first and its last token, seconds.
    pub(crate) start: f64,
    pub(crate) first: f64,
    pub(crate) last: f64,
    pub(crate) first_seen: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) device: Option<DeviceId>,
    /// Calls in service, in the order in which they started.
    pub(crate) jobs: Vec<Job>,
    /// Virtual seconds at `at`.
    virtual_s: f64,
    at: Time,
    pub(crate) wake: Option<Handle>,
    /// Sum of its calls' growth, GB per virtual second.
    pub(crate) growth: f64,
    /// From when on calls are served at full speed; none: the model is not loaded, and the first call
    /// loads it.
    warm_at: Option<Time>,
}

#[derive(Clone, Debug)]
pub(crate) struct SlotsStage {
    pub(crate) replicas: Vec<Replica>,
    pub(crate) router: Router,
    pub(crate) line: WaitingLine,
    pub(crate) max_queue: u32,
    pub(crate) time_limit: Option<Span>,
    pub(crate) slowdown: f64,
    pub(crate) slots_each: u32,
    pub(crate) on_out_of_memory: OnOutOfMemory,
    pub(crate) restart: Span,
    pub(crate) busy: u32,
    first_token: Sampler,
    per_prompt_token_s: f64,
    per_token: Sampler,
    pub(crate) per_call_gb: Option<Sampler>,
    pub(crate) per_token_gb: f64,
    /// By how much the first call of a fresh replica takes longer; zero where it was warmed.
    pub(crate) cold: Span,
}

/// Undisturbed times of a call, seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) first_s: f64,
    pub(crate) total_s: f64,
}

impl Work {
    #[inline]
    pub(crate) fn stretch(&mut self, factor: f64) {
        self.first_s *= factor;
        self.total_s *= factor;
    }

    #[inline]
    pub(crate) fn delay(&mut self, seconds: f64) {
        self.first_s += seconds;
        self.total_s += seconds;
    }
}

impl SlotsStage {
    pub(crate) fn new(stage: &LlmSlots, devices: &[DeviceId]) -> Result<Self, DistError> {
        let places = stage.places();
        let cold_s = if stage.warmed { 0.0 } else { stage.cold_first_call_s };
        let replicas = (0..places)
            .map(|i| Replica {
                device: (!devices.is_empty()).then(|| devices[i as usize % devices.len()]),
                jobs: Vec::with_capacity(stage.slots.min(64) as usize),
                virtual_s: 0.0,
                at: Time::ZERO,
                wake: None,
                growth: 0.0,
                warm_at: None,
            })
            .collect();
        let memory = stage.memory.as_ref();
        Ok(Self {
            replicas,
            router: Router::new(stage.routing, places, stage.slots),
            line: WaitingLine::default(),
            max_queue: stage.max_queue.unwrap_or(u32::MAX),
            time_limit: stage.time_limit_s.map(Span::from_secs_f64),
            slowdown: stage.slowdown_per_busy,
            slots_each: stage.slots,
            on_out_of_memory: memory.map_or(OnOutOfMemory::FailCall, |m| m.on_out_of_memory),
            restart: Span::from_secs_f64(memory.map_or(0.0, |m| m.restart_s)),
            busy: 0,
            first_token: stage.first_token_s.sampler()?,
            per_prompt_token_s: stage.per_prompt_token_s,
            per_token: stage.per_token_s.sampler()?,
            per_call_gb: memory.map(|m| m.per_call_gb.sampler()).transpose()?,
            per_token_gb: memory.map_or(0.0, |m| m.per_token_mb * 1e-3),
            cold: Span::from_secs_f64(cold_s),
        })
    }

    /// Whether calls of one replica slow each other.
    #[inline]
    pub(crate) fn shares(&self) -> bool {
        self.slowdown > 0.0
    }

    /// The undisturbed times of a call.
    #[inline]
    pub(crate) fn work(&self, tokens_in: u32, tokens_out: u32, draw: &mut forebay_engine::Draw) -> Work {
        let first_s = self.first_token.sample(draw) + self.per_prompt_token_s * f64::from(tokens_in);
        let total_s = first_s + self.per_token.sample(draw) * f64::from(tokens_out.saturating_sub(1));
        Work { first_s, total_s }
    }

    /// How much slower than alone the replica runs with so many calls.
    #[inline]
    pub(crate) fn factor(&self, calls: usize) -> f64 {
        1.0 + self.slowdown * (calls.max(1) - 1) as f64
    }
}

impl Replica {
    /// Brings virtual time to `now`, at the pace of the present number of calls.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time, factor: f64) {
        self.virtual_s += now.since(self.at).as_secs_f64() / factor;
        self.at = now;
    }

    /// Virtual seconds, as of the last [`Replica::advance`].
    pub(crate) fn virtual_s(&self) -> f64 {
        self.virtual_s
    }

    /// An idle replica's virtual time starts again at zero, so that it keeps its precision for ever.
    pub(crate) fn rest(&mut self) {
        debug_assert!(self.jobs.is_empty());
        self.virtual_s = 0.0;
        self.growth = 0.0;
    }

    /// Its model is no longer loaded: the next call is a first one.
    pub(crate) fn cold(&mut self) {
        self.warm_at = None;
    }

    /// How much longer a call takes that starts now because the model is still being loaded, where that
    /// takes `cold`. The first call has it loaded, those that come meanwhile wait for the rest.
    #[inline]
    pub(crate) fn loading(&mut self, now: Time, cold: Span) -> f64 {
        if cold == Span::ZERO {
            return 0.0;
        }
        self.warm_at.get_or_insert(now + cold).since(now).as_secs_f64()
    }

    /// The next virtual time at which a call has its first or last token.
    #[inline]
    pub(crate) fn next(&self) -> Option<f64> {
        self.jobs
            .iter()
            .map(|job| if job.first_seen { job.last } else { job.first.min(job.last) })
            .reduce(f64::min)
    }
}
