//! Evenly spaced: a leaky bucket (incident N22).
//!
//! Each request has a turn, one interval after the last one's. A call that comes before its turn is held
//! until then, if that is not longer than `wait_at_most_s`; a request at the front cannot be held, so it
//! is refused. Unlike a token bucket it lets no burst through, whatever was left unused before.
//!
//! Turns are kept in nanoseconds with the fraction carried, so over any time the rate is exact. The
//! wrong form rounds the interval to whole milliseconds: all rates from 1000 to 2000 per second come out
//! as 1000, and above 2000 the interval is 0 and there is no limit at all.

use super::bucket::{NANOS_PER_S, micro};
use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::moment::{nanos, seconds};
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const NANOS_PER_MS: u64 = 1_000_000;

/// How finely the interval is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// In nanoseconds, the fraction carried.
    #[default]
    Nanosecond,
    /// In whole milliseconds, rounded. Wrong above some hundred requests per second.
    Millisecond,
}

/// Parameters of the pacing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Paced {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// Requests per second; used to the nearest millionth.
    #[schemars(range(min = 0.001, max = 1e9))]
    pub rate_per_s: f64,
    /// Longest wait for a turn, in seconds; 0: none. Must be 0 at the front.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub wait_at_most_s: f64,
    /// How finely the interval is kept.
    #[serde(default)]
    pub resolution: Resolution,
}

impl Paced {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.place == Site::Front && self.wait_at_most_s > 0.0 {
            return Err(PolicyError::not_allowed(
                format!("{path}.wait_at_most_s"),
                self.wait_at_most_s.to_string(),
                "0 at the front, where waiting is the queue's",
            ));
        }
        Ok(())
    }

    fn interval(&self) -> Interval {
        match self.resolution {
            Resolution::Nanosecond => {
                let (rate, of) = (micro(self.rate_per_s).max(1), NANOS_PER_S * 1_000_000);
                Interval { whole: of / rate, rest: of % rate, rate }
            }
            Resolution::Millisecond => {
                // A float-to-integer cast truncates: with the half, it rounds.
                let whole = (1000.0 / self.rate_per_s + 0.5) as u64;
                Interval { whole: whole.saturating_mul(NANOS_PER_MS), rest: 0, rate: 1 }
            }
        }
    }
}

/// From one turn to the next: `whole + rest / rate` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Interval {
    whole: u64,
    rest: u64,
    /// Millionths of a request per second.
    rate: u64,
}

/// The next turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    interval: Interval,
    wait_ns: u64,
    turns: Keyed<Turn>,
}

/// When the next one's turn is: `rest / rate` nanoseconds after `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Turn {
    at: Moment,
    rest: u64,
}

impl Turn {
    fn after(self, interval: Interval) -> Self {
        let rest = self.rest + interval.rest;
        let carried = rest / interval.rate;
        Self { at: self.at.after(interval.whole.saturating_add(carried)), rest: rest % interval.rate }
    }
}

impl Limiter for State {
    type Parameters = Paced;

