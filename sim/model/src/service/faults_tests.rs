//! What faults do, told by small scenarios.

use crate::replication::{Replication, simulate};
use crate::service::Service;
use crate::small::{BASE, MEMORY, RERANK, load, metric, refused, run, stage};
use forebay_engine::{Span, Time};
use proptest::prelude::*;

/// Every kind of stage, on devices where it can be, and an endpoint that passes through all of them.
pub(super) const ALL: &str = r#"
name = "all"
[run]
duration_s = 60
drain_s = 100000
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 6
[workload.classes.question]
tokens_in = 100
tokens_out = 40
new_share = 0.3
[workload.people.patience]
give_up_after_s = 8
[workload.people.resend]
probability = 0.5
after_s = 1
at_most = 2
[workload.retries]
at_most = 2
base_s = 0.5
[gateway]
clock = "wall"
executor_slots = 12
[endpoints.ask]
l1 = ["store", "rerank", "engine", "llm"]
l2 = ["engine"]
l3 = ["faq"]
documents = 20
documents_kept = 5
[stages.store]
kind = "vector_store"
connections = 4
base_s = 0.05
[stages.rerank]
kind = "reranker"
gpus = 2
max_docs = 40
max_wait_ms = 20
base_s = 0.1
per_document_s = 0.002
device = "gpu"
weights_gb = 1
workspace_per_document_gb = 0.02
[stages.engine]
kind = "llm_batching"
replicas = 2
max_seqs = 4
max_batched_tokens = 128
kv_blocks = 60
device = "card"
cost = { c0_s = 0.005, per_prefill_token_s = 0.0001, per_prefill_context_s = 0.0, per_decode_sequence_s = 0.0002, per_resident_token_s = 0.000001 }
[stages.llm]
kind = "llm_slots"
replicas = 3
slots = 2
first_token_s = { kind = "exponential", mean = 0.2 }
per_token_s = 0.01
slowdown_per_busy = 0.2
cold_first_call_s = 1
[stages.llm.memory]
device = "gpu"
weights_gb = 3
per_call_gb = 1
per_token_mb = 5
restart_s = 2
on_out_of_memory = "restart"
[stages.faq]
kind = "rules"
servers = 2
service_s = 0.02
knowledge_base = { new_entered_at_s = 5 }
[devices.gpu]
count = 2
memory_gb = 12
[devices.card]
count = 2
memory_gb = 24
[policy.queue]
kind = "fifo"
max_wait_s = 3
[policy.fallback]
least_dwell_s = 1
l2.vram_above = 0.8
l3.queue_above = 20
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 8
burst = 3
[policy.admission.gate]
kind = "concurrency_gate"
place = "llm_call"
max_at_once = 5
wait_at_most_s = 0.5
"#;

/// One fault of every kind, from second 10 to second 30.
const KINDS: &[&str] = &[
    "kind = \"latency_factor\", stage = \"store\", factor = 3",
    "kind = \"latency_factor\", stage = \"rerank\", factor = 3",
    "kind = \"latency_factor\", stage = \"engine\", factor = 3",
    "kind = \"latency_factor\", stage = \"llm\", factor = 0.5",
    "kind = \"gpu_lost\", device = \"gpu\", count = 1",
    "kind = \"gpu_lost\", device = \"gpu\", count = 2",
    "kind = \"gpu_lost\", device = \"card\", count = 2",
    "kind = \"replica_crash\", stage = \"llm\"",
    "kind = \"replica_crash\", stage = \"engine\", replica = 1",
    "kind = \"store_timeout\"",
    "kind = \"limiter_nodes_down\"",
    "kind = \"rules_wiped\"",
    "kind = \"forecast_lost\"",
    "kind = \"metrics_frozen\"",
    "kind = \"metrics_frozen\", stop = true",
    "kind = \"knowledge_base_stale\"",
    "kind = \"clock_step\", by_s = 5",
    "kind = \"clock_step\", by_s = -5",
    "kind = \"clock_step\", by_s = 0.1, every_s = 0.1",
    "kind = \"network_delay\", extra_s = { kind = \"exponential\", mean = 0.5 }",
];

