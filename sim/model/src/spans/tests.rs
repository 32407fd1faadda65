//! What spans hold, on small scenarios in which requests wait, are held, skip, fail, leave and come again.

use super::*;
use crate::replication::{Replication, simulate, simulate_with_spans};
use crate::scenario::Loaded;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A crowd that is too large for its service, with every kind of policy in its way.
const CROWDED: &str = r#"
name = "crowded"
[run]
duration_s = 30
warmup_s = 5
drain_s = 5
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 30
[workload.population]
users = 50
tiers = { gold = 0.3, guest = 0.7 }
[workload.classes.short]
weight = 3
tokens_in = { kind = "uniform", min = 10, max = 200 }
tokens_out = { kind = "uniform", min = 1, max = 60 }
[workload.classes.write]
write_share = 1.0
business_class = 0
[workload.people.patience]
give_up_after_s = { kind = "exponential", mean = 3.0 }
[workload.people.resend]
probability = 0.6
after_s = { kind = "exponential", mean = 0.5 }
at_most = 2
[workload.retries]
at_most = 2
base_s = 0.2
jitter_share = 0.5
[gateway]
executor_slots = 12
deadline_s = 6
ingress_delay_s = { kind = "exponential", mean = 0.01 }
[endpoints.ask]
l1 = ["find", "rerank", "llm"]
l2 = ["light"]
documents = 20
documents_kept = 4
tokens_per_document = 50
[stages.find]
kind = "vector_store"
connections = 4
max_queue = 6
base_s = { kind = "exponential", mean = 0.05 }
[stages.rerank]
kind = "reranker"
gpus = 2
max_docs = 40
base_s = 0.05
per_document_s = 0.005
device = "gpu"
workspace_per_document_gb = 0.01
[stages.llm]
kind = "llm_slots"
replicas = 2
slots = 4
first_token_s = { kind = "exponential", mean = 0.2 }
per_token_s = 0.01
slowdown_per_busy = 0.1
time_limit_s = 4
[stages.llm.memory]
device = "gpu"
weights_gb = 6
per_call_gb = { kind = "exponential", mean = 1.0 }
per_token_mb = 1.0
[stages.light]
kind = "server"
servers = 6
service_s = { kind = "exponential", mean = 0.1 }
[devices.gpu]
count = 2
memory_gb = 11
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 28
burst = 10
[policy.admission.store]
kind = "concurrency_gate"
place = "after_retrieval"
max_at_once = 12
wait_at_most_s = 0.3
[policy.admission.model]
kind = "concurrency_gate"
place = "llm_call"
max_at_once = 7
wait_at_most_s = 0.5
retry_after_s = 0.4
[policy.queue]
kind = "strict_priority"
by = "tier"
max_length = 20
max_wait_s = 1.5
[policy.fallback]
l2 = { vram_above = 0.8 }
[policy.fallback.rerank]
max_at_once = 3
wait_at_most_ms = 60
"#;

/// The same with an engine that batches and preempts.
const BATCHING: &str = r#"{ kind = "llm_batching", replicas = 2, max_seqs = 8, max_batched_tokens = 128, kv_blocks = 64, cost = { c0_s = 0.01, per_prefill_token_s = 0.0001, per_prefill_context_s = 0.0, per_decode_sequence_s = 0.0002, per_resident_token_s = 0.000001 } }"#;

/// In their order.
const ALL_KINDS: [PlaceKind; 6] = [
    PlaceKind::Backoff,
    PlaceKind::Ingress,
    PlaceKind::Queue,
    PlaceKind::Gate,
    PlaceKind::Waiting,
    PlaceKind::Serving,
];

