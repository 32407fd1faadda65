//! The service while a run goes on: clients, gateway, stages, GPU memory and telemetry, driven by one
//! stream of events.
//!
//! | file | what |
//! | --- | --- |
//! | `build` | the service made from a scenario |
//! | `clients` | births, people who give up and ask again, retries by client code |
//! | `pipeline` | the way of an attempt through gates and stages |
//! | `stations` | server stations and the reranker |
//! | `engines` | the two LLM engines |
//! | `out_of_memory` | device memory that runs out |
//! | `roles` | what servers do beside taking time: cache, rules, hand-offs |
//! | `providers` | external providers, and the walk from one to the next |
//! | `ending` | ends of attempts and requests, and what they give back |
//! | `signals` | samples, ticks, and the timeline |
//! | `accounts` | what is told to the accounts and to the shadow |
//! | `faults` | what does not work, and when |
//! | `autoscale` | replicas that are started and stopped |
//! | `host` | memory of the gateway's host, and who is killed when it runs out |
//!
//! An event handler never calls another one. What follows from it (a gate that opens, a call that
//! fails) is put on a list of tasks that is worked off before the next event; so the order of effects is
//! fixed, and no chain of consequences can overflow the stack.

mod accounts;
#[cfg(test)]
mod accounts_tests;
mod autoscale;
mod build;
mod clients;
mod ending;
mod engines;
mod faults;
mod host;
mod out_of_memory;
mod pipeline;
mod providers;
#[cfg(test)]
mod providers_tests;
mod roles;
#[cfg(test)]
mod roles_tests;
mod signals;
mod stations;
#[cfg(test)]
mod tests;

pub use build::BuildError;
pub use faults::Edge;
pub(crate) use providers::ProviderVisit;

use crate::accounts::Accounts;
use crate::attempts::{Attempt, Attempts};
use crate::clients::birth::Nursery;
use crate::clients::source::{Arrivals, Due};
use crate::ids::{AttemptId, DeviceId, SourceId, StageId};
use crate::llm::batching_stage::BatchingStage;
use crate::llm::providers::ProvidersStage;
use crate::llm::router::Router;
use crate::llm::slots::SlotsStage;
use crate::measure::{Group, StageMeasure};
use crate::memory::DeviceMemory;
use crate::outcome::{Digest, End, Tally};
use crate::request_log::RequestLog;
use crate::scenario::{LevelQuality, PatienceUntil};
use crate::shadow::Shadow;
use crate::spans::Spans;
use crate::stages::reranker::RerankStage;
use crate::stages::server::ServerStage;
use crate::telemetry::Meter;
use crate::timeline::Timeline;
use forebay_engine::{Calendar, Handle, Sampler, Span, Stream, Time, TimeWeighted, Welford, World};
use forebay_policies::{Governor, Level, Signals, Site, Ticked};
use std::borrow::Cow;
use std::collections::VecDeque;

pub(crate) use autoscale::{Replicas, Scaler};
use faults::Faults;
use host::Host;

/// What can happen.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The next request of a source is born.
    Arrive(u16),
    /// A closed-loop user asks: source, user, and that user's count of questions.
    Ask(u16, u32, u32),
    /// An attempt reaches the gateway.
    Enter(AttemptId),
    /// A call ends at its server or slot.
    Done(AttemptId),
    /// The batch of a rerank GPU ends.
    BatchDone(u16, u32),
    /// A rerank batch that is not full must start.
    BatchDue(u16),
    /// Something happens on an LLM replica.
    ReplicaWake(u16, u32),
    /// A replica has loaded its model again.
    ReplicaUp(u16, u32),
    /// A wait at a gate, or the time limit of a stage, is over.
    Timer(AttemptId),
    /// A person loses patience.
    Patience(AttemptId),
    /// An attempt has used up its time.
    Deadline(AttemptId),
    /// A device's memory may be full.
    DeviceFull(u32),
    /// A caching allocator gives its free memory back.
    EmptyCache(u32),
    /// The meters are read.
    Sample,
    /// A reading arrives at the gateway.
    Deliver,
    /// A queued attempt has waited past its limit.
    Expire,
    /// The feedback loops run.
    Tick,
    /// The next point of the timeline.
    Point,
    /// The warm-up is over.
    Warm,
    /// Arrivals are over, and with them the measured window.
    Close,
    /// A fault begins, turns or ends.
    Fault(u16, Edge),
    /// An autoscaler looks at its stage.
    Scale(u16),
    /// A replica that an autoscaler started serves from now on: autoscaler, replica.
    Started(u16, u32),
    /// The gateway is back after it was killed.
    GatewayUp,
    /// The feedback loops of the shadow run.
    ShadowTick,
    /// Another process of its host is back after it was killed.
    NeighbourUp(u16),
}

