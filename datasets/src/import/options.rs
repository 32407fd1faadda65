//! What an import is told beside the file.

use std::fmt;
use std::str::FromStr;

use forebay_model::trace::TimeUnit;
use serde::Serialize;

use super::clock::UtcOffset;
use super::error::{Fault, fault};

/// The kinds of file that are imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// CSV of `nvidia-smi --query-gpu`.
    NvidiaSmi,
    /// Text of `nvidia-smi dmon`.
    Dmon,
    /// Metrics of the DCGM exporter.
    Dcgm,
    /// Metrics of vLLM.
    VllmMetrics,
    /// Engine metrics as CSV.
    EngineCsv,
    /// A request log.
    #[default]
    Requests,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::NvidiaSmi, Self::Dmon, Self::Dcgm, Self::VllmMetrics, Self::EngineCsv, Self::Requests];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::NvidiaSmi => "nvidia-smi",
            Self::Dmon => "dmon",
            Self::Dcgm => "dcgm",
            Self::VllmMetrics => "vllm-metrics",
            Self::EngineCsv => "engine-csv",
            Self::Requests => "requests",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("allowed are {}", known()))
    }
}

/// What an import is told beside the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The kind of file; none: told by its first lines.
    pub from: Option<Kind>,
    /// By how much the local times of the file are ahead of UTC; none: they are taken as UTC.
    pub utc_offset: Option<UtcOffset>,
    /// Names of the columns of a CSV of `nvidia-smi` without a header.
    pub columns: Vec<String>,
    /// Seconds between two rows, of a file that does not tell when they were.
    pub every_s: Option<f64>,
    /// Day of the first row, of a file that tells the time of day alone: `2026-07-23`.
    pub date: Option<String>,
    /// The device that all rows are of, where no column says so.
    pub device: Option<u32>,
    /// Rows that are out of order are sorted by time, not dropped.
    pub sort: bool,
    /// The columns of a request log.
    pub log: LogColumns,
}

impl Options {
    /// Refuses options that a kind cannot heed: one that is passed over in silence would be believed.
    pub(super) fn check(&self, kind: Kind) -> Result<(), Fault> {
        let telemetry = matches!(kind, Kind::NvidiaSmi | Kind::Dmon | Kind::Dcgm);
        let unfit = [
            ("--columns", !self.columns.is_empty() && kind != Kind::NvidiaSmi),
            ("--date", self.date.is_some() && kind != Kind::Dmon),
            ("--device", self.device.is_some() && !telemetry),
            ("--every", self.every_s.is_some() && kind == Kind::Requests),
            ("the columns of a request log", self.log != LogColumns::default() && kind != Kind::Requests),
        ];
        if let Some((name, _)) = unfit.into_iter().find(|(_, unfit)| *unfit) {
            return Err(fault(format!("{name} cannot be heeded: the file is of the kind `{kind}`")));
        }
        match self.every_s {
            Some(s) if !(s.is_finite() && (1e-6..=1e6).contains(&s)) => {
                Err(fault("--every takes seconds, from 0.000001 to 1000000"))
            }
            _ => Ok(()),
        }
    }

    /// Nanoseconds between two rows, if they are given.
    pub(super) fn every_ns(&self) -> Option<u64> {
        self.every_s.map(|s| (s * 1e9).round() as u64)
    }
}

/// Unit of the times of a request log.
pub type LogUnit = TimeUnit;

/// Which columns of a request log mean what. What is not named is found if the header is one that is known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogColumns {
    /// When the request was sent.
    pub arrival: Option<String>,
    /// Unit of that column.
    pub arrival_unit: Option<LogUnit>,
    /// Tokens of the prompt.
    pub tokens_in: Option<String>,
    /// Tokens of the answer.
    pub tokens_out: Option<String>,
    /// When the first token came.
    pub first_token: Option<String>,
    /// When the last token came.
    pub last_token: Option<String>,
    /// When the server took the request into its queue, by the clock of the tokens: given if that is another
    /// one than that of the arrivals. The two are joined.
    pub queued: Option<String>,
    /// Unit of the three columns before; none: that of the arrivals.
    pub token_unit: Option<LogUnit>,
    /// Time from arrival to first token, instead of the moment.
    pub ttft: Option<String>,
    /// Time from arrival to last token, instead of the moment.
    pub latency: Option<String>,
    /// Unit of the two columns before.
    pub duration_unit: Option<LogUnit>,
    /// How the request ended.
    pub status: Option<String>,
    /// The statuses of requests that were served; none: the usual words.
    pub ok: Vec<String>,
}
