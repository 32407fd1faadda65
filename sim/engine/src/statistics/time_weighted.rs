//! Mean and variance over time of a level that changes at instants: requests present, slots busy,
//! bytes in use.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

use crate::time::{Span, Time};

/// What a level is counted in. Whole numbers integrate exactly, in a `u128` of level times
/// nanoseconds, so that identities such as Little's law can be checked as integers; shares and other
/// real levels integrate in an `f64`.
pub trait Level: Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + private::Sealed {
    /// The type of the integral over time, in level times nanoseconds.
    type Integral: Copy;
    /// No level: of the integral too.
    const EMPTY: Self::Integral;

    /// The integral after another `nanos` at this level.
    fn integrate(self, integral: Self::Integral, nanos: u64) -> Self::Integral;
    /// The level as a number.
    fn as_f64(self) -> f64;
    /// The integral as a number.
    fn integral_as_f64(integral: Self::Integral) -> f64;
}

mod private {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for f64 {}
}

impl Level for u64 {
    type Integral = u128;
    const EMPTY: u128 = 0;

    #[inline]
    fn integrate(self, integral: u128, nanos: u64) -> u128 {
        // At most 2^128 - 2^65 + 1 for the product; the sum stays below 2^128 because the spans add
        // up to less than 2^64 and the level is below 2^64.
        integral + u128::from(self) * u128::from(nanos)
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self as f64
    }

    fn integral_as_f64(integral: u128) -> f64 {
        integral as f64
    }
}

impl Level for f64 {
    type Integral = f64;
    const EMPTY: f64 = 0.0;

    #[inline]
    fn integrate(self, integral: f64, nanos: u64) -> f64 {
        integral + self * nanos as f64
    }

    #[inline]
    fn as_f64(self) -> f64 {
        self
    }

    fn integral_as_f64(integral: f64) -> f64 {
        integral
    }
}

/// A level over time and its integral. Report each change as it happens; instants must not go back
/// (one that does counts as the latest seen).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeWeighted<L: Level> {
    level: L,
    since: Time,
    /// When observation began.
    start: Time,
    max: L,
    integral: L::Integral,
    /// The level at the start. Squares are taken of the distance from it, which keeps the variance of
    /// a large level that varies little.
    origin: f64,
    squares: f64,
}

impl<L: Level> TimeWeighted<L> {
    /// Observes from `now` on, at `level`.
    pub fn new(now: Time, level: L) -> Self {
        let origin = level.as_f64();
        Self { level, since: now, start: now, max: level, integral: L::EMPTY, origin, squares: 0.0 }
    }

    /// From `now` on the level is `level`.
    #[inline]
    pub fn set(&mut self, now: Time, level: L) {
        self.catch_up(now);
        self.level = level;
        if level > self.max {
            self.max = level;
        }
    }

    /// From `now` on the level is higher by `by`.
    #[inline]
    pub fn add(&mut self, now: Time, by: L) {
        self.set(now, self.level + by);
    }

    /// From `now` on the level is lower by `by`. A whole level must not fall below 0.
    #[inline]
    pub fn sub(&mut self, now: Time, by: L) {
        self.set(now, self.level - by);
    }

    /// The level at present.
    #[inline]
    pub fn level(&self) -> L {
        self.level
    }

    /// The highest level since the start of observation.
    pub fn max(&self) -> L {
        self.max
    }

    /// How long the level has been observed by `now`.
    pub fn observed(&self, now: Time) -> Span {
        now.max(self.since).since(self.start)
    }

    /// The integral of the level up to `now`, in level times nanoseconds.
    pub fn integral(&self, now: Time) -> L::Integral {
        self.level.integrate(self.integral, now.since(self.since).as_nanos())
    }

    /// The mean level up to `now`; the level itself when no time has passed.
    pub fn mean(&self, now: Time) -> f64 {
        let nanos = self.observed(now).as_nanos();
        if nanos == 0 {
            return self.level.as_f64();
        }
        L::integral_as_f64(self.integral(now)) / nanos as f64
    }

    /// The variance of the level over time up to `now`; 0 when no time has passed.
    pub fn variance(&self, now: Time) -> f64 {
        let nanos = self.observed(now).as_nanos();
        if nanos == 0 {
            return 0.0;
        }
        let off = self.level.as_f64() - self.origin;
        let squares = self.squares + off * off * now.since(self.since).as_nanos() as f64;
        let mean_off = self.mean(now) - self.origin;
        (squares / nanos as f64 - mean_off * mean_off).max(0.0)
    }

    /// Forgets what was, and observes from `now` on at the present level: the end of a warm-up.
    pub fn reset(&mut self, now: Time) {
        *self = Self::new(now.max(self.since), self.level);
    }

    #[inline]
    fn catch_up(&mut self, now: Time) {
        let nanos = now.since(self.since).as_nanos();
        self.integral = self.level.integrate(self.integral, nanos);
        let off = self.level.as_f64() - self.origin;
        self.squares += off * off * nanos as f64;
        self.since = self.since.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Time {
        Time::from_nanos(nanos)
    }

    #[test]
    fn integrates_a_staircase_exactly() {
        let mut queue = TimeWeighted::new(at(10), 2_u64);
        queue.add(at(20), 3);
        queue.sub(at(24), 4);
        // 10 ns at 2, 4 ns at 5, 6 ns at 1.
        assert_eq!(queue.integral(at(30)), 20 + 20 + 6);
        assert_eq!((queue.level(), queue.max()), (1, 5));
        assert_eq!(queue.observed(at(30)), Span::from_nanos(20));
        assert!((queue.mean(at(30)) - 2.3).abs() < 1e-15);
        let second = (10.0 * 4.0 + 4.0 * 25.0 + 6.0) / 20.0;
        assert!((queue.variance(at(30)) - (second - 2.3 * 2.3)).abs() < 1e-12);
    }

    #[test]
    fn integers_stay_exact_where_doubles_would_not() {
        let mut bytes = TimeWeighted::new(Time::ZERO, 80_000_000_001_u64);
        bytes.set(at(1_000_000_000_000_007), 1);
        assert_eq!(bytes.integral(at(1_000_000_000_000_008)), 80_000_000_001 * 1_000_000_000_000_007 + 1);
    }

    #[test]
    fn a_reset_forgets_the_warm_up() {
        let mut share = TimeWeighted::new(Time::ZERO, 0.5);
        share.set(at(100), 0.25);
        share.reset(at(200));
        assert_eq!((share.max(), share.mean(at(200)), share.variance(at(200))), (0.25, 0.25, 0.0));
        share.set(at(300), 0.75);
        assert!((share.mean(at(400)) - 0.5).abs() < 1e-15);
        assert!((share.variance(at(400)) - 0.0625).abs() < 1e-15);
    }

    #[test]
    fn an_instant_in_the_past_adds_nothing() {
        let mut queue = TimeWeighted::new(at(50), 1_u64);
        queue.set(at(60), 3);
        queue.set(at(40), 2);
        assert_eq!(queue.integral(at(60)), 10);
        assert_eq!(queue.mean(at(40)), 1.0);
    }

    #[test]
    fn small_variance_of_a_large_level_survives() {
        let mut level = TimeWeighted::new(Time::ZERO, 40_000_000_000_u64);
        for step in 0..1000 {
            level.set(at(step * 10), 40_000_000_000 + step % 2);
        }
        assert!((level.variance(at(10_000)) - 0.25).abs() < 1e-6);
    }
}
