//! The thresholds of the ladder that findings look at: all that a policy sets, whatever the signal.

use forebay_policies::fallback::levels::LevelRule;
use forebay_policies::{Policy, SignalKind};

/// A threshold of a level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    /// Level's name, such as `l2`.
    pub(super) level: &'static str,
    /// Path of the parameter, from the policy.
    pub(super) path: String,
    pub(super) signal: SignalKind,
    pub(super) above: f64,
    /// Where the level is left, if that is stated.
    pub(super) below: Option<f64>,
    /// The metric that says for which share of the time the signal was there or above.
    pub(super) time: String,
}

/// The thresholds that a policy sets on signals.
pub(super) fn thresholds(policy: &Policy) -> Vec<Threshold> {
    let fallback = &policy.fallback;
    let mut found = Vec::new();
    for (level, rule) in [("l2", &fallback.l2), ("l3", &fallback.l3), ("l4", &fallback.l4)] {
        for (signal, name, above) in rule.set_thresholds() {
            found.push(Threshold {
                level,
                path: format!("fallback.{level}.{name}"),
                signal,
                above,
                below: below(rule, name),
                time: format!("time_{level}_{name}"),
            });
        }
    }
    found
}

/// The value of the `..._below...` that goes with an `..._above...`: read by its name, so that there is no second
/// list of them.
fn below(rule: &LevelRule, above: &str) -> Option<f64> {
    serde_json::to_value(rule).ok()?.get(above.replace("_above", "_below"))?.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_threshold_has_its_path_its_metric_and_where_it_is_left() {
        let file = "[fallback]\nl2 = { vram_above = 0.8, vram_below = 0.7 }\nl4 = { latency_above_s = 9, \
                    latency_below_s = 5, arrivals_above_per_s = 30 }\n";
        let found = thresholds(&toml::from_str(file).unwrap());
        let told: Vec<_> =
            found.iter().map(|t| (t.path.as_str(), t.time.as_str(), t.above, t.below)).collect();
        assert_eq!(
            told,
            [
                ("fallback.l2.vram_above", "time_l2_vram_above", 0.8, Some(0.7)),
                ("fallback.l4.latency_above_s", "time_l4_latency_above_s", 9.0, Some(5.0)),
                ("fallback.l4.arrivals_above_per_s", "time_l4_arrivals_above_per_s", 30.0, None),
            ]
        );
    }
}
