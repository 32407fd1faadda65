//! Who comes in, and who is next: all kinds of admission, at every place and key that they allow; the store
//! that nodes share; all kinds of queues.

use super::{Dice, Draft, Feature};

/// Signals that a module may read.
pub(super) const SIGNALS: [(&str, f64); 20] = [
    ("vram", 0.5),
    ("vram_max", 0.6),
    ("kv", 0.3),
    ("llm_busy", 0.5),
    ("queue_length", 3.0),
    ("error_rate", 0.1),
    ("latency_p95", 0.5),
    ("arrival_rate", 15.0),
    ("llm_timeouts", 1.0),
    ("store_latency", 0.03),
    ("l3_share", 0.2),
    ("csat", 0.8),
    ("queue_high", 2.0),
    ("queue_standard", 2.0),
    ("queue_degraded", 2.0),
    ("token_balance", 0.5),
    ("cache_hit_rate", 0.2),
    ("ttft_p95", 0.5),
    ("in_flight", 5.0),
    ("llm_queue", 2.0),
];

/// Most permits of the gates at once, at their start.
pub(super) const GATE_AT_ONCE: u32 = 3;

pub(super) fn write(draft: &mut Draft<'_>) {
    rates(draft);
    gates(draft);
    windows(draft);
    by_signals(draft);
    store(draft);
    queue(draft);
}

/// Begins the table of a module that may stand anywhere and count by any key of `keys`; gives its place.
fn module(
    draft: &mut Draft<'_>,
    feature: Feature,
    (name, kind): (&str, &str),
    keys: &[&str],
) -> Option<(Dice, &'static str)> {
    let mut dice = draft.on(feature)?;
    let place = dice.pick(&["front", "after_retrieval", "rerank_call", "llm_call"]);
    let key = dice.pick(keys);
    draft.table(&format!("admission.{name}"));
    draft.line(format!("kind = \"{kind}\"\nplace = \"{place}\"\nkey = \"{key}\""));
    Some((dice, place))
}

const ANY: &[&str] = &["global", "endpoint", "tenant", "user"];
const SHARED: &[&str] = &["global", "endpoint", "tenant"];

/// The wait for a permit or a turn: at the front there is none.
fn wait(dice: &mut Dice, place: &str) -> String {
    let wait = dice.option("wait_at_most_s", &["0.05", "0.5"]);
    if place == "front" { String::new() } else { wait }
}

fn rates(draft: &mut Draft<'_>) {
    if let Some((mut dice, _)) = module(draft, Feature::FixedRate, ("fixed_rate", "fixed_rate"), ANY) {
        let (limit, window) = (dice.pick(&[0, 3, 9, 30, 50]), dice.option("window_s", &["0.1", "3"]));
        draft.line(format!("limit = {limit}\n{window}"));
    }
    if let Some((mut dice, _)) = module(draft, Feature::TokenBucket, ("token_bucket", "token_bucket"), ANY) {
        let (rate, burst) = (dice.pick(&["0", "2", "8", "30", "50"]), dice.pick(&["1", "9"]));
        draft.line(format!("rate_per_s = {rate}\nburst = {burst}"));
    }
    let weighted = ("weighted_bucket", "weighted_bucket");
    if let Some((mut dice, _)) = module(draft, Feature::WeightedBucket, weighted, ANY) {
        let (base, refill) = (dice.pick(&["1", "20", "60"]), dice.pick(&["steady", "errors", "vram"]));
        let cut = dice.option("overdraft_cut_s", &["0", "2"]);
        draft.line(format!("base_rate_per_s = {base}\nrefill = \"{refill}\"\n{cut}"));
    }
    let priority = ("priority_buckets", "priority_buckets");
    if let Some((mut dice, _)) = module(draft, Feature::PriorityBuckets, priority, ANY) {
        let (rate, cost) = (dice.pick(&["2", "50", "5000"]), dice.pick(&["requests", "tokens"]));
        let more = dice.option("burst_s", &["0", "5"]) + &dice.option("decay", &["0", "1"]);
        draft.line(format!("rate_per_s = {rate}\ncost = \"{cost}\"\n{more}"));
    }
    if let Some((mut dice, place)) = module(draft, Feature::Paced, ("paced", "paced"), ANY) {
        let (rate, wait) = (dice.pick(&["3", "30", "100"]), wait(&mut dice, place));
        let resolution = dice.option("resolution", &["\"millisecond\""]);
        draft.line(format!("rate_per_s = {rate}\n{resolution}{wait}"));
    }
}

