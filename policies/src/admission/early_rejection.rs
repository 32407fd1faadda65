//! Rejects on arrival what the decode stage could not take when its prefill ends, so that no prefill is
//! spent on a request that is turned away after it.
//!
//! The module counts those it let in by the moments at which their prefill and their decode are expected
//! to end; each is taken out when the attempt or the call is really over, and one that takes longer than
//! expected stays in the decode stage until then. Moments are told apart to 17 ms (see `ahead`).
//!
//! `predicted` counts those that will be in the decode stage when this request gets there. `present` counts
//! those that are there now. That is the naive form, and it swings: those in prefill are not seen, so after a
//! lull a whole prefill time's worth of requests comes in at once, then for long none does.
//!
//! A prefill does not wait for others here: where it does, `prefill_s` covers the wait.

use super::ahead::{Ahead, Tick};
use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed, noted::Noted};
use crate::moment::nanos;
use crate::{End, Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which load is held against the capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// The one that is predicted for the end of the request's prefill.
    #[default]
    Predicted,
    /// The one at present. Wrong: it does not see those in prefill, and swings.
    Present,
}

/// Parameters of the early rejection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlyRejection {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// How many requests the decode stage takes at once.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub decode_at_once: u32,
    /// Time of a prefill before the first token is read, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub prefill_s: f64,
    /// Time of prefill per token in, in milliseconds.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub prefill_ms_per_token: f64,
    /// Time of decode per token out that is expected, in milliseconds.
    #[schemars(range(min = 0.0, max = 60_000.0))]
    pub decode_ms_per_token: f64,
    /// Which load is held against the capacity.
    #[serde(default)]
    pub rule: Rule,
}

impl EarlyRejection {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.key != Key::User {
            return Ok(());
        }
        Err(PolicyError::not_allowed(format!("{path}.key"), "user", "global, endpoint or tenant"))
    }
}

/// Those that were let in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: EarlyRejection,
    expected: Keyed<Expected>,
    inside: Noted<Inside>,
}

/// Ends that are expected for one value of the key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Expected {
    of_prefill: Ahead,
    of_decode: Ahead,
}

/// Where one that was let in is counted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Inside {
    key: u64,
    of_prefill: Tick,
    of_decode: Tick,
}

impl Expected {
    fn is_empty(&self) -> bool {
        self.of_prefill.is_empty()
    }

    /// How many are in the decode stage now: those whose prefill should be over, overdue ones included.
    fn decoding(&self) -> u32 {
        self.of_prefill.come()
    }

    /// How many will be in it at `then`, as far as is known now: those that are overdue stay.
    fn decoding_at(&self, then: Moment) -> u32 {
        (self.decoding() + self.of_prefill.until(then)).saturating_sub(self.of_decode.until(then))
    }
}

impl State {
    fn forget(&mut self, inside: Inside) {
        if let Some(expected) = self.expected.get_mut(inside.key) {
            expected.of_prefill.take(inside.of_prefill);
            expected.of_decode.take(inside.of_decode);
        }
    }
}

impl Limiter for State {
    type Parameters = EarlyRejection;

    fn new(parameters: &EarlyRejection) -> Self {
        let expected = Keyed::new(parameters.key);
        Self { parameters: parameters.clone(), expected, inside: Noted::default() }
    }

    fn adopt(&mut self, _: Moment, parameters: &EarlyRejection) {
        self.parameters = parameters.clone();
    }

    fn ask(&mut self, now: Moment, key: u64, request: &RequestView, _: &Signals) -> Verdict {
        let p = &self.parameters;
        let before_s = p.prefill_s + p.prefill_ms_per_token * 1e-3 * f64::from(request.tokens_in);
        let answer_s = p.decode_ms_per_token * 1e-3 * f64::from(request.tokens_out_estimate);
        let decodes = now.after(nanos(before_s));
        let ends = decodes.after(nanos(answer_s));
        let expected = self.expected.entry(key, Expected::default, Expected::is_empty);
        expected.of_prefill.pass(now);
        expected.of_decode.pass(now);
        let load = match p.rule {
            Rule::Predicted => expected.decoding_at(decodes),
            Rule::Present => expected.decoding(),
        };
        if load >= p.decode_at_once {
            let refusal =
                Refusal::new(Reason::EarlyRejection, f64::from(load) + 1.0, f64::from(p.decode_at_once));
            return Verdict::Refuse(refusal);
        }
        let (of_prefill, of_decode) = (expected.of_prefill.add(decodes), expected.of_decode.add(ends));
        if let Some(unended) = self.inside.put(request.ticket, Inside { key, of_prefill, of_decode }) {
            // Nobody said that the one before it in this slot, or its own last call, was over.
            self.forget(unended);
        }
        Verdict::Hold
    }

