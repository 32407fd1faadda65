//! What fills a GPU's memory: weights, tokens, documents and calls, and the allocator by its signature.
//!
//! ```text
//! in use = base + per_token * tokens + per_document * documents + per_call * calls
//! ```
//!
//! An `exact` allocator shows what is in use. A `caching` one shows the most that was in use since it last
//! gave memory back, so that its curve climbs in steps and stays. A `preallocated` one shows one level. All
//! three are fitted, and the one that explains the recording with the fewest numbers is taken (Schwarz's
//! criterion; every time that a caching allocator must have given back counts as a number).
//!
//! Telemetry comes late, by a delay that is searched with the rest. The recording is cut into twenty
//! stretches: the first, third, … is fitted, the others judge.

mod load;
mod log;

use forebay_model::scenario::Allocator;

use super::robust::{Estimate, Regression, median, regress};
pub use load::Work;
use load::{KINDS, Load};
pub use log::{LOG_COLUMNS, samples_of, works_of, works_of_requests};

/// Fewest samples.
const SAMPLES_MIN: usize = 40;
/// Stretches that are fitted and judged in turn.
const STRETCHES: usize = 20;
/// Samples that the search for the delay looks at.
const SEARCH_MAX: usize = 2000;
/// Delays tried first, s; then the surroundings of the best.
const DELAYS_S: [f64; 10] = [0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0];
const REFINEMENTS: usize = 6;
/// Rounds in which a caching allocator's peaks and the coefficients are found from each other.
const ROUNDS: usize = 12;
/// So many while the delay is searched.
const SEARCH_ROUNDS: usize = 3;
/// A fall of the shown memory beyond this many deviations of its noise…
const FALL_NOISE: f64 = 8.0;
/// … and this share of its range is memory given back.
const FALL_SHARE: f64 = 0.02;

/// What a recording tells.
#[derive(Clone, Debug, PartialEq)]
pub struct VramFit {
    /// The allocator.
    pub allocator: Allocator,
    /// Held whether or not anything runs, bytes: weights, and all else that does not move. Of a
    /// preallocating engine all it took.
    pub base: Estimate,
    /// Per token that running calls hold, bytes.
    pub per_token: Estimate,
    /// Per document of running batches, bytes.
    pub per_document: Estimate,
    /// Per running call, bytes.
    pub per_call: Estimate,
    /// By how much the telemetry is late, s.
    pub delay_s: f64,
    /// Times that a caching allocator gave memory back.
    pub released: usize,
    /// Samples fitted, and samples that judged.
    pub samples: [usize; 2],
    /// Median absolute error on the fitted samples, then on the others, percent of the memory shown.
    pub errors: [f64; 2],
    /// Largest absolute error on the others, percent.
    pub held_out_worst: f64,
    /// Median absolute error on the others, percent of the range that the memory moved in; absent where it
    /// did not move.
    pub of_movement: Option<f64>,
    /// Largest tokens, documents and calls at once.
    pub most: [f64; KINDS],
    /// Criterion of each allocator that was tried; the smallest was taken.
    pub criteria: Vec<(Allocator, f64)>,
}

/// A recording that nothing can be fitted to.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VramError {
    /// Too few samples.
    #[error("{found} samples of used memory within the logged time: at least {SAMPLES_MIN} are needed")]
    TooFew {
        /// How many there are.
        found: usize,
    },
    /// The log has nothing in it that could hold memory.
    #[error("the log has no calls or batches: nothing to fit the memory to")]
    NoWork,
    /// No solution.
    #[error("no solution: the load does not vary in the fitted stretches")]
    None,
}

/// Fits one device: `samples` of its used memory (s, bytes) by rising time, and what ran on it, on the same
/// clock.
///
/// # Errors
/// Too few samples, or no work.
pub fn fit_vram(samples: &[(f64, f64)], works: &[Work]) -> Result<VramFit, VramError> {
    let samples: Vec<(f64, f64)> = samples
        .iter()
        .copied()
        .filter(|(t, bytes)| t.is_finite() && bytes.is_finite() && *bytes > 0.0)
        .collect();
    if samples.len() < SAMPLES_MIN {
        return Err(VramError::TooFew { found: samples.len() });
    }
    if works.is_empty() {
        return Err(VramError::NoWork);
    }
    let load = Load::new(works);
    let falls = falls(&samples);
    let search = Recording::new(&thinned(&samples), &falls);
    let whole = Recording::new(&samples, &falls);
    let tried = [Allocator::Preallocated, Allocator::Exact, Allocator::Caching]
        .map(|allocator| whole.best(&search, allocator, &load));
    let tried: Vec<Tried> = tried.into_iter().flatten().collect();
    let criteria: Vec<(Allocator, f64)> =
        tried.iter().map(|tried| (tried.allocator, tried.criterion)).collect();
    let best = tried.into_iter().min_by(|a, b| a.criterion.total_cmp(&b.criterion));
    Ok(whole.judge(best.ok_or(VramError::None)?, &load, criteria))
}

