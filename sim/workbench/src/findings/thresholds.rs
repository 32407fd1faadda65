//! The thresholds of the ladder that findings look at.

use forebay_model::scenario::Scenario;
use forebay_policies::fallback::levels::LevelRule;

/// What a threshold is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compared {
    Vram,
    VramMax,
    Kv,
    Queue,
}

/// A threshold of a level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Threshold {
    /// Level's name, such as `l2`.
    pub(super) level: &'static str,
    /// Path of the parameter.
    pub(super) path: String,
    pub(super) compared: Compared,
    pub(super) above: f64,
    pub(super) below: Option<f64>,
}

/// The thresholds that a scenario sets on memory, KV blocks and the queue.
pub(super) fn thresholds(scenario: &Scenario) -> Vec<Threshold> {
    let fallback = &scenario.policy.fallback;
    let mut found = Vec::new();
    for (level, rule) in [("l2", &fallback.l2), ("l3", &fallback.l3), ("l4", &fallback.l4)] {
        for (name, compared, above, below) in set(rule) {
            let Some(above) = above else { continue };
            let path = format!("policy.fallback.{level}.{name}");
            found.push(Threshold { level, path, compared, above, below });
        }
    }
    found
}

type Set = (&'static str, Compared, Option<f64>, Option<f64>);

fn set(rule: &LevelRule) -> [Set; 4] {
    [
        ("vram_above", Compared::Vram, rule.vram_above, rule.vram_below),
        ("vram_max_above", Compared::VramMax, rule.vram_max_above, rule.vram_max_below),
        ("kv_above", Compared::Kv, rule.kv_above, rule.kv_below),
        ("queue_above", Compared::Queue, rule.queue_above, rule.queue_below),
    ]
}
