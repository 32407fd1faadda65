//! Faults while a run goes on: which are on, what they ask of whom, and what happens at their edges.
//!
//! [`Faults`] answers questions (is this provider out, how much slower is that stage); stages ask where
//! they act. What cannot wait to be asked is done at the edge: calls on a lost GPU break, a replica that
//! crashed is taken out of its router, the governor is told. A scenario without faults has no windows, no
//! events, and asks an empty list.
//!
//! A wall clock that is set back breaks the governor's contract that moments never go back, on purpose: it
//! is what a gateway with such a clock does. Modules take spans that saturate at 0, so a bucket stands
//! still, a dwell or a degraded time lasts longer, and readings count as old, until the clock shows again
//! what it showed before. The driver's own timers (waits at gates, time limits, ticks) run on simulated
//! time; what it schedules by the governor's clock, the end of a wait in the queue, it schedules anew.

use super::{Event, Service, StageState};
use crate::attempts::Phase;
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, DeviceId, StageId};
use crate::llm::router::Router;
use crate::outcome::{End, Failure};
use crate::scenario::{Clock, Fault, Scenario, Stage};
use forebay_engine::{Calendar, Chance, DistError, Sampler, Span, Time};
use forebay_policies::{Moment, Notice};
use std::ops::Range;

/// What happens to a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Begin,
    /// A clock that jitters is set, or set right.
    Turn,
    /// It is over.
    End,
}

/// What the meters do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metering {
    /// They show what is.
    Live,
    /// They show what they showed last.
    Frozen,
    /// Nothing comes from them.
    Stopped,
}

/// What a fault does, with its names looked up.
#[derive(Clone, Debug)]
enum What {
    ProviderOut { stage: StageId, provider: usize },
    Slow { stage: StageId, factor: f64 },
    GpuLost { devices: Range<u32> },
    Crash { stage: StageId, replica: Option<u32>, restart: Span, down: Option<u32> },
    Tell { lost: Notice, back: Notice },
    Metrics { stop: bool },
    KnowledgeBase,
    ClockStep { by_ns: i64, every: Option<Span>, set: bool },
    Network { extra: Sampler },
}

/// A fault and its window.
#[derive(Clone, Debug)]
struct Window {
    name: String,
    kind: &'static str,
    from: Time,
    to: Option<Time>,
    on: bool,
    what: What,
}

impl Window {
    fn covers(&self, at: Time) -> bool {
        self.from <= at && self.to.is_some_and(|to| at < to)
    }
}

/// All faults of a scenario, and which of them are on.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    windows: Vec<Window>,
    /// By how much each stage is slower; empty while none is.
    slow: Vec<f64>,
    /// By how much the governor's clock is off, nanoseconds; always 0 with a monotonic one.
    clock_off_ns: i64,
    clock: Clock,
}

impl Faults {
    /// The faults of a scenario; `devices` gives the first device of a group. A name that the scenario
    /// does not have stands for nothing; [`crate::Loaded::read`] refuses it.
    pub(crate) fn new(
        scenario: &Scenario,
        devices: impl Fn(&str) -> Option<DeviceId>,
    ) -> Result<Self, DistError> {
        let mut windows = Vec::with_capacity(scenario.faults.len());
        for (name, fault) in &scenario.faults {
            let Some(what) = what(scenario, fault, &devices)? else { continue };
            let at = |s: f64| Time::ZERO + Span::from_secs_f64(s);
            windows.push(Window {
                name: name.clone(),
                kind: fault.kind(),
                from: at(fault.from_s()),
                to: fault.to_s().map(at),
                on: false,
                what,
            });
        }
        Ok(Self { windows, slow: Vec::new(), clock_off_ns: 0, clock: scenario.gateway.clock })
    }

    fn on(&self) -> impl Iterator<Item = &What> {
        self.windows.iter().filter(|window| window.on).map(|window| &window.what)
    }

    /// Whether a provider, by its place in its stage's list, answers nobody.
    pub(crate) fn provider_out(&self, stage: StageId, provider: usize) -> bool {
        self.on().any(|what| {
            matches!(what, What::ProviderOut { stage: at, provider: out } if *at == stage && *out == provider)
        })
    }

