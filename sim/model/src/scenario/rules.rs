//! FAQ rules, and the knowledge base that they match questions with.

use super::Server;
use forebay_engine::Dist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// FAQ rules on CPU workers with one queue, or the making of a hand-off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// CPU workers.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub servers: u32,
    /// CPU time of a question, seconds.
    pub service_s: Dist,
    /// Calls that may wait; one more is turned away. Absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_queue: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
    /// Which questions the rules match; absent: all, and `quality.l3` says how often they are right.
    #[serde(default)]
    pub knowledge_base: Option<KnowledgeBase>,
}

impl Rules {
    /// The workers alone.
    pub(crate) fn server(&self) -> Server {
        Server {
            servers: self.servers,
            service_s: self.service_s.clone(),
            max_queue: self.max_queue,
            time_limit_s: self.time_limit_s,
        }
    }
}

/// The knowledge base behind the rules. While the fault `knowledge_base_stale` lasts it is as old as the run
/// and what it was at its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnowledgeBase {
    /// Share of FAQ questions that are matched when it has just been brought up to date.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub faq_match_share: f64,
    /// Share of questions that need generation and are matched all the same.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub generative_match_share: f64,
    /// Share of questions nobody asked before that are matched, before they are entered.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub new_match_share: f64,
    /// Share of its matches that it loses with each day of age.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub loses_per_day: f64,
    /// Age at the start of the run, seconds.
    #[schemars(range(min = 0.0, max = 315_360_000.0))]
    pub age_at_start_s: f64,
    /// It is brought up to date every so many seconds; absent: never.
    #[schemars(range(min = 1.0, max = 31_536_000.0))]
    pub updated_every_s: Option<f64>,
    /// Questions nobody asked before are entered at this second, and matched like others from then on;
    /// absent: never.
    #[schemars(range(min = 0.0, max = 31_536_000.0))]
    pub new_entered_at_s: Option<f64>,
    /// What becomes of a question that is not matched.
    pub on_no_match: OnNoMatch,
}

impl Default for KnowledgeBase {
    fn default() -> Self {
        Self {
            faq_match_share: 1.0,
            generative_match_share: 0.0,
            new_match_share: 0.0,
            loses_per_day: 0.0,
            age_at_start_s: 0.0,
            updated_every_s: None,
            new_entered_at_s: None,
            on_no_match: OnNoMatch::Answer,
        }
    }
}

/// What becomes of a question that no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnNoMatch {
    /// It is answered that nothing was found, which is never right.
    #[default]
    Answer,
    /// It is handed over on the path of L4.
    HandOver,
}
