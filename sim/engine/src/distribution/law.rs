//! The laws behind [`Dist`]: one type per family, each knowing its quantiles and partial moments.
//!
//! Partial moments, the integrals of 1, t and t^2 up to a point, have closed forms in every family,
//! and everything else follows from them: the distribution function, mean and variance, and the same
//! for mixtures, shifts and truncations of them. So nothing here integrates numerically.

mod check;
mod empirical;
mod exponential;
mod gamma;
mod lognormal;
mod mixture;
mod pareto;
mod shifted;
mod truncated;
mod uniform;
mod weibull;

use rand::Rng;

use super::error::DistError;
use super::{Dist, Sampler};
use crate::stream::unit;
use check::{finite, non_negative, positive};
use empirical::Empirical;
use exponential::Exponential;
use gamma::Gamma;
use lognormal::Lognormal;
use mixture::Mixture;
use pareto::Pareto;
use shifted::Shifted;
use truncated::Truncated;
use uniform::Uniform;
use weibull::Weibull;

/// The integrals of 1, t and t^2 over a distribution, up to a point.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Below {
    pub(super) probability: f64,
    pub(super) first: f64,
    pub(super) second: f64,
}

impl Below {
    /// Nothing: the point lies below the whole distribution.
    const NOTHING: Self = Self { probability: 0.0, first: 0.0, second: 0.0 };
}

/// What a family of distributions must know.
pub(super) trait Shape {
    fn mean(&self) -> f64;
    fn variance(&self) -> f64;
    fn min(&self) -> f64;

    /// The smallest x at or below which the share `q` lies, for `q` in [0, 1].
    fn quantile(&self, q: f64) -> f64;

    /// The same as `quantile`, for the `u` of the hot path: fast where the two differ.
    #[inline]
    fn at(&self, u: f64) -> f64 {
        self.quantile(u)
    }

    /// The partial moments up to and including `x`, for finite `x`.
    fn below(&self, x: f64) -> Below;

    #[inline]
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        self.at(unit(rng.next_u64()))
    }
}

#[derive(Clone, Debug)]
pub(super) enum Law {
    Constant(Constant),
    Uniform(Uniform),
    Exponential(Exponential),
    Lognormal(Lognormal),
    Gamma(Gamma),
    Weibull(Weibull),
    Pareto(Pareto),
    Mixture(Mixture),
    Shifted(Box<Shifted>),
    Truncated(Box<Truncated>),
    Empirical(Empirical),
}

/// Calls the same method on whichever law it is.
macro_rules! each {
    ($law:expr, $shape:ident => $call:expr) => {
        match $law {
            Law::Constant($shape) => $call,
            Law::Uniform($shape) => $call,
            Law::Exponential($shape) => $call,
            Law::Lognormal($shape) => $call,
            Law::Gamma($shape) => $call,
            Law::Weibull($shape) => $call,
            Law::Pareto($shape) => $call,
            Law::Mixture($shape) => $call,
            Law::Shifted($shape) => $call,
            Law::Truncated($shape) => $call,
            Law::Empirical($shape) => $call,
        }
    };
}

impl Law {
    pub(super) fn mean(&self) -> f64 {
        each!(self, shape => shape.mean())
    }

    pub(super) fn variance(&self) -> f64 {
        each!(self, shape => shape.variance())
    }

    pub(super) fn min(&self) -> f64 {
        each!(self, shape => shape.min())
    }

    pub(super) fn quantile(&self, q: f64) -> f64 {
        each!(self, shape => shape.quantile(q))
    }

    pub(super) fn below(&self, x: f64) -> Below {
        each!(self, shape => shape.below(x))
    }

    #[inline]
    pub(super) fn at(&self, u: f64) -> f64 {
        match self {
            Self::Exponential(shape) => shape.at(u),
            other => other.at_other(u),
        }
    }

    #[inline]
    pub(super) fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        match self {
            Self::Exponential(shape) => shape.sample(rng),
            other => other.sample_other(rng),
        }
    }

    #[inline(never)]
    fn at_other(&self, u: f64) -> f64 {
        each!(self, shape => shape.at(u))
    }

    /// Kept out of line, so that the common exponential is inlined alone.
    #[inline(never)]
    fn sample_other<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        each!(self, shape => shape.sample(rng))
    }
}

