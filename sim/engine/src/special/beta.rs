//! The regularised incomplete beta function, for Student's t.

const TERMS: u32 = 100_000;

/// `I_x(a, b)` for `a, b > 0`, with `y = 1 - x` given by the caller, who often knows it without the
/// loss of a subtraction. Continued fraction (DLMF 8.17.22) by Lentz's algorithm, on the side where it
/// converges fast.
pub(crate) fn beta_regularised(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    let log_factor =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log(y);
    let factor = libm::exp(log_factor);
    if x < (a + 1.0) / (a + b + 2.0) {
        factor * fraction(a, b, x) / a
    } else {
        1.0 - factor * fraction(b, a, y) / b
    }
}

#[expect(clippy::many_single_char_names, reason = "the names that the formulas have in the literature")]
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let guard = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut product = d;
    for m in 1..TERMS {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        product *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
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
    fn closed_forms() {
        // I_x(a, 1) = x^a; I_x(1, b) = 1 - (1-x)^b; I_x(2, 2) = x^2 (3 - 2x); I_1/2(a, a) = 1/2.
        for step in 1..20 {
            let x = f64::from(step) / 20.0;
            let y = 1.0 - x;
            assert!((beta_regularised(3.5, 1.0, x, y) - libm::pow(x, 3.5)).abs() < 1e-14);
            assert!((beta_regularised(1.0, 4.5, x, y) - (1.0 - libm::pow(y, 4.5))).abs() < 1e-14);
            assert!((beta_regularised(2.0, 2.0, x, y) - x * x * (3.0 - 2.0 * x)).abs() < 1e-14);
        }
        assert!((beta_regularised(7.3, 7.3, 0.5, 0.5) - 0.5).abs() < 1e-13);
        assert_eq!(beta_regularised(2.0, 3.0, 0.0, 1.0), 0.0);
        assert_eq!(beta_regularised(2.0, 3.0, 1.0, 0.0), 1.0);
    }
}
