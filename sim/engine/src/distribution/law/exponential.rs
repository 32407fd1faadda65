//! Exponential: `-mean ln(1 - u)`, with the table-driven logarithm on the hot path.

use super::{Below, Shape};
use crate::special::{gamma_lower, minus_ln};

#[derive(Clone, Debug)]
pub(crate) struct Exponential {
    mean: f64,
}

impl Exponential {
    /// `mean` is finite and above 0.
    pub(super) fn new(mean: f64) -> Self {
        Self { mean }
    }
}

impl Shape for Exponential {
    fn mean(&self) -> f64 {
        self.mean
    }

    fn variance(&self) -> f64 {
        self.mean * self.mean
    }

    fn min(&self) -> f64 {
        0.0
    }

    fn quantile(&self, q: f64) -> f64 {
        -self.mean * libm::log1p(-q)
    }

    /// Agrees with `quantile` to 1e-15 of the mean; made for the `u` of [`unit`](crate::stream::unit),
    /// for which `1 - u` is exact and not 0.
    #[inline]
    fn at(&self, u: f64) -> f64 {
        self.mean * minus_ln(1.0 - u)
    }

    fn below(&self, x: f64) -> Below {
        if x <= 0.0 {
            return Below::NOTHING;
        }
        let scaled = x / self.mean;
        Below {
            probability: -libm::expm1(-scaled),
            first: self.mean * gamma_lower(2.0, scaled),
            second: 2.0 * self.mean * self.mean * gamma_lower(3.0, scaled),
        }
    }
}
