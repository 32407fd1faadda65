//! What each module of a policy is worth: the scenario is run as it is, and again with one module after
//! the other switched off, on the same crowds.
//!
//! All of a request's chance is its own, so that replication k faces the same people whatever the policy
//! does; the differences are therefore taken replication by replication, and their intervals are far
//! narrower than those of the two runs apart. A module is switched off by taking it out of the scenario,
//! not by setting its thresholds out of reach: a threshold that is out of reach in one scenario may be
//! within it in another.
//!
//! | what the policy holds | switched off |
//! | --- | --- |
//! | an entry of a table of modules, an optional table, a list of rules, a level's rule | taken out |
//! | a table whose defaults do something, such as the guard of the feedback loops | left at its defaults |
//! | a queue that sorts | replaced by one that is first come first served, with the same limits |
//!
//! Which modules there are is read from the policy itself (`modules`).

mod modules;

use crate::VERSION;
use crate::clock::Stopwatch;
use crate::inputs::{OpenError, Opened};
use crate::run::{Progress, RunFailure, replicate};
use crate::summary::{CONFIDENCE, MetricSummary, ScenarioId, fold};
use crate::tune::Estimate;
use crate::wanted::wanted;
use crate::workers::Workers;
use forebay_engine::Interval;
use forebay_model::document::Setting;
use forebay_model::scenario::Loaded;
use forebay_model::{Digest, Metrics, Replication};
use indexmap::IndexMap;
use modules::{Switch, switches};
use serde::{Deserialize, Serialize};

/// Metrics that are always compared, where the scenario gives them.
const METRICS: [&str; 6] =
    ["error_rate", "goodput_per_s", "throughput_per_s", "latency_p95_s", "csat", "value"];

/// What each module of a policy is worth: `ablation.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ablation {
    /// Version of the program.
    pub forebay: String,
    /// What was run.
    pub scenario: ScenarioId,
    /// Seed of all random streams.
    pub seed: u64,
    /// Replications of each run.
    pub replications: u32,
    /// Hash over all outcomes of all runs in order.
    pub digest: String,
    /// Time it took, seconds.
    pub wall_s: f64,
    /// The scenario as it is.
    pub metrics: IndexMap<String, MetricSummary>,
    /// Its modules, each switched off alone.
    pub modules: Vec<Module>,
}

/// One module, switched off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Module {
    /// Its path.
    pub path: String,
    /// How it was switched off.
    pub switched_off: String,
    /// Whether not one request ended differently.
    pub changes_nothing: bool,
    /// What changed, by metric. Empty where the scenario does not run without the module.
    pub changes: IndexMap<String, Change>,
    /// Why the scenario does not run without the module.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub refused: Option<String>,
}

/// What a metric does when a module is switched off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Its mean without the module.
    pub without: Option<f64>,
    /// The mean difference, without the module less with it.
    pub difference: Option<f64>,
    /// 95 % confidence interval of that; absent with fewer than two replications.
    pub ci95: Option<[f64; 2]>,
    /// The metric's unit; empty for counts and shares.
    pub unit: String,
}

impl Change {
    /// Whether the interval leaves the sign of the difference open.
    pub fn is_open(&self) -> bool {
        self.ci95.is_none_or(|[lo, hi]| lo <= 0.0 && 0.0 <= hi)
    }
}

/// Why an ablation could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AblateError {
    /// Nothing to switch off.
    #[error("the scenario's policy has no module that could be switched off")]
    NoModules,
    /// The scenario as it is cannot be run, or a run breaks what must hold.
    #[error(transparent)]
    Run(#[from] RunFailure),
}

impl AblateError {
    /// Whether the program is at fault, not the scenario.
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Run(failure) if failure.is_internal())
    }
}