    /// By how much the service times of a stage are longer than they should be.
    #[inline]
    pub(crate) fn latency_factor(&self, stage: StageId) -> f64 {
        self.slow.get(stage.index()).copied().unwrap_or(1.0)
    }

    /// A service time at a stage, as it is now.
    #[inline]
    pub(crate) fn stretched(&self, stage: StageId, time: Span) -> Span {
        match self.slow.get(stage.index()) {
            Some(&factor) if factor != 1.0 => Span::from_secs_f64(time.as_secs_f64() * factor),
            _ => time,
        }
    }

    /// Whether rules work with an old knowledge base.
    pub(crate) fn knowledge_base_stale(&self) -> bool {
        self.on().any(|what| matches!(what, What::KnowledgeBase))
    }

    /// What the meters do.
    pub(crate) fn metering(&self) -> Metering {
        let mut found = Metering::Live;
        for what in self.on() {
            match what {
                What::Metrics { stop: true } => return Metering::Stopped,
                What::Metrics { stop: false } => found = Metering::Frozen,
                _ => {}
            }
        }
        found
    }

    /// What the network adds to the way of an attempt that is sent at `at`.
    #[inline]
    pub(crate) fn network_delay(&self, at: Time, chance: Chance) -> Span {
        let mut extra = Span::ZERO;
        for (index, window) in self.windows.iter().enumerate() {
            if let What::Network { extra: law } = &window.what
                && window.covers(at)
            {
                let draw = &mut chance.draw(purpose::NETWORK_FAULTS + index as u32);
                extra += Span::from_secs_f64(law.sample(draw));
            }
        }
        extra
    }

    /// What the governor's clock shows at `now`. A wall clock that is set back goes back, down to 0.
    #[inline]
    pub(crate) fn moment(&self, now: Time) -> Moment {
        Moment(now.as_nanos().saturating_add_signed(self.clock_off_ns))
    }

    /// When the governor's clock will show `moment`, if nobody sets it until then.
    #[inline]
    pub(crate) fn time_of(&self, moment: Moment) -> Time {
        Time::from_nanos(moment.0.saturating_add_signed(self.clock_off_ns.saturating_neg()))
    }

    /// What a governor that starts now must be told.
    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.on()
            .filter_map(|what| if let What::Tell { lost, .. } = what { Some(*lost) } else { None })
            .collect()
    }

    /// Factors of the stages, anew.
    fn find_slow(&mut self, stages: usize) {
        self.slow.clear();
        for window in self.windows.iter().filter(|window| window.on) {
            if let What::Slow { stage, factor } = window.what {
                self.slow.resize(stages, 1.0);
                self.slow[stage.index()] *= factor;
            }
        }
    }

    /// Sets the wall clock by all steps that are in force.
    fn find_clock(&mut self) {
        if self.clock == Clock::Monotonic {
            return;
        }
        self.clock_off_ns = self.on().fold(0, |sum: i64, what| match what {
            What::ClockStep { by_ns, set: true, .. } => sum.saturating_add(*by_ns),
            _ => sum,
        });
    }
}

