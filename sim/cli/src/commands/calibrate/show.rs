//! `forebay calibrate show`

use crate::failure::Failure;
use clap::Args;

pub(super) const EXAMPLES: &str = "";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {}

pub(super) fn run(_: &ShowArgs) -> Result<(), Failure> {
    Ok(())
}
