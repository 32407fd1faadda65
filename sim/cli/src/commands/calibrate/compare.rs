//! `forebay calibrate compare`

use super::compare_screen::screen;
use super::log::LogArgs;
use crate::arguments::Format;
use crate::failure::Failure;
use crate::terminal::print;
use clap::Args;
use forebay_datasets::engine_series::{self, EngineSample};
use forebay_datasets::import::{Imported, Options, import};
use forebay_workbench::compare::{CompareError, Side, compare, read_run};
use forebay_workbench::output::json;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "Examples:\n  forebay run replay.toml --requests --out out/replay\n  \
     forebay calibrate compare out/replay requests.jsonl --series timeseries.csv\n  \
     forebay calibrate compare out/replay requests.jsonl --skip 150 --within 3";

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Folder of a run with --requests.
    simulated: PathBuf,
    /// Real request log: CSV, JSON lines or Parquet, or what `calibrate import` made of one.
    log: PathBuf,
    /// What the real engines told of themselves: scrapes of vLLM, a table, or what `calibrate import` made of them.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Leave so many requests at the beginning out of the latencies, such as those that a fit has seen.
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: usize,
    /// Exit with 1 when a mean, or the latency's p99, is off by more than so many percent.
    #[arg(long, value_name = "PERCENT")]
    within: Option<f64>,
    #[command(flatten)]
    columns: LogArgs,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(arguments: &CompareArgs) -> Result<(), Failure> {
    if arguments.within.is_some_and(|percent| !(percent > 0.0 && percent.is_finite())) {
        return Err(Failure::Input("--within takes percent, above 0".to_owned()));
    }
    let simulated = read_run(&arguments.simulated)?;
    let measured = measured(arguments)?;
    let series =
        arguments.series.as_ref().map(|path| series(path, arguments)).transpose()?.unwrap_or_default();
    let comparison = compare(&simulated, &measured, &series, arguments.skip)?;
    match arguments.format {
        Format::Json => print(&json(&comparison))?,
        Format::Text => print(&screen(&simulated.name, &measured.name, &comparison))?,
    }
    match (arguments.within, comparison.worst_percent()) {
        (Some(limit), Some(worst)) if worst > limit => Err(Failure::Against(format!(
            "the worst of the means and the latency's p99 is off by {worst:.2} %, beyond {limit} %"
        ))),
        (Some(_), None) => {
            Err(Failure::Against("some of the log's means are 0: errors cannot be told".to_owned()))
        }
        _ => Ok(()),
    }
}

fn measured(arguments: &CompareArgs) -> Result<Side, Failure> {
    let log = arguments.columns.read(&arguments.log, arguments.quiet)?;
    Ok(Side { name: arguments.log.display().to_string(), log, kv: Vec::new() })
}

fn series(path: &Path, arguments: &CompareArgs) -> Result<Vec<EngineSample>, Failure> {
    let is_parquet = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    if is_parquet {
        return engine_series::read(path).map_err(|error| Failure::Input(error.to_string()));
    }
    let options = Options { utc_offset: arguments.columns.utc_offset, ..Options::default() };
    match import(path, &options).map_err(|error| Failure::Input(error.to_string()))? {
        (Imported::Engines(samples), _) => Ok(samples),
        (_, report) => {
            let kind = report.kind;
            Err(Failure::Input(format!(
                "{}: this is of the kind {kind}; engine metrics are wanted",
                path.display()
            )))
        }
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        Self::Input(error.to_string())
    }
}