/// What follows from an event, to be done before the next one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// An attempt goes on to the gates of its next stage.
    Proceed(AttemptId),
    /// An attempt ends.
    Finish(AttemptId, End),
}

/// A stage's machinery.
#[derive(Clone, Debug)]
pub(crate) enum StageState {
    Server(ServerStage),
    Reranker(RerankStage),
    Slots(SlotsStage),
    Batching(BatchingStage),
    Providers(ProvidersStage),
}

impl StageState {
    /// Which replica serves the next call, where a stage has several.
    pub(crate) fn router(&self) -> Option<&Router> {
        match self {
            Self::Slots(slots) => Some(&slots.router),
            Self::Batching(batching) => Some(&batching.router),
            Self::Server(_) | Self::Reranker(_) | Self::Providers(_) => None,
        }
    }

    pub(crate) fn router_mut(&mut self) -> Option<&mut Router> {
        match self {
            Self::Slots(slots) => Some(&mut slots.router),
            Self::Batching(batching) => Some(&mut batching.router),
            Self::Server(_) | Self::Reranker(_) | Self::Providers(_) => None,
        }
    }

    /// The device of a replica or GPU; none where it lives on none, or there is no such replica.
    pub(crate) fn device(&self, replica: u32) -> Option<DeviceId> {
        let replica = replica as usize;
        match self {
            Self::Reranker(reranker) => reranker.gpus.get(replica)?.device,
            Self::Slots(slots) => slots.replicas.get(replica)?.device,
            Self::Batching(batching) => batching.replicas.get(replica)?.device,
            Self::Server(_) | Self::Providers(_) => None,
        }
    }

    /// How many replicas or GPUs a stage has; 0 where it has none to tell apart.
    pub(crate) fn places(&self) -> u32 {
        match self {
            Self::Reranker(reranker) => reranker.gpus.len() as u32,
            Self::Slots(slots) => slots.replicas.len() as u32,
            Self::Batching(batching) => batching.replicas.len() as u32,
            Self::Server(_) | Self::Providers(_) => 0,
        }
    }

    /// Whether it serves nobody and nobody waits. A rerank batch that has begun runs to its end, whoever has
    /// left: it does not count.
    pub(crate) fn is_idle(&self) -> bool {
        let no_load = || self.router().is_none_or(|r| (0..self.places()).all(|place| r.load(place) == 0));
        match self {
            Self::Server(server) => server.busy == 0 && server.line.len() == 0,
            Self::Reranker(reranker) => reranker.line.len() == 0 && reranker.waiting_docs == 0,
            Self::Slots(slots) => {
                let empty = slots.replicas.iter().all(|replica| replica.jobs.is_empty());
                slots.busy == 0 && slots.line.len() == 0 && empty && no_load()
            }
            Self::Batching(batching) => {
                (batching.calls, batching.running, batching.waiting) == (0, 0, 0) && no_load()
            }
            Self::Providers(providers) => providers.busy() == 0 && providers.waiting.is_empty(),
        }
    }

    pub(crate) fn batching(&self) -> Option<&BatchingStage> {
        if let Self::Batching(stage) = self { Some(stage) } else { None }
    }

    /// The replica or GPU that serves an attempt at this stage, where a stage has several.
    pub(crate) fn replica(&self, attempt: &Attempt) -> Option<u32> {
        match self {
            Self::Server(_) | Self::Providers(_) => None,
            Self::Reranker(_) | Self::Slots(_) | Self::Batching(_) => Some(attempt.replica),
        }
    }
}

/// What of the scenario the running service needs, in the form it needs it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) endpoints: Vec<EndpointPlan>,
    pub(crate) ingress: Option<Sampler>,
    pub(crate) executor_slots: Option<u32>,
    pub(crate) deadline: Option<Span>,
    pub(crate) in_time: Option<Span>,
    pub(crate) patience: Option<PatiencePlan>,
    pub(crate) resend: Option<ResendPlan>,
    pub(crate) retries: Option<crate::scenario::Retries>,
    pub(crate) quality: [LevelQuality; 4],
    pub(crate) kept_without_rerank: f64,
    /// Share of right answers at L1 that stay right with so many documents; between points linear.
    pub(crate) recall: Vec<(f64, f64)>,
    /// Where the policy has a last resort: the first semantic cache, for attempts that have asked none.
    pub(crate) last_resort: Option<StageId>,
    pub(crate) warm: Time,
    pub(crate) end: Time,
    pub(crate) empty_cache: Vec<Option<Span>>,
    /// Meters are read: something is there to read, or a policy wants to.
    pub(crate) samples: bool,
    /// A policy may want to know the signals that no meter shows by itself.
    pub(crate) reads: bool,
    /// The governor can be asked at these sites.
    pub(crate) gated: [bool; 4],
    pub(crate) key: (u64, u64),
}

