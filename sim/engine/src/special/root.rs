//! Newton's method that cannot run away: it falls back to halving its bracket.

/// The zero of an increasing function between `low` and `high`, where `low < high` bracket it.
/// `at` gives the function and its derivative. Converges to the last bit or two, or to the best of
/// 200 steps.
pub(crate) fn newton_bracketed(low: f64, high: f64, start: f64, at: impl Fn(f64) -> (f64, f64)) -> f64 {
    let (mut low, mut high) = (low, high);
    let mut x = if start > low && start < high { start } else { middle(low, high) };
    for _ in 0..200 {
        let (value, slope) = at(x);
        if value == 0.0 {
            return x;
        }
        if value < 0.0 {
            low = x;
        } else {
            high = x;
        }
        let newton = x - value / slope;
        let next = if newton > low && newton < high { newton } else { middle(low, high) };
        if (next - x).abs() <= 2.0 * f64::EPSILON * x.abs() || next == low || next == high {
            return next;
        }
        x = next;
    }
    x
}

fn middle(low: f64, high: f64) -> f64 {
    low + 0.5 * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_root_from_a_bad_start() {
        let root = newton_bracketed(0.0, 100.0, 99.0, |x| (x * x * x - 2.0, 3.0 * x * x));
        assert!((root * root * root - 2.0).abs() < 1e-14);
    }

    #[test]
    fn a_flat_slope_falls_back_to_halving() {
        let root = newton_bracketed(-1.0, 3.0, 2.0, |x| (x - 0.25, 0.0));
        assert!((root - 0.25).abs() < 1e-15);
    }
}
