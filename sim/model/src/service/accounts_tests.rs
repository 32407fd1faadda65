//! What the accounts and the shadow tell, by small scenarios whose numbers are known beforehand.

use super::Service;
use crate::document::Source;
use crate::scenario::{Inputs, Loaded};
use crate::shadow::ShadowClass;
use crate::small::{load, metric, refused, run};
use forebay_engine::{Span, Time};
use forebay_policies::SignalKind;

/// Two kinds of question on an executor with a semantic queue; every number is stated.
const DESK: &str = r#"
name = "desk"
[run]
duration_s = 400
drain_s = 100
warmup_s = 10
timeline_points = 400
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 4
[workload.population]
users = 100000
tiers = { top = 0.2, plain = 0.8 }
[workload.classes.policy]
weight = 1
tokens_in = 300
tokens_out = 500
service_keyword_share = 0.85
value = 3.0
[workload.classes.other]
weight = 1
tokens_in = 300
tokens_out = 500
new_share = 1.0
[gateway]
executor_slots = 4
[endpoints.ask]
l1 = ["store", "llm"]
l3 = ["rules"]
documents = 2
tokens_per_document = 100
[stages.store]
kind = "vector_store"
connections = 10
base_s = 0.05
[stages.llm]
kind = "llm_slots"
replicas = 1
slots = 4
first_token_s = 0.1
per_token_s = 0.001
[stages.rules]
kind = "rules"
servers = 10
service_s = 0.01
[policy.queue]
kind = "semantic"
"#;

const FIFO_SHADOW: &str = "shadow = { queue = { kind = \"fifo\" } }";

#[test]
fn a_shadow_changes_nothing() {
    let alone = run(DESK, &[]);
    let shadowed = run(
        DESK,
        &["shadow={ queue = { kind = \"fifo\", max_length = 2, max_wait_s = 1 }, \
           admission = { entry = { kind = \"fixed_rate\", limit = 1 } }, \
           fallback = { l2 = { llm_busy_above = 0.5 }, l3 = { queue_above = 3 } } }"],
    );
    assert_eq!(shadowed.digest, alone.digest);
    assert_eq!(shadowed.timeline, alone.timeline);
    let report = shadowed.shadow.expect("there is a shadow");
    assert_eq!(report.pairs.iter().map(|pair| pair.attempts).sum::<u64>(), report.attempts);
    assert!(report.pairs.iter().any(|pair| pair.shadow == "turned away fixed_rate.spent"), "{report:?}");
    assert!(report.differs > report.attempts / 2, "{report:?}");
    assert!(alone.shadow.is_none());
}

#[test]
fn a_shadow_of_the_same_policy_never_differs() {
    let same = run(DESK, &["shadow={ queue = { kind = \"semantic\" } }"]);
    let report = same.shadow.as_ref().expect("there is a shadow");
    assert!(report.attempts > 1000 && report.differs == 0, "{report:?}");
    assert!(report.pairs.iter().all(|pair| pair.live == pair.shadow), "{report:?}");
    assert_eq!(metric(&same, "shadow_differs_share"), 0.0);
    // A queue without ranks answers all at L1, also those of the third queue.
    let fifo = run(DESK, &[&FIFO_SHADOW.replacen(" = ", "=", 1)]);
    let pair = |live: &str| fifo.shadow.as_ref().and_then(|s| s.pairs.iter().find(|p| p.live == live));
    assert_eq!(pair("l3 semantic.degraded").map(|pair| pair.shadow.as_str()), Some("l1"));
}

/// Published case H9, told small: keyword rules that miss 15 % of the policy questions.
#[test]
fn a_shadow_shows_whom_it_takes_for_unimportant() {
    let settings = ["policy.queue={ kind = \"fifo\" }", "shadow={ queue = { kind = \"semantic\" } }"];
    let found = run(DESK, &settings);
    let low = |replication: &crate::Replication| {
        replication.by["class"]["policy"]["shadow_low_share"].value.expect("some were asked")
    };
    // Of those without a keyword only the ones of no channel or tier bonus are left: all of them.
    assert!((low(&found) - 0.15).abs() < 0.03, "{}", low(&found));
    let ruled = run(DESK, &[settings[0], settings[1], "workload.classes.policy.service_keyword_share=0.99"]);
    assert!(low(&ruled) < 0.02, "{}", low(&ruled));
    let ShadowClass { attempts, low } = found.shadow.expect("there is a shadow").by_class["other"];
    assert!(attempts > 500 && low == attempts);
}

