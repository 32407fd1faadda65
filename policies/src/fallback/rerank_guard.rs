//! The reranker's guard (published cases R3, R4): at most so many calls at once, a short wait for a
//! place, and a rest when calls wait in vain or the p95 of the last ones is too high. While it rests,
//! reranking is skipped and the first documents by vector score are kept; then one call goes through
//! as a probe, and only its good end opens the guard.
//!
//! "p95 of the last n above a limit" is decided without sorting: it is so exactly when more than
//! n - ceil(0.95 n) of them are above the limit, and that number is kept up to date. Latencies count once
//! n have ended since the guard last opened, so that those of a bad time do not close it again.
//! Calls that already wait for a place when the guard closes keep waiting; they are within their limit.

use crate::admission::permits::Permits;
use crate::admission::{Gate, Key, Limit, Refusal, WhenFull};
use crate::moment::{nanos, seconds};
use crate::{Moment, Reason, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parameters of the reranker's guard; the published values are the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RerankGuard {
    /// How many rerank calls may run at once.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_at_once: u32,
    /// Longest wait for a place, in milliseconds.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub wait_at_most_ms: f64,
    /// How many documents are kept, by vector score, when reranking is skipped.
    #[schemars(range(min = 0, max = 10_000))]
    pub keep: u16,
    /// How long reranking is skipped before a probe, in seconds.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub degraded_s: f64,
    /// Reranking is skipped when the p95 of the last calls is above this, in milliseconds.
    #[schemars(range(min = 0.001, max = 3_600_000.0))]
    pub p95_above_ms: f64,
    /// Over how many of the last calls the p95 is taken.
    #[schemars(range(min = 1, max = 100_000))]
    pub p95_over: u32,
}

