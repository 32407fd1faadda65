//! For tests: counts how often stated intervals hold the truth.

use forebay_engine::{Stream, normal_quantile};

/// A standard normal number.
pub(super) fn noise(stream: &mut Stream) -> f64 {
    normal_quantile(stream.uniform())
}

/// Asserts that `holds` is true about 95 times in 100: the count must lie within the range in which a
/// binomial count of that probability lies with 99.9 %, by the normal approximation and half a count.
pub(super) fn about_95_in_100(trials: u64, mut holds: impl FnMut(u64) -> bool) {
    let held = (0..trials).filter(|&trial| holds(trial)).count() as f64;
    let n = trials as f64;
    let half = 3.29 * (n * 0.95 * 0.05).sqrt() + 0.5;
    assert!((held - 0.95 * n).abs() <= half, "{held} of {trials}, 95 % are {} ± {half:.1}", 0.95 * n);
}
