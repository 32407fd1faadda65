//! Gamma, drawn by rejection (Marsaglia and Tsang, "A simple method for generating gamma variables",
//! ACM TOMS 26, 2000), because its quantile has no closed form. [`Shape::quantile`] inverts the
//! incomplete gamma function instead: a microsecond, where sampling takes some tens of nanoseconds.

use rand::Rng;

use super::{Below, Shape};
use crate::special::{gamma_lower, gamma_quantile, minus_ln, normal_quantile};
use crate::stream::unit;

#[derive(Clone, Debug)]
pub(crate) struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// `mean` and `cv` are finite and above 0.
    pub(super) fn new(mean: f64, cv: f64) -> Self {
        Self { shape: 1.0 / (cv * cv), scale: mean * cv * cv }
    }
}

impl Shape for Gamma {
    fn mean(&self) -> f64 {
        self.shape * self.scale
    }

    fn variance(&self) -> f64 {
        self.shape * self.scale * self.scale
    }

    fn min(&self) -> f64 {
        0.0
    }

    fn quantile(&self, q: f64) -> f64 {
        self.scale * gamma_quantile(self.shape, q)
    }

    fn below(&self, x: f64) -> Below {
        if x <= 0.0 {
            return Below::NOTHING;
        }
        let (a, scaled) = (self.shape, x / self.scale);
        Below {
            probability: gamma_lower(a, scaled),
            first: self.mean() * gamma_lower(a + 1.0, scaled),
            second: a * (a + 1.0) * self.scale * self.scale * gamma_lower(a + 2.0, scaled),
        }
    }

    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        if self.shape >= 1.0 {
            return self.scale * marsaglia_tsang(self.shape, rng);
        }
        // Below shape 1 a variate of shape + 1 is shrunk by a power of a uniform.
        let boost = libm::exp(-minus_ln(unit(rng.next_u64())) / self.shape);
        self.scale * boost * marsaglia_tsang(self.shape + 1.0, rng)
    }
}

/// A variate of this shape, at least 1, and scale 1; two numbers an attempt, 1.05 attempts at most on
/// average.
fn marsaglia_tsang<R: Rng + ?Sized>(shape: f64, rng: &mut R) -> f64 {
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal_quantile(unit(rng.next_u64()));
        let root = 1.0 + c * x;
        let minus_ln_u = minus_ln(unit(rng.next_u64()));
        if root <= 0.0 {
            continue;
        }
        let v = root * root * root;
        if -minus_ln_u < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}
