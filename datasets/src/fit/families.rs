//! Service times, lengths and residuals by family: maximum likelihood, chosen by Akaike's criterion,
//! checked by Kolmogorov and Smirnov's distance, judged on the values that the fit did not see.
//!
//! | file | what |
//! | --- | --- |
//! | `likelihood` | the best parameters of each family, in closed form or by argmin, and their likelihood |
//! | `distance` | the distance to a sample, and how often it would be larger by chance |
//!
//! Every second value is fitted, in the order in which they come, so that a drift is on both sides. The
//! p-value is found by a parametric bootstrap: the tables of the test hold for a law that is known, not for
//! one whose parameters were fitted to the same values. Of a large sample only a part is checked; the family is
//! fitted to that part for it, as it is to every draw. The standard errors come from the same draws.

mod distance;
mod likelihood;

use forebay_engine::{Dist, Stream};

use super::robust::Estimate;
pub use distance::distance;
use distance::{Drawn, draw_and_refit};
pub use likelihood::{Candidate, Family};
use likelihood::{Values, best_of};

/// Fewest values on either side of the split.
pub const VALUES_MIN: usize = 20;
/// At most so many fitted values enter a likelihood, evenly taken.
const LIKELIHOOD_MAX: usize = 100_000;

/// How much work the check is worth.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Samples drawn from the fitted law.
    pub draws: usize,
    /// Values in each, and values of the data that are checked, evenly taken.
    pub values: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { draws: 199, values: 1000 }
    }
}

/// A law fitted to a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct LawFit {
    /// The law, as scenarios write it.
    pub dist: Dist,
    /// Its family.
    pub family: Family,
    /// Its parameters, by the names that scenarios use, in the unit of the values.
    pub parameters: Vec<(&'static str, Estimate)>,
    /// Every family that could be fitted with its criterion, best first; smaller is better.
    pub candidates: Vec<(Family, f64)>,
    /// Distance between the values that were checked and their own law of the family.
    pub distance: f64,
    /// How likely a distance as large is if the law is right.
    pub p_value: f64,
    /// How many values were checked.
    pub checked: usize,
    /// Values fitted, and values that judged.
    pub values: [usize; 2],
    /// Smallest and largest value, both halves.
    pub range: [f64; 2],
    /// On the fitted values.
    pub fitted: LawErrors,
    /// On the others.
    pub held_out: LawErrors,
    /// The fitted values as they are: straight lines between their quantiles.
    pub quantiles: Dist,
    /// How far those are off the others.
    pub quantiles_held_out: LawErrors,
}

/// How far a law is off a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LawErrors {
    /// Of the mean, percent of the sample's.
    pub mean: f64,
    /// Of the median, percent.
    pub p50: f64,
    /// Of the 95th percentile, percent.
    pub p95: f64,
    /// Of the 99th percentile, percent.
    pub p99: f64,
    /// Largest difference of the distribution functions.
    pub distance: f64,
}

/// Values that no law can be fitted to.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LawError {
    /// Too few.
    #[error("{found} values: at least {} are needed", 2 * VALUES_MIN)]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// One that no service time or length can have.
    #[error("value {place}: found {found}, allowed: a number above 0")]
    Value {
        /// Which, from 1.
        place: usize,
        /// The value.
        found: f64,
    },
    /// All the same.
    #[error("all values are {0}: write that number itself, it needs no law")]
    Constant(f64),
    /// No family has a law for them.
    #[error("no family fits: the values spread too widely")]
    None,
}

/// Fits a law to positive values, given in the order in which they were measured.
///
/// # Errors
/// Too few values, one that is not positive, or all the same.
pub fn fit_law(values: &[f64], effort: Effort) -> Result<LawFit, LawError> {
    if values.len() < 2 * VALUES_MIN {
        return Err(LawError::TooFew { found: values.len() });
    }
    let fitted: Vec<f64> = values.iter().copied().step_by(2).collect();
    let others: Vec<f64> = values.iter().copied().skip(1).step_by(2).collect();
    fit_law_split(&fitted, &others, effort)
}