fn gates(draft: &mut Draft<'_>) {
    for (feature, name) in [(Feature::ConcurrencyGate, "gate"), (Feature::SecondGate, "second_gate")] {
        let Some((mut dice, place)) = module(draft, feature, (name, "concurrency_gate"), ANY) else {
            continue;
        };
        let (retry, full) = (dice.option("retry_after_s", &["0", "1"]), dice.pick(&["busy", "skip"]));
        let (wait, keep) = (wait(&mut dice, place), dice.option("keep", &["0", "2"]));
        let full = if place == "front" { "busy" } else { full };
        draft.line(format!("max_at_once = {GATE_AT_ONCE}\non_full = \"{full}\"\n{retry}{wait}{keep}"));
    }
    let adaptive = ("adaptive", "adaptive_concurrency");
    if let Some((mut dice, place)) = module(draft, Feature::AdaptiveConcurrency, adaptive, SHARED) {
        let law = dice.pick(&[
            "{ kind = \"aimd\" }",
            "{ kind = \"aimd\", latency_above_s = 0.3, decrease = 0.5 }",
            "{ kind = \"gradient\", measure_every_s = 3, measure_requests = 5, window_s = 0.5 }",
            "{ kind = \"gradient\", measure_at = 1, keep_old_samples = true }",
        ]);
        let (retry, wait) = (dice.option("retry_after_s", &["0", "1"]), wait(&mut dice, place));
        draft.line(format!("law = {law}\ninitial = 3\nmost = {GATE_AT_ONCE}\n{retry}{wait}"));
    }
}

fn windows(draft: &mut Draft<'_>) {
    if let Some((mut dice, _)) = module(draft, Feature::TokenWindow, ("token_window", "token_window"), ANY) {
        let (quota, charge) = (dice.pick(&["300", "5000", "50000"]), dice.pick(&["on_entry", "on_end"]));
        let requests = dice.option("requests", &["2", "200"]);
        let shared = dice.option("shared_window", &["true"]);
        let shared = if requests.is_empty() { "" } else { &shared };
        let more = dice.option("window_s", &["1", "5"])
            + &dice.option("estimate_factor", &["0", "3"])
            + &dice.option("count_rejected", &["true"])
            + &dice.option("sub_windows", &["1", "3"])
            + &dice.option("shared_expiry_s", &["1"]);
        draft.line(format!("quota = {quota}\ncharge = \"{charge}\"\n{requests}{shared}{more}"));
    }
    let frequency = ("user_frequency", "user_frequency");
    if let Some((mut dice, _)) = module(draft, Feature::UserFrequency, frequency, ANY) {
        let (limit, window) = (dice.pick(&[1, 8]), dice.pick(&["0.5", "10"]));
        draft.line(format!("limit = {limit}\nwindow_s = {window}"));
    }
}

fn by_signals(draft: &mut Draft<'_>) {
    if let Some((mut dice, _)) = module(draft, Feature::BacklogGate, ("backlog", "backlog_gate"), &["global"])
    {
        let (signal, below) = dice.pick(&SIGNALS);
        let more = dice.option("credit", &["false"]) + &dice.option("retry_after_s", &["0", "1"]);
        draft.line(format!("signal = \"{signal}\"\nbelow = {below:?}\n{more}"));
    }
    let early = ("early", "early_rejection");
    if let Some((mut dice, _)) = module(draft, Feature::EarlyRejection, early, SHARED) {
        let (capacity, rule) = (dice.pick(&[1, 6, 20]), dice.pick(&["predicted", "present"]));
        draft.line(format!(
            "decode_at_once = {capacity}\nrule = \"{rule}\"\nprefill_s = 0.05\nprefill_ms_per_token = 0.2\n\
             decode_ms_per_token = 4"
        ));
    }
    if let Some((mut dice, _)) = module(draft, Feature::LoadShed, ("load_shed", "load_shed"), ANY) {
        let ((signal, from), spared) = (dice.pick(&SIGNALS), dice.pick(&[0, 1, 5]));
        let to = from * dice.pick(&[1.0, 2.0]);
        let retry = dice.option("retry_after_s", &["0", "1"]);
        draft
            .line(format!("signal = \"{signal}\"\nfrom = {from:?}\nto = {to:?}\nspared = {spared}\n{retry}"));
    }
}

