//! What autoscaling and cold replicas do, told by small scenarios.

use crate::replication::Replication;
use crate::small::{metric, refused, run, stage};
use proptest::prelude::*;

/// Published case H6, told small: a day with one peak at noon, ten times the rest, that comes within a
/// minute; a replica takes 90 s to start. A call takes 4 s, a replica serves two at once, so the peak
/// needs 10 replicas, or 15 at the target of 70 %.
const DAY: &str = r#"
name = "day"
[run]
duration_s = 86400
[workload.sources.day]
kind = "profile"
points = [[43200, 0.5], [43260, 5], [46800, 5], [46860, 0.5]]
[workload.classes.question]
[endpoints.ask]
l1 = ["llm"]
[stages.llm]
kind = "llm_slots"
replicas = 15
slots = 2
first_token_s = 4
[stages.llm.memory]
device = "gpu"
weights_gb = 4
[devices.gpu]
count = 15
memory_gb = 10
[telemetry]
period_s = 60
"#;

fn scaled(by: &str) -> [String; 2] {
    [
        "stages.llm.replicas=2".to_owned(),
        format!(
            "stages.llm.autoscale={{ by = \"{by}\", least = 2, most = 15, start_s = 90, \
             seconds_per_arrival = 4, schedule = [[0, 2], [43200, 15], [46860, 2]] }}"
        ),
    ]
}

