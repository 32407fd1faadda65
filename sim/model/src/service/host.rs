//! Memory of the gateway's host (published case G8): stacks of threads, and who is killed when it runs out.
//!
//! The gateway's process grows by a stack with every attempt that is being served. Beyond the limit of its
//! container it is killed, and it alone; beyond the host's memory the host kills any of its processes, the
//! larger the likelier. A gateway that is killed loses the attempts that it held and all that its policies
//! knew, those of a shadow too; until it is back it takes none, hears nothing, and its loops stand still.
//! What was measured of it stays.

use super::{Event, Service, Task};
use crate::attempts::{Attempt, Phase};
use crate::ids::{AttemptId, StageId};
use crate::outcome::{End, Failure};
use crate::scenario::Scenario;
use forebay_engine::{Calendar, Span, Stream, Time};
use forebay_policies::{FallbackUses, Governor, Signals};

/// Another process on the host.
#[derive(Clone, Debug)]
struct Neighbour {
    name: String,
    mb: f64,
    /// The stage that it is.
    stage: Option<StageId>,
    down: bool,
}

/// What the governors of killed gateways had measured: it is the run's, not theirs.
#[derive(Clone, Debug, Default)]
struct Outlived {
    /// Most that were inside of each gate, in the order of the policy.
    gate_peaks: Vec<u32>,
    uses: FallbackUses,
}

impl Outlived {
    /// A governor is about to be forgotten.
    fn keep(&mut self, governor: &Governor) {
        let before = self.gate_peaks.iter().copied().chain(std::iter::repeat(0));
        self.gate_peaks = governor.gate_peaks().zip(before).map(|((_, most), old)| most.max(old)).collect();
        self.uses = self.with(governor.fallback_uses());
    }

    fn with(&self, uses: FallbackUses) -> FallbackUses {
        FallbackUses {
            store_timeouts: self.uses.store_timeouts + uses.store_timeouts,
            nodes_down: self.uses.nodes_down + uses.nodes_down,
            forecast_lost: self.uses.forecast_lost + uses.forecast_lost,
            rules_wiped: self.uses.rules_wiped + uses.rules_wiped,
            rules_kept: self.uses.rules_kept + uses.rules_kept,
        }
    }
}

/// The host, while a run goes on.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    at_rest_mb: f64,
    stack_mb: f64,
    container_limit_mb: f64,
    limit_mb: f64,
    restart: Span,
    /// Attempts that are being served: a thread each.
    pub(crate) threads: u64,
    /// The gateway was killed and is not back yet.
    pub(crate) down: bool,
    neighbours: Vec<Neighbour>,
    luck: Stream,
    /// What the gateway begins with when it is back.
    fresh: Box<(Governor, Signals)>,
    outlived: Outlived,
    /// Most that the gateway's process took, MB.
    pub(crate) max_mb: f64,
    pub(crate) gateway_kills: u64,
    pub(crate) neighbour_kills: u64,
}

impl Host {
    /// The host of a scenario, if it has one; `fresh` is the governor as the gateway starts with it.
    pub(crate) fn new(
        scenario: &Scenario,
        fresh: (&Governor, &Signals),
        (seed, replication): (u64, u64),
    ) -> Option<Self> {
        let host = scenario.gateway.host.as_ref()?;
        let neighbours = host.others_mb.iter().map(|(name, mb)| Neighbour {
            name: name.clone(),
            mb: *mb,
            stage: scenario.stages.get_index_of(name).map(|index| StageId(index as u16)),
            down: false,
        });
        Some(Self {
            at_rest_mb: host.at_rest_mb(),
            stack_mb: host.stack_mb,
            container_limit_mb: host.container_limit_mb.unwrap_or(f64::INFINITY),
            limit_mb: host.host_mb,
            restart: Span::from_secs_f64(host.restart_s),
            threads: 0,
            down: false,
            neighbours: neighbours.collect(),
            luck: Stream::new(seed, replication, "host out-of-memory killer", 0),
            fresh: Box::new((fresh.0.clone(), fresh.1.clone())),
            outlived: Outlived::default(),
            max_mb: host.at_rest_mb(),
            gateway_kills: 0,
            neighbour_kills: 0,
        })
    }

    /// Memory of the gateway's process, MB.
    fn gateway_mb(&self) -> f64 {
        if self.down { 0.0 } else { self.at_rest_mb + self.stack_mb * self.threads as f64 }
    }

    fn total_mb(&self) -> f64 {
        let others: f64 = self.neighbours.iter().filter(|other| !other.down).map(|other| other.mb).sum();
        self.gateway_mb() + others
    }

