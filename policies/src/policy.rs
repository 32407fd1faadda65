//! The policy: all parameters of a governor, as they stand in the `[policy]` table of a scenario or in
//! the exported configuration of a gateway.
//!
//! Ranges are stated once, in the schema that the types derive, and [`Policy::check`] holds the values
//! against that schema; so do the tuner, the dashboard and the reference page. Only rules that involve
//! two parameters are code.

use crate::admission::Admission;
use crate::fallback::Fallback;
use crate::feedback::Feedback;
use crate::governor::MOST_ADMISSION_MODULES;
use crate::limits::Limits;
use crate::queueing::Queue;
use crate::signal::SignalConfig;
use crate::store::Store;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::LazyLock;

/// All parameters of a governor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// Who may come in, or make a call: modules by name, asked in the order of the file.
    pub admission: IndexMap<String, Admission>,
    /// Who of those waiting is served next; absent: nobody waits in the governor.
    pub queue: Option<Queue>,
    /// At which level a request is answered.
    pub fallback: Fallback,
    /// How the signals are smoothed.
    pub signals: SignalConfig,
    /// Loops that change parameters by themselves, and alerts.
    pub feedback: Feedback,
    /// The shared state of a limiter over several gateway nodes; absent: there is one node, and its rules
    /// are its own.
    pub store: Option<Store>,
}

/// What is wrong with a policy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The parameter has a value that is not allowed.
    #[error("{path}: found {found}, allowed: {allowed}")]
    NotAllowed {
        /// Path of the parameter, such as `admission.entry.rate_per_s`.
        path: String,
        /// What was found.
        found: String,
        /// What is allowed.
        allowed: String,
    },
    /// There is no number with this path.
    #[error("{path}: there is no such number")]
    Unknown {
        /// The path that was given.
        path: String,
    },
}

impl PolicyError {
    /// Path of the parameter that is wrong, within the policy.
    pub fn path(&self) -> &str {
        match self {
            Self::NotAllowed { path, .. } | Self::Unknown { path } => path,
        }
    }

    /// The value at `path` is not allowed.
    pub(crate) fn not_allowed(
        path: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self::NotAllowed { path: path.into(), found: found.into(), allowed: allowed.into() }
    }

    /// Demands that the first of two neighbours at `path` is not above the second.
    pub(crate) fn ordered(path: &str, low: (&str, f64), high: (&str, f64)) -> Result<(), Self> {
        if low.1 <= high.1 {
            return Ok(());
        }
        let allowed = format!("at most {} ({})", high.1, high.0);
        Err(Self::not_allowed(format!("{path}.{}", low.0), low.1.to_string(), allowed))
    }
}

impl Policy {
    /// Checks every value against its range, and those that depend on each other.
    ///
    /// # Errors
    /// The first that is wrong, with its path.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.check_values()?;
        self.feedback.check(self)
    }

    /// All of [`Policy::check`] but the values that loops may set later on.
    pub(crate) fn check_values(&self) -> Result<(), PolicyError> {
        static LIMITS: LazyLock<Limits> = LazyLock::new(|| Limits::of(&schemars::schema_for!(Policy).into()));
        LIMITS.check(&self.to_value())?;
        if self.admission.len() > MOST_ADMISSION_MODULES {
            return Err(PolicyError::not_allowed(
                "admission",
                format!("{} modules", self.admission.len()),
                format!("at most {MOST_ADMISSION_MODULES}"),
            ));
        }
        for (name, parameters) in &self.admission {
            let path = format!("admission.{name}");
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if name.is_empty() || !name.chars().all(plain) {
                let allowed = "a name of letters, digits, `_` and `-`";
                return Err(PolicyError::not_allowed(path, format!("`{name}`"), allowed));
            }
            parameters.check(&path)?;
        }
        if let Some(queue) = &self.queue {
            queue.check("queue")?;
        }
        if let Some(store) = &self.store {
            store.check("store", self)?;
        }
        self.fallback.check("fallback")
    }

    /// The same policy with another number at `path`. Ranges are for [`Policy::check`].
    ///
    /// # Errors
    /// There is no number at this path, or it takes whole numbers only.
    pub fn with(&self, path: &str, value: f64) -> Result<Self, PolicyError> {
        let unknown = || PolicyError::Unknown { path: path.to_owned() };
        let mut tree = self.to_value();
        let mut place = &mut tree;
        for step in path.split('.') {
            place = place.get_mut(step).ok_or_else(unknown)?;
        }
        if !(place.is_number() || place.is_null()) {
            return Err(unknown());
        }
        // Fields of whole numbers read no fraction, fields of fractions read both.
        let whole = value.fract() == 0.0 && value.abs() < 9e15;
        *place = if whole { Value::from(value as i64) } else { Value::from(value) };
        serde_json::from_value(tree)
            .map_err(|error| PolicyError::not_allowed(path, value.to_string(), error.to_string()))
    }

    /// The number at `path`; `None`: there is none, or it is left open.
    pub fn number(&self, path: &str) -> Option<f64> {
        number_in(&self.to_value(), path)
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("the types of a policy have string keys and no failing serialiser")
    }
}

