//! The cost of an iteration, from the latencies of a logged run and nothing else.
//!
//! The whole run is replayed (arrivals are inputs), only the latencies of its first part enter the loss,
//! and the rest judges. The loss is built for what the calibration is for, means and tails of latency
//! under load:
//! - per request, the absolute deviations of first token, last token and time per token, the first two
//!   as a share of the mean latency. Absolute and not squared: near saturation a request that misses a
//!   wave of admissions is off by seconds, and a square would fit that one;
//! - in all, the bias of each, so that the means are right;
//! - both averaged over runs with slightly other coefficients: near saturation one coefficient's last
//!   digit decides who is preempted, and a fit must not live on such luck.
//!
//! Rejected: regressing iteration lengths on measured layer times alone (`profile/` of the measured
//! runs): they leave out what runs between layers, and on one of the two runs are 20 % off.

use forebay_model::llm::batching::{BatchingConfig, IterationCost};

use super::observed::{LogError, ObservedRequest};
use super::replay::{LatencyErrors, deviations, replay};
use super::solver::minimise;

/// Fewest requests on either side of the split.
const REQUESTS_MIN: usize = 20;
/// Weight of the bias against the deviations.
const BIAS_WEIGHT: f64 = 2.0;
/// Relative change of the constant part, and opposite of the prefill part, in the runs averaged over.
const JITTERS: [f64; 5] = [-0.004, -0.002, 0.0, 0.002, 0.004];
/// Edges of the solver's simplexes, in logarithms of the coefficients.
const SPANS: [f64; 8] = [0.5, -0.4, 0.3, -0.2, 0.2, -0.15, 0.1, -0.05];
/// Iterations of each.
const ITERATIONS: u64 = 250;
/// Points that the minimiser starts from, and how far the further ones lie from the first on an axis.
const STARTS: usize = 4;
const START_SPREAD: f64 = 0.25;
/// Least delay of the first iterations that the fit starts from, s.
const START_DELAY_MIN_S: f64 = 0.01;

/// A fitted iteration cost.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationFit {
    /// The coefficients.
    pub cost: IterationCost,
    /// Share of prompt tokens that the run found in the prefix cache: a property of its prompts. 0 if not
    /// fitted.
    pub prefix_hit_share: f64,
    /// By how much the server was late on its very first iterations, s: a property of the logged run.
    pub start_delay_s: f64,
    /// Requests, by arrival, that the fit saw.
    pub fitted_on: usize,
    /// What the minimiser reached, to compare fits of one log from different starts.
    pub loss: f64,
    /// Errors on these, of the run with the start delay.
    pub fitted: LatencyErrors,
    /// Errors on the others.
    pub held_out: LatencyErrors,
}

/// A fit that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// The log is too short.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The settings to start from are not valid.
    #[error("settings to start from: {0}")]
    Settings(#[from] forebay_model::llm::batching::BatchingError),
    /// The minimiser gave up.
    #[error("minimiser: {0}")]
    Solver(String),
}

/// Fits the iteration cost of an engine to the first `fitted_on` requests of a log.
///
/// `start` holds the engine's settings, which are not fitted, and the coefficients (and the share of
/// prefix hits) to start from: those that are 0 stay 0, so that it also chooses the form of the cost.
/// Takes seconds.
///
/// # Errors
/// Fewer than 20 requests on either side of the split, or settings outside their ranges.
pub fn fit_batching(
    log: &[ObservedRequest],
    start: &BatchingConfig,
    fitted_on: usize,
) -> Result<IterationFit, FitError> {
    if fitted_on < REQUESTS_MIN || log.len() < fitted_on + REQUESTS_MIN {
        let needed = fitted_on.max(REQUESTS_MIN) + REQUESTS_MIN;
        return Err(LogError::TooFew { found: log.len(), needed }.into());
    }
    start.check()?;
    let seen = &log[..fitted_on];
    // The first request meets an idle engine: what it waits beyond its own prefill is the delay, roughly.
    let alone = replay(&seen[..1], start, 0.0)?;
    let excess_s = seen[0].first_token_s - alone[0].first_token_s;
    let form = Form::new(start, excess_s.max(START_DELAY_MIN_S));
    let loss = |point: &[f64]| {
        let (config, delay_s) = form.at(point);
        loss(log, seen, &config, delay_s).unwrap_or(f64::NAN)
    };
    let mut best = (Vec::new(), f64::INFINITY);
    for nth in 0..STARTS {
        let reached = minimise(&loss, &start_point(nth, form.fitted.len() + 1), &SPANS, ITERATIONS);
        let reached = reached.map_err(FitError::Solver)?;
        if reached.1 < best.1 {
            best = reached;
        }
    }
    let (point, reached) = best;
    let (config, start_delay_s) = form.rounded_at(&point);
    let replayed = replay(log, &config, start_delay_s)?;
    Ok(IterationFit {
        cost: config.cost,
        prefix_hit_share: config.prefix_hit_share,
        start_delay_s,
        fitted_on,
        loss: reached,
        fitted: LatencyErrors::new(seen, &replayed[..fitted_on]),
        held_out: LatencyErrors::new(&log[fitted_on..], &replayed[fitted_on..]),
    })
}

/// The first start is the caller's; the others lie around it, each axis below, on or above in turn.
fn start_point(nth: usize, axes: usize) -> Vec<f64> {
    let side = |axis: usize| if nth == 0 { 0.0 } else { ((axis * nth + nth + axis / 2) % 3) as f64 - 1.0 };
    (0..axes).map(|axis| START_SPREAD * side(axis)).collect()
}

