//! A bucket of equal tokens: a request takes one, `rate_per_s` come back each second, at most `burst`
//! are kept.
//!
//! Refilled lazily and exactly: the level is a whole number of millionths of a token, and what a refill
//! leaves over below one millionth is carried to the next. Over any time the bucket therefore admits
//! at most burst + rate * time, however often it is asked; a level in floating point would drift.

use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const MICRO: f64 = 1e6;
/// One token, in millionths.
const TOKEN: u64 = 1_000_000;
const NANOS_PER_S: u64 = 1_000_000_000;

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

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Bucket {
    /// Millionths of a token.
    level: u64,
    /// What the last refill left over, in billionths of a millionth.
    rest: u64,
    at: Moment,
}

impl Bucket {
    /// The bucket at `now`, with what came back since it was last looked at.
    #[inline]
    fn refilled(self, now: Moment, rate: u64, burst: u64) -> Self {
        let elapsed = now.since(self.at);
        // The product fits 64 bits unless the bucket was left alone for long; then 128 bits are used.
        let product = rate.checked_mul(elapsed).and_then(|product| product.checked_add(self.rest));
        let (gained, rest) = if let Some(product) = product {
            (product / NANOS_PER_S, product % NANOS_PER_S)
        } else {
            let product = u128::from(rate) * u128::from(elapsed) + u128::from(self.rest);
            let gained = product / u128::from(NANOS_PER_S);
            (u64::try_from(gained).unwrap_or(u64::MAX), (product % u128::from(NANOS_PER_S)) as u64)
        };
        let level = self.level.saturating_add(gained);
        // A clock that is handed back keeps the later moment: time is never refilled twice.
        let at = self.at.max(now);
        if level >= burst { Self { level: burst, rest: 0, at } } else { Self { level, rest, at } }
    }
}

impl Limiter for State {
    type Parameters = TokenBucket;

    fn new(parameters: &TokenBucket) -> Self {
        Self {
            rate: (parameters.rate_per_s * MICRO).round() as u64,
            burst: (parameters.burst * MICRO).round() as u64,
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
            || Bucket { level: burst, rest: 0, at: now },
            |bucket| bucket.refilled(now, rate, burst).level >= burst,
        );
        *bucket = bucket.refilled(now, rate, burst);
        if bucket.level >= TOKEN {
            bucket.level -= TOKEN;
            return Verdict::Pass;
        }
        let refusal = Refusal::new(Reason::TokenBucketEmpty, bucket.level as f64 / MICRO, 1.0);
        let missing = u128::from(TOKEN - bucket.level) * u128::from(NANOS_PER_S) - u128::from(bucket.rest);
        Verdict::Refuse(match missing.checked_add(u128::from(rate).saturating_sub(1)) {
            Some(rounded_up) if rate > 0 => {
                refusal.retry_after(u64::try_from(rounded_up / u128::from(rate)).unwrap_or(u64::MAX))
            }
            _ => refusal,
        })
    }
}

#[cfg(test)]
mod tests {
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

        /// Asking more often changes nothing.
        #[test]
        fn refilling_in_steps_is_refilling_at_once(
            cuts in prop::collection::vec(0..1_000_000_000_u64, 0..50), rate in 0..1_000_000_000_u64,
        ) {
            let start = Bucket { level: 3, rest: 5, at: Moment::ZERO };
            let mut cuts = cuts;
            cuts.sort_unstable();
            let end = Moment(1_000_000_007);
            let stepped = cuts.iter().fold(start, |bucket, &cut| bucket.refilled(Moment(cut), rate, u64::MAX));
            prop_assert_eq!(stepped.refilled(end, rate, u64::MAX), start.refilled(end, rate, u64::MAX));
        }
    }
}
