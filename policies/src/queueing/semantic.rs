//! Three queues by what a question says: a score of four parts decides which one (published cases Q1
//! to Q3).
//!
//! The score rates urgency, tier, follow-up and channel, from flags that keyword rules set; how often
//! those rules err is the business of the model, not of this module (case H9). The first queue comes
//! first, but each queue has a share of the service that is its own, so that none starves. What is
//! served from the third is answered at a lower level.
//!
//! | file | what |
//! | --- | --- |
//! | `score` | the score and the rules by which it routes |
//! | `decay` | how many requests a user has sent of late |
//! | `shares` | which queue is served next |
//! | `state` | those who wait |

mod decay;
mod score;
mod shares;
mod state;

pub(crate) use state::State;

use crate::{Level, PolicyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the parts of the score are put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// (urgency x tier + follow-up) x channel, at most 1.
    #[default]
    Additive,
    /// A weighted sum of the four parts, each scaled to 0 to 1.
    Weighted,
}

/// What the first queue's rule reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FirstQueue {
    /// The score, against `high_at_least`.
    #[default]
    Score,
    /// The urgency alone, against `high_urgency_at_least`: the second of the two published rules.
    Urgency,
}

/// Parameters of the semantic queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Semantic {
    /// How the parts of the score are put together.
    pub form: Form,
    /// What each part counts.
    pub parts: Parts,
    /// Weights of the parts in the weighted form.
    pub part_weights: PartWeights,
    /// What the first queue's rule reads.
    pub first_queue: FirstQueue,
    /// Score from which a request stands in the first queue.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub high_at_least: f64,
    /// Urgency from which a request stands in the first queue, if the urgency rules.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub high_urgency_at_least: f64,
    /// Score from which a request stands in the second queue; below, it stands in the third.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub standard_at_least: f64,
    /// A request with a word of the operator's list of questions that must not wait stands in the first
    /// queue, whatever its score.
    pub expedite: bool,
    /// Share of GPU memory in use above which low scores move from the second queue to the third.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub move_above: f64,
    /// Scores below this are low.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub low_below: f64,
    /// Factor on the priority for each request that the user sent before within `decay_window_s`; 1: none.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub decay_factor: f64,
    /// For how long a user's requests count, in seconds.
    #[schemars(range(min = 1.0, max = 86_400.0))]
    pub decay_window_s: f64,
    /// After each so many seconds of waiting the priority counts 1 higher within its queue; absent: never.
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub aging_s: Option<f64>,
    /// Shares of the service that are each queue's own.
    pub weights: Weights,
    /// Level at best at which requests of the third queue are answered.
    pub degraded_level: Level,
    /// Requests with a score below this are answered at L2 at best; 0: none.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub l1_score_at_least: f64,
    /// Greatest number waiting in each queue; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
}

impl Default for Semantic {
    fn default() -> Self {
        Self {
            form: Form::default(),
            parts: Parts::default(),
            part_weights: PartWeights::default(),
            first_queue: FirstQueue::default(),
            high_at_least: 0.5,
            high_urgency_at_least: 0.3,
            standard_at_least: 0.2,
            expedite: false,
            move_above: 0.95,
            low_below: 0.35,
            decay_factor: 0.7,
            decay_window_s: 600.0,
            aging_s: None,
            weights: Weights::default(),
            degraded_level: Level::L3,
            l1_score_at_least: 0.0,
            max_length: None,
            max_wait_s: None,
        }
    }
}

/// What each part of the score counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Parts {
    /// Urgency of a question with an urgent keyword (order number, failed payment, complaint).
    #[schemars(range(min = 0.0, max = 1.0))]
    pub urgent: f64,
    /// Urgency of a question with a service keyword (return, refund, invoice) and no urgent one.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub service_keyword: f64,
    /// Factor of the top tiers; that of all others is 1.
    #[schemars(range(min = 1.0, max = 10.0))]
    pub top_tier: f64,
    /// How many tiers, from the highest, are top tiers.
    #[schemars(range(min = 0, max = 255))]
    pub top_tiers: u8,
    /// What following up on an earlier question adds.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub follow_up: f64,
    /// Factor of the shop's own app.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub app: f64,
    /// Factor of a mini-program inside another app.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub mini_program: f64,
    /// Factor of a page in a browser.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub h5: f64,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            urgent: 0.4,
            service_keyword: 0.2,
            top_tier: 1.5,
            top_tiers: 1,
            follow_up: 0.3,
            app: 1.2,
            mini_program: 1.0,
            h5: 0.8,
        }
    }
}

/// Weights of the parts of the score in the weighted form.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PartWeights {
    /// Weight of the urgency.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub urgency: f64,
    /// Weight of the tier.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tier: f64,
    /// Weight of following up.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub follow_up: f64,
    /// Weight of the channel.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub channel: f64,
}

impl Default for PartWeights {
    fn default() -> Self {
        Self { urgency: 0.4, tier: 0.3, follow_up: 0.2, channel: 0.1 }
    }
}

/// Shares of the service that are each queue's own while somebody waits in it. What they leave, and what
/// is not used, goes to the first queue that is not empty; together above 1, they are scaled down.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// Share of the first queue.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub high: f64,
    /// Share of the second queue.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub standard: f64,
    /// Share of the third queue.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub degraded: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { high: 0.0, standard: 0.2, degraded: 0.1 }
    }
}

impl Semantic {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        let high = ("high_at_least", self.high_at_least);
        PolicyError::ordered(path, ("standard_at_least", self.standard_at_least), high)?;
        let parts = &self.parts;
        let urgent = ("urgent", parts.urgent);
        PolicyError::ordered(&format!("{path}.parts"), ("service_keyword", parts.service_keyword), urgent)
    }
}