/// Runs the scenario as it is and without each module of its policy.
///
/// # Errors
/// See [`AblateError`]. A scenario that cannot do without a module is no error: the module says so.
pub fn ablate(opened: &Opened, workers: &Workers, progress: Progress<'_>) -> Result<Ablation, AblateError> {
    let watch = Stopwatch::start();
    let loaded = &opened.loaded;
    let switches = switches(&loaded.scenario.policy);
    if switches.is_empty() {
        return Err(AblateError::NoModules);
    }
    // What is to be tuned may be a threshold of the module; nothing is tuned here.
    let untuned = loaded.scenario.tune.as_ref().map(|_| Setting::without("tune"));
    let without = |switch: &Switch| {
        let settings: Vec<Setting> = untuned.iter().cloned().chain([switch.setting()]).collect();
        opened.with(&settings).map(|opened| opened.loaded).map_err(|error| why(&error))
    };
    let without: Vec<Result<Loaded, String>> = switches.iter().map(without).collect();
    // The scenario as it is, then those without a module that can do without it.
    let runs: Vec<&Loaded> = std::iter::once(loaded).chain(without.iter().flatten()).collect();
    let names = names(loaded);
    let replications = loaded.scenario.run.replications as usize;
    let count = runs.len() * replications;
    let mut sheets: Vec<Sheet> = runs.iter().map(|_| Sheet::default()).collect();
    workers.in_order(
        count,
        |piece| one(runs[piece / replications], piece),
        |piece, result| {
            sheets[piece / replications].add(&names, result);
            progress(piece + 1, count);
        },
    )?;
    let mut digest = Digest::EMPTY;
    for outcomes in sheets.iter().flat_map(|sheet| &sheet.digests) {
        fold(&mut digest, *outcomes);
    }
    let mut sheets = sheets.into_iter();
    let with = sheets.next().unwrap_or_default();
    if let Some(failure) = with.failure {
        return Err(failure.into());
    }
    let metrics: IndexMap<String, MetricSummary> = names
        .iter()
        .filter_map(|name| Some((name.clone(), with.summary(name)?)))
        .filter(|(name, metric)| metric.value.is_some() || !METRICS.contains(&name.as_str()))
        .collect();
    let module = |(switch, loaded): (&Switch, &Result<Loaded, String>)| {
        let sheet = loaded.as_ref().map_err(Clone::clone).map(|_| sheets.next().unwrap_or_default());
        switch.module(sheet, &with, &metrics)
    };
    let modules = switches.iter().zip(&without).map(module).collect();
    Ok(Ablation {
        forebay: VERSION.to_owned(),
        scenario: ScenarioId::of(loaded),
        seed: loaded.scenario.run.seed,
        replications: loaded.scenario.run.replications,
        digest: digest.hex(),
        wall_s: watch.elapsed_s(),
        metrics,
        modules,
    })
}

/// One replication of one run. What is wrong with a scenario is a result; what is wrong with the program is
/// an error.
fn one(loaded: &Loaded, piece: usize) -> Result<Result<Replication, RunFailure>, RunFailure> {
    let plan = &loaded.scenario.run;
    match replicate(loaded, plan.seed, (piece % plan.replications as usize) as u64) {
        Err(failure) if failure.is_internal() => Err(failure),
        result => Ok(result),
    }
}

