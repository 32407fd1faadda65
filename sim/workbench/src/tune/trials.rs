//! Trials: one value of the parameter in one replication. All pairs of a batch run in parallel, and are
//! recorded in the order of value and replication.

use super::{Plan, TuneError};
use crate::inputs::Opened;
use crate::run::{Progress, replicate};
use crate::summary::fold;
use crate::workers::Workers;
use forebay_model::scenario::objective::METRICS;
use forebay_model::{Digest, Replication};
use serde::{Deserialize, Serialize};

/// Number of the first replication of the held-out crowds: far beyond those of any search.
pub(super) const FIRST_HELD_OUT: u64 = 1_000_000;

/// What a trial was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The swept curve.
    Sweep,
    /// A point added where it matters.
    Refine,
    /// The comparison on crowds that the search has not seen.
    HeldOut,
}

impl Phase {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Refine => "refine",
            Self::HeldOut => "held_out",
        }
    }
}

/// One value of the parameter in one replication.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// What it was for.
    pub phase: Phase,
    /// The parameter's value; absent: as the scenario stands.
    pub value: Option<f64>,
    /// The replication.
    pub replication: u64,
    /// Metrics, in the order of [`METRICS`].
    pub metrics: Vec<Option<f64>>,
    /// Hash over its outcomes.
    pub digest: Digest,
    /// Why there is no value to judge: the setting was refused, the run ended early, or a metric is missing.
    pub reason: Option<String>,
    /// The objective; anything where there is a reason.
    pub(super) objective: f64,
    /// The constraints' metrics, in their order.
    pub(super) constraints: Vec<f64>,
}

/// Runs trials and keeps them.
pub(super) struct Evaluator<'a> {
    opened: &'a Opened,
    plan: &'a Plan,
    workers: &'a Workers,
    progress: Progress<'a>,
    trials: Vec<Trial>,
    /// Why the first point that could not be evaluated could not.
    failure: Option<TuneError>,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        opened: &'a Opened,
        plan: &'a Plan,
        workers: &'a Workers,
        progress: Progress<'a>,
    ) -> Self {
        Self { opened, plan, workers, progress, trials: Vec::new(), failure: None }
    }

    pub(super) fn plan(&self) -> &'a Plan {
        self.plan
    }

    pub(super) fn trials(&self) -> &[Trial] {
        &self.trials
    }

    pub(super) fn into_trials(self) -> Vec<Trial> {
        self.trials
    }

    /// Points that refining has added.
    pub(super) fn added(&self) -> u32 {
        let refined = self.trials.iter().filter(|trial| trial.phase == Phase::Refine).count();
        (refined / self.plan.replications as usize) as u32
    }

    /// The first failure, where no trial at all has a value.
    pub(super) fn hopeless(&mut self) -> Option<TuneError> {
        if self.trials.iter().any(|trial| trial.reason.is_none()) { None } else { self.failure.take() }
    }

    /// Whether every value had the same outcomes in all its replications: there is one crowd only.
    pub(super) fn nothing_random(&self) -> bool {
        let alike = |a: &Trial, b: &Trial| a.phase == b.phase && a.value == b.value;
        self.plan.replications >= 2
            && self.trials.chunk_by(alike).all(|point| point.iter().all(|t| t.digest == point[0].digest))
    }

    /// Hash over all outcomes in the order of the trials.
    pub(super) fn digest(&self) -> Digest {
        let mut digest = Digest::EMPTY;
        for trial in &self.trials {
            fold(&mut digest, trial.digest);
        }
        digest
    }

    /// Evaluates values on the crowds of the search.
    pub(super) fn evaluate(&mut self, values: &[f64], phase: Phase) -> Result<(), TuneError> {
        let values: Vec<_> = values.iter().copied().map(Some).collect();
        self.run(&values, phase, 0, self.plan.replications)
    }

    /// Evaluates values on crowds that the search has not seen; `None` is the scenario as it stands.
    pub(super) fn hold_out(&mut self, values: &[Option<f64>]) -> Result<(), TuneError> {
        self.run(values, Phase::HeldOut, FIRST_HELD_OUT, self.plan.held_out)
    }

    fn run(
        &mut self,
        values: &[Option<f64>],
        phase: Phase,
        first: u64,
        replications: u32,
    ) -> Result<(), TuneError> {
        let plan = self.plan;
        let refused = |value: f64| {
            move |cause| TuneError::Value { parameter: plan.parameter.clone(), value, cause: Box::new(cause) }
        };
        let variants: Vec<Result<Opened, TuneError>> = values
            .iter()
            .map(|value| match value {
                None => Ok(self.opened.clone()),
                Some(value) => self.opened.with(&plan.settings(*value)).map_err(refused(*value)),
            })
            .collect();
        let replications = replications as usize;
        let done = self.trials.len();
        let trials = &mut self.trials;
        let failure = &mut self.failure;
        let work = |pair: usize| {
            let (index, replication) = (pair / replications, first + (pair % replications) as u64);
            let what = (phase, values[index], replication);
            let shown = values[index].or(plan.current).unwrap_or(f64::NAN);
            let failed = |cause| TuneError::Run { parameter: plan.parameter.clone(), value: shown, cause };
            let opened = match &variants[index] {
                Ok(opened) => opened,
                // Told once, with all that is wrong, where no point at all can be evaluated.
                Err(error) => return Ok((without(plan, what, error.reason()), None)),
            };
            match replicate(&opened.loaded, plan.seed, replication).map_err(failed) {
                Ok(replication) => Ok(trial(plan, what, &replication)),
                Err(error) if error.is_internal() => Err(error),
                Err(error) => Ok((without(plan, what, error.reason()), Some(error))),
            }
        };
        self.workers.in_order(values.len() * replications, work, |pair, (trial, error)| {
            trials.push(trial);
            *failure = failure.take().or(error);
            (self.progress)(done + pair + 1, plan.budget());
        })?;
        let refusal = variants.into_iter().find_map(Result::err);
        self.failure = self.failure.take().or(refusal);
        Ok(())
    }
}

