//! A mean with its confidence interval, over replications.

use serde::{Deserialize, Serialize};

use super::{Welford, student_t_quantile};

/// A mean and the range in which the true mean lies with the stated confidence, if the values are
/// independent and nearly normal: as means over replications or long batches are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Mean of the values; NaN without any.
    pub mean: f64,
    /// Lower end; minus infinity with fewer than two values.
    pub lo: f64,
    /// Upper end; infinity with fewer than two values.
    pub hi: f64,
    /// How many values.
    pub n: usize,
}

impl Interval {
    /// The interval of `values` at `confidence`, for example 0.95, by Student's t. One value gives
    /// an infinite interval, as does a confidence of 1.
    pub fn of(values: &[f64], confidence: f64) -> Self {
        let all: Welford = values.iter().copied().collect();
        let n = values.len();
        let Some(mean) = all.mean() else {
            return Self { mean: f64::NAN, lo: f64::NEG_INFINITY, hi: f64::INFINITY, n };
        };
        let half = match all.variance() {
            None => f64::INFINITY,
            Some(0.0) => 0.0,
            Some(variance) => {
                let t = student_t_quantile(0.5 + 0.5 * confidence, (n - 1) as f64);
                t * (variance / n as f64).sqrt()
            }
        };
        Self { mean, lo: mean - half, hi: mean + half, n }
    }

    /// The interval of the differences `a[i] - b[i]`: with common random numbers far narrower than
    /// the two intervals apart. Only the pairs count, up to the shorter slice.
    pub fn paired(a: &[f64], b: &[f64], confidence: f64) -> Self {
        let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        Self::of(&differences, confidence)
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> f64 {
        0.5 * (self.hi - self.lo)
    }

    /// Whether `value` lies in the interval.
    pub fn contains(&self, value: f64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    #[test]
    fn textbook_interval() {
        // Mean 3, standard deviation sqrt(2.5), t(0.975, 4) = 2.776445105.
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95);
        assert_eq!((interval.mean, interval.n), (3.0, 5));
        assert!((interval.half_width() - 2.776_445_105_197_793 * 0.5_f64.sqrt()).abs() < 1e-8);
        assert!(interval.contains(1.5) && !interval.contains(5.0));
    }

    #[test]
    fn few_values_promise_nothing() {
        let none = Interval::of(&[], 0.95);
        assert!(none.mean.is_nan() && none.n == 0 && none.half_width() == f64::INFINITY);
        let one = Interval::of(&[2.0], 0.95);
        assert_eq!((one.mean, one.lo, one.hi), (2.0, f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(Interval::of(&[2.0, 2.0, 2.0], 0.95).half_width(), 0.0);
    }

    #[test]
    fn pairing_removes_what_is_common() {
        let a = [10.0, 20.0, 30.0, 40.0];
        let b = [9.0, 19.1, 28.9, 39.0];
        let paired = Interval::paired(&a, &b, 0.95);
        assert!((paired.mean - 1.0).abs() < 1e-12);
        assert!(paired.hi < 1.2 && paired.lo > 0.8);
    }

    #[test]
    fn covers_as_often_as_it_says() {
        let mut stream = Stream::new(11, 0, "coverage", 0);
        let covered = (0..2000)
            .filter(|_| {
                let values: Vec<f64> = (0..10).map(|_| stream.uniform()).collect();
                Interval::of(&values, 0.9).contains(0.5)
            })
            .count();
        // 1800 expected, standard deviation 13.4; four of them.
        assert!((1746..=1854).contains(&covered), "{covered}");
    }
}
