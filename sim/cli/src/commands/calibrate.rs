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