/// The number at `path` of a policy as a tree, for whoever reads several.
pub(crate) fn number_in(tree: &Value, path: &str) -> Option<f64> {
    path.split('.').try_fold(tree, |place, step| place.get(step)).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        [admission.entry]
        kind = "weighted_bucket"
        base_rate_per_s = 1000
        [admission.llm]
        kind = "concurrency_gate"
        place = "llm_call"
        max_at_once = 20
        wait_at_most_s = 2.0
        retry_after_s = 5
        [queue]
        kind = "strict_priority"
        aging_s = 10
        [fallback]
        l2.vram_above = 0.85
        l3.vram_above = 0.92
        l4.vram_above = 0.98
        class.s0 = { min_level = "l2", red_line = true }
        [fallback.rerank]
        [signals.vram]
        filter = { kind = "sliding_mean", window_s = 30 }
    "#;

    fn policy() -> Policy {
        toml::from_str(FILE).unwrap()
    }

    #[test]
    fn a_file_is_read_in_its_order_and_written_back() {
        let policy = policy();
        policy.check().unwrap();
        assert_eq!(policy.admission.keys().collect::<Vec<_>>(), ["entry", "llm"]);
        let written = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<Policy>(&written).unwrap(), policy);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let misspelt = FILE.replace("max_at_once", "max_at_onze");
        let message = toml::from_str::<Policy>(&misspelt).unwrap_err().to_string();
        assert!(message.contains("max_at_onze"), "{message}");
    }

    #[test]
    fn errors_name_the_path_and_what_is_allowed() {
        let mut policy = policy();
        policy.fallback.l2.vram_above = Some(1.5);
        let error = policy.check().unwrap_err();
        assert_eq!(error.to_string(), "fallback.l2.vram_above: found 1.5, allowed: 0 to 1");
        let error =
            self::policy().with("admission.entry.base_rate_per_s", -1.0).unwrap().check().unwrap_err();
        assert_eq!(error.path(), "admission.entry.base_rate_per_s");
        let mut policy = self::policy();
        policy.fallback.least_dwell_s = f64::NAN;
        assert_eq!(policy.check().unwrap_err().path(), "fallback.least_dwell_s");
    }

    #[test]
    fn numbers_are_set_by_path() {
        let changed = policy().with("fallback.l2.vram_above", 0.87).unwrap();
        assert_eq!(changed.fallback.l2.vram_above, Some(0.87));
        let changed = policy().with("fallback.l3.kv_above", 1.0).unwrap();
        assert_eq!(changed.fallback.l3.kv_above, Some(1.0));
        let changed = policy().with("fallback.rerank.max_at_once", 9.0).unwrap();
        assert_eq!(changed.fallback.rerank.unwrap().max_at_once, 9);
        for (path, value) in [
            ("fallback.l2.vram_abov", 0.5),
            ("fallback.l2", 0.5),
            ("admission.entry.kind", 1.0),
            ("", 1.0),
            ("fallback.rerank.max_at_once", 8.5),
        ] {
            assert_eq!(policy().with(path, value).unwrap_err().path(), path);
        }
    }

    #[test]
    fn every_parameter_has_a_description_and_every_number_a_range() {
        let schema = Value::from(schemars::schema_for!(Policy));
        let mut bare = Vec::new();
        let numbers = look(&schema, "", &mut bare);
        assert!(bare.is_empty(), "{bare:#?}");
        assert!(numbers > 50, "only {numbers} numbers were found");
    }

    /// Collects the properties that lack a description or a range; returns how many numbers it saw.
    fn look(node: &Value, path: &str, bare: &mut Vec<String>) -> usize {
        let mut numbers = 0;
        for (name, property) in node.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let types = &property["type"];
            let is = |kind: &&str| {
                types == *kind || types.as_array().is_some_and(|types| types.iter().any(|t| t == *kind))
            };
            let is_number = ["number", "integer"].iter().any(is);
            numbers += usize::from(is_number);
            let described = property.get("description").is_some() || name == "kind";
            let bounded = property.get("minimum").is_some() && property.get("maximum").is_some();
            if !described || (is_number && !bounded) {
                bare.push(format!("{path}.{name}"));
            }
        }
        numbers
            + match node {
                Value::Object(members) => {
                    members.iter().map(|(key, v)| look(v, &format!("{path}/{key}"), bare)).sum()
                }
                Value::Array(items) => items.iter().map(|item| look(item, path, bare)).sum(),
                _ => 0,
            }
    }
}
