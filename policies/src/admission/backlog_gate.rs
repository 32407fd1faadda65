//! Lets pass while the measured backlog behind it is short (incident N12).
//!
//! The backlog is a signal, so it is some time old: what was let through since it was measured is not in
//! it yet. With `credit` those of them that are not over count as if they all stood in the backlog.
//! Without it, everything that comes between two readings passes on the strength of the older one.
//!
//! A backlog that is not measured changes nothing, as at the ladder.

use super::{Key, Limiter, Refusal, Verdict, front, noted::Noted};
use crate::moment::nanos;
use crate::{End, Moment, PolicyError, Reason, RequestView, SignalKind, Signals, Site, Ticket};
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
    /// Count what was let through since the backlog was measured, and is not over, as part of it.
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
        Err(PolicyError::not_allowed(
            format!("{path}.key"),
            "a key of its own",
            "global: the signal is one for all",
        ))
    }
}

/// What was let through lately.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    signal: SignalKind,
    below: f64,
    credit: bool,
    retry_after_ns: Option<u64>,
    /// Those that were let through since the newest reading was taken, the first one first.
    passed: VecDeque<(Moment, Ticket)>,
    /// When each that is not over was let through.
    inside: Noted<Moment>,
    /// How many stand in both.
    credited: u32,
}

impl State {
    /// Forgets those that are in a reading of this age.
    fn forget_measured(&mut self, now: Moment, age_ns: u64) {
        while let Some(&(passed, ticket)) = self.passed.front()
            && now.since(passed) >= age_ns
        {
            self.passed.pop_front();
            if self.inside.get(ticket) == Some(passed) {
                self.inside.take(ticket);
                self.credited -= 1;
            }
        }
    }
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
            inside: Noted::default(),
            credited: 0,
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &BacklogGate) {
        let fresh = Self::new(parameters);
        let passed = std::mem::take(&mut self.passed);
        let inside = std::mem::take(&mut self.inside);
        *self = Self { passed, inside, credited: self.credited, ..fresh };
    }

    #[inline]
    fn ask(&mut self, now: Moment, _: u64, request: &RequestView, signals: &Signals) -> Verdict {
        let (Some(measured), Some(age_ns)) = (signals.get(self.signal), signals.age(now, self.signal)) else {
            return Verdict::Pass;
        };
        if self.credit {
            self.forget_measured(now, age_ns);
        }
        let backlog = measured + f64::from(self.credited);
        if backlog < self.below {
            if !self.credit {
                return Verdict::Pass;
            }
            self.passed.push_back((now, request.ticket));
            // Nobody said that the one before it in this slot, or its own last call, was over.
            self.credited += u32::from(self.inside.put(request.ticket, now).is_none());
            return Verdict::Hold;
        }
        let refusal = Refusal::new(Reason::BacklogGateLong, backlog, self.below);
        Verdict::Refuse(Refusal { retry_after_ns: self.retry_after_ns, ..refusal })
    }

    #[inline]
    fn ended(&mut self, _: Moment, _: u64, request: &RequestView, _: &End) {
        self.credited -= u32::from(self.inside.take(request.ticket).is_some());
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

    /// One asks every millisecond for 50 ms, on one reading; returns how many pass. Each is over after
    /// `lasts_ms`.
    fn passed(state: &mut State, from_ms: u64, backlog: f64, lasts_ms: u64) -> usize {
        let mut signals = Signals::default();
        let taken = Moment(from_ms * MS);
        signals.deliver(taken, &Reading::new(taken).with(SignalKind::LlmQueue, backlog));
        let mut inside = VecDeque::new();
        let mut count = 0;
        for ms in from_ms + 1..=from_ms + 50 {
            while let Some(&(request, came)) = inside.front()
                && came + lasts_ms <= ms
            {
                inside.pop_front();
                state.ended(Moment(ms * MS), 0, &request, &End::answered(lasts_ms * MS, None));
            }
            let request = RequestView::new(Ticket(ms));
            match state.ask(Moment(ms * MS), 0, &request, &signals) {
                Verdict::Hold => inside.push_back((request, ms)),
                Verdict::Pass => {}
                _ => continue,
            }
            count += 1;
        }
        count
    }

    #[test]
    fn without_credit_all_pass_on_one_reading_and_with_it_what_is_left() {
        assert_eq!(passed(&mut gate(false), 0, 4.0, 1000), 50);
        let mut state = gate(true);
        assert_eq!(passed(&mut state, 0, 4.0, 1000), 1);
        // The next reading holds them, so they no longer count apart.
        assert_eq!(passed(&mut state, 100, 0.0, 1000), 5);
        assert_eq!(passed(&mut state, 200, 5.0, 1000), 0);
    }

    #[test]
    fn those_that_are_over_make_room_before_the_next_reading() {
        // Five at once, each for 10 ms: five every ten milliseconds.
        let mut state = gate(true);
        assert_eq!(passed(&mut state, 0, 0.0, 10), 25);
        assert!(state.credited <= 5);
        // The end of one that a reading holds already changes nothing.
        let before = state.credited;
        state.ended(Moment(60 * MS), 0, &RequestView::new(Ticket(1)), &End::GONE);
        assert_eq!(state.credited, before);
    }

    #[test]
    fn a_backlog_that_is_not_measured_changes_nothing() {
        let verdict = gate(true).ask(Moment(0), 0, &RequestView::new(Ticket(0)), &Signals::default());
        assert_eq!(verdict, Verdict::Pass);
    }
}
