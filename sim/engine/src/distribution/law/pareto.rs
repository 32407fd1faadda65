//! Bounded Pareto: density proportional to `x^(-alpha - 1)` between two bounds.

use super::check::{finite, positive};
use super::{Below, Shape};
use crate::distribution::DistError;

#[derive(Clone, Debug)]
pub(crate) struct Pareto {
    min: f64,
    max: f64,
    alpha: f64,
    /// The probability that the unbounded law lies below `max`.
    kept: f64,
}

impl Pareto {
    pub(super) fn new(min: f64, max: f64, alpha: f64) -> Result<Self, DistError> {
        let min = positive("min", min)?;
        let max = finite("max", max, format!("a finite number above min ({min})"), |max| max > min)?;
        let alpha = finite("alpha", alpha, "0.01 to 100", |alpha| (0.01..=100.0).contains(&alpha))?;
        let kept = -libm::expm1(-alpha * libm::log(max / min));
        Ok(Self { min, max, alpha, kept })
    }

    /// The integral of `t^order` up to `x`.
    fn partial(&self, order: f64, x: f64) -> f64 {
        let log = libm::log(x / self.min);
        let power = order - self.alpha;
        // The integral of t^(power - 1); its limit at power 0 is the logarithm itself.
        let integral = if power == 0.0 { log } else { libm::expm1(power * log) / power };
        self.alpha / self.kept * integral
    }
}

impl Shape for Pareto {
    fn mean(&self) -> f64 {
        self.min * self.partial(1.0, self.max)
    }

    fn variance(&self) -> f64 {
        let mean = self.partial(1.0, self.max);
        self.min * self.min * (self.partial(2.0, self.max) - mean * mean).max(0.0)
    }

    fn min(&self) -> f64 {
        self.min
    }

    fn quantile(&self, q: f64) -> f64 {
        let x = self.min * libm::exp(-libm::log1p(-q * self.kept) / self.alpha);
        x.clamp(self.min, self.max)
    }

    fn below(&self, x: f64) -> Below {
        if x <= self.min {
            return Below::NOTHING;
        }
        let x = x.min(self.max);
        Below {
            probability: self.partial(0.0, x).min(1.0),
            first: self.min * self.partial(1.0, x),
            second: self.min * self.min * self.partial(2.0, x),
        }
    }
}
