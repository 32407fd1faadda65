//! Another distribution, given that its value lies in a range.
//!
//! Drawn by inversion between the two probabilities of the bounds: one number, no loop, however
//! little of the distribution is kept. (Drawing anew until the value fits would give the same law, but
//! a different count of numbers each time.)

use super::check::{finite, non_negative};
use super::{Below, Shape};
use crate::distribution::{DistError, Sampler};

/// Less than this is a mistake in the file, and would be lost in rounding.
const LEAST_KEPT: f64 = 1e-9;

#[derive(Clone, Debug)]
pub(crate) struct Truncated {
    base: Sampler,
    /// Bounds of the values; the upper one may be infinite.
    min: f64,
    max: f64,
    /// What lies below the bounds.
    lower: Below,
    upper: Below,
}

impl Truncated {
    pub(super) fn new(min: Option<f64>, max: Option<f64>, base: Sampler) -> Result<Self, DistError> {
        let lower_bound = min.map(|min| non_negative("min", min)).transpose()?;
        let floor = lower_bound.unwrap_or(0.0);
        let upper_bound = max
            .map(|max| finite("max", max, format!("a finite number above min ({floor})"), |max| max > floor))
            .transpose()?;
        // Without a lower bound everything is kept, a value of exactly 0 too.
        let lower = lower_bound.map_or(Below::NOTHING, |min| base.below(min));
        let upper = base.below(upper_bound.unwrap_or(f64::INFINITY));
        let found = upper.probability - lower.probability;
        if found < LEAST_KEPT {
            let field = match (min, max) {
                (Some(_), Some(_)) => "min, max",
                (Some(_), None) => "min",
                _ => "max",
            };
            return Err(DistError::NothingLeft { field: field.into(), found });
        }
        let min = floor.max(base.min());
        Ok(Self { base, min, max: upper_bound.unwrap_or(f64::INFINITY), lower, upper })
    }

    fn kept(&self) -> f64 {
        self.upper.probability - self.lower.probability
    }
}

impl Shape for Truncated {
    fn mean(&self) -> f64 {
        (self.upper.first - self.lower.first) / self.kept()
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        ((self.upper.second - self.lower.second) / self.kept() - mean * mean).max(0.0)
    }

    fn min(&self) -> f64 {
        self.min
    }

    fn quantile(&self, q: f64) -> f64 {
        let of_base = self.lower.probability + q * self.kept();
        self.base.quantile(of_base.min(1.0)).clamp(self.min, self.max)
    }

    fn below(&self, x: f64) -> Below {
        if x < self.min {
            return Below::NOTHING;
        }
        let (below, kept) = (self.base.below(x.min(self.max)), self.kept());
        Below {
            probability: ((below.probability - self.lower.probability) / kept).clamp(0.0, 1.0),
            first: ((below.first - self.lower.first) / kept).max(0.0),
            second: ((below.second - self.lower.second) / kept).max(0.0),
        }
    }
}
