//! Lets pass while the measured backlog behind it is short (incident N12).
//!
//! The backlog is a signal, so it is some time old: what was let through since it was measured is not in
//! it yet. With `credit` those count as if they all still stood in the backlog. Without it, everything
//! that comes between two readings passes on the strength of the older one.
//!
//! A backlog that is not measured changes nothing, as at the ladder.

use super::{Key, Limiter, Refusal, Verdict, front};
use crate::moment::nanos;
use crate::{Moment, PolicyError, Reason, RequestView, SignalKind, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parameters of the backlog gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BacklogGate {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart. The signal is one for all, so only `global` is allowed.
    #[serde(default)]
    pub key: Key,
    /// The backlog.
    #[serde(default = "llm_queue")]
    pub signal: SignalKind,
    /// Passes while the backlog is below this.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub below: f64,
    /// Count what was let through since the backlog was measured as part of it.
    #[serde(default = "yes")]
    pub credit: bool,
    /// After how many seconds one who was turned away may try again.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_s: Option<f64>,
}

fn llm_queue() -> SignalKind {
    SignalKind::LlmQueue
}

fn yes() -> bool {
    true
}

impl BacklogGate {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.key == Key::Global {
            return Ok(());
        }
        Err(PolicyError::NotAllowed {
            path: format!("{path}.key"),
            found: "a key of its own".to_owned(),
            allowed: "global: the signal is one for all".to_owned(),
        })
    }
}

/// What was let through lately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    signal: SignalKind,
    below: f64,
    credit: bool,
    retry_after_ns: Option<u64>,
    /// When each was let through that is not in the reading yet; no more than `below` of them.
    passed: VecDeque<Moment>,
}

impl Limiter for State {
    type Parameters = BacklogGate;

    fn new(parameters: &BacklogGate) -> Self {
        Self {
            signal: parameters.signal,
            below: parameters.below,
            credit: parameters.credit,
            retry_after_ns: parameters.retry_after_s.map(nanos),
            passed: VecDeque::new(),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &BacklogGate) {
        let passed = std::mem::take(&mut self.passed);
        *self = Self { passed, ..Self::new(parameters) };
    }

    #[inline]
    fn ask(&mut self, now: Moment, _: u64, _: &RequestView, signals: &Signals) -> Verdict {
        let (Some(measured), Some(age_ns)) = (signals.get(self.signal), signals.age(now, self.signal)) else {
            return Verdict::Pass;
        };
        if self.credit {
            while self.passed.front().is_some_and(|passed| now.since(*passed) >= age_ns) {
                self.passed.pop_front();
            }
        }
        let backlog = measured + self.passed.len() as f64;
        if backlog < self.below {
            if self.credit {
                self.passed.push_back(now);
            }
            return Verdict::Pass;
        }
        let refusal = Refusal::new(Reason::BacklogGateLong, backlog, self.below);
        Verdict::Refuse(Refusal { retry_after_ns: self.retry_after_ns, ..refusal })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reading, Ticket};

    const MS: u64 = 1_000_000;

    fn gate(credit: bool) -> State {
        State::new(&BacklogGate {
            place: Site::LlmCall,
            key: Key::Global,
            signal: SignalKind::LlmQueue,
            below: 5.0,
            credit,
            retry_after_s: None,
        })
    }

    /// One asks every millisecond for 50 ms, on one reading; returns how many pass.
    fn passed(state: &mut State, from_ms: u64, backlog: f64) -> usize {
        let mut signals = Signals::default();
        let taken = Moment(from_ms * MS);
        signals.deliver(taken, &Reading::new(taken).with(SignalKind::LlmQueue, backlog));
        let mut asks =
            |ms| state.ask(Moment((from_ms + ms) * MS), 0, &RequestView::new(Ticket(ms)), &signals);
        (1..=50).filter(|&ms| asks(ms) == Verdict::Pass).count()
    }

    #[test]
    fn without_credit_all_pass_on_one_reading_and_with_it_what_is_left() {
        assert_eq!(passed(&mut gate(false), 0, 4.0), 50);
        let mut state = gate(true);
        assert_eq!(passed(&mut state, 0, 4.0), 1);
        // The next reading holds them, so they no longer count apart.
        assert_eq!(passed(&mut state, 100, 0.0), 5);
        assert_eq!(passed(&mut state, 200, 5.0), 0);
    }

    #[test]
    fn a_backlog_that_is_not_measured_changes_nothing() {
        let verdict = gate(true).ask(Moment(0), 0, &RequestView::new(Ticket(0)), &Signals::default());
        assert_eq!(verdict, Verdict::Pass);
    }
}
