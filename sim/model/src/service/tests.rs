//! What the running service does, told by small scenarios.

use super::{Service, StageState};
use crate::replication::{simulate, violations};
use crate::small::{BASE, MEMORY, RERANK, load, metric, refused, run, stage};
use forebay_engine::{Span, Time};

#[test]
fn a_run_forked_midway_ends_as_the_undisturbed_one() {
    let loaded = load(MEMORY, &[]);
    let mut simulation = Service::simulation(&loaded, 1, 0).expect("it builds");
    simulation.run_until(Time::ZERO + Span::from_secs_f64(100.0));
    let mut fork = simulation.clone();
    simulation.run_until(Time::ZERO + Span::from_secs_f64(300.0));
    fork.run_until(Time::ZERO + Span::from_secs_f64(300.0));
    assert_eq!(fork.world.measure.digest, simulation.world.measure.digest);
    assert!(simulation.world.measure.tally.offered > 1000);
}

#[test]
fn a_stage_that_is_busy_with_nobody_is_found() {
    let loaded = load(BASE, &["run.drain_s=100"]);
    let mut simulation = Service::simulation(&loaded, 1, 0).expect("it builds");
    simulation.run_until(Time::ZERO + Span::from_secs_f64(1100.0));
    let found = |service: &Service| {
        let stages = ["desk".to_owned()];
        let ledger = service.measure.tally.ledger(&stages, service.present);
        violations(service, &ledger, &stages, simulation.calendar.now())
    };
    let mut service = simulation.world.clone();
    assert_eq!(found(&service), Vec::<String>::new());
    if let StageState::Server(server) = &mut service.stages[0] {
        server.busy += 1;
    }
    assert_eq!(found(&service), ["stages.desk is not idle although nobody is there"]);
}

#[test]
fn two_policies_face_the_same_crowd() {
    let open = run(BASE, &[]);
    let limited = run(
        BASE,
        &["policy.admission.entry={ kind = \"fixed_rate\", limit = 1, window_s = 10 }", "run.drain_s=100"],
    );
    assert_eq!(open.ledger.offered, limited.ledger.offered);
    assert!(limited.ledger.rejected["fixed_rate.spent"] > 100);
    let other = simulate(&load(BASE, &[]), 1, 1).expect("it runs");
    assert_ne!(other.ledger.offered, open.ledger.offered);
}

#[test]
fn memory_that_runs_out_fails_the_latest_call_or_restarts_the_engine() {
    // Eight calls of 1 GB and a little do not fit beside the weights: 10 GB hold at most 9 of them, less
    // what their answers grow.
    let settings = ["stages.llm.memory.per_call_gb=1.3", "run.drain_s=60"];
    let failing = run(MEMORY, &settings);
    assert!(failing.ledger.failed["out_of_memory"] > 10);
    assert_eq!(metric(&failing, "engine_restarts"), 0.0);
    let [gb, drain] = settings;
    let restarting = run(
        MEMORY,
        &[gb, drain, "stages.llm.memory.on_out_of_memory=restart", "stages.llm.memory.restart_s=10"],
    );
    assert!(metric(&restarting, "engine_restarts") > 3.0);
    assert!(restarting.ledger.failed["engine_restarted"] > restarting.ledger.failed["out_of_memory"]);
    let roomy = run(MEMORY, &["devices.gpu.memory_gb=40", "run.drain_s=60"]);
    assert!(roomy.ledger.failed.is_empty());
}

#[test]
fn levels_follow_what_nvml_shows_and_so_does_the_allocator() {
    let policy = "policy.fallback.l2.vram_above=0.7";
    let exact = run(MEMORY, &[policy]);
    let (l1, l2) = (exact.ledger.answered.l1, exact.ledger.answered.l2);
    assert!(l1 > 100 && l2 > 100, "{l1} at L1, {l2} at L2");
    // A caching allocator never shows less than the most it has held: the light path is never left.
    let caching = run(MEMORY, &[policy, "devices.gpu.allocator=caching"]);
    assert!(caching.ledger.answered.l1 < 50, "{:?}", caching.ledger.answered);
    let emptied =
        run(MEMORY, &[policy, "devices.gpu.allocator=caching", "devices.gpu.empty_cache_every_s=1"]);
    assert!(emptied.ledger.answered.l1 > 3 * caching.ledger.answered.l1);
}

