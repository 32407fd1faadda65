//! `forebay tune`

use super::tune_screen::screen;
use crate::arguments::{Format, TuneArguments};
use crate::failure::Failure;
use crate::terminal::{Counter, complain, print};
use crate::units::{count, seconds};
use forebay_workbench::output::{Folder, free_name, json};
use forebay_workbench::summary::ScenarioId;
use forebay_workbench::tune::{self, Decision, Plan, Tuning};
use std::path::{Path, PathBuf};

pub(crate) fn tune(arguments: &TuneArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let opened = common.open(arguments.simulated.settings())?;
    let plan = Plan::of(&opened, &arguments.overrides())?;
    let target = match &common.out {
        Some(out) => out.clone(),
        None => default_folder(&ScenarioId::of(&opened.loaded)),
    };
    // Before the work, not after it.
    Folder::check(&target, common.force)?;
    let workers = arguments.simulated.workers()?;
    if !common.quiet {
        complain(&format!(
            "tuning {} from {} to {}: {} points x {} replications, then up to {} points where it matters",
            plan.parameter, plan.from, plan.to, plan.points, plan.replications, plan.refinements
        ));
    }
    let counter = Counter::new("simulation", common.quiet);
    let tuning = tune::tune(&opened, &plan, &workers, &|done, all| counter.count(done, all))?;
    drop(counter);
    match common.format {
        Format::Json => print(&json(&tuning))?,
        Format::Text => print(&screen(&plan, &tuning))?,
    }
    // After the result is out: a disk that is full must not cost hours of simulation.
    let folder = tune::write(&target, common.force, &opened, &plan, &tuning).map_err(Failure::unwritten)?;
    if common.format == Format::Text {
        print(&(written(&folder, tuning.decision) + &apply(&plan, &tuning)))?;
    }
    if !common.quiet {
        let threads = workers.threads();
        let simulations = count(tuning.simulations as u64);
        complain(&format!("{simulations} simulations in {} on {threads} threads", seconds(tuning.wall_s)));
        if common.format == Format::Json {
            complain(&format!("written: {}", folder.display()));
        }
    }
    if arguments.require && tuning.decision == Decision::Infeasible {
        return Err(Failure::Against("no value keeps the constraints".to_owned()));
    }
    Ok(())
}

/// A name that is free, so that the same command can be given again.
fn default_folder(scenario: &ScenarioId) -> PathBuf {
    // Names of scenarios and variants are free text; a path is not.
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let variant = scenario.variant.iter().flat_map(|variant| std::iter::once('-').chain(variant.chars()));
    let name: String = scenario.name.chars().chain(variant).map(plain).collect();
    free_name(&Path::new("out").join(format!("{}-tune", name.trim_start_matches('.'))))
}

/// How to try it at once; nothing where nothing is to be changed.
fn apply(plan: &Plan, tuning: &Tuning) -> String {
    match (tuning.decision, tuning.recommended) {
        (Decision::Change, Some(value)) => format!("apply it with {}\n", plan.options(value)),
        _ => String::new(),
    }
}

fn written(folder: &Path, decision: Decision) -> String {
    let what = match decision {
        Decision::Change => "the tuned policy",
        Decision::NoChange | Decision::Infeasible => "the present policy, with this verdict",
    };
    format!(
        "\n{} holds {what}; tuned-scenario.toml, evidence.json and trials.parquet beside it\n",
        folder.join("tuned.toml").display()
    )
}
