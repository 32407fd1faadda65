//! Another distribution plus a constant: a fixed overhead under a random rest.

use rand::Rng;

use super::{Below, Shape};
use crate::distribution::Sampler;

#[derive(Clone, Debug)]
pub(crate) struct Shifted {
    by: f64,
    base: Sampler,
}

impl Shifted {
    /// `by` is finite, 0 or more.
    pub(super) fn new(by: f64, base: Sampler) -> Self {
        Self { by, base }
    }
}

impl Shape for Shifted {
    fn mean(&self) -> f64 {
        self.by + self.base.mean()
    }

    fn variance(&self) -> f64 {
        self.base.variance()
    }

    fn min(&self) -> f64 {
        self.by + self.base.min()
    }

    fn quantile(&self, q: f64) -> f64 {
        self.by + self.base.quantile(q)
    }

    fn at(&self, u: f64) -> f64 {
        self.by + self.base.at(u)
    }

    fn below(&self, x: f64) -> Below {
        let base = self.base.below(x - self.by);
        Below {
            probability: base.probability,
            first: base.first + self.by * base.probability,
            second: base.second + self.by * (2.0 * base.first + self.by * base.probability),
        }
    }

    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.by + self.base.sample(rng)
    }
}