type What = (Phase, Option<f64>, u64);

/// A trial without a value.
fn without(plan: &Plan, (phase, value, replication): What, reason: String) -> Trial {
    Trial {
        phase,
        value,
        replication,
        metrics: vec![None; METRICS.len()],
        digest: Digest::EMPTY,
        reason: Some(reason),
        objective: f64::NAN,
        constraints: vec![f64::NAN; plan.constraints.len()],
    }
}

/// What a replication gave, and the failure where a metric that is needed is missing.
fn trial(plan: &Plan, what: What, replication: &Replication) -> (Trial, Option<TuneError>) {
    let (_, value, number) = what;
    let get = |name: &str| replication.metrics.get(name).and_then(|metric| metric.value);
    let needed = || {
        std::iter::once(&plan.goal.metric).chain(plan.constraints.iter().map(|constraint| &constraint.metric))
    };
    let missing = needed().find(|name| get(name).is_none()).map(|name| TuneError::NoValue {
        parameter: plan.parameter.clone(),
        value: value.or(plan.current).unwrap_or(f64::NAN),
        replication: number,
        metric: name.clone(),
        reason: replication
            .metrics
            .get(name)
            .and_then(|metric| metric.reason.clone())
            .unwrap_or_else(|| "no run reports it".to_owned()),
    });
    let value_of = |name: &str| get(name).unwrap_or(f64::NAN);
    let trial = Trial {
        metrics: METRICS.iter().map(|name| get(name)).collect(),
        digest: replication.digest,
        reason: missing.as_ref().map(TuneError::reason),
        objective: value_of(&plan.goal.metric),
        constraints: plan.constraints.iter().map(|c| value_of(&c.metric)).collect(),
        ..without(plan, what, String::new())
    };
    (trial, missing)
}
