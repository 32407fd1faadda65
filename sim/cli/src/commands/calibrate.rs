//! `forebay calibrate`: from what a machine shows to a calibration.

mod compare;
mod compare_screen;
mod fit;
mod import;
mod log;
mod record;
mod show;

use crate::failure::Failure;
use clap::Subcommand;
use forebay_datasets::files::FileError;
use std::path::Path;

#[derive(Debug, Subcommand)]
pub(crate) enum Calibrate {
    /// Record what GPUs show, and drive an endpoint on them meanwhile.
    #[command(after_help = record::EXAMPLES)]
    Record(Box<record::RecordArgs>),
    /// Bring telemetry, engine metrics and request logs of other tools into Parquet, and say what was dropped.
    #[command(after_help = import::EXAMPLES)]
    Import(Box<import::ImportArgs>),
    /// Fit a calibration to measured data, judged on a part of the data that the fit does not see.
    #[command(after_help = fit::EXAMPLES)]
    Fit(Box<fit::FitArgs>),
    /// Show a calibration: origin, coefficients, range, errors; and the fit against its data.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Hold a simulated run against a real request log: percentiles, and queue and KV cache over time.
    #[command(after_help = compare::EXAMPLES)]
    Compare(Box<compare::CompareArgs>),
}

pub(crate) fn calibrate(command: &Calibrate) -> Result<(), Failure> {
    match command {
        Calibrate::Record(arguments) => record::run(arguments),
        Calibrate::Import(arguments) => import::run(arguments),
        Calibrate::Fit(arguments) => fit::run(arguments),
        Calibrate::Show(arguments) => show::run(arguments),
        Calibrate::Compare(arguments) => compare::run(arguments),
    }
}

/// Before the work, not after it: whether `out` may be written. It is never what the work reads, forced or not.
fn may_write(out: &Path, force: bool, read: &[&Path]) -> Result<(), Failure> {
    if !force && out.symlink_metadata().is_ok() {
        return Err(FileError::Exists(out.to_owned()).into());
    }
    let is_out =
        |path: &&Path| path.canonicalize().is_ok_and(|path| out.canonicalize().is_ok_and(|out| out == path));
    if read.iter().any(is_out) {
        let text = format!("{}: this file is read; give --out another name", out.display());
        return Err(Failure::Input(text));
    }
    Ok(())
}
