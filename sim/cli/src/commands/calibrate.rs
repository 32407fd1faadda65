//! `forebay calibrate`: from what a machine shows to a calibration.

mod record;

use crate::failure::Failure;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Calibrate {
    /// Record what GPUs show, and drive an endpoint on them meanwhile.
    #[command(after_help = record::EXAMPLES)]
    Record(record::RecordArgs),
}

pub(crate) fn calibrate(command: &Calibrate) -> Result<(), Failure> {
    match command {
        Calibrate::Record(arguments) => record::run(arguments),
    }
}