    fn ended(&mut self, _: Moment, _: u64, request: &RequestView, _: &End) {
        if let Some(inside) = self.inside.take(request.ticket) {
            self.forget(inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;
    use std::collections::VecDeque;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    impl State {
        /// How many with this key are counted.
        fn inside(&mut self, key: u64) -> usize {
            let expected = self.expected.get_mut(key).unwrap();
            let of = |ahead: &Ahead| (ahead.come() + ahead.until(Moment(u64::MAX))) as usize;
            assert_eq!(of(&expected.of_prefill), of(&expected.of_decode));
            of(&expected.of_prefill)
        }
    }

    fn parameters(rule: Rule) -> EarlyRejection {
        EarlyRejection {
            place: Site::Front,
            key: Key::Global,
            decode_at_once: 100,
            prefill_s: 0.5,
            prefill_ms_per_token: 1.0,
            decode_ms_per_token: 20.0,
            rule,
        }
    }

    /// 1500 tokens in and 200 out: 2 s of prefill and 4 s of decode.
    fn request(n: u32) -> RequestView {
        RequestView { tokens_in: 1500, tokens_out_estimate: 200, ..RequestView::new(Ticket::of(n % 4096, n)) }
    }

    /// A decode stage of 100 places for 4 s each, so 25 per s, under 50 arrivals per s. Returns the least and
    /// the greatest number in the decode stage from the tenth second on.
    fn swing(rule: Rule) -> (usize, usize) {
        let mut state = State::new(&parameters(rule));
        let mut inside = VecDeque::new();
        let (mut least, mut greatest) = (usize::MAX, 0);
        for n in 0..5000_u32 {
            let now = u64::from(n) * 20 * MS;
            while let Some((old, came)) = inside.front().copied()
                && came + 6 * S <= now
            {
                inside.pop_front();
                state.ended(Moment(now), 0, &request(old), &End::answered(now - came, None));
            }
            if state.ask(Moment(now), 0, &request(n), &Signals::default()) == Verdict::Hold {
                inside.push_back((n, now));
            }
            if now >= 10 * S {
                let decoding = inside.iter().filter(|&&(_, came)| came + 2 * S <= now).count();
                (least, greatest) = (least.min(decoding), greatest.max(decoding));
            }
        }
        assert_eq!(state.inside(0), inside.len());
        (least, greatest)
    }

    #[test]
    fn the_present_load_swings_and_the_predicted_one_does_not() {
        // 2 s of arrivals, 100 of them, are in prefill and not seen when the stage is full.
        let (least, greatest) = swing(Rule::Present);
        assert!(greatest >= 180, "at most {greatest}");
        assert!(least <= 20, "at least {least}");
        let (least, greatest) = swing(Rule::Predicted);
        assert!(greatest <= 100, "at most {greatest}");
        assert!(least >= 95, "at least {least}");
    }

    #[test]
    fn one_that_takes_longer_than_expected_stays_where_it_is() {
        let mut state = State::new(&EarlyRejection { decode_at_once: 1, ..parameters(Rule::Predicted) });
        let signals = Signals::default();
        let ask = |state: &mut State, now, key, n| {
            state.ask(Moment(now), key, &request(n), &signals) == Verdict::Hold
        };
        assert!(ask(&mut state, 0, 0, 0));
        assert!(!ask(&mut state, S, 0, 1));
        assert!(ask(&mut state, S, 1, 1), "another value of the key is counted apart");
        // At 4 s it is seen that the first will be over when the second gets there ...
        assert!(ask(&mut state.clone(), 4 * S, 0, 2));
        // ... but at 6 s it is not over, and then nothing is known of its end.
        assert!(!ask(&mut state, 6 * S, 0, 2));
        state.ended(Moment(7 * S), 0, &request(0), &End::GONE);
        assert!(ask(&mut state, 7 * S, 0, 2));
        // Ends come in any order.
        state.ended(Moment(7 * S), 1, &request(1), &End::GONE);
        state.ended(Moment(7 * S), 0, &request(2), &End::GONE);
        assert_eq!([state.inside(0), state.inside(1)], [0, 0]);
    }

    #[test]
    fn a_slot_that_is_used_again_counts_once() {
        let mut state = State::new(&parameters(Rule::Present));
        for n in 0..10 {
            let view = RequestView { ticket: Ticket::of(n % 2, n), ..request(0) };
            assert_eq!(state.ask(Moment(0), 0, &view, &Signals::default()), Verdict::Hold);
        }
        assert_eq!(state.inside(0), 2);
    }
}
