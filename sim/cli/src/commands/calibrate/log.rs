//! Request logs: the options that say which of their columns mean what, and how every command reads one.

use crate::failure::Failure;
use crate::terminal::complain;
use clap::{Args, ValueEnum};
use forebay_datasets::TimeUnit;
use forebay_datasets::import::{Imported, Kind, LogColumns, Options, UtcOffset, import};
use forebay_datasets::request_log::RequestLog;
use std::path::Path;

/// Columns of a request log that is none of the known ones.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Columns of a request log")]
pub(crate) struct LogArgs {
    /// Column with the moment at which a request was sent.
    #[arg(long, value_name = "COLUMN")]
    arrival: Option<String>,
    /// Unit of that column.
    #[arg(long, value_enum, value_name = "UNIT")]
    arrival_unit: Option<Unit>,
    /// Column with the tokens of the prompt.
    #[arg(long, value_name = "COLUMN")]
    tokens_in: Option<String>,
    /// Column with the tokens of the answer.
    #[arg(long, value_name = "COLUMN")]
    tokens_out: Option<String>,
    /// Column with the moment of the first token.
    #[arg(long, value_name = "COLUMN")]
    first_token: Option<String>,
    /// Column with the moment of the last token.
    #[arg(long, value_name = "COLUMN")]
    last_token: Option<String>,
    /// Column with the moment at which the server queued the request, if tokens are stamped by another clock than
    /// arrivals: it joins the two.
    #[arg(long, value_name = "COLUMN")]
    queued: Option<String>,
    /// Unit of these three moments, if it is not that of the arrivals.
    #[arg(long, value_enum, value_name = "UNIT")]
    token_unit: Option<Unit>,
    /// Column with the time to the first token, instead of its moment.
    #[arg(long, value_name = "COLUMN")]
    ttft: Option<String>,
    /// Column with the time to the last token, instead of its moment.
    #[arg(long, value_name = "COLUMN")]
    latency: Option<String>,
    /// Unit of these two times.
    #[arg(long, value_enum, value_name = "UNIT")]
    duration_unit: Option<Unit>,
    /// Column that says how the request ended.
    #[arg(long, value_name = "COLUMN")]
    status: Option<String>,
    /// Statuses of requests that were served; default: ok, success, finished, stop, length, true, 200 and the like.
    #[arg(long, value_name = "STATUS,…", value_delimiter = ',')]
    ok: Vec<String>,
    /// By how much local times in the file are ahead of UTC, such as +02:00.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    pub(crate) utc_offset: Option<UtcOffset>,
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

impl Unit {
    fn unit(self) -> TimeUnit {
        match self {
            Self::S => TimeUnit::S,
            Self::Ms => TimeUnit::Ms,
            Self::Us => TimeUnit::Us,
            Self::Ns => TimeUnit::Ns,
            Self::Datetime => TimeUnit::Datetime,
        }
    }
}

impl LogArgs {
    /// Reads a request log. What was dropped of it is told on standard error, unless `quiet`.
    pub(crate) fn read(&self, path: &Path, quiet: bool) -> Result<RequestLog, Failure> {
        let options = Options {
            from: Some(Kind::Requests),
            utc_offset: self.utc_offset,
            log: self.columns(),
            ..Options::default()
        };
        let (imported, report) = import(path, &options).map_err(|error| Failure::Input(error.to_string()))?;
        if !quiet {
            for note in &report.dropped {
                complain(&format!(
                    "{}: dropped: {} ({} times, first at {})",
                    report.file, note.what, note.count, note.first
                ));
            }
        }
        match imported {
            Imported::Requests(log) => Ok(log),
            _ => Err(Failure::Input(format!("{}: this is no request log", path.display()))),
        }
    }

    pub(crate) fn columns(&self) -> LogColumns {
        LogColumns {
            arrival: self.arrival.clone(),
            arrival_unit: self.arrival_unit.map(Unit::unit),
            tokens_in: self.tokens_in.clone(),
            tokens_out: self.tokens_out.clone(),
            first_token: self.first_token.clone(),
            last_token: self.last_token.clone(),
            queued: self.queued.clone(),
            token_unit: self.token_unit.map(Unit::unit),
            ttft: self.ttft.clone(),
            latency: self.latency.clone(),
            duration_unit: self.duration_unit.map(Unit::unit),
            status: self.status.clone(),
            ok: self.ok.clone(),
        }
    }
}
