//! What the semantic cache, rules and agents do in the running service, told by small scenarios.

use crate::replication::Replication;
use crate::small::{metric, refused, run, stage};

/// A cache before a model that takes one second and has room for all.
const CACHED: &str = r#"
name = "cached"
[run]
duration_s = 1000
warmup_s = 100
drain_s = 60
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 5
[workload.classes.question]
tokens_in = 100
tokens_out = 10
[workload.questions]
clusters = 3000
exponent = 0.8
[endpoints.ask]
l1 = ["cache", "llm"]
[stages.cache]
kind = "semantic_cache"
lookup_s = 0.02
[stages.llm]
kind = "server"
servers = 1000
service_s = 1.0
"#;

/// Published case S1.
#[test]
fn hits_fall_and_correctness_rises_with_the_threshold() {
    let at = |threshold: f64| run(CACHED, &[&format!("stages.cache.threshold={threshold}")]);
    let runs: Vec<_> = [0.80, 0.86, 0.90, 0.92, 0.95, 0.98].into_iter().map(at).collect();
    for pair in runs.windows(2) {
        assert!(metric(&pair[0], "cache_hit_rate") > metric(&pair[1], "cache_hit_rate"));
        assert!(metric(&pair[0], "right_share") <= metric(&pair[1], "right_share"));
    }
    // 0.80 returns wrong answers, 0.92 hardly any, 0.98 almost never hits.
    assert!(metric(&runs[0], "cache_wrong_rate") > 0.1);
    assert!(metric(&runs[3], "cache_wrong_rate") < 0.01);
    assert!(metric(&runs[3], "cache_hit_rate") > 0.2);
    assert!(metric(&runs[5], "cache_hit_rate") < 0.05);
}

/// Published case S2.
#[test]
fn keyword_check_and_time_to_live_cost_hits_and_save_wrong_ones() {
    let base = "stages.cache.threshold=0.85";
    let ages = "stages.cache.stale_after_s={ kind = \"exponential\", mean = 400 }";
    let safer = |before: &[&str], more: &str| {
        let (plain, safer) = (run(CACHED, before), run(CACHED, &[before, &[more]].concat()));
        assert!(metric(&safer, "cache_wrong_rate") < 0.7 * metric(&plain, "cache_wrong_rate"), "{more}");
        assert!(metric(&safer, "cache_hit_rate") < metric(&plain, "cache_hit_rate"), "{more}");
        assert!(metric(&safer, "right_share") > metric(&plain, "right_share"), "{more}");
    };
    safer(&[base], "stages.cache.keyword_check={}");
    safer(&[base, ages], "stages.cache.ttl_s=100");
}

#[test]
fn a_cached_answer_comes_at_once_and_counts_apart() {
    let cached = run(CACHED, &["run.warmup_s=0"]);
    let answered = cached.ledger.answered;
    assert!(answered.cache > 1000 && answered.l1 > 1000);
    assert_eq!(answered.cache + answered.l1, cached.ledger.offered);
    assert_eq!(metric(&cached, "tokens_out"), 10.0 * answered.l1 as f64);
    let share = answered.l1 as f64 / cached.ledger.offered as f64;
    assert!((metric(&cached, "share_l1") - share).abs() < 1e-12);
    assert_eq!(stage(&cached, "cache.l1", "hit_rate"), metric(&cached, "cache_hit_rate"));
    // A hit takes the lookup alone.
    assert!((metric(&cached, "latency_mean_s") - (0.02 + share)).abs() < 1e-6);
    let shown: u64 = cached.timeline.iter().map(|point| point.cached).sum();
    assert!(shown + 10 >= answered.cache && shown <= answered.cache);
    let none = run(&CACHED.replace("\"cache\", ", ""), &["run.warmup_s=0"]);
    assert_ne!(none.digest, cached.digest);
    assert_eq!(none.metrics["cache_hit_rate"].value, None);
}

