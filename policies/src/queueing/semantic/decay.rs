//! How many requests each user has sent within a sliding window (published case Q3): who asks often has
//! a lower priority with each further request.
//!
//! One line holds the arrivals of the window, oldest first; what falls out of it lowers its user's count.
//! So the count is exact at every moment. A window per user that begins with a first request would
//! need less memory, and be forgiving by up to its whole length, depending on when that request came.

use crate::Moment;
use crate::admission::{Key, keyed::Keyed};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Arrivals of the window, by user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Decay {
    window_ns: u64,
    factor: f64,
    arrivals: VecDeque<(Moment, u64)>,
    counts: Keyed<u32>,
}

impl Decay {
    pub(super) fn new() -> Self {
        Self { window_ns: 0, factor: 1.0, arrivals: VecDeque::new(), counts: Keyed::new(Key::User) }
    }

    pub(super) fn adopt(&mut self, window_ns: u64, factor: f64) {
        (self.window_ns, self.factor) = (window_ns, factor);
        if factor >= 1.0 {
            self.arrivals.clear();
            self.counts = Keyed::new(Key::User);
        }
    }

    /// Counts a request of a user; returns the factor on its priority: the k-th has factor^(k-1).
    #[inline]
    pub(super) fn count(&mut self, now: Moment, user: u64) -> f64 {
        if self.factor >= 1.0 {
            return 1.0;
        }
        while let Some(&(at, who)) = self.arrivals.front() {
            if now.since(at) < self.window_ns {
                break;
            }
            self.arrivals.pop_front();
            if let Some(count) = self.counts.get_mut(who) {
                *count -= 1;
            }
        }
        self.arrivals.push_back((now, user));
        let count = self.counts.entry(user, || 0, |&count| count == 0);
        *count += 1;
        libm::pow(self.factor, f64::from(*count - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn decay() -> Decay {
        let mut decay = Decay::new();
        decay.adopt(600 * S, 0.7);
        decay
    }

    /// Published case Q3.
    #[test]
    fn each_further_request_counts_less() {
        let mut decay = decay();
        let mut expected = 1.0;
        for k in 1..40 {
            assert!((decay.count(Moment(k * S), 7) - expected).abs() < 1e-12);
            expected *= 0.7;
        }
        assert_eq!(decay.count(Moment(40 * S), 8), 1.0);
    }

    #[test]
    fn requests_count_for_exactly_the_window() {
        let mut decay = decay();
        decay.count(Moment(0), 7);
        decay.count(Moment(S), 7);
        assert!((decay.count(Moment(600 * S - 1), 7) - 0.49).abs() < 1e-12);
        // The first has left the window by now: this is the third within it.
        assert!((decay.count(Moment(600 * S), 7) - 0.49).abs() < 1e-12);
        assert_eq!(decay.count(Moment(10_000 * S), 7), 1.0);
        assert_eq!(decay.arrivals.len(), 1);
    }
}
