//! The semantic cache: answers found again by the likeness of questions.

use forebay_engine::Dist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is asked: questions that mean the same form a cluster, and some clusters are asked more than others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Questions {
    /// Clusters of questions that mean the same.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub clusters: u32,
    /// Exponent of the Zipf law of their popularity; 0: all are asked equally often.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub exponent: f64,
}

impl Default for Questions {
    fn default() -> Self {
        Self { clusters: 1000, exponent: 1.0 }
    }
}

/// Semantic cache. A lookup that finds an answer ends the attempt with it; after a miss, the answer that the
/// path brings is put in. Similarity is 1 less the distance between two questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticCache {
    /// Time of a lookup, seconds: embedding and search.
    pub lookup_s: Dist,
    /// Lookups at once; absent: no bound.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub lookups_at_once: Option<u32>,
    /// Least similarity of a cached question for its answer to be served.
    #[serde(default = "threshold")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub threshold: f64,
    /// Distance of a question to the cached one of its own cluster.
    #[serde(default = "own_distance")]
    pub own_distance: Dist,
    /// Distance of a question to the nearest cached one of another cluster.
    #[serde(default = "foreign_distance")]
    pub foreign_distance: Dist,
    /// Keywords of both questions are compared before a hit counts; absent: they are not.
    #[serde(default)]
    pub keyword_check: Option<KeywordCheck>,
    /// An answer older than this is not served, seconds; absent: at any age.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 31_536_000.0))]
    pub ttl_s: Option<f64>,
    /// Time after which what an answer says is no longer true, seconds; absent: it stays true.
    #[serde(default)]
    pub stale_after_s: Option<Dist>,
    /// Answers that a pool holds at most; the one that was not used for the longest time makes room. Absent:
    /// no bound.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub capacity: Option<u32>,
    /// Whether the levels share one pool. An answer serves its own level alone in any case.
    #[serde(default)]
    pub pools: Pools,
    /// A lookup that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub time_limit_s: Option<f64>,
}

/// How often the keyword check lets a candidate pass.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeywordCheck {
    /// Share of candidates of the question's own cluster that pass.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub own_pass: f64,
    /// Share of candidates of another cluster that pass.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub foreign_pass: f64,
}

impl Default for KeywordCheck {
    fn default() -> Self {
        Self { own_pass: 0.95, foreign_pass: 0.2 }
    }
}

/// Whether the levels share the memory of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pools {
    /// One pool: a level that writes much drives out the answers of the others.
    Shared,
    /// A pool of its own for each level.
    #[default]
    PerLevel,
}

fn threshold() -> f64 {
    0.92
}
fn own_distance() -> Dist {
    Dist::Gamma { mean: 0.06, cv: 0.5 }
}
fn foreign_distance() -> Dist {
    Dist::Gamma { mean: 0.25, cv: 0.3 }
}
