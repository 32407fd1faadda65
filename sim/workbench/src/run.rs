//! All replications of a scenario, in parallel, and what they say together.
//!
//! What must hold in every run (each request has one end, Little's law to the nanosecond, nothing held
//! by those who have gone) is checked in every replication. A breach is an error of the program and ends
//! the run: numbers from a simulation that loses requests are worth nothing.

use crate::clock::Stopwatch;
use crate::findings::{self, Watch};
use crate::spans::Followed;
use crate::summary::{Gathering, Summary};
use crate::verdict::Bottleneck;
use crate::workers::Workers;
use forebay_model::accounts::alerts::RaisedAlert;
use forebay_model::request_log::LoggedRequest;
use forebay_model::scenario::Loaded;
use forebay_model::timeline::{Mark, Point};
use forebay_model::{Following, Replication, RunError, simulate, simulate_followed};

/// Timelines are kept up to so many points in all, some 100 MB: those of the first replications.
const MOST_POINTS: usize = 1_000_000;

/// Told how many pieces of work of how many are done, from any thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A run and what it says.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The numbers.
    pub summary: Summary,
    /// The stage that would saturate first; absent when no stage has a bound.
    pub bottleneck: Option<Bottleneck>,
    /// Timelines by replication, if they were asked for: of the first ones, where there are very many.
    pub timelines: Vec<Vec<Point>>,
    /// What began and ended in those replications, likewise.
    pub happened: Vec<Happened>,
    /// Requests of the first replication that were followed, if that was asked for.
    pub followed: Option<Followed>,
    /// All requests of the first replication that had their end, if they were asked for.
    pub requests: Option<Vec<LoggedRequest>>,
}

/// What began and ended in one replication, and the alerts that were raised in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Happened {
    /// Faults, killed processes, commands of the feedback loops, alerts; in order of time.
    pub marks: Vec<Mark>,
    /// The alerts with what was found and their causes; of very many the first ones.
    pub alerts: Vec<RaisedAlert>,
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunFailure {
    /// A replication cannot be run.
    #[error("replication {replication}: {cause}")]
    Replication {
        /// Which one.
        replication: u64,
        /// Why.
        #[source]
        cause: RunError,
    },
    /// Something does not hold that must: an error of the program.
    #[error(
        "internal error in replication {replication} with seed {seed}: {}. The result is not to be \
         trusted; please report it with the scenario.",
        .broken.join("; ")
    )]
    Broken {
        /// Which one.
        replication: u64,
        /// The seed.
        seed: u64,
        /// What does not hold.
        broken: Vec<String>,
    },
}

impl RunFailure {
    /// Whether the program is at fault, not the scenario.
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }
}

/// Runs one replication and checks what must hold.
///
/// # Errors
/// It cannot be run, or something does not hold that must.
pub fn replicate(loaded: &Loaded, seed: u64, replication: u64) -> Result<Replication, RunFailure> {
    let result = simulate(loaded, seed, replication)
        .map_err(|cause| RunFailure::Replication { replication, cause })?;
    sound(result, seed, replication)
}

/// What was kept of single requests: those that were followed, and the log of all.
type Kept = (Option<Followed>, Option<Vec<LoggedRequest>>);

/// The same, keeping what was asked for of single requests.
fn replicate_following(
    loaded: &Loaded,
    seed: u64,
    replication: u64,
    following: Following,
) -> Result<(Replication, Kept), RunFailure> {
    let kept = simulate_followed(loaded, seed, replication, following)
        .map_err(|cause| RunFailure::Replication { replication, cause })?;
    let result = sound(kept.replication, seed, replication)?;
    let offered = result.ledger.offered;
    let followed = (following.spans > 0).then(|| Followed::new(loaded, replication, offered, kept.spans));
    Ok((result, (followed, following.log.then_some(kept.log))))
}