#[test]
fn a_late_signal_overshoots_more_than_a_fresh_one() {
    let settings = |delay| format!("telemetry.delay_s={delay}");
    let policy = "policy.fallback.l2.vram_above=0.7";
    let fresh = run(MEMORY, &[policy, &settings(0)]);
    let late = run(MEMORY, &[policy, &settings(5)]);
    assert!(metric(&late, "vram_sd") > metric(&fresh, "vram_sd"));
}

#[test]
fn a_saturated_reranker_serves_what_the_closed_form_says() {
    // Published case R2: 50 documents, a batch of 50, 120 ms, one GPU.
    let served = metric(&run(RERANK, &[]), "throughput_per_s");
    assert!((served - 8.33).abs() < 0.005 * 8.33, "{served}");
}

#[test]
fn batches_wait_until_they_are_full_or_due() {
    let few = ["endpoints.ask.documents=1", "workload.sources.crowd.rate_per_s=10"];
    let [documents, rate] = few;
    let at_once = run(RERANK, &[documents, rate]);
    let held = run(RERANK, &[documents, rate, "stages.rerank.max_wait_ms=500"]);
    assert!(stage(&held, "rerank", "batch_mean") > 3.0 * stage(&at_once, "rerank", "batch_mean"));
    assert!(stage(&held, "rerank", "wait_max_s") <= 0.5 + 0.5);
    let full = run(RERANK, &[documents, "stages.rerank.max_docs=4", "stages.rerank.max_wait_ms=1e6"]);
    assert_eq!(stage(&full, "rerank", "batch_mean"), 4.0);
}

#[test]
fn a_batch_that_finds_no_memory_takes_its_base_time() {
    // Every batch fails, 50 of them a second: were the GPU idle at once, it would fail all 200 calls.
    let small = [
        "workload.sources.crowd.rate_per_s=200",
        "stages.rerank.device=\"gpu\"",
        "stages.rerank.workspace_per_document_gb=1",
        "devices.gpu={ count = 1, memory_gb = 20 }",
    ];
    let full = run(RERANK, &small);
    let failed = metric(&full, "out_of_memory");
    assert!((failed - 580.0 * 50.0).abs() <= 1.0, "{failed}");
    assert_eq!(full.ledger.answered.total(), 0);
}

#[test]
fn a_rerank_call_that_takes_too_long_may_go_on_with_the_order_of_the_retrieval() {
    // 20 per second ask for a GPU that serves 8.33: what waits longer than the limit goes on without.
    let limit = "stages.rerank.time_limit_s=0.5";
    let failing = run(RERANK, &[limit]);
    assert!(metric(&failing, "error_rate") > 0.5);
    let going_on = run(RERANK, &[limit, "stages.rerank.on_time_limit=skip"]);
    assert_eq!(metric(&going_on, "error_rate"), 0.0);
    assert!(metric(&going_on, "rerank_skipped_share") > 0.5);
    assert!(metric(&going_on, "latency_max_s") <= 0.5 + 1e-9);
}

#[test]
fn a_source_may_have_a_mix_of_its_own() {
    let mixed = |settings: &[&str]| {
        let text = BASE
            .replace("[workload.classes.question]", "[workload.classes.question]\n[workload.classes.other]");
        let by = run(&text, settings).by;
        ["question", "other"].map(|class| by["class"][class]["requests"].value.unwrap_or_default())
    };
    let [question, other] = mixed(&[]);
    assert!(question > 100.0 && other > 100.0);
    let [question, other] = mixed(&["workload.mix.crowd={ other = 2 }"]);
    assert!(question == 0.0 && other > 300.0);
}

#[test]
fn the_rerank_guard_skips_instead_of_queueing() {
    let guarded = run(
        RERANK,
        &[
            "policy.fallback.rerank={ max_at_once = 8, wait_at_most_ms = 150 }",
            "quality.kept_without_rerank=0.5",
        ],
    );
    assert_eq!(guarded.ledger.answered.total(), guarded.ledger.offered - guarded.ledger.in_flight_at_end);
    assert!(metric(&guarded, "latency_max_s") < 2.0);
    let right = metric(&guarded, "right_share");
    assert!((0.5..0.95).contains(&right), "{right}");
}

