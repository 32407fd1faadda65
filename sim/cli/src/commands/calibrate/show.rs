//! `forebay calibrate show`

use crate::arguments::Format;
use crate::failure::Failure;
use crate::table::{Mark, chart, write_indented};
use crate::terminal::print;
use clap::Args;
use forebay_workbench::output::json;
use forebay_workbench::sheet::{Line, Plot, Sheet, SheetError, against, open};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:\n  forebay calibrate show vllm-rtx4090-llama-3.1-8b\n  \
     forebay calibrate show mine.toml requests.jsonl";

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Name of a bundled calibration, or path of a calibration file.
    calibration: String,
    /// Data to plot the fit against: of an engine a request log, of a time per token the table it comes from.
    data: Option<PathBuf>,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

/// For programs.
#[derive(Serialize)]
struct Shown {
    calibration: Sheet,
    plots: Vec<Plot>,
}

pub(super) fn run(arguments: &ShowArgs) -> Result<(), Failure> {
    let (calibration, sheet) = open(&arguments.calibration)?;
    let plots =
        arguments.data.as_ref().map(|data| against(&calibration, data)).transpose()?.unwrap_or_default();
    match arguments.format {
        Format::Json => print(&json(&Shown { calibration: sheet, plots })),
        Format::Text => print(&text(&sheet, &plots)),
    }
}

fn text(sheet: &Sheet, plots: &[Plot]) -> String {
    let mut out = format!("{}: a calibration of the kind {}\n", sheet.name, sheet.kind);
    let first = sheet.head.split(String::is_empty).next().unwrap_or_default();
    for line in first {
        let _ = writeln!(out, "{line}");
    }
    for (title, lines) in [
        ("source", &sheet.source),
        ("fitted", &sheet.coefficients),
        ("settings", &sheet.settings),
        ("measured run", &sheet.run),
        ("measured range", &sheet.range),
        ("errors", &sheet.errors),
    ] {
        section(&mut out, title, lines);
    }
    for plot in sheet.curves.iter().chain(plots) {
        out.push('\n');
        let marks: Vec<Mark> = plot.points.iter().map(|&(x, y, sign)| Mark { x, y, sign }).collect();
        chart(&mut out, &plot.title, &marks, None, None);
        for remark in &plot.remarks {
            let _ = writeln!(out, "{remark}");
        }
    }
    out
}

fn section(out: &mut String, title: &str, lines: &[Line]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}");
    if title == "source" {
        for line in lines {
            let _ = writeln!(out, "  {}: {}", last(&line.key), line.value);
        }
        return;
    }
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            let error = line.standard_error.as_ref().map_or_else(String::new, |error| format!("± {error}"));
            vec![line.key.clone(), line.value.clone(), error, line.unit.clone()]
        })
        .collect();
    // A column that is empty throughout would only leave a hole.
    let some = rows.iter().any(|row| !row[2].is_empty());
    let kept = |mut row: Vec<String>| {
        if !some {
            row.remove(2);
        }
        row
    };
    write_indented(out, "  ", &rows.into_iter().map(kept).collect::<Vec<_>>());
    if title == "fitted" && !some {
        out.push_str("  the file gives no standard errors\n");
    }
}

fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

impl From<SheetError> for Failure {
    fn from(error: SheetError) -> Self {
        Self::Input(error.to_string())
    }
}
