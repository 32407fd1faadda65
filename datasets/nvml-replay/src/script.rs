//! What a script says: the driver, its devices, and what each shows over time.

use serde::Deserialize;

/// A script, in TOML.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// Version of the driver.
    #[serde(default = "driver")]
    pub driver: String,
    /// Version of the library.
    #[serde(default = "library")]
    pub nvml: String,
    /// Whether there is a driver to talk to.
    #[serde(default = "yes")]
    pub loaded: bool,
    /// The devices, in the order of their indexes.
    #[serde(default)]
    pub device: Vec<Device>,
}

/// A device. What is not said is not supported.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Its lasting name.
    pub uuid: String,
    /// What it is.
    pub name: String,
    /// Memory that there is, bytes.
    pub memory_total: Option<f64>,
    /// Memory that the driver reserves, bytes.
    #[serde(default)]
    pub memory_reserved: f64,
    /// Memory in use, bytes.
    #[serde(default)]
    pub memory_used: Level,
    /// Per cent of the time in which a kernel ran.
    pub busy: Option<Level>,
    /// Per cent of the time in which memory was used.
    #[serde(default)]
    pub memory_busy: Level,
    /// Power, watts.
    pub power_w: Option<Level>,
    /// Limit of the power, watts.
    pub power_limit_w: Option<Level>,
    /// Energy, joules.
    pub energy_j: Option<Level>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<Level>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<Level>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<Level>,
    /// Reasons of throttling, as bits.
    pub throttle: Option<Level>,
    /// Processes with memory on it.
    pub processes: Option<Vec<Process>>,
    /// When it falls off the bus, seconds.
    pub lost_at_s: Option<f64>,
    /// Calls that only a privileged user may make.
    #[serde(default)]
    pub denied: Vec<String>,
    /// Calls that fail for no reason given, in a span of time.
    #[serde(default)]
    pub failing: Vec<Span>,
    /// Calls that take long, once each.
    #[serde(default)]
    pub slow: Vec<Span>,
    /// Its MIG devices; where there are some, MIG is on.
    #[serde(default)]
    pub mig: Vec<Device>,
}

/// A process on a device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its memory on the device, bytes; absent: it is not told.
    pub memory: Option<f64>,
}

/// A call and a span of time.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The call, such as `memory`.
    pub call: String,
    /// Begin, seconds.
    pub at_s: f64,
    /// Length, seconds.
    pub for_s: f64,
}

/// A value over time: one number, or points in time with straight lines between them.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The same at all times.
    Steady(f64),
    /// Seconds and value, in order of time. Before the first point and after the last it stays.
    Points(Vec<(f64, f64)>),
}

impl Default for Level {
    fn default() -> Self {
        Self::Steady(0.0)
    }
}

impl Level {
    /// The value at a time, seconds.
    #[must_use]
    pub fn at(&self, time: f64) -> f64 {
        let points = match self {
            Self::Steady(value) => return *value,
            Self::Points(points) => points,
        };
        let next = points.partition_point(|(begin, _)| *begin <= time);
        match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
            (Some((begin, from)), Some(&(end, to))) => from + (to - from) * (time - begin) / (end - begin),
            (Some((_, value)), None) | (None, Some(&(_, value))) => value,
            (None, None) => 0.0,
        }
    }
}

fn driver() -> String {
    "570.0.1".to_owned()
}

fn library() -> String {
    "12.570.0.1".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_go_in_straight_lines_and_stay_at_their_ends() {
        let level = Level::Points(vec![(1.0, 10.0), (2.0, 20.0)]);
        for (t_s, value) in [(0.0, 10.0), (1.0, 10.0), (1.5, 15.0), (2.0, 20.0), (9.0, 20.0)] {
            assert!((level.at(t_s) - value).abs() < 1e-9, "{t_s}: {}", level.at(t_s));
        }
        assert!(Level::Points(Vec::new()).at(1.0).abs() < 1e-9);
    }
}
