//! A distribution that has been checked and is ready to draw from.

use rand::Rng;
use rand::distr::Distribution;

use super::law::{Below, Law};

/// A checked distribution: draws, and knows its moments and quantiles. Made by
/// [`Dist::sampler`](super::Dist::sampler); composes with rand's iterators as a
/// [`Distribution<f64>`](rand::distr::Distribution).
#[derive(Clone, Debug)]
pub struct Sampler {
    law: Law,
    mean: f64,
    variance: f64,
}

impl Sampler {
    pub(super) fn new(law: Law) -> Self {
        Self { mean: law.mean(), variance: law.variance(), law }
    }

    /// Draws a value.
    ///
    /// Takes one number from `rng`, and is monotone in it, for every distribution with a closed-form
    /// quantile (a constant takes one too) and for truncations of any; a mixture takes one for the
    /// choice and then what the chosen part takes; a gamma takes two or more.
    #[inline]
    pub fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.law.sample(rng)
    }

    /// The value for the luck `u`, a uniform number in (0, 1): the quantile function, at the speed
    /// of sampling wherever it has a closed form (a gamma or a mixture takes microseconds).
    /// Not decreasing in `u`, but for rounding in the last place.
    #[inline]
    pub fn at(&self, u: f64) -> f64 {
        self.law.at(u)
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The variance.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// The squared coefficient of variation, variance over squared mean; 0 for the constant 0.
    pub fn scv(&self) -> f64 {
        if self.variance == 0.0 { 0.0 } else { self.variance / (self.mean * self.mean) }
    }

    /// The smallest value at or below which the share `q` of all values lies. `q` is brought into
    /// [0, 1] first; the quantile at 1 is infinite where values are unbounded. NaN gives NaN.
    pub fn quantile(&self, q: f64) -> f64 {
        if q.is_nan() { q } else { self.law.quantile(q.clamp(0.0, 1.0)) }
    }

    /// The probability of a value of at most `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        self.below(x).probability
    }

    /// The smallest value, or the limit that values can come near to.
    pub fn min(&self) -> f64 {
        self.law.min()
    }

    pub(super) fn below(&self, x: f64) -> Below {
        if x == f64::INFINITY {
            let second = self.variance + self.mean * self.mean;
            return Below { probability: 1.0, first: self.mean, second };
        }
        self.law.below(x)
    }
}

impl Distribution<f64> for Sampler {
    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.law.sample(rng)
    }
}