fn load(text: &str, settings: &[String]) -> Loaded {
    crate::small::load(text, &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

/// All requests of a run.
fn all(loaded: &Loaded, seed: u64) -> (Replication, Vec<RequestSpans>) {
    simulate_with_spans(loaded, seed, 0, 1_000_000).expect("it runs")
}

fn adds_up(request: &RequestSpans) {
    assert_eq!(request.check(), Ok(()));
}

/// Each decision names its rule, and its module unless nothing stood in the way.
fn is_explained(decision: &Decision) {
    let explanation = decision.explanation.as_ref().unwrap_or_else(|| panic!("{decision:?}"));
    assert_eq!(explanation.reason, decision.reason);
    assert_eq!(explanation.module.is_empty(), decision.reason == Reason::Normal, "{decision:?}");
    assert!(explanation.found.is_finite() && explanation.threshold.is_finite(), "{decision:?}");
    if decision.reason != Reason::Normal {
        assert_eq!(explanation.at.0, decision.at_ns, "{decision:?}");
    }
}

/// Counts of ends with the codes of the ledger.
fn counted(requests: &[RequestSpans]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.outcome.to_string()).or_insert(0) += 1;
    }
    counts
}

fn of_ledger(replication: &Replication) -> BTreeMap<String, u64> {
    let ledger = &replication.ledger;
    let answered = [("L1", ledger.answered.l1), ("L2", ledger.answered.l2)];
    let mut counts: BTreeMap<String, u64> =
        answered.iter().map(|(level, n)| (format!("answered at {level}"), *n)).collect();
    counts.extend(ledger.rejected.iter().map(|(why, n)| (format!("rejected ({why})"), *n)));
    counts.extend(ledger.failed.iter().map(|(why, n)| (format!("failed ({why})"), *n)));
    counts.insert("timed out".to_owned(), ledger.timed_out);
    counts.insert("abandoned".to_owned(), ledger.abandoned);
    counts.insert("in flight at the end of the run".to_owned(), ledger.in_flight_at_end);
    counts.retain(|_, n| *n > 0);
    counts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn spans_add_up_and_change_nothing(
        seed in 0_u64..1000,
        rate in 5_u32..60,
        slots in 4_u32..40,
        noticed: bool,
        until in prop::sample::select(vec!["service", "first_token", "last_token"]),
        batching: bool,
        restart: bool,
        followed in 1_u32..20,
    ) {
        let on_out_of_memory = if restart { "restart" } else { "fail_call" };
        let mut settings = vec![
            format!("workload.sources.crowd.rate_per_s={rate}"),
            format!("gateway.executor_slots={slots}"),
            format!("workload.people.patience.noticed={noticed}"),
            format!("workload.people.patience.until={until}"),
        ];
        if batching {
            settings.push(format!("stages.llm={BATCHING}"));
        } else {
            settings.push(format!("stages.llm.memory.on_out_of_memory={on_out_of_memory}"));
            settings.push("stages.llm.memory.restart_s=1".to_owned());
        }
        let loaded = load(CROWDED, &settings);
        let plain = simulate(&loaded, seed, 0).expect("it runs");
        let (with, requests) = all(&loaded, seed);
        prop_assert_eq!(&with, &plain);
        prop_assert_eq!(requests.len() as u64, plain.ledger.offered);
        requests.iter().for_each(adds_up);
        requests.iter().flat_map(|r| &r.attempts).flat_map(|a| &a.decisions).for_each(is_explained);
        prop_assert_eq!(counted(&requests), of_ledger(&plain));
        // Some of them are the same as all of them, thinned.
        let (some_with, some) = simulate_with_spans(&loaded, seed, 0, followed).expect("it runs");
        prop_assert_eq!(&some_with, &plain);
        prop_assert_eq!(some.len() as u64, plain.ledger.offered.min(u64::from(followed)));
        for request in &some {
            prop_assert_eq!(Some(request), requests.get(request.request as usize));
        }
    }
}