/// Looks up the names of a fault.
fn what(
    scenario: &Scenario,
    fault: &Fault,
    devices: &impl Fn(&str) -> Option<DeviceId>,
) -> Result<Option<What>, DistError> {
    let stage_of = |name: &str| scenario.stages.get_index_of(name).map(|index| StageId(index as u16));
    let tell = |lost, back| Some(What::Tell { lost, back });
    Ok(match fault {
        Fault::ProviderOutage { stage, provider, .. } => stage_of(stage).and_then(|at| {
            let names = scenario.stages[at.index()].providers();
            let provider = names.iter().position(|name| name == provider)?;
            Some(What::ProviderOut { stage: at, provider })
        }),
        Fault::LatencyFactor { stage, factor, .. } => {
            stage_of(stage).map(|stage| What::Slow { stage, factor: *factor })
        }
        Fault::GpuLost { device, count, .. } => {
            let most = scenario.devices.get(device).map_or(0, |group| group.count);
            devices(device).map(|first| What::GpuLost { devices: first.0..first.0 + (*count).min(most) })
        }
        Fault::ReplicaCrash { stage, replica, .. } => stage_of(stage).map(|at| {
            let restart_s = match &scenario.stages[at.index()] {
                Stage::LlmSlots(slots) => slots.memory.as_ref().map_or(0.0, |memory| memory.restart_s),
                _ => 0.0,
            };
            What::Crash { stage: at, replica: *replica, restart: Span::from_secs_f64(restart_s), down: None }
        }),
        Fault::StoreTimeout { .. } => tell(Notice::StoreLost, Notice::StoreBack),
        Fault::LimiterNodesDown { .. } => tell(Notice::NodesDown, Notice::NodesUp),
        Fault::RulesWiped { .. } => tell(Notice::RulesWiped, Notice::RulesBack),
        Fault::ForecastLost { .. } => tell(Notice::ForecastLost, Notice::ForecastBack),
        Fault::MetricsFrozen { stop, .. } => Some(What::Metrics { stop: *stop }),
        Fault::KnowledgeBaseStale { .. } => Some(What::KnowledgeBase),
        Fault::ClockStep { by_s, every_s, .. } => Some(What::ClockStep {
            by_ns: (by_s * 1e9).round() as i64,
            every: every_s.map(Span::from_secs_f64),
            set: false,
        }),
        Fault::NetworkDelay { extra_s, .. } => Some(What::Network { extra: extra_s.sampler()? }),
    })
}

impl Service {
    /// The time as the governor is handed it.
    #[inline]
    pub(crate) fn moment(&self, now: Time) -> Moment {
        self.faults.moment(now)
    }

    /// Puts the beginnings of all faults on the calendar. One that would begin after the arrivals' end
    /// never does.
    pub(super) fn schedule_faults(&self, calendar: &mut Calendar<Event>) {
        for (index, window) in self.faults.windows.iter().enumerate() {
            if window.from < self.plan.end {
                calendar.schedule(window.from, Event::Fault(index as u16, Edge::Begin));
            }
        }
    }

    /// A fault begins, turns or ends.
    pub(super) fn fault(&mut self, now: Time, index: u16, edge: Edge, calendar: &mut Calendar<Event>) {
        let Some(window) = self.faults.windows.get_mut(usize::from(index)) else { return };
        if edge != Edge::Turn {
            window.on = edge == Edge::Begin;
            self.timeline.mark(now, window.kind, &window.name, window.on);
        }
        let (on, mut to) = (window.on, window.to);
        match window.what.clone() {
            // Asked about where it matters.
            What::ProviderOut { .. } | What::Metrics { .. } | What::KnowledgeBase | What::Network { .. } => {}
            What::Slow { stage, .. } => {
                self.faults.find_slow(self.stages.len());
                self.set_pace(now, stage, calendar);
            }
            What::GpuLost { devices } => {
                for device in devices {
                    self.device_lost(now, DeviceId(device), on, calendar);
                }
            }
            What::Crash { stage, replica, restart, down } => {
                to = to.or(Some(now + restart));
                let victim = if on { replica.or_else(|| self.busiest(stage)) } else { down };
                if let What::Crash { down, .. } = &mut self.faults.windows[usize::from(index)].what {
                    *down = victim;
                }
                if let Some(victim) = victim {
                    self.crash(now, stage, victim, on, calendar);
                }
            }
            What::Tell { lost, back } => {
                // Two windows of one kind may overlap: it is back when the last of them is over.
                let still = self.faults.notices().contains(&lost);
                if on || !still {
                    // A gateway that is down hears nothing: it is told when it is back.
                    if !self.gateway_down() {
                        self.notice(self.moment(now), if on { lost } else { back });
                    }
                    self.wake_held(now, calendar);
                    self.pump = true;
                }
            }
            What::ClockStep { by_ns, every, set } => {
                let turned = What::ClockStep { by_ns, every, set: on && !set };
                self.faults.windows[usize::from(index)].what = turned;
                self.clock_was_set(calendar);
                if let Some(every) = every
                    && on
                    && !self.is_over(now)
                {
                    calendar.after(every, Event::Fault(index, Edge::Turn));
                }
            }
        }
        if edge == Edge::Begin
            && let Some(to) = to
        {
            calendar.schedule(to, Event::Fault(index, Edge::End));
        }
    }