    /// Whom the host kills: the place of a neighbour, or none for the gateway.
    fn victim(&mut self) -> Option<usize> {
        let mut left = self.luck.uniform() * self.total_mb() - self.gateway_mb();
        if left < 0.0 {
            return None;
        }
        let mut last = None;
        for (place, other) in self.neighbours.iter().enumerate().filter(|(_, other)| !other.down) {
            last = Some(place);
            left -= other.mb;
            if left < 0.0 {
                break;
            }
        }
        last
    }

    /// Whether the process of a stage was killed and is not back yet.
    #[inline]
    pub(crate) fn is_down(&self, stage: StageId) -> bool {
        self.neighbours.iter().any(|other| other.down && other.stage == Some(stage))
    }

    /// Forgets what was measured so far.
    pub(crate) fn restart(&mut self) {
        self.max_mb = self.gateway_mb();
        (self.gateway_kills, self.neighbour_kills) = (0, 0);
    }
}

impl Service {
    /// The gateway was killed and is not back yet.
    #[inline]
    pub(crate) fn gateway_down(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.down)
    }

    /// The gates of the policy by name, with the most that were inside at once.
    pub(crate) fn gate_peaks(&self) -> impl Iterator<Item = (&str, u32)> {
        let before = self.host.iter().flat_map(|host| host.outlived.gate_peaks.iter().copied());
        let before = before.chain(std::iter::repeat(0));
        self.governor.gate_peaks().zip(before).map(|((name, most), old)| (name, most.max(old)))
    }

    /// How often stand-ins were used because something around the governor was lost.
    pub(crate) fn fallback_uses(&self) -> FallbackUses {
        let uses = self.governor.fallback_uses();
        self.host.as_ref().map_or(uses, |host| host.outlived.with(uses))
    }

    /// An attempt takes a thread of the gateway: its memory grows.
    pub(super) fn take_thread(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        self.attempts[id].has_thread = true;
        host.threads += 1;
        host.max_mb = host.max_mb.max(host.gateway_mb());
        if host.gateway_mb() > host.container_limit_mb {
            self.kill_gateway(now, calendar);
        }
        self.keep_within_host(now, calendar);
    }

    /// The host kills processes until the others fit.
    fn keep_within_host(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        while let Some(host) = &mut self.host {
            if host.total_mb() <= host.limit_mb {
                return;
            }
            match host.victim() {
                None => self.kill_gateway(now, calendar),
                Some(place) => self.kill_neighbour(now, place, calendar),
            }
        }
    }

    fn kill_gateway(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        host.down = true;
        host.gateway_kills += 1;
        calendar.after(host.restart, Event::GatewayUp);
        self.timeline.mark(now, "gateway_killed", "gateway", true);
        let hit = self.hit(|phase| !matches!(phase, Phase::Ingress | Phase::Backoff));
        let end = End::Failed(Failure::GatewayKilled);
        self.tasks.extend(hit.into_iter().map(|id| Task::Finish(id, end)));
    }

    fn kill_neighbour(&mut self, now: Time, place: usize, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        host.neighbour_kills += 1;
        let other = &mut host.neighbours[place];
        other.down = true;
        calendar.after(host.restart, Event::NeighbourUp(place as u16));
        self.timeline.mark(now, "neighbour_killed", &other.name, true);
        if let Some(stage) = other.stage {
            let here = |phase| phase == Phase::Waiting(stage) || phase == Phase::Serving(stage);
            for id in self.hit(here) {
                self.end_at(now, id, stage, End::Failed(Failure::NeighbourKilled));
            }
        }
    }

    /// The attempts that are where `hit` says, in the order in which to end them: first those that wait, so
    /// that none of them takes the place of one that was being served.
    fn hit(&self, hit: impl Fn(Phase) -> bool) -> Vec<AttemptId> {
        let all = || self.attempts.iter().filter(|(_, attempt)| hit(attempt.phase));
        let is_served = |attempt: &Attempt| matches!(attempt.phase, Phase::Serving(_));
        let (waits, served) = (all().filter(|(_, a)| !is_served(a)), all().filter(|(_, a)| is_served(a)));
        waits.chain(served).map(|(id, _)| id).collect()
    }

    /// The gateway is back, and knows nothing of what was.
    pub(super) fn gateway_up(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        host.down = false;
        host.outlived.keep(&self.governor);
        (self.governor, self.signals) = (*host.fresh).clone();
        self.timeline.mark(now, "gateway_killed", "gateway", false);
        let (moment, notices) = (self.moment(now), self.faults.notices());
        if let Some(shadow) = &mut self.shadow {
            shadow.restart();
        }
        for notice in notices {
            self.notice(moment, notice);
        }
        self.pump = true;
        self.keep_within_host(now, calendar);
    }

    /// Another process of the host is back.
    pub(super) fn neighbour_up(&mut self, now: Time, place: u16, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        let other = &mut host.neighbours[usize::from(place)];
        other.down = false;
        self.timeline.mark(now, "neighbour_killed", &other.name, false);
        self.keep_within_host(now, calendar);
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