#[test]
fn a_crowd_meets_everything_there_is_to_follow() {
    let settings = ["workload.people.patience.noticed=false", "policy.admission.model.max_at_once=5"];
    let loaded = load(CROWDED, &settings.map(str::to_owned));
    let (_, requests) = all(&loaded, 1);
    let attempts: Vec<&AttemptSpans> = requests.iter().flat_map(|r| &r.attempts).collect();
    let kinds: Vec<PlaceKind> = {
        let spans = attempts.iter().flat_map(|a| &a.spans);
        let mut kinds: Vec<_> = spans.map(|s| s.kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    assert_eq!(kinds, ALL_KINDS);
    for answer in [
        Answer::Serve,
        Answer::Queue,
        Answer::Reject,
        Answer::Proceed,
        Answer::Wait,
        Answer::Skip,
        Answer::Busy,
    ] {
        assert!(attempts.iter().flat_map(|a| &a.decisions).any(|d| d.answer == answer), "{answer:?}");
    }
    assert!(attempts.iter().any(|a| a.left_ns.is_some_and(|left| left < a.end_ns)), "work for nobody");
    // A wait is explained by the gate that is full, and ends with the permit or with its expiry.
    let held = attempts.iter().flat_map(|a| &a.decisions).find(|d| d.answer == Answer::Wait).expect("one");
    let why = held.explanation.as_ref().expect("it is explained");
    assert_eq!((why.reason, why.found), (Reason::GateFull, why.threshold));
    let places: Vec<&str> = attempts.iter().flat_map(|a| &a.spans).map(|s| s.place.as_str()).collect();
    for place in ["gold", "guest", "find", "rerank", "llm", "light", "llm_call", "rerank_call"] {
        assert!(places.contains(&place), "{place}");
    }
}

#[test]
fn preemptions_are_noted() {
    let loaded = load(CROWDED, &[format!("stages.llm={BATCHING}")]);
    let (_, requests) = all(&loaded, 1);
    let notes: Vec<&Note> = requests.iter().flat_map(|r| &r.attempts).flat_map(|a| &a.notes).collect();
    let preempted = notes.iter().filter(|note| note.what == "preempted").count();
    let counted = simulate(&loaded, 1, 0).expect("it runs").metrics["preemptions"].value;
    assert_eq!(Some(preempted as f64), counted);
    assert!(preempted > 0);
}

#[test]
fn latencies_are_those_of_the_metrics() {
    let loaded = load(CROWDED, &["run.warmup_s=0".to_owned()]);
    let (replication, requests) = all(&loaded, 3);
    let answered: Vec<&RequestSpans> = requests.iter().filter(|r| r.outcome.how == How::Answered).collect();
    let mean_s =
        answered.iter().map(|r| (r.end_ns - r.born_ns) as f64 * 1e-9).sum::<f64>() / answered.len() as f64;
    let measured = replication.metrics["latency_mean_s"].value.expect("there are answers");
    // The meter's mean is a whole number of nanoseconds.
    assert!((mean_s - measured).abs() < 1e-9, "{mean_s} {measured}");
    let first = answered.iter().filter_map(|r| r.first_token_ns.map(|at| (at - r.born_ns) as f64 * 1e-9));
    let ttft_s = first.sum::<f64>() / answered.len() as f64;
    let measured = replication.metrics["ttft_mean_s"].value.expect("there are answers");
    assert!((ttft_s - measured).abs() < 1e-9, "{ttft_s} {measured}");
}

#[test]
fn spans_are_read_back_as_they_were_written() {
    let (_, requests) = all(&load(CROWDED, &[]), 2);
    let text = serde_json::to_string(&requests).expect("it is plain data");
    assert_eq!(serde_json::from_str::<Vec<RequestSpans>>(&text).expect("it reads back"), requests);
}

#[test]
fn spans_that_do_not_add_up_are_told() {
    let (_, requests) = all(&load(CROWDED, &[]), 1);
    let whole = requests.iter().find(|r| r.attempts[0].spans.len() > 2).expect("one that was served");
    assert_eq!(whole.check(), Ok(()));
    let broken = |breaks: fn(&mut RequestSpans)| {
        let mut request = whole.clone();
        breaks(&mut request);
        request.check().expect_err("it is broken")
    };
    assert!(broken(|r| r.attempts[0].spans[1].from_ns += 1).contains("does not begin"));
    assert!(broken(|r| r.attempts[0].sent_ns += 1).contains("it is sent at"));
    assert!(broken(|r| r.attempts[0].decisions[0].at_ns = u64::MAX).contains("is outside of it"));
    assert!(broken(|r| r.end_ns += 1).contains("its attempts at"));
}