fn thinned(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let every = samples.len().div_ceil(SEARCH_MAX);
    samples.iter().copied().step_by(every).collect()
}

/// When the shown memory fell by more than noise, s: the end of each fall.
fn falls(samples: &[(f64, f64)]) -> Vec<f64> {
    let steps: Vec<f64> = samples.windows(2).map(|two| two[1].1 - two[0].1).collect();
    let noise = 1.4826 * median(steps.iter().map(|step| step.abs()).collect()) / std::f64::consts::SQRT_2;
    let most = samples.iter().map(|sample| sample.1).fold(0.0, f64::max);
    let least = samples.iter().map(|sample| sample.1).fold(f64::INFINITY, f64::min);
    let enough = (FALL_NOISE * noise).max(FALL_SHARE * (most - least));
    let falls = steps.iter().zip(&samples[1..]).filter(|(step, _)| -**step > enough);
    falls.map(|(_, sample)| sample.0).collect()
}

struct Recording<'a> {
    samples: Vec<(f64, f64)>,
    falls: &'a [f64],
}

struct Tried {
    allocator: Allocator,
    delay_s: f64,
    regression: Regression,
    criterion: f64,
}

impl<'a> Recording<'a> {
    fn new(samples: &[(f64, f64)], falls: &'a [f64]) -> Self {
        Self { samples: samples.to_vec(), falls }
    }

    fn is_fitted(&self, index: usize) -> bool {
        (index * STRETCHES / self.samples.len()).is_multiple_of(2)
    }

    /// The delay is searched on `search`, the rest is fitted on this recording.
    fn best(&self, search: &Self, allocator: Allocator, load: &Load) -> Option<Tried> {
        if allocator == Allocator::Preallocated {
            return self.attempt(allocator, load, 0.0, 1);
        }
        let at = |delay_s: f64| {
            let criterion =
                search.attempt(allocator, load, delay_s, SEARCH_ROUNDS).map(|tried| tried.criterion);
            (criterion.unwrap_or(f64::INFINITY), delay_s)
        };
        let least = |a: (f64, f64), b: (f64, f64)| if b.0 < a.0 { b } else { a };
        let mut best = DELAYS_S.iter().map(|delay_s| at(*delay_s)).reduce(least)?;
        let mut step = (best.1 * 0.25).max(0.025);
        for _ in 0..REFINEMENTS {
            best = [best.1 - step, best.1 + step]
                .map(|delay_s| at(delay_s.max(0.0)))
                .into_iter()
                .fold(best, least);
            step *= 0.5;
        }
        self.attempt(allocator, load, best.1, ROUNDS)
    }

    fn attempt(&self, allocator: Allocator, load: &Load, delay_s: f64, rounds: usize) -> Option<Tried> {
        let mut regression = None;
        for _ in 0..rounds {
            let before = regression.as_ref().map(coefficients);
            let next = self.regress(&self.loads(allocator, load, delay_s, before))?;
            let moved = before.is_none_or(|before| {
                coefficients(&next).iter().zip(before).any(|(a, b)| (a - b).abs() > 1e-6 * b.abs())
            });
            regression = Some(next);
            if allocator != Allocator::Caching || !moved {
                break;
            }
        }
        let regression = regression?;
        let loads = self.loads(allocator, load, delay_s, Some(coefficients(&regression)));
        let mut sizes = Vec::new();
        for (index, row) in loads.iter().enumerate().filter(|(index, _)| self.is_fitted(*index)) {
            sizes.push((regression.at(row) - self.samples[index].1).abs());
        }
        let n = sizes.len() as f64;
        // No recording is finer than a page of 4 KiB.
        let mean = (sizes.iter().sum::<f64>() / n).max(4096.0);
        let numbers = match allocator {
            Allocator::Preallocated => 1,
            Allocator::Exact => 2 + KINDS,
            Allocator::Caching => 2 + KINDS + self.falls.len(),
        };
        let criterion = 2.0 * n * libm::log(mean) + numbers as f64 * libm::log(n);
        Some(Tried { allocator, delay_s, regression, criterion })
    }

