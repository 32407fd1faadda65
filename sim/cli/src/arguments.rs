//! The command line.

use crate::commands::calibrate::Calibrate;
use crate::failure::Failure;
use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_datasets::{Columns, TimeUnit, bundled};
use forebay_model::document::Setting;
use forebay_workbench::spans::MOST_REQUESTS;
use forebay_workbench::tune::Overrides;
use forebay_workbench::{Opened, Workers, open};
use std::path::PathBuf;

/// Finds the thresholds of services that answer with large language models, by simulation.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = bundled_scenarios())]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Simulate a scenario and print one screen: outcomes, latencies, levels, stages, findings.
    #[command(
        after_help = "Examples:\n  forebay run shop-peak-mini --set fallback.l2.vram_above=0.87 --out out/try\n  \
                            forebay run rag-burst --ablate"
    )]
    Run(RunArguments),
    /// Search the best value of one parameter within the objective's constraints.
    #[command(
        after_help = "Examples:\n  forebay tune shop-peak-mini\n  forebay tune shop-peak-mini --parameter \
                            fallback.l3.vram_above --from 0.85 --to 0.99"
    )]
    Tune(TuneArguments),
    /// Print what each stage can carry, in closed form, before any simulation.
    #[command(after_help = "Example:\n  forebay capacity rag-burst --set stages.llm.replicas=4")]
    Capacity(CapacityArguments),
    /// Check a scenario and print what its configuration alone tells, without running it.
    #[command(after_help = "Example:\n  forebay check my-shop.toml --require")]
    Check(CheckArguments),
    /// List the parameters of a scenario: path, unit, range, default, value, meaning.
    #[command(after_help = "Example:\n  forebay params shop-peak-mini --under policy.fallback")]
    Params(ParamsArguments),
    /// Describe a recorded trace: rate, burstiness, token counts.
    #[command(
        after_help = "Examples:\n  forebay trace azure-conversations\n  forebay trace log.csv --time ts \
                            --time-unit ms --tokens-in prompt --tokens-out completion"
    )]
    Trace(TraceArguments),
    /// From what a machine shows to a calibration whose error is known.
    #[command(subcommand)]
    Calibrate(Calibrate),
    /// Tell one request's story: where it was, what each policy decided and why, how it ended.
    #[command(
        after_help = "Examples:\n  forebay run shop-peak-mini --trace-requests 100 --out out/peak\n  forebay explain \
                            out/peak\n  forebay explain out/peak --request 0"
    )]
    Explain(ExplainArguments),
}

/// What all commands on a scenario take.
#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Name of a bundled scenario, or path of a scenario file.
    pub(crate) scenario: String,
    /// Set a parameter; repeatable. Paths are those of `forebay params`; `policy.` may be left out.
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Write the results to this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Replace a result folder that exists.
    #[arg(long)]
    pub(crate) force: bool,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// No progress and no remarks on standard error.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Common {
    /// Opens the scenario with all settings; `more` are those of other options, and win.
    pub(crate) fn open(&self, more: Vec<Setting>) -> Result<Opened, Failure> {
        let mut settings = Vec::new();
        let mut problems = Vec::new();
        for text in &self.set {
            match Setting::parse(text) {
                Ok(setting) => settings.push(setting),
                Err(more) => problems.extend(more),
            }
        }
        if !problems.is_empty() {
            return Err(problems.into());
        }
        settings.extend(more);
        Ok(open(&self.scenario, &settings)?)
    }
}

/// Most that a scenario allows, so that the message names the option and not the setting it stands for.
const MOST_SEED: u64 = 9_007_199_254_740_991;
const MOST_REPLICATIONS: i64 = 100_000;

/// What every command on a scenario takes that names a part of the experiment. A command that simulates
/// nothing takes them too, so that one line of options serves all commands.
#[derive(Debug, Args)]
pub(crate) struct Simulated {
    /// Seed of all random streams.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    seed: Option<u64>,
    /// Replications: runs that differ in their random numbers alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MOST_REPLICATIONS))]
    replications: Option<u32>,
    /// Threads; they change how long it takes and nothing else. Default: all cores.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
}

