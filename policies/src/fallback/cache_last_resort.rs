//! The cache as last resort (published case R7): when the model cannot answer, the nearest cached answer is
//! served, if it is near enough. Its floor is below the similarity of an ordinary hit: a roughly fitting
//! answer beats none. Classes with a red line get none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When the nearest cached answer is served in place of the model's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CacheLastResort {
    /// Least similarity of the cached question, 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_similarity: f64,
}

impl Default for CacheLastResort {
    fn default() -> Self {
        Self { min_similarity: 0.8 }
    }
}
