//! What is tuned: the parameter and its range, the objective, the constraints, the budget.

use super::TuneError;
use crate::inputs::Opened;
use forebay_model::Scenario;
use forebay_model::document::{
    Parameter, ParameterKind, Setting, full_path, get_number, nearest_parameter, parameters, schema,
};
use forebay_model::scenario::Tune;
use forebay_model::scenario::objective::Constraint;
use serde::{Deserialize, Serialize};

/// Replications of the held-out comparison for each of the search: its answer is the one that counts, and
/// it is about two values only.
const HELD_OUT: u32 = 4;
/// More than so many only where the search has more.
const MOST_HELD_OUT: u32 = 64;
/// What says how it is measured and what is wanted: to tune it would be to choose the answer.
const OF_EXPERIMENT: [&str; 3] = ["run.", "tune.", "objective."];
/// Points that refining may add.
const REFINEMENTS: u32 = 12;

/// The objective: a metric with a direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// The metric.
    pub metric: String,
    /// Larger is better; else smaller is.
    pub maximize: bool,
}

impl Goal {
    /// A value turned so that larger is better.
    pub(super) fn turned(&self, value: f64) -> f64 {
        if self.maximize { value } else { -value }
    }
}

/// What the command line says in place of the scenario's `[tune]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Path of the parameter.
    pub parameter: Option<String>,
    /// Least value.
    pub from: Option<f64>,
    /// Largest value.
    pub to: Option<f64>,
    /// Points of the sweep.
    pub points: Option<u32>,
}

/// What is tuned.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Path of the parameter, from the scenario's root.
    pub parameter: String,
    /// Its unit.
    pub unit: Option<String>,
    /// It takes whole numbers only.
    pub whole: bool,
    /// Its value in the scenario.
    pub current: Option<f64>,
    /// Least value tried.
    pub from: f64,
    /// Largest value tried.
    pub to: f64,
    /// Points of the sweep.
    pub points: u32,
    /// The objective.
    pub goal: Goal,
    /// What must hold.
    pub constraints: Vec<Constraint>,
    /// Seed of all random streams.
    pub seed: u64,
    /// Replications of every point.
    pub replications: u32,
    /// Replications of the held-out comparison.
    pub held_out: u32,
    /// Points that refining may add.
    pub refinements: u32,
    /// The threshold at which the level is left moves along with the one at which it is taken: its path,
    /// and by how much it is lower.
    pub band: Option<(String, f64)>,
}

impl Plan {
    /// The plan of a scenario.
    ///
    /// # Errors
    /// The scenario has no objective, no parameter is named, there is no such parameter, or the range is
    /// empty.
    pub fn of(opened: &Opened, overrides: &Overrides) -> Result<Self, TuneError> {
        let scenario = &opened.loaded.scenario;
        let (goal, constraints) = wanted(scenario)?;
        let missing = |what: &str, option: &str| {
            TuneError::Input(format!(
                "{} names no {what}: give {option}, or a table [tune] in the scenario",
                opened.source_name()
            ))
        };
        let table = scenario.tune.as_ref();
        let parameter = overrides
            .parameter
            .clone()
            .or_else(|| table.map(|tune| tune.parameter.clone()))
            .ok_or_else(|| missing("parameter to tune", "--parameter"))?;
        let found = find(opened, scenario, &parameter)?;
        // A parameter named on the command line takes nothing from a table about another one.
        let same = |tune: &&Tune| {
            overrides.parameter.is_none()
                || find(opened, scenario, &tune.parameter).is_ok_and(|tuned| tuned.path == found.path)
        };
        let table = table.filter(same);
        let from = overrides
            .from
            .or_else(|| table.map(|t| t.from))
            .ok_or_else(|| missing("least value", "--from"))?;
        let to =
            overrides.to.or_else(|| table.map(|t| t.to)).ok_or_else(|| missing("largest value", "--to"))?;
        let points = overrides.points.or_else(|| table.map(|tune| tune.points)).unwrap_or(21);
        if !(from.is_finite() && to.is_finite() && from < to) {
            return Err(TuneError::Input(format!(
                "the range from {from} to {to} is empty: --from must be below --to"
            )));
        }
        if !(3..=1000).contains(&points) {
            return Err(TuneError::Input(format!("found {points} points, allowed: 3 to 1000")));
        }
        let whole = found.kind == ParameterKind::Whole;
        let current = found.value.as_ref().and_then(serde_json::Value::as_f64);
        let band = current.and_then(|current| band(scenario, &found.path, current));
        Ok(Self {
            parameter: found.path,
            unit: found.unit,
            whole,
            current,
            from,
            to,
            points,
            goal,
            constraints,
            seed: scenario.run.seed,
            replications: scenario.run.replications,
            held_out: scenario
                .run
                .replications
                .saturating_mul(HELD_OUT)
                .min(MOST_HELD_OUT.max(scenario.run.replications)),
            refinements: REFINEMENTS,
            band,
        })
    }

    /// The values of the sweep, ascending.
    pub fn sweep(&self) -> Vec<f64> {
        let last = f64::from(self.points - 1);
        let at = |n: u32| self.tidy(self.from + (self.to - self.from) * f64::from(n) / last);
        let mut values: Vec<f64> = (0..self.points).map(at).collect();
        values.dedup();
        values
    }

