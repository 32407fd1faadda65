//! `forebay calibrate fit`: one kind of fit per file; what they share is here.

mod curves;
mod engine;
mod laws;
mod phases;
mod vram;

use super::may_write;
use crate::arguments::Format;
use crate::failure::Failure;
use crate::table::write_indented;
use crate::terminal::{complain, print};
use crate::units::{count, number};
use clap::{Args, Subcommand, ValueEnum};
use forebay_datasets::columns::{Columns, Kind};
use forebay_datasets::files::{FileError, write_whole};
use forebay_datasets::fit::calibration::{Evidence, sha256};
use forebay_datasets::fit::robust::Estimate;
use forebay_datasets::fit::{Calibration, Source};
use forebay_workbench::clock::today;
use forebay_workbench::output::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub(super) const EXAMPLES: &str = "Examples:\n  forebay calibrate fit service calls.csv --column service_ms --unit ms --out desk.toml\n  \
     forebay calibrate fit vram gpu.parquet requests.parquet --out vram.toml\n  \
     forebay calibrate fit decode sweep.csv --x batch --y itl_ms --unit ms --where gpu=H100 --out decode.toml";

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    #[command(subcommand)]
    kind: FitKind,
}

#[derive(Debug, Subcommand)]
enum FitKind {
    /// Fit an LLM engine to a request log alone: iteration cost, KV capacity, replicas.
    #[command(after_help = engine::EXAMPLES)]
    Engine(Box<engine::EngineArgs>),
    /// Time per token against batch size: a curve.
    Decode(curves::CurveArgs),
    /// Power against batch size or load, from a table or a recording: a curve.
    Power(curves::PowerArgs),
    /// Prefill and decode against prompt length and batch size.
    Phases(phases::PhasesArgs),
    /// A service time or a length: the law that is likeliest.
    Service(laws::ServiceArgs),
    /// Rerank time: base, per document, and the law of what is left.
    Rerank(laws::RerankArgs),
    /// GPU memory: weights, bytes per token, per document and per call, and the allocator.
    Vram(vram::VramArgs),
}

pub(super) fn run(arguments: &FitArgs) -> Result<(), Failure> {
    match &arguments.kind {
        FitKind::Engine(arguments) => engine::run(arguments),
        FitKind::Decode(arguments) => curves::decode(arguments),
        FitKind::Power(arguments) => curves::power(arguments),
        FitKind::Phases(arguments) => phases::run(arguments),
        FitKind::Service(arguments) => laws::service(arguments),
        FitKind::Rerank(arguments) => laws::rerank(arguments),
        FitKind::Vram(arguments) => vram::run(arguments),
    }
}

/// What all fits take.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Calibration file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// What the data are and who measured them; default: the names of the files.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// Licence of the data.
    #[arg(long, value_name = "TEXT", default_value = "not stated")]
    license: String,
    /// Exit with 1 when the median error on the held-out part is larger than this, percent.
    #[arg(long, value_name = "PERCENT")]
    within: Option<f64>,
    /// Replace a file that exists.
    #[arg(long)]
    force: bool,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

/// Rows of a table, by what stands in it.
#[derive(Debug, Args)]
pub(super) struct Rows {
    /// Only rows whose column holds this text; repeatable.
    #[arg(long = "where", value_name = "COLUMN=VALUE", value_parser = equation)]
    only: Vec<(String, String)>,
}

fn equation(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("allowed: COLUMN=VALUE")?;
    Ok((column.trim().to_owned(), value.trim().to_owned()))
}

/// Unit of a column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TimeUnit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl TimeUnit {
    fn seconds(self) -> f64 {
        match self {
            Self::S => 1.0,
            Self::Ms => 1e-3,
            Self::Us => 1e-6,
            Self::Ns => 1e-9,
        }
    }
}

impl Common {
    /// Before the work, which reads `data`, not after it.
    fn check_out(&self, data: &[&Path]) -> Result<(), Failure> {
        may_write(&self.out, self.force, data)
    }

