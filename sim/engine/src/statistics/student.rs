//! Student's t distribution: how far a mean of few values can be off.

use crate::special::{beta_regularised, newton_bracketed, normal_quantile};

/// From here on the normal distribution is the same to 1e-8 and better conditioned.
const NORMAL_FROM: f64 = 1e9;

/// The quantile at `p` of Student's t with `df` degrees of freedom (any positive number). Infinite at
/// `p` = 0 and 1; NaN when `p` is not in [0, 1] or `df` is not above 0.
pub fn student_t_quantile(p: f64, df: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if df >= NORMAL_FROM || p == 0.0 || p == 1.0 {
        return normal_quantile(p);
    }
    if p < 0.5 {
        return -student_t_quantile(1.0 - p, df);
    }
    if p == 0.5 {
        return 0.0;
    }
    let tail = 1.0 - p;
    let mut high = 1.0;
    while upper_tail(high, df) > tail {
        high *= 2.0;
    }
    newton_bracketed(0.0, high, normal_quantile(p), |t| (tail - upper_tail(t, df), density(t, df)))
}

/// The probability above `t`, for `t` of at least 0.
fn upper_tail(t: f64, df: f64) -> f64 {
    let total = df + t * t;
    0.5 * beta_regularised(0.5 * df, 0.5, df / total, t * t / total)
}

fn density(t: f64, df: f64) -> f64 {
    let log =
        libm::lgamma(0.5 * (df + 1.0)) - libm::lgamma(0.5 * df) - 0.5 * (df + 1.0) * libm::log1p(t * t / df);
    libm::exp(log) / (std::f64::consts::PI * df).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_forms() {
        // One degree of freedom: tan(pi (p - 1/2)). Two: (2p - 1) / sqrt(2 p (1 - p)).
        for p in [0.6, 0.75, 0.9, 0.975, 0.995, 0.9999] {
            let one = libm::tan(std::f64::consts::PI * (p - 0.5));
            assert!((student_t_quantile(p, 1.0) / one - 1.0).abs() < 1e-10, "{p}");
            let two = (2.0 * p - 1.0) / (2.0 * p * (1.0 - p)).sqrt();
            assert!((student_t_quantile(p, 2.0) / two - 1.0).abs() < 1e-10, "{p}");
            assert_eq!(student_t_quantile(1.0 - p, 7.0), -student_t_quantile(1.0 - (1.0 - p), 7.0));
        }
    }

    #[test]
    fn table_values() {
        for (p, df, t) in [
            (0.975, 3.0, 3.182_446_305_284_263),
            (0.975, 4.0, 2.776_445_105_197_793),
            (0.975, 5.0, 2.570_581_835_636_314),
            (0.975, 9.0, 2.262_157_162_740_992),
            (0.975, 10.0, 2.228_138_851_964_939),
            (0.975, 29.0, 2.045_229_642_132_703),
            (0.995, 10.0, 3.169_272_672_616_951),
            (0.95, 10.0, 1.812_461_122_811_676),
            (0.975, 100.0, 1.983_971_518_523_552),
        ] {
            let found = student_t_quantile(p, df);
            assert!((found - t).abs() < 1e-8, "t({p}, {df}) = {found}, expected {t}");
        }
    }

    #[test]
    fn tends_to_the_normal() {
        // t = z + (z^3 + z) / (4 df) + O(df^-2).
        let z = normal_quantile(0.975);
        for df in [1e5, 1e6, 1e8] {
            let expected = z + (z * z * z + z) / (4.0 * df);
            assert!((student_t_quantile(0.975, df) - expected).abs() < 1e-7, "{df}");
        }
        assert_eq!(student_t_quantile(0.975, f64::INFINITY), z);
    }

    #[test]
    fn bad_arguments_give_nan() {
        assert!(student_t_quantile(1.5, 3.0).is_nan());
        assert!(student_t_quantile(0.9, 0.0).is_nan());
        assert!(student_t_quantile(f64::NAN, 3.0).is_nan());
        assert_eq!(student_t_quantile(1.0, 3.0), f64::INFINITY);
    }
}