    fn new(parameters: &Paced) -> Self {
        Self {
            interval: parameters.interval(),
            wait_ns: nanos(parameters.wait_at_most_s),
            turns: Keyed::new(parameters.key),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &Paced) {
        self.interval = parameters.interval();
        self.wait_ns = nanos(parameters.wait_at_most_s);
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        let turn = self.turns.entry(key, Turn::default, |turn| turn.at < now);
        if turn.at < now {
            *turn = Turn { at: now, rest: 0 };
        }
        let wait_ns = turn.at.since(now);
        if wait_ns > self.wait_ns {
            let refusal = Refusal::new(Reason::PacedTooEarly, seconds(wait_ns), seconds(self.wait_ns));
            return Verdict::Refuse(refusal.retry_after(wait_ns - self.wait_ns));
        }
        *turn = turn.after(self.interval);
        if wait_ns == 0 { Verdict::Pass } else { Verdict::Wait(wait_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn paced(rate_per_s: f64, wait_at_most_s: f64, resolution: Resolution) -> Paced {
        Paced { place: Site::LlmCall, key: Key::Global, rate_per_s, wait_at_most_s, resolution }
    }

    fn ask(state: &mut State, now: u64) -> Verdict {
        state.ask(Moment(now), 0, &RequestView::new(Ticket(0)), &Signals::default())
    }

    /// How many of a great crowd pass in the first second: one comes every 10 us.
    fn in_a_second(rate_per_s: f64, resolution: Resolution) -> u32 {
        let mut state = State::new(&paced(rate_per_s, 0.0, resolution));
        (0..100_000).map(|n| u32::from(ask(&mut state, n * 10_000) == Verdict::Pass)).sum()
    }

    #[test]
    fn n22_whole_milliseconds_give_1000_per_s_or_no_limit() {
        use Resolution::{Millisecond, Nanosecond};
        for rate in [1000.0, 1200.0, 1500.0, 1999.0, 2000.0] {
            assert_eq!(in_a_second(rate, Millisecond), 1000, "{rate} per s");
        }
        for rate in [2001.0, 5000.0] {
            assert_eq!(in_a_second(rate, Millisecond), 100_000, "{rate} per s");
        }
        // Of those that come every 10 us, the first after each turn passes.
        for rate in [1000_u32, 1250, 2000, 2500, 5000] {
            assert_eq!(in_a_second(f64::from(rate), Nanosecond), rate);
        }
    }

    #[test]
    fn fractions_of_a_nanosecond_are_carried() {
        // Three turns take a second: two of 333 333 333 ns and one of a nanosecond more.
        let mut state = State::new(&paced(3.0, 3600.0, Resolution::Nanosecond));
        let waits: Vec<Verdict> = (0..7).map(|_| ask(&mut state, 0)).collect();
        assert_eq!(waits[0], Verdict::Pass);
        let expected = [333_333_333, 666_666_666, S, S + 333_333_333, S + 666_666_666, 2 * S];
        assert_eq!(waits[1..], expected.map(Verdict::Wait));
    }

    #[test]
    fn a_call_waits_for_its_turn_or_is_told_when_to_come() {
        let mut state = State::new(&paced(10.0, 0.15, Resolution::Nanosecond));
        assert_eq!(ask(&mut state, S), Verdict::Pass);
        assert_eq!(ask(&mut state, S), Verdict::Wait(S / 10));
        let Verdict::Refuse(refusal) = ask(&mut state, S) else { panic!("it waits for two turns") };
        assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::PacedTooEarly, 0.2, 0.15));
        assert_eq!(refusal.retry_after_ns, Some(S / 20));
        assert_eq!(ask(&mut state, S + S / 20), Verdict::Wait(3 * S / 20));
        // What was left unused is not made up for.
        assert_eq!(ask(&mut state, 100 * S), Verdict::Pass);
        assert_eq!(ask(&mut state, 100 * S), Verdict::Wait(S / 10));
        let at_the_front = Paced { place: Site::Front, ..paced(1.0, 1.0, Resolution::Nanosecond) };
        assert_eq!(at_the_front.check("admission.p").unwrap_err().path(), "admission.p.wait_at_most_s");
    }

    proptest! {
        /// Any two that pass are at least their share of the intervals apart, to a nanosecond.
        #[test]
        fn those_that_pass_are_evenly_spaced(
            gaps in prop::collection::vec(0..S, 1..100), rate in 0.5..2000.0_f64, wait in 0.0..2.0_f64,
        ) {
            let mut state = State::new(&paced(rate, wait, Resolution::Nanosecond));
            let (mut now, mut starts) = (0, Vec::new());
            for gap in gaps {
                now += gap;
                match ask(&mut state, now) {
                    Verdict::Pass => starts.push(now),
                    Verdict::Wait(ns) => starts.push(now + ns),
                    _ => {}
                }
            }
            for (i, &from) in starts.iter().enumerate() {
                for (j, &to) in starts.iter().enumerate().skip(i + 1) {
                    let least = u128::from(S) * 1_000_000 * (j - i) as u128 / u128::from(micro(rate));
                    prop_assert!(u128::from(to - from) + 1 >= least);
                }
            }
        }
    }
}