impl Simulated {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let seed = self.seed.map(|seed| Setting::new("run.seed", seed.to_string()));
        let replications = self.replications.map(|n| Setting::new("run.replications", n.to_string()));
        seed.into_iter().chain(replications).collect()
    }

    /// The threads.
    pub(crate) fn workers(&self) -> Result<Workers, Failure> {
        let workers = Workers::new(self.threads.map(|threads| threads as usize));
        workers
            .map_err(|error| Failure::Other(anyhow::Error::from(error).context("threads cannot be started")))
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) simulated: Simulated,
    /// Exit with 1 when a constraint of the scenario's objective is missed.
    #[arg(long)]
    pub(crate) require: bool,
    /// Follow N requests of the first replication, evenly spread over its births (all of them, if there are
    /// no more), and write where they were and what was decided about them to spans.json in the folder of
    /// --out. Perfetto opens it, `forebay explain` tells it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_REQUESTS)))]
    pub(crate) trace_requests: Option<u32>,
    /// Write every request of the first replication that had its end (born, first token, end, tokens, outcome)
    /// to requests.parquet in the folder of --out: `forebay calibrate compare` holds it against a real log.
    #[arg(long)]
    pub(crate) requests: bool,
    /// Switch each module of the policy off in turn, on the same crowds, and print what each is worth.
    #[arg(long, conflicts_with_all = ["require", "trace_requests", "requests"])]
    pub(crate) ablate: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) simulated: Simulated,
    /// Parameter to tune; default: the scenario's.
    #[arg(long, value_name = "PATH")]
    parameter: Option<String>,
    /// Least value tried.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    from: Option<f64>,
    /// Largest value tried.
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    to: Option<f64>,
    /// Points of the swept curve.
    #[arg(long, value_name = "N")]
    points: Option<u32>,
    /// Exit with 1 when no value keeps the constraints.
    #[arg(long)]
    pub(crate) require: bool,
}

impl TuneArguments {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides { parameter: self.parameter.clone(), from: self.from, to: self.to, points: self.points }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CapacityArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) simulated: Simulated,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) simulated: Simulated,
    /// Exit with 1 when there are findings.
    #[arg(long)]
    pub(crate) require: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ParamsArguments {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) simulated: Simulated,
    /// Only parameters whose path begins with this.
    #[arg(long, value_name = "PATH", default_value = "")]
    pub(crate) under: String,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArguments {
    /// Name of a bundled trace, or path of a file: CSV, JSON lines or Parquet.
    pub(crate) trace: String,
    /// Column with the time of arrival.
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Unit of that column.
    #[arg(long, value_enum, value_name = "UNIT")]
    time_unit: Option<Unit>,
    /// Column with the tokens of the prompt.
    #[arg(long, value_name = "COLUMN")]
    tokens_in: Option<String>,
    /// Column with the tokens of the answer.
    #[arg(long, value_name = "COLUMN")]
    tokens_out: Option<String>,
    /// Column with the class's name.
    #[arg(long, value_name = "COLUMN")]
    class: Option<String>,
    /// Column that says who sent the request.
    #[arg(long, value_name = "COLUMN")]
    user: Option<String>,
    /// Column that says which conversation it belongs to.
    #[arg(long, value_name = "COLUMN")]
    session: Option<String>,
    /// Sort the rows by time.
    #[arg(long)]
    sort: bool,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

/// Unit of a column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
    /// Date and time of day.
    Datetime,
}

impl TraceArguments {
    /// The column map.
    pub(crate) fn columns(&self) -> Columns {
        Columns {
            time: self.time.clone(),
            time_unit: self.time_unit.map(|unit| match unit {
                Unit::S => TimeUnit::S,
                Unit::Ms => TimeUnit::Ms,
                Unit::Us => TimeUnit::Us,
                Unit::Ns => TimeUnit::Ns,
                Unit::Datetime => TimeUnit::Datetime,
            }),
            tokens_in: self.tokens_in.clone(),
            tokens_out: self.tokens_out.clone(),
            class: self.class.clone(),
            user: self.user.clone(),
            session: self.session.clone(),
            sort: self.sort,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArguments {
    /// Folder of a run with --trace-requests.
    pub(crate) run: PathBuf,
    /// Number of the request, counted from 0 in order of birth; absent: those that were traced are listed.
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<u64>,
    /// Form of the result on standard output.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// No remarks on standard error.
    #[arg(long, short)]
    quiet: bool,
}

fn bundled_scenarios() -> String {
    let names: Vec<&str> = bundled::scenario_names().collect();
    format!("Bundled scenarios: {}\n\nExample:\n  forebay tune shop-peak-mini", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_sound() {
        Arguments::command().debug_assert();
    }
}