/// Published case F7.
#[test]
fn a_level_that_reads_through_another_s_cache_drives_out_its_answers() {
    let text = r#"
name = "isolation"
[run]
duration_s = 1000
warmup_s = 200
[workload.sources.vip]
kind = "poisson"
rate_per_s = 2
[workload.sources.faq]
kind = "poisson"
rate_per_s = 30
from_s = 20
[workload.mix.vip]
vip = 1
[workload.mix.faq]
plain = 1
[workload.classes.vip]
business_class = 0
[workload.classes.plain]
[workload.questions]
clusters = 1000
[endpoints.ask]
l1 = ["cache", "llm"]
l3 = ["cache", "rules"]
[stages.cache]
kind = "semantic_cache"
lookup_s = 0.01
capacity = 200
[stages.llm]
kind = "server"
servers = 1000
service_s = 1.0
[stages.rules]
kind = "rules"
servers = 100
service_s = 0.01
[policy.fallback]
l3.arrivals_above_per_s = 0.1
class.s0.min_level = "l1"
"#;
    let quiet = run(text, &["workload.sources.faq.rate_per_s=0"]);
    let isolated = run(text, &[]);
    let shared = run(text, &["stages.cache.pools=shared"]);
    let of_l1 = |replication: &Replication, name: &str| stage(replication, "cache.l1", name);
    for name in ["hit_rate", "evictions"] {
        assert_eq!(of_l1(&isolated, name), of_l1(&quiet, name), "{name}");
    }
    assert!(of_l1(&shared, "hit_rate") < 0.8 * of_l1(&quiet, "hit_rate"));
    assert!(of_l1(&shared, "evictions") > 1.3 * of_l1(&quiet, "evictions"));
}

/// Published case P3.
#[test]
fn a_cache_breaks_the_circle_of_people_who_ask_again() {
    let settings = [
        "workload.people.patience={ give_up_after_s = 3, noticed = false }",
        "workload.people.resend={ probability = 1, after_s = 1, at_most = 5 }",
        "stages.llm={ kind = \"server\", servers = 60, service_s = 10 }",
        "workload.questions.clusters=300",
        "stages.cache.threshold=0.85",
        "workload.sources.crowd.rate_per_s=3",
        "run.drain_s=300",
    ];
    let circle = run(&CACHED.replace("\"cache\", ", ""), &settings);
    let broken = run(CACHED, &settings);
    // Six times the load that two thirds of the model would carry; hardly anybody is answered.
    assert!(metric(&circle, "attempts_per_request") > 5.0);
    assert!(metric(&circle, "error_rate") > 0.9);
    assert!(metric(&broken, "attempts_per_request") < 2.0, "{}", metric(&broken, "attempts_per_request"));
    assert!(metric(&broken, "error_rate") < 0.1, "{:?}", broken.ledger);
    // Most are answered by what was computed for those who had left.
    assert!(broken.ledger.answered.cache > 4 * broken.ledger.answered.l1);
    assert!(stage(&broken, "llm", "utilisation") < 0.7 * stage(&circle, "llm", "utilisation"));
}

