//! `forebay calibrate fit`: one file for each kind of calibration.

mod engine;

use crate::failure::Failure;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Fit {
    /// Fit an LLM engine to a request log alone: iteration cost, KV capacity, replicas.
    #[command(after_help = engine::EXAMPLES)]
    Engine(Box<engine::EngineArgs>),
}

pub(super) fn run(kind: &Fit) -> Result<(), Failure> {
    match kind {
        Fit::Engine(arguments) => engine::run(arguments),
    }
}