pub(super) fn fault(index: usize, kind: &str, from_s: f64, to_s: f64) -> String {
    format!("faults.f{index}={{ {kind}, from_s = {from_s:?}, to_s = {to_s:?} }}")
}

fn with(text: &str, settings: &[String]) -> Replication {
    run(text, &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Why a scenario is refused: path and what is allowed.
fn refusals(text: &str, settings: &[&str]) -> Vec<String> {
    refused(text, settings).lines().map(str::to_owned).collect()
}

/// Answers within the steps of the timeline that lie in a window.
pub(super) fn answered(run: &Replication, from_s: f64, to_s: f64) -> u64 {
    let within = run.timeline.iter().filter(|point| point.t_s > from_s && point.t_s <= to_s);
    within.map(|point| point.answered.iter().sum::<u64>()).sum()
}

#[test]
fn every_kind_conserves_leaves_its_marks_and_changes_the_run() {
    let calm = run(ALL, &[]);
    assert_eq!(calm.ledger.in_flight_at_end, 0);
    assert!(calm.marks.is_empty());
    for kind in KINDS {
        let hit = with(ALL, &[fault(0, kind, 10.0, 30.0)]);
        assert_eq!(hit.ledger.in_flight_at_end, 0, "{kind}");
        let marks: Vec<_> = hit.marks.iter().map(|m| (m.at_s, m.name.as_str(), m.on)).collect();
        assert_eq!(marks, [(10.0, "f0", true), (30.0, "f0", false)], "{kind}");
        assert!(kind.contains(&format!("\"{}\"", hit.marks[0].what)), "{kind}");
        // What only policies hear of changes nothing where no policy minds; a stale knowledge base
        // changes what is right, not what ends when.
        let quiet = ["store_timeout", "limiter_nodes_down", "rules_wiped", "forecast_lost", "stale"];
        let heard = quiet.iter().any(|word| kind.contains(word));
        assert_eq!(hit.digest == calm.digest, heard, "{kind}");
        assert_eq!(hit, with(ALL, &[fault(0, kind, 10.0, 30.0)]), "{kind}, repeated");
    }
}

#[test]
fn a_slow_stage_takes_so_much_longer() {
    // One question in 50 s: nobody waits for anybody, and time is service alone.
    let alone = ["workload.sources.crowd={ kind = \"renewal\", gap_s = 50 }", "run.duration_s=2000"];
    let small = [
        ("store", "[\"store\"]"),
        ("rerank", "[\"rerank\"]"),
        ("engine", "[\"engine\"]"),
        ("llm", "[\"llm\"]"),
        ("faq", "[\"faq\"]"),
    ];
    for (name, path) in small {
        let path = format!("endpoints.ask.l1={path}");
        let settings =
            [alone[0], alone[1], &path, "stages.llm.cold_first_call_s=0", "stages.rerank.max_wait_ms=0"];
        let calm = metric(&run(ALL, &settings), "latency_mean_s");
        let slow = format!("kind = \"latency_factor\", stage = \"{name}\", factor = 2.5");
        let fault = fault(0, &slow, 0.0, 5000.0);
        let slowed = metric(&run(ALL, &[&settings[..], &[&fault]].concat()), "latency_mean_s");
        assert!((slowed / calm - 2.5).abs() < 1e-6, "{name}: {calm} s, then {slowed} s");
    }
}

#[test]
fn a_slow_engine_is_slow_in_its_window_only() {
    let settings =
        ["endpoints.ask.l1=[\"engine\"]", "workload.sources.crowd={ kind = \"renewal\", gap_s = 5 }"];
    let slow = fault(0, "kind = \"latency_factor\", stage = \"engine\", factor = 4", 20.0, 40.0);
    let hit = run(ALL, &[settings[0], settings[1], &slow]);
    let calm = run(ALL, &settings);
    let latency = |run: &Replication, from: f64, to: f64| {
        let within = run.timeline.iter().filter(|p| p.t_s > from && p.t_s <= to && p.answered[0] > 0);
        within.map(|p| p.latency_mean_s).fold(0.0, f64::max)
    };
    let normal = latency(&calm, 0.0, 60.0);
    assert!(latency(&hit, 0.0, 20.0) <= normal);
    assert!((latency(&hit, 20.0, 40.0) / normal - 4.0).abs() < 1e-6);
    assert!(latency(&hit, 45.0, 60.0) <= normal);
}

#[test]
fn overlapping_windows_multiply_and_end_one_by_one() {
    let text =
        BASE.replace("{ kind = \"exponential\", mean = 1.0 }", "1.0").replace("servers = 1", "servers = 99");
    let slow = "kind = \"latency_factor\", stage = \"desk\", factor = 2";
    let hit = with(&text, &[fault(0, slow, 100.0, 300.0), fault(1, slow, 200.0, 400.0)]);
    assert_eq!(metric(&hit, "latency_max_s"), 4.0);
    let latest = hit.timeline.iter().filter(|p| p.t_s > 410.0).map(|p| p.latency_mean_s).fold(0.0, f64::max);
    assert!((latest - 1.0).abs() < 1e-6, "{latest}");
}

#[test]
fn what_runs_on_a_lost_gpu_fails_and_the_rest_goes_on() {
    let one =
        ["endpoints.ask.l1=[\"llm\"]", "endpoints.ask.l2=[\"llm\"]", "workload.people.resend.probability=0"];
    let lose =
        |count: u32| fault(0, &format!("kind = \"gpu_lost\", device = \"gpu\", count = {count}"), 20.0, 40.0);
    let half = run(ALL, &[one[0], one[1], one[2], "workload.retries.at_most=0", &lose(1)]);
    assert!(half.ledger.failed["gpu_lost"] > 0);
    assert!(answered(&half, 25.0, 40.0) > 0);
    let all = run(ALL, &[one[0], one[1], one[2], "workload.retries.at_most=0", &lose(2)]);
    assert!(all.ledger.failed["gpu_lost"] >= half.ledger.failed["gpu_lost"]);
    // The levels that need no GPU still answer; those that do, do not.
    let by_model: u64 = all
        .timeline
        .iter()
        .filter(|p| p.t_s > 20.2 && p.t_s <= 40.0)
        .map(|p| p.answered[0] + p.answered[1])
        .sum();
    assert_eq!(by_model, 0);
    assert!(answered(&all, 42.0, 60.0) > 10);
}

#[test]
fn an_engine_without_replicas_fails_calls_at_once() {
    let lost = fault(0, "kind = \"gpu_lost\", device = \"card\", count = 2", 20.0, 40.0);
    // A slow engine has calls at any time.
    let hit = run(ALL, &["workload.retries.at_most=0", "stages.engine.cost.c0_s=0.05", &lost]);
    assert!(hit.ledger.failed["gpu_lost"] > 0, "{:?}", hit.ledger);
    assert!(hit.ledger.failed["no_replica"] > 10, "{:?}", hit.ledger);
}

#[test]
fn a_batch_on_a_lost_gpu_fails_with_it() {
    let device = "[stages.rerank]\ndevice = \"gpu\"\n";
    let text =
        format!("{}\n[devices.gpu]\ncount = 1\nmemory_gb = 8\n", RERANK.replace("[stages.rerank]\n", device));
    let lost = fault(0, "kind = \"gpu_lost\", device = \"gpu\", count = 1", 100.0, 200.0);
    let hit = run(&text, &[&lost, "run.drain_s=100000"]);
    assert!(hit.ledger.failed["gpu_lost"] > 0);
    assert_eq!(answered(&hit, 101.0, 200.0), 0);
    assert!(answered(&hit, 201.0, 600.0) > 1000);
    assert_eq!(hit.ledger.in_flight_at_end, 0);
}

#[test]
fn a_crash_lasts_as_long_as_the_replica_needs_unless_told_otherwise() {
    let settings =
        ["stages.llm.memory.restart_s=30", "run.drain_s=1000", "stages.llm.memory.per_call_gb=0.1"];
    let crash =
        |to: &str| format!("faults.f={{ kind = \"replica_crash\", stage = \"llm\", from_s = 100{to} }}");
    let alone = "endpoints.ask.l2=[\"llm\"]";
    let by_itself = run(MEMORY, &[&settings[..], &[alone, &crash("")]].concat());
    assert!(by_itself.ledger.failed["engine_restarted"] > 0);
    assert_eq!(metric(&by_itself, "engine_restarts"), 1.0);
    assert_eq!(by_itself.marks[1].at_s, 130.0);
    assert_eq!(answered(&by_itself, 100.5, 130.0), 0);
    let told = run(MEMORY, &[&settings[..], &[alone, &crash(", to_s = 160")]].concat());
    assert_eq!(told.marks[1].at_s, 160.0);
    assert_eq!(answered(&told, 130.5, 160.0), 0);
    assert!(answered(&told, 161.0, 300.0) > 100);
}

#[test]
fn frozen_meters_hide_what_happens_and_silent_ones_too() {
    let policy = "policy.fallback.l2.vram_above=0.7";
    let calm = run(MEMORY, &[policy]);
    assert!(calm.ledger.answered.l2 > 100);
    let l2 = |run: &Replication, from: f64, to: f64| -> u64 {
        run.timeline.iter().filter(|p| p.t_s > from && p.t_s <= to).map(|p| p.answered[1]).sum()
    };
    for stop in [false, true] {
        // From before the first reading on nothing was ever known.
        let frozen = fault(0, &format!("kind = \"metrics_frozen\", stop = {stop}"), 0.0, 150.0);
        let hit = run(MEMORY, &[policy, &frozen]);
        assert_eq!(l2(&hit, 0.0, 150.0), 0);
        assert!(l2(&hit, 151.0, 300.0) > 50);
    }
}

#[test]
fn rules_with_a_stale_knowledge_base_know_nothing_of_new_questions() {
    let desk = "stages.desk={ kind = \"rules\", servers = 9, service_s = 0.1, knowledge_base = { \
                generative_match_share = 1, new_entered_at_s = 0 } }";
    let rules = [desk, "endpoints.ask.l3=[\"desk\"]", "policy.fallback.l3.arrivals_above_per_s=0"];
    let share = "workload.classes.question.new_share=0.4";
    let rate = "workload.sources.crowd.rate_per_s=5";
    let right =
        |more: &[&str]| metric(&run(BASE, &[&rules[..], &[share, rate], more].concat()), "right_share");
    assert_eq!(right(&[]), 1.0);
    let stale = right(&[&fault(0, "kind = \"knowledge_base_stale\"", 0.0, 2000.0)]);
    assert!((stale - 0.6).abs() < 0.05, "{stale}");
}

#[test]
fn a_delayed_network_delays_those_sent_in_its_window() {
    let text =
        BASE.replace("{ kind = \"exponential\", mean = 1.0 }", "1.0").replace("servers = 1", "servers = 99");
    let hit = with(&text, &[fault(0, "kind = \"network_delay\", extra_s = 2.5", 100.0, 200.0)]);
    let at = |from: f64, to: f64| {
        let within = hit.timeline.iter().filter(|p| p.t_s > from && p.t_s <= to && p.answered[0] > 0);
        within.map(|p| p.latency_mean_s).collect::<Vec<_>>()
    };
    assert!(at(104.0, 200.0).iter().all(|latency| (latency - 3.5).abs() < 1e-6));
    assert!(at(0.0, 100.0).iter().all(|latency| (latency - 1.0).abs() < 1e-6));
    assert!(at(206.0, 1000.0).iter().all(|latency| (latency - 1.0).abs() < 1e-6));
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let cases = [
        (
            fault(0, "kind = \"latency_factor\", stage = \"stoer\", factor = 2", 1.0, 2.0),
            "did you mean `store`?",
        ),
        (fault(0, "kind = \"latency_factor\", stage = \"store\", factor = 2", 2.0, 2.0), "later than from_s"),
        (fault(0, "kind = \"gpu_lost\", device = \"gpus\", count = 1", 1.0, 2.0), "did you mean `gpu`?"),
        (fault(0, "kind = \"gpu_lost\", device = \"gpu\", count = 3", 1.0, 2.0), "which are 2"),
        (fault(0, "kind = \"replica_crash\", stage = \"store\"", 1.0, 2.0), "`llm_slots` or `llm_batching`"),
        (fault(0, "kind = \"replica_crash\", stage = \"llm\", replica = 3", 1.0, 2.0), "which are 3"),
        ("faults.f0={ kind = \"replica_crash\", stage = \"engine\", from_s = 1 }".to_owned(), "how long"),
        (
            fault(0, "kind = \"provider_outage\", stage = \"llm\", provider = \"x\"", 1.0, 2.0),
            "external providers",
        ),
        (fault(0, "kind = \"clock_step\", by_s = -3", 1.0, 2.0), "at least -1"),
        (
            fault(
                0,
                "kind = \"network_delay\", extra_s = { kind = \"uniform\", min = 2, max = 1 }",
                1.0,
                2.0,
            ),
            "drawn",
        ),
        (
            fault(0, "kind = \"latency_factor\", stage = \"engine\", factor = 1000", 1.0, 2.0),
            "iteration cost",
        ),
        (fault(0, "kind = \"gpu_loss\"", 1.0, 2.0), "did you mean `gpu_lost`?"),
    ];
    for (setting, expected) in cases {
        let found = refusals(ALL, &[&setting]);
        assert!(found.iter().any(|problem| problem.contains(expected)), "{setting}: {found:?}");
    }
    let step = fault(0, "kind = \"clock_step\", by_s = 3", 1.0, 2.0);
    let found = refusals(ALL, &["gateway.clock=monotonic", &step]);
    assert!(found[0].contains("cannot be set"), "{found:?}");
    let stale = fault(0, "kind = \"knowledge_base_stale\"", 1.0, 2.0);
    assert!(refusals(BASE, &[&stale])[0].contains("with a `knowledge_base`"));
}

#[test]
fn a_fault_after_the_arrivals_end_never_comes() {
    let late = fault(0, "kind = \"latency_factor\", stage = \"desk\", factor = 5", 1000.0, 2000.0);
    let hit = run(BASE, &[&late, "run.drain_s=1000"]);
    assert!(hit.marks.is_empty());
    assert_eq!(hit.digest, run(BASE, &["run.drain_s=1000"]).digest);
    assert_eq!(stage(&hit, "desk", "utilisation"), stage(&run(BASE, &[]), "desk", "utilisation"));
}

#[test]
fn the_governor_is_told_and_told_again_after_the_last_of_two_windows() {
    let kinds = [
        ("store_timeout", "store"),
        ("limiter_nodes_down", "nodes"),
        ("rules_wiped", "rules"),
        ("forecast_lost", "forecast"),
    ];
    for (kind, field) in kinds {
        let told = format!("kind = \"{kind}\"");
        let settings = [fault(0, &told, 10.0, 30.0), fault(1, &told, 20.0, 40.0)];
        let loaded = load(BASE, &settings.iter().map(String::as_str).collect::<Vec<_>>());
        let mut simulation = Service::simulation(&loaded, 1, 0).expect("it builds");
        for (at_s, lost) in [(5.0, false), (15.0, true), (25.0, true), (35.0, true), (45.0, false)] {
            simulation.run_until(Time::ZERO + Span::from_secs_f64(at_s));
            let governor = serde_json::to_value(&simulation.world.governor).expect("plain data");
            assert_eq!(governor["lost"][field], lost, "{kind} at {at_s} s");
        }
    }
}

fn windows() -> impl Strategy<Value = Vec<(usize, f64, f64)>> {
    prop::collection::vec((0..KINDS.len(), 5.0..50.0_f64, 0.01..40.0_f64), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_fails_together_nothing_is_lost(windows in windows(), seed in any::<u32>()) {
        let settings: Vec<_> = windows
            .iter()
            .enumerate()
            .map(|(index, &(kind, from_s, length_s))| fault(index, KINDS[kind], from_s, from_s + length_s))
            .collect();
        let loaded = load(ALL, &settings.iter().map(String::as_str).collect::<Vec<_>>());
        let first = simulate(&loaded, u64::from(seed), 0).expect("it runs");
        prop_assert_eq!(&first.violations, &Vec::<String>::new());
        prop_assert_eq!(first.ledger.accounted(), first.ledger.offered);
        prop_assert_eq!(first.ledger.in_flight_at_end, 0);
        prop_assert_eq!(first.marks.len(), 2 * windows.len());
        prop_assert_eq!(simulate(&loaded, u64::from(seed), 0).expect("it runs"), first);
    }
}
