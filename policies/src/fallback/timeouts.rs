//! The governor's own count of model time-outs within a window.
//!
//! Only whether the count is above a threshold matters, so no more than the newest few are kept.

use crate::Moment;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// The newest time-outs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timeouts {
    window_ns: u64,
    most: usize,
    at: VecDeque<Moment>,
}

impl Timeouts {
    /// Counts those of the last `window_ns`, up to `most`; both may change while it counts.
    pub(crate) fn adopt(&mut self, window_ns: u64, most: usize) {
        self.window_ns = window_ns;
        self.most = most;
    }

    pub(crate) fn note(&mut self, now: Moment) {
        if self.most == 0 {
            return;
        }
        while self.at.len() >= self.most {
            self.at.pop_front();
        }
        self.at.push_back(now);
    }

    #[inline]
    pub(crate) fn count(&mut self, now: Moment) -> f64 {
        while self.at.front().is_some_and(|&at| now.since(at) >= self.window_ns) {
            self.at.pop_front();
        }
        self.at.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_the_window_and_stays_small() {
        let mut timeouts = Timeouts::default();
        timeouts.note(Moment(0));
        assert_eq!(timeouts.count(Moment(0)), 0.0);
        timeouts.adopt(10, 3);
        for now in [1, 2, 3, 4] {
            timeouts.note(Moment(now));
        }
        assert_eq!(timeouts.count(Moment(11)), 3.0);
        assert_eq!(timeouts.count(Moment(12)), 2.0);
        assert_eq!(timeouts.count(Moment(14)), 0.0);
    }
}
