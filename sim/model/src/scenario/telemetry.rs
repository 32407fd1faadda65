//! How signals are measured: sampled every period, delivered after a delay, with noise.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the driver measures what policies may read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Time between two samples, seconds.
    #[schemars(range(min = 0.001, max = 3600.0))]
    pub period_s: f64,
    /// Time from a sample to its arrival at the gateway, seconds.
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub delay_s: f64,
    /// Standard deviation of the noise on memory shares, in points of the share.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub noise: f64,
    /// Rates, error shares and latencies are taken over this last time, seconds.
    #[schemars(range(min = 0.001, max = 3600.0))]
    pub window_s: f64,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { period_s: 0.1, delay_s: 0.0, noise: 0.0, window_s: 10.0 }
    }
}
