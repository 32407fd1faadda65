//! The calibrations of what surrounds an engine: the load of a day, and facts of devices.

use std::collections::BTreeMap;

use forebay_model::scenario::Source as Arrivals;
use serde::{Deserialize, Serialize};

use super::{Evidence, Source};

/// The load of a day, and who makes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadCalibration {
    /// Origin.
    pub source: Source,
    /// Fit and judgement: the even days' shape against the odd days', half-hour by half-hour.
    pub evidence: Evidence,
    /// Days measured.
    pub days: usize,
    /// Mean rate of the busiest and of the calmest day, over that of all days.
    pub days_between: [f64; 2],
    /// The clients.
    pub clients: Clients,
    /// The shape as a source of a scenario: `scale` is the mean rate measured, and can be set to any other.
    pub arrivals: Arrivals,
}

/// Who sends a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// How many were measured.
    pub count: usize,
    /// Share of the largest.
    pub largest_share: f64,
    /// Share of the ten largest.
    pub ten_largest_share: f64,
    /// Exponent of the Zipf law of their rates: a scenario's `population.activity_exponent`.
    pub activity_exponent: f64,
    /// Variation of the gaps within a client, mean weighted by rate; 1 is a Poisson process.
    pub gap_cv: f64,
}

/// Facts of devices, as published; none of them was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevicesCalibration {
    /// Origin.
    pub source: Source,
    /// SHA-256 of the data, file after file by name.
    pub sha256: String,
    /// The facts, by device.
    pub devices: BTreeMap<String, DeviceFacts>,
}

/// Facts of a device; absent is what its source does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeviceFacts {
    /// As the driver names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Memory, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<f64>,
    /// Memory that the driver reserves, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<f64>,
    /// Power limit, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_limit_w: Option<f64>,
    /// Power at idle, W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_idle_w: Option<f64>,
    /// Memory bandwidth by the data sheet, bytes per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bytes_per_s: Option<f64>,
    /// bfloat16 operations per second by the data sheet, dense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bf16_per_s: Option<f64>,
    /// fp8 operations per second by the data sheet, dense.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8_per_s: Option<f64>,
    /// Bandwidth to the other GPUs of the node, bytes per second and direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_s: Option<f64>,
}
