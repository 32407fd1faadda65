//! Simulating for a case: replications, what they measured with its interval, and how that is written.

use forebay_engine::Interval;
use forebay_model::document::Setting;
use forebay_model::spans::RequestSpans;
use forebay_model::{Ledger, Loaded, Replication, Trace, simulate, simulate_with_spans};
use forebay_workbench::Workers;
use forebay_workbench::inputs::{open, open_text};
use forebay_workbench::show::number;
use rayon::prelude::*;
use std::sync::Arc;

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;

/// A scenario by the name of a bundled one, or from its text, with settings `path=value`.
pub(crate) fn read(scenario: &str, settings: &[&str]) -> Loaded {
    let settings: Vec<Setting> =
        settings.iter().map(|setting| Setting::parse(setting).expect("path=value")).collect();
    let opened = if scenario.contains('\n') {
        open_text("case", scenario, &settings)
    } else {
        open(scenario, &settings)
    };
    opened.unwrap_or_else(|error| panic!("{error}")).loaded
}

/// A scenario from its text, and the trace that it names whatever the name.
pub(crate) fn read_with_trace(text: &str, settings: &[&str], trace: &Trace) -> Loaded {
    let settings: Vec<Setting> =
        settings.iter().map(|setting| Setting::parse(setting).expect("path=value")).collect();
    let fetch = |needs: &forebay_model::scenario::load::Needs| {
        let mut inputs = forebay_model::Inputs::default();
        for (name, _) in &needs.traces {
            inputs.traces.insert(name.clone(), Arc::new(trace.clone()));
        }
        Ok(inputs)
    };
    let source = forebay_model::document::Source::new("case", text);
    Loaded::read(&source, &settings, fetch).unwrap_or_else(|problems| {
        panic!("{}", forebay_tests::scenario::shown(&problems));
    })
}

/// All replications of a scenario, each of which must hold what every run must.
pub(crate) fn run(scenario: &str, settings: &[&str], replications: u64) -> Vec<Replication> {
    replicate(&read(scenario, settings), replications)
}

/// All replications of a scenario that has been read.
pub(crate) fn replicate(loaded: &Loaded, replications: u64) -> Vec<Replication> {
    let seed = loaded.scenario.run.seed;
    (0..replications)
        .into_par_iter()
        .map(|index| {
            let replication = simulate(loaded, seed, index).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(replication.violations, Vec::<String>::new(), "replication {index}");
            assert_eq!(replication.ledger.accounted(), replication.ledger.offered);
            replication
        })
        .collect()
}

/// The values of a metric over the replications: one of the whole service by its name, one of a class, a
/// stage and so on as `stage.llm.busy_mean`.
pub(crate) fn values(replications: &[Replication], name: &str) -> Vec<f64> {
    let of = |replication: &Replication| {
        // A key may have dots of its own, as a provider of a stage has.
        let metric = match name.split_once('.').and_then(|(by, rest)| Some((by, rest.rsplit_once('.')?))) {
            Some((dimension, (key, metric))) => replication.by.get(dimension)?.get(key)?.get(metric)?,
            None => replication.metrics.get(name)?,
        };
        metric.value
    };
    let value = |replication| of(replication).unwrap_or_else(|| panic!("{name} has no value"));
    replications.iter().map(value).collect()
}

/// The mean of a metric over the replications, with its interval.
pub(crate) fn metric(replications: &[Replication], name: &str) -> Interval {
    Interval::of(&values(replications, name), CONFIDENCE)
}

/// The mean difference of a metric between two scenarios that were faced by the same crowds, `a` - `b`.
pub(crate) fn paired(a: &[Replication], b: &[Replication], name: &str) -> Interval {
    assert_eq!(a.len(), b.len(), "replications pair up");
    Interval::paired(&values(a, name), &values(b, name), CONFIDENCE)
}

/// How all requests of all replications ended.
pub(crate) fn ledger(replications: &[Replication]) -> Ledger {
    let mut sum = Ledger::default();
    for replication in replications {
        sum.add(&replication.ledger);
    }
    sum
}

/// Requests that were answered, at whatever level.
pub(crate) fn answered(replications: &[Replication]) -> u64 {
    ledger(replications).answered.total()
}

