//! Distributions as scenario files write them ([`Dist`]), and as the simulation draws from them
//! ([`Sampler`]).
//!
//! All are distributions of quantities that are never negative: times, sizes, counts. In a file a
//! distribution is a bare number (a constant) or a table with `kind`:
//!
//! ```toml
//! think_s = 3.5
//! service_s = { kind = "lognormal", median = 4.0, p95 = 11.0 }
//! ```
//!
//! Each draws by inverting its distribution function on one uniform number wherever a closed form
//! allows: samples are then monotone in their luck (a worse draw is worse under every parameter, which
//! is what common random numbers live on), take one number each, and are the same to the last bit on
//! every machine. `rand_distr` is not used for these: its ziggurats and powers call the standard
//! library or `libm` depending on which features any crate of the build turns on, so a build with one
//! more dependency could give other results. Its alias tables, which are plain arithmetic, serve in
//! [`Popularity`](crate::Popularity), and the tests compare every sampler with its counterpart there.

mod convert;
mod error;
mod law;
mod sampler;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::DistError;
pub use sampler::Sampler;

/// A distribution as written in a scenario: a bare number, or a table with `kind`.
///
/// Values are in the unit of the field that holds the distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(!remote, rename = "Dist", transform = convert::allow_bare_number)]
pub enum Dist {
    /// Always the same value; can also be written as a bare number.
    Constant {
        /// The value.
        #[schemars(range(min = 0.0))]
        value: f64,
    },
    /// Every value between two bounds is equally likely.
    Uniform {
        /// Lower bound.
        #[schemars(range(min = 0.0))]
        min: f64,
        /// Upper bound; above `min`.
        #[schemars(range(min = 0.0))]
        max: f64,
    },
    /// Exponential: memoryless, coefficient of variation 1.
    Exponential {
        /// Mean; above 0.
        #[schemars(range(min = 0.0))]
        mean: f64,
    },
    /// Lognormal, given as `mean` and `cv`, or as `median` and `p95`.
    Lognormal {
        /// Mean; above 0. Goes with `cv`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        mean: Option<f64>,
        /// Coefficient of variation: standard deviation over mean.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        cv: Option<f64>,
        /// Median; above 0. Goes with `p95`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        median: Option<f64>,
        /// 95th percentile; not below the median.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        p95: Option<f64>,
    },
    /// Gamma; Erlang where 1 / cv^2 is a whole number.
    Gamma {
        /// Mean; above 0.
        #[schemars(range(min = 0.0))]
        mean: f64,
        /// Coefficient of variation: standard deviation over mean; 0 (a constant) or 0.001 to 100.
        #[schemars(range(min = 0.0, max = 100.0))]
        cv: f64,
    },
    /// Weibull, given as `mean` and `cv`, or as `shape` and `scale`.
    Weibull {
        /// Mean; above 0. Goes with `cv`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        mean: Option<f64>,
        /// Coefficient of variation: standard deviation over mean; 0 (a constant) or 0.001 to 400.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0, max = 400.0))]
        cv: Option<f64>,
        /// Shape, 0.1 to 1500: below 1 the tail is heavier than exponential, above 1 lighter. Goes
        /// with `scale`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.1, max = 1500.0))]
        shape: Option<f64>,
        /// Scale: the 63rd percentile; above 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        scale: Option<f64>,
    },
    /// Bounded Pareto: a power law cut off at both ends.
    Pareto {
        /// Lower bound; above 0.
        #[schemars(range(min = 0.0))]
        min: f64,
        /// Upper bound; above `min`.
        #[schemars(range(min = 0.0))]
        max: f64,
        /// Tail exponent, 0.01 to 100: the smaller, the heavier the tail.
        #[schemars(range(min = 0.01, max = 100.0))]
        alpha: f64,
    },
    /// Hyperexponential: one of several exponentials, given as `phases`, or as `mean` and `cv` (two
    /// phases with balanced means).
    Hyperexponential {
        /// The exponentials; their weights add up to 1.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<Phase>", length(min = 1))]
        phases: Option<Vec<Phase>>,
        /// Mean; above 0. Goes with `cv`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        mean: Option<f64>,
        /// Coefficient of variation: standard deviation over mean; 1 to 1000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 1.0, max = 1000.0))]
        cv: Option<f64>,
    },
    /// One of several distributions, chosen by weight.
    Mixture {
        /// The distributions; their weights add up to 1.
        #[schemars(length(min = 1))]
        parts: Vec<Part>,
    },
    /// Another distribution plus a constant.
    Shifted {
        /// What is added.
        #[schemars(range(min = 0.0))]
        by: f64,
        /// The distribution it is added to.
        dist: Box<Dist>,
    },
    /// Another distribution, given that its value lies above `min` and at most at `max` (values
    /// outside are drawn anew, not moved to the bound).
    Truncated {
        /// Lower bound, exclusive; none when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        min: Option<f64>,
        /// Upper bound, inclusive; none when left out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "f64", range(min = 0.0))]
        max: Option<f64>,
        /// The distribution that is cut.
        dist: Box<Dist>,
    },
    /// A table of quantiles, straight lines between them: the shape of measured data.
    Empirical {
        /// Pairs of probability and value, both ascending; the first probability is 0, the last 1.
        #[schemars(length(min = 2))]
        quantiles: Vec<[f64; 2]>,
    },
}

