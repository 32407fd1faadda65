//! Weibull: a power of an exponential variate.

use super::{Below, Shape};
use crate::special::{gamma_lower, minus_ln};

#[derive(Clone, Debug)]
pub(crate) struct Weibull {
    shape: f64,
    scale: f64,
}

impl Weibull {
    /// `shape` is within 0.1 and 1500, `scale` finite and above 0.
    pub(super) fn new(shape: f64, scale: f64) -> Self {
        Self { shape, scale }
    }

    /// `mean` is above 0, `cv` within 0.001 and 400.
    pub(super) fn from_moments(mean: f64, cv: f64) -> Self {
        // The coefficient of variation falls as the shape grows; halving the logarithm of the bracket
        // is slow and certain, and runs once per scenario.
        let (mut low, mut high) = (0.1_f64, 1500.0_f64);
        for _ in 0..200 {
            let middle = (low * high).sqrt();
            if squared_cv(middle) > cv * cv {
                low = middle;
            } else {
                high = middle;
            }
        }
        let shape = (low * high).sqrt();
        Self { shape, scale: mean / moment(1.0 / shape) }
    }
}

/// The moment of order `power * shape` of a variate of scale 1: `Gamma(1 + power)`.
fn moment(power: f64) -> f64 {
    libm::exp(libm::lgamma(1.0 + power))
}

fn squared_cv(shape: f64) -> f64 {
    libm::expm1(libm::lgamma(1.0 + 2.0 / shape) - 2.0 * libm::lgamma(1.0 + 1.0 / shape))
}

impl Shape for Weibull {
    fn mean(&self) -> f64 {
        self.scale * moment(1.0 / self.shape)
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        mean * mean * squared_cv(self.shape)
    }

    fn min(&self) -> f64 {
        0.0
    }

    fn quantile(&self, q: f64) -> f64 {
        self.scale * libm::pow(-libm::log1p(-q), 1.0 / self.shape)
    }

    #[inline]
    fn at(&self, u: f64) -> f64 {
        self.scale * libm::pow(minus_ln(1.0 - u), 1.0 / self.shape)
    }

    fn below(&self, x: f64) -> Below {
        if x <= 0.0 {
            return Below::NOTHING;
        }
        // Substituting (t / scale)^shape turns the partial moments into incomplete gamma functions.
        let scaled = libm::pow(x / self.scale, self.shape);
        let one = 1.0 / self.shape;
        Below {
            probability: -libm::expm1(-scaled),
            first: self.mean() * gamma_lower(1.0 + one, scaled),
            second: self.scale * self.scale * moment(2.0 * one) * gamma_lower(1.0 + 2.0 * one, scaled),
        }
    }
}