    /// The governors are told what was lost or is back.
    pub(super) fn notice(&mut self, moment: Moment, notice: Notice) {
        self.governor.notice(moment, notice);
        if let Some(shadow) = &mut self.shadow {
            shadow.notice(moment, notice);
        }
    }

    /// The governor's clock shows another time: what was scheduled by what it showed is scheduled anew.
    fn clock_was_set(&mut self, calendar: &mut Calendar<Event>) {
        self.faults.find_clock();
        if let Some((_, handle)) = self.expiry.take() {
            calendar.cancel(handle);
        }
        // The queue is served anew, and with it goes the watch over those who wait too long.
        self.pump = true;
    }

    /// An engine that is slower, or no longer, plans its iterations anew. Other stages ask call by call.
    fn set_pace(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        let factor = self.faults.latency_factor(stage);
        let StageState::Batching(batching) = &mut self.stages[stage.index()] else { return };
        for place in &mut batching.replicas {
            place.engine.set_pace(now.as_nanos(), factor);
        }
        for replica in 0..batching.replicas.len() as u32 {
            self.schedule_batching(stage, replica, calendar);
        }
    }

    /// The replica of a stage that serves most calls; of equals the first.
    fn busiest(&self, stage: StageId) -> Option<u32> {
        self.stages[stage.index()].router().map(Router::fullest)
    }

    /// A replica dies, or has loaded its model again.
    fn crash(&mut self, now: Time, stage: StageId, replica: u32, down: bool, calendar: &mut Calendar<Event>) {
        if down {
            self.measure.restarts += u64::from(self.in_window(now));
        }
        self.replica_down(now, (stage, replica), down, Failure::EngineRestarted, calendar);
    }

    /// A device drops out with all that runs on it, or is back with all that was loaded on it.
    fn device_lost(&mut self, now: Time, device: DeviceId, lost: bool, calendar: &mut Calendar<Event>) {
        let memory = &mut self.devices[device.0 as usize];
        if lost {
            memory.lost += 1;
        } else {
            memory.lost -= 1;
            memory.empty_cache(now);
        }
        for index in 0..self.stages.len() {
            let stage = StageId(index as u16);
            let kept = &self.stages[index];
            let on_it: Vec<u32> = (0..kept.places()).filter(|&p| kept.device(p) == Some(device)).collect();
            for place in on_it {
                if matches!(self.stages[index], StageState::Reranker(_)) {
                    self.rerank_gpu_down(now, stage, place, lost, calendar);
                } else {
                    self.replica_down(now, (stage, place), lost, Failure::GpuLost, calendar);
                }
            }
        }
    }

    /// A replica takes no calls any more, and those that it serves fail; or it takes calls again.
    fn replica_down(
        &mut self,
        now: Time,
        place: (StageId, u32),
        down: bool,
        why: Failure,
        calendar: &mut Calendar<Event>,
    ) {
        let (stage, replica) = place;
        match &mut self.stages[stage.index()] {
            StageState::Slots(slots) => {
                let Some(found) = slots.replicas.get_mut(replica as usize) else { return };
                found.cold();
                slots.router.set_up(replica, !down);
            }
            StageState::Batching(batching) if (replica as usize) < batching.replicas.len() => {
                let found = &mut batching.replicas[replica as usize];
                found.down = if down { found.down + 1 } else { found.down.saturating_sub(1) };
                batching.router.set_up(replica, !down);
            }
            _ => return,
        }
        if !down {
            self.fill_slots(now, stage, calendar);
            return;
        }
        let in_slots = matches!(self.stages[stage.index()], StageState::Slots(_));
        let lost: Vec<AttemptId> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| {
                let here = match attempt.phase {
                    Phase::Serving(at) => at == stage,
                    // Those who wait for a slot wait for any; those in an engine are its own.
                    Phase::Waiting(at) => at == stage && !in_slots,
                    _ => false,
                };
                here && attempt.replica == replica
            })
            .map(|(id, _)| id)
            .collect();
        for id in lost {
            self.end_at(now, id, stage, End::Failed(why));
        }
    }
}

#[cfg(test)]
#[path = "faults_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "clock_tests.rs"]
mod clock_tests;