/// Requests that were turned away for a reason.
pub(crate) fn rejected(replications: &[Replication], reason: &str) -> u64 {
    ledger(replications).rejected.get(reason).copied().unwrap_or(0)
}

/// A mean with its interval, in a unit of which it is `factor` times as many: `75.02 [74.8, 75.24]`.
pub(crate) fn shown(interval: &Interval, factor: f64) -> String {
    let mean = number(factor * interval.mean);
    if interval.n < 2 || interval.lo == interval.hi {
        return mean;
    }
    format!("{mean} [{}, {}]", number(factor * interval.lo), number(factor * interval.hi))
}

/// A share as per cent.
pub(crate) fn percent(interval: &Interval) -> String {
    format!("{} %", shown(interval, 100.0))
}

/// Whether two numbers are as near as a case asks for; returns how far they are apart.
pub(crate) fn close(found: f64, expected: f64, tolerance: f64) -> f64 {
    let off = (found - expected).abs();
    assert!(off <= tolerance, "found {found}, expected {expected} within {tolerance}");
    off
}

/// Whether a number is within a share of what was published.
pub(crate) fn near(found: f64, published: f64, share: f64) -> bool {
    (found / published - 1.0).abs() <= share
}

/// All requests of the first replication of a scenario, each with what it met.
pub(crate) fn followed(scenario: &str, settings: &[&str]) -> Vec<RequestSpans> {
    let loaded = read(scenario, settings);
    let followed = simulate_with_spans(&loaded, loaded.scenario.run.seed, 0, 100_000);
    let (replication, requests) = followed.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(requests.len() as u64, replication.ledger.offered, "all are followed");
    requests
}

/// Whether a run of a scenario has a finding of this code.
pub(crate) fn finds(scenario: &str, settings: &[&str], code: &str) -> bool {
    let workers = Workers::new(Some(1)).expect("one worker");
    let run = forebay_workbench::run(&read(scenario, settings), &workers, false, &|_, _| {});
    run.expect("it runs").summary.findings.iter().any(|finding| finding.code == code)
}

/// A deviation of exact arithmetic: rounding, or nothing.
pub(crate) fn deviation(off: f64) -> String {
    if off == 0.0 { "exactly".to_owned() } else { format!("within {off:.0e}") }
}

mod tests {
    use super::*;

    /// A queue at a load of 0.8.
    const QUEUE: &str = "
name = 'queue'
run = { duration_s = 500, warmup_s = 50 }
[workload.sources.all]
kind = 'poisson'
rate_per_s = 8
[workload.classes.any]
[endpoints.ask]
l1 = ['desk']
[stages.desk]
kind = 'server'
servers = 1
service_s = { kind = 'exponential', mean = 0.1 }
";

    #[test]
    fn the_same_crowds_make_a_difference_narrow() {
        let slow = run(QUEUE, &[], 8);
        let fast = run(QUEUE, &["stages.desk.service_s.mean=0.099"], 8);
        let difference = paired(&slow, &fast, "latency_mean_s");
        assert!(difference.lo > 0.0, "{difference:?}");
        let apart = metric(&slow, "latency_mean_s").half_width();
        assert!(difference.half_width() < 0.2 * apart, "{difference:?} and {apart}");
        let busy = metric(&slow, "stage.desk.busy_mean");
        close(busy.mean, 0.8, 0.05);
        assert_eq!(ledger(&slow).offered, slow.iter().map(|r| r.ledger.offered).sum::<u64>());
    }

    #[test]
    fn numbers_are_written_with_their_intervals() {
        let interval = |mean, half, n| Interval { mean, lo: mean - half, hi: mean + half, n };
        assert_eq!(shown(&interval(0.5, 0.25, 8), 1.0), "0.5 [0.25, 0.75]");
        assert_eq!(percent(&interval(0.5, 0.0, 8)), "50 %");
        assert_eq!(shown(&interval(0.02, f64::INFINITY, 1), 1e3), "20");
        assert_eq!([deviation(0.0), deviation(2.2e-16)], ["exactly", "within 2e-16"]);
    }
}
