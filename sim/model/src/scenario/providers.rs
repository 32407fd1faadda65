//! External model providers: an ordered list behind one stage.

use forebay_engine::Dist;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// External providers of model answers, in the order of preference. Which of them a call goes to is the
/// policy's business (`fallback.providers`); without a rule the first is asked, and no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Providers {
    /// The providers by name, the main one first.
    pub providers: IndexMap<String, Provider>,
}

/// One external provider: its limits, its speed, its faults and its prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    /// Time to the first token, seconds.
    pub first_token_s: Dist,
    /// Time that each token of the prompt adds to the first, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 60.0))]
    pub per_prompt_token_s: f64,
    /// Time of each further token, seconds.
    #[serde(default = "zero")]
    pub per_token_s: Dist,
    /// Calls at once at most; one more is answered 429. Absent: no bound.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_at_once: Option<u32>,
    /// Calls per minute at most; absent: no bound. Unused quota comes back steadily.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e9))]
    pub requests_per_min: Option<f64>,
    /// Tokens in and out per minute at most, as far as they can be told before the answer (the prompt and
    /// the estimate of the answer), set right when it ends; absent: no bound.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1e12))]
    pub tokens_per_min: Option<f64>,
    /// Share of a minute's quota that may be used in one burst.
    #[serde(default = "one")]
    #[schemars(range(min = 0.000_1, max = 1.0))]
    pub burst_share: f64,
    /// A call that is answered 429 uses up quota all the same.
    #[serde(default)]
    pub refused_calls_count: bool,
    /// Retry-After of an answer 429, seconds; absent: the exact time until the quota holds enough again.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_s: Option<f64>,
    /// Each Retry-After is lengthened by a random share of itself up to this.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub retry_jitter: f64,
    /// Share of calls that end in an error of the provider's own.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error_rate: f64,
    /// Time to an answer 429 or an error, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub error_after_s: f64,
    /// A call that takes longer than this is given up, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub time_limit_s: Option<f64>,
    /// Price of 1000 tokens of prompts.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub price_in_per_1k: f64,
    /// Price of 1000 tokens of answers.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e6))]
    pub price_out_per_1k: f64,
    /// Share of the level's right answers that are right from this provider.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub quality: f64,
}

fn one() -> f64 {
    1.0
}

fn zero() -> Dist {
    Dist::Constant { value: 0.0 }
}
