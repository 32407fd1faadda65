//! `forebay calibrate fit engine`

use super::super::log::LogArgs;
use super::super::may_write;
use crate::arguments::Format;
use crate::failure::Failure;
use crate::table::{row, write_indented};
use crate::terminal::{complain, print};
use crate::units::{count, number, seconds};
use clap::{Args, ValueEnum};
use forebay_datasets::files::write_whole;
use forebay_datasets::fit::joint::{Inference, KvCapacity, Spread, Window};
use forebay_datasets::fit::{
    BatchingCalibration, Calibration, EngineFlags, LatencyErrors, ObservedRequest, Source, fit_engine,
};
use forebay_workbench::clock::{Stopwatch, today};
use forebay_workbench::output::json;
use std::fmt::Write;
use std::path::PathBuf;

pub(super) const EXAMPLES: &str = "Examples:\n  forebay calibrate fit engine requests.jsonl --max-seqs 256 --out engine.toml\n  \
     forebay calibrate fit engine log.csv --max-seqs 128 --max-batched-tokens 8192 --replicas 4 --spread round-robin \
     --out engine.toml\nThen, in a scenario: stages.llm.calibration = \"engine.toml\"";

#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Request log: arrival, tokens in and out, first and last token of each request. CSV, JSON lines or Parquet, as
    /// `calibrate import` reads them.
    log: PathBuf,
    /// Most sequences in the batch of one engine (vLLM: `max_num_seqs`).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    max_seqs: u32,
    /// Most tokens computed in one iteration (vLLM: `max_num_batched_tokens`).
    #[arg(long, value_name = "N", default_value_t = 2048)]
    max_batched_tokens: u32,
    /// Tokens in a KV block.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    block_tokens: u32,
    /// KV blocks of one engine (vLLM prints `num_gpu_blocks` at start); default: inferred.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    kv_blocks: Option<u32>,
    /// Engines behind the log; default: inferred.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    replicas: Option<u32>,
    /// How requests are spread over them; default: inferred.
    #[arg(long, value_enum, value_name = "HOW")]
    spread: Option<How>,
    /// The engine does not compose the next iteration while one runs (vLLM: no `async_scheduling`).
    #[arg(long)]
    no_async_scheduling: bool,
    #[command(flatten)]
    columns: LogArgs,
    /// Calibration file to write.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a file that exists.
    #[arg(long)]
    force: bool,
    /// What the log is of and who published it, for the file; default: the log's path.
    #[arg(long, value_name = "TEXT")]
    data: Option<String>,
    /// Licence of the log, for the file.
    #[arg(long, value_name = "TEXT", default_value = "not stated")]
    license: String,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum How {
    /// One engine after the other.
    RoundRobin,
    /// The engine with fewest requests.
    LeastLoaded,
    /// Engines that wait for each other in every iteration, as spread experts make them do.
    Lockstep,
}

impl EngineArgs {
    fn flags(&self) -> EngineFlags {
        EngineFlags {
            block_tokens: self.block_tokens,
            kv_blocks: self.kv_blocks,
            replicas: self.replicas,
            spread: self.spread.map(|how| match how {
                How::RoundRobin => Spread::RoundRobin,
                How::LeastLoaded => Spread::LeastLoaded,
                How::Lockstep => Spread::Lockstep,
            }),
            async_scheduling: !self.no_async_scheduling,
            ..EngineFlags::new(self.max_seqs, self.max_batched_tokens)
        }
    }

    /// The requests that were served and are told completely; what was left out is told on standard error.
    fn read(&self) -> Result<Vec<ObservedRequest>, Failure> {
        let log = self.columns.read(&self.log, self.quiet)?;
        let observed = log.observed();
        let left_out = log.requests.len() - observed.len();
        if left_out > 0 && !self.quiet {
            let left_out = count(left_out as u64);
            complain(&format!(
                "{}: {left_out} were not served, or tell no tokens or times",
                self.log.display()
            ));
        }
        Ok(observed)
    }
}

