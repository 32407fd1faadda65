//! The service made from a scenario: everything in place, nothing moving yet.

use super::autoscale::Scaler;
use super::faults::Faults;
use super::host::Host;
use super::{
    Breakdown, EndpointPlan, Event, Executor, Measures, PatiencePlan, Plan, ResendPlan, Service, StageState,
};
use crate::accounts::Accounts;
use crate::attempts::Attempts;
use crate::clients::birth::Nursery;
use crate::clients::source::Arrivals;
use crate::ids::{DeviceId, StageId};
use crate::llm::batching_stage::BatchingStage;
use crate::llm::providers::ProvidersStage;
use crate::llm::slots::SlotsStage;
use crate::measure::{Group, StageMeasure};
use crate::memory::DeviceMemory;
use crate::outcome::{Digest, Tally};
use crate::request_log::RequestLog;
use crate::scenario::{Endpoint, Inputs, Loaded, Scenario, Source, Stage};
use crate::shadow::Shadow;
use crate::spans::Spans;
use crate::stages::cache::Cache;
use crate::stages::desk::Desk;
use crate::stages::knowledge_base::Knowledge;
use crate::stages::reranker::RerankStage;
use crate::stages::server::{Role, ServerStage};
use crate::telemetry::Meter;
use crate::timeline::Timeline;
use forebay_engine::{DistError, Simulation, Span, Stream, Time, TimeWeighted, Welford};
use forebay_policies::queueing::fifo::Fifo;
use forebay_policies::{Governor, Level, Policy, PolicyError, Queue, Signals, Site, Ticked};
use indexmap::IndexMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// Why a service could not be made from a scenario. [`Loaded::read`] finds all of these first and says
/// where they are; they can still come from a scenario that was put together in code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A distribution is not one.
    #[error("a distribution is wrong: {0}")]
    Dist(#[from] DistError),
    /// The policy cannot be built.
    #[error("policy: {0}")]
    Policy(#[from] PolicyError),
    /// A batching engine cannot be built.
    #[error("stages.{stage}: {why}")]
    Engine {
        /// Name of the stage.
        stage: String,
        /// What is wrong.
        why: String,
    },
    /// A device group that the scenario does not have.
    #[error("{place} names `{name}`, which the scenario does not have")]
    UnknownName {
        /// Path of the parameter.
        place: String,
        /// The name.
        name: String,
    },
    /// A call graph that cannot be followed.
    #[error("{place}: found {found}, allowed: {allowed}")]
    Path {
        /// Path of the parameter.
        place: String,
        /// What stands there.
        found: String,
        /// What may stand there.
        allowed: String,
    },
}

/// More model time-outs than windows hold, and the most that the parameter takes.
const NO_HAND_OFF: u32 = 100_000;

/// Most tenants that get a breakdown of their own.
const TENANTS_SHOWN: usize = 256;

/// First device of each group, and the number of devices.
struct Fleet {
    groups: IndexMap<String, Vec<DeviceId>>,
    memory: Vec<DeviceMemory>,
    empty_cache: Vec<Option<Span>>,
}

impl Fleet {
    fn new(scenario: &Scenario) -> Self {
        let mut fleet = Self { groups: IndexMap::new(), memory: Vec::new(), empty_cache: Vec::new() };
        for (name, device) in &scenario.devices {
            let first = fleet.memory.len() as u32;
            fleet.groups.insert(name.clone(), (first..first + device.count).map(DeviceId).collect());
            for _ in 0..device.count {
                fleet.memory.push(DeviceMemory::new(device));
                fleet.empty_cache.push(device.empty_cache_every_s.map(Span::from_secs_f64));
            }
        }
        fleet
    }

    fn group(&self, place: &str, name: Option<&String>) -> Result<Vec<DeviceId>, BuildError> {
        match name {
            None => Ok(Vec::new()),
            Some(name) => self
                .groups
                .get(name)
                .cloned()
                .ok_or_else(|| BuildError::UnknownName { place: place.to_owned(), name: name.clone() }),
        }
    }
}

impl Service {
    /// A simulation of one replication of a scenario, ready to run.
    ///
    /// # Errors
    /// When the scenario cannot be built; see [`BuildError`].
    pub fn simulation(loaded: &Loaded, seed: u64, replication: u64) -> Result<Simulation<Self>, BuildError> {
        let service = Self::new(loaded, seed, replication)?;
        let mut simulation = Simulation::new(service);
        simulation.world.schedule_first(&loaded.scenario, &mut simulation.calendar);
        Ok(simulation)
    }

    fn new(loaded: &Loaded, seed: u64, replication: u64) -> Result<Self, BuildError> {
        let scenario = &loaded.scenario;
        let mut fleet = Fleet::new(scenario);
        let (stages, watched) = build_stages(scenario, &loaded.inputs, &mut fleet)?;
        let policy = completed(scenario, &scenario.policy);
        let governor = Governor::new(&policy)?;
        let shadow =
            scenario.shadow.as_ref().map(|shadow| Shadow::new(scenario, &completed(scenario, shadow)));
        let shadow = shadow.transpose()?.map(Box::new);
        let traces: Vec<_> = scenario
            .workload
            .sources
            .values()
            .map(|source| match source {
                Source::Trace { trace, .. } => loaded.inputs.traces.get(trace).cloned(),
                _ => None,
            })
            .collect();
        let end = Time::ZERO + Span::from_secs_f64(scenario.run.duration_s);
        let mut sources = Vec::new();
        let mut luck = Vec::new();
        for (index, (source, trace)) in scenario.workload.sources.values().zip(&traces).enumerate() {
            let stream = Stream::new(seed, replication, "arrivals", index as u64);
            sources.push(Arrivals::new(source, trace.clone(), stream, end)?);
            luck.push(Stream::new(seed, replication, "luck", index as u64));
        }
        let class_names: Vec<_> = traces.iter().map(|t| t.as_ref().map(|t| t.classes().to_vec())).collect();
        let nursery = Nursery::new(scenario, &class_names)?;
        let mut plan = build_plan(scenario, &governor, &fleet, (seed, replication))?;
        if shadow.as_ref().is_some_and(|shadow| shadow.reads_signals()) {
            (plan.samples, plan.reads) = (true, true);
        }
        let signals = Signals::new(&scenario.policy.signals);
        let host = Host::new(scenario, (&governor, &signals), (seed, replication));
        let faults = Faults::new(scenario, |name| fleet.groups.get(name)?.first().copied())?;
        let scalers = stages
            .iter()
            .enumerate()
            .filter_map(|(index, (state, _))| {
                let slots = match state {
                    StageState::Slots(slots) => slots.slots_each,
                    StageState::Batching(batching) => batching.max_seqs,
                    StageState::Server(_) | StageState::Reranker(_) | StageState::Providers(_) => {
                        return None;
                    }
                };
                Scaler::new(scenario, StageId(index as u16), slots)
            })
            .collect();
        let stage_measures = stages.iter().map(|(_, capacity)| StageMeasure::new(*capacity)).collect();
        let executor_slots = u64::from(scenario.gateway.executor_slots.unwrap_or(u32::MAX));
        let step = Span::from_nanos((end.as_nanos() / u64::from(scenario.run.timeline_points)).max(1));
        Ok(Self {
            due: vec![None; sources.len()],
            sources,
            luck,
            nursery: Arc::new(nursery),
            born: 0,
            attempts: Attempts::default(),
            present: 0,
            signals,
            governor,
            ticked: Ticked::default(),
            executor: Executor { busy: 0, measure: StageMeasure::new(executor_slots) },
            devices: fleet.memory,
            watched,
            meter: Meter::new(&scenario.telemetry, Stream::new(seed, replication, "telemetry noise", 0)),
            timeline: Timeline::new(step, scenario.run.timeline_points as usize),
            measure: measures(scenario, stage_measures),
            stages: stages.into_iter().map(|(state, _)| state).collect(),
            tasks: VecDeque::new(),
            pump: false,
            expiry: None,
            spans: Spans::default(),
            log: RequestLog::default(),
            faults,
            scalers,
            host,
            accounts: Accounts::new(scenario, &policy),
            shadow,
            plan: Arc::new(plan),
        })
    }

    fn schedule_first(&mut self, scenario: &Scenario, calendar: &mut forebay_engine::Calendar<Event>) {
        calendar.schedule(self.plan.warm, Event::Warm);
        for index in 0..self.sources.len() {
            self.due[index] = self.sources[index].next(Time::ZERO);
            if let Some(due) = self.due[index] {
                calendar.schedule(due.at, Event::Arrive(index as u16));
            }
            // Users begin at a random point of their thinking, so that they do not all ask at once.
            for user in 0..self.sources[index].users() {
                self.think(Time::ZERO, index as u16, (user, 0), calendar);
            }
        }
        if self.plan.samples {
            calendar.schedule(Time::ZERO + self.meter.period, Event::Sample);
        }
        if let Some(period) = self.governor.tick_period_ns() {
            calendar.schedule(Time::from_nanos(period), Event::Tick);
        }
        if let Some(period) = self.shadow.as_ref().and_then(|shadow| shadow.tick_period_ns()) {
            calendar.schedule(Time::from_nanos(period), Event::ShadowTick);
        }
        for (index, period) in self.plan.empty_cache.iter().enumerate() {
            if let Some(period) = period {
                calendar.schedule(Time::ZERO + *period, Event::EmptyCache(index as u32));
            }
        }
        calendar.schedule(Time::ZERO + self.timeline.step, Event::Point);
        calendar.schedule(Time::ZERO + Span::from_secs_f64(scenario.run.duration_s), Event::Close);
        self.schedule_faults(calendar);
        self.start_scalers(calendar);
    }
}

/// A policy with what the service needs of it.
fn completed(scenario: &Scenario, policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    if scenario.gateway.executor_slots.is_some() {
        // Those for whom there is no slot have to wait somewhere.
        policy.queue.get_or_insert_with(|| Queue::Fifo(Fifo::default()));
    }
    if scenario.endpoints.values().any(|endpoint| endpoint.l4.is_none()) {
        // Where nobody takes hand-offs, time-outs of the model lead to none.
        policy.fallback.l4.llm_timeouts_above.get_or_insert(NO_HAND_OFF);
    }
    policy
}

fn measures(scenario: &Scenario, stages: Vec<StageMeasure>) -> Measures {
    // A dimension with one key is the total; it needs no groups of its own.
    let groups = |n: usize| if n > 1 { vec![Group::coarse(); n] } else { Vec::new() };
    let tenants = scenario.workload.population.tenants as usize;
    Measures {
        tally: Tally::new(stages.len()),
        digest: Digest::EMPTY,
        total: Group::fine(),
        by: Breakdown {
            class: groups(scenario.workload.classes.len()),
            tier: groups(scenario.workload.population.tiers.len()),
            level: if only_l1(scenario) { Vec::new() } else { vec![Group::coarse(); Level::ALL.len()] },
            endpoint: groups(scenario.endpoints.len()),
            tenant: groups(if tenants <= TENANTS_SHOWN { tenants } else { 0 }),
        },
        stages,
        in_system: TimeWeighted::new(Time::ZERO, 0),
        in_system_closed: None,
        sojourn_ns: 0,
        before_warm: 0,
        tpot_s: Welford::new(),
        latency_s: Welford::new(),
        tokens_in: 0,
        tokens_out: 0,
        vram: Welford::new(),
        vram_max: 0.0,
        kv: Welford::new(),
        kv_max: 0.0,
        out_of_memory: 0,
        restarts: 0,
        attempts: 0,
        rerank_wanted: 0,
        rerank_skipped: 0,
    }
}

/// Whether every answer is one of L1: no endpoint has another level, and nothing answers from a cache.
fn only_l1(scenario: &Scenario) -> bool {
    let one = |endpoint: &Endpoint| [&endpoint.l2, &endpoint.l3, &endpoint.l4].iter().all(|l| l.is_none());
    scenario.endpoints.values().all(one)
        && !scenario.stages.values().any(|stage| matches!(stage, Stage::SemanticCache(_)))
}

type Stages = Vec<(StageState, u64)>;

/// Stages with their capacities, and the devices of the LLM fleet.
fn build_stages(
    scenario: &Scenario,
    inputs: &Inputs,
    fleet: &mut Fleet,
) -> Result<(Stages, Vec<DeviceId>), BuildError> {
    let mut stages = Vec::new();
    let mut watched = Vec::new();
    for (name, stage) in &scenario.stages {
        let place = format!("stages.{name}");
        stages.push(match stage {
            Stage::Server(server) | Stage::Embedder(server) => {
                (StageState::Server(ServerStage::server(server, scenario)?), u64::from(server.servers))
            }
            Stage::Rules(_) | Stage::SemanticCache(_) | Stage::Agents(_) => {
                let server = with_role(scenario, StageId(stages.len() as u16), stage)?;
                let capacity = u64::from(server.servers);
                (StageState::Server(server), capacity)
            }
            Stage::VectorStore(store) => {
                (StageState::Server(ServerStage::vector_store(store)?), u64::from(store.connections))
            }
            Stage::Reranker(reranker) => {
                let devices = fleet.group(&place, reranker.device.as_ref())?;
                for device in used(&devices, reranker.gpus) {
                    fleet.memory[device.0 as usize].load(reranker.weights_gb);
                }
                (StageState::Reranker(RerankStage::new(reranker, &devices)?), u64::from(reranker.gpus))
            }
            Stage::LlmSlots(slots) => {
                let devices = fleet.group(&place, slots.memory.as_ref().map(|m| &m.device))?;
                if let Some(memory) = &slots.memory {
                    for device in each(&devices, slots.replicas) {
                        fleet.memory[device.0 as usize].load(memory.weights_gb);
                    }
                }
                watched.extend(used(&devices, slots.places()));
                let capacity = u64::from(slots.replicas) * u64::from(slots.slots);
                (StageState::Slots(SlotsStage::new(slots, &devices)?), capacity)
            }
            Stage::LlmBatching(batching) => {
                let devices = fleet.group(&place, batching.device.as_ref())?;
                for device in each(&devices, batching.replicas) {
                    let memory = &mut fleet.memory[device.0 as usize];
                    memory.load(memory.capacity_gb() * batching.memory_share);
                }
                watched.extend(used(&devices, batching.places()));
                let config =
                    batching.config(inputs).map_err(|why| BuildError::Engine { stage: name.clone(), why })?;
                let capacity = u64::from(batching.replicas) * u64::from(config.max_seqs);
                let stage = BatchingStage::new(batching, &config, &devices)
                    .map_err(|why| BuildError::Engine { stage: name.clone(), why })?;
                (StageState::Batching(stage), capacity)
            }
            Stage::Providers(providers) => {
                let capacity = ProvidersStage::capacity(providers).unwrap_or(u64::from(u32::MAX));
                (StageState::Providers(ProvidersStage::new(providers)?), capacity)
            }
        });
    }
    watched.sort_by_key(|d| d.0);
    watched.dedup();
    Ok((stages, watched))
}

/// A station that does more than take time.
fn with_role(scenario: &Scenario, id: StageId, stage: &Stage) -> Result<ServerStage, DistError> {
    Ok(match stage {
        Stage::Rules(rules) => {
            let mut server = ServerStage::server(&rules.server(), scenario)?;
            if let Some(base) = &rules.knowledge_base {
                server.role = Role::Rules(Box::new(Knowledge::new(base, scenario.workload.classes.len())));
            }
            server
        }
        Stage::SemanticCache(cache) => {
            let role = Role::Cache(Box::new(Cache::new(cache, &scenario.workload.questions, id)?));
            let mut server = ServerStage::playing(role, cache.lookups_at_once, &cache.lookup_s)?;
            server.time_limit = cache.time_limit_s.map(Span::from_secs_f64);
            server
        }
        Stage::Agents(agents) => {
            let run = &scenario.run;
            let at = |s: f64| Time::ZERO + Span::from_secs_f64(s);
            let desk = Desk::new(agents, (at(run.warmup_s), at(run.duration_s)))?;
            ServerStage::playing(Role::Desk(Box::new(desk)), None, &agents.hand_off_s)?
        }
        _ => unreachable!("only stages with a role come here"),
    })
}

/// The devices of a group that `n` replicas, placed round robin, touch.
fn used(devices: &[DeviceId], n: u32) -> Vec<DeviceId> {
    devices.iter().take(n as usize).copied().collect()
}

/// The device of each of `n` replicas, placed round robin; nothing where there are no devices.
fn each(devices: &[DeviceId], n: u32) -> impl Iterator<Item = DeviceId> {
    let n = if devices.is_empty() { 0 } else { n as usize };
    (0..n).map(|replica| devices[replica % devices.len()])
}

fn build_plan(
    scenario: &Scenario,
    governor: &Governor,
    fleet: &Fleet,
    key: (u64, u64),
) -> Result<Plan, BuildError> {
    let people = &scenario.workload.people;
    let gateway = &scenario.gateway;
    let end = Time::ZERO + Span::from_secs_f64(scenario.run.duration_s);
    let batching = scenario.stages.values().any(|s| matches!(s, Stage::LlmBatching(_)));
    let quality = &scenario.quality;
    Ok(Plan {
        endpoints: scenario
            .endpoints
            .iter()
            .map(|(name, endpoint)| endpoint_plan(scenario, name, endpoint))
            .collect::<Result<_, _>>()?,
        ingress: gateway.ingress_delay_s.as_ref().map(forebay_engine::Dist::sampler).transpose()?,
        executor_slots: gateway.executor_slots,
        deadline: gateway.deadline_s.map(Span::from_secs_f64),
        in_time: gateway.in_time_s.map(Span::from_secs_f64),
        patience: match &people.patience {
            None => None,
            Some(patience) => Some(PatiencePlan {
                give_up: patience.give_up_after_s.sampler()?,
                until: patience.until,
                noticed: patience.noticed,
            }),
        },
        resend: match &people.resend {
            None => None,
            Some(resend) => Some(ResendPlan {
                probability: resend.probability,
                after: resend.after_s.sampler()?,
                at_most: resend.at_most,
            }),
        },
        retries: scenario.workload.retries.clone(),
        quality: [quality.l1, quality.l2, quality.l3, quality.l4],
        kept_without_rerank: quality.kept_without_rerank.0,
        recall: quality.recall_points.clone(),
        last_resort: scenario
            .stages
            .values()
            .position(|stage| matches!(stage, Stage::SemanticCache(_)))
            .filter(|_| scenario.policy.fallback.cache_last_resort.is_some())
            .map(|index| StageId(index as u16)),
        warm: Time::ZERO + Span::from_secs_f64(scenario.run.warmup_s),
        end,
        empty_cache: fleet.empty_cache.clone(),
        samples: !scenario.devices.is_empty() || batching || reads_signals(scenario, governor),
        reads: reads_signals(scenario, governor),
        gated: Site::ALL.map(|site| governor.site_is_gated(site)),
        key,
    })
}

fn endpoint_plan(scenario: &Scenario, name: &str, endpoint: &Endpoint) -> Result<EndpointPlan, BuildError> {
    let mut paths = [const { Vec::new() }; 4];
    for (level, path) in Level::ALL.iter().zip(&mut paths) {
        let level = level.name();
        *path = scenario.expand(name, level, endpoint.path(level)).map_err(|wrong| BuildError::Path {
            place: format!("endpoints.{name}.{level}"),
            found: wrong.found,
            allowed: wrong.allowed,
        })?;
    }
    let reranks = paths[0].iter().any(|stage| matches!(scenario.stages[stage.index()], Stage::Reranker(_)));
    let mut taken = Level::ALL;
    for (index, has_one) in
        [true, endpoint.l2.is_some(), endpoint.l3.is_some(), endpoint.l4.is_some()].into_iter().enumerate()
    {
        if !has_one {
            taken[index] = taken[index - 1];
        }
    }
    Ok(EndpointPlan {
        paths,
        taken,
        documents: endpoint.documents,
        documents_kept: endpoint.documents_kept,
        documents_l2: endpoint.documents_l2,
        reranks,
        tokens_per_document: endpoint.tokens_per_document,
    })
}

/// Whether a policy may want to know a signal.
fn reads_signals(scenario: &Scenario, governor: &Governor) -> bool {
    scenario.policy.fallback.top_k.is_some()
        || governor.tick_period_ns().is_some()
        || !scenario.policy.admission.is_empty()
}
