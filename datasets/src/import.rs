//! Imports: other people's files, brought into the forms in which measurements go about here.
//!
//! | kind | what | becomes |
//! | --- | --- | --- |
//! | `nvidia-smi` | CSV of `nvidia-smi --query-gpu` | a [`crate::recording`] |
//! | `dmon` | text of `nvidia-smi dmon` | a recording |
//! | `dcgm` | scrapes of the DCGM exporter, or Prometheus' answer to `query_range` on its metrics | a recording |
//! | `vllm-metrics` | scrapes of vLLM's `/metrics`, or Prometheus' answer likewise | an [`crate::engine_series`] |
//! | `engine-csv` | CSV with a time and columns such as `running`, `waiting`, `kv_cache_pct` | an engine series |
//! | `requests` | request log in CSV, JSON lines or Parquet | a [`crate::request_log`] |
//!
//! The kind is told by the first lines, units are those of the target's columns, and clocks become one: local
//! times are read with an offset to UTC, and a log whose tokens are stamped by another clock than its arrivals
//! is joined as [`crate::fit::read_vllm_log`] does.
//!
//! What real files are full of (values that a device did not tell, headers in the middle, clocks that were set
//! back) is dropped, and the [`Report`] says what, why, how often and where first. What cannot be told apart
//! from good data is not guessed: a malformed file is refused with its place and what is allowed there.
//!
//! Alternatives rejected: one long table of (time, device, metric, value), which would keep every metric and
//! have the fits read three forms instead of one; and dropping malformed lines in silence, which is how a
//! wrong unit becomes a wrong calibration.

mod clock;
mod dcgm;
mod detect;
mod dmon;
mod engine;
mod error;
mod exposition;
mod gaps;
mod nvidia_smi;
mod options;
mod points;
mod quantity;
mod query_range;
mod report;
mod requests;
mod telemetry;
#[cfg(test)]
mod tests;

use std::path::Path;

pub use clock::UtcOffset;
pub use error::ImportError;
pub use options::{Kind, LogColumns, LogUnit, Options};
pub use report::{Gaps, Note, Report};
pub use telemetry::Telemetry;

use crate::engine_series::{self, EngineSample};
use crate::frames::{TableError, write_parquet};
use crate::request_log::RequestLog;
use crate::trace::problem::Problem;
use crate::trace::{Format, bytes_of, check_kind, text_of};
use error::{Fault, fault};
use report::Notes;

/// What a file became.
#[derive(Clone, Debug, PartialEq)]
pub enum Imported {
    /// Telemetry of GPUs.
    Recording(Telemetry),
    /// Metrics of LLM engines.
    Engines(Vec<EngineSample>),
    /// A request log.
    Requests(RequestLog),
}

impl Imported {
    /// Rows that there are.
    pub fn rows(&self) -> usize {
        match self {
            Self::Recording(telemetry) => telemetry.rows(),
            Self::Engines(samples) => samples.len(),
            Self::Requests(log) => log.requests.len(),
        }
    }

    /// Writes it as Parquet, whole or not at all.
    ///
    /// # Errors
    /// [`TableError`]: the file exists and may not be overwritten, or it cannot be written.
    pub fn write(&self, path: &Path, overwrite: bool) -> Result<(), TableError> {
        match self {
            Self::Recording(telemetry) => telemetry.write(path, overwrite),
            Self::Engines(samples) => write_parquet(path, &engine_series::table(samples), overwrite),
            Self::Requests(log) => write_parquet(path, &log.table(), overwrite),
        }
    }
}

/// Imports a file.
///
/// # Errors
/// [`ImportError`]: it cannot be read, is of no kind that is known here, is malformed, or needs an option that
/// is not given.
pub fn import(path: &Path, options: &Options) -> Result<(Imported, Report), ImportError> {
    let file = path.display().to_string();
    let bytes = bytes_of(path).map_err(|problem| Fault::from(problem).named(&file))?;
    let format = path.extension().and_then(|extension| Format::of_extension(&extension.to_string_lossy()));
    import_bytes(&file, format, &bytes, options)
}

/// Imports the content of a file. `name` stands for the file in errors; `format` is what its extension
/// promises, if anything.
///
/// # Errors
/// As [`import`].
pub fn import_bytes(
    name: &str,
    format: Option<Format>,
    bytes: &[u8],
    options: &Options,
) -> Result<(Imported, Report), ImportError> {
    read(name, format, bytes, options).map_err(|fault| fault.named(name))
}

fn read(
    name: &str,
    format: Option<Format>,
    bytes: &[u8],
    options: &Options,
) -> Result<(Imported, Report), Fault> {
    if let Err(Problem::OtherContent { found, .. }) = check_kind(Format::Csv, bytes)
        && !bytes.starts_with(b"PAR1")
    {
        return Err(fault(format!("the content is {found}; text is wanted, or Parquet of a request log")));
    }
    let kind = match options.from {
        Some(kind) => kind,
        None => detect::kind(bytes)?,
    };
    options.check(kind)?;
    let mut notes = Notes::default();
    let report = Report { file: name.to_owned(), kind, ..Report::default() };
    if kind == Kind::Requests {
        let format = detect::log_format(bytes).or(format).unwrap_or(Format::Csv);
        let log = requests::read(format, bytes, &options.log, options.utc_offset, &mut notes)?;
        let span_s = log.requests.last().map_or(0.0, |last| last.arrival_s);
        let served = Some(log.requests.iter().filter(|request| request.served()).count() as u64);
        let report = Report { rows: log.requests.len() as u64, served, span_s, ..report }.with(notes);
        return Ok((Imported::Requests(log), report));
    }
    let text = text_of(bytes)?;
    if text.trim().is_empty() {
        return Err(fault("the file is empty"));
    }
    let imported = match kind {
        Kind::NvidiaSmi => Imported::Recording(nvidia_smi::read(text, options, &mut notes)?),
        Kind::Dmon => Imported::Recording(dmon::read(text, options, &mut notes)?),
        Kind::Dcgm => Imported::Recording(dcgm::read(text, options, &mut notes)?),
        Kind::VllmMetrics => Imported::Engines(engine::read_metrics(text, options, &mut notes)?),
        Kind::EngineCsv | Kind::Requests => Imported::Engines(engine::read_csv(text, options, &mut notes)?),
    };
    let report = match &imported {
        Imported::Recording(telemetry) => telemetry.describe(report),
        Imported::Engines(samples) => engine::describe(samples, report),
        Imported::Requests(_) => report,
    };
    Ok((imported, report.with(notes)))
}
