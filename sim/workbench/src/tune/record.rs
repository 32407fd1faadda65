//! The tuning folder: `tuned.toml`, `tuned-scenario.toml`, `trials.parquet`, `evidence.json`, `scenario.toml`, `manifest.json`.

use super::{Decision, Plan, Trial, TuneError, Tuning};
use crate::inputs::Opened;
use crate::output::{Folder, Manifest, OutputError};
use forebay_datasets::frames::{Table, TableColumn, Values};
use forebay_model::scenario::objective::METRICS;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Why a tuning folder was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The files could not be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The tuned policy could not be put together.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The tuned policy cannot be written as TOML.
    #[error("the policy cannot be written as TOML: {0}")]
    Toml(#[from] toml::ser::Error),
}

/// Writes a tuning folder.
///
/// # Errors
/// See [`RecordError`]; nothing is left behind then.
pub fn write(
    target: &Path,
    force: bool,
    opened: &Opened,
    plan: &Plan,
    tuning: &Tuning,
) -> Result<PathBuf, RecordError> {
    let tuned = tuned(opened, plan, tuning)?;
    let folder = Folder::create(target, force)?;
    folder.text("tuned.toml", &tuned)?;
    let changed = changed(opened, plan, tuning)?;
    folder.text("tuned-scenario.toml", &changed.as_ref().unwrap_or(opened).loaded.resolved)?;
    folder.text("scenario.toml", &opened.loaded.resolved)?;
    folder.json("evidence.json", tuning)?;
    folder.table("trials.parquet", &trials(plan, &tuning.trials))?;
    let digest = Some(tuning.digest.clone());
    folder.json("manifest.json", &Manifest::new("tune", &opened.loaded, digest, tuning.wall_s))?;
    Ok(folder.commit()?)
}

/// The scenario with the recommended value, where a change is recommended.
fn changed(opened: &Opened, plan: &Plan, tuning: &Tuning) -> Result<Option<Opened>, TuneError> {
    let (Decision::Change, Some(value)) = (tuning.decision, tuning.recommended) else { return Ok(None) };
    let refused =
        |cause| TuneError::Value { parameter: plan.parameter.clone(), value, cause: Box::new(cause) };
    opened.with(&plan.settings(value)).map(Some).map_err(refused)
}

/// The policy to run in production: the scenario's, with the recommended value where a change is
/// recommended. The evidence stands in its header.
fn tuned(opened: &Opened, plan: &Plan, tuning: &Tuning) -> Result<String, RecordError> {
    let changed = changed(opened, plan, tuning)?;
    let policy = &changed.as_ref().unwrap_or(opened).loaded.scenario.policy;
    let mut text = String::new();
    let _ =
        writeln!(text, "# Policy of the scenario {}, tuned by forebay {}.", tuning.scenario, tuning.forebay);
    for sentence in &tuning.verdict {
        let _ = writeln!(text, "# {sentence}");
    }
    if !plan.parameter.starts_with("policy.") && changed.is_some() {
        let _ = writeln!(
            text,
            "# The tuned parameter is not part of the policy: it stands in tuned-scenario.toml only."
        );
    }
    let _ = writeln!(
        text,
        "# Evidence: evidence.json and trials.parquet beside this file. Scenario {}, seed {}, {} replications, \
         digest {}.",
        tuning.scenario.hash, tuning.seed, tuning.replications, tuning.digest
    );
    text.push('\n');
    text.push_str(&toml::to_string(policy)?);
    Ok(text)
}

/// All trials, one row each.
fn trials(plan: &Plan, trials: &[Trial]) -> Table {
    let column = TableColumn::new;
    let mut columns = vec![
        column("phase", "", Values::Str(trials.iter().map(|t| t.phase.name().to_owned()).collect())),
        // The value of the scenario as it stands is the present one.
        column(
            "parameter_value",
            plan.unit.as_deref().unwrap_or_default(),
            Values::MaybeF64(trials.iter().map(|t| t.value.or(plan.current)).collect()),
        ),
        column("replication", "", Values::U64(trials.iter().map(|t| t.replication).collect())),
        column(
            "reason",
            "",
            Values::Str(trials.iter().map(|t| t.reason.clone().unwrap_or_default()).collect()),
        ),
        column("digest", "", Values::Str(trials.iter().map(|t| t.digest.hex()).collect())),
    ];
    for (index, name) in METRICS.iter().enumerate() {
        let values = trials.iter().map(|trial| trial.metrics[index]).collect();
        columns.push(column(name, unit(name), Values::MaybeF64(values)));
    }
    Table { columns }
}

/// The unit that a metric's name ends with.
fn unit(metric: &str) -> &'static str {
    match metric {
        m if m.ends_with("_per_s") => "1/s",
        m if m.ends_with("_per_min") => "1/min",
        m if m.ends_with("_s") => "s",
        m if m.starts_with("tokens_") => "tokens",
        _ => "",
    }
}
