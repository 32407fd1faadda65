//! A circuit breaker: it opens when a provider fails too often, lets nothing through for a while, and then
//! a few calls as probes, whose good end closes it.
//!
//! The share of failures is taken over a sliding window in ten parts, so that memory does not grow with the
//! calls.

use super::providers::Providers;
use crate::Moment;
use crate::moment::nanos;
use serde::{Deserialize, Serialize};

/// Parts of the window; the oldest is forgotten as a whole.
const PARTS: u64 = 10;

/// Calls and failures within a sliding window, in ten parts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Window {
    parts: [(u32, u32); PARTS as usize],
    /// Number of the newest part since time 0.
    newest: u64,
}

impl Window {
    fn note(&mut self, now: Moment, window_ns: u64, failed: bool) {
        let part = now.0 / (window_ns / PARTS).max(1);
        // What was never used is forgotten part by part, and at most once round.
        for stale in self.newest + 1..=part.min(self.newest + PARTS) {
            self.parts[(stale % PARTS) as usize] = (0, 0);
        }
        if part >= self.newest + PARTS {
            self.parts = Default::default();
        }
        self.newest = self.newest.max(part);
        let (calls, failures) = &mut self.parts[(part % PARTS) as usize];
        *calls += 1;
        *failures += u32::from(failed);
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
    },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Breaker {
    phase: Phase,
    /// It asked to be left alone until then.
    pub(super) rests_until: Moment,
    window: Window,
    failures_in_a_row: u32,
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
            Phase::HalfOpen { out, .. } if out >= probes => return Ready::AfterProbe,
            Phase::Closed | Phase::HalfOpen { .. } => self.rests_until,
        };
        if until <= now { Ready::Now } else { Ready::At(until) }
    }

    /// A call goes out; whether it is a probe.
    pub(super) fn begin(&mut self) -> bool {
        match &mut self.phase {
            Phase::Closed => false,
            Phase::HalfOpen { out, .. } => {
                *out += 1;
                true
            }
            Phase::Open { .. } => {
                self.phase = Phase::HalfOpen { out: 1, good: 0 };
                true
            }
        }
    }

    /// A probe that showed nothing.
    pub(super) fn probe_gone(&mut self) {
        if let Phase::HalfOpen { out, .. } = &mut self.phase {
            *out = out.saturating_sub(1);
        }
    }

    /// Learns from the end of a call; `None`: it showed nothing. Whether the provider can be asked again.
    pub(super) fn learn(
        &mut self,
        now: Moment,
        parameters: &Providers,
        probe: bool,
        failed: Option<bool>,
    ) -> bool {
        let open = Phase::Open { until: now.after(nanos(parameters.cooldown_s)) };
        match (&mut self.phase, failed) {
            (Phase::HalfOpen { .. }, None) if probe => {
                self.probe_gone();
                true
            }
            (Phase::HalfOpen { .. }, Some(true)) if probe => {
                self.phase = open;
                false
            }
            (Phase::HalfOpen { out, good }, Some(false)) if probe => {
                *out = out.saturating_sub(1);
                *good += 1;
                if *good >= parameters.probes {
                    *self = Self { rests_until: self.rests_until, ..Self::default() };
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
