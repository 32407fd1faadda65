//! From the values of replications to a mean with its interval, plain or corrected by a control.
//!
//! A line of a tail or a variance would need ten times the requests of a line of a mean: a replication in
//! which more was waited than usual has a longer tail, too. But the mean wait is known exactly, and so is by
//! how much a replication's mean differed from it. The line is therefore read from the regression of its
//! values on the replications' mean waits, at the exact mean wait (control variates by regression: Lavenberg
//! and Welch 1981). That makes the interval narrower, not kinder: the mean has a line of its own to answer
//! for, and a wrong tail beside a right mean is found by fewer requests.

use forebay_engine::{Interval, student_t_quantile};

/// A mean and half the width of its interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) half_width: f64,
}

impl Estimate {
    /// Student's interval of the values.
    pub(crate) fn plain(values: &[f64], confidence: f64) -> Self {
        let interval = Interval::of(values, confidence);
        Self { mean: interval.mean, half_width: interval.half_width() }
    }

    /// Student's interval of the regression on `controls`, at their exact mean.
    pub(crate) fn controlled(values: &[f64], controls: &[f64], exact: f64, confidence: f64) -> Self {
        let n = values.len() as f64;
        let mean = |of: &[f64]| of.iter().sum::<f64>() / n;
        let (y, x) = (mean(values), mean(controls));
        let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
            values.iter().zip(controls).map(|(value, control)| f(value - y, control - x)).sum()
        };
        let of_controls = sum(&|_, dx| dx * dx);
        let slope = sum(&|dy, dx| dy * dx) / of_controls;
        let residual = sum(&|dy, dx| (dy - slope * dx) * (dy - slope * dx)) / (n - 2.0);
        let off = exact - x;
        let t = student_t_quantile(0.5 + 0.5 * confidence, n - 2.0);
        Self {
            mean: y + slope * off,
            half_width: t * (residual * (1.0 / n + off * off / of_controls)).sqrt(),
        }
    }
}

#[test]
fn a_control_explains_what_it_can() {
    // y = 3 + 2 (x - 5) + noise of sum 0, uncorrelated with x; the exact mean of x is 5, not its sample mean.
    let controls = [4.0, 5.0, 6.0, 9.0];
    let noise = [0.1, -0.2, 0.1, 0.0];
    let values: Vec<f64> = controls.iter().zip(noise).map(|(x, e)| 3.0 + 2.0 * (x - 5.0) + e).collect();
    let controlled = Estimate::controlled(&values, &controls, 5.0, 0.95);
    assert!((controlled.mean - 3.0).abs() < 0.2 && controlled.half_width < 0.6, "{controlled:?}");
    assert!(Estimate::plain(&values, 0.95).half_width > 5.0);
}