/// Published case P2: the bill follows from the tokens and their price.
#[test]
fn costs_follow_from_tokens_hand_offs_and_hours() {
    let prices = "economics={ currency = \"CNY\", tokens = { llm = { in_per_1k = 0.5, out_per_1k = 2.0 } }, \
                  gpu_per_hour = 36.0 }";
    let replication = run(DESK, &["policy.queue={ kind = \"fifo\" }", "run.drain_s=1000", prices]);
    let answered = replication.by["class"]["policy"]["requests"].value.unwrap()
        + replication.by["class"]["other"]["requests"].value.unwrap();
    // 300 tokens and two documents of 100 in, 500 out, for each request that is born after the warm-up.
    let tokens = answered * (0.5 * 0.5 + 0.5 * 2.0);
    assert!((metric(&replication, "cost_tokens") - tokens).abs() < 1e-9 * tokens);
    // One replica without a device, 390 s.
    assert!((metric(&replication, "cost_gpus") - 3.9).abs() < 1e-9);
    assert!((metric(&replication, "cost") - tokens - 3.9).abs() < 1e-9 * tokens);
    assert_eq!(replication.metrics["cost"].unit, "CNY");
}

#[test]
fn value_is_earned_by_right_answers_in_time() {
    let fifo = "policy.queue={ kind = \"fifo\" }";
    let all = run(DESK, &[fifo, "run.drain_s=1000"]);
    let policy = |name: &str| all.by["class"]["policy"][name].value.expect("some were asked");
    assert_eq!(policy("value"), 3.0 * policy("requests"));
    assert_eq!(metric(&all, "value"), policy("value"));
    assert_eq!(all.by["class"]["other"]["value"].value, Some(0.0));
    let half = run(DESK, &[fifo, "quality.l1.generative=0.5"]);
    let share = metric(&half, "value") / metric(&all, "value");
    assert!((share - 0.5).abs() < 0.08, "{share}");
    assert_eq!(metric(&run(DESK, &[fifo, "gateway.in_time_s=0.1"]), "value"), 0.0);
}

#[test]
fn satisfaction_falls_with_waiting_and_with_refusals() {
    let csat = "economics={ csat = { tolerance_s = 1.0, per_further_s = 0.1, rejected = 0.8 } }";
    let quiet = run(DESK, &[csat, "workload.sources.crowd.rate_per_s=0.1", "run.duration_s=4000"]);
    assert!(metric(&quiet, "csat") > 0.999);
    let busy = run(DESK, &[csat, "policy.queue={ kind = \"fifo\" }", "workload.sources.crowd.rate_per_s=8"]);
    assert!(metric(&busy, "csat") < 0.8, "{}", metric(&busy, "csat"));
    let closed = "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 0, burst = 1 }";
    let refused = run(DESK, &[csat, closed]);
    assert!((metric(&refused, "csat") - 0.2).abs() < 1e-9);
    let none = run(DESK, &[]);
    assert!(none.metrics["csat"].value.is_none() && none.metrics["csat"].reason.is_some());
    assert!(none.metrics["cost"].value.is_none());
}

#[test]
fn signals_are_read_where_a_policy_wants_them() {
    let signals = |settings: &[&str]| {
        let loaded = load(DESK, settings);
        let mut simulation = Service::simulation(&loaded, 1, 0).expect("it builds");
        simulation.run_until(Time::ZERO + Span::from_secs_f64(200.0));
        simulation.world.signals
    };
    let csat = "economics={ csat = {} }";
    // The executor is overloaded: all three queues fill.
    let read = signals(&[csat, "workload.sources.crowd.rate_per_s=20", "policy.queue.max_length=50"]);
    let of = |kind| read.get(kind).expect("it is read");
    assert!(of(SignalKind::QueueStandard) > 10.0 && of(SignalKind::QueueDegraded) > 10.0);
    let l3_share = of(SignalKind::L3Share);
    assert!((0.05..0.95).contains(&l3_share), "{l3_share}");
    assert!((0.0..0.9).contains(&of(SignalKind::Csat)));
    assert_eq!(of(SignalKind::InFlight), 4.0);
    assert!(of(SignalKind::TtftP95) > 1.0);
    assert!((of(SignalKind::StoreLatency) - 0.05).abs() < 1e-6);
    // A plain queue follows no signal, and nothing is read for it.
    let unread = signals(&["policy.queue={ kind = \"fifo\" }"]);
    assert_eq!(unread.get(SignalKind::InFlight), None);
}