    /// The distance between two swept values.
    pub(super) fn step(&self) -> f64 {
        (self.to - self.from) / f64::from(self.points - 1)
    }

    /// The smallest difference that is worth telling apart: a power of ten, about a 500th of the range.
    pub fn resolution(&self) -> f64 {
        let digits = libm::floor(libm::log10((self.to - self.from) / 200.0));
        let step = libm::pow(10.0, digits);
        if self.whole { step.max(1.0) } else { step }
    }

    /// The value without the dust of binary fractions; whole where only whole numbers are taken.
    pub(super) fn tidy(&self, value: f64) -> f64 {
        if self.whole {
            return value.round();
        }
        // Twelve digits are more than any threshold means.
        format!("{value:.11e}").parse().unwrap_or(value)
    }

    /// A value to evaluate: no finer than a tenth of the resolution, so that it can be read.
    pub(super) fn coarse(&self, value: f64) -> f64 {
        let grid = if self.whole { 1.0 } else { 0.1 * self.resolution() };
        self.tidy((value / grid).round() * grid)
    }

    /// The settings that give the parameter a value.
    pub(super) fn settings(&self, value: f64) -> Vec<Setting> {
        let text = |value: f64| if self.whole { format!("{value:.0}") } else { format!("{value:?}") };
        let mut settings = vec![Setting::new(self.parameter.as_str(), text(value))];
        if let Some((path, lower)) = &self.band {
            settings.push(Setting::new(path.as_str(), text(self.tidy((value - lower).max(0.0)))));
        }
        settings
    }

    /// The command line's options that give the parameter a value.
    pub fn options(&self, value: f64) -> String {
        let options = self.settings(value);
        options.iter().map(|s| format!("--set {}={}", s.path, s.value)).collect::<Vec<_>>().join(" ")
    }

    /// Replications that will be simulated at most.
    pub fn budget(&self) -> usize {
        let searched = (self.points + self.refinements) as usize * self.replications as usize;
        searched + 2 * self.held_out as usize
    }
}

/// The objective and the constraints of a scenario.
fn wanted(scenario: &Scenario) -> Result<(Goal, Vec<Constraint>), TuneError> {
    let missing = || {
        TuneError::Input(
            "the scenario has no objective: give --set 'objective.maximize=\"goodput_per_s\"', or a table \
             [objective] in the scenario"
                .to_owned(),
        )
    };
    let objective = scenario.objective.as_ref().ok_or_else(missing)?;
    let goal = match (&objective.maximize, &objective.minimize) {
        (Some(metric), None) => Goal { metric: metric.clone(), maximize: true },
        (None, Some(metric)) => Goal { metric: metric.clone(), maximize: false },
        (None, None) => return Err(missing()),
        (Some(_), Some(_)) => {
            return Err(TuneError::Input(
                "the objective has both `maximize` and `minimize`: this version takes one".to_owned(),
            ));
        }
    };
    let constraints = objective.constraints.iter().map(|text| {
        let wrong = |allowed| TuneError::Input(format!("the constraint `{text}`: allowed is {allowed}"));
        Constraint::parse(text).map_err(wrong)
    });
    Ok((goal, constraints.collect::<Result<_, _>>()?))
}

/// The parameter of that path.
fn find(opened: &Opened, scenario: &Scenario, path: &str) -> Result<Parameter, TuneError> {
    let value = serde_json::to_value(scenario)
        .map_err(|error| TuneError::Input(format!("the scenario cannot be looked into: {error}")))?;
    let all = parameters(&schema::<Scenario>(), &value);
    let full = full_path(&value, path);
    let found = full.and_then(|full| all.iter().find(|parameter| parameter.path == full));
    match found {
        Some(p) if OF_EXPERIMENT.iter().any(|table| p.path.starts_with(table)) => Err(TuneError::Input(
            format!("{path} is a parameter of the experiment, not of the service: it cannot be tuned"),
        )),
        Some(p) if matches!(p.kind, ParameterKind::Whole | ParameterKind::Number) => Ok(p.clone()),
        Some(_) => Err(TuneError::Input(format!("{path} is no number; only numbers can be tuned"))),
        None => {
            let hint = nearest_parameter(path, &all).map(|near| format!("; did you mean `{near}`?"));
            Err(TuneError::Input(format!(
                "{path}: the scenario has no such parameter{} (`forebay params {}` lists them)",
                hint.unwrap_or_default(),
                opened.source_name()
            )))
        }
    }
}

/// The `..._below` that goes with an `..._above`, if the scenario sets it, and by how much it is lower.
/// Without it, sweeping `above` past a fixed `below` would turn the hysteresis upside down.
fn band(scenario: &Scenario, path: &str, current: f64) -> Option<(String, f64)> {
    let (table, field) = path.rsplit_once('.')?;
    let below = format!("{table}.{}", field.replace("_above", "_below"));
    if below == path {
        return None;
    }
    let value = serde_json::to_value(scenario).ok()?;
    let lower = get_number(&value, &below)?;
    Some((below, current - lower))
}