impl Default for RerankGuard {
    fn default() -> Self {
        Self {
            max_at_once: 8,
            wait_at_most_ms: 150.0,
            keep: 5,
            degraded_s: 10.0,
            p95_above_ms: 350.0,
            p95_over: 50,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Phase {
    Open,
    /// Skipping until the moment given.
    Resting {
        until: Moment,
        why: Reason,
    },
    /// One call is on its way, the others are skipped.
    Probing {
        ticket: Ticket,
        why: Reason,
    },
}

/// State of the guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: RerankGuard,
    limit_ns: u64,
    rest_ns: u64,
    wait_ns: u64,
    phase: Phase,
    permits: Permits,
    /// Latencies of the last calls since the guard opened, in nanoseconds.
    latencies: VecDeque<u64>,
    /// How many of them are above the limit.
    slow: usize,
    /// Their p95 when it last closed the guard, in seconds.
    closing_p95_s: f64,
}

impl State {
    pub(crate) fn new(parameters: &RerankGuard) -> Self {
        let mut state = Self {
            parameters: parameters.clone(),
            limit_ns: 0,
            rest_ns: 0,
            wait_ns: 0,
            phase: Phase::Open,
            permits: Permits::new(Key::Global),
            latencies: VecDeque::new(),
            slow: 0,
            closing_p95_s: 0.0,
        };
        state.adopt(parameters);
        state
    }

    /// Takes changed parameters over and keeps what was measured.
    pub(crate) fn adopt(&mut self, parameters: &RerankGuard) {
        self.parameters = parameters.clone();
        self.limit_ns = nanos(parameters.p95_above_ms * 1e-3);
        self.rest_ns = nanos(parameters.degraded_s);
        self.wait_ns = nanos(parameters.wait_at_most_ms * 1e-3);
        while self.latencies.len() > self.window() {
            self.latencies.pop_front();
        }
        self.slow = self.latencies.iter().filter(|&&latency| latency > self.limit_ns).count();
    }

    fn window(&self) -> usize {
        self.parameters.p95_over as usize
    }

    /// How many of the window may be above the limit while its p95 (nearest rank) is not.
    fn slow_allowed(&self) -> usize {
        let n = self.window();
        n - (95 * n).div_ceil(100)
    }

    /// Whether a call of `ticket` is skipped now. When the rest is over, this call becomes the probe.
    #[inline]
    pub(crate) fn closed(&mut self, now: Moment, ticket: Ticket) -> Option<Refusal> {
        match self.phase {
            Phase::Open => None,
            Phase::Resting { until, why } if now < until => {
                let rest_s = seconds(self.rest_ns);
                Some(self.skip(why, until.seconds_since(now), rest_s))
            }
            Phase::Resting { why, .. } => {
                self.phase = Phase::Probing { ticket, why };
                None
            }
            Phase::Probing { why, .. } => Some(self.skip(why, 0.0, seconds(self.rest_ns))),
        }
    }

    fn skip(&self, why: Reason, found: f64, threshold: f64) -> Refusal {
        let (found, threshold) = match why {
            Reason::RerankGuardSlow => (self.closing_p95_s, seconds(self.limit_ns)),
            _ => (found, threshold),
        };
        Refusal { keep: Some(self.parameters.keep), ..Refusal::new(why, found, threshold) }
    }

    /// The p95 (nearest rank) of the latencies held, in seconds; for the explanation. Their order is lost:
    /// the guard closes now, and they are forgotten before it opens.
    fn p95_s(&mut self) -> f64 {
        let sorted = self.latencies.make_contiguous();
        sorted.sort_unstable();
        let rank = (95 * sorted.len()).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).map_or(0.0, |&latency| seconds(latency))
    }

    fn rest(&mut self, now: Moment, why: Reason) {
        self.phase = Phase::Resting { until: now.after(self.rest_ns), why };
    }

    /// A call waited for a place in vain.
    pub(crate) fn expired(&mut self, now: Moment, ticket: Ticket) {
        match self.phase {
            Phase::Open => self.rest(now, Reason::RerankGuardBusy),
            Phase::Probing { ticket: probe, .. } if probe == ticket => {
                self.rest(now, Reason::RerankGuardBusy);
            }
            _ => {}
        }
    }

    /// The attempt is over or was refused elsewhere: if it was the probe, the next call is.
    #[inline]
    pub(crate) fn gone(&mut self, now: Moment, ticket: Ticket) {
        if let Phase::Probing { ticket: probe, why } = self.phase
            && probe == ticket
        {
            self.phase = Phase::Resting { until: now, why };
        }
    }

    /// A rerank call ended.
    pub(crate) fn ended(&mut self, now: Moment, ticket: Ticket, latency_ns: u64, ok: bool) {
        match self.phase {
            Phase::Open => self.measured(now, latency_ns),
            Phase::Probing { ticket: probe, why } if probe == ticket => {
                if ok && latency_ns <= self.limit_ns {
                    self.phase = Phase::Open;
                    self.latencies.clear();
                    self.slow = 0;
                } else {
                    self.rest(now, why);
                }
            }
            _ => {}
        }
    }

    fn measured(&mut self, now: Moment, latency_ns: u64) {
        if self.latencies.len() == self.window()
            && let Some(oldest) = self.latencies.pop_front()
        {
            self.slow -= usize::from(oldest > self.limit_ns);
        }
        self.latencies.push_back(latency_ns);
        self.slow += usize::from(latency_ns > self.limit_ns);
        if self.latencies.len() == self.window() && self.slow > self.slow_allowed() {
            self.closing_p95_s = self.p95_s();
            self.rest(now, Reason::RerankGuardSlow);
        }
    }

    /// The permits of the reranker.
    #[inline]
    pub(crate) fn gate(&mut self) -> Gate<'_> {
        Gate {
            full: Reason::GateFull,
            expired: Reason::RerankGuardWaitExpired,
            answer: WhenFull { retry_after_ns: None, keep: Some(self.parameters.keep) },
            permits: &mut self.permits,
            limit: Limit::Same(self.parameters.max_at_once),
            wait_ns: self.wait_ns,
        }
    }
}

#[cfg(test)]
#[path = "rerank_guard_tests.rs"]
mod tests;