/// A question each second, served in 0.1 s, and a burst of 50 at 100 s.
const BURST: &str = r#"
name = "burst"
[run]
duration_s = 300
warmup_s = 10
timeline_points = 1500
[workload.sources.steady]
kind = "renewal"
gap_s = 1
[workload.sources.burst]
kind = "microburst"
at_s = 100.05
count = 50
[workload.classes.question]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = 0.1
"#;

#[test]
fn recovery_is_the_time_until_the_burst_is_worked_off() {
    let burst = run(BURST, &[]);
    // 5 s of work, of which 0.9 s are worked off each second: the questions of 101 to 105 s wait, that of
    // 105 s for about 0.5 s, and the one of 106 s for none. Its answer lies in the steps after 105.6 s.
    let recovery_s = metric(&burst, "recovery_s");
    assert!((5.4..6.0).contains(&recovery_s), "{recovery_s}");
    let calm = run(&BURST.replace("at_s = 100.05", "at_s = 299.99"), &[]);
    assert!(calm.metrics["recovery_s"].value.is_none());
    let without = run(DESK, &[]);
    assert_eq!(
        without.metrics["recovery_s"].reason.as_deref(),
        Some("the scenario has no fault or surge to recover from")
    );
}

#[test]
fn a_loop_without_a_band_turns_round_more_often() {
    let ladder = |below: f64| {
        format!("policy.fallback={{ l3 = {{ llm_busy_above = 0.9, llm_busy_below = {below} }} }}")
    };
    let settings = ["policy.queue={ kind = \"fifo\" }", "workload.sources.crowd.rate_per_s=7"];
    let turns = |below| {
        let replication = run(DESK, &[settings[0], settings[1], &ladder(below)]);
        let above = metric(&replication, "time_l3_llm_busy_above");
        assert!((0.05..1.0).contains(&above), "{above}");
        metric(&replication, "oscillations_per_min")
    };
    let (narrow, wide) = (turns(0.9), turns(0.1));
    assert!(narrow > wide && wide > 0.0, "{narrow} and {wide} per minute");
    let still = run(DESK, &[settings[0]]);
    assert!(still.metrics["oscillations_per_min"].value.is_none());
}

/// Published case H11: the estimate is reported with its error.
#[test]
fn the_notice_of_a_plain_queue_is_nearly_right() {
    let told = run(
        DESK,
        &[
            "gateway.wait_notice=true",
            "policy.queue={ kind = \"fifo\" }",
            "workload.sources.crowd.rate_per_s=6.5",
        ],
    );
    let (error_s, wait_s) = (metric(&told, "wait_notice_error_s"), metric(&told, "wait_noticed_mean_s"));
    assert!(wait_s > 0.5 && error_s < 0.25 * wait_s, "{error_s} of {wait_s}");
    let untold = run(DESK, &[]);
    assert!(untold.metrics["wait_notice_error_s"].value.is_none());
    let plain = run(DESK, &["policy.queue={ kind = \"fifo\" }", "workload.sources.crowd.rate_per_s=6.5"]);
    assert_eq!(plain.digest, told.digest);
}

#[test]
fn equal_tiers_are_fair_and_a_preferred_one_is_not() {
    let settings = ["workload.sources.crowd.rate_per_s=6.8", "policy.queue={ kind = \"fifo\" }"];
    let fair = metric(&run(DESK, &settings), "fairness_jain");
    assert!(fair > 0.98, "{fair}");
    let tiers = "policy.queue={ kind = \"strict_priority\", by = \"tier\" }";
    let unfair = metric(&run(DESK, &[settings[0], tiers]), "fairness_jain");
    assert!(unfair < fair - 0.05, "{unfair}");
}

