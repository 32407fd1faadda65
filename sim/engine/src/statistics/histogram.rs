//! Quantiles of times in bounded memory, over the `hdrhistogram` crate.
//!
//! Buckets grow with the value, so the relative error is the same everywhere. The counts are not
//! allocated before the first record, and grow only as far as the largest value needs: a breakdown
//! over a hundred keys of which ninety never occur costs ten histograms.

use hdrhistogram::Histogram as Counts;

use crate::time::{Span, Time};

/// Buckets are about a microsecond wide at the bottom: what two requests differ by there is noise.
const RESOLUTION_NANOS: u64 = 1_000;
/// Longer times are counted as this: 10^6 s, 11 days.
const LIMIT_NANOS: u64 = 1_000_000_000_000_000;
/// Values up to here (17 s) fit without growing.
const FIRST_LIMIT_NANOS: u64 = 1 << 34;

/// A histogram of times from 1 µs to 10^6 s; shorter ones share the lowest bucket, longer ones count
/// as 10^6 s. Mean, least and greatest are exact.
#[derive(Clone, Debug)]
pub struct Histogram {
    digits: u8,
    counts: Option<Counts<u64>>,
    count: u64,
    sum_nanos: u128,
    min: Span,
    max: Span,
}

impl Histogram {
    /// An empty histogram of three significant digits (at most 0.1 % off); some 150 kB once used.
    pub const fn new() -> Self {
        Self::with_digits(3)
    }

    /// An empty histogram of two significant digits (at most 1 % off), for breakdowns; some 20 kB
    /// once used.
    pub const fn coarse() -> Self {
        Self::with_digits(2)
    }

    const fn with_digits(digits: u8) -> Self {
        Self { digits, counts: None, count: 0, sum_nanos: 0, min: Span::MAX, max: Span::ZERO }
    }

    /// Counts a time.
    #[inline]
    #[expect(clippy::missing_panics_doc, reason = "the reason why it cannot is in the `expect`")]
    pub fn record(&mut self, value: Span) {
        let nanos = value.as_nanos();
        self.count += 1;
        self.sum_nanos += u128::from(nanos);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let digits = self.digits;
        let counts = self.counts.get_or_insert_with(|| counts_for(digits));
        counts
            .record(nanos.min(LIMIT_NANOS))
            .expect("the counts resize by themselves, and the limit is within what they can hold");
    }

    /// Counts the time between two instants.
    #[inline]
    pub fn record_between(&mut self, from: Time, to: Time) {
        self.record(to.since(from));
    }

