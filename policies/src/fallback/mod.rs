//! Fallback: at which level a request is answered when the service cannot do its best.
//!
//! The parts are fields of one table rather than a list of modules: there is one ladder, one floor per
//! class and one guard of the reranker, and each is named by its path, such as `fallback.l2.vram_above`.

mod breaker;
pub mod cache_last_resort;
pub mod floor;
pub mod levels;
pub mod providers;
pub mod rerank_guard;
mod timeouts;
pub mod top_k;

use crate::{Level, PolicyError};
use cache_last_resort::CacheLastResort;
use floor::Floors;
use levels::LevelRule;
use providers::{Providers, WhenAllOpen};
use rerank_guard::RerankGuard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use top_k::TopK;

/// How the service answers when it cannot do its best: the table `[policy.fallback]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fallback {
    /// When requests are answered at L2. A threshold is reached at and above its value.
    pub l2: LevelRule,
    /// When requests are answered at L3. A threshold is reached at and above its value.
    pub l3: LevelRule,
    /// When requests are handed to people. A threshold is reached only above its value.
    pub l4: LevelRule,
    /// How long a level is kept at least before a better one is taken, in seconds.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub least_dwell_s: f64,
    /// Per business class, how far it may fall.
    pub class: Floors,
    /// What guards the reranker; absent: nothing.
    pub rerank: Option<RerankGuard>,
    /// Fail-over between external providers; absent: the main provider is asked, and no other.
    pub providers: Option<Providers>,
    /// When the nearest cached answer is served in place of the model's; absent: never.
    pub cache_last_resort: Option<CacheLastResort>,
    /// How many documents are retrieved; absent: as many as the endpoint says.
    pub top_k: Option<TopK>,
}

impl Fallback {
    /// The rules with their levels.
    pub(crate) fn rules(&self) -> [(Level, &LevelRule); 3] {
        [(Level::L2, &self.l2), (Level::L3, &self.l3), (Level::L4, &self.l4)]
    }

    /// Rules that no single range can state.
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        self.rules().iter().try_for_each(|(level, rule)| rule.check(&format!("{path}.{}", level.name())))?;
        if self.providers.as_ref().is_some_and(|rule| rule.when_all_open == WhenAllOpen::LastResort)
            && self.cache_last_resort.is_none()
        {
            return Err(PolicyError::not_allowed(
                format!("{path}.providers.when_all_open"),
                "`last_resort`, and no rule for it",
                format!("`last_resort` beside a table `{path}.cache_last_resort`"),
            ));
        }
        self.top_k.as_ref().map_or(Ok(()), |rule| rule.check(&format!("{path}.top_k")))
    }
}
