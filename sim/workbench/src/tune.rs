//! The best value of one parameter for one objective within constraints, and how sure that is.
//!
//! 1. **Sweep**: the parameter's range in equal steps. Every point faces the same crowds (the same seed and
//!    replications), so that the curve's differences are the parameter's alone.
//! 2. **Refine** with argmin: where a constraint binds, Brent's root finder on the mean violation, which
//!    on common random numbers is a deterministic function of the parameter; else Brent's minimiser on
//!    the objective beside the best swept point.
//! 3. **Interval** of the cutoff by a bootstrap over the replications. At a constraint the recommended value
//!    is the interval's safe end, so that the constraint also holds for other crowds; at an optimum it
//!    is the vertex of a parabola through the points around it, never the luckiest observation.
//! 4. **Held-out crowds**: the recommended value against the present one, in pairs. Where the gain's
//!    interval spans zero and the present value keeps the constraints, no change is recommended.
//!
//! The result depends on the scenario, the seed and the budget alone, not on the threads. Optimising on the
//! best observation was rejected: among thirty noisy points the best one is most of all a lucky one.

mod curve;
mod judge;
mod plan;
mod record;
mod refine;
mod trials;

pub use curve::{Cutoff, CutoffKind};
pub use judge::{Decision, HeldOut, Side};
pub use plan::{Goal, Overrides, Plan};
pub use record::{RecordError, write};
pub use trials::{Phase, Trial};

use crate::VERSION;
use crate::clock::Stopwatch;
use crate::inputs::{OpenError, Opened};
use crate::run::{Progress, RunFailure};
use crate::summary::ScenarioId;
use crate::workers::Workers;
use curve::Curve;
use forebay_engine::Interval;
use serde::{Deserialize, Serialize};
use trials::Evaluator;

/// A mean with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over the replications.
    pub mean: f64,
    /// 95 % interval of the mean; absent with one replication.
    pub ci95: Option<[f64; 2]>,
}

impl From<Interval> for Estimate {
    fn from(interval: Interval) -> Self {
        let ci95 = (interval.n >= 2).then_some([interval.lo, interval.hi]);
        Self { mean: interval.mean, ci95 }
    }
}

impl Estimate {
    /// Without its interval where all crowds are one.
    pub(crate) fn of(interval: Interval, one_crowd: bool) -> Self {
        let estimate = Self::from(interval);
        if one_crowd { Self { ci95: None, ..estimate } } else { estimate }
    }

    /// Half of the interval's width.
    pub fn half_width(&self) -> Option<f64> {
        self.ci95.map(|[lo, hi]| 0.5 * (hi - lo))
    }
}

/// A point of the curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// The parameter's value.
    pub value: f64,
    /// Whether it was swept or added to refine.
    pub phase: Phase,
    /// The objective; absent where the point could not be evaluated.
    pub objective: Option<Estimate>,
    /// The constraints' metrics, in their order; absent likewise.
    pub constraints: Vec<Option<Estimate>>,
    /// The means keep all constraints.
    pub feasible: bool,
    /// Why the point could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// What tuning found: `evidence.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Version of the program.
    pub forebay: String,
    /// The scenario.
    pub scenario: ScenarioId,
    /// Seed of all random streams.
    pub seed: u64,
    /// Replications of every point.
    pub replications: u32,
    /// Path of the parameter.
    pub parameter: String,
    /// Its unit.
    pub unit: Option<String>,
    /// Its value in the scenario; absent when it is not set there.
    pub current: Option<f64>,
    /// The objective.
    pub goal: Goal,
    /// The constraints.
    pub constraints: Vec<String>,
    /// All points, by value.
    pub curve: Vec<CurvePoint>,
    /// Where the best value lies; absent when no point keeps the constraints.
    pub cutoff: Option<Cutoff>,
    /// The value to set.
    pub recommended: Option<f64>,
    /// Recommended and present value on crowds that the search has not seen.
    pub held_out: Option<HeldOut>,
    /// The nearest swept value that breaks a constraint by more than half its limit.
    pub cliff: Option<f64>,
    /// What to do.
    pub decision: Decision,
    /// The same in words, one sentence each.
    pub verdict: Vec<String>,
    /// Replications that were simulated.
    pub simulations: usize,
    /// Hash over the outcomes of all of them in order.
    pub digest: String,
    /// Time it took, seconds.
    pub wall_s: f64,
    /// Every replication of every point; in `trials.parquet`.
    #[serde(skip)]
    pub trials: Vec<Trial>,
}

