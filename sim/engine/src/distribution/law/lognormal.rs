//! Lognormal: the exponential of a normal variate, itself drawn by its quantile function.

use super::check::{choice, finite, positive};
use super::{Below, Shape};
use crate::distribution::DistError;
use crate::special::{normal_cdf, normal_quantile};

/// Above this the 99.9th percentile is 10^11 times the median: a mistake, not a service time.
const CV_MAX: f64 = 1000.0;

#[derive(Clone, Debug)]
pub(crate) struct Lognormal {
    /// Mean and standard deviation of the logarithm.
    mu: f64,
    sigma: f64,
}

impl Lognormal {
    /// From `mean` and `cv`, or from `median` and `p95`.
    pub(super) fn from_fields(fields: [Option<f64>; 4]) -> Result<Self, DistError> {
        match fields {
            [Some(mean), Some(cv), None, None] => {
                let mean = positive("mean", mean)?;
                let cv = finite("cv", cv, "0 to 1000", |cv| (0.0..=CV_MAX).contains(&cv))?;
                let variance = libm::log1p(cv * cv);
                Ok(Self { mu: libm::log(mean) - 0.5 * variance, sigma: variance.sqrt() })
            }
            [None, None, Some(median), Some(p95)] => {
                let median = positive("median", median)?;
                let allowed = format!("a finite number, the median ({median}) or more, at most 100 times it");
                let p95 = finite("p95", p95, allowed, |p95| p95 >= median && p95 <= 100.0 * median)?;
                let sigma = libm::log(p95 / median) / normal_quantile(0.95);
                Ok(Self { mu: libm::log(median), sigma })
            }
            other => {
                let names = ["mean", "cv", "median", "p95"];
                Err(choice("lognormal", names, other, "mean and cv; median and p95"))
            }
        }
    }
}

impl Shape for Lognormal {
    fn mean(&self) -> f64 {
        libm::exp(self.mu + 0.5 * self.sigma * self.sigma)
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        mean * mean * libm::expm1(self.sigma * self.sigma)
    }

    fn min(&self) -> f64 {
        if self.sigma == 0.0 { libm::exp(self.mu) } else { 0.0 }
    }

    fn quantile(&self, q: f64) -> f64 {
        if self.sigma == 0.0 {
            return libm::exp(self.mu);
        }
        libm::exp(self.mu + self.sigma * normal_quantile(q))
    }

    fn below(&self, x: f64) -> Below {
        if x <= 0.0 {
            return Below::NOTHING;
        }
        let z = if self.sigma > 0.0 {
            (libm::log(x) - self.mu) / self.sigma
        } else if x >= self.min() {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
        let mean = self.mean();
        Below {
            probability: normal_cdf(z),
            first: mean * normal_cdf(z - self.sigma),
            second: (self.variance() + mean * mean) * normal_cdf(z - 2.0 * self.sigma),
        }
    }
}
