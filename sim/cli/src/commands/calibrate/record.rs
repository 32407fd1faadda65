//! `forebay calibrate record`

use crate::arguments::Format;
use crate::failure::Failure;
use crate::table::{row, write};
use crate::terminal::{Bar, complain, print};
use crate::units::{NONE, count, seconds};
use anyhow::Context;
use clap::Args;
use forebay_datasets::record::load::{Endpoint, Key, Load, LoadError};
use forebay_datasets::record::{
    DeviceReport, Ended, Manifest, Options, Progress, RecorderError, Selector, record,
};
use forebay_workbench::output::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub(super) const EXAMPLES: &str = "Examples:\n  forebay calibrate record --every 10ms --for 60s --out out/gpu\n  \
     forebay calibrate record --load http://localhost:8000/v1 --model qwen --concurrency 1,4,16,64 --out out/load\n\n\
     Ctrl-C ends a recording; the files are complete then too. Exit codes: 0 recorded; 1 all devices were lost, \
     or no request was answered; 2 nothing was recorded.";

#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Time between two samples, 5ms to 1s.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    every: Duration,
    /// Longest time to record, such as 60s or 5m; absent: until the load is through, or Ctrl-C.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    limit: Option<Duration>,
    /// Devices: indexes (MIG devices go with theirs) or names such as GPU-… and MIG-…; absent: all.
    #[arg(long, value_name = "I,…", value_delimiter = ',')]
    device: Vec<Selector>,
    /// NVIDIA's management library, where it is not the system's.
    #[arg(long, value_name = "PATH")]
    library: Option<PathBuf>,
    /// Folder to write to: gpu.parquet, processes.parquet, requests.parquet with --load, manifest.json.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the files of an earlier recording there.
    #[arg(long)]
    force: bool,
    /// Send requests to an endpoint that speaks OpenAI's interface, by its http address up to /v1.
    #[arg(long, value_name = "URL", requires = "model")]
    load: Option<String>,
    /// Model to ask for.
    #[arg(long, value_name = "NAME", requires = "load")]
    model: Option<String>,
    /// Requests at once, of each step of the ladder.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8", requires = "load")]
    concurrency: Vec<u32>,
    /// Tokens of the prompt, of each step.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "128,1024", requires = "load")]
    tokens_in: Vec<u32>,
    /// Most tokens of the answer, of each step.
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "64,256", requires = "load")]
    tokens_out: Vec<u32>,
    /// Requests in each step.
    #[arg(long, value_name = "N", default_value_t = 20, requires = "load")]
    per_step: u32,
    /// Longest time for one request.
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = duration, requires = "load")]
    timeout: Duration,
    /// Have answers go on to the length asked for (vLLM knows it, others may refuse).
    #[arg(long, requires = "load")]
    ignore_eos: bool,
    /// Environment variable that holds the endpoint's key.
    #[arg(long, value_name = "VAR", requires = "load")]
    key_env: Option<String>,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No progress and no remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn run(arguments: &RecordArgs) -> Result<(), Failure> {
    let options = options(arguments)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal ends the recording, a second one the program.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .context("signals cannot be taken")?;
    }
    let mut bar = Bar::new(arguments.quiet);
    let manifest = record(&options, &stop, &mut |progress| bar.show(&line(progress, options.limit)))?;
    drop(bar);
    match arguments.format {
        Format::Json => print(&json(&manifest))?,
        Format::Text => print(&text(arguments, &manifest))?,
    }
    if !arguments.quiet {
        complain(&format!("written: {}", arguments.out.display()));
    }
    against(&manifest)
}

fn options(arguments: &RecordArgs) -> Result<Options, RecorderError> {
    let load = arguments.load.as_ref().map(|url| -> Result<Load, LoadError> {
        let load = Load {
            endpoint: Endpoint::parse(url)?,
            model: arguments.model.clone().unwrap_or_default(),
            key: arguments.key_env.as_deref().map(Key::from_environment).transpose()?,
            concurrency: arguments.concurrency.clone(),
            tokens_in: arguments.tokens_in.clone(),
            tokens_out: arguments.tokens_out.clone(),
            per_step: arguments.per_step,
            timeout: arguments.timeout,
            ignore_eos: arguments.ignore_eos,
        };
        load.check()?;
        Ok(load)
    });
    Ok(Options {
        period: arguments.every,
        limit: arguments.limit,
        devices: arguments.device.clone(),
        library: arguments.library.clone(),
        out: arguments.out.clone(),
        overwrite: arguments.force,
        load: load.transpose()?,
    })
}

/// What was found against the user, after it was recorded and told.
fn against(manifest: &Manifest) -> Result<(), Failure> {
    if manifest.ended == Ended::Devices {
        return Err(Failure::Against("all devices were lost before the end".to_owned()));
    }
    match &manifest.load {
        Some(load) if load.requests > 0 && !load.by_status.contains_key("answered") => {
            Err(Failure::Against(format!("{} answered none of {} requests", load.url, load.requests)))
        }
        _ => Ok(()),
    }
}