/// One exponential of a [`Dist::Hyperexponential`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Probability of this phase.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight: f64,
    /// Mean of the phase; above 0.
    #[schemars(range(min = 0.0))]
    pub mean: f64,
}

/// One distribution of a [`Dist::Mixture`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Probability of this part.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight: f64,
    /// The distribution.
    pub dist: Dist,
}

impl Dist {
    /// Always `value`.
    pub const fn constant(value: f64) -> Self {
        Self::Constant { value }
    }

    /// Exponential with this mean.
    pub const fn exponential(mean: f64) -> Self {
        Self::Exponential { mean }
    }

    /// Lognormal with this mean and coefficient of variation.
    pub const fn lognormal(mean: f64, cv: f64) -> Self {
        Self::Lognormal { mean: Some(mean), cv: Some(cv), median: None, p95: None }
    }

    /// Lognormal with this median and 95th percentile.
    pub const fn lognormal_median(median: f64, p95: f64) -> Self {
        Self::Lognormal { mean: None, cv: None, median: Some(median), p95: Some(p95) }
    }

    /// Gamma with this mean and coefficient of variation.
    pub const fn gamma(mean: f64, cv: f64) -> Self {
        Self::Gamma { mean, cv }
    }

    /// Weibull with this mean and coefficient of variation.
    pub const fn weibull(mean: f64, cv: f64) -> Self {
        Self::Weibull { mean: Some(mean), cv: Some(cv), shape: None, scale: None }
    }

    /// Weibull with this shape and scale.
    pub const fn weibull_shape(shape: f64, scale: f64) -> Self {
        Self::Weibull { mean: None, cv: None, shape: Some(shape), scale: Some(scale) }
    }

    /// Hyperexponential of two phases with balanced means, this mean and this coefficient of
    /// variation.
    pub const fn hyperexponential(mean: f64, cv: f64) -> Self {
        Self::Hyperexponential { phases: None, mean: Some(mean), cv: Some(cv) }
    }

    /// The name of the distribution, as `kind` spells it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Constant { .. } => "constant",
            Self::Uniform { .. } => "uniform",
            Self::Exponential { .. } => "exponential",
            Self::Lognormal { .. } => "lognormal",
            Self::Gamma { .. } => "gamma",
            Self::Weibull { .. } => "weibull",
            Self::Pareto { .. } => "pareto",
            Self::Hyperexponential { .. } => "hyperexponential",
            Self::Mixture { .. } => "mixture",
            Self::Shifted { .. } => "shifted",
            Self::Truncated { .. } => "truncated",
            Self::Empirical { .. } => "empirical",
        }
    }

    /// Checks the parameters and prepares the distribution for drawing.
    ///
    /// # Errors
    /// When a parameter is missing, not finite, out of its range, or contradicts another; the error
    /// names the field, what was found and what is allowed.
    pub fn sampler(&self) -> Result<Sampler, DistError> {
        law::build(self).map(Sampler::new)
    }
}

impl From<f64> for Dist {
    fn from(value: f64) -> Self {
        Self::constant(value)
    }
}

#[cfg(test)]
mod tests;
