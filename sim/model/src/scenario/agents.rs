//! People who take hand-offs.

use forebay_engine::Dist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Agents: people who take hand-offs. The hand-off is made at once and the request counts as handed over;
/// the agents' work goes on behind it, first come first served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agents {
    /// Agents.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub agents: u32,
    /// Time of an agent for one hand-off, seconds, without a summary.
    pub handling_s: Dist,
    /// Time to make a hand-off, seconds.
    #[serde(default = "hand_off_s")]
    pub hand_off_s: Dist,
    /// A summary of the conversation comes with each hand-off; absent: none does.
    #[serde(default)]
    pub summary: Option<Summary>,
    /// Share of hand-offs that are settled at the first contact, without a summary: factor on the right
    /// answers of L4.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub first_contact_share: f64,
    /// How long people wait for an agent before they give up, seconds; absent: for ever.
    #[serde(default)]
    pub give_up_after_s: Option<Dist>,
    /// Hand-offs that may wait for an agent; one more is turned away. Absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_waiting: Option<u32>,
}

/// What a summary of the conversation is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Summary {
    /// By how much an agent's time for a hand-off is shorter, seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub saves_s: f64,
    /// By what share of itself the first-contact share is larger.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub first_contact_gain: f64,
}

impl Default for Summary {
    fn default() -> Self {
        Self { saves_s: 42.0, first_contact_gain: 0.37 }
    }
}

fn hand_off_s() -> Dist {
    Dist::Constant { value: 0.05 }
}
fn one() -> f64 {
    1.0
}
