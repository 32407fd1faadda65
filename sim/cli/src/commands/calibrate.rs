//! `forebay calibrate`: from what a machine shows to a calibration.

mod compare;
mod compare_screen;
mod fit;
mod import;
mod log;
mod show;

use crate::failure::Failure;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Calibrate {
    /// Bring telemetry, engine metrics and request logs of other tools into Parquet, and say what was dropped.
    #[command(after_help = import::EXAMPLES)]
    Import(import::ImportArgs),
    /// Fit a calibration to what was measured, and judge it by what the fit did not see.
    #[command(subcommand)]
    Fit(fit::Fit),
    /// Show a calibration: origin, coefficients, range, errors; and the fit against its data.
    #[command(after_help = show::EXAMPLES)]
    Show(show::ShowArgs),
    /// Hold a simulated run against a real request log: percentiles, and queue and KV cache over time.
    #[command(after_help = compare::EXAMPLES)]
    Compare(compare::CompareArgs),
}

pub(crate) fn calibrate(command: &Calibrate) -> Result<(), Failure> {
    match command {
        Calibrate::Import(arguments) => import::run(arguments),
        Calibrate::Fit(kind) => fit::run(kind),
        Calibrate::Show(arguments) => show::run(arguments),
        Calibrate::Compare(arguments) => compare::run(arguments),
    }
}
