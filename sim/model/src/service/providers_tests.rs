//! What external providers do in the running service, told by small scenarios.

use crate::replication::Replication;
use crate::small::{load, metric, refused, run, stage};

/// A main provider and two others that are worse and cheaper.
const BASE: &str = r#"
name = "providers"
[run]
duration_s = 1000
drain_s = 300
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 1
[workload.classes.question]
tokens_in = 700
tokens_out = 101
[endpoints.ask]
l1 = ["llm"]
[stages.llm]
kind = "providers"
[stages.llm.providers.main]
first_token_s = 0.5
per_token_s = 0.01
price_in_per_1k = 1.0
price_out_per_1k = 3.0
[stages.llm.providers.second]
first_token_s = 0.5
quality = 0.8
[stages.llm.providers.third]
first_token_s = 0.5
quality = 0.5
"#;

const OUT: &str = "stages.llm.providers.main.error_rate=1";
const FAIL_OVER: &str = "policy.fallback.providers={ allowed_failures = 0 }";

fn calls(replication: &Replication) -> f64 {
    ["main", "second", "third"].iter().map(|p| stage(replication, &format!("llm.{p}"), "calls")).sum()
}

#[test]
fn answers_come_in_time_and_are_billed() {
    let answered = run(BASE, &[]);
    assert_eq!(answered.ledger.answered.l1, answered.ledger.offered);
    assert!((metric(&answered, "latency_mean_s") - 1.5).abs() < 1e-6);
    assert!((metric(&answered, "ttft_max_s") - 0.5).abs() < 1e-6);
    let each = 0.7 * 1.0 + 0.101 * 3.0;
    assert!((metric(&answered, "cost") - each * answered.ledger.offered as f64).abs() < 1e-6);
    assert_eq!(stage(&answered, "llm.second", "calls"), 0.0);
    let free = run(
        BASE,
        &["stages.llm.providers.main.price_in_per_1k=0", "stages.llm.providers.main.price_out_per_1k=0"],
    );
    assert_eq!(free.metrics["cost"].value, None);
}

#[test]
fn calls_are_billed_to_the_crowd_that_was_born_after_the_warm_up() {
    // Five seconds on the way: some who were born before it reach the provider after it.
    let late = run(BASE, &["run.warmup_s=100", "gateway.ingress_delay_s=5"]);
    let born_after: u64 = late.timeline.iter().filter(|p| p.t_s > 100.0).map(|p| p.offered).sum();
    assert_eq!(stage(&late, "llm.main", "calls"), born_after as f64);
    let each = 0.7 * 1.0 + 0.101 * 3.0;
    assert!((metric(&late, "cost") - each * born_after as f64).abs() < 1e-6);
}

#[test]
fn a_call_that_is_refused_takes_no_place() {
    let full = "stages.llm.providers={ main = { first_token_s = 2, max_at_once = 1, error_after_s = 3 } }";
    let busy = run(BASE, &[full]);
    let utilisation = stage(&busy, "llm", "utilisation");
    // One call a second, of two seconds each if it finds the place: Erlang's loss formula, 2 / (1 + 2).
    assert!((utilisation - 2.0 / 3.0).abs() < 0.05, "{utilisation}");
}

/// Published case P1.
#[test]
fn the_next_provider_answers_at_its_quality_but_not_across_a_red_line() {
    let alone = run(BASE, &[OUT]);
    assert_eq!(alone.ledger.rejected["providers.exhausted"], alone.ledger.offered);
    let over = run(BASE, &[OUT, FAIL_OVER]);
    assert_eq!(over.ledger.answered.l1, over.ledger.offered);
    let right = metric(&over, "right_share");
    assert!((right - 0.8).abs() < 0.04, "{right}");
    // The main provider is asked by probes alone.
    assert!(stage(&over, "llm.main", "calls") < 20.0);
    let class = "policy.fallback.class.s2.main_provider_only=true";
    let strict = run(BASE, &[OUT, FAIL_OVER, class]);
    assert_eq!(strict.ledger.rejected["class.main_provider_only"], strict.ledger.offered);
}

/// Incident N05.
#[test]
fn when_all_providers_refuse_attempts_fail_or_wait() {
    // 12 questions at once meet three providers that take 3 at once each; the last 3 are refused by all.
    let limits: Vec<String> = ["main", "second", "third"]
        .iter()
        .map(|p| format!("stages.llm.providers.{p}.requests_per_min=30"))
        .chain(["main", "second", "third"].map(|p| format!("stages.llm.providers.{p}.burst_share=0.1")))
        .collect();
    let mut settings: Vec<&str> = limits.iter().map(String::as_str).collect();
    settings.push("workload.sources.crowd.rate_per_s=0.05");
    settings.push("workload.sources.burst={ kind = \"microburst\", at_s = 100, count = 12, every_s = 200 }");
    let rule =
        |rest: &str| format!("policy.fallback.providers={{ allowed_failures = 0, cooldown_s = 60{rest} }}");
    let with = |rest: &str| run(BASE, &[&settings[..], &[rule(rest).as_str()]].concat());
    let failing = with("");
    assert!(metric(&failing, "error_rate") > 0.15, "{:?}", failing.ledger);
    // Those who come while all rest are refused too.
    assert!(failing.ledger.rejected["providers.all_open"] > 5);
    let waiting = with(", when_all_open = \"wait\", wait_at_most_s = 120");
    assert_eq!(metric(&waiting, "error_rate"), 0.0, "{:?}", waiting.ledger);
    assert!((50.0..=70.0).contains(&stage(&waiting, "llm", "wait_max_s")));
}