    /// Adds all that `other` has counted. Digits may differ; the result has those of `self`.
    #[expect(clippy::missing_panics_doc, reason = "the reason why it cannot is in the `expect`")]
    pub fn merge(&mut self, other: &Self) {
        if let Some(theirs) = &other.counts {
            let digits = self.digits;
            self.counts
                .get_or_insert_with(|| counts_for(digits))
                .add(theirs)
                .expect("the counts resize by themselves, and the other's values are below the same limit");
        }
        self.count += other.count;
        self.sum_nanos += other.sum_nanos;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// The time at or below which the share `q` (brought into [0, 1]) of all recorded times lie, to
    /// the digits of the histogram; `None` when nothing was recorded.
    pub fn quantile(&self, q: f64) -> Option<Span> {
        let counts = self.counts.as_ref()?;
        // The upper edge of the bucket; the true extremes are known, and tighter.
        let nanos = counts.value_at_quantile(q.clamp(0.0, 1.0));
        Some(Span::from_nanos(nanos).clamp(self.min, self.max))
    }

    /// The share of recorded times above `limit`, to the digits of the histogram; `None` when nothing
    /// was recorded.
    pub fn share_above(&self, limit: Span) -> Option<f64> {
        let counts = self.counts.as_ref()?;
        let nanos = limit.as_nanos().min(LIMIT_NANOS);
        let above: u64 = counts
            .iter_recorded()
            .filter(|step| step.value_iterated_to() > counts.highest_equivalent(nanos))
            .map(|step| step.count_at_value())
            .sum();
        Some(above as f64 / self.count as f64)
    }

    /// The mean, exact to the nanosecond; `None` when nothing was recorded.
    pub fn mean(&self) -> Option<Span> {
        let count = u128::from(self.count);
        if count == 0 {
            return None;
        }
        // A mean of `u64` values is one.
        Some(Span::from_nanos(((self.sum_nanos + count / 2) / count) as u64))
    }

    /// The sum of all recorded times in nanoseconds, exact.
    pub const fn sum_nanos(&self) -> u128 {
        self.sum_nanos
    }

    /// The shortest, exact; `None` when nothing was recorded.
    pub fn min(&self) -> Option<Span> {
        (self.count > 0).then_some(self.min)
    }

    /// The longest, exact; `None` when nothing was recorded.
    pub fn max(&self) -> Option<Span> {
        (self.count > 0).then_some(self.max)
    }

    /// How many times were recorded.
    pub const fn count(&self) -> u64 {
        self.count
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

#[cold]
fn counts_for(digits: u8) -> Counts<u64> {
    let mut counts = Counts::new_with_bounds(RESOLUTION_NANOS, FIRST_LIMIT_NANOS, digits)
        .expect("the bounds are in order, and two or three digits are within the crate's one to five");
    counts.auto(true);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    fn seconds(s: f64) -> Span {
        Span::from_secs_f64(s)
    }

    #[test]
    fn empty_has_nothing_and_allocates_nothing() {
        let empty = Histogram::new();
        assert_eq!((empty.quantile(0.5), empty.mean(), empty.max(), empty.min()), (None, None, None, None));
        assert_eq!(empty.share_above(Span::ZERO), None);
        assert!(empty.counts.is_none());
    }

    #[test]
    fn quantiles_keep_their_digits() {
        let (mut fine, mut coarse) = (Histogram::new(), Histogram::coarse());
        let mut stream = Stream::new(3, 0, "times", 0);
        let mut times: Vec<Span> =
            (0..20_000).map(|_| seconds(libm::exp(12.0 * stream.uniform() - 6.0))).collect();
        for &time in &times {
            fine.record(time);
            coarse.record(time);
        }
        times.sort_unstable();
        for q in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = times[(q * 20_000.0) as usize - 1].as_secs_f64();
            let off =
                |histogram: &Histogram| (histogram.quantile(q).unwrap().as_secs_f64() - exact).abs() / exact;
            assert!(off(&fine) < 1e-3, "{q}: {}", off(&fine));
            assert!(off(&coarse) < 1e-2, "{q}: {}", off(&coarse));
        }
        assert_eq!((fine.quantile(0.0), fine.quantile(1.0)), (Some(times[0]), Some(times[19_999])));
        let sum: u128 = times.iter().map(|time| u128::from(time.as_nanos())).sum();
        assert_eq!((fine.sum_nanos(), fine.count()), (sum, 20_000));
    }

    #[test]
    fn out_of_range_saturates() {
        let mut histogram = Histogram::new();
        histogram.record(Span::ZERO);
        histogram.record(Span::MAX);
        assert_eq!((histogram.min(), histogram.max()), (Some(Span::ZERO), Some(Span::MAX)));
        let top = histogram.quantile(0.99).unwrap().as_secs_f64();
        assert!((top / 1e6 - 1.0).abs() < 1e-3, "{top}");
        assert!(histogram.quantile(0.25).unwrap() <= Span::from_nanos(1023));
    }

    #[test]
    fn share_above_counts_strictly_longer_buckets() {
        let mut histogram = Histogram::new();
        for second in 1..=10 {
            histogram.record(seconds(f64::from(second)));
        }
        assert_eq!(histogram.share_above(seconds(7.0)), Some(0.3));
        assert_eq!(histogram.share_above(seconds(0.5)), Some(1.0));
        assert_eq!(histogram.share_above(Span::MAX), Some(0.0));
    }

    #[test]
    fn merging_equals_recording() {
        let mut stream = Stream::new(4, 0, "times", 0);
        let (mut left, mut right, mut whole) = (Histogram::new(), Histogram::new(), Histogram::new());
        for n in 0..1000 {
            let time = seconds(stream.uniform() * 100.0);
            whole.record(time);
            if n % 3 == 0 { left.record(time) } else { right.record(time) }
        }
        let mut merged = Histogram::new();
        merged.merge(&Histogram::new());
        assert!(merged.counts.is_none());
        merged.merge(&left);
        merged.merge(&right);
        for q in [0.1, 0.5, 0.9, 1.0] {
            assert_eq!(merged.quantile(q), whole.quantile(q));
        }
        assert_eq!((merged.mean(), merged.count()), (whole.mean(), whole.count()));
        let mut coarse = Histogram::coarse();
        coarse.merge(&whole);
        assert_eq!(coarse.max(), whole.max());
    }
}