/// Mean loss over the jittered runs; none if a setting is outside its range.
fn loss(
    log: &[ObservedRequest],
    seen: &[ObservedRequest],
    config: &BatchingConfig,
    delay_s: f64,
) -> Option<f64> {
    let n = seen.len() as f64;
    let latency = seen.iter().map(ObservedRequest::latency_s).sum::<f64>() / n;
    let tpot = seen.iter().map(ObservedRequest::tpot_s).sum::<f64>() / n;
    let scale = [latency, latency, tpot].map(|scale| 1.0 / (scale * n * JITTERS.len() as f64));
    let (mut spread, mut bias) = (0.0, [0.0; 3]);
    for jitter in JITTERS {
        let mut config = config.clone();
        config.cost.c0_s *= 1.0 + jitter;
        config.cost.per_prefill_token_s *= 1.0 - jitter;
        let replayed = replay(log, &config, delay_s).ok()?;
        for (observed, replayed) in seen.iter().zip(&replayed) {
            for (part, deviation) in deviations(observed, replayed).into_iter().enumerate() {
                spread += deviation.abs() * scale[part];
                bias[part] += deviation * scale[part];
            }
        }
    }
    Some(spread + BIAS_WEIGHT * bias.into_iter().map(f64::abs).sum::<f64>())
}

/// A fitted number among the settings.
type Fitted = fn(&mut BatchingConfig) -> &mut f64;

/// Which numbers are fitted, as logarithms of their ratio to where they start.
struct Form {
    start: BatchingConfig,
    start_delay_s: f64,
    fitted: Vec<Fitted>,
}

impl Form {
    fn new(start: &BatchingConfig, start_delay_s: f64) -> Self {
        let all: [Fitted; 7] = [
            |config| &mut config.cost.c0_s,
            |config| &mut config.cost.per_prefill_token_s,
            |config| &mut config.cost.per_prefill_context_s,
            |config| &mut config.cost.per_decode_sequence_s,
            |config| &mut config.cost.per_resident_token_s,
            |config| &mut config.cost.per_resident_token_mixed_s,
            |config| &mut config.prefix_hit_share,
        ];
        let mut copy = start.clone();
        let fitted = all.into_iter().filter(|field| *field(&mut copy) > 0.0).collect();
        Self { start: start.clone(), start_delay_s, fitted }
    }

    /// The settings at a point, and the start delay, which is its last coordinate.
    fn at(&self, point: &[f64]) -> (BatchingConfig, f64) {
        let mut config = self.start.clone();
        for (field, log_ratio) in self.fitted.iter().zip(point) {
            *field(&mut config) *= libm::exp(*log_ratio);
        }
        let delay = point.last().map_or(0.0, |log_ratio| self.start_delay_s * libm::exp(*log_ratio));
        (config, delay)
    }

    /// The same in four digits: more than a fit knows, and what a calibration file holds, so that the errors
    /// reported are those of the numbers as written.
    fn rounded_at(&self, point: &[f64]) -> (BatchingConfig, f64) {
        let (mut config, delay) = self.at(point);
        for field in &self.fitted {
            let value = field(&mut config);
            *value = round_to(*value, 4);
        }
        (config, round_to(delay, 4))
    }
}

/// Rounds to significant digits, through text: exactly what would be read back.
fn round_to(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits - 1).parse().expect("a number printed by Rust reads back")
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::llm::batching::QueueOrder;

    fn settings(cost: IterationCost) -> BatchingConfig {
        BatchingConfig {
            cost,
            max_seqs: 16,
            max_batched_tokens: 512,
            kv_blocks: 700,
            block_tokens: 16,
            prefix_hit_share: 0.0,
            queue: QueueOrder::Arrival,
            async_scheduling: true,
            reserve_full_prompt: true,
            resume_from_cache: true,
        }
    }

    /// A made-up run of an engine whose cost is known.
    fn made_up(config: &BatchingConfig) -> Vec<ObservedRequest> {
        let bare = |i: u32| ObservedRequest {
            tokens_in: 100 + i * 37 % 900,
            tokens_out: 20 + i * 53 % 150,
            arrival_s: f64::from(i) * 0.12,
            first_token_s: 0.0,
            last_token_s: 0.0,
        };
        let requests: Vec<_> = (0..120).map(bare).collect();
        let replayed = replay(&requests, config, 0.3).unwrap();
        requests.iter().zip(&replayed).map(|(o, r)| r.in_place_of(o)).collect()
    }

    #[test]
    fn finds_a_cost_that_it_does_not_know() {
        let truth = IterationCost {
            c0_s: 0.012,
            per_prefill_token_s: 6e-5,
            per_decode_sequence_s: 1.2e-4,
            per_resident_token_s: 1e-7,
            ..IterationCost::default()
        };
        let start = IterationCost {
            c0_s: 0.015,
            per_prefill_token_s: 4e-5,
            per_decode_sequence_s: 1e-4,
            per_resident_token_s: 1.5e-7,
            ..IterationCost::default()
        };
        let log = made_up(&settings(truth));
        let fit = fit_batching(&log, &settings(start.clone()), 60).unwrap();
        assert!(fit.fitted.worst() < 2.0 && fit.held_out.worst() < 2.0, "{fit:?}");
        assert_eq!(fit.cost.per_prefill_context_s, 0.0, "a coefficient that starts at 0 stays there");
        let short = || fit_batching(&log[..45], &settings(start.clone()), 22).unwrap();
        assert_eq!(short(), short(), "the same fit again");
    }

    #[test]
    fn refuses_a_log_without_a_part_to_judge_by() {
        let cost = IterationCost { c0_s: 0.01, ..IterationCost::default() };
        let log = made_up(&settings(cost.clone()));
        assert!(fit_batching(&log, &settings(cost.clone()), 110).is_err());
        assert!(fit_batching(&log[..30], &settings(cost), 10).is_err());
    }
}
