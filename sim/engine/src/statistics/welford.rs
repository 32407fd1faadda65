//! Mean and variance of observations, in one pass and without cancellation.

use serde::{Deserialize, Serialize};

/// Count, mean, variance, least and greatest of a series, after Welford ("Note on a method for
/// calculating corrected sums of squares and products", Technometrics 4, 1962); merging after Chan,
/// Golub and `LeVeque` (1983).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welford {
    count: u64,
    mean: f64,
    /// Sum of squared distances from the mean.
    squares: f64,
    min: f64,
    max: f64,
}

impl Welford {
    /// No observations yet.
    pub const fn new() -> Self {
        Self { count: 0, mean: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }

    /// Adds an observation.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all observations of `other`. The result does not depend on the order of merging, except
    /// for rounding: merge in a fixed order where the last bit matters.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let off = other.mean - self.mean;
        self.mean += off * b / (a + b);
        self.squares += other.squares + off * off * a * b / (a + b);
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many observations.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; `None` without any.
    pub const fn mean(&self) -> Option<f64> {
        if self.count == 0 { None } else { Some(self.mean) }
    }

    /// Their sample variance (over n - 1); `None` with fewer than two.
    pub const fn variance(&self) -> Option<f64> {
        if self.count < 2 { None } else { Some(self.squares / (self.count - 1) as f64) }
    }

    /// The least; `None` without any.
    pub const fn min(&self) -> Option<f64> {
        if self.count == 0 { None } else { Some(self.min) }
    }

    /// The greatest; `None` without any.
    pub const fn max(&self) -> Option<f64> {
        if self.count == 0 { None } else { Some(self.max) }
    }
}

impl Default for Welford {
    fn default() -> Self {
        Self::new()
    }
}

impl FromIterator<f64> for Welford {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut all = Self::new();
        for value in values {
            all.add(value);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn textbook_values() {
        let all: Welford = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().collect();
        assert_eq!((all.count(), all.mean()), (8, Some(5.0)));
        assert!((all.variance().unwrap() - 32.0 / 7.0).abs() < 1e-14);
        assert_eq!((all.min(), all.max()), (Some(2.0), Some(9.0)));
    }

    #[test]
    fn too_few_observations_give_none() {
        let mut all = Welford::default();
        assert_eq!((all.mean(), all.variance(), all.min(), all.max()), (None, None, None, None));
        all.add(3.0);
        assert_eq!((all.mean(), all.variance()), (Some(3.0), None));
    }

    #[test]
    fn no_cancellation_far_from_zero() {
        let all: Welford = [1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0].into_iter().collect();
        assert!((all.variance().unwrap() - 1.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn merging_equals_adding(a in prop::collection::vec(-1e6..1e6, 0..50), b in prop::collection::vec(-1e6..1e6, 0..50)) {
            let mut merged: Welford = a.iter().copied().collect();
            merged.merge(&b.iter().copied().collect());
            let whole: Welford = a.into_iter().chain(b).collect();
            prop_assert_eq!(merged.count(), whole.count());
            prop_assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
            if let (Some(x), Some(y)) = (merged.variance(), whole.variance()) {
                prop_assert!((x - y).abs() <= 1e-9 * y.max(1.0));
                prop_assert!((merged.mean().unwrap() - whole.mean().unwrap()).abs() < 1e-6);
            }
        }
    }
}