/// The metrics to compare: the usual ones, and those of the objective.
fn names(loaded: &Loaded) -> Vec<String> {
    let mut names: Vec<String> = METRICS.map(str::to_owned).to_vec();
    if let Some(objective) = &loaded.scenario.objective {
        for (_, name) in wanted(objective) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The first problem of a scenario that cannot do without a module.
fn why(error: &OpenError) -> String {
    match error {
        OpenError::Problems(problems) if !problems.is_empty() => {
            let problem = &problems[0];
            format!("{}: found {}, allowed: {}", problem.path, problem.found, problem.allowed)
        }
        other => other.to_string(),
    }
}

/// The values of one run, by replication.
#[derive(Debug, Default)]
struct Sheet {
    values: IndexMap<String, Vec<Option<f64>>>,
    units: IndexMap<String, String>,
    digests: Vec<Digest>,
    failure: Option<RunFailure>,
}

impl Sheet {
    fn add(&mut self, names: &[String], result: Result<Replication, RunFailure>) {
        let replication = match result {
            Ok(replication) => replication,
            Err(failure) => {
                self.failure = self.failure.take().or(Some(failure));
                return;
            }
        };
        let metrics: &Metrics = &replication.metrics;
        for name in names {
            let metric = metrics.get(name);
            self.values.entry(name.clone()).or_default().push(metric.and_then(|metric| metric.value));
            if let Some(metric) = metric {
                self.units.insert(name.clone(), metric.unit.clone());
            }
        }
        self.digests.push(replication.digest);
    }

    /// Replications that are all the same are one observation.
    fn nothing_random(&self) -> bool {
        self.digests.windows(2).all(|pair| pair[0] == pair[1])
    }

    fn summary(&self, name: &str) -> Option<MetricSummary> {
        let values: Vec<f64> = self.values.get(name)?.iter().flatten().copied().collect();
        let interval = Interval::of(&values, CONFIDENCE);
        let some = !values.is_empty();
        Some(MetricSummary {
            value: some.then_some(interval.mean),
            ci95: Estimate::of(interval, self.nothing_random()).ci95,
            unit: self.units.get(name).cloned().unwrap_or_default(),
            reason: (!some).then(|| "no replication has a value".to_owned()),
        })
    }

    /// What a metric does here that it does not in `with`.
    fn change(&self, with: &Self, name: &str) -> Change {
        let none = Vec::new();
        let (with_values, values) =
            (with.values.get(name).unwrap_or(&none), self.values.get(name).unwrap_or(&none));
        // A replication counts where both have a value.
        let differences: Vec<f64> =
            values.iter().zip(with_values).filter_map(|(here, there)| Some((*here)? - (*there)?)).collect();
        let interval = Interval::of(&differences, CONFIDENCE);
        let one_crowd = self.nothing_random() && with.nothing_random();
        Change {
            without: self.summary(name).and_then(|metric| metric.value),
            difference: (!differences.is_empty()).then_some(interval.mean),
            ci95: Estimate::of(interval, one_crowd).ci95,
            unit: with.units.get(name).cloned().unwrap_or_default(),
        }
    }
}

impl Switch {
    fn module(
        &self,
        sheet: Result<Sheet, String>,
        with: &Sheet,
        metrics: &IndexMap<String, MetricSummary>,
    ) -> Module {
        let (path, switched_off) = (self.path.clone(), self.how.to_owned());
        let sheet = sheet.and_then(|sheet| match &sheet.failure {
            Some(failure) => Err(failure.to_string()),
            None => Ok(sheet),
        });
        match sheet {
            Err(why) => {
                let changes = IndexMap::new();
                Module { path, switched_off, changes_nothing: false, changes, refused: Some(why) }
            }
            Ok(sheet) => Module {
                path,
                switched_off,
                changes_nothing: sheet.digests == with.digests,
                changes: metrics.keys().map(|name| (name.clone(), sheet.change(with, name))).collect(),
                refused: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open_text;

    /// A service that turns half of its people away, with modules that matter, that do not, and that must
    /// be there.
    const TEXT: &str = r#"
name = "shop"
[run]
duration_s = 300
warmup_s = 20
replications = 4
[workload.sources.all]
kind = "poisson"
rate_per_s = 16.0
[workload.population]
tiers = { gold = 0.3, plain = 0.7 }
[workload.classes.any]
[gateway]
executor_slots = 1
[endpoints.ask]
l1 = ["desk"]
l4 = ["people"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.1 }
[stages.people]
kind = "rules"
servers = 100
service_s = 0.01
[policy.admission.never]
kind = "fixed_rate"
limit = 1000000
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 8
burst = 10
[policy.queue]
kind = "strict_priority"
by = "tier"
max_length = 50
[policy.fallback]
least_dwell_s = 1.0
l4 = { queue_above = 30 }
[objective]
maximize = "goodput_per_s"
constraints = ["latency_p99_s <= 9"]
"#;

    fn ablation(text: &str, settings: &[Setting], threads: usize) -> Result<Ablation, AblateError> {
        let opened = open_text("shop", text, settings).unwrap();
        let workers = Workers::new(Some(threads)).unwrap();
        ablate(&opened, &workers, &|_, _| ()).map(|ablation| Ablation { wall_s: 0.0, ..ablation })
    }

    #[test]
    fn each_module_is_worth_what_it_changes() {
        let found = ablation(TEXT, &[], 2).unwrap();
        let paths: Vec<&str> = found.modules.iter().map(|module| module.path.as_str()).collect();
        let [never, entry, queue, l4] = &found.modules[..] else { panic!("{paths:?}") };
        assert_eq!(
            paths,
            ["policy.admission.never", "policy.admission.entry", "policy.queue", "policy.fallback.l4"]
        );
        assert!(never.changes_nothing && never.changes.values().all(|c| c.difference == Some(0.0)));
        // Without the bucket nobody is turned away at the door: the queue fills, and people are handed over.
        let errors = &entry.changes["error_rate"];
        assert!(errors.ci95.is_some_and(|[_, hi]| hi < 0.0) && !errors.is_open(), "{errors:?}");
        assert!(!entry.changes_nothing && found.metrics["error_rate"].value.unwrap() > 0.3);
        // Who is served first changes nothing in how many are.
        assert_eq!(queue.switched_off, "first come, first served");
        assert!(queue.changes["throughput_per_s"].is_open(), "{queue:?}");
        // The bucket keeps the queue short.
        assert!(l4.refused.is_none(), "{l4:?}");
        // What the objective is about is compared too; what no run can say is not.
        assert!(found.metrics.contains_key("latency_p99_s") && !found.metrics.contains_key("csat"));
    }

    #[test]
    fn a_difference_is_that_of_the_same_crowds() {
        let found = ablation(TEXT, &[], 1).unwrap();
        assert_eq!(found, ablation(TEXT, &[], 3).unwrap());
        let opened = open_text("shop", TEXT, &[]).unwrap();
        let without = opened.with(&[Setting::without("policy.admission.entry")]).unwrap();
        let values = |loaded: &Loaded| -> Vec<f64> {
            let seed = loaded.scenario.run.seed;
            (0..4).map(|k| replicate(loaded, seed, k).unwrap().metrics["error_rate"].value.unwrap()).collect()
        };
        let paired = Interval::paired(&values(&without.loaded), &values(&opened.loaded), CONFIDENCE);
        let change = &found.modules[1].changes["error_rate"];
        assert_eq!((change.difference, change.ci95), (Some(paired.mean), Some([paired.lo, paired.hi])));
    }

    #[test]
    fn a_module_that_is_tuned_can_be_switched_off() {
        let tuned = format!("{TEXT}[tune]\nparameter = \"fallback.l4.queue_above\"\nfrom = 1\nto = 50\n");
        let short = [Setting::new("run.duration_s", "30")];
        assert_eq!(ablation(&tuned, &short, 1).unwrap().modules, ablation(TEXT, &short, 1).unwrap().modules);
    }

    #[test]
    fn a_module_that_must_be_there_says_why() {
        let opened = open_text("shop", TEXT, &[]).unwrap();
        let error = opened.with(&[Setting::without("endpoints.ask.l4")]).unwrap_err();
        let switch = Switch { path: "policy.fallback.l3".to_owned(), replacement: None, how: "taken out" };
        let module = switch.module(Err(why(&error)), &Sheet::default(), &IndexMap::new());
        let said = module.refused.unwrap();
        assert!(said.starts_with("endpoints.ask: found no path at `l4`"), "{said}");
        assert!(module.changes.is_empty() && !module.changes_nothing);
        // So does one without which the clock stands still.
        let stuck = RunFailure::Replication {
            replication: 0,
            cause: forebay_model::RunError::Stuck { at_s: 1.0, events: 9 },
        };
        let sheet = Sheet { failure: Some(stuck), ..Sheet::default() };
        let module = switch.module(Ok(sheet), &Sheet::default(), &IndexMap::new());
        assert!(module.refused.unwrap().contains("the clock stands still"));
    }

    #[test]
    fn a_policy_that_does_nothing_has_nothing_to_switch_off() {
        let text = crate::run::tests::MM1;
        let error = ablation(text, &[], 1).unwrap_err();
        assert!(matches!(error, AblateError::NoModules) && !error.is_internal(), "{error}");
        let one = ablation(TEXT, &[Setting::new("run.replications", "1")], 1).unwrap();
        assert!(one.modules.iter().flat_map(|m| m.changes.values()).all(|c| c.ci95.is_none() && c.is_open()));
    }
}