/// The same with the caller's own split: the first part is fitted, the second judges.
///
/// # Errors
/// As [`fit_law`].
pub fn fit_law_split(fitted: &[f64], others: &[f64], effort: Effort) -> Result<LawFit, LawError> {
    let found = fitted.len() + others.len();
    if fitted.len() < VALUES_MIN || others.len() < VALUES_MIN {
        return Err(LawError::TooFew { found });
    }
    let all = || fitted.iter().chain(others).copied();
    if let Some(place) = all().position(|value| !(value.is_finite() && value > 0.0)) {
        let value = all().nth(place).unwrap_or_default();
        return Err(LawError::Value { place: place + 1, found: value });
    }
    let range = [all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max)];
    if range[0] == range[1] {
        return Err(LawError::Constant(range[0]));
    }
    let thinned = evenly(fitted, LIKELIHOOD_MAX);
    let candidates = best_of(&Values::new(&thinned), &Family::ALL);
    let Some(best) = candidates.first().cloned() else { return Err(LawError::None) };
    let sampler = best.dist.sampler().map_err(|_| LawError::None)?;
    let checked = evenly(fitted, effort.values);
    let distance = own_distance(&best, &checked).ok_or(LawError::None)?;
    let mut stream = Stream::new(1, 0, "bootstrap", found as u64);
    let drawn = draw_and_refit(&best, &sampler, checked.len(), effort.draws, &mut stream);
    let farther = drawn.distances.iter().filter(|drawn| **drawn >= distance).count();
    let quantiles = quantiles(fitted);
    let as_it_was = quantiles.sampler().map_err(|_| LawError::None)?;
    Ok(LawFit {
        quantiles,
        quantiles_held_out: LawErrors::new(&as_it_was, others),
        parameters: with_errors(&best, &drawn, thinned.len() as f64 / checked.len() as f64),
        family: best.family,
        distance,
        p_value: (farther + 1) as f64 / (drawn.distances.len() + 1) as f64,
        checked: checked.len(),
        values: [fitted.len(), others.len()],
        range,
        fitted: LawErrors::new(&sampler, fitted),
        held_out: LawErrors::new(&sampler, others),
        candidates: candidates.iter().map(|candidate| (candidate.family, candidate.criterion)).collect(),
        dist: best.dist,
    })
}

/// The distance of some values to the law of the same family that is likeliest for them.
fn own_distance(best: &Candidate, values: &[f64]) -> Option<f64> {
    let refitted = best_of(&Values::new(values), &[best.family]);
    Some(distance(&refitted.first()?.dist.sampler().ok()?, values))
}

/// Parameters with the spread that they have over the drawn samples, brought to the sample's own size.
fn with_errors(best: &Candidate, drawn: &Drawn, times_larger: f64) -> Vec<(&'static str, Estimate)> {
    let estimate = |(index, (name, value)): (usize, &(&'static str, f64))| {
        let values: Vec<f64> = drawn.parameters.iter().map(|draw| draw[index]).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|draw| (draw - mean) * (draw - mean)).sum();
        let error = (values.len() > 1).then(|| (squares / (n - 1.0) / times_larger).sqrt());
        // A bound that is the sample's own end has a spread, but not one that an interval can be made of.
        let error = error.filter(|_| !matches!(*name, "min" | "max"));
        (*name, Estimate::new(*value, error, values.len()))
    };
    best.parameters.iter().enumerate().map(estimate).collect()
}

impl LawErrors {
    fn new(sampler: &forebay_engine::Sampler, values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let percent = |law: f64, sample: f64| 100.0 * (law / sample - 1.0);
        let quantile = |q: f64| {
            let rank = (q * sorted.len() as f64).ceil() as usize;
            percent(sampler.quantile(q), sorted[rank.clamp(1, sorted.len()) - 1])
        };
        Self {
            mean: percent(sampler.mean(), values.iter().sum::<f64>() / values.len() as f64),
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            distance: distance(sampler, values),
        }
    }

    /// The largest of mean, median and 95th percentile, percent.
    pub fn worst(&self) -> f64 {
        [self.mean, self.p50, self.p95].iter().fold(0.0, |worst, error| worst.max(error.abs()))
    }
}

/// At most so many of some values, evenly taken from all of them.
fn evenly(values: &[f64], most: usize) -> Vec<f64> {
    if values.len() <= most {
        return values.to_vec();
    }
    (0..most).map(|i| values[i * values.len() / most]).collect()
}

