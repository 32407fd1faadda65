//! A circuit breaker: it opens when a provider fails too often, lets nothing through for a while, and then a
//! few calls as probes, whose good end closes it. Each time it begins to probe is a round of its own, so that
//! the late end of an earlier round's probe is not taken for one of the present; a probe that is never heard
//! of again makes room for another after a while.
//!
//! The share of failures is taken over a sliding window in ten parts, so that memory does not grow with the
//! calls.

use super::providers::Providers;
use crate::Moment;
use crate::moment::nanos;
use serde::{Deserialize, Serialize};

/// Parts of the window; the oldest is forgotten as a whole.
const PARTS: u64 = 10;

/// A probe that has not ended for so long is lost: its caller broke, and the next one may probe. Longer than
/// any call of a model takes, ten minutes.
const LOST_NS: u64 = 600_000_000_000;

/// Calls and failures within a sliding window, in ten parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Window {
    parts: [(u32, u32); PARTS as usize],
    /// Number of the newest part since time 0.
    newest: u64,
    /// Length of a part.
    part_ns: u64,
}

impl Window {
    fn note(&mut self, now: Moment, window_ns: u64, failed: bool) {
        let part_ns = (window_ns / PARTS).max(1);
        if part_ns != self.part_ns {
            self.recut(now, part_ns);
        }
        self.add(now.0 / part_ns, (1, u32::from(failed)));
    }

    /// Counts in the part with this number, after the parts that it has left behind are forgotten.
    fn add(&mut self, part: u64, (more_calls, more_failures): (u32, u32)) {
        // What was never used is forgotten part by part, and at most once round.
        for stale in self.newest + 1..=part.min(self.newest + PARTS) {
            self.parts[(stale % PARTS) as usize] = (0, 0);
        }
        self.newest = self.newest.max(part);
        let (calls, failures) = &mut self.parts[(part % PARTS) as usize];
        *calls = calls.saturating_add(more_calls);
        *failures = failures.saturating_add(more_failures);
    }

    /// Cuts the window anew: what a part held is counted at its last moment.
    fn recut(&mut self, now: Moment, part_ns: u64) {
        let old = std::mem::replace(self, Self { part_ns, ..Self::default() });
        for number in old.newest.saturating_sub(PARTS - 1)..=old.newest {
            let counted = old.parts[(number % PARTS) as usize];
            if counted.0 > 0 {
                let last = (number + 1).saturating_mul(old.part_ns).saturating_sub(1).min(now.0);
                self.add(last / part_ns, counted);
            }
        }
    }

    fn sums(&self) -> (u32, u32) {
        self.parts.iter().fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
enum Phase {
    #[default]
    Closed,
    Open {
        until: Moment,
    },
    /// Probes are on their way, or may go.
    HalfOpen {
        out: u32,
        good: u32,
        /// When the newest of them went out.
        newest: Moment,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Breaker {
    phase: Phase,
    /// It asked to be left alone until then.
    pub(super) rests_until: Moment,
    window: Window,
    failures_in_a_row: u32,
    /// How often probes have begun to go out: the end of a probe of an earlier round says nothing new.
    round: u32,
}

/// When a provider may be asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ready {
    Now,
    At(Moment),
    /// When a probe has ended.
    AfterProbe,
}

impl Breaker {
    pub(super) fn ready(&self, now: Moment, probes: u32) -> Ready {
        let until = match self.phase {
            Phase::Open { until } => until.max(self.rests_until),
            Phase::HalfOpen { out, newest, .. } if out >= probes && now.since(newest) < LOST_NS => {
                return Ready::AfterProbe;
            }
            Phase::Closed | Phase::HalfOpen { .. } => self.rests_until,
        };
        if until <= now { Ready::Now } else { Ready::At(until) }
    }

    /// A call goes out; the round of probes that it belongs to, if it is one.
    pub(super) fn begin(&mut self, now: Moment, probes: u32) -> Option<u32> {
        let (out, good) = match self.phase {
            Phase::Closed => return None,
            // Those before it are lost; should one end after all, it counts.
            Phase::HalfOpen { out, good, .. } if out >= probes => (0, good),
            Phase::HalfOpen { out, good, .. } => (out, good),
            Phase::Open { .. } => {
                self.round = self.round.wrapping_add(1);
                (0, 0)
            }
        };
        self.phase = Phase::HalfOpen { out: out + 1, good, newest: now };
        Some(self.round)
    }

    /// A probe of this round that showed nothing.
    pub(super) fn probe_gone(&mut self, of_round: u32) {
        if let Phase::HalfOpen { out, .. } = &mut self.phase
            && of_round == self.round
        {
            *out = out.saturating_sub(1);
        }
    }

    /// Learns from the end of a call, which was a probe of the round `probe` if of any; `failed` is `None`
    /// if it showed nothing. Whether the provider can be asked again.
    pub(super) fn learn(
        &mut self,
        now: Moment,
        parameters: &Providers,
        probe: Option<u32>,
        failed: Option<bool>,
    ) -> bool {
        let open = Phase::Open { until: now.after(nanos(parameters.cooldown_s)) };
        let is_probe = probe == Some(self.round);
        match (&mut self.phase, failed) {
            (Phase::HalfOpen { out, .. }, None) if is_probe => {
                *out = out.saturating_sub(1);
                true
            }
            (Phase::HalfOpen { .. }, Some(true)) if is_probe => {
                self.phase = open;
                false
            }
            (Phase::HalfOpen { out, good, .. }, Some(false)) if is_probe => {
                *out = out.saturating_sub(1);
                *good += 1;
                if *good >= parameters.probes {
                    *self = Self { rests_until: self.rests_until, round: self.round, ..Self::default() };
                }
                true
            }
            (Phase::Closed, Some(failed)) => {
                self.window.note(now, nanos(parameters.window_s), failed);
                self.failures_in_a_row = if failed { self.failures_in_a_row.saturating_add(1) } else { 0 };
                let (calls, failures) = self.window.sums();
                let too_many = parameters.allowed_failures.is_some_and(|most| self.failures_in_a_row > most);
                let share = f64::from(failures) / f64::from(calls.max(1));
                if too_many || (calls >= parameters.least_calls && share > parameters.error_share_above) {
                    self.phase = open;
                }
                false
            }
            // What began before the breaker opened says nothing new.
            _ => false,
        }
    }
}
