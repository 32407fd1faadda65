//! The likeliest law of each family, and Akaike's criterion.
//!
//! Where the likelihood depends on the values by a few sums alone (all but Weibull and hyperexponential)
//! it costs the same for any number of values.

use forebay_engine::{Dist, normal_quantile};
use libm::{exp, lgamma, log};
use serde::{Deserialize, Serialize};

use super::super::solver::minimise;

/// Edges of the minimiser's simplexes, in logarithms of the parameters, and iterations of each.
const SPANS: [f64; 3] = [0.5, -0.2, 0.05];
const ITERATIONS: u64 = 60;
/// Bounds of the parameters, narrower than what the engine accepts.
const CV: [f64; 2] = [0.002, 50.0];
const SHAPE: [f64; 2] = [0.11, 1400.0];
const ALPHA: [f64; 2] = [0.011, 99.0];

/// The families that are tried: those of the engine's laws that have a density of few parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the laws in a scenario")]
pub enum Family {
    Exponential,
    Lognormal,
    Gamma,
    Weibull,
    Pareto,
    Hyperexponential,
    Uniform,
}

impl Family {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Exponential,
        Self::Lognormal,
        Self::Gamma,
        Self::Weibull,
        Self::Pareto,
        Self::Hyperexponential,
        Self::Uniform,
    ];

    /// As scenarios spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exponential => "exponential",
            Self::Lognormal => "lognormal",
            Self::Gamma => "gamma",
            Self::Weibull => "weibull",
            Self::Pareto => "pareto",
            Self::Hyperexponential => "hyperexponential",
            Self::Uniform => "uniform",
        }
    }
}

/// The likeliest law of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Its family.
    pub family: Family,
    /// The law.
    pub dist: Dist,
    /// Its parameters.
    pub parameters: Vec<(&'static str, f64)>,
    /// Akaike's criterion: twice the number of parameters less twice the logarithm of the likelihood.
    pub criterion: f64,
}

/// Positive values with the sums that likelihoods are made of.
pub(super) struct Values<'a> {
    each: &'a [f64],
    logs: Vec<f64>,
    n: f64,
    mean: f64,
    mean_log: f64,
    variance_log: f64,
    cv: f64,
    range: [f64; 2],
}

impl<'a> Values<'a> {
    pub(super) fn new(values: &'a [f64]) -> Self {
        let n = values.len() as f64;
        let logs: Vec<f64> = values.iter().map(|value| log(*value)).collect();
        let mean = values.iter().sum::<f64>() / n;
        let mean_log = logs.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / n;
        let variance_log = logs.iter().map(|value| (value - mean_log) * (value - mean_log)).sum::<f64>() / n;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        Self {
            each: values,
            logs,
            n,
            mean,
            mean_log,
            variance_log,
            cv: variance.sqrt() / mean,
            range: [least, most],
        }
    }
}

/// The likeliest law of each family that has one for these values, best criterion first.
pub(super) fn best_of(values: &Values<'_>, families: &[Family]) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = families.iter().filter_map(|family| likeliest(values, *family)).collect();
    found.retain(|candidate| candidate.criterion.is_finite() && candidate.dist.sampler().is_ok());
    found.sort_by(|a, b| a.criterion.total_cmp(&b.criterion));
    found
}

fn likeliest(values: &Values<'_>, family: Family) -> Option<Candidate> {
    let (dist, parameters, log_likelihood) = match family {
        Family::Exponential => exponential(values),
        Family::Lognormal => lognormal(values),
        Family::Gamma => gamma(values)?,
        Family::Weibull => weibull(values)?,
        Family::Pareto => pareto(values)?,
        Family::Hyperexponential => hyperexponential(values)?,
        Family::Uniform => uniform(values),
    };
    let criterion = 2.0 * parameters.len() as f64 - 2.0 * log_likelihood;
    Some(Candidate { family, dist, parameters, criterion })
}