#[test]
fn clients_try_again_but_never_with_writes() {
    let limit = "policy.admission.entry={ kind = \"fixed_rate\", limit = 3, window_s = 10 }";
    let retries = "workload.retries={ at_most = 3, base_s = 4.0, factor = 2.0 }";
    let once = run(BASE, &[limit]);
    let again = run(BASE, &[limit, retries]);
    let write = run(BASE, &[limit, retries, "workload.classes.question.write_share=1"]);
    assert_eq!(metric(&once, "attempts_per_request"), 1.0);
    assert!(metric(&again, "attempts_per_request") > 1.5);
    assert!(metric(&again, "error_rate") < metric(&once, "error_rate"));
    assert_eq!(write.digest, once.digest);
}

#[test]
fn clients_may_leave_broken_answers_alone() {
    let broken = ["stages.llm.memory.per_call_gb=1.3", "run.drain_s=60"];
    let [gb, drain] = broken;
    let plain = run(MEMORY, &broken);
    let again = run(MEMORY, &[gb, drain, "workload.retries={ at_most = 2, base_s = 1 }"]);
    let only_refusals =
        run(MEMORY, &[gb, drain, "workload.retries={ at_most = 2, base_s = 1, after_failures = false }"]);
    assert!(metric(&again, "attempts_per_request") > 1.0);
    assert_eq!(only_refusals.digest, plain.digest);
}

#[test]
fn impatient_people_leave_and_ask_again() {
    let patience = "workload.people.patience={ give_up_after_s = 2, until = \"service\" }";
    let leave = run(BASE, &["workload.sources.crowd.rate_per_s=0.9", patience]);
    assert!(leave.ledger.abandoned > 50);
    // Nobody waits longer than the patience before being served.
    assert!(stage(&leave, "desk", "wait_max_s") <= 2.0 + 1e-9);
    let resend = "workload.people.resend={ probability = 1, after_s = 1, at_most = 5 }";
    let again = run(BASE, &["workload.sources.crowd.rate_per_s=0.9", patience, resend]);
    assert!(again.ledger.abandoned < leave.ledger.abandoned);
    assert!(metric(&again, "attempts_per_request") > 1.1);
}

#[test]
fn work_for_people_who_left_unnoticed_is_wasted() {
    let patience = |noticed: bool| {
        format!(
            "workload.people.patience={{ give_up_after_s = 2, until = \"last_token\", noticed = {noticed} }}"
        )
    };
    let rate = "workload.sources.crowd.rate_per_s=0.8";
    let noticed = run(BASE, &[rate, &patience(true)]);
    let unnoticed = run(BASE, &[rate, &patience(false)]);
    assert!(stage(&unnoticed, "desk", "utilisation") > stage(&noticed, "desk", "utilisation"));
    assert!(unnoticed.ledger.answered.l1 < noticed.ledger.answered.l1);
}

#[test]
fn time_limits_cut_off() {
    let deadline = run(BASE, &["gateway.deadline_s=3"]);
    assert!(deadline.ledger.timed_out > 10);
    assert!(metric(&deadline, "latency_max_s") <= 3.0);
    let limit = run(BASE, &["stages.desk.time_limit_s=3"]);
    assert_eq!(limit.ledger.timed_out, deadline.ledger.timed_out);
}

#[test]
fn a_closed_loop_keeps_its_users() {
    let replication = run(
        BASE,
        &["workload.sources.crowd={ kind = \"closed_loop\", users = 5, think_s = 2 }", "run.duration_s=5000"],
    );
    // Interactive response time law: users = throughput x (response + think).
    let users = metric(&replication, "throughput_per_s") * (metric(&replication, "latency_mean_s") + 2.0);
    assert!((users - 5.0).abs() < 0.02, "{users}");
    assert!(metric(&replication, "in_system_mean") < 5.0);
}

