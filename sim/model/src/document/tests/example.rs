//! A small scenario type with every shape of schema, and a text that is right.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{Document, Problem, Setting, Source, read};

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    #[schemars(length(min = 1))]
    pub(super) name: String,
    /// Seed of all random streams.
    #[serde(default)]
    pub(super) seed: u64,
    /// Who sends what.
    #[schemars(length(min = 1))]
    pub(super) sources: Vec<Arrivals>,
    /// Resources by name.
    #[serde(default)]
    pub(super) stages: IndexMap<String, Stage>,
    /// What decides.
    #[serde(default)]
    pub(super) policy: Policy,
    #[serde(default)]
    pub(super) labels: IndexMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<Window>,
}

/// A source of arrivals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arrivals {
    /// Mean rate.
    #[schemars(range(min = 0.0, max = 1000.0))]
    rate_per_s: f64,
    /// Gaps between arrivals.
    #[serde(default)]
    gaps: Gaps,
    /// Rate over the day: second, factor.
    #[serde(default)]
    profile: Vec<(f64, f64)>,
}

/// How arrivals are spread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Gaps {
    #[default]
    Poisson,
    /// Evenly.
    Even,
}

/// A resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Stage {
    Llm {
        /// Engines side by side.
        #[schemars(range(min = 1, max = 100_000))]
        replicas: u32,
        /// Time of one answer.
        service_s: Amount,
        /// Memory of one engine, of which most
        /// is weights.
        #[serde(default)]
        #[schemars(extend("exclusiveMinimum" = 0.0))]
        memory_gb: Option<f64>,
    },
    Reranker(Reranker),
    Rules,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Reranker {
    /// Documents in one batch.
    #[schemars(range(min = 1, max = 512))]
    max_docs: u16,
    /// Longest wait for a batch to fill.
    #[serde(default = "ten")]
    max_wait_ms: f64,
}

fn ten() -> f64 {
    10.0
}

/// A number, or a distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Amount {
    Constant(f64),
    Distribution(Distribution),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Distribution {
    Exponential {
        #[schemars(range(min = 0.0))]
        mean: f64,
    },
    Uniform {
        low: f64,
        high: f64,
    },
    Mixture {
        parts: Vec<Amount>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Policy {
    pub(super) fallback: Fallback,
    /// Whether the policy only watches.
    pub(super) shadow: bool,
    queue: Queue,
    /// Largest number of requests at once.
    limit: Limit,
}

impl Default for Policy {
    fn default() -> Self {
        let fallback = Fallback { l2: Level { vram_above: 0.85, dwell_s: 9.0 } };
        Self { fallback, shadow: false, queue: Queue::Fifo { most: 100 }, limit: Limit::None }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Fallback {
    pub(super) l2: Level,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Level {
    /// Memory in use above which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) vram_above: f64,
    /// Least time at the level.
    pub(super) dwell_s: f64,
}

impl Default for Level {
    fn default() -> Self {
        Self { vram_above: 0.9, dwell_s: 5.0 }
    }
}

/// Told apart by its only key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Queue {
    Fifo { most: u32 },
    Lifo { most: u32 },
}

/// A word or a number.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", untagged)]
enum Limit {
    Word(Word),
    Count(u32),
    None,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    Auto,
}

/// Checked by the type: the schema cannot say that one end is before the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RawWindow")]
#[schemars(!try_from)]
pub(super) struct Window {
    from_s: f64,
    to_s: f64,
}

#[derive(Deserialize)]
struct RawWindow {
    from_s: f64,
    to_s: f64,
}

impl TryFrom<RawWindow> for Window {
    type Error = String;

    fn try_from(raw: RawWindow) -> Result<Self, Self::Error> {
        let window = Self { from_s: raw.from_s, to_s: raw.to_s };
        if raw.from_s < 0.0 {
            Err(format!("`from_s` is {}, allowed is 0 or more", raw.from_s))
        } else if raw.from_s < raw.to_s {
            Ok(window)
        } else {
            Err("a window that ends after it starts".to_owned())
        }
    }
}

/// A text that is right and uses every shape.
pub(super) const GOOD: &str = r#"# A shop.
name = "shop"
seed = 18446744073709551615

[[sources]]
rate_per_s = 4
profile = [[0, 1.0], [3600, 2.5]]

[[sources]]
rate_per_s = 0.5
gaps = "even"

[stages.llm]
kind = "llm"
replicas = 3
service_s = { kind = "mixture", parts = [0.2, { kind = "exponential", mean = 1 }] }

[stages."rerank v2"]
kind = "reranker"
max_docs = 64

[stages.rules]
kind = "rules"

[policy.fallback.l2]
vram_above = 0.8

[labels]
team = "support, \"night\"\n"
"#;

/// Reads a text named `shop.toml`.
pub(super) fn read_text(text: &str) -> Result<Document<Example>, Vec<Problem>> {
    read(&Source::new("shop.toml", text), &[])
}

/// Reads the right text with settings, each `path=value`.
pub(super) fn read_with(settings: &[&str]) -> Result<Document<Example>, Vec<Problem>> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
    read(&Source::new("shop.toml", GOOD), &settings)
}

/// All problems as the command prints them.
pub(super) fn shown<T>(result: Result<T, Vec<Problem>>) -> Vec<String> {
    result.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}
