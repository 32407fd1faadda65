//! The clock's two quantities: [`Time`], an instant since the start of the run, and [`Span`], a
//! length of time. Both count whole nanoseconds in a `u64`.
//!
//! Integers, not `f64` seconds: two events meant for one instant compare equal, sums do not depend on
//! the order of their terms, and no comparison needs an epsilon. 2^64 ns are 584 years; arithmetic
//! saturates there instead of wrapping, so that "never" can be written as `MAX`.

use std::fmt;
use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

const NANOS_PER_SECOND: f64 = 1e9;

/// An instant: nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

/// A length of time in nanoseconds; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// The last instant that can be written; stands for "never".
    pub const MAX: Self = Self(u64::MAX);

    /// The instant this many nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start, to the precision of an `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }

    /// What has passed since `earlier`; nothing when `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span that can be written; stands for "for ever".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of this many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// A span of this many seconds, to the nearest nanosecond. A negative number or NaN gives
    /// [`Span::ZERO`], one too large (or infinite) gives [`Span::MAX`].
    #[inline]
    pub fn from_secs_f64(seconds: f64) -> Self {
        const WHOLE_FROM: f64 = 4_503_599_627_370_496.0;
        let nanos = seconds * NANOS_PER_SECOND;
        if (0.0..WHOLE_FROM).contains(&nanos) {
            // Between 2^52 and 2^53 doubles are the whole numbers: adding 2^52 rounds to nearest, and
            // leaves the number in the low bits. The schedule of every event waits for this, and a
            // cast, which must mind its ends, takes three times as long.
            return Self((nanos + WHOLE_FROM).to_bits() - WHOLE_FROM.to_bits());
        }
        // From 2^52 on the product is whole already; the cast saturates, and sends NaN to 0.
        Self(nanos as u64)
    }

    /// The length in seconds, to the precision of an `f64`.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Time {
    /// Seconds to the nanosecond, exactly: `12.000000345 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09} s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Span {
    /// Seconds to the nanosecond, exactly: `0.000000345 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Time(self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_round_to_the_nearest_nanosecond() {
        assert_eq!(Span::from_secs_f64(1.234_567_890_4), Span::from_nanos(1_234_567_890));
        assert_eq!(Span::from_secs_f64(0.9e-9), Span::from_nanos(1));
        assert_eq!(Span::from_secs_f64(0.4e-9), Span::ZERO);
        // The largest doubles below and above the point where a double holds no half nanosecond.
        assert_eq!(Span::from_secs_f64(9_007_199.254_740_993).as_nanos(), 9_007_199_254_740_992);
    }

    #[test]
    fn seconds_out_of_range_saturate() {
        assert_eq!(Span::from_secs_f64(-1.0), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NAN), Span::ZERO);
        assert_eq!(Span::from_secs_f64(f64::NEG_INFINITY), Span::ZERO);
        assert_eq!(Span::from_secs_f64(1e12), Span::MAX);
        assert_eq!(Span::from_secs_f64(f64::INFINITY), Span::MAX);
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time::MAX + Span::from_nanos(1), Time::MAX);
        assert_eq!(Span::MAX + Span::MAX, Span::MAX);
        assert_eq!(Time::ZERO.since(Time::from_nanos(5)), Span::ZERO);
        assert_eq!(Time::from_nanos(7).since(Time::from_nanos(5)), Span::from_nanos(2));
        let mut at = Time::ZERO;
        at += Span::from_nanos(3);
        assert_eq!(at, Time::from_nanos(3));
    }

    #[test]
    fn display_shows_every_nanosecond() {
        assert_eq!(Time::from_nanos(12_000_000_345).to_string(), "12.000000345 s");
        assert_eq!(Span::from_nanos(5).to_string(), "0.000000005 s");
    }

    #[test]
    fn serde_is_the_bare_count() {
        assert_eq!(serde_json::to_string(&Time::from_nanos(5)).unwrap(), "5");
        assert_eq!(serde_json::from_str::<Span>("7").unwrap(), Span::from_nanos(7));
    }
}
