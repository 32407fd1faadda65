//! `forebay calibrate import`

use super::log::LogArgs;
use super::may_write;
use crate::arguments::Format;
use crate::failure::Failure;
use crate::table::write_indented;
use crate::terminal::{complain, print};
use crate::units::{count, seconds};
use clap::Args;
use forebay_datasets::frames::TableError;
use forebay_datasets::import::{Kind, Note, Options, Report, import};
use forebay_workbench::output::json;
use std::fmt::Write;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:\n  forebay calibrate import gpu.csv --utc-offset +02:00 --out gpu.parquet\n  \
     forebay calibrate import metrics.txt --every 5 --out engine.parquet\n  \
     forebay calibrate import log.csv --arrival ts --arrival-unit datetime --tokens-in prompt --tokens-out completion \
     --ttft ttft_ms --latency e2e_ms --duration-unit ms --out log.parquet";

/// Sources that are named in the text; a fleet has thousands.
const MOST_SOURCES: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// File of another tool: CSV of `nvidia-smi --query-gpu`, text of `nvidia-smi dmon`, scrapes of the DCGM
    /// exporter or of vLLM, Prometheus' answer to `query_range`, a request log in CSV, JSON lines or Parquet.
    file: PathBuf,
    /// Parquet file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Kind of the file; default: told by its first lines.
    #[arg(long, value_name = "KIND", value_parser = kind())]
    from: Option<Kind>,
    /// Names of the columns of a CSV of nvidia-smi without a header, as --query-gpu has them.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    columns: Vec<String>,
    /// Seconds between two rows or scrapes, of a file that does not tell when they were.
    #[arg(long, value_name = "SECONDS")]
    every: Option<f64>,
    /// Day of the first row, of a file that tells the time of day alone, such as 2026-07-23.
    #[arg(long, value_name = "DAY")]
    date: Option<String>,
    /// Device that all rows are of, where the file does not say.
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Sort telemetry by time, instead of dropping rows that go back.
    #[arg(long)]
    sort: bool,
    #[command(flatten)]
    log: LogArgs,
    /// Replace a file that exists.
    #[arg(long)]
    force: bool,
    /// Form of the report on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

fn kind() -> impl clap::builder::TypedValueParser<Value = Kind> {
    use clap::builder::{PossibleValuesParser, TypedValueParser};
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>())
}

pub(super) fn run(arguments: &ImportArgs) -> Result<(), Failure> {
    let options = Options {
        from: arguments.from,
        utc_offset: arguments.log.utc_offset,
        columns: arguments.columns.clone(),
        every_s: arguments.every,
        date: arguments.date.clone(),
        device: arguments.device,
        sort: arguments.sort,
        log: arguments.log.columns(),
    };
    may_write(&arguments.out, arguments.force, &[&arguments.file])?;
    let (imported, report) =
        import(&arguments.file, &options).map_err(|error| Failure::Input(error.to_string()))?;
    imported.write(&arguments.out, arguments.force).map_err(unwritten)?;
    match arguments.format {
        Format::Json => print(&json(&report))?,
        Format::Text => print(&text(&report))?,
    }
    if !arguments.quiet {
        complain(&format!("written: {}", arguments.out.display()));
    }
    Ok(())
}

/// A path that cannot be written to is the user's to mend.
fn unwritten(error: TableError) -> Failure {
    match error {
        TableError::File(error) => Failure::Input(error.to_string()),
        other => Failure::Other(other.into()),
    }
}

fn text(report: &Report) -> String {
    let mut out = format!("{}: {} rows of the kind {}", report.file, count(report.rows), report.kind);
    let _ = write!(out, " over {}", seconds(report.span_s));
    if let Some(period_s) = report.period_s {
        let _ = write!(out, ", one each {}", seconds(period_s));
    }
    out.push('\n');
    if let Some(served) = report.served {
        let _ =
            writeln!(out, "{} requests were served, {} were not", count(served), count(report.rows - served));
    }
    if !report.sources.is_empty() {
        let more = report.sources.len().saturating_sub(MOST_SOURCES);
        let shown = report.sources[..report.sources.len() - more].join(", ");
        let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
        let _ = writeln!(out, "from {shown}{more}");
    }
    match &report.gaps {
        Some(gaps) => {
            let _ = writeln!(
                out,
                "gaps of more than three periods: {}, {} in all; the longest, {}, ends at {}",
                count(gaps.count),
                seconds(gaps.total_s),
                seconds(gaps.longest_s),
                gaps.longest_before
            );
        }
        None if report.period_s.is_some() => out.push_str("no gaps of more than three periods\n"),
        None => {}
    }
    if !report.kept.is_empty() {
        let _ = writeln!(out, "kept beside the columns of recordings: {}", report.kept.join(", "));
    }
    notes(&mut out, "dropped", &report.dropped);
    notes(&mut out, "note", &report.remarks);
    if report.dropped.is_empty() {
        out.push_str("nothing was dropped\n");
    }
    out
}

fn notes(out: &mut String, title: &str, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    let _ = writeln!(out, "{title}");
    let rows: Vec<Vec<String>> = notes
        .iter()
        .map(|note| vec![note.what.clone(), count(note.count), format!("first at {}", note.first)])
        .collect();
    write_indented(out, "  ", &rows);
}
