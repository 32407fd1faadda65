//! What a recording says about itself: `manifest.json`.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was recorded, on what, and how well the period was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// What the folder holds: always `recording`.
    pub kind: &'static str,
    /// Version of what wrote it.
    pub forebay: &'static str,
    /// When it began, nanoseconds since 1970, UTC.
    pub started_wall_ns: u64,
    /// How long it went on, seconds.
    pub duration_s: f64,
    /// Why it ended.
    pub ended: Ended,
    /// Version of the driver.
    pub driver: Option<String>,
    /// Version of the management library.
    pub nvml: Option<String>,
    /// Which library it was.
    pub library: String,
    /// The period that was asked for, seconds.
    pub period_asked_s: f64,
    /// The devices, by their index in the recording.
    pub devices: Vec<DeviceReport>,
    /// Devices that the driver lists and that did not answer at the start, each with its reason.
    pub absent: Vec<String>,
    /// The load, if there was one.
    pub load: Option<LoadReport>,
}

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Its time was over.
    Time,
    /// The load was through.
    Load,
    /// Somebody stopped it.
    Stopped,
    /// All devices were gone.
    Devices,
}

/// How a device was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceReport {
    /// Its index in the recording.
    pub device: u32,
    /// The driver's index of it, or of the device that it is a part of.
    pub index: u32,
    /// Its index among the MIG devices there, if it is one.
    pub mig: Option<u32>,
    /// Its lasting name.
    pub uuid: String,
    /// What it is.
    pub name: String,
    /// Power that it may draw, watts.
    pub power_limit_w: Option<f64>,
    /// Rows of it.
    pub rows: u64,
    /// Ticks that were missed because calls took too long.
    pub missed: u64,
    /// Real times between its rows.
    pub gaps: Gaps,
    /// Longest time that all calls of one tick took, seconds.
    pub slowest_s: f64,
    /// What it does not tell: those columns are null from its refusal on.
    pub untold: Vec<Untold>,
    /// Calls that failed otherwise; they left a null and were made again at the next tick.
    pub failures: u64,
    /// When it was found gone, seconds from the start.
    pub lost_at_s: Option<f64>,
    /// Why, as the driver says.
    pub lost_why: Option<String>,
    /// Whether a call to it had not returned when the recording ended; what is said above of its ticks is then
    /// unknown.
    pub hung: bool,
}

/// Something that a device does not tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Untold {
    /// The columns.
    pub what: &'static str,
    /// What the driver said.
    pub why: String,
}

/// Real times between two rows of a device, seconds; absent if there were less than two rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    /// Mean.
    pub mean_s: Option<f64>,
    /// Half were shorter.
    pub p50_s: Option<f64>,
    /// 95 of 100 were shorter.
    pub p95_s: Option<f64>,
    /// 99 of 100 were shorter.
    pub p99_s: Option<f64>,
    /// Longest.
    pub max_s: Option<f64>,
}

impl Gaps {
    pub(super) fn of(gaps_ns: &Histogram<u64>) -> Self {
        if gaps_ns.is_empty() {
            return Self::default();
        }
        let quantile = |q| Some(gaps_ns.value_at_quantile(q) as f64 / 1e9);
        Self {
            mean_s: Some(gaps_ns.mean() / 1e9),
            p50_s: quantile(0.5),
            p95_s: quantile(0.95),
            p99_s: quantile(0.99),
            max_s: Some(gaps_ns.max() as f64 / 1e9),
        }
    }
}

/// What was sent, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadReport {
    /// The endpoint, without what may be secret in its address.
    pub url: String,
    /// The model that was asked for.
    pub model: String,
    /// Requests at once, step by step.
    pub concurrency: Vec<u32>,
    /// Tokens of the prompt asked for.
    pub tokens_in: Vec<u32>,
    /// Tokens of the answer asked for.
    pub tokens_out: Vec<u32>,
    /// Requests in each step.
    pub per_step: u32,
    /// Longest time for a request, seconds.
    pub timeout_s: f64,
    /// Requests that ended.
    pub requests: u64,
    /// How many ended in which way.
    pub by_status: BTreeMap<&'static str, u64>,
    /// Why not all of it was sent, if the machine could not.
    pub broken_off: Option<String>,
}
