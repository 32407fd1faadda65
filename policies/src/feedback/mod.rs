//! Feedback: what stands between a measurement and a change of a parameter.
//!
//! | file | what |
//! | --- | --- |
//! | `filter` | smooths the signals |
//! | `guard` | holds commands back: cooldown, largest step, manual switch |
//! | `control_center` | rules: conditions on signals, and the value they set |
//! | `setpoint` | a PI controller that holds a signal at its target |
//! | `forecast` | the expected rate of arrivals, and a parameter that follows it ahead of time |
//! | `alerts` | rules that tell people |
//! | `presets` | the published rules and alerts |
//!
//! Each rule runs on one of three loops. On a tick a loop first asks the rules of the control centre,
//! then the forecast, then the setpoints: while a rule holds a parameter, the others leave it alone.
//! The reverse order was rejected: a controller that corrects every few seconds would keep the cooldown
//! busy, and the emergency rule would find it so.

pub mod alerts;
pub mod control_center;
pub mod filter;
pub mod forecast;
pub mod guard;
pub mod presets;
pub mod setpoint;

use crate::{Policy, PolicyError};
use alerts::AlertRule;
use control_center::Rule;
use forecast::Forecast;
use guard::Guard;
use indexmap::IndexMap;
use presets::Preset;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use setpoint::Setpoint;

/// Loops that change parameters by themselves, and alerts: the table `[policy.feedback]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Feedback {
    /// How often each loop runs.
    pub loops: Periods,
    /// Automatic control is switched off: no command is given. Alerts go on.
    pub manual: bool,
    /// What holds commands back.
    pub guard: Guard,
    /// Published rules and alerts to use besides those written out here; they come after them.
    pub presets: Vec<Preset>,
    /// Rules of the control centre, by name; an earlier one that holds a parameter keeps later ones off it.
    pub control_center: IndexMap<String, Rule>,
    /// Controllers that hold a signal at a target, by name.
    pub setpoints: IndexMap<String, Setpoint>,
    /// The expected rate of arrivals; absent: there is no forecast.
    pub forecast: Option<Forecast>,
    /// Alerts, by name.
    pub alerts: IndexMap<String, AlertRule>,
}

/// The three loops, by what they are meant for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Loop {
    /// The fastest, for limiters.
    Limiter,
    /// For the choice of queue and level.
    #[default]
    Routing,
    /// The slowest, for the weights of priorities.
    Weights,
}

impl Loop {
    /// All loops, the fastest first.
    pub const ALL: [Self; 3] = [Self::Limiter, Self::Routing, Self::Weights];
}

/// How often each loop runs; counted from the driver's start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Periods {
    /// Period of the limiter loop, in seconds.
    #[schemars(range(min = 0.001, max = 3_600.0))]
    pub limiter_s: f64,
    /// Period of the routing loop, in seconds.
    #[schemars(range(min = 0.001, max = 3_600.0))]
    pub routing_s: f64,
    /// Period of the weights loop, in seconds.
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub weights_s: f64,
}

impl Default for Periods {
    /// The published periods.
    fn default() -> Self {
        Self { limiter_s: 0.1, routing_s: 1.0, weights_s: 60.0 }
    }
}

impl Periods {
    /// The period of one loop, in seconds.
    pub fn of(&self, which: Loop) -> f64 {
        match which {
            Loop::Limiter => self.limiter_s,
            Loop::Routing => self.routing_s,
            Loop::Weights => self.weights_s,
        }
    }
}

impl Feedback {
    /// The rules in use with their names: those of the file, then those of the presets.
    pub fn rules(&self) -> Vec<(String, Rule)> {
        let own = self.control_center.iter().map(|(name, rule)| (name.clone(), rule.clone()));
        let preset =
            self.presets.iter().filter_map(|preset| Some((preset.name().to_owned(), preset.rule()?)));
        own.chain(preset).collect()
    }

    /// The alerts in use with their names: those of the file, then those of the presets. An
    /// [`crate::Alert`] names its rule by the index in this list.
    pub fn alert_rules(&self) -> Vec<(String, AlertRule)> {
        let own = self.alerts.iter().map(|(name, rule)| (name.clone(), *rule));
        let preset =
            self.presets.iter().filter_map(|preset| Some((preset.name().to_owned(), preset.alert()?)));
        own.chain(preset).collect()
    }

    /// What follows the forecast, if anything does.
    pub(crate) fn forecast_sets(&self) -> Option<&forecast::Sets> {
        self.forecast.as_ref()?.sets.as_ref()
    }

    /// Rules that no single range can state. `policy` is the policy that this is a part of.
    pub(crate) fn check(&self, policy: &Policy) -> Result<(), PolicyError> {
        for (name, rule) in &self.control_center {
            rule.check(&format!("feedback.control_center.{name}"), policy)?;
        }
        for (index, preset) in self.presets.iter().enumerate() {
            if let Some(rule) = preset.rule() {
                rule.check(&format!("feedback.presets.{index}"), policy)?;
            }
        }
        for (name, setpoint) in &self.setpoints {
            setpoint.check(&format!("feedback.setpoints.{name}"), policy)?;
        }
        if let Some(forecast) = &self.forecast {
            forecast.check("feedback.forecast", policy)?;
        }
        for (name, rule) in &self.alerts {
            rule.check(&format!("feedback.alerts.{name}"))?;
        }
        self.check_owners()
    }

    /// A parameter that two controllers pull at would swing between them.
    fn check_owners(&self) -> Result<(), PolicyError> {
        let setpoints =
            self.setpoints.iter().map(|(name, setpoint)| (format!("setpoints.{name}"), &setpoint.parameter));
        let forecast =
            self.forecast_sets().into_iter().map(|sets| ("forecast.sets".to_owned(), &sets.parameter));
        let mut owners: Vec<(String, &String)> = Vec::new();
        for (owner, parameter) in forecast.chain(setpoints) {
            if let Some((other, _)) = owners.iter().find(|(_, taken)| *taken == parameter) {
                return Err(PolicyError::not_allowed(
                    format!("feedback.{owner}.parameter"),
                    format!("`{parameter}`"),
                    format!("a parameter of its own: feedback.{other} sets this one"),
                ));
            }
            owners.push((owner, parameter));
        }
        Ok(())
    }
}
