//! A bucket of equal tokens: a request takes one, `rate_per_s` come back each second, at most `burst`
//! are kept.
//!
//! The bucket is exact (`bucket`): over any time it admits at most burst + rate * time, however
//! often it is asked.

use super::bucket::{Bucket, MICRO, TOKEN, micro};
use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the token bucket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenBucket {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// Tokens that come back per second; used to the nearest millionth.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub rate_per_s: f64,
    /// Tokens that a full bucket holds; used to the nearest millionth.
    #[schemars(range(min = 1.0, max = 1e9))]
    pub burst: f64,
}

impl TokenBucket {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every module has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// The buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Millionths of a token per second.
    rate: u64,
    /// Millionths of a token.
    burst: u64,
    buckets: Keyed<Bucket>,
}

impl Limiter for State {
    type Parameters = TokenBucket;

    fn new(parameters: &TokenBucket) -> Self {
        Self {
            rate: micro(parameters.rate_per_s),
            burst: micro(parameters.burst),
            buckets: Keyed::new(parameters.key),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &TokenBucket) {
        let buckets = std::mem::replace(&mut self.buckets, Keyed::new(Key::Global));
        *self = Self { buckets, ..Self::new(parameters) };
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        let (rate, burst) = (self.rate, self.burst);
        let bucket = self.buckets.entry(
            key,
            || Bucket::full(now, burst),
            |bucket| bucket.refilled(now, rate, burst).level() >= burst,
        );
        *bucket = bucket.refilled(now, rate, burst);
        if bucket.take(TOKEN) {
            return Verdict::Pass;
        }
        let refusal = Refusal::new(Reason::TokenBucketEmpty, bucket.level() as f64 / MICRO, 1.0);
        Verdict::Refuse(Refusal { retry_after_ns: bucket.until(TOKEN, rate), ..refusal })
    }

    fn balance(&self, now: Moment, _: &Signals) -> Option<f64> {
        let share = |bucket: &Bucket| bucket.refilled(now, self.rate, self.burst).share_of(self.burst);
        Some(self.buckets.values().map(share).fold(1.0, f64::min))
    }
}

#[cfg(test)]
mod tests {
    use super::super::bucket::NANOS_PER_S;
    use super::*;
    use crate::Ticket;
    use proptest::prelude::*;

    fn state(rate_per_s: f64, burst: f64) -> State {
        State::new(&TokenBucket { place: Site::Front, key: Key::Global, rate_per_s, burst })
    }

    fn admits(state: &mut State, now: u64) -> bool {
        state.ask(Moment(now), 0, &RequestView::new(Ticket(0)), &Signals::default()) == Verdict::Pass
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut state = state(10.0, 5.0);
        assert_eq!((0..20).filter(|_| admits(&mut state, 0)).count(), 5);
        assert!(!admits(&mut state, 99_999_999));
        assert!(admits(&mut state, 100_000_000));
        assert!(!admits(&mut state, 100_000_001));
    }

    #[test]
    fn the_retry_hint_is_the_first_moment_that_admits() {
        let mut state = state(3.0, 1.0);
        assert!(admits(&mut state, 17));
        let Verdict::Refuse(refusal) =
            state.ask(Moment(20), 0, &RequestView::new(Ticket(0)), &Signals::default())
        else {
            panic!("an empty bucket admitted")
        };
        let hint = 20 + refusal.retry_after_ns.unwrap();
        assert!(!admits(&mut state.clone(), hint - 1));
        assert!(admits(&mut state, hint));
    }

    #[test]
    fn a_year_of_idling_fills_the_bucket_and_no_more() {
        let mut state = state(1e9, 2.0);
        assert!(admits(&mut state, 0));
        let year = 365 * 86_400 * NANOS_PER_S;
        assert_eq!((0..10).filter(|_| admits(&mut state, year)).count(), 2);
    }

    proptest! {
        /// In no window is more admitted than burst + rate * its length.
        #[test]
        fn the_bound_holds_in_every_window(
            gaps in prop::collection::vec(0..400_000_000_u64, 1..120),
            rate in 0.1..50.0_f64,
            burst in 1.0..20.0_f64,
        ) {
            let mut state = state(rate, burst);
            let (rate, burst) = (state.rate, state.burst);
            let mut now = 0;
            let mut admitted = Vec::new();
            for gap in gaps {
                now += gap;
                if admits(&mut state, now) {
                    admitted.push(now);
                }
            }
            for (i, &from) in admitted.iter().enumerate() {
                for (j, &to) in admitted.iter().enumerate().skip(i) {
                    let used = u128::from(TOKEN) * (j - i + 1) as u128 * u128::from(NANOS_PER_S);
                    let allowed = u128::from(burst) * u128::from(NANOS_PER_S)
                        + u128::from(rate) * u128::from(to - from);
                    // The refill before `from` may have left less than one millionth over.
                    prop_assert!(used <= allowed + u128::from(NANOS_PER_S));
                }
            }
        }
    }
}