#[derive(Clone, Debug)]
pub(crate) struct EndpointPlan {
    /// Stages at each level.
    pub(crate) paths: [Vec<StageId>; 4],
    /// The level whose path is really taken at each level: the next better one that has a path.
    pub(crate) taken: [Level; 4],
    pub(crate) documents: u16,
    pub(crate) documents_kept: u16,
    pub(crate) documents_l2: u16,
    /// L1 passes a reranker.
    pub(crate) reranks: bool,
    pub(crate) tokens_per_document: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct PatiencePlan {
    pub(crate) give_up: Sampler,
    pub(crate) until: PatienceUntil,
    pub(crate) noticed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct ResendPlan {
    pub(crate) probability: f64,
    pub(crate) after: Sampler,
    pub(crate) at_most: u8,
}

/// The executor: attempts that are being served.
#[derive(Clone, Debug)]
pub(crate) struct Executor {
    pub(crate) busy: u32,
    pub(crate) measure: StageMeasure,
}

/// Breakdowns. A dimension with a single key has no groups of its own: it is the total. Where every answer
/// is one of L1, the levels have none either: see [`Measures::of_level`].
#[derive(Clone, Debug)]
pub(crate) struct Breakdown {
    pub(crate) class: Vec<Group>,
    pub(crate) tier: Vec<Group>,
    pub(crate) level: Vec<Group>,
    pub(crate) endpoint: Vec<Group>,
    pub(crate) tenant: Vec<Group>,
}

/// All measurements of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    pub(crate) tally: Tally,
    pub(crate) digest: Digest,
    pub(crate) total: Group,
    pub(crate) by: Breakdown,
    pub(crate) stages: Vec<StageMeasure>,
    pub(crate) in_system: TimeWeighted<u64>,
    /// Integral of the number in the system until the end of the warm-up.
    pub(crate) before_warm: u128,
    /// Mean and variance of the number in the system over the measured window.
    pub(crate) in_system_closed: Option<(f64, f64)>,
    /// Sum of all sojourns so far.
    pub(crate) sojourn_ns: u128,
    pub(crate) tpot_s: Welford,
    pub(crate) latency_s: Welford,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    pub(crate) vram: Welford,
    pub(crate) vram_max: f64,
    pub(crate) kv: Welford,
    pub(crate) kv_max: f64,
    pub(crate) out_of_memory: u64,
    pub(crate) restarts: u64,
    pub(crate) attempts: u64,
    /// Answers at L1 of endpoints that rerank, and those of them that were not reranked.
    pub(crate) rerank_wanted: u64,
    pub(crate) rerank_skipped: u64,
}

impl Measures {
    /// Answers of a level.
    pub(crate) fn of_level(&self, level: Level) -> Cow<'_, Group> {
        match self.by.level.get(level.index()) {
            Some(group) => Cow::Borrowed(group),
            None if level == Level::L1 => {
                Cow::Owned(Group { ended: self.total.answered, ..self.total.clone() })
            }
            None => Cow::Owned(Group::coarse()),
        }
    }

    /// Integral of the number in the system over all time until now.
    pub(crate) fn presence(&self, now: Time) -> u128 {
        self.before_warm + self.in_system.integral(now)
    }
}

/// The simulated service.
#[derive(Clone, Debug)]
pub struct Service {
    pub(crate) plan: std::sync::Arc<Plan>,
    pub(crate) nursery: std::sync::Arc<Nursery>,
    pub(crate) sources: Vec<Arrivals>,
    pub(crate) due: Vec<Option<Due>>,
    pub(crate) luck: Vec<Stream>,
    pub(crate) born: u64,
    pub(crate) attempts: Attempts,
    /// Requests in the system.
    pub(crate) present: u64,
    pub(crate) governor: Governor,
    pub(crate) signals: Signals,
    pub(crate) ticked: Ticked,
    pub(crate) executor: Executor,
    pub(crate) stages: Vec<StageState>,
    pub(crate) devices: Vec<DeviceMemory>,
    /// Devices of the fleet that serves LLM calls, whose mean is the `vram` signal.
    pub(crate) watched: Vec<DeviceId>,
    pub(crate) meter: Meter,
    pub(crate) timeline: Timeline,
    pub(crate) measure: Measures,
    pub(crate) tasks: VecDeque<Task>,
    /// A queued attempt may be served: the governor is to be asked.
    pub(crate) pump: bool,
    /// The pending event at which a queued attempt has waited too long.
    pub(crate) expiry: Option<(Time, Handle)>,
    /// Follows single requests, if it was asked to.
    pub(crate) spans: Spans,
    /// Logs every request's end, if it was asked to.
    pub(crate) log: RequestLog,
    pub(crate) faults: Faults,
    pub(crate) scalers: Vec<Scaler>,
    /// Kept only where the scenario gives the host's memory.
    pub(crate) host: Option<Host>,
    pub(crate) accounts: Accounts,
    /// A second policy that decides beside the live one, if the scenario has one.
    pub(crate) shadow: Option<Box<Shadow>>,
}