fn day(settings: &[String]) -> Replication {
    run(DAY, &settings.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_peak_that_demand_misses_is_met_by_timetable_at_a_fraction_of_the_fixed_hours() {
    let fixed = day(&[]);
    let demand = day(&scaled("demand"));
    let timetable = day(&scaled("schedule"));
    // Sized for the peak, the day is used below 30 %.
    assert!(stage(&fixed, "llm", "utilisation") < 0.3);
    assert_eq!(metric(&fixed, "replica_hours"), 15.0 * 24.0);
    // A replica that is asked for when the slots are busy comes too late, and those who come with the peak
    // wait longer than it takes to start; who has it there in time serves nearly all without a wait.
    assert!(metric(&demand, "latency_p99_s") > 90.0, "{}", metric(&demand, "latency_p99_s"));
    for run in [&fixed, &timetable] {
        assert!(metric(run, "latency_p99_s") < 8.0, "{}", metric(run, "latency_p99_s"));
    }
    for run in [&demand, &timetable] {
        assert!(metric(run, "replica_hours") < 0.3 * metric(&fixed, "replica_hours"));
        assert!(stage(run, "llm", "utilisation") > 2.0 * stage(&fixed, "llm", "utilisation"));
        assert_eq!(stage(run, "llm", "replicas_max"), 15.0);
        // What was served is the same work, whoever served it.
        let busy = stage(run, "llm", "busy_mean") - stage(&fixed, "llm", "busy_mean");
        assert!(busy.abs() < 0.01, "{busy}");
    }
}

#[test]
fn without_a_forecast_the_timetable_stands_in_and_is_counted() {
    let timetable = day(&scaled("schedule"));
    let forecast = day(&scaled("forecast"));
    assert_eq!(forecast.digest, timetable.digest);
    // A check every 15 s; the one at the very end counts too.
    assert_eq!(metric(&forecast, "timetable_used"), 86400.0 / 15.0);
    assert_eq!(metric(&timetable, "timetable_used"), 0.0);
}

#[test]
fn replicas_follow_the_timetable_to_the_check() {
    let text = DAY.replace("duration_s = 86400", "duration_s = 3600").replace("[43200, 0.5], ", "");
    let scale = "stages.llm.autoscale={ by = \"schedule\", least = 1, most = 4, start_s = 90, check_every_s = 10, \
                 stop_after_s = 60, schedule = [[0, 1], [1000, 3], [2000, 1]] }";
    let steady = "workload.sources.day={ kind = \"poisson\", rate_per_s = 0.1 }";
    let hit = run(&text, &["stages.llm.replicas=1", scale, steady]);
    // Two more are ordered at 900 s, 100 s ahead; from 2000 s on fewer would do, and are stopped when that
    // has held for 60 s; a call that they serve then may keep one for a check or two.
    let extra = metric(&hit, "replica_hours") * 3600.0 - 3600.0;
    assert!((2.0 * 1160.0..=2.0 * 1180.0).contains(&extra), "{extra}");
    assert_eq!(stage(&hit, "llm", "replicas_max"), 3.0);
}

#[test]
fn memory_is_loaded_and_given_back_with_the_replica() {
    let settings = scaled("schedule");
    let hit = day(&settings);
    let shown = |at: f64| {
        let point = hit.timeline.iter().rev().find(|p| p.t_s <= at).expect("a point");
        point.vram.expect("there are devices")
    };
    // Two of fifteen devices of 10 GB hold 4 GB; at the peak all do.
    assert!((shown(40_000.0) - 2.0 * 0.4 / 15.0).abs() < 1e-9);
    assert!((shown(45_000.0) - 0.4).abs() < 1e-9);
    assert!((shown(80_000.0) - 2.0 * 0.4 / 15.0).abs() < 1e-9);
}

#[test]
fn a_replica_whose_gpu_is_lost_is_not_started_there() {
    let mut settings = scaled("schedule").to_vec();
    let lost = "faults.f={ kind = \"gpu_lost\", device = \"gpu\", count = 5, from_s = 40000, to_s = 50000 }";
    settings.push(lost.to_owned());
    let hit = day(&settings);
    // Ten devices are left, and the two that were lost with their replicas count as held.
    assert_eq!(stage(&hit, "llm", "replicas_max"), 12.0);
    assert!(hit.ledger.failed.get("gpu_lost").copied().unwrap_or(0) <= 4);
}

/// Published case N2: a model that is loaded by its first call.
const COLD: &str = r#"
name = "cold"
[run]
duration_s = 600
drain_s = 600
[workload.sources.crowd]
kind = "renewal"
gap_s = 20
[workload.classes.question]
[endpoints.ask]
l1 = ["llm"]
[stages.llm]
kind = "llm_slots"
replicas = 1
slots = 4
first_token_s = 1
cold_first_call_s = 12
"#;

#[test]
fn the_first_call_loads_the_model_and_a_limiter_does_not_help() {
    let cold = run(COLD, &[]);
    assert_eq!(metric(&cold, "latency_max_s"), 13.0);
    assert!(metric(&cold, "latency_p90_s") < 1.01);
    let limiter = "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 0.05, burst = 1 }";
    assert_eq!(metric(&run(COLD, &[limiter]), "latency_max_s"), 13.0);
    assert_eq!(metric(&run(COLD, &["stages.llm.warmed=true"]), "latency_max_s"), 1.0);
}

#[test]
fn calls_that_come_while_the_model_is_loaded_wait_for_the_rest() {
    let hit =
        run(COLD, &["workload.sources.crowd={ kind = \"microburst\", at_s = 5, count = 3, within_s = 9 }"]);
    // At 5, 8 and 11 s; the model is there at 17 s.
    assert_eq!(metric(&hit, "latency_max_s"), 13.0);
    assert!((metric(&hit, "latency_mean_s") - (13.0 + 10.0 + 7.0) / 3.0).abs() < 0.01);
}

#[test]
fn a_replica_that_crashed_or_was_started_is_cold_again() {
    let crash = "faults.f={ kind = \"replica_crash\", stage = \"llm\", from_s = 105, to_s = 110 }";
    let late = |run: &Replication| run.timeline.iter().filter(|p| p.latency_mean_s > 12.5).count();
    assert_eq!(late(&run(COLD, &[])), 1);
    assert_eq!(late(&run(COLD, &[crash])), 2);
    assert_eq!(late(&run(COLD, &[crash, "stages.llm.warmed=true"])), 0);
}

#[test]
fn an_engine_scales_as_slots_do() {
    let engine = "stages.llm={ kind = \"llm_batching\", replicas = 1, max_seqs = 2, max_batched_tokens = 64, \
                  kv_blocks = 100, cost = { c0_s = 0.05, per_prefill_token_s = 0.0, per_prefill_context_s = 0.0, \
                  per_decode_sequence_s = 0.0, per_resident_token_s = 0.0 }, device = \"gpu\", memory_share = 0.5, \
                  autoscale = { by = \"demand\", least = 1, most = 6, start_s = 30, stop_after_s = 60 } }";
    let text = DAY.replace("[workload.classes.question]", "[workload.classes.question]\ntokens_out = 40");
    let memory = text.find("[stages.llm]").expect("a stage");
    let devices = text.find("[devices.gpu]").expect("devices");
    let text = format!("{}{}", &text[..memory], &text[devices..]);
    let short = ["run.duration_s=4000", "run.drain_s=4000", engine];
    let rate = "workload.sources.day={ kind = \"poisson\", rate_per_s = 2, to_s = 2000 }";
    let hit = run(&text, &[&short[..], &[rate]].concat());
    // Two calls a second of 2 s each keep four sequences busy, and 70 % of two is 1.4 a replica.
    let peak = stage(&hit, "llm", "replicas_max");
    assert!((3.0..=6.0).contains(&peak), "{peak}");
    assert!(metric(&hit, "replicas_mean") < peak);
    assert_eq!(hit.ledger.in_flight_at_end, 0);
    let last = hit.timeline.iter().rev().find(|p| p.t_s <= 4000.0).expect("a point");
    assert!((last.vram.expect("devices") - 0.5 / 6.0).abs() < 1e-9, "{:?}", last.vram);
}

#[test]
fn what_cannot_be_is_refused_with_its_place() {
    let scale = |more: &str| {
        format!("stages.llm.autoscale={{ by = \"schedule\", least = 2, most = 15, start_s = 5{more} }}")
    };
    let good = ", schedule = [[0, 2]]";
    let cases = [
        (scale(""), "needed by `by = \"schedule\"`"),
        (scale(", schedule = [[0, 1]]"), "2 to 15"),
        (scale(", schedule = [[5, 2], [5, 3]]"), "in order of time"),
        (scale(", schedule = [[86400, 2]]"), "second of the day"),
        (scale(good).replace("schedule\"", "forecast\""), "slot time that an arrival takes"),
        (scale(good).replace("most = 15", "most = 1"), "at least `least`"),
        (scale(good).replace("least = 2", "least = 0"), "1 to 100000"),
        (scale(good).replace("most = 15", "most = 9"), "2 to 9"),
        (scale(good).replace("most = 15", "most = 99"), "more memory than what stays resident"),
    ];
    for (setting, expected) in cases {
        let found = refused(DAY, &[&setting]);
        assert!(found.contains(expected), "{setting}: {found}");
    }
    let warmed = refused(DAY, &[&scale(good), "stages.llm.warmed=true", "stages.llm.cold_first_call_s=12"]);
    assert!(warmed.contains("at least cold_first_call_s"), "{warmed}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_started_and_stopped_nothing_is_lost(
        rate in 0.2..8.0_f64, start_s in 0.0..60.0_f64, stop_after_s in 0.0..60.0_f64, target in 0.2..1.0_f64,
        crash_s in 100.0..500.0_f64, shared in prop::bool::ANY,
    ) {
        let slowdown = format!("stages.llm.slowdown_per_busy={}", if shared { 0.5 } else { 0.0 });
        let waves = format!(
            "workload.sources.day={{ kind = \"profile\", points = [[0, 0.1], [50, {rate:?}], [100, 0.1], [200, 0.1]], repeat_s = 200 }}"
        );
        let scale = format!(
            "stages.llm.autoscale={{ by = \"demand\", least = 1, most = 8, start_s = {start_s:?}, check_every_s = 5, \
             stop_after_s = {stop_after_s:?}, target_utilisation = {target:?} }}"
        );
        let crash = format!("faults.a={{ kind = \"replica_crash\", stage = \"llm\", from_s = {crash_s:?}, to_s = 560 }}");
        let lost = format!(
            "faults.b={{ kind = \"gpu_lost\", device = \"gpu\", count = 3, from_s = {:?}, to_s = 550 }}", crash_s / 2.0
        );
        let settings = ["run.duration_s=600", "run.drain_s=100000", "stages.llm.replicas=2", "devices.gpu.count=4",
            "stages.llm.cold_first_call_s=5", &slowdown, &waves, &scale, &crash, &lost];
        let hit = run(DAY, &settings);
        prop_assert_eq!(hit.ledger.in_flight_at_end, 0);
        prop_assert!(stage(&hit, "llm", "utilisation") <= 1.0 + 1e-9);
        prop_assert!(metric(&hit, "replicas_mean") <= 8.0);
    }
}