/// The quantiles of a sample as a law of its own: what it was, where no family is near.
pub fn quantiles(values: &[f64]) -> Dist {
    const AT: [f64; 13] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 1.0];
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| {
        let rank = (q * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or_default()
    };
    Dist::Empirical { quantiles: AT.map(|q| [q, at(q)]).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::super::coverage::about_95_in_100;
    use super::*;

    const QUICK: Effort = Effort { draws: 60, values: 200 };

    fn drawn(dist: &Dist, n: usize, trial: u64) -> Vec<f64> {
        let sampler = dist.sampler().unwrap();
        let mut stream = Stream::new(21, trial, "families", 0);
        (0..n).map(|_| sampler.at(stream.uniform())).collect()
    }

    #[test]
    fn the_family_that_made_the_values_is_found() {
        let laws = [
            (Dist::exponential(0.3), Family::Exponential),
            (Dist::lognormal_median(0.4, 1.5), Family::Lognormal),
            (Dist::gamma(0.5, 0.4), Family::Gamma),
            (Dist::weibull_shape(3.0, 0.2), Family::Weibull),
            (Dist::Pareto { min: 1.0, max: 100.0, alpha: 1.2 }, Family::Pareto),
            (Dist::hyperexponential(1.0, 4.0), Family::Hyperexponential),
            (Dist::Uniform { min: 0.2, max: 0.7 }, Family::Uniform),
        ];
        for (dist, family) in laws {
            let fit = fit_law(&drawn(&dist, 6000, 1), QUICK).unwrap();
            // A family that holds the true one within it may be a hair ahead.
            let behind = fit.candidates.iter().find(|c| c.0 == family).unwrap().1 - fit.candidates[0].1;
            assert!(behind < 4.0, "{family:?}: {:?}", fit.candidates);
            assert!(fit.p_value > 0.01 && fit.held_out.worst() < 12.0, "{fit:?}");
            assert!(fit.candidates.windows(2).all(|two| two[0].1 <= two[1].1));
        }
    }

    #[test]
    fn a_law_that_is_none_of_them_is_told() {
        let low = drawn(&Dist::gamma(0.1, 0.1), 1000, 2);
        let high = drawn(&Dist::gamma(5.0, 0.1), 1000, 3);
        let mixed: Vec<f64> = low.chunks(2).zip(high.chunks(2)).flat_map(|(a, b)| [a, b].concat()).collect();
        let fit = fit_law(&mixed[..], QUICK).unwrap();
        assert!(fit.p_value < 0.05 && fit.distance > 0.1, "{fit:?}");
    }

    /// A law that is right is held for wrong as seldom as its p-value says, however few values are checked.
    #[test]
    fn right_laws_are_seldom_doubted() {
        about_95_in_100(100, |trial| {
            let values = drawn(&Dist::lognormal_median(0.4, 1.5), 3000, 500 + trial);
            fit_law(&values, Effort { draws: 60, values: 150 }).unwrap().p_value > 0.05
        });
    }

    #[test]
    fn wrong_values_are_refused() {
        assert_eq!(fit_law(&[1.0; 39], QUICK), Err(LawError::TooFew { found: 39 }));
        assert_eq!(fit_law(&[2.0; 50], QUICK), Err(LawError::Constant(2.0)));
        let mut values = drawn(&Dist::exponential(1.0), 100, 4);
        values[6] = 0.0;
        let error = fit_law(&values, QUICK).unwrap_err().to_string();
        assert!(error.contains("above 0"), "{error}");
    }

    #[test]
    fn the_same_values_give_the_same_fit() {
        let values = drawn(&Dist::lognormal(1.0, 0.5), 500, 5);
        assert_eq!(fit_law(&values, QUICK), fit_law(&values, QUICK));
    }

    /// Where the family is known: Akaike's criterion may choose a neighbour, and then there is no truth.
    fn held(dist: &Dist, family: Family, truths: &[(&str, f64)]) {
        let mut chosen = Vec::new();
        for trial in 0..160 {
            let fit = fit_law(&drawn(dist, 400, 100 + trial), QUICK).unwrap();
            if fit.family == family {
                chosen.push(fit);
            }
        }
        assert!(chosen.len() >= 80, "{family:?} was chosen {} times", chosen.len());
        for &(name, truth) in truths {
            about_95_in_100(chosen.len() as u64, |index| {
                let parameters = &chosen[index as usize].parameters;
                let found = parameters.iter().find(|(there, _)| *there == name);
                found.is_some_and(|(_, estimate)| estimate.holds(truth))
            });
        }
    }

    #[test]
    fn intervals_of_a_lognormal_hold_the_truth_95_times_in_100() {
        held(&Dist::lognormal_median(0.4, 1.5), Family::Lognormal, &[("median", 0.4), ("p95", 1.5)]);
    }

    #[test]
    fn intervals_of_a_weibull_hold_the_truth_95_times_in_100() {
        held(&Dist::weibull_shape(3.0, 0.2), Family::Weibull, &[("shape", 3.0), ("scale", 0.2)]);
    }

    #[test]
    fn intervals_of_a_gamma_hold_the_truth_95_times_in_100() {
        held(&Dist::gamma(0.5, 0.6), Family::Gamma, &[("mean", 0.5), ("cv", 0.6)]);
    }

    #[test]
    fn the_quantiles_of_a_sample_are_a_law() {
        let values = drawn(&Dist::exponential(2.0), 2000, 6);
        let sampler = quantiles(&values).sampler().unwrap();
        assert!((sampler.quantile(0.5) / 1.386 - 1.0).abs() < 0.1);
    }
}