type Likeliest = (Dist, Vec<(&'static str, f64)>, f64);

fn exponential(values: &Values<'_>) -> Likeliest {
    let mean = values.mean;
    (Dist::exponential(mean), vec![("mean", mean)], -values.n * (log(mean) + 1.0))
}

fn lognormal(values: &Values<'_>) -> Likeliest {
    let sigma = values.variance_log.sqrt();
    let median = exp(values.mean_log);
    let p95 = median * exp(sigma * normal_quantile(0.95));
    let density = log(sigma) + 0.5 * log(2.0 * std::f64::consts::PI) + 0.5;
    let log_likelihood = -values.n * (values.mean_log + density);
    (Dist::lognormal_median(median, p95), vec![("median", median), ("p95", p95)], log_likelihood)
}

/// The mean is the sample's; the shape is what is searched.
fn gamma(values: &Values<'_>) -> Option<Likeliest> {
    let (mean, excess) = (values.mean, values.mean_log - log(values.mean));
    let per_value =
        |shape: f64| shape * log(shape) - lgamma(shape) + shape * excess - values.mean_log - shape;
    let start = log(1.0 / (values.cv * values.cv));
    let (shape, loss) =
        search(start, [1.0 / (CV[1] * CV[1]), 1.0 / (CV[0] * CV[0])], |shape| -per_value(shape))?;
    let cv = 1.0 / shape.sqrt();
    Some((Dist::gamma(mean, cv), vec![("mean", mean), ("cv", cv)], -values.n * loss))
}

/// The scale follows from the shape.
fn weibull(values: &Values<'_>) -> Option<Likeliest> {
    // Relative to the largest, so that no power overflows.
    let top = log(values.range[1]);
    let mean_power =
        |shape: f64| values.logs.iter().map(|log| exp(shape * (log - top))).sum::<f64>() / values.n;
    let log_scale = |shape: f64| top + log(mean_power(shape)) / shape;
    let loss = |shape: f64| -(log(shape) - shape * log_scale(shape) + (shape - 1.0) * values.mean_log - 1.0);
    let spread = values.variance_log.sqrt().max(1e-6);
    let (shape, loss) = search(log(std::f64::consts::PI / (spread * 6.0_f64.sqrt())), SHAPE, loss)?;
    let scale = exp(log_scale(shape));
    Some((Dist::weibull_shape(shape, scale), vec![("shape", shape), ("scale", scale)], -values.n * loss))
}

/// Bounds are the sample's own ends, which no others are as likely as.
fn pareto(values: &Values<'_>) -> Option<Likeliest> {
    let [min, max] = values.range;
    let (log_min, log_share) = (log(min), log(min / max));
    let loss = |alpha: f64| {
        let whole = -libm::expm1(alpha * log_share);
        -(log(alpha) + alpha * log_min - (alpha + 1.0) * values.mean_log - log(whole))
    };
    let start = log(1.0 / (values.mean_log - log_min).max(1e-6));
    let (alpha, loss) = search(start, ALPHA, loss)?;
    let parameters = vec![("alpha", alpha), ("min", min), ("max", max)];
    Some((Dist::Pareto { min, max, alpha }, parameters, -values.n * loss))
}

/// Two phases with balanced means; only for values that vary more than an exponential's.
fn hyperexponential(values: &Values<'_>) -> Option<Likeliest> {
    if values.cv <= 1.0 {
        return None;
    }
    let rates = |mean: f64, cv: f64| {
        let squared = cv * cv;
        let first = 0.5 * (1.0 + ((squared - 1.0) / (squared + 1.0)).sqrt());
        (first, 2.0 * first / mean, 2.0 * (1.0 - first) / mean)
    };
    let at = |point: &[f64]| (values.mean * exp(point[0]), 1.0 + exp(point[1]));
    let loss = |point: &[f64]| {
        let (mean, cv) = at(point);
        if cv > CV[1] {
            return f64::NAN;
        }
        let (first, fast, slow) = rates(mean, cv);
        let density = |x: &f64| log(first * fast * exp(-fast * x) + (1.0 - first) * slow * exp(-slow * x));
        -values.each.iter().map(density).sum::<f64>() / values.n
    };
    let start = [0.0, log((values.cv - 1.0).max(0.01))];
    let (point, loss) = minimise(&loss, &start, &SPANS[..2], ITERATIONS).ok()?;
    let (mean, cv) = at(&point);
    Some((Dist::hyperexponential(mean, cv), vec![("mean", mean), ("cv", cv)], -values.n * loss))
}

fn uniform(values: &Values<'_>) -> Likeliest {
    let [min, max] = values.range;
    (Dist::Uniform { min, max }, vec![("min", min), ("max", max)], -values.n * log(max - min))
}

/// The parameter of least loss within bounds, and that loss.
fn search(start: f64, [least, most]: [f64; 2], loss: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let bounded = |point: &[f64]| {
        let parameter = exp(point[0]);
        if (least..=most).contains(&parameter) { loss(parameter) } else { f64::NAN }
    };
    let start = [start.clamp(log(least * 1.01), log(most * 0.99))];
    let (point, loss) = minimise(&bounded, &start, &SPANS, ITERATIONS).ok()?;
    loss.is_finite().then(|| (exp(point[0]), loss))
}
