//! Every value between two bounds is equally likely.

use super::check::{finite, non_negative};
use super::{Below, Shape};
use crate::distribution::DistError;

#[derive(Clone, Debug)]
pub(crate) struct Uniform {
    min: f64,
    max: f64,
}

impl Uniform {
    pub(super) fn new(min: f64, max: f64) -> Result<Self, DistError> {
        let min = non_negative("min", min)?;
        let max = finite("max", max, format!("a finite number above min ({min})"), |max| max > min)?;
        Ok(Self { min, max })
    }

    fn width(&self) -> f64 {
        self.max - self.min
    }
}

impl Shape for Uniform {
    fn mean(&self) -> f64 {
        self.min + 0.5 * self.width()
    }

    fn variance(&self) -> f64 {
        self.width() * self.width() / 12.0
    }

    fn min(&self) -> f64 {
        self.min
    }

    #[inline]
    fn quantile(&self, q: f64) -> f64 {
        (self.min + q * self.width()).min(self.max)
    }

    fn below(&self, x: f64) -> Below {
        if x <= self.min {
            return Below::NOTHING;
        }
        let x = x.min(self.max);
        let probability = (x - self.min) / self.width();
        let (a, b) = (self.min, x);
        Below {
            probability,
            first: probability * 0.5 * (a + b),
            second: probability * (a * a + a * b + b * b) / 3.0,
        }
    }
}
