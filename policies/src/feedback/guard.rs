//! What holds commands back: a cooldown, a largest step, the manual switch (published cases C4, H3).
//!
//! The guard stands between every loop and every parameter, so no loop can be written that lacks it.
//! A parameter that loops set is an `Actuator`: it remembers the present value and when it was last
//! commanded, whichever loop did so.
//!
//! A step that is too large is cut, not refused: the parameter then reaches its goal over several
//! cooldowns, as a person would move it.

use crate::moment::nanos;
use crate::policy::number_in;
use crate::{Moment, Policy, PolicyError, Reason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What holds commands back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Guard {
    /// A parameter is commanded at most once in this time, in seconds; 0: as often as a loop wants.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub cooldown_s: f64,
    /// By which share of its present value a command may raise a parameter: 2.0 is +200 %, to at most
    /// three times; it may lower it in the same ratio, to at least a third. Absent: by any.
    #[schemars(range(min = 0.001, max = 1_000.0))]
    pub largest_step: Option<f64>,
}

impl Default for Guard {
    /// The published cooldown.
    fn default() -> Self {
        Self { cooldown_s: 10.0, largest_step: None }
    }
}

impl Guard {
    /// `wanted`, or what the largest step allows of it.
    fn cut(&self, present: Option<f64>, wanted: f64) -> f64 {
        let (Some(step), Some(present)) = (self.largest_step, present) else { return wanted };
        // From nothing every step is without measure.
        if present == 0.0 {
            return wanted;
        }
        let (far, near) = (present * (1.0 + step), present / (1.0 + step));
        wanted.max(far.min(near)).min(far.max(near))
    }
}

/// Commands that were not given, or not in full: each counted once, when it was first held back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suppressed {
    /// The parameter was commanded too short a time ago.
    pub cooldown: u64,
    /// Automatic control is off.
    pub manual: u64,
    /// The step was cut to the largest that is allowed.
    pub step: u64,
    /// The policy does not allow the value beside its other values.
    pub refused: u64,
}

impl Suppressed {
    pub(crate) fn count(&mut self, why: Reason) {
        match why {
            Reason::ControlCooldown => self.cooldown += 1,
            Reason::ControlManual => self.manual += 1,
            Reason::ControlStep => self.step += 1,
            _ => self.refused += 1,
        }
    }
}

/// A parameter that loops set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Actuator {
    pub(crate) path: String,
    /// It takes whole numbers only.
    whole: bool,
    /// Its present value; `None`: the policy leaves it open.
    pub(crate) value: Option<f64>,
    commanded: Option<Moment>,
}

/// What the guard says to a wish.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Set this value; it was cut if `cut`.
    Set { value: f64, cut: bool },
    /// It has that value.
    Nothing,
    /// Not now.
    Hold { why: Reason, found: f64, threshold: f64 },
}

impl Actuator {
    pub(crate) fn new(path: &str, policy: &Policy) -> Self {
        // A number that takes 1 and not 0.5 is whole; the ranges are not asked here.
        let whole = policy.with(path, 0.5).is_err();
        Self { path: path.to_owned(), whole, value: None, commanded: None }
    }

    /// Reads the present value; `policy` is the policy as a tree.
    pub(crate) fn read(&mut self, policy: &Value) {
        self.value = number_in(policy, &self.path);
    }

    /// Whether the cooldown is over.
    pub(crate) fn is_free(&self, now: Moment, guard: &Guard) -> bool {
        self.commanded.is_none_or(|at| now.since(at) >= nanos(guard.cooldown_s))
    }