#[test]
fn the_loops_of_a_shadow_may_set_what_stands_at_calls() {
    let gate =
        "admission = { gate = { kind = \"concurrency_gate\", place = \"llm_call\", max_at_once = 9 } }";
    let held = "signal = \"error_rate\", target = 0.1, kp = 1, least = 1, most = 9";
    for parameter in ["admission.gate.max_at_once", "fallback.rerank.max_at_once"] {
        let loops =
            format!("feedback = {{ setpoints = {{ held = {{ {held}, parameter = \"{parameter}\" }} }} }}");
        let shadow = format!("shadow={{ {gate}, fallback = {{ rerank = {{ max_at_once = 2 }} }}, {loops} }}");
        let report = run(DESK, &[&shadow]).shadow.expect("there is a shadow");
        assert!(report.attempts > 100, "{parameter}: {report:?}");
        // What stands at calls is not asked.
        assert!(report.pairs.iter().all(|pair| pair.shadow == "l1"), "{parameter}: {report:?}");
    }
}

#[test]
fn what_stands_beside_the_run_is_checked() {
    let problem = |addition: &str| {
        let text = format!("{DESK}{addition}");
        let problems = Loaded::read(&Source::new("test.toml", text.as_str()), &[], |_| Ok(Inputs::default()))
            .expect_err("it is refused");
        (problems[0].path.clone(), problems[0].to_string())
    };
    let (path, words) = problem("[economics.tokens.llms]\nin_per_1k = 1\n");
    assert!(path == "economics.tokens.llms" && words.contains("did you mean `llm`"), "{words}");
    assert_eq!(problem("[economics.tokens.store]\nin_per_1k = 1\n").0, "economics.tokens.store");
    let (path, _) = problem("[shadow.queue]\nkind = \"semantic\"\nhigh_at_least = 0.1\n");
    assert_eq!(path, "shadow.queue.standard_at_least");
    let no_path = DESK.replace("l3 = [\"rules\"]\n", "");
    let found = refused(&no_path, &[]);
    assert!(found.contains("no path at `l3`"), "{found}");
}

/// Published cases Q7 and A1: an alert on a backlog, with the questions that the rules did not match.
#[test]
fn an_alert_names_the_questions_that_were_not_matched() {
    let rule = "policy.feedback.alerts.backlog={ signal = \"queue_degraded\", above = 20, for_s = 5, \
                severity = \"p1\", cause = \"top_unmatched\" }";
    let busy = run(DESK, &[rule, "workload.sources.crowd.rate_per_s=20"]);
    let alert = busy.alerts.first().expect("the third queue is long");
    assert_eq!((alert.rule.as_str(), alert.severity), ("backlog", forebay_policies::Severity::P1));
    assert!(alert.found > 20.0 && alert.at_s - alert.since_s >= 5.0, "{alert:?}");
    // All questions of this class are new; those of the other class need generation.
    let classes: Vec<_> = alert.unmatched.iter().map(|topic| topic.class.as_str()).collect();
    assert_eq!(classes.first(), Some(&"other"), "{alert:?}");
    assert!(metric(&busy, "alerts") >= 1.0);
    assert_eq!(metric(&run(DESK, &[rule, "workload.sources.crowd.rate_per_s=1"]), "alerts"), 0.0);
}

#[test]
fn what_a_scenario_cannot_have_is_told_and_all_else_is_reported() {
    let loaded = load(DESK, &[]);
    let found = run(DESK, &[]);
    for &name in crate::scenario::objective::METRICS {
        let has = found.metrics.get(name).is_some_and(|metric| metric.value.is_some());
        let missing = crate::metrics::missing(&loaded.scenario, name);
        assert!(!has || missing.is_none(), "{name}: {missing:?}");
        if missing.is_none() {
            assert!(found.metrics.contains_key(name), "{name} is not reported");
        }
    }
    for name in
        ["vram_max", "kv_max", "preemptions", "cache_hit_rate", "wait_noticed_mean_s", "cost_providers"]
    {
        assert!(crate::metrics::missing(&loaded.scenario, name).is_some(), "{name}");
    }
}