/// Why a scenario could not be tuned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Input(String),
    /// The parameter cannot have one of the values.
    #[error("with {parameter} = {value}:\n{cause}")]
    Value {
        /// The parameter.
        parameter: String,
        /// The value.
        value: f64,
        /// What is wrong.
        #[source]
        cause: Box<OpenError>,
    },
    /// A replication failed.
    #[error("with {parameter} = {value}: {cause}")]
    Run {
        /// The parameter.
        parameter: String,
        /// The value.
        value: f64,
        /// Why.
        #[source]
        cause: RunFailure,
    },
    /// A point has no value of a metric that is needed.
    #[error("with {parameter} = {value}, replication {replication}: there is no `{metric}`: {reason}")]
    NoValue {
        /// The parameter.
        parameter: String,
        /// The value.
        value: f64,
        /// The replication.
        replication: u64,
        /// The metric.
        metric: String,
        /// Why there is none.
        reason: String,
    },
    /// The solver refused.
    #[error("the solver stopped: {0}")]
    Solver(String),
}

impl TuneError {
    /// Whether the program is at fault, not what it was asked.
    pub fn is_internal(&self) -> bool {
        match self {
            Self::Run { cause, .. } => cause.is_internal(),
            Self::Solver(_) => true,
            _ => false,
        }
    }

    /// Why a point cannot be evaluated, without saying again which one it is; in one line.
    pub(crate) fn reason(&self) -> String {
        let text = match self {
            Self::Value { cause, .. } => cause.to_string(),
            Self::Run { cause, .. } => cause.to_string(),
            Self::NoValue { metric, replication, reason, .. } => {
                format!("no `{metric}` in replication {replication}: {reason}")
            }
            other => other.to_string(),
        };
        text.lines().next().unwrap_or_default().to_owned()
    }
}

/// Tunes a scenario by a plan.
///
/// # Errors
/// No value of the range can be evaluated, or the program is at fault: see [`TuneError`]. A single value that
/// the scenario refuses, or at which a metric is missing, is a point that keeps no constraint.
pub fn tune(
    opened: &Opened,
    plan: &Plan,
    workers: &Workers,
    progress: Progress<'_>,
) -> Result<Tuning, TuneError> {
    let watch = Stopwatch::start();
    let mut evaluator = Evaluator::new(opened, plan, workers, progress);
    evaluator.evaluate(&plan.sweep(), Phase::Sweep)?;
    if let Some(failure) = evaluator.hopeless() {
        return Err(failure);
    }
    refine::refine(&mut evaluator)?;
    let one_crowd = evaluator.nothing_random();
    let curve = Curve::of(plan, evaluator.trials());
    let cutoff = curve.cutoff();
    let recommended = cutoff.as_ref().map(|cutoff| cutoff.recommended);
    let held_out = match recommended {
        Some(value) => Some(judge::held_out(&mut evaluator, value, one_crowd)?),
        None => None,
    };
    let cliff = recommended.and_then(|value| curve.cliff(value));
    let (decision, verdict) =
        judge::verdict(plan, &curve, cutoff.as_ref(), held_out.as_ref(), cliff, one_crowd);
    let loaded = &opened.loaded;
    Ok(Tuning {
        forebay: VERSION.to_owned(),
        scenario: ScenarioId::of(loaded),
        seed: plan.seed,
        replications: plan.replications,
        parameter: plan.parameter.clone(),
        unit: plan.unit.clone(),
        current: plan.current,
        goal: plan.goal.clone(),
        constraints: plan.constraints.iter().map(ToString::to_string).collect(),
        curve: curve.points(one_crowd),
        cutoff,
        recommended,
        held_out,
        cliff,
        decision,
        verdict,
        simulations: evaluator.trials().len(),
        digest: evaluator.digest().hex(),
        wall_s: watch.elapsed_s(),
        trials: evaluator.into_trials(),
    })
}

#[cfg(test)]
mod tests;