    /// What the memory shown at each sample goes back to, with a 1 for the base before it.
    fn loads(
        &self,
        allocator: Allocator,
        load: &Load,
        delay_s: f64,
        coefficients: Option<[f64; KINDS]>,
    ) -> Vec<Vec<f64>> {
        let times = || self.samples.iter().map(|(t, _)| t - delay_s);
        let loads: Vec<[f64; KINDS]> = match (allocator, coefficients) {
            (Allocator::Preallocated, _) => vec![[0.0; KINDS]; self.samples.len()],
            (Allocator::Caching, Some(coefficients)) => {
                let releases: Vec<f64> = self.falls.iter().map(|fall| fall - delay_s).collect();
                load.peaks(times(), &releases, coefficients)
            }
            // The first round of a caching allocator takes each kind's own peak.
            (Allocator::Caching, None) => {
                let releases: Vec<f64> = self.falls.iter().map(|fall| fall - delay_s).collect();
                let most = load.most();
                load.peaks(times(), &releases, most.map(|most| if most > 0.0 { 1.0 / most } else { 0.0 }))
            }
            (Allocator::Exact, _) => load.at(times()),
        };
        loads.iter().map(|load| std::iter::once(1.0).chain(load.iter().copied()).collect()).collect()
    }

    fn regress(&self, loads: &[Vec<f64>]) -> Option<Regression> {
        let chosen: Vec<usize> = (0..loads.len()).filter(|index| self.is_fitted(*index)).collect();
        let basis: Vec<Vec<f64>> = chosen.iter().map(|&index| loads[index].clone()).collect();
        let values: Vec<f64> = chosen.iter().map(|&index| self.samples[index].1).collect();
        let scale = median(values.clone());
        regress(&basis, &values, &vec![scale; values.len()])
    }

    fn judge(&self, best: Tried, load: &Load, criteria: Vec<(Allocator, f64)>) -> VramFit {
        let Tried { allocator, delay_s, regression, .. } = best;
        let loads = self.loads(allocator, load, delay_s, Some(coefficients(&regression)));
        let mut off: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
        let mut residuals = Vec::new();
        let mut absolute = Vec::new();
        for (index, (row, (_, bytes))) in loads.iter().zip(&self.samples).enumerate() {
            let residual = regression.at(row) - bytes;
            let part = usize::from(!self.is_fitted(index));
            off[part].push(100.0 * (residual / bytes).abs());
            if part == 0 {
                residuals.push(residual);
            } else {
                absolute.push(residual.abs());
            }
        }
        let most = self.samples.iter().map(|sample| sample.1).fold(0.0, f64::max);
        let least = self.samples.iter().map(|sample| sample.1).fold(f64::INFINITY, f64::min);
        let moved = allocator != Allocator::Preallocated && most > least;
        let wider = dependence(&residuals);
        let estimate = |index: usize| {
            let found = regression.coefficients[index];
            let error = found.standard_error.filter(|error| *error > 0.0).map(|error| error * wider);
            let freedom = (regression.freedom as f64 / (wider * wider)) as usize;
            Estimate::new(found.value, error, freedom.max(1))
        };
        VramFit {
            allocator,
            base: estimate(0),
            per_token: estimate(1),
            per_document: estimate(2),
            per_call: estimate(3),
            delay_s,
            released: if allocator == Allocator::Caching { self.falls.len() } else { 0 },
            samples: [off[0].len(), off[1].len()],
            held_out_worst: off[1].iter().copied().fold(0.0, f64::max),
            errors: off.map(median),
            of_movement: moved.then(|| 100.0 * median(absolute) / (most - least)),
            most: load.most(),
            criteria,
        }
    }
}

fn coefficients(regression: &Regression) -> [f64; KINDS] {
    std::array::from_fn(|kind| regression.coefficients[kind + 1].value)
}

/// By how much standard errors are wider because neighbouring residuals are alike.
fn dependence(residuals: &[f64]) -> f64 {
    let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
    let products: f64 = residuals.windows(2).map(|two| two[0] * two[1]).sum();
    let alike = if squares > 0.0 { (products / squares).clamp(0.0, 0.98) } else { 0.0 };
    ((1.0 + alike) / (1.0 - alike)).sqrt()
}

#[cfg(test)]
mod tests;