/// Published case R7.
#[test]
fn the_nearest_cached_answer_is_the_last_resort() {
    let slow = [
        "stages.llm={ kind = \"llm_slots\", replicas = 1, slots = 4, first_token_s = 2, time_limit_s = 4 }",
        "stages.cache.threshold=0.97",
        "workload.questions.clusters=100",
    ];
    let rule = "policy.fallback.cache_last_resort={ min_similarity = 0.5 }";
    let strict = "policy.fallback.class.s2={ min_level = \"l1\", red_line = true }";
    let with = |more: &[&str]| run(CACHED, &[&slow[..], more].concat());
    let without = with(&[]);
    assert!(without.ledger.timed_out > 1000);
    let served = with(&[rule]);
    assert!(served.ledger.timed_out < without.ledger.timed_out / 5, "{:?}", served.ledger);
    assert!(stage(&served, "cache.l1", "last_resorts") > 1000.0);
    assert_eq!(with(&[rule, strict]).digest, without.digest);
    // An engine that is lost with its GPU or restarts, or has no replica, is no different.
    let engine = "stages.llm={ kind = \"llm_batching\", replicas = 2, device = \"gpu\", max_seqs = 64, \
                  max_batched_tokens = 2048, kv_blocks = 4096, cost = { c0_s = 0.05, \
                  per_prefill_token_s = 0.0, per_prefill_context_s = 0.0, per_decode_sequence_s = 0.0, per_resident_token_s = 0.0 } }";
    let slots = "stages.llm={ kind = \"llm_slots\", replicas = 2, slots = 20, first_token_s = 1, \
                 max_queue = 2, memory = { device = \"gpu\", weights_gb = 1, per_call_gb = 1, restart_s = 5 } }";
    let gpus = |gb: u32| format!("devices.gpu={{ count = 2, memory_gb = {gb} }}");
    let restarts = "stages.llm.memory.on_out_of_memory=restart";
    let lost = "faults.f={ kind = \"gpu_lost\", device = \"gpu\", count = 2, from_s = 500, to_s = 600 }";
    for (settings, why) in [
        (vec![engine, &gpus(40), lost], vec!["no_replica", "gpu_lost"]),
        (vec![slots, &gpus(40), lost], vec!["gpu_lost"]),
        (vec![slots, &gpus(5)], vec!["out_of_memory"]),
        (vec![slots, &gpus(5), restarts], vec!["out_of_memory", "engine_restarted"]),
    ] {
        let clusters = ["workload.questions.clusters=100", "stages.cache.threshold=0.97"];
        let without = run(CACHED, &[&settings[..], &clusters].concat());
        let with = run(CACHED, &[&settings[..], &clusters, &[rule]].concat());
        for why in why {
            let failed = |run: &Replication| run.ledger.failed.get(why).copied().unwrap_or(0);
            assert!(failed(&without) > 5 * failed(&with), "{why}: {} {}", failed(&without), failed(&with));
        }
    }
    // A stage that is full and providers that answer 429 are no different.
    let full = with(&[rule, "stages.llm.max_queue=0"]);
    assert!(full.ledger.rejected.get("stage.llm.full").copied().unwrap_or(0) < 500, "{:?}", full.ledger);
    let refusing = run(
        CACHED,
        &[
            "stages.llm={ kind = \"providers\", providers = { main = { first_token_s = 1, max_at_once = 1 } } }",
            "policy.fallback.providers={ allowed_failures = 3, when_all_open = \"last_resort\", cooldown_s = 5 }",
            "workload.questions.clusters=50",
            rule,
        ],
    );
    assert!(stage(&refusing, "cache.l1", "last_resorts") > 100.0, "{:?}", refusing.by["stage"]["cache.l1"]);
}

/// While no replica is up, calls wait for one until their time is over.
#[test]
fn the_wait_before_the_last_resort_is_part_of_the_wait() {
    let down = run(
        CACHED,
        &[
            "stages.llm={ kind = \"llm_slots\", replicas = 1, slots = 100, first_token_s = 1, time_limit_s = 4 }",
            "faults.down={ kind = \"replica_crash\", from_s = 400, to_s = 600, stage = \"llm\" }",
            "stages.cache.threshold=0.97",
            "workload.questions.clusters=100",
            "policy.fallback.cache_last_resort={ min_similarity = 0.5 }",
        ],
    );
    assert!(stage(&down, "cache.l1", "last_resorts") > 500.0, "{:?}", down.by["stage"]["cache.l1"]);
    // What is left of the latency is lookup and service.
    let served_s = stage(&down, "llm", "busy_mean") / metric(&down, "throughput_per_s");
    let rest_s = metric(&down, "latency_mean_s") - metric(&down, "wait_mean_s");
    assert!((rest_s - 0.02 - served_s).abs() < 0.02, "{rest_s} s, of which {served_s} s of service");
}

const RULES: &str = r#"
name = "rules"
[run]
duration_s = 7200
drain_s = 60
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 1
[workload.classes.old]
faq_share = 0.8
[workload.classes.promotion]
weight = 0.25
new_share = 1.0
[endpoints.ask]
l1 = ["rules"]
l3 = ["rules"]
l4 = ["hand_off"]
[stages.rules]
kind = "rules"
servers = 10
service_s = 0.01
[stages.rules.knowledge_base]
[stages.hand_off]
kind = "server"
servers = 100
service_s = 0.05
"#;

