//! Memory of the gateway's host (published case G8): stacks of threads, and who is killed when it runs out.
//!
//! The gateway's process grows by a stack with every attempt that is being served. Beyond the limit of its
//! container it is killed, and it alone; beyond the host's memory the host kills any of its processes, the
//! larger the likelier. A gateway that is killed loses the attempts that it held and all that its policies
//! knew; until it is back it takes none.

use super::{Event, Service, Task};
use crate::attempts::Phase;
use crate::ids::{AttemptId, StageId};
use crate::outcome::{End, Failure};
use crate::scenario::Scenario;
use forebay_engine::{Calendar, Span, Stream, Time};
use forebay_policies::{Governor, Signals};

/// Another process on the host.
#[derive(Clone, Debug)]
struct Neighbour {
    name: String,
    mb: f64,
    /// The stage that it is.
    stage: Option<StageId>,
    down: bool,
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
        self.fail_attempts(Failure::GatewayKilled, |phase| !matches!(phase, Phase::Ingress | Phase::Backoff));
    }

    fn kill_neighbour(&mut self, now: Time, place: usize, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        host.neighbour_kills += 1;
        let other = &mut host.neighbours[place];
        other.down = true;
        calendar.after(host.restart, Event::NeighbourUp(place as u16));
        self.timeline.mark(now, "neighbour_killed", &other.name, true);
        if let Some(stage) = other.stage {
            self.fail_attempts(Failure::NeighbourKilled, |phase| {
                phase == Phase::Waiting(stage) || phase == Phase::Serving(stage)
            });
        }
    }

    /// Ends the attempts that are where `hit` says: first those that wait, so that none of them takes the
    /// place of one that was being served.
    fn fail_attempts(&mut self, why: Failure, hit: impl Fn(Phase) -> bool) {
        let is_served = |phase: Phase| matches!(phase, Phase::Serving(_));
        for served in [false, true] {
            let lost = self.attempts.iter().filter(|(_, a)| hit(a.phase) && is_served(a.phase) == served);
            self.tasks.extend(lost.map(|(id, _)| Task::Finish(id, End::Failed(why))));
        }
    }

    /// The gateway is back, and knows nothing of what was.
    pub(super) fn gateway_up(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let Some(host) = &mut self.host else { return };
        host.down = false;
        (self.governor, self.signals) = (*host.fresh).clone();
        self.timeline.mark(now, "gateway_killed", "gateway", false);
        let moment = self.moment(now);
        for notice in self.faults.notices() {
            self.governor.notice(moment, notice);
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