/// Incident N06: retries multiply over the layers.
#[test]
fn retries_of_gateway_and_client_multiply() {
    let dead = ["main", "second", "third"].map(|p| format!("stages.llm.providers.{p}.error_rate=1"));
    let client = "workload.retries={ at_most = 2, base_s = 1 }";
    let per_request = |gateway: &str, client: &[&str]| {
        let mut settings: Vec<&str> = dead.iter().map(String::as_str).collect();
        settings.extend(client);
        let gateway = format!("policy.fallback.providers={{ error_share_above = 1, {gateway} }}");
        settings.push(&gateway);
        let replication = run(BASE, &settings);
        calls(&replication) / replication.ledger.offered as f64
    };
    let one = "stages.llm.providers={ main = { first_token_s = 0.5, error_rate = 1 } }";
    let single = |client: &[&str]| {
        let rule = "policy.fallback.providers={ error_share_above = 1, retries = 3, backoff_s = 0.1 }";
        let replication = run(BASE, &[&[one, rule], client].concat());
        stage(&replication, "llm.main", "calls") / replication.ledger.offered as f64
    };
    assert_eq!(single(&[client]), 12.0);
    assert_eq!(single(&[]), 4.0);
    // A circle, and each provider once.
    assert_eq!(per_request("each_once = false, calls_at_most = 12", &[]), 12.0);
    assert_eq!(per_request("each_once = true", &[]), 3.0);
}

/// Incident N07: all clients are told to wait exactly the same time.
#[test]
fn clients_that_come_back_together_are_refused_together() {
    let crowd = |jitter: f64| {
        run(
            BASE,
            &[
                "workload.sources.crowd={ kind = \"closed_loop\", users = 30, think_s = 0 }",
                "run.duration_s=3600",
                "stages.llm.providers={ main = { first_token_s = 1, requests_per_min = 30, burst_share = 0.05, retry_after_s = 60 } }",
                &format!(
                    "workload.retries={{ at_most = 100, base_s = 1, factor = 1, jitter_share = {jitter} }}"
                ),
            ],
        )
    };
    let together = crowd(0.0);
    let apart = crowd(0.2);
    let goodput = |replication: &Replication| metric(replication, "goodput_per_s") * 60.0;
    assert!(goodput(&together) < 6.0, "{}", goodput(&together));
    assert!(goodput(&apart) > 2.5 * goodput(&together), "{} {}", goodput(&apart), goodput(&together));
}

#[test]
fn a_refusal_without_retry_after_is_taken_to_say_30_seconds() {
    // Published case H8.
    let full = "stages.llm.providers={ main = { first_token_s = 1, max_at_once = 1 } }";
    let retries = |rest: &str| format!("workload.retries={{ at_most = 3, base_s = 1{rest} }}");
    let quick = run(BASE, &[full, &retries("")]);
    let slow = run(BASE, &[full, &retries(", retry_after_default_s = 30")]);
    // 1 + 2 + 4 s of back-off, or 3 times 30 s.
    assert!(metric(&quick, "latency_max_s") <= 8.0 + 1e-6);
    assert!(metric(&slow, "latency_max_s") > 60.0);
    let writes = run(BASE, &[full, &retries(""), "workload.classes.question.write_share=1"]);
    assert_eq!(metric(&writes, "attempts_per_request"), 1.0);
}

#[test]
fn calls_that_take_too_long_go_to_the_next_provider() {
    let slow = [FAIL_OVER, "stages.llm.providers.main.time_limit_s=1"];
    let over = run(BASE, &slow);
    assert_eq!(over.ledger.answered.l1, over.ledger.offered);
    assert_eq!(stage(&over, "llm.main", "timed_out_share"), 1.0);
    // Half a second of the answer had come, and was paid for.
    let paid = metric(&over, "cost") / stage(&over, "llm.main", "calls");
    assert!((paid - (0.7 + 0.051 * 3.0)).abs() < 0.01, "{paid}");
}

#[test]
fn people_who_leave_give_everything_back() {
    let impatient = "workload.people.patience={ give_up_after_s = { kind = \"exponential\", mean = 1 }, until = \"last_token\" }";
    let resend = "workload.people.resend={ probability = 0.5, after_s = 1, at_most = 3 }";
    let limit = "stages.llm.providers.main.max_at_once=2";
    let wait = "policy.fallback.providers={ when_all_open = \"wait\", allowed_failures = 0, cooldown_s = 5, retries = 1 }";
    let replication = run(BASE, &[impatient, resend, limit, wait, "workload.sources.crowd.rate_per_s=4"]);
    assert!(replication.ledger.abandoned > 500 && replication.ledger.answered.l1 > 500);
    assert_eq!(replication.ledger.in_flight_at_end, 0);
    let gate = "policy.admission.gate={ kind = \"concurrency_gate\", place = \"llm_call\", max_at_once = 3, wait_at_most_s = 2 }";
    let gated = run(BASE, &[impatient, limit, wait, gate, "workload.sources.crowd.rate_per_s=4"]);
    assert!(stage(&gated, "llm", "busy_mean") <= 3.0);
}

#[test]
fn mistakes_in_the_list_are_named() {
    let refused = |text: &str| refused(text, &[]);
    let text = BASE.replace("quality = 0.8", "quality = 0.8\nretry_jitter = 0.1");
    assert!(refused(&text).contains("stages.llm.providers.second.retry_jitter"), "{}", refused(&text));
    let text = BASE.replace("quality = 0.8", "qualty = 0.8");
    assert!(refused(&text).contains("qualty"));
    let policy = "[policy.fallback.providers]\nwhen_all_open = \"last_resort\"\n";
    assert!(refused(&format!("{BASE}{policy}")).contains("cache_last_resort"));
    load(BASE, &[FAIL_OVER]);
}
