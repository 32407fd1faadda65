//! What things cost, and what an answer is worth: to the business, and to the person who asked.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Prices, and how satisfied people are. Without a price nothing costs anything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Economics {
    /// Name of the currency, shown beside costs and values.
    pub currency: String,
    /// Prices of tokens, by LLM stage. They are paid for every call that is served to its end, those of
    /// attempts that failed later included.
    pub tokens: IndexMap<String, TokenPrice>,
    /// Price of a minute of an agent's time.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub agent_per_min: f64,
    /// Time that an agent spends on each request that is handed over at L4, seconds, where no stage of kind
    /// `agents` measures it.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub handoff_agent_s: f64,
    /// Price of an hour of one GPU. A device is paid for as long as it is there; an autoscaled one as
    /// long as a replica takes it up. An LLM replica or rerank GPU without a device counts as one GPU.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub gpu_per_hour: f64,
    /// How satisfied people are; absent: not modelled.
    pub csat: Option<Csat>,
}

/// Prices of the tokens of one LLM stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenPrice {
    /// Price of 1000 tokens of prompts, documents included.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub in_per_1k: f64,
    /// Price of 1000 tokens of answers.
    #[schemars(range(min = 0.0, max = 1e6))]
    pub out_per_1k: f64,
}

/// How satisfied a person is with the end of a request, 0 to 1: 1, less what each shortcoming takes. The
/// defaults are assumptions, to be replaced by a survey's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Csat {
    /// Wait for the first token that nobody minds, seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub tolerance_s: f64,
    /// What each further second of waiting takes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub per_further_s: f64,
    /// What a wrong answer takes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub wrong: f64,
    /// What being turned away takes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub rejected: f64,
    /// What having waited until one gave up takes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub abandoned: f64,
    /// What a failure or a time limit takes.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub failed: f64,
}

impl Default for Csat {
    fn default() -> Self {
        Self { tolerance_s: 2.0, per_further_s: 0.05, wrong: 0.6, rejected: 0.8, abandoned: 1.0, failed: 1.0 }
    }
}
