//! The control centre: a table of rules, each with conditions on signals and the value of a parameter
//! that it sets while they hold (published cases C1 to C6).
//!
//! A rule works by state, not by edge: as long as its conditions hold it wants its value, and gives the
//! command again if something else changed the parameter. So a rule that met a cooldown, or the manual
//! switch, acts as soon as it may.

use super::Loop;
use super::guard::check_parameter;
use crate::moment::nanos;
use crate::signal::SignalKind;
use crate::{Moment, Policy, PolicyError, Reason, Signals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A condition on one signal. A signal that was never measured fulfils none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// The signal, after its filter.
    pub signal: SignalKind,
    /// The signal is above this; absent: it may be any.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub above: Option<f64>,
    /// The signal is below this; absent: it may be any.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub below: Option<f64>,
}

impl Condition {
    /// The signal is above this value.
    pub fn above(signal: SignalKind, value: f64) -> Self {
        Self { signal, above: Some(value), below: None }
    }

    /// The signal is below this value.
    pub fn below(signal: SignalKind, value: f64) -> Self {
        Self { signal, above: None, below: Some(value) }
    }

    /// Whether the signal is known and within the bounds.
    pub(crate) fn holds(&self, signals: &Signals) -> bool {
        let within = |value| {
            self.above.is_none_or(|above| value > above) && self.below.is_none_or(|below| value < below)
        };
        signals.get(self.signal).is_some_and(within)
    }

    /// What a value that holds was compared with.
    pub(crate) fn threshold(&self) -> f64 {
        self.above.or(self.below).unwrap_or_default()
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        match (self.above, self.below) {
            (None, None) => {
                Err(PolicyError::not_allowed(path, "neither `above` nor `below`", "at least one of them"))
            }
            (Some(above), Some(below)) => PolicyError::ordered(path, ("above", above), ("below", below)),
            _ => Ok(()),
        }
    }
}

/// A rule of the control centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The conditions; all must hold.
    #[schemars(length(min = 1))]
    pub when: Vec<Condition>,
    /// Path of the parameter that is set, such as `admission.entry.rate_per_s`.
    pub set: String,
    /// The value that it is set to.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub to: f64,
    /// The value that it is set to when the conditions no longer hold; absent: it keeps the last.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub otherwise: Option<f64>,
    /// How long the conditions must hold first, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub hold_s: f64,
    /// The loop it runs on.
    #[serde(default, rename = "loop")]
    pub on: Loop,
}

impl Rule {
    pub(crate) fn check(&self, path: &str, policy: &Policy) -> Result<(), PolicyError> {
        if self.when.is_empty() {
            return Err(PolicyError::not_allowed(format!("{path}.when"), "no condition", "at least one"));
        }
        for (index, condition) in self.when.iter().enumerate() {
            condition.check(&format!("{path}.when.{index}"))?;
        }
        let set = format!("{path}.set");
        check_parameter((&set, &self.set), (&format!("{path}.to"), Some(self.to)), policy)?;
        check_parameter((&set, &self.set), (&format!("{path}.otherwise"), self.otherwise), policy)
    }
}

/// What is remembered of one rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) rule: Rule,
    /// Index of the parameter.
    pub(crate) actuator: usize,
    /// Since when the conditions have held.
    since: Option<Moment>,
    /// They have held for long enough.
    pub(crate) holds: bool,
    /// What it wants.
    pub(crate) wish: Option<Wish>,
    /// It gave its value, and has not restored the other one.
    pub(crate) acted: bool,
    /// Its present wish was held back, and was counted.
    pub(crate) counted: bool,
}

/// What a rule wants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) value: f64,
    pub(crate) why: Reason,
    pub(crate) found: f64,
    pub(crate) threshold: f64,
}

impl State {
    pub(crate) fn new(rule: Rule, actuator: usize) -> Self {
        Self { rule, actuator, since: None, holds: false, wish: None, acted: false, counted: false }
    }

    /// Takes changed numbers over and keeps its clock.
    pub(crate) fn adopt(&mut self, rule: Rule) {
        self.rule = rule;
    }

    /// Reads the signals: what the rule wants now.
    pub(crate) fn read(&mut self, now: Moment, signals: &Signals) {
        let held = self.rule.when.iter().all(|condition| condition.holds(signals));
        let first = self.rule.when.first();
        let found = first.and_then(|first| signals.get(first.signal)).unwrap_or_default();
        let threshold = first.map(Condition::threshold).unwrap_or_default();
        let (value, why) = if held {
            let since = *self.since.get_or_insert(now);
            self.holds = now.since(since) >= nanos(self.rule.hold_s);
            (self.holds.then_some(self.rule.to), Reason::ControlRule)
        } else {
            (self.since, self.holds) = (None, false);
            (self.rule.otherwise.filter(|_| self.acted), Reason::ControlRelease)
        };
        self.wish = value.map(|value| Wish { value, why, found, threshold });
        self.counted &= self.wish.is_some();
    }
}