    fn source_of(&self, data: &[&Path]) -> Source {
        let names = data.iter().filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let data = self.source.clone().unwrap_or_else(|| names.collect::<Vec<_>>().join(", "));
        Source { data, license: self.license.clone(), fitted: today() }
    }

    /// Writes the calibration, prints it, and judges it by `--within`.
    fn finish(&self, calibration: &Calibration, report: &Report) -> Result<(), Failure> {
        let text = calibration
            .to_toml()
            .map_err(|error| Failure::Other(anyhow::anyhow!("the calibration cannot be written: {error}")))?;
        write_whole(&self.out, text.as_bytes(), self.force)?;
        match self.format {
            Format::Json => print(&json(calibration))?,
            Format::Text => print(&report.text())?,
        }
        if !self.quiet {
            complain(&format!("written: {}", self.out.display()));
        }
        let worst = report.judged.iter().map(|(_, evidence)| evidence.held_out_error).fold(0.0, f64::max);
        match self.within {
            Some(within) if worst > within => Err(Failure::Against(format!(
                "the held-out error is {worst} %, and --within allows {within} %"
            ))),
            _ => Ok(()),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Input(error.to_string())
    }
}

/// Reads columns of a table, with the rows that are wanted; and the hash of the file.
fn table(path: &Path, wanted: &[(&str, Kind)], rows: Option<&Rows>) -> Result<(Columns, String), Failure> {
    let only = rows.map(|rows| rows.only.as_slice()).unwrap_or_default();
    let mut all = wanted.to_vec();
    all.extend(only.iter().map(|(column, _)| (column.as_str(), Kind::Text)));
    let (mut columns, bytes) = Columns::read(path, &all).map_err(|error| wrong(path, &error))?;
    columns.keep(only).map_err(|error| wrong(path, &error))?;
    Ok((columns, sha256(&bytes)))
}

/// An error of a file, with its name unless the error has it.
fn wrong(path: &Path, error: &impl ToString) -> Failure {
    let (path, text) = (path.display().to_string(), error.to_string());
    Failure::Input(if text.starts_with(&path) { text } else { format!("{path}: {text}") })
}

/// One screen about a fit.
#[derive(Default)]
pub(super) struct Report {
    title: String,
    numbers: Vec<Vec<String>>,
    judged: Vec<(&'static str, Evidence)>,
    remarks: Vec<String>,
}

impl Report {
    fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    fn estimate(&mut self, name: &str, estimate: Estimate, unit: &str) {
        let error = estimate.standard_error.map_or_else(|| "-".to_owned(), |error| format!("{error:.2e}"));
        let interval = estimate
            .ci95
            .map_or_else(|| "-".to_owned(), |[least, most]| format!("[{least:.4e}, {most:.4e}]"));
        let value = format!("{:.4e}", estimate.value);
        self.numbers.push(vec![name.to_owned(), value, error, interval, unit.to_owned()]);
    }

    fn judge(&mut self, what: &'static str, evidence: &Evidence) {
        self.judged.push((what, evidence.clone()));
    }

    fn remark(&mut self, text: impl Into<String>) {
        self.remarks.push(text.into());
    }

    fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        if !self.numbers.is_empty() {
            let head =
                ["", "estimate", "standard error", "95 % interval", "unit"].map(str::to_owned).to_vec();
            let rows: Vec<_> = std::iter::once(head).chain(self.numbers.iter().cloned()).collect();
            write_indented(&mut out, "  ", &rows);
        }
        for (what, evidence) in &self.judged {
            let _ = writeln!(
                out,
                "{what}: median error {} % on the {} rows held out (worst {} %), {} % on the {} fitted",
                number(evidence.held_out_error),
                count(evidence.rows[1] as u64),
                number(evidence.held_out_worst),
                number(evidence.fitted_error),
                count(evidence.rows[0] as u64),
            );
        }
        for remark in &self.remarks {
            let _ = writeln!(out, "{remark}");
        }
        out
    }
}