/// A limiter whose rate nodes share through the store.
fn store(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::Store) else { return };
    let limiter = dice.pick(&[
        "kind = \"fixed_rate\"\nlimit = 20",
        "kind = \"token_bucket\"\nrate_per_s = 20\nburst = 5",
        "kind = \"weighted_bucket\"\nbase_rate_per_s = 30",
    ]);
    let key = dice.pick(ANY);
    let more = dice.option("nodes", &["2", "5"])
        + &dice.option("divided", &["false"])
        + &dice.option("sync_period_s", &["0.2"])
        + &dice.option("timeout_s", &["0", "2"])
        + &dice.option("keep_last_s", &["0", "2"])
        + &dice.option("fixed_rate_per_s", &["1", "50"])
        + &dice.option("accept_empty_rules", &["true"]);
    draft.table("admission.shared");
    draft.line(format!("{limiter}\nkey = \"{key}\""));
    draft.table("store");
    draft.line(format!("module = \"shared\"\n{more}"));
}

fn queue(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::Queue) else { return };
    let kind = dice.pick(&QUEUES);
    let rules = match kind {
        "strict_priority" => dice.option("by", &["\"tier\""]) + &dice.option("aging_s", &["0.3", "2"]),
        "lifo_under_overload" => {
            "overload_wait_s = 0.3\n".to_owned() + &dice.option("overload_length", &["0", "4"])
        }
        "earliest_deadline" => dice.option("target_s", &["{ s0 = 0, s2 = 0.5, s4 = 3 }"]),
        "weighted_fair" => {
            dice.option("by", &["\"tier\"", "\"tenant\"", "\"user\""])
                + &dice.option("cost", &["\"tokens\""])
                + &dice.option("weights", &["{ q0 = 5, q4 = 0.01 }"])
                + &dice.option("max_length_of_flow", &["0", "2"])
        }
        "semantic" => {
            dice.option("form", &["\"weighted\""])
                + &dice.option("first_queue", &["\"urgency\""])
                + &dice.option("expedite", &["true"])
                + &dice.option("move_above", &["0.2"])
                + &dice.option("decay_factor", &["0", "1"])
                + &dice.option("decay_window_s", &["2"])
                + &dice.option("aging_s", &["0.3", "2"])
                + &dice.option(
                    "weights",
                    &["{ high = 1, standard = 1, degraded = 1 }", "{ high = 0, degraded = 0 }"],
                )
                + &dice.option("degraded_level", &["\"l1\"", "\"l2\"", "\"l4\""])
                + &dice.option("l1_score_at_least", &["0.4", "1"])
        }
        _ => String::new(),
    };
    draft.table("queue");
    draft.line(format!("kind = \"{kind}\"\n{rules}"));
    if let Some(mut dice) = draft.on(Feature::QueueLimits) {
        let (length, wait) = (dice.pick(&[0, 5]), dice.pick(&["0", "0.4"]));
        draft.line(format!("max_length = {length}\nmax_wait_s = {wait}"));
    }
}

/// All kinds of queues.
const QUEUES: [&str; 6] =
    ["fifo", "strict_priority", "lifo_under_overload", "earliest_deadline", "weighted_fair", "semantic"];

/// Whether the queue is the semantic one, whose numbers the published rules set.
pub(super) fn queue_is_semantic(draft: &Draft<'_>) -> bool {
    draft.on(Feature::Queue).is_some_and(|mut dice| dice.pick(&QUEUES) == "semantic")
}