/// A single value.
#[derive(Clone, Debug)]
pub(super) struct Constant(f64);

impl Shape for Constant {
    fn mean(&self) -> f64 {
        self.0
    }

    fn variance(&self) -> f64 {
        0.0
    }

    fn min(&self) -> f64 {
        self.0
    }

    fn quantile(&self, _q: f64) -> f64 {
        self.0
    }

    fn below(&self, x: f64) -> Below {
        if x < self.0 {
            return Below::NOTHING;
        }
        Below { probability: 1.0, first: self.0, second: self.0 * self.0 }
    }

    /// Uses up a number like every other law: a sweep that turns a variance down to 0 must not shift
    /// the luck of what is drawn next from the same generator.
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        rng.next_u64();
        self.0
    }
}

/// Checks the parameters of `dist` and makes its law.
pub(super) fn build(dist: &Dist) -> Result<Law, DistError> {
    Ok(match *dist {
        Dist::Constant { value } => Law::Constant(Constant(non_negative("value", value)?)),
        Dist::Uniform { min, max } => Law::Uniform(Uniform::new(min, max)?),
        Dist::Exponential { mean } => Law::Exponential(Exponential::new(positive("mean", mean)?)),
        Dist::Lognormal { mean, cv, median, p95 } => {
            Law::Lognormal(Lognormal::from_fields([mean, cv, median, p95])?)
        }
        Dist::Gamma { mean, cv } => gamma(mean, cv)?,
        Dist::Weibull { mean, cv, shape, scale } => weibull([mean, cv, shape, scale])?,
        Dist::Pareto { min, max, alpha } => Law::Pareto(Pareto::new(min, max, alpha)?),
        Dist::Hyperexponential { ref phases, mean, cv } => {
            Law::Mixture(Mixture::hyperexponential(phases.as_deref(), mean, cv)?)
        }
        Dist::Mixture { ref parts } => Law::Mixture(Mixture::from_parts(parts)?),
        Dist::Shifted { by, ref dist } => {
            let base = nested("dist", dist)?;
            Law::Shifted(Box::new(Shifted::new(non_negative("by", by)?, base)))
        }
        Dist::Truncated { min, max, ref dist } => {
            let base = nested("dist", dist)?;
            Law::Truncated(Box::new(Truncated::new(min, max, base)?))
        }
        Dist::Empirical { ref quantiles } => Law::Empirical(Empirical::new(quantiles)?),
    })
}

fn nested(field: &str, dist: &Dist) -> Result<Sampler, DistError> {
    dist.sampler().map_err(|error| error.within(field))
}

/// A constant when `cv` is 0: the limit of the family.
fn gamma(mean: f64, cv: f64) -> Result<Law, DistError> {
    let mean = positive("mean", mean)?;
    let cv = check::coefficient("cv", cv, 0.001, 100.0)?;
    Ok(if cv == 0.0 { Law::Constant(Constant(mean)) } else { Law::Gamma(Gamma::new(mean, cv)) })
}

/// A constant when `cv` is 0: the limit of the family.
fn weibull(fields: [Option<f64>; 4]) -> Result<Law, DistError> {
    Ok(match fields {
        [Some(mean), Some(cv), None, None] => {
            let mean = positive("mean", mean)?;
            let cv = check::coefficient("cv", cv, 0.001, 400.0)?;
            if cv == 0.0 {
                Law::Constant(Constant(mean))
            } else {
                Law::Weibull(Weibull::from_moments(mean, cv))
            }
        }
        [None, None, Some(shape), Some(scale)] => {
            let shape = finite("shape", shape, "0.1 to 1500", |shape| (0.1..=1500.0).contains(&shape))?;
            Law::Weibull(Weibull::new(shape, positive("scale", scale)?))
        }
        other => {
            let names = ["mean", "cv", "shape", "scale"];
            return Err(check::choice("weibull", names, other, "mean and cv; shape and scale"));
        }
    })
}
