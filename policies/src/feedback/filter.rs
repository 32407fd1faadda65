//! Smoothing of signals: none, sliding mean, exponential mean, sliding median.
//!
//! The windows are spans of time, not counts of samples, because the meters' period is the driver's
//! business and may differ between the simulator and production. Sums are taken afresh over the window
//! at each reading: a running sum would drift, and readings are rare beside decisions.

use crate::Moment;
use crate::moment::nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Most samples that a window keeps; of a faster meter only the newest so many count.
pub const MOST_SAMPLES: usize = 4096;

/// How a signal is smoothed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Filter {
    /// The newest value as it is.
    #[default]
    None,
    /// The mean of the values of the last `window_s` seconds.
    SlidingMean {
        /// Length of the window, in seconds.
        #[schemars(range(min = 0.001, max = 86_400.0))]
        window_s: f64,
    },
    /// A mean in which a value's weight falls by e in `time_constant_s` seconds.
    ExponentialMean {
        /// Time constant, in seconds.
        #[schemars(range(min = 0.001, max = 86_400.0))]
        time_constant_s: f64,
    },
    /// The median of the values of the last `window_s` seconds.
    Median {
        /// Length of the window, in seconds.
        #[schemars(range(min = 0.001, max = 86_400.0))]
        window_s: f64,
    },
}

/// What a filter remembers of one signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum FilterState {
    None,
    SlidingMean(Window),
    ExponentialMean { time_constant_s: f64, last: Option<(Moment, f64)> },
    Median { window: Window, scratch: Vec<f64> },
}

impl FilterState {
    pub(crate) fn new(filter: Filter) -> Self {
        match filter {
            Filter::None => Self::None,
            Filter::SlidingMean { window_s } => Self::SlidingMean(Window::new(window_s)),
            Filter::ExponentialMean { time_constant_s } => {
                Self::ExponentialMean { time_constant_s, last: None }
            }
            Filter::Median { window_s } => {
                Self::Median { window: Window::new(window_s), scratch: Vec::new() }
            }
        }
    }

    /// Takes a value in and returns the filtered one.
    pub(crate) fn push(&mut self, taken: Moment, value: f64) -> f64 {
        match self {
            Self::None => value,
            Self::SlidingMean(window) => {
                window.push(taken, value);
                let sum: f64 = window.samples.iter().map(|&(_, value)| value).sum();
                sum / window.samples.len() as f64
            }
            Self::ExponentialMean { time_constant_s, last } => {
                let mean = match *last {
                    None => value,
                    Some((at, mean)) => {
                        let kept = libm::exp(-taken.seconds_since(at) / *time_constant_s);
                        value + kept * (mean - value)
                    }
                };
                *last = Some((taken, mean));
                mean
            }
            Self::Median { window, scratch } => {
                window.push(taken, value);
                scratch.clear();
                scratch.extend(window.samples.iter().map(|&(_, value)| value));
                scratch.sort_unstable_by(f64::total_cmp);
                let middle = scratch.len() / 2;
                let median = if scratch.len() % 2 == 1 {
                    scratch[middle]
                } else {
                    f64::midpoint(scratch[middle - 1], scratch[middle])
                };
                scratch.clear();
                median
            }
        }
    }
}

/// The samples of the last so many nanoseconds: those taken after `newest - span`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    span_ns: u64,
    samples: VecDeque<(Moment, f64)>,
}

impl Window {
    fn new(window_s: f64) -> Self {
        Self { span_ns: nanos(window_s).max(1), samples: VecDeque::new() }
    }

    fn push(&mut self, taken: Moment, value: f64) {
        while let Some(&(at, _)) = self.samples.front() {
            if taken.since(at) < self.span_ns && self.samples.len() < MOST_SAMPLES {
                break;
            }
            self.samples.pop_front();
        }
        self.samples.push_back((taken, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(filter: Filter, values: &[f64]) -> Vec<f64> {
        let mut state = FilterState::new(filter);
        let second = |i: usize| Moment(i as u64 * 1_000_000_000);
        values.iter().enumerate().map(|(i, &v)| state.push(second(i), v)).collect()
    }

    #[test]
    fn no_filter_passes_the_value() {
        assert_eq!(run(Filter::None, &[1.0, 5.0]), [1.0, 5.0]);
    }

    #[test]
    fn a_sliding_mean_forgets_what_left_the_window() {
        let mean = run(Filter::SlidingMean { window_s: 3.0 }, &[3.0, 6.0, 9.0, 12.0]);
        assert_eq!(mean, [3.0, 4.5, 6.0, 9.0]);
    }

    #[test]
    fn an_exponential_mean_keeps_one_part_in_e_after_its_time_constant() {
        let mean = run(Filter::ExponentialMean { time_constant_s: 1.0 }, &[1.0, 0.0]);
        assert!((mean[1] - libm::exp(-1.0)).abs() < 1e-15);
    }

    #[test]
    fn a_median_ignores_one_outlier() {
        let median = run(Filter::Median { window_s: 3.0 }, &[1.0, 100.0, 2.0, 3.0]);
        assert_eq!(median, [1.0, 50.5, 2.0, 3.0]);
    }

    #[test]
    fn a_window_is_bounded() {
        let mut window = Window::new(1e6);
        for i in 0..3 * MOST_SAMPLES as u64 {
            window.push(Moment(i), 0.0);
        }
        assert_eq!(window.samples.len(), MOST_SAMPLES);
    }

    proptest! {
        #[test]
        fn a_filter_never_leaves_the_range_of_its_input(values in prop::collection::vec(0.0..1.0_f64, 1..60)) {
            let filters = [
                Filter::SlidingMean { window_s: 7.0 },
                Filter::ExponentialMean { time_constant_s: 4.0 },
                Filter::Median { window_s: 7.0 },
            ];
            let (low, high) = values.iter().fold((1.0_f64, 0.0_f64), |(l, h), &v| (l.min(v), h.max(v)));
            for filter in filters {
                for value in run(filter, &values) {
                    prop_assert!(value >= low - 1e-12 && value <= high + 1e-12);
                }
            }
        }
    }
}
