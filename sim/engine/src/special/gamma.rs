//! The regularised incomplete gamma function and its inverse.
//!
//! Series below the mean, continued fraction above it (DLMF 8.11.4 and 8.9.2, the latter by Lentz's
//! algorithm). The common factor is taken from Stirling's series for large shapes, because the
//! difference of two large logarithms would lose up to seven digits.

use super::{newton_bracketed, normal_quantile};

/// Terms of a series or a fraction; shapes up to 1e6 need some thousands.
const TERMS: u32 = 100_000;
/// From here on Stirling's series to the seventh order is exact to the last bit.
const STIRLING_FROM: f64 = 20.0;

/// `P(shape, x)`: the probability that a gamma variate of this shape and scale 1 is at most `x`, for
/// `shape > 0`.
pub(crate) fn gamma_lower(shape: f64, x: f64) -> f64 {
    let (lower, upper) = gamma_both(shape, x);
    if lower <= 0.5 { lower } else { 1.0 - upper }
}

/// The quantile at `p` of a gamma variate of this shape and scale 1; 0 at 0 and infinite at 1.
pub(crate) fn gamma_quantile(shape: f64, p: f64) -> f64 {
    if p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    let start = start(shape, p);
    if start == 0.0 {
        return 0.0;
    }
    let mut high = start.max(shape) * 2.0;
    while gamma_both(shape, high).1 > 1.0 - p {
        high *= 2.0;
    }
    newton_bracketed(0.0, high, start, |x| {
        let (lower, upper) = gamma_both(shape, x);
        // Whichever tail is small is the one known precisely.
        let off = if p < 0.5 { lower - p } else { (1.0 - p) - upper };
        (off, shape * factor(shape, x) / x)
    })
}

/// A first guess: Wilson and Hilferty's cube of a normal, or the power law near 0.
fn start(shape: f64, p: f64) -> f64 {
    let ninth = 1.0 / (9.0 * shape);
    let root = 1.0 - ninth + normal_quantile(p) * ninth.sqrt();
    let cube = shape * root * root * root;
    if shape >= 0.5 && root > 0.2 {
        return cube;
    }
    let power = libm::exp((libm::log(p) + libm::lgamma(shape + 1.0)) / shape);
    if power < shape + 1.0 { power } else { cube.max(shape) }
}

/// `P` and `Q = 1 - P`, each precise where it is small.
fn gamma_both(shape: f64, x: f64) -> (f64, f64) {
    if x <= 0.0 {
        return (0.0, 1.0);
    }
    if x == f64::INFINITY {
        return (1.0, 0.0);
    }
    if x < shape + 1.0 {
        let lower = factor(shape, x) * series(shape, x);
        (lower, 1.0 - lower)
    } else {
        let upper = shape * factor(shape, x) * fraction(shape, x);
        (1.0 - upper, upper)
    }
}

/// `x^a e^-x / Gamma(a + 1)`.
fn factor(a: f64, x: f64) -> f64 {
    if a < STIRLING_FROM {
        return libm::exp(a * libm::log(x) - x - libm::lgamma(a + 1.0));
    }
    let off = (x - a) / a;
    let distance = off - libm::log1p(off);
    let inverse = 1.0 / (a * a);
    let stirling = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / a;
    libm::exp(-a * distance - stirling) / (2.0 * std::f64::consts::PI * a).sqrt()
}

fn series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum) = (1.0, 1.0);
    for n in 1..TERMS {
        term *= x / (a + f64::from(n));
        sum += term;
        if term < sum * f64::EPSILON * 0.25 {
            break;
        }
    }
    sum
}

#[expect(clippy::many_single_char_names, reason = "the names that the formulas have in the literature")]
fn fraction(a: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / TINY;
    let mut d = 1.0 / b;
    let mut product = d;
    for n in 1..TERMS {
        let n = f64::from(n);
        let numerator = -n * (n - a);
        b += 2.0;
        d = numerator * d + b;
        d = if d.abs() < TINY { TINY } else { d };
        c = b + numerator / c;
        c = if c.abs() < TINY { TINY } else { c };
        d = 1.0 / d;
        let step = d * c;
        product *= step;
        if (step - 1.0).abs() <= f64::EPSILON {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // P(1, x) = 1 - exp(-x); P(1/2, x) = erf(sqrt x); P(3, x) = 1 - exp(-x)(1 + x + x^2/2).
        for x in [1e-6, 0.1, 0.9, 1.0, 2.5, 7.0, 30.0] {
            let close = |value: f64, expected: f64| {
                assert!((value - expected).abs() < 1e-14 * expected.max(1e-3), "{value} {expected} at {x}");
            };
            close(gamma_lower(1.0, x), -libm::expm1(-x));
            close(gamma_lower(0.5, x), libm::erf(x.sqrt()));
            let three = libm::exp(-x) * (1.0 + x + x * x / 2.0);
            assert!((gamma_lower(3.0, x) - (1.0 - three)).abs() < 1e-15 + 1e-14 * three);
        }
    }

    #[test]
    fn large_shapes_keep_their_digits() {
        // Around its mean a gamma of shape a is normal with skewness 2 / sqrt a; at the mean itself
        // P(a, a) = 1/2 + (1/3) / sqrt(2 pi a) + O(a^-3/2) (DLMF 8.11.12 rearranged).
        let a: f64 = 1e6;
        let expected = 0.5 + 1.0 / (3.0 * (2.0 * std::f64::consts::PI * a).sqrt());
        assert!((gamma_lower(a, a) - expected).abs() < 1e-11, "{}", gamma_lower(a, a) - expected);
        // The two ways to the factor agree where they meet.
        let x = 18.5;
        let direct = libm::exp(20.0 * libm::log(x) - x - libm::lgamma(21.0));
        assert!((factor(20.0, x) / direct - 1.0).abs() < 1e-13);
    }

    #[test]
    fn quantile_inverts_it() {
        for shape in [0.05, 0.3, 0.9, 1.0, 2.5, 16.0, 400.0, 1e6] {
            for p in [1e-9, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1.0 - 1e-9] {
                let x = gamma_quantile(shape, p);
                if x < 1e-290 {
                    continue;
                }
                let back = gamma_lower(shape, x);
                let tail = p.min(1.0 - p);
                assert!((back - p).abs() < 1e-9 * tail + 3e-16, "shape {shape} p {p} x {x} back {back}");
            }
        }
        assert_eq!(gamma_quantile(2.0, 0.0), 0.0);
        assert_eq!(gamma_quantile(2.0, 1.0), f64::INFINITY);
    }
}
