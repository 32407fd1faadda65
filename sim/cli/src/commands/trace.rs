//! `forebay trace`

use crate::arguments::{Format, TraceArguments};
use crate::failure::Failure;
use crate::table::write;
use crate::terminal::print;
use crate::units::{NONE, count, number, seconds};
use forebay_datasets::{Columns, bundled, read_trace};
use forebay_model::trace::{TokenSummary, TraceSummary};
use forebay_workbench::inputs::nearest;
use forebay_workbench::output::json;
use std::path::Path;

pub(crate) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    let (name, columns) = (arguments.trace.as_str(), arguments.columns());
    let bundled = bundled::trace(name);
    if bundled.is_some() && columns != Columns::default() {
        return Err(Failure::Input(format!("{name}: the columns of a bundled trace are known; name none")));
    }
    let read = match bundled {
        Some(trace) => trace.read(),
        None if !Path::new(name).exists() && Path::new(name).extension().is_none() => {
            return Err(unknown(name));
        }
        None => read_trace(Path::new(name), &columns),
    };
    let trace = read.map_err(|error| Failure::Input(with_options(&error.to_string())))?;
    let summary = trace.summary();
    match arguments.format {
        Format::Json => print(&json(&summary)),
        Format::Text => print(&text(&summary)),
    }
}

/// The keys that an error advises to set are those of a scenario; here they are options.
fn with_options(error: &str) -> String {
    const KEYS: [(&str, &str); 3] = [
        (
            "`columns = { time = …, time_unit = …, tokens_in = …, tokens_out = … }`",
            "--time, --time-unit, --tokens-in and --tokens-out",
        ),
        (
            "`time_unit = \"s\"`, \"ms\", \"us\", \"ns\" or \"datetime\"",
            "--time-unit s, ms, us, ns or datetime",
        ),
        ("`columns = { sort = true }` in a scenario, or `--sort` on the command line, sorts", "--sort sorts"),
    ];
    KEYS.iter().fold(error.to_owned(), |text, (key, option)| text.replace(key, option))
}

fn unknown(name: &str) -> Failure {
    let names: Vec<&str> = bundled::traces().map(|trace| trace.name).collect();
    let hint = nearest(name, names.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
    Failure::Input(format!(
        "there is no bundled trace and no file `{name}`{}\n  bundled: {}",
        hint.unwrap_or_default(),
        names.join(", ")
    ))
}

fn text(summary: &TraceSummary) -> String {
    let or_none = |value: Option<f64>, unit: &str| match value {
        Some(value) => format!("{}{unit}", number(value)),
        None => NONE.to_owned(),
    };
    let mut out = format!(
        "{}: {} requests in {}\n",
        summary.name,
        count(summary.requests as u64),
        seconds(summary.duration_s)
    );
    let line = |name: &str, value: String| vec![name.to_owned(), value];
    write(
        &mut out,
        &[
            line("rate", or_none(summary.rate_per_s, " /s")),
            line("busiest second", format!("{} requests", summary.peak_per_s)),
            line("variation of gaps (Poisson: 1)", or_none(summary.gap_cv, "")),
            line("burstiness: variance over mean per second (Poisson: 1)", or_none(summary.burstiness, "")),
        ],
    );
    out.push('\n');
    let tokens = |name: &str, tokens: &TokenSummary| {
        let mut cells = vec![name.to_owned(), number(tokens.mean)];
        cells.extend([tokens.p50, tokens.p90, tokens.p99, tokens.max].map(|n| count(u64::from(n))));
        cells.push(count(tokens.total));
        cells
    };
    let head = ["tokens", "mean", "p50", "p90", "p99", "max", "total"].map(str::to_owned).to_vec();
    write(&mut out, &[head, tokens("in", &summary.tokens_in), tokens("out", &summary.tokens_out)]);
    if !summary.classes.is_empty() {
        out.push('\n');
        let mut rows = vec![line("class", "requests".to_owned())];
        rows.extend(summary.classes.iter().map(|class| line(&class.class, count(class.requests as u64))));
        write(&mut out, &rows);
    }
    out
}
