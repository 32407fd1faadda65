//! Statistics of what a run puts out, all streaming: memory does not grow with the length of the run.
//!
//! | type or function | for |
//! | --- | --- |
//! | [`Welford`] | mean and variance of observations |
//! | [`TimeWeighted`] | mean and variance over time of a level: a queue's length, a share of memory |
//! | [`Histogram`] | quantiles of times, to three digits |
//! | [`mser5`] | where the warm-up ends |
//! | [`batch_means`] | nearly independent values from one long, correlated series |
//! | [`Interval`] | a mean with its confidence interval, over replications; paired differences |

mod batch_means;
mod histogram;
mod interval;
mod mser;
mod student;
mod time_weighted;
mod welford;

pub use batch_means::batch_means;
pub use histogram::Histogram;
pub use interval::Interval;
pub use mser::mser5;
pub use student::student_t_quantile;
pub use time_weighted::{Level, TimeWeighted};
pub use welford::Welford;