    /// Holds a wish against the guard.
    pub(crate) fn ask(&self, now: Moment, guard: &Guard, manual: bool, wanted: f64) -> Verdict {
        let fit = |value: f64| if self.whole { value.round() } else { value };
        let wanted = fit(wanted);
        if self.value == Some(wanted) {
            return Verdict::Nothing;
        }
        if manual {
            return Verdict::Hold { why: Reason::ControlManual, found: 1.0, threshold: 0.0 };
        }
        if let Some(at) = self.commanded
            && !self.is_free(now, guard)
        {
            let found = now.seconds_since(at);
            return Verdict::Hold { why: Reason::ControlCooldown, found, threshold: guard.cooldown_s };
        }
        let value = fit(guard.cut(self.value, wanted));
        if self.value == Some(value) {
            // The largest step is less than one whole number.
            let found = wanted;
            return Verdict::Hold { why: Reason::ControlStep, found, threshold: value };
        }
        Verdict::Set { value, cut: value != wanted }
    }

    /// It was commanded; the value is read back from the policy.
    pub(crate) fn tried(&mut self, now: Moment) {
        self.commanded = Some(now);
    }
}

/// Demands that loops may set the number at `parameter` of this policy to `value`; `path` is where
/// the parameter's name stands, `value_path` where the value does.
pub(crate) fn check_parameter(
    (path, parameter): (&str, &str),
    (value_path, value): (&str, Option<f64>),
    policy: &Policy,
) -> Result<(), PolicyError> {
    let wrong = |allowed: String| Err(PolicyError::not_allowed(path, format!("`{parameter}`"), allowed));
    let family = parameter.split('.').next().unwrap_or_default();
    if ["signals", "feedback", "store"].contains(&family) {
        return wrong(
            "the path of a number in `admission`, `queue`, `fallback` or another table of the \
                      policy that decides"
                .to_owned(),
        );
    }
    // Where the search ends is where the name is wrong; what stands there is the best hint.
    let tree = policy.to_value();
    let mut place = &tree;
    let mut walked = "the policy".to_owned();
    for step in parameter.split('.') {
        let Some(inner) = place.get(step) else {
            let known: Vec<&str> =
                place.as_object().into_iter().flat_map(|table| table.keys().map(String::as_str)).collect();
            let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
            return wrong(format!("the path of a number of this policy: in {walked} there is {known}"));
        };
        walked = if walked == "the policy" { step.to_owned() } else { format!("{walked}.{step}") };
        place = inner;
    }
    if policy.with(parameter, 1.0).is_err() {
        return wrong("the path of a number of this policy: this is none".to_owned());
    }
    let Some(value) = value else { return Ok(()) };
    let checked = policy.with(parameter, value).and_then(|changed| changed.check_values());
    checked.map_err(|error| {
        let allowed = match error {
            PolicyError::NotAllowed { path, allowed, .. } if path == parameter => allowed,
            other => format!("what the policy allows ({other})"),
        };
        PolicyError::not_allowed(value_path, value.to_string(), allowed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_step_is_cut_in_the_same_ratio_both_ways() {
        let guard = Guard { largest_step: Some(2.0), ..Guard::default() };
        assert_eq!(guard.cut(Some(100.0), 400.0), 300.0);
        assert_eq!(guard.cut(Some(100.0), 300.0), 300.0);
        assert_eq!(guard.cut(Some(90.0), 1.0), 30.0);
        assert_eq!(guard.cut(Some(90.0), 45.0), 45.0);
        assert_eq!(guard.cut(Some(-30.0), 90.0), -10.0);
        assert_eq!((guard.cut(Some(0.0), 9.0), guard.cut(None, 9.0)), (9.0, 9.0));
        assert_eq!(Guard::default().cut(Some(1.0), 1e6), 1e6);
    }

    proptest! {
        #[test]
        fn a_cut_step_lies_between_the_present_value_and_the_wish(
            present in -1e3..1e3_f64, wanted in -1e3..1e3_f64, step in 0.001..10.0_f64,
        ) {
            let cut = Guard { largest_step: Some(step), ..Guard::default() }.cut(Some(present), wanted);
            prop_assert!(cut >= present.min(wanted) && cut <= present.max(wanted));
        }
    }
}
