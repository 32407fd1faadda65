//! Trials: one value of the parameter in one replication. All pairs of a batch run in parallel, and are
//! recorded in the order of value and replication.

use super::{Plan, TuneError};
use crate::inputs::Opened;
use crate::run::{Progress, replicate};
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
    /// The objective.
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
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(
        opened: &'a Opened,
        plan: &'a Plan,
        workers: &'a Workers,
        progress: Progress<'a>,
    ) -> Self {
        Self { opened, plan, workers, progress, trials: Vec::new() }
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

    /// Hash over all outcomes in the order of the trials.
    pub(super) fn digest(&self) -> Digest {
        let mut digest = Digest::EMPTY;
        for trial in &self.trials {
            let Digest(word) = trial.digest;
            digest.fold(word as u64);
            digest.fold((word >> 64) as u64);
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
        let mut variants = Vec::new();
        for &value in values {
            variants.push(match value {
                None => self.opened.clone(),
                Some(value) => self.opened.with(&plan.settings(value)).map_err(|cause| TuneError::Value {
                    parameter: plan.parameter.clone(),
                    value,
                    cause: Box::new(cause),
                })?,
            });
        }
        let replications = replications as usize;
        let done = self.trials.len();
        let trials = &mut self.trials;
        let work = |pair: usize| {
            let (index, replication) = (pair / replications, first + (pair % replications) as u64);
            let value = values[index];
            let result = replicate(&variants[index].loaded, plan.seed, replication);
            let shown = value.or(plan.current).unwrap_or(f64::NAN);
            let failed = |cause| TuneError::Run { parameter: plan.parameter.clone(), value: shown, cause };
            trial(plan, (phase, value, replication), &result.map_err(failed)?)
        };
        self.workers.in_order(values.len() * replications, work, |pair, trial| {
            trials.push(trial);
            (self.progress)(done + pair + 1, plan.budget());
        })
    }
}

fn trial(
    plan: &Plan,
    (phase, value, number): (Phase, Option<f64>, u64),
    replication: &Replication,
) -> Result<Trial, TuneError> {
    let get = |name: &str| replication.metrics.get(name).and_then(|metric| metric.value);
    let need = |name: &str| {
        get(name).ok_or_else(|| TuneError::NoValue {
            parameter: plan.parameter.clone(),
            value: value.or(plan.current).unwrap_or(f64::NAN),
            replication: number,
            metric: name.to_owned(),
            reason: replication
                .metrics
                .get(name)
                .and_then(|metric| metric.reason.clone())
                .unwrap_or_else(|| "no run reports it".to_owned()),
        })
    };
    Ok(Trial {
        phase,
        value,
        replication: number,
        metrics: METRICS.iter().map(|name| get(name)).collect(),
        digest: replication.digest,
        objective: need(&plan.goal.metric)?,
        constraints: plan.constraints.iter().map(|c| need(&c.metric)).collect::<Result<_, _>>()?,
    })
}