#[test]
fn what_no_rule_matches_is_counted_and_wrong_or_handed_over() {
    let answered = run(RULES, &[]);
    let close = |value: f64, expected: f64| assert!((value - expected).abs() < 0.02, "{value} {expected}");
    // 80 % are old questions, of which 80 % match; of the promotion none.
    close(metric(&answered, "right_share"), 0.64);
    close(stage(&answered, "rules", "unmatched_share"), 0.36);
    let unmatched = stage(&answered, "rules", "unmatched.promotion");
    close(unmatched / answered.ledger.offered as f64, 0.2);
    let over = run(RULES, &["stages.rules.knowledge_base.on_no_match=hand_over"]);
    close(metric(&over, "share_l4"), 0.36);
    assert_eq!(metric(&over, "right_share"), 1.0);
    // The promotion is entered after an hour.
    let entered = run(RULES, &["stages.rules.knowledge_base.new_entered_at_s=3600"]);
    close(metric(&entered, "right_share"), 0.74);
    let stale = run(
        RULES,
        &[
            "stages.rules.knowledge_base.new_entered_at_s=3600",
            "faults.old={ kind = \"knowledge_base_stale\", from_s = 0, to_s = 7200 }",
        ],
    );
    close(metric(&stale, "right_share"), 0.64);
}

/// Published case F8: a promotion that no keyword knows goes to the third queue, and so to L3.
#[test]
fn a_promotion_raises_the_share_of_l3_and_no_other_signal() {
    let text = r#"
name = "promotion"
[run]
duration_s = 1200
warmup_s = 60
[workload.sources.usual]
kind = "poisson"
rate_per_s = 10
[workload.sources.promotion]
kind = "poisson"
rate_per_s = 6.5
[workload.mix.usual]
known = 0.9
small_talk = 0.1
[workload.mix.promotion]
promotion = 1
[workload.population]
users = 100000
[workload.classes.known]
urgent_share = 0.3
service_keyword_share = 1.0
faq_share = 0.7
[workload.classes.small_talk]
faq_share = 1.0
[workload.classes.promotion]
new_share = 1.0
[gateway]
executor_slots = 100
[endpoints.ask]
l1 = ["llm"]
l3 = ["rules"]
[stages.llm]
kind = "llm_slots"
replicas = 5
slots = 4
first_token_s = 1.0
[stages.rules]
kind = "rules"
servers = 10
service_s = 0.05
[stages.rules.knowledge_base]
[policy.queue]
kind = "semantic"
"#;
    let usual = run(text, &["workload.sources.promotion.rate_per_s=0"]);
    let promoted = run(text, &[]);
    assert!((metric(&usual, "share_l3") - 0.1).abs() < 0.02, "{}", metric(&usual, "share_l3"));
    assert!((metric(&promoted, "share_l3") - 0.45).abs() < 0.05, "{}", metric(&promoted, "share_l3"));
    for replication in [&usual, &promoted] {
        assert_eq!(metric(replication, "error_rate"), 0.0);
        assert!(metric(replication, "latency_p95_s") < 1.5);
    }
    let busy = |replication: &Replication| stage(replication, "llm", "utilisation");
    assert!((busy(&usual) - busy(&promoted)).abs() < 0.02);
    // Its cause: what the rules did not match.
    assert_eq!(usual.by["stage"]["rules"].get("unmatched.promotion"), None);
    assert!(stage(&promoted, "rules", "unmatched.promotion") > 6000.0);
}

const DESK: &str = r#"
name = "desk"
[run]
duration_s = 200000
warmup_s = 5000
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 0.05
[workload.classes.question]
[endpoints.ask]
l1 = ["people"]
[stages.people]
kind = "agents"
agents = 6
handling_s = { kind = "exponential", mean = 100 }
"#;