pub(super) fn run(arguments: &EngineArgs) -> Result<(), Failure> {
    if let Some(out) = &arguments.out {
        may_write(out, arguments.force, &[&arguments.log])?;
    }
    let watch = Stopwatch::start();
    let log = arguments.read()?;
    let read_s = watch.elapsed_s();
    let fit = fit_engine(&log, &arguments.flags())
        .map_err(|error| Failure::Input(format!("{}: {error}", arguments.log.display())))?;
    let source = Source {
        data: arguments.data.clone().unwrap_or_else(|| arguments.log.display().to_string()),
        license: arguments.license.clone(),
        fitted: today(),
    };
    let calibration = BatchingCalibration::of_log(source, &fit);
    match arguments.format {
        Format::Json => print(&json(&calibration))?,
        Format::Text => print(&text(&calibration))?,
    }
    if !arguments.quiet {
        let fit_s = watch.elapsed_s() - read_s;
        complain(&format!("read in {}, fitted in {}", seconds(read_s), seconds(fit_s)));
    }
    if let Some(out) = &arguments.out {
        let content = toml::to_string(&Calibration::Batching(Box::new(calibration)))
            .map_err(|error| Failure::Other(error.into()))?;
        write_whole(out, content.as_bytes(), arguments.force)
            .map_err(|error| Failure::Input(error.to_string()))?;
        if !arguments.quiet {
            complain(&format!("written: {}", out.display()));
        }
    }
    Ok(())
}

fn text(calibration: &BatchingCalibration) -> String {
    let mut out = String::new();
    let Some(found) = &calibration.inference else { return out };
    let engines = match (found.replicas, found.spread) {
        (1, _) => "one engine".to_owned(),
        (n, Spread::RoundRobin) => format!("{n} engines, one after the other"),
        (n, Spread::LeastLoaded) => format!("{n} engines, the least loaded first"),
        (n, Spread::Lockstep) => format!("{n} engines in lockstep, simulated as one"),
    };
    let blocks = count(u64::from(calibration.engine.kv_blocks));
    let kv = match found.kv {
        KvCapacity::Given => format!("{blocks} KV blocks, as given"),
        KvCapacity::Inferred => format!("{blocks} KV blocks, inferred: requests waited for room"),
        KvCapacity::AtLeast => format!("KV cache not binding: at least {blocks} blocks"),
    };
    let _ = writeln!(out, "{engines}; {kv}\n");
    let mut rows = vec![row(["fitted", "value", "standard error", "95 %"])];
    rows.extend(found.coefficients.iter().map(|of| {
        let interval = format!("{} to {}", number(of.interval[0]), number(of.interval[1]));
        vec![of.parameter.field().to_owned(), number(of.value), number(of.standard_error), interval]
    }));
    write_indented(&mut out, "", &rows);
    if calibration.run.start_delay_s > 0.0 {
        let _ = writeln!(
            out,
            "the server was {} late on its first iterations",
            seconds(calibration.run.start_delay_s)
        );
    }
    out.push('\n');
    write_indented(&mut out, "", &errors(calibration));
    windows(&mut out, found);
    out
}

fn errors(calibration: &BatchingCalibration) -> Vec<Vec<String>> {
    let line = |name: &str, errors: &LatencyErrors| {
        let mut cells = vec![name.to_owned()];
        cells.extend(errors.all().map(|error| format!("{error:+.2} %")));
        cells
    };
    vec![
        row(["errors", "TTFT mean", "latency mean", "latency p99", "TPOT mean"]),
        line("fitted", &calibration.errors.fitted),
        line("held out", &calibration.errors.held_out),
    ]
}

fn windows(out: &mut String, found: &Inference) {
    let line = |name: &str, window: &Window| {
        let [from_s, to_s] = window.arrivals_s;
        vec![
            name.to_owned(),
            format!(
                "{} to {}",
                count(window.first as u64),
                count((window.first + window.requests - 1) as u64)
            ),
            format!("{from_s:.1} s to {to_s:.1} s"),
            count(window.warm_up as u64),
        ]
    };
    let mut rows = vec![row(["part of the log", "requests", "arrivals", "warm-up"])];
    rows.extend(found.fitted_on.iter().map(|window| line("fitted", window)));
    rows.extend(found.judged_on.iter().map(|window| line("held out", window)));
    out.push('\n');
    write_indented(out, "", &rows);
}
