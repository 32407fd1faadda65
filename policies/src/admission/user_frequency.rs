//! At most `limit` requests of a user in any window (published case G3).
//!
//! Exact: the moments of the last `limit` requests that were let in are kept, and a further one must
//! come a whole window after the oldest of them. So no span of the window's length, wherever it starts,
//! holds more. A counter per sub-window was rejected: a limit per user is small, so the moments take
//! less room than the counters, and have no grain. Memory is 8 bytes for each request of the limit and each
//! user of the last window, so the limit is at most 1000; a greater one is for `token_window` or
//! `token_bucket`.

use super::rows::Rows;
use super::{Key, Limiter, Refusal, Verdict, front};
use crate::moment::nanos;
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the user's frequency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserFrequency {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default = "per_user")]
    pub key: Key,
    /// Requests in any window.
    #[schemars(range(min = 1, max = 1_000))]
    pub limit: u32,
    /// Length of the window, in seconds.
    #[serde(default = "a_minute")]
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub window_s: f64,
}

fn per_user() -> Key {
    Key::User
}

fn a_minute() -> f64 {
    60.0
}

impl UserFrequency {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every module has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// When the last requests of each user came in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limit: u32,
    window_ns: u64,
    log: Rows<Ring, Moment>,
}

/// Where the moments of one user begin in the row, and how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Ring {
    first: u32,
    len: u32,
}

impl Ring {
    /// Index of the i-th oldest in a row of this length.
    #[inline]
    fn at(self, i: u32, row: usize) -> usize {
        (self.first as usize + i as usize) % row
    }
}

impl Limiter for State {
    type Parameters = UserFrequency;

    fn new(parameters: &UserFrequency) -> Self {
        Self {
            limit: parameters.limit,
            window_ns: nanos(parameters.window_s).max(1),
            log: Rows::new(parameters.limit as usize),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &UserFrequency) {
        self.window_ns = nanos(parameters.window_s).max(1);
        if parameters.limit == self.limit {
            return;
        }
        self.limit = parameters.limit;
        self.log.restride(self.limit as usize, |ring, old, new| {
            let kept = ring.len.min(parameters.limit);
            for (i, moment) in (ring.len - kept..ring.len).zip(new.iter_mut()) {
                *moment = old[ring.at(i, old.len())];
            }
            *ring = Ring { first: 0, len: kept };
        });
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        let window_ns = self.window_ns;
        let (ring, moments) = self.log.row(key, |ring, moments| {
            ring.len == 0 || now.since(moments[ring.at(ring.len - 1, moments.len())]) >= window_ns
        });
        if ring.len < self.limit {
            moments[ring.at(ring.len, moments.len())] = now;
            ring.len += 1;
            return Verdict::Pass;
        }
        let oldest = &mut moments[ring.first as usize];
        if now.since(*oldest) >= window_ns {
            *oldest = now;
            ring.first = (ring.first + 1) % self.limit;
            return Verdict::Pass;
        }
        let rest_ns = oldest.after(window_ns).since(now);
        let limit = f64::from(self.limit);
        Verdict::Refuse(Refusal::new(Reason::UserFrequencySpent, limit, limit).retry_after(rest_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn parameters(limit: u32) -> UserFrequency {
        UserFrequency { place: Site::Front, key: Key::User, limit, window_s: 60.0 }
    }

    fn ask(state: &mut State, now: u64, user: u64) -> Verdict {
        state.ask(Moment(now), user, &RequestView::new(Ticket(0)), &Signals::default())
    }

    #[test]
    fn g3_more_than_ten_of_a_user_within_a_minute_are_refused() {
        let mut state = State::new(&parameters(10));
        for n in 0..10 {
            assert_eq!(ask(&mut state, n * S, 1), Verdict::Pass);
        }
        let Verdict::Refuse(refusal) = ask(&mut state, 30 * S, 1) else { panic!("an eleventh came in") };
        assert_eq!((refusal.why, refusal.threshold), (Reason::UserFrequencySpent, 10.0));
        assert_eq!(refusal.retry_after_ns, Some(30 * S));
        assert_eq!(ask(&mut state, 30 * S, 2), Verdict::Pass);
        // The window slides: one by one they leave it.
        assert_ne!(ask(&mut state, 60 * S - 1, 1), Verdict::Pass);
        assert_eq!(ask(&mut state, 60 * S, 1), Verdict::Pass);
        assert_ne!(ask(&mut state, 60 * S, 1), Verdict::Pass);
        assert_eq!(ask(&mut state, 61 * S, 1), Verdict::Pass);
    }

    #[test]
    fn a_limit_that_would_take_too_much_memory_is_refused() {
        let file = "[admission.user]\nkind = 'user_frequency'\nlimit = 1001\n";
        let error = toml::from_str::<crate::Policy>(file).unwrap().check().unwrap_err();
        assert_eq!(error.to_string(), "admission.user.limit: found 1001, allowed: 1 to 1000");
    }

    #[test]
    fn a_new_limit_keeps_the_newest_moments() {
        let mut state = State::new(&parameters(3));
        for now in [0, 10 * S, 20 * S, 60 * S] {
            assert_eq!(ask(&mut state, now, 1), Verdict::Pass);
        }
        state.adopt(Moment(61 * S), &parameters(2));
        assert_ne!(ask(&mut state, 79 * S, 1), Verdict::Pass);
        assert_eq!(ask(&mut state, 80 * S, 1), Verdict::Pass);
        state.adopt(Moment(81 * S), &parameters(4));
        assert_eq!([0, 1].map(|_| ask(&mut state, 82 * S, 1)), [Verdict::Pass; 2]);
        assert_ne!(ask(&mut state, 119 * S, 1), Verdict::Pass);
        assert_eq!(ask(&mut state, 120 * S, 1), Verdict::Pass);
    }

    proptest! {
        #[test]
        fn no_window_of_a_user_holds_more_than_the_limit(
            steps in prop::collection::vec((0..8 * S, 0..3_u64), 1..300), limit in 1..12_u32,
        ) {
            let mut state = State::new(&parameters(limit));
            let mut now = 0;
            let mut admitted = [const { Vec::new() }; 3];
            for (gap, user) in steps {
                now += gap;
                let of_user = &mut admitted[user as usize];
                let inside = of_user.iter().filter(|&&at| now - at < 60 * S).count();
                // Neither one too many nor one too few.
                let passed = ask(&mut state, now, user) == Verdict::Pass;
                prop_assert_eq!(passed, inside < limit as usize);
                if passed {
                    of_user.push(now);
                }
            }
        }
    }
}
