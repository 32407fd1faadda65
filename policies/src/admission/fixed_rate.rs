//! At most `limit` requests in each fixed window (published cases W7, G2, G4).
//!
//! The windows follow one another from the driver's start. Across the border of two windows twice the
//! limit can pass within one window's length: that is the known weakness of the rule, and it is kept.

use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::moment::nanos;
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the fixed rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FixedRate {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// Requests per window.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub limit: u32,
    /// With `key = "endpoint"`: the limits of the endpoints, in their order. One beyond the list has
    /// `limit`.
    #[serde(default)]
    #[schemars(inner(range(min = 0, max = 1_000_000_000)))]
    pub limits: Vec<u32>,
    /// Length of a window, in seconds.
    #[serde(default = "one_second")]
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub window_s: f64,
}

fn one_second() -> f64 {
    1.0
}

impl FixedRate {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.limits.is_empty() || self.key == Key::Endpoint {
            return Ok(());
        }
        Err(PolicyError::not_allowed(
            format!("{path}.limits"),
            format!("{} limits", self.limits.len()),
            "none, unless the key is `endpoint`",
        ))
    }
}

/// Counts of the current window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limit: u32,
    limits: Vec<u32>,
    window_ns: u64,
    counts: Keyed<Count>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Count {
    window: u64,
    admitted: u32,
}

impl Limiter for State {
    type Parameters = FixedRate;

    fn new(parameters: &FixedRate) -> Self {
        let counts = Keyed::new(parameters.key);
        let window_ns = nanos(parameters.window_s).max(1);
        Self { limit: parameters.limit, limits: parameters.limits.clone(), window_ns, counts }
    }

    fn adopt(&mut self, _: Moment, parameters: &FixedRate) {
        *self = Self {
            counts: std::mem::replace(&mut self.counts, Keyed::new(Key::Global)),
            ..Self::new(parameters)
        };
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        let limit = self.limits.get(key as usize).copied().unwrap_or(self.limit);
        let window = now.0 / self.window_ns;
        let count = self.counts.entry(key, Count::default, |count| count.window != window);
        if count.window != window {
            *count = Count { window, admitted: 0 };
        }
        if count.admitted < limit {
            count.admitted += 1;
            return Verdict::Pass;
        }
        let rest_ns = self.window_ns - now.0 % self.window_ns;
        let refusal = Refusal::new(Reason::FixedRateSpent, f64::from(count.admitted), f64::from(limit));
        Verdict::Refuse(refusal.retry_after(rest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn state(limit: u32, window_s: f64, key: Key) -> State {
        State::new(&FixedRate { place: Site::Front, key, limit, limits: Vec::new(), window_s })
    }

    #[test]
    fn thirty_at_once_with_a_limit_of_ten() {
        let mut state = state(10, 1.0, Key::Global);
        let signals = Signals::default();
        let verdicts: Vec<Verdict> =
            (0..30).map(|_| state.ask(Moment(300 * MS), 0, &RequestView::new(Ticket(0)), &signals)).collect();
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Pass).count(), 10);
        let Verdict::Refuse(refusal) = verdicts[29] else { panic!("the last was let in") };
        assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::FixedRateSpent, 10.0, 10.0));
        assert_eq!(refusal.retry_after_ns, Some(700 * MS));
        assert_eq!(state.ask(Moment(1000 * MS), 0, &RequestView::new(Ticket(0)), &signals), Verdict::Pass);
    }

    #[test]
    fn keys_are_counted_apart_and_a_new_limit_keeps_the_count() {
        let mut state = state(1, 60.0, Key::User);
        let signals = Signals::default();
        for user in [1, 2] {
            assert_eq!(state.ask(Moment(0), user, &RequestView::new(Ticket(0)), &signals), Verdict::Pass);
            assert_ne!(state.ask(Moment(1), user, &RequestView::new(Ticket(0)), &signals), Verdict::Pass);
        }
        state.adopt(
            Moment(2),
            &FixedRate { place: Site::Front, key: Key::User, limit: 2, limits: Vec::new(), window_s: 60.0 },
        );
        assert_eq!(state.ask(Moment(2), 1, &RequestView::new(Ticket(0)), &signals), Verdict::Pass);
        assert_ne!(state.ask(Moment(3), 1, &RequestView::new(Ticket(0)), &signals), Verdict::Pass);
    }

    #[test]
    fn endpoints_may_have_limits_of_their_own() {
        let (place, key, limits) = (Site::Front, Key::Endpoint, vec![1, 0]);
        let parameters = FixedRate { place, key, limit: 3, limits, window_s: 1.0 };
        parameters.check("admission.entry").unwrap();
        let mut state = State::new(&parameters);
        let signals = Signals::default();
        let admitted = |endpoint: u64, state: &mut State| {
            let ask = |_: &i32| {
                state.ask(Moment(0), endpoint, &RequestView::new(Ticket(0)), &signals) == Verdict::Pass
            };
            (0..9).filter(ask).count()
        };
        assert_eq!([0, 1, 2].map(|endpoint| admitted(endpoint, &mut state)), [1, 0, 3]);
        let global = FixedRate { key: Key::Global, ..parameters };
        assert_eq!(global.check("admission.entry").unwrap_err().path(), "admission.entry.limits");
    }

    proptest! {
        #[test]
        fn no_window_lets_more_than_its_limit_in(
            gaps in prop::collection::vec(0..400 * MS, 0..300), limit in 0..20_u32,
        ) {
            let mut state = state(limit, 1.0, Key::Global);
            let mut now = Moment::ZERO;
            let mut admitted = std::collections::BTreeMap::<u64, u32>::new();
            for gap in gaps {
                now = now.after(gap);
                if state.ask(now, 0, &RequestView::new(Ticket(0)), &Signals::default()) == Verdict::Pass {
                    *admitted.entry(now.0 / (1000 * MS)).or_default() += 1;
                }
            }
            prop_assert!(admitted.values().all(|&count| count <= limit));
        }
    }
}