#[test]
fn streams_hold_their_slots_and_stall_everyone_else() {
    // Published case G7, told small: long streams on an executor of 2 slots hold up the quick endpoint.
    let text = r#"
name = "streams"
[run]
duration_s = 200
[workload.sources.streams]
kind = "microburst"
at_s = 10
count = 2
[workload.sources.quick]
kind = "poisson"
rate_per_s = 5
[workload.classes.any]
endpoint = "quick"
service_s = 0.01
[gateway]
executor_slots = 2
[endpoints.quick]
l1 = ["work"]
[stages.work]
kind = "server"
servers = 100
service_s = 0.01
[policy.queue]
kind = "fifo"
"#;
    let quick = run(text, &[]);
    assert!(metric(&quick, "latency_max_s") < 0.2);
    let stalled = run(
        text,
        &[
            "stages.work.service_s={ kind = \"mixture\", parts = [ { weight = 0.99, dist = 0.01 }, { weight = 0.01, dist = 30 } ] }",
            "workload.classes.any.service_s={ kind = \"mixture\", parts = [ { weight = 0.99, dist = 0.01 }, { weight = 0.01, dist = 30 } ] }",
        ],
    );
    assert!(stage(&stalled, "executor", "wait_max_s") > 5.0);
    assert!(stage(&stalled, "executor", "utilisation") > 0.5);
}

#[test]
fn calls_of_one_replica_slow_each_other() {
    let text = |slowdown: f64| {
        format!(
            "stages.desk={{ kind = \"llm_slots\", replicas = 1, slots = 100, first_token_s = 1.0, slowdown_per_busy = {slowdown} }}"
        )
    };
    let alone = run(BASE, &[&text(0.0)]);
    let shared = run(BASE, &[&text(0.5)]);
    assert!((metric(&alone, "latency_mean_s") - 1.0).abs() < 1e-6);
    // M/G/1-GPS with an affine factor: W = E[S] / (1 - lambda beta E[S]) = 1 / (1 - 0.25).
    let latency = metric(&shared, "latency_mean_s");
    assert!((latency - 4.0 / 3.0).abs() < 0.15, "{latency}");
}

#[test]
fn an_endpoint_may_call_another() {
    let nested = "endpoints.search={ l1 = [\"ask\", \"desk\"] }";
    let class = "workload.classes.question.endpoint=search";
    let twice = run(BASE, &[nested, class, "workload.sources.crowd.rate_per_s=0.2"]);
    let calls = stage(&twice, "desk", "calls");
    assert!(calls >= 1.9 * twice.ledger.offered as f64, "{calls}");
    let cyclic = refused(BASE, &[nested, "endpoints.ask.l1=[\"search\"]", class]);
    assert!(cyclic.contains("cycle"), "{cyclic}");
}

#[test]
fn a_level_without_a_path_of_its_own_is_not_counted() {
    let policy = "policy.fallback.l2.vram_above=0.7";
    let with = run(MEMORY, &[policy]);
    assert!(with.ledger.answered.l2 > 100);
    // The same endpoint without a light path takes its full path, and is counted so.
    let without = run(&MEMORY.replace("l2 = [\"light\"]\n", ""), &[policy]);
    assert_eq!(without.ledger.answered.l2, 0);
    // L3 may be chosen, and there is no path at L3.
    let found = refused(MEMORY, &["fallback.l3.vram_above=0.9"]);
    assert!(found.contains("no path at `l3`"), "{found}");
}

#[test]
fn skipped_reranking_is_counted() {
    let guard = "policy.fallback.rerank={ max_at_once = 1, wait_at_most_ms = 1 }";
    assert!(metric(&run(RERANK, &[guard]), "rerank_skipped_share") > 0.5);
    assert_eq!(metric(&run(RERANK, &[]), "rerank_skipped_share"), 0.0);
}

#[test]
fn of_two_model_calls_the_second_gives_the_first_token() {
    let twice = run(
        &MEMORY.replace("l1 = [\"llm\"]", "l1 = [\"llm\", \"llm\"]"),
        &["workload.sources.crowd.rate_per_s=0.01", "run.duration_s=10000"],
    );
    // Each call alone: 0.5 s to its first token, 1.5 s in all.
    assert!((metric(&twice, "ttft_mean_s") - 2.0).abs() < 0.01);
    assert!((metric(&twice, "latency_mean_s") - 3.0).abs() < 0.01);
}