impl World for Service {
    type Event = Event;

    fn handle(&mut self, now: Time, event: Event, calendar: &mut Calendar<Event>) {
        match event {
            Event::Arrive(source) => self.arrive(now, SourceId(source), calendar),
            Event::Ask(source, user, count) => self.ask(now, SourceId(source), user, count, calendar),
            Event::Enter(id) => self.enter(now, id, calendar),
            Event::Done(id) => self.done(now, id, calendar),
            Event::BatchDone(stage, gpu) => self.batch_done(now, StageId(stage), gpu, calendar),
            Event::BatchDue(stage) => self.batch_due(now, StageId(stage), calendar),
            Event::ReplicaWake(stage, replica) => self.replica_wake(now, StageId(stage), replica, calendar),
            Event::ReplicaUp(stage, replica) => self.replica_up(now, StageId(stage), replica, calendar),
            Event::Timer(id) => self.timer(now, id, calendar),
            Event::Patience(id) => self.lose_patience(now, id, calendar),
            Event::Deadline(id) => self.deadline(id),
            Event::DeviceFull(device) => self.device_full(now, DeviceId(device), calendar),
            Event::EmptyCache(device) => self.empty_cache(now, DeviceId(device), calendar),
            Event::Sample => self.sample(now, calendar),
            Event::Deliver => self.deliver(now),
            Event::Expire => self.expire(now),
            Event::Tick => self.tick(now, calendar),
            Event::ShadowTick => self.shadow_tick(now, calendar),
            Event::Point => self.point(now, calendar),
            Event::Warm => self.warm(now),
            Event::Close => self.close(now),
            Event::Fault(index, edge) => self.fault(now, index, edge, calendar),
            Event::Scale(scaler) => self.scale(now, scaler, calendar),
            Event::Started(scaler, replica) => self.started(now, scaler, replica, calendar),
            Event::GatewayUp => self.gateway_up(now, calendar),
            Event::NeighbourUp(place) => self.neighbour_up(now, place, calendar),
        }
        self.work_off(now, calendar);
    }
}

impl Service {
    /// Works off what follows from an event.
    #[inline]
    fn work_off(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        loop {
            while let Some(task) = self.tasks.pop_front() {
                match task {
                    Task::Proceed(id) => self.proceed(now, id, calendar),
                    Task::Finish(id, end) => self.finish(now, id, end, calendar),
                }
            }
            if !self.pump {
                return;
            }
            self.serve_queue(now, calendar);
            self.watch_expiry(calendar);
        }
    }

    /// The gates in front of a stage, in order: after retrieval, then at the call.
    #[inline]
    pub(crate) fn site_of(&self, stage: StageId) -> Option<Site> {
        match self.stages[stage.index()] {
            StageState::Reranker(_) => Some(Site::RerankCall),
            StageState::Slots(_) | StageState::Batching(_) | StageState::Providers(_) => Some(Site::LlmCall),
            StageState::Server(_) => None,
        }
    }

    /// The stage that the attempt is at, or comes to next; `None` at the end of its path.
    #[inline]
    pub(crate) fn stage_at(&self, id: AttemptId) -> Option<StageId> {
        let attempt = &self.attempts[id];
        let endpoint = &self.plan.endpoints[usize::from(attempt.view.endpoint)];
        endpoint.paths[attempt.level.index()].get(usize::from(attempt.step)).copied()
    }

    /// Whether the request counts in the metrics: born after the warm-up.
    #[inline]
    pub(crate) fn counts(&self, born: Time) -> bool {
        born >= self.plan.warm
    }

    /// Whether what happens now is of the measured window: after the warm-up, before the arrivals' end.
    #[inline]
    pub(crate) fn in_window(&self, now: Time) -> bool {
        self.counts(now) && now <= self.plan.end
    }

    /// Requests in the system.
    pub fn in_system(&self) -> u64 {
        self.present
    }

    /// The level at which the governor answers now.
    pub fn level(&self) -> Level {
        self.governor.levels_now()
    }
}
