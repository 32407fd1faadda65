//! When iterations end: stretches of iterations whose lengths grow by a constant, summed exactly.

use std::collections::VecDeque;

use super::cost::UNIT_BITS;

/// Iterations `first..=last`, each longer than the one before by `growth`.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub first: u64,
    pub last: u64,
    /// When the first one starts, units.
    pub start: u128,
    /// Length of the first one, units.
    pub duration: u128,
    /// Units added per iteration.
    pub growth: u128,
}

impl Segment {
    /// Length of the first `count` iterations, units.
    fn sum(&self, count: u64) -> u128 {
        let n = u128::from(count);
        // A single iteration is the common case, and it needs no division.
        if count <= 1 { self.duration * n } else { self.duration * n + self.growth * (n * (n - 1) / 2) }
    }

    fn end_of(&self, step: u64) -> u128 {
        self.start + self.sum(step - self.first + 1)
    }

    /// The first iteration that ends at or after `time`, which must not lie beyond the last.
    fn reaching(&self, time: u128) -> u64 {
        let wanted = time.saturating_sub(self.start);
        let length = self.last - self.first + 1;
        // Root of the series by floating point, then corrected: exact whatever the rounding.
        let half = self.duration as f64 - self.growth as f64 / 2.0;
        let root = (half * half + 2.0 * self.growth as f64 * wanted as f64).sqrt();
        let mut count = ((2.0 * wanted as f64 / (half + root)) as u64).clamp(1, length);
        while count < length && self.sum(count) < wanted {
            count += 1;
        }
        while count > 1 && self.sum(count - 1) >= wanted {
            count -= 1;
        }
        self.first + count - 1
    }
}

/// The segments that hold the iterations not yet over.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline {
    segments: VecDeque<Segment>,
    /// Number of the last iteration decided so far; iterations are numbered from 1.
    last: u64,
}

impl Timeline {
    /// Number of the last iteration decided.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// When the last iteration decided ends; `idle_since` if none is under way.
    pub(super) fn end(&self, idle_since: u128) -> u128 {
        self.segments.back().map_or(idle_since, |segment| segment.end_of(segment.last))
    }

    /// When iteration `step` ends, units. It must be one not yet forgotten.
    pub(super) fn end_of(&self, step: u64) -> u128 {
        let segment = self.segments.iter().find(|segment| step <= segment.last);
        segment.expect("the step was decided and is not yet over").end_of(step)
    }

    pub(super) fn push(&mut self, segment: Segment) {
        self.last = segment.last;
        self.segments.push_back(segment);
    }

    /// Takes back the decisions after `step`.
    pub(super) fn cut_after(&mut self, step: u64) {
        if let Some(segment) = self.segments.back_mut() {
            debug_assert!(step >= segment.first, "only the latest bulk is ever cut, and never whole");
            segment.last = segment.last.min(step);
            self.last = segment.last;
        }
    }

    /// Forgets the iterations up to `step`, which are over.
    pub(super) fn forget_until(&mut self, step: u64) {
        while self.segments.front().is_some_and(|segment| segment.last <= step) {
            self.segments.pop_front();
        }
    }

    /// The first iteration after `done` whose end, in whole nanoseconds, is at or after `ns`; none if
    /// all that are decided end before.
    pub(super) fn first_ending_at(&self, ns: u64, done: u64) -> Option<u64> {
        let time = u128::from(ns) << UNIT_BITS;
        let segment = self.segments.iter().find(|segment| segment.end_of(segment.last) >= time)?;
        Some(segment.reaching(time).max(done + 1))
    }
}

/// Whole nanoseconds of a time in units.
pub(super) fn to_ns(units: u128) -> u64 {
    u64::try_from(units >> UNIT_BITS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn root_of_the_series_is_exact(
            duration in 1_u128..1 << 60, growth in 0_u128..1 << 40, length in 1_u64..100_000, share in 0.0..1.0_f64,
        ) {
            let segment = Segment { first: 7, last: 6 + length, start: 99, duration: duration + growth, growth };
            let wanted = 99 + (segment.sum(length) as f64 * share) as u128;
            prop_assume!(wanted <= segment.end_of(segment.last));
            let step = segment.reaching(wanted);
            prop_assert!(segment.end_of(step) >= wanted);
            prop_assert!(step == segment.first || segment.end_of(step - 1) < wanted);
        }
    }
}