#[test]
fn agents_wait_and_work_as_erlang_says() {
    let replication = run(DESK, &[]);
    let of = |name: &str| stage(&replication, "people", name);
    assert!((of("agent_utilisation") - 5.0 / 6.0).abs() < 0.02, "{}", of("agent_utilisation"));
    // Erlang C for 5 erlang on 6 agents: 0.588 wait, 58.8 s in the mean; 2.94 wait at a time.
    assert!((of("agent_wait_mean_s") / 58.8 - 1.0).abs() < 0.15, "{}", of("agent_wait_mean_s"));
    assert!((of("agent_queue_mean") / 2.94 - 1.0).abs() < 0.15, "{}", of("agent_queue_mean"));
    // The hand-off itself is made at once.
    assert!(metric(&replication, "latency_max_s") < 0.1);
    let leaving = run(DESK, &["stages.people.give_up_after_s=60"]);
    assert!(stage(&leaving, "people", "gave_up_share") > 0.05);
    assert!(stage(&leaving, "people", "agent_wait_max_s") <= 60.0);
    let lost = 1.0 - metric(&leaving, "right_share");
    assert!((lost - stage(&leaving, "people", "gave_up_share")).abs() < 0.01);
    let bounded = run(DESK, &["stages.people.max_waiting=2"]);
    assert!(bounded.ledger.rejected["stage.people.full"] > 500);
}

/// Published case F6.
#[test]
fn a_summary_saves_the_agents_time_and_settles_more() {
    let handling = "stages.people.handling_s=100";
    let share = "stages.people.first_contact_share=0.6";
    let without = run(DESK, &[handling, share]);
    let with = run(DESK, &[handling, share, "stages.people.summary={}"]);
    let minutes = |replication: &Replication| stage(replication, "people", "agent_minutes");
    assert!((minutes(&with) / minutes(&without) - 0.58).abs() < 1e-6);
    let gain = metric(&with, "right_share") / metric(&without, "right_share");
    assert!((gain - 1.37).abs() < 0.03, "{gain}");
}

const DOCUMENTS: &str = r#"
name = "documents"
[run]
duration_s = 600
warmup_s = 60
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 20
[workload.classes.question]
[endpoints.ask]
l1 = ["store"]
documents = 40
[stages.store]
kind = "vector_store"
connections = 100000
base_s = 0.0
per_document_s = 0.01
[quality]
recall_points = [[15, 0.98], [30, 1.0]]
"#;

/// Published case R6.
#[test]
fn fewer_documents_are_retrieved_at_higher_rates() {
    let top_k = "policy.fallback.top_k={}";
    let queue = ["gateway.executor_slots=10000", "policy.queue={ kind = \"fifo\" }"];
    let documents = |rate: u32, more: &[&str]| {
        let rate_text = format!("workload.sources.crowd.rate_per_s={rate}");
        let replication = run(DOCUMENTS, &[&[rate_text.as_str()], more].concat());
        (metric(&replication, "latency_max_s") / 0.01, metric(&replication, "right_share"))
    };
    let close = |found: (f64, f64), k: f64| assert!((found.0 - k).abs() < 0.1, "{found:?}, not {k}");
    close(documents(20, &[]), 40.0);
    close(documents(20, &[top_k]), 50.0);
    close(documents(100, &[top_k]), 30.0);
    let few = documents(250, &[top_k]);
    close(few, 15.0);
    assert!((few.1 - 0.98).abs() < 0.003, "{}", few.1);
    close(documents(100, &[&[top_k][..], &queue].concat()), 30.0);
    assert_eq!(documents(100, &[top_k]).1, 1.0);
    // An endpoint without documents misses none of them.
    assert_eq!(documents(20, &["endpoints.ask.documents=0"]).1, 1.0);
    // By the latency of the store: 40 documents take 0.4 s, 15 take 0.15 s, which is still too long.
    close(documents(20, &["policy.fallback.top_k={ by = \"store_latency\" }"]), 15.0);
}

#[test]
fn mistakes_are_named_with_their_place() {
    let refused = |text: &str| refused(text, &[]);
    let points = DOCUMENTS.replace("[30, 1.0]", "[10, 1.0]");
    assert!(refused(&points).contains("quality.recall_points.1"), "{}", refused(&points));
    let resort = format!("{DOCUMENTS}[policy.fallback.cache_last_resort]\n");
    assert!(refused(&resort).contains("semantic_cache"), "{}", refused(&resort));
    let updates = RULES.replace("knowledge_base]", "knowledge_base]\nupdated_every_s = 60");
    assert!(refused(&updates).contains("loses_per_day"), "{}", refused(&updates));
    let law = CACHED.replace("lookup_s = 0.02", "lookup_s = { kind = \"exponential\", mean = 0 }");
    assert!(refused(&law).contains("stages.cache.lookup_s"), "{}", refused(&law));
}
