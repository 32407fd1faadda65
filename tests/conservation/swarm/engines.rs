//! What answers: the slots engine, the batching engine, external providers; and how many replicas run.

use super::stages::limits;
use super::{Dice, Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    slots(draft);
    batching(draft);
    providers(draft);
}

fn slots(draft: &mut Draft<'_>) {
    let mut dice = draft.dice("model");
    let (first, more) = (dice.law(0.1), limits(draft, &mut dice));
    let routing = dice.pick(&["least_loaded", "round_robin"]);
    let slowdown = if draft.has(Feature::SlowedByLoad) { "0.3" } else { "0" };
    draft.line(format!(
        "[stages.model]\nkind = \"llm_slots\"\nreplicas = 2\nslots = 3\nfirst_token_s = {first}\n\
         per_prompt_token_s = 0.0001\nper_token_s = 0.004\nslowdown_per_busy = {slowdown}\n\
         routing = \"{routing}\"\n{more}"
    ));
    if let Some(mut dice) = draft.on(Feature::Cold) {
        draft.line(format!("cold_first_call_s = 0.5\nwarmed = {}", dice.coin()));
    }
    if let Some(mut dice) = draft.on(Feature::SlotMemory) {
        let then = dice.pick(&["fail_call", "restart"]);
        draft.line(format!(
            "memory = {{ device = \"gpu\", weights_gb = 1.5, per_call_gb = 0.6, per_token_mb = 5, \
             on_out_of_memory = \"{then}\", restart_s = 1.5 }}"
        ));
    }
    if let Some(dice) = draft.on(Feature::ScaledModel) {
        autoscale(draft, "model", dice);
    }
}

fn batching(draft: &mut Draft<'_>) {
    let mut dice = draft.dice("engine");
    let blocks = dice.pick(&["20", "60", "1000"]);
    let routing = dice.pick(&["least_loaded", "round_robin"]);
    let more = dice.option("prefix_hit_share", &["0.5", "1"])
        + &dice.option("reserve_full_prompt", &["false"])
        + &dice.option("resume_from_cache", &["false"])
        + &dice.option("queue", &["\"priority\""]);
    draft.line(format!(
        "[stages.engine]\nkind = \"llm_batching\"\nreplicas = 2\nmax_seqs = 4\nmax_batched_tokens = 128\n\
         kv_blocks = {blocks}\nblock_tokens = 16\nrouting = \"{routing}\"\n{more}\
         cost = {{ c0_s = 0.005, per_prefill_token_s = 0.0001, per_prefill_context_s = 0.0, \
         per_decode_sequence_s = 0.0002, per_resident_token_s = 0.000001 }}"
    ));
    if draft.has(Feature::BoundedStages) {
        draft.line("max_calls = 6");
    }
    if draft.has(Feature::LimitedStages) {
        draft.line("time_limit_s = 2");
    }
    if draft.has(Feature::EngineDevice) {
        draft.line("device = \"gpu\"\nmemory_share = 0.2");
    }
    if let Some(dice) = draft.on(Feature::ScaledEngine) {
        autoscale(draft, "engine", dice);
    }
}

fn autoscale(draft: &mut Draft<'_>, stage: &str, mut dice: Dice) {
    let by = dice.pick(&["demand", "schedule", "forecast"]);
    // A start takes at least as long as the first call of a cold replica.
    let (start, stop, check) = (dice.pick(&["0.5", "5"]), dice.pick(&["0", "1"]), dice.pick(&["0.5", "2"]));
    let lead = dice.option("lead_s", &["0", "3"]);
    draft.line(format!(
        "[stages.{stage}.autoscale]\nby = \"{by}\"\nleast = 1\nmost = 4\nstart_s = {start}\n\
         stop_after_s = {stop}\ncheck_every_s = {check}\nseconds_per_arrival = 0.3\n\
         schedule = [[0, 2], [5, 4], [9, 1]]\n{lead}"
    ));
}

fn providers(draft: &mut Draft<'_>) {
    if !draft.has(Feature::Providers) {
        return;
    }
    draft.line("[stages.api]\nkind = \"providers\"");
    let count = 1 + draft.dice("api").roll(3) as usize;
    for name in &["main", "second", "third"][..count] {
        let mut dice = draft.dice(name);
        let first = dice.law(0.1);
        let bounds = dice.option("max_at_once", &["1", "4"])
            + &dice.option("requests_per_min", &["30", "300"])
            + &dice.option("tokens_per_min", &["3000", "60000"]);
        let jitter = dice.option("retry_jitter", &["0.5"]);
        let more = dice.option("burst_share", &["0.02", "0.2"])
            + &dice.option("refused_calls_count", &["true"])
            + &dice.option("retry_after_s", &["0", "1"])
            + &dice.option("error_rate", &["0.3", "1"])
            + &dice.option("error_after_s", &["0.1"])
            + &dice.option("time_limit_s", &["0.05", "1"])
            + &dice.option("price_in_per_1k", &["0.5"])
            + &dice.option("price_out_per_1k", &["2"])
            + &dice.option("quality", &["0.5"]);
        let jitter = if bounds.is_empty() { "" } else { &jitter };
        draft.line(format!(
            "[stages.api.providers.{name}]\nfirst_token_s = {first}\nper_prompt_token_s = 0.0001\n\
             per_token_s = 0.002\n{bounds}{jitter}{more}"
        ));
    }
}

/// The main provider is there whenever any is.
pub(super) const MAIN_PROVIDER: &str = "main";
