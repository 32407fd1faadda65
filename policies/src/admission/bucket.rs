//! An exact bucket of tokens, refilled lazily.
//!
//! The level is a whole number of millionths of a token, and what a refill leaves over below one
//! millionth is carried to the next. Over any time at one rate the bucket therefore gives at most
//! burst + rate * time, however often it is asked; a level in floating point would drift.

use crate::Moment;
use serde::{Deserialize, Serialize};

/// Millionths of a token in a token.
pub(crate) const MICRO: f64 = 1e6;
/// One token, in millionths.
pub(crate) const TOKEN: u64 = 1_000_000;
/// Nanoseconds per second.
pub(crate) const NANOS_PER_S: u64 = 1_000_000_000;

/// Millionths of a token in so many tokens, to the nearest.
#[inline]
pub(crate) fn micro(tokens: f64) -> u64 {
    // A float-to-integer cast saturates and maps NaN to 0.
    (tokens * MICRO).round() as u64
}

/// One bucket. Its rate and its size are its owner's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// Millionths of a token.
    level: u64,
    /// What the last refill left over, in billionths of a millionth.
    rest: u64,
    at: Moment,
}

impl Bucket {
    /// A full bucket that holds `burst` millionths.
    pub(crate) fn full(now: Moment, burst: u64) -> Self {
        Self { level: burst, rest: 0, at: now }
    }

    /// What it holds, in millionths of a token.
    #[inline]
    pub(crate) fn level(&self) -> u64 {
        self.level
    }

    /// What it holds as a share of `burst`, 0 to 1.
    pub(crate) fn share_of(&self, burst: u64) -> f64 {
        if burst == 0 { 0.0 } else { (self.level as f64 / burst as f64).min(1.0) }
    }

    /// The bucket at `now`, with what came back at `rate` millionths per second since it was last looked
    /// at.
    #[inline]
    pub(crate) fn refilled(self, now: Moment, rate: u64, burst: u64) -> Self {
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

    /// Takes so many millionths out, if it holds them.
    #[inline]
    pub(crate) fn take(&mut self, cost: u64) -> bool {
        if self.level < cost {
            return false;
        }
        self.level -= cost;
        true
    }

    /// Nanoseconds until it holds `cost` millionths; `None`: never at this rate.
    pub(crate) fn until(&self, cost: u64, rate: u64) -> Option<u64> {
        if rate == 0 {
            return None;
        }
        let missing = u128::from(cost.saturating_sub(self.level)) * u128::from(NANOS_PER_S);
        let missing = missing.saturating_sub(u128::from(self.rest));
        Some(u64::try_from(missing.div_ceil(u128::from(rate))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
