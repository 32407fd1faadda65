//! Faults: windows of the run in which something does not work.
//!
//! A fault is a table of its own, `[faults.<name>]`, instead of a field of what it hits: one scenario can
//! then be run with and without it, and a list of incidents reads as one.

use forebay_engine::Dist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that does not work for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An external provider answers nobody.
    ProviderOutage {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// The stage whose provider it is.
        #[schemars(length(min = 1))]
        stage: String,
        /// Name of the provider.
        #[schemars(length(min = 1))]
        provider: String,
    },
    /// A stage serves more slowly: calls, batches and iterations that begin in the window.
    LatencyFactor {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// The stage.
        #[schemars(length(min = 1))]
        stage: String,
        /// Its service times are multiplied by this.
        #[schemars(range(min = 0.001, max = 1000.0))]
        factor: f64,
    },
    /// GPUs of a device group drop out, the first ones of the group: what runs on them fails, and what is
    /// loaded on them comes back with them.
    GpuLost {
        /// When they drop out, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When they are back, their models loaded, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// The device group.
        #[schemars(length(min = 1))]
        device: String,
        /// Devices that drop out.
        #[schemars(range(min = 1, max = 100_000))]
        count: u32,
    },
    /// A replica of an LLM stage dies: its calls fail, and it is down while it loads again.
    ReplicaCrash {
        /// When it dies, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it serves again, seconds; absent: after the stage's `memory.restart_s`.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: Option<f64>,
        /// The stage.
        #[schemars(length(min = 1))]
        stage: String,
        /// Number of the replica, from 0; absent: the one that serves most calls.
        #[serde(default)]
        #[schemars(range(max = 99_999))]
        replica: Option<u32>,
    },
    /// The store that the limiter's nodes share does not answer.
    StoreTimeout {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
    },
    /// All nodes of the limiter are down.
    LimiterNodesDown {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
    },
    /// An empty remote rule set arrives in place of the limiter's rules.
    RulesWiped {
        /// When it arrives, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When the right rules are back, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
    },
    /// There is no forecast.
    ForecastLost {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
    },
    /// The meters show what they showed when it began, under fresh time stamps.
    MetricsFrozen {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// No reading arrives at all: what policies know grows old, and says so.
        #[serde(default)]
        stop: bool,
    },
    /// The knowledge base is behind: rules have no right answer to a question that nobody asked before.
    KnowledgeBaseStale {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
    },
    /// The wall clock is set forward or back, and right again at the end. Only a gateway with
    /// `clock = "wall"` feels it.
    ClockStep {
        /// When it is set, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is right again, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// By how much it is set forward; below 0: back; seconds.
        #[schemars(range(min = -31_536_000.0, max = 31_536_000.0))]
        by_s: f64,
        /// It is set and set right in turn, every so many seconds, within the window: a clock that
        /// jitters. Absent: it is set once.
        #[serde(default)]
        #[schemars(range(min = 0.001, max = 31_536_000.0))]
        every_s: Option<f64>,
    },
    /// The way to the gateway takes longer, for attempts that are sent in the window.
    NetworkDelay {
        /// When it begins, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        from_s: f64,
        /// When it is over, seconds.
        #[schemars(range(min = 0.0, max = 31_536_000.0))]
        to_s: f64,
        /// Time that it adds to an attempt's way to the gateway, seconds.
        extra_s: Dist,
    },
}

impl Fault {
    /// When it begins, seconds.
    pub fn from_s(&self) -> f64 {
        match self {
            Self::ProviderOutage { from_s, .. }
            | Self::LatencyFactor { from_s, .. }
            | Self::GpuLost { from_s, .. }
            | Self::ReplicaCrash { from_s, .. }
            | Self::StoreTimeout { from_s, .. }
            | Self::LimiterNodesDown { from_s, .. }
            | Self::RulesWiped { from_s, .. }
            | Self::ForecastLost { from_s, .. }
            | Self::MetricsFrozen { from_s, .. }
            | Self::KnowledgeBaseStale { from_s, .. }
            | Self::ClockStep { from_s, .. }
            | Self::NetworkDelay { from_s, .. } => *from_s,
        }
    }

    /// When it is over, seconds; none for a crash that lasts as long as the replica needs to restart.
    pub fn to_s(&self) -> Option<f64> {
        match self {
            Self::ProviderOutage { to_s, .. }
            | Self::LatencyFactor { to_s, .. }
            | Self::GpuLost { to_s, .. }
            | Self::StoreTimeout { to_s, .. }
            | Self::LimiterNodesDown { to_s, .. }
            | Self::RulesWiped { to_s, .. }
            | Self::ForecastLost { to_s, .. }
            | Self::MetricsFrozen { to_s, .. }
            | Self::KnowledgeBaseStale { to_s, .. }
            | Self::ClockStep { to_s, .. }
            | Self::NetworkDelay { to_s, .. } => Some(*to_s),
            Self::ReplicaCrash { to_s, .. } => *to_s,
        }
    }

    /// Its kind, as a scenario writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ProviderOutage { .. } => "provider_outage",
            Self::LatencyFactor { .. } => "latency_factor",
            Self::GpuLost { .. } => "gpu_lost",
            Self::ReplicaCrash { .. } => "replica_crash",
            Self::StoreTimeout { .. } => "store_timeout",
            Self::LimiterNodesDown { .. } => "limiter_nodes_down",
            Self::RulesWiped { .. } => "rules_wiped",
            Self::ForecastLost { .. } => "forecast_lost",
            Self::MetricsFrozen { .. } => "metrics_frozen",
            Self::KnowledgeBaseStale { .. } => "knowledge_base_stale",
            Self::ClockStep { .. } => "clock_step",
            Self::NetworkDelay { .. } => "network_delay",
        }
    }
}