/// The progress, on one line.
fn line(progress: &Progress, limit: Option<Duration>) -> String {
    const WIDTH: usize = 24;
    let share = match limit {
        _ if progress.requests_all > 0 => Some(progress.requests as f64 / progress.requests_all as f64),
        Some(limit) => Some(progress.elapsed_s / limit.as_secs_f64()),
        None => None,
    };
    let mut line = String::new();
    if let Some(share) = share {
        let full = (share.clamp(0.0, 1.0) * WIDTH as f64) as usize;
        let _ = write!(line, "{}{} ", "█".repeat(full), "░".repeat(WIDTH - full));
    }
    let _ = write!(line, "{:.0} s, {} rows", progress.elapsed_s, count(progress.rows));
    if progress.lost > 0 {
        let _ = write!(line, ", {} of {} devices lost", progress.lost, progress.lost + progress.devices);
    }
    if progress.requests_all > 0 {
        let (ended, all) = (count(progress.requests), count(progress.requests_all));
        let _ = write!(line, ", {ended} of {all} requests, {} not answered", count(progress.failed));
    }
    line
}

fn text(arguments: &RecordArgs, manifest: &Manifest) -> String {
    let why = match manifest.ended {
        Ended::Time => "the time was over",
        Ended::Load => "the load was through",
        Ended::Stopped => "it was stopped",
        Ended::Devices => "all devices were lost",
    };
    let rows: u64 = manifest.devices.iter().map(|device| device.rows).sum();
    let mut out = format!(
        "{}: {} rows in {}; {why}\n",
        arguments.out.display(),
        count(rows),
        seconds(manifest.duration_s)
    );
    let mut table = vec![row(["device", "rows", "missed", "gap p50", "p99", "max", "slowest"])];
    table.extend(manifest.devices.iter().map(cells));
    write(&mut out, &table);
    for device in &manifest.devices {
        remarks(&mut out, device);
    }
    for absent in &manifest.absent {
        let _ = writeln!(out, "{absent}");
    }
    if let Some(load) = &manifest.load {
        let statuses: Vec<String> =
            load.by_status.iter().map(|(status, n)| format!("{} {status}", count(*n))).collect();
        let _ = writeln!(out, "{}: {} requests: {}", load.url, count(load.requests), statuses.join(", "));
        if let Some(why) = &load.broken_off {
            let _ = writeln!(out, "the load was broken off: {why}");
        }
    }
    out
}

fn title(device: &DeviceReport) -> String {
    match device.mig {
        Some(mig) => format!("{} {} (MIG {mig} of {})", device.device, device.name, device.index),
        None => format!("{} {}", device.device, device.name),
    }
}

fn cells(device: &DeviceReport) -> Vec<String> {
    let gap = |gap: Option<f64>| gap.map_or_else(|| NONE.to_owned(), seconds);
    vec![
        title(device),
        count(device.rows),
        count(device.missed),
        gap(device.gaps.p50_s),
        gap(device.gaps.p99_s),
        gap(device.gaps.max_s),
        seconds(device.slowest_s),
    ]
}

fn remarks(out: &mut String, device: &DeviceReport) {
    let number = device.device;
    if let (Some(at_s), Some(why)) = (device.lost_at_s, &device.lost_why) {
        let _ = writeln!(out, "device {number} was lost after {}: {why}", seconds(at_s));
    }
    if device.hung {
        let _ = writeln!(out, "device {number}: a call had not returned at the end");
    }
    for untold in &device.untold {
        let _ = writeln!(out, "device {number} does not tell {}: {}", untold.what, untold.why);
    }
    if device.failures > 0 {
        let _ = writeln!(out, "device {number}: {} calls failed and left nulls", count(device.failures));
    }
}

/// A time such as `5ms`, `1.5s`, `2m` or `1h`.
fn duration(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let wrong = || format!("`{text}` is no time; such are 5ms, 1.5s, 2m and 1h");
    // `ms` ends in `s` too, and stands first.
    let (number, unit_s) =
        UNITS.iter().find_map(|(unit, s)| Some((text.strip_suffix(unit)?, *s))).ok_or_else(wrong)?;
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let duration = Duration::try_from_secs_f64(number * unit_s).map_err(|_| wrong())?;
    if duration.is_zero() { Err(wrong()) } else { Ok(duration) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, ms) in [("5ms", 5), ("0.1s", 100), ("1s", 1000), ("2m", 120_000), ("1h", 3_600_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "ms", "-1s", "0s", "1d", "NaNs", "infs", "1e30h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_bar_stays_within_its_width() {
        for elapsed_s in [0.0, 5.0, 60.0, 70.0] {
            let progress = Progress { elapsed_s, ..Progress::default() };
            let line = line(&progress, Some(Duration::from_mins(1)));
            assert_eq!(line.chars().filter(|char| "█░".contains(*char)).count(), 24, "{line}");
        }
    }
}
