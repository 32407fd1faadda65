//! `forebay run`

use super::run_screen::screen;
use crate::arguments::{Format, RunArguments};
use crate::failure::Failure;
use crate::terminal::{Counter, complain, print};
use crate::units;
use forebay_model::Following;
use forebay_model::scenario::objective::Constraint;
use forebay_workbench::output::{Folder, json, write_run};
use forebay_workbench::run::run_following;
use forebay_workbench::{Run, Summary};

pub(crate) fn run(arguments: &RunArguments) -> Result<(), Failure> {
    if arguments.ablate {
        return super::ablate::ablate(arguments);
    }
    let common = &arguments.common;
    let opened = common.open(arguments.simulated.settings())?;
    let objective = opened.loaded.scenario.objective.as_ref();
    if arguments.require && objective.is_none_or(|objective| objective.constraints.is_empty()) {
        let text = "--require: the scenario's [objective] has no constraints that could be missed";
        return Err(Failure::Input(text.to_owned()));
    }
    if arguments.trace_requests.is_some() && common.out.is_none() {
        let text = "--trace-requests writes spans.json into the folder of the run: name one with --out DIR";
        return Err(Failure::Input(text.to_owned()));
    }
    if arguments.requests && common.out.is_none() {
        let text = "--requests writes requests.parquet into the folder of the run: name one with --out DIR";
        return Err(Failure::Input(text.to_owned()));
    }
    if let Some(out) = &common.out {
        // Before the work, not after it.
        Folder::check(out, common.force)?;
    }
    let workers = arguments.simulated.workers()?;
    let counter = Counter::new("replication", common.quiet);
    let following = Following { spans: arguments.trace_requests.unwrap_or(0), log: arguments.requests };
    let progress = |done, all| counter.count(done, all);
    let run = run_following(&opened.loaded, &workers, common.out.is_some(), following, &progress)?;
    drop(counter);
    let judged: Vec<Judged> = objective
        .iter()
        .flat_map(|objective| &objective.constraints)
        .filter_map(|text| judge(text, &run.summary))
        .collect();
    match common.format {
        Format::Json => print(&json(&run.summary))?,
        Format::Text => print(&screen(&opened.loaded, &run, &judged))?,
    }
    if !common.quiet {
        complain(&speed(&run, workers.threads()));
    }
    // After the result is out: a disk that is full must not cost hours of simulation.
    if let Some(out) = &common.out {
        let folder = write_run(out, common.force, &opened.loaded, &run).map_err(Failure::unwritten)?;
        if !common.quiet {
            complain(&format!("written: {}", folder.display()));
        }
    }
    let missed: Vec<&str> = judged.iter().filter(|j| !j.holds).map(|j| j.text.as_str()).collect();
    if arguments.require && !missed.is_empty() {
        return Err(Failure::Against(missed.join("\n")));
    }
    Ok(())
}

/// A constraint and whether the run keeps it.
pub(crate) struct Judged {
    pub(crate) text: String,
    pub(crate) holds: bool,
}

/// A constraint that has no value is missed: nothing shows that it holds.
fn judge(text: &str, summary: &Summary) -> Option<Judged> {
    let constraint = Constraint::parse(text).ok()?;
    let metric = summary.metrics.get(&constraint.metric);
    let value = metric.and_then(|metric| metric.value);
    let holds = value.is_some_and(|value| constraint.holds(value));
    let found = match (metric, value) {
        (Some(_), Some(_)) => units::number_of(metric),
        (Some(metric), None) => metric.reason.clone().unwrap_or_else(|| units::NONE.to_owned()),
        (None, _) => "not reported".to_owned(),
    };
    // The interval holds values on both sides of the limit: another run may well say otherwise.
    let open = metric
        .and_then(|metric| metric.ci95)
        .is_some_and(|[lo, hi]| constraint.holds(lo) != constraint.holds(hi));
    let said = match (holds, open) {
        (true, false) => "holds",
        (true, true) => "holds on average, within its interval",
        (false, false) => "missed",
        (false, true) => "missed on average, within its interval",
    };
    Some(Judged { text: format!("{constraint}: {said} ({found})"), holds })
}

fn speed(run: &Run, threads: usize) -> String {
    let summary = &run.summary;
    let wall_s = summary.wall_s.max(1e-9);
    let threads = if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") };
    format!(
        "{} simulated in {} on {threads}: {} requests/s, {} events/s, {} times real time",
        units::seconds(summary.simulated_s),
        units::seconds(wall_s),
        units::count((summary.requests as f64 / wall_s) as u64),
        units::count((summary.events as f64 / wall_s) as u64),
        units::count((summary.simulated_s / wall_s) as u64)
    )
}
