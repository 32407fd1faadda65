//! How it is answered when the service cannot do its best: levels, floors, guards, fail-over.

use super::{Dice, Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    draft.table("fallback");
    if let Some(mut dice) = draft.on(Feature::Levels) {
        let dwell = dice.pick(&["0", "0.5", "3"]);
        draft.line(format!("least_dwell_s = {dwell}"));
        for level in ["l2", "l3", "l4"] {
            let rule = level_rule(&mut dice);
            draft.line(format!("{level} = {{ {rule} }}"));
        }
    }
    if let Some(mut dice) = draft.on(Feature::Floors) {
        for class in ["s0", "s2", "s4"] {
            let level = dice.pick(&["l1", "l2", "l3", "l4"]);
            let (red, main) = (dice.coin(), dice.coin());
            draft.line(format!(
                "class.{class} = {{ min_level = \"{level}\", red_line = {red}, main_provider_only = {main} }}"
            ));
        }
    }
    if let Some(mut dice) = draft.on(Feature::RerankGuard) {
        let (wait, degraded) = (dice.pick(&["0", "30"]), dice.pick(&["0", "1"]));
        draft.line(format!(
            "rerank = {{ max_at_once = 2, wait_at_most_ms = {wait}, p95_above_ms = 40, p95_over = 5, \
             degraded_s = {degraded}, keep = 2 }}"
        ));
    }
    if let Some(mut dice) = draft.on(Feature::TopK) {
        let by = dice.pick(&["arrival_rate", "store_latency", "both"]);
        draft.line(format!(
            "top_k = {{ by = \"{by}\", medium_from_per_s = 5, few_from_per_s = 20, medium_from_ms = 20, \
             few_from_ms = 60, many = 25, medium = 10, few = 1 }}"
        ));
    }
    let last_resort = draft.has(Feature::LastResort) && draft.has(Feature::SemanticCache);
    if last_resort {
        let similarity = draft.dice("last_resort").pick(&["0", "0.8"]);
        draft.line(format!("cache_last_resort = {{ min_similarity = {similarity} }}"));
    }
    fail_over(draft, last_resort);
}

/// Thresholds on one to three signals, some with the lower one that clears them.
fn level_rule(dice: &mut Dice) -> String {
    let all = [
        ("vram_above = 0.4", "vram_below = 0.3"),
        ("vram_max_above = 0.6", "vram_max_below = 0.3"),
        ("kv_above = 0.5", "kv_below = 0.2"),
        ("llm_busy_above = 0.6", "llm_busy_below = 0.5"),
        ("queue_above = 4", "queue_below = 1"),
        ("error_rate_above = 0.1", "error_rate_below = 0.05"),
        ("latency_above_s = 1", "latency_below_s = 0.5"),
        ("arrivals_above_per_s = 12", "arrivals_below_per_s = 8"),
        ("llm_timeouts_above = 1", "llm_timeouts_window_s = 2"),
    ];
    let first = dice.roll(all.len() as u64) as usize;
    let count = 1 + dice.roll(3) as usize;
    let mut parts = Vec::new();
    for (above, below) in all.iter().cycle().skip(first).take(count) {
        parts.push(*above);
        if dice.coin() {
            parts.push(below);
        }
    }
    parts.join(", ")
}

fn fail_over(draft: &mut Draft<'_>, last_resort: bool) {
    let Some(mut dice) = draft.on(Feature::FailOver) else { return };
    let full = dice.pick(&["fail", "wait", "last_resort"]);
    let full = if full == "last_resort" && !last_resort { "wait" } else { full };
    let more = dice.option("error_share_above", &["0", "1"])
        + &dice.option("window_s", &["0.5"])
        + &dice.option("least_calls", &["1", "3"])
        + &dice.option("allowed_failures", &["0", "2"])
        + &dice.option("cooldown_s", &["0", "1", "30"])
        + &dice.option("probes", &["1", "5"])
        + &dice.option("count_rate_limited", &["false", "true"])
        + &dice.option("honour_retry_after", &["false", "true"])
        + &dice.option("slow_above_s", &["0.05"])
        + &dice.option("each_once", &["false"])
        + &dice.option("calls_at_most", &["1", "7"])
        + &dice.option("retries", &["1", "3"])
        + &dice.option("backoff_s", &["0", "0.1"])
        + &dice.option("wait_at_most_s", &["0", "0.5"]);
    draft.table("fallback.providers");
    draft.line(format!("when_all_open = \"{full}\"\n{more}"));
}
