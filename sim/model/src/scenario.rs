//! The scenario: one TOML file that says who asks, what serves, what decides, and what is wanted.
//!
//! The structs here are the single source of every parameter: serde reads them, schemars describes them
//! to the validator, the tuner and the reference page, and their doc comments are the descriptions a
//! user sees. Units are in the names. What a scenario says beyond single values (names that must exist,
//! shares that must add up, call graphs that must end) is held by `check`.

pub mod agents;
pub mod autoscale;
pub mod cache;
pub(crate) mod check;
pub mod economics;
pub mod faults;
pub(crate) mod graph;
pub mod host;
pub mod load;
pub mod objective;
pub mod providers;
pub mod rules;
pub mod service;
pub mod telemetry;
pub mod workload;

pub use agents::{Agents, Summary};
pub use autoscale::{Autoscale, ScaleBy};
pub use cache::{KeywordCheck, Pools, Questions, SemanticCache};
pub use economics::{Csat, Economics, TokenPrice};
pub use faults::Fault;
pub use host::Host;
pub use load::{Inputs, Loaded};
pub use providers::{Provider, Providers};
pub use rules::{KnowledgeBase, OnNoMatch, Rules};
pub use service::{
    Allocator, Clock, Device, Endpoint, Gateway, LlmBatching, LlmSlots, OnOutOfMemory, OnTimeLimit, Reranker,
    Routing, Server, SlotMemory, Stage, VectorStore,
};
pub use telemetry::Telemetry;
pub use workload::{Class, Patience, PatienceUntil, People, Population, Resend, Retries, Source, Workload};

use forebay_policies::Policy;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A whole scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name, as in the list of bundled scenarios.
    #[schemars(length(min = 1))]
    pub name: String,
    /// One line: what it is.
    #[serde(default)]
    pub title: String,
    /// Which of `variants` is in force; absent, empty or `right`: the scenario as it is written. Applied,
    /// and empty, once a scenario has been read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// The same scenario with some values changed, by name. Applied, and empty, once a scenario has been
    /// read.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub variants: IndexMap<String, Variant>,
    /// How long it runs, with which seed, how many times.
    pub run: RunPlan,
    /// Who asks, and when.
    pub workload: Workload,
    /// The gateway.
    #[serde(default)]
    pub gateway: Gateway,
    /// Call graphs, by endpoint name.
    pub endpoints: IndexMap<String, Endpoint>,
    /// Resources, by stage name.
    pub stages: IndexMap<String, Stage>,
    /// GPU devices, by group name.
    #[serde(default)]
    pub devices: IndexMap<String, Device>,
    /// How often answers are right, by level.
    #[serde(default)]
    pub quality: Quality,
    /// How signals are measured.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// What does not work, and when, by name.
    #[serde(default)]
    pub faults: IndexMap<String, Fault>,
    /// What decides.
    #[serde(default)]
    pub policy: Policy,
    /// A second policy that decides beside `policy` on the same events and changes nothing: where the two
    /// differ is reported. It decides on arrival and when a request is served; what stands at calls is
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Policy>,
    /// What things cost, and how satisfied people are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub economics: Option<Economics>,
    /// What is wanted.
    #[serde(default)]
    pub objective: Option<Objective>,
    /// Which parameters `tune` moves.
    #[serde(default)]
    pub tune: Option<Tune>,
}

/// What a variant of a scenario changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// What it shows, in a few words.
    #[serde(default)]
    pub title: String,
    /// Paths of entries that it takes out, such as `policy.admission.gate`.
    #[serde(default)]
    pub without: Vec<String>,
    /// Values that it sets, by path, such as `"policy.admission.gate.max_at_once" = 5`. The quotes may be
    /// left out.
    #[serde(default)]
    pub set: IndexMap<String, serde_json::Value>,
}

/// How long a scenario runs, with which seed, how many times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// Arrivals stop after this time, seconds. At most one year.
    #[schemars(range(min = 0.001, max = 31_536_000.0))]
    pub duration_s: f64,
    /// After arrivals stop, what is in flight may end for up to this time, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 31_536_000.0))]
    pub drain_s: f64,
    /// Requests born before this time do not count in the metrics (they do in the ledger), seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 31_536_000.0))]
    pub warmup_s: f64,
    /// Seed of all random streams.
    #[serde(default = "defaults::seed")]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub seed: u64,
    /// Replications: runs that differ in their random numbers alone.
    #[serde(default = "defaults::replications")]
    #[schemars(range(min = 1, max = 100_000))]
    pub replications: u32,
    /// Points of the timeline; its step is the duration divided by this.
    #[serde(default = "defaults::timeline_points")]
    #[schemars(range(min = 1, max = 100_000))]
    pub timeline_points: u32,
}

/// How often an answer is right, by level. An answer that is right and in time counts as goodput.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Quality {
    /// Full retrieval, rerank and large model.
    pub l1: LevelQuality,
    /// Light retrieval and light model.
    pub l2: LevelQuality,
    /// FAQ rules.
    pub l3: LevelQuality,
    /// Hand-off to a person.
    pub l4: LevelQuality,
    /// Share of the right answers at L1 that stay right when reranking was skipped.
    pub kept_without_rerank: Share,
    /// Points `[documents, share]`, in order of documents: share of the right answers at L1 that stay right
    /// when so many are retrieved; between them it is linear, outside it stays. Empty: all.
    pub recall_points: Vec<(f64, f64)>,
}

/// Shares of right answers of one level, by the kind of question.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LevelQuality {
    /// For questions that an FAQ entry matches.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub faq: f64,
    /// For questions that need generation.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub generative: f64,
    /// For questions that nobody asked before.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub new: f64,
}

impl Default for LevelQuality {
    fn default() -> Self {
        Self { faq: 1.0, generative: 1.0, new: 1.0 }
    }
}

/// A share in 0..=1 whose default is the whole.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Share(#[schemars(range(min = 0.0, max = 1.0))] pub f64);

impl Default for Share {
    fn default() -> Self {
        Self(1.0)
    }
}

/// What is wanted of the service: one metric made large or small, within constraints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Metric to make as large as possible, for example `goodput_per_s`.
    #[serde(default)]
    pub maximize: Option<String>,
    /// Metric to make as small as possible, for example `latency_p99_s`.
    #[serde(default)]
    pub minimize: Option<String>,
    /// Conditions that must hold, for example `error_rate <= 0.04`.
    #[serde(default)]
    pub constraints: Vec<String>,
}

/// Which parameters `tune` moves, and how much it may simulate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tune {
    /// The parameter's path, for example `fallback.l2.vram_above`.
    #[schemars(length(min = 1))]
    pub parameter: String,
    /// Least value tried.
    pub from: f64,
    /// Largest value tried.
    pub to: f64,
    /// Points of the swept curve.
    #[serde(default = "defaults::points")]
    #[schemars(range(min = 3, max = 1000))]
    pub points: u32,
}

mod defaults {
    pub(super) fn seed() -> u64 {
        1
    }
    pub(super) fn replications() -> u32 {
        8
    }
    pub(super) fn timeline_points() -> u32 {
        600
    }
    pub(super) fn points() -> u32 {
        21
    }
}