/// The replication, if what must hold of it does.
fn sound(result: Replication, seed: u64, replication: u64) -> Result<Replication, RunFailure> {
    let broken = breaches(&result);
    if broken.is_empty() { Ok(result) } else { Err(RunFailure::Broken { replication, seed, broken }) }
}

/// What does not hold in a replication that must.
fn breaches(replication: &Replication) -> Vec<String> {
    let mut broken = replication.violations.clone();
    let ledger = &replication.ledger;
    // The model says so too; a summary must not rest on one check alone.
    if broken.is_empty() && ledger.accounted() != ledger.offered {
        broken.push(format!("the ledger accounts for {} of {} requests", ledger.accounted(), ledger.offered));
    }
    broken
}

/// Runs all replications that the scenario asks for.
///
/// # Errors
/// The first replication that cannot be run, or in which something does not hold that must.
pub fn run(
    loaded: &Loaded,
    workers: &Workers,
    keep_timelines: bool,
    progress: Progress<'_>,
) -> Result<Run, RunFailure> {
    run_following(loaded, workers, keep_timelines, Following::default(), progress)
}

/// The same, keeping of the requests of the first replication what is asked for.
///
/// # Errors
/// As [`run`].
pub fn run_following(
    loaded: &Loaded,
    workers: &Workers,
    keep_timelines: bool,
    following: Following,
    progress: Progress<'_>,
) -> Result<Run, RunFailure> {
    let watch = Stopwatch::start();
    let plan = &loaded.scenario.run;
    let count = plan.replications as usize;
    let mut gathering = Gathering::new();
    let mut watched = Watch::default();
    let (mut timelines, mut happened) = (Vec::new(), Vec::new());
    let (mut followed, mut requests) = (None, None);
    let mut kept = 0;
    workers.in_order(
        count,
        |index| {
            let (seed, number) = (plan.seed, index as u64);
            if index == 0 && following != Following::default() {
                return replicate_following(loaded, seed, number, following);
            }
            Ok((replicate(loaded, seed, number)?, Kept::default()))
        },
        |index, (mut replication, kept_requests): (Replication, Kept)| {
            followed = followed.take().or(kept_requests.0);
            requests = requests.take().or(kept_requests.1);
            gathering.add(&replication, loaded);
            watched.add(&replication.timeline);
            kept += replication.timeline.len();
            if keep_timelines && kept <= MOST_POINTS {
                timelines.push(std::mem::take(&mut replication.timeline));
                happened.push(Happened { marks: replication.marks, alerts: replication.alerts });
            }
            progress(index + 1, count);
        },
    )?;
    let (mut summary, bottleneck) = gathering.summary(loaded, watch.elapsed_s());
    summary.findings = findings::of_run(loaded, &summary, bottleneck.as_ref(), &watched);
    if gathering.nothing_random() {
        summary.findings.push(findings::nothing_random(summary.replications));
    }
    Ok(Run { summary, bottleneck, timelines, happened, followed, requests })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::inputs::open_text;
    use crate::verdict::Verdict;
    use forebay_model::document::Setting;

    /// M/M/1 at a load of 0.8, 2000 s.
    pub(crate) const MM1: &str = r#"
name = "mm1"
[run]
duration_s = 2000
warmup_s = 200
seed = 7
replications = 4
[workload.sources.all]
kind = "poisson"
rate_per_s = 8.0
[workload.classes.any]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.1 }
"#;

    fn run_mm1(settings: &[(&str, &str)], threads: usize) -> Run {
        let settings: Vec<Setting> =
            settings.iter().map(|(path, value)| Setting::new(*path, *value)).collect();
        let opened = open_text("mm1", MM1, &settings).unwrap();
        let workers = Workers::new(Some(threads)).unwrap();
        run(&opened.loaded, &workers, false, &|_, _| ()).unwrap()
    }

    #[test]
    fn the_threads_change_nothing() {
        let [one, many] = [1, 3].map(|threads| {
            let mut run = run_mm1(&[], threads);
            run.summary.wall_s = 0.0;
            run
        });
        assert_eq!(one, many);
    }

    #[test]
    fn the_summary_holds_the_known_queue() {
        let run = run_mm1(&[("run.replications", "10")], 2);
        let summary = &run.summary;
        assert_eq!(summary.verdict, Verdict::Stable);
        assert_eq!(summary.ledger.accounted(), summary.ledger.offered);
        assert_eq!((summary.replications, summary.requests), (10, summary.ledger.offered));
        // The mean time in an M/M/1 system is 1 / (10 - 8) = 0.5 s.
        let latency = &summary.metrics["latency_mean_s"];
        let [lo, hi] = latency.ci95.unwrap();
        let margin = 0.5 * (hi - lo);
        assert!(lo - margin < 0.5 && 0.5 < hi + margin, "{latency:?}");
        let bottleneck = run.bottleneck.unwrap();
        assert_eq!(bottleneck.stage, "desk");
        assert!((bottleneck.utilisation - 0.8).abs() < 0.02, "{bottleneck:?}");
    }

    #[test]
    fn too_much_work_is_an_overload() {
        let run = run_mm1(&[("workload.sources.all.rate_per_s", "12.0"), ("run.replications", "1")], 1);
        assert_eq!(run.summary.verdict, Verdict::Overloaded);
    }

    #[test]
    fn a_bounded_queue_that_is_always_full_is_backlogged() {
        let settings = [("workload.sources.all.rate_per_s", "20.0"), ("stages.desk.max_queue", "5")];
        assert_eq!(run_mm1(&settings, 1).summary.verdict, Verdict::Backlogged);
    }

    #[test]
    fn a_ledger_that_does_not_add_up_is_refused() {
        let opened = open_text("mm1", MM1, &[Setting::new("run.duration_s", "300")]).unwrap();
        let mut replication = replicate(&opened.loaded, 1, 0).unwrap();
        assert!(breaches(&replication).is_empty());
        replication.ledger.timed_out += 1;
        assert!(breaches(&replication)[0].contains("the ledger accounts for"));
        replication.violations.push("a thing was lost".to_owned());
        assert_eq!(breaches(&replication), ["a thing was lost"]);
        let failure = RunFailure::Broken { replication: 3, seed: 1, broken: replication.violations };
        assert!(failure.is_internal() && failure.to_string().contains("replication 3"));
    }

    #[test]
    fn replications_that_are_all_the_same_have_no_interval() {
        let trace = MM1
            .replace(
                "kind = \"poisson\"\nrate_per_s = 8.0",
                "kind = \"trace\"\ntrace = \"azure-conversations\"",
            )
            .replace("{ kind = \"exponential\", mean = 0.1 }", "0.1");
        let settings = [Setting::new("run.duration_s", "300"), Setting::new("run.replications", "2")];
        let workers = Workers::new(Some(1)).unwrap();
        let said = |text: &str| {
            let opened = open_text("trace", text, &settings).unwrap();
            let summary = run(&opened.loaded, &workers, false, &|_, _| ()).unwrap().summary;
            let found = summary.findings.iter().any(|finding| finding.code == "run.nothing_random");
            let latency = &summary.metrics["latency_mean_s"];
            assert!(latency.value.is_some() && latency.reason.is_none());
            (found, latency.ci95.is_some(), summary.by["stage"]["desk"]["wait_mean_s"].ci95.is_some())
        };
        assert_eq!(said(&trace), (true, false, false));
        assert_eq!(said(MM1), (false, true, true));
    }

    #[test]
    fn timelines_are_kept_when_asked_for() {
        let opened = open_text("mm1", MM1, &[]).unwrap();
        let workers = Workers::new(Some(2)).unwrap();
        let run = run(&opened.loaded, &workers, true, &|_, _| ()).unwrap();
        assert_eq!(run.timelines.len(), 4);
        assert!(run.timelines.iter().all(|points| points.len() == 600));
    }
}
