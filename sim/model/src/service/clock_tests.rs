//! What a wall clock that is set does to the policies, told by small scenarios.

use super::tests::{ALL, answered, fault};
use crate::small::{BASE, run};

/// Published case N1: a bucket that holds little, driven by a clock that jitters by 100 ms.
const BUCKET: [&str; 4] = [
    "workload.sources.crowd.rate_per_s=500",
    "run.duration_s=60",
    "stages.desk={ kind = \"server\", servers = 1000, service_s = 0.001 }",
    "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 100, burst = 2 }",
];

#[test]
fn a_wall_clock_that_jitters_misfills_the_bucket() {
    let wall = "gateway.clock=wall";
    let monotonic = run(BASE, &BUCKET);
    let undisturbed = run(BASE, &[&BUCKET[..], &[wall]].concat());
    assert_eq!(undisturbed.digest, monotonic.digest);
    let full = monotonic.ledger.answered.l1 as f64;
    assert!((full / 6000.0 - 1.0).abs() < 0.01, "{full}");
    // Each step forward fills in an instant what it holds and loses the rest; each step back stops the
    // refill until the clock has caught up.
    let jitter = fault(0, "kind = \"clock_step\", by_s = 0.1, every_s = 0.1", 0.0, 60.0);
    let jittered = run(BASE, &[&BUCKET[..], &[wall, &jitter]].concat());
    let share = jittered.ledger.answered.l1 as f64 / full;
    assert!((0.5..0.7).contains(&share), "{share}");
}

#[test]
fn a_clock_set_forward_floods_and_one_set_back_starves() {
    let settings = [BUCKET[0], BUCKET[1], BUCKET[2], "gateway.clock=wall"];
    let bucket = "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 100, burst = 1000 }";
    let step = fault(0, "kind = \"clock_step\", by_s = 5", 20.0, 40.0);
    let hit = run(BASE, &[&settings[..], &[bucket, &step]].concat());
    // The bucket's own 1000 are spent by second 5 or so; then it gives 100 a second.
    assert!((answered(&hit, 10.0, 20.0) as f64 - 1000.0).abs() < 20.0);
    assert!((answered(&hit, 20.0, 30.0) as f64 - 1500.0).abs() < 20.0);
    // For 5 s after it is right again, the clock shows what it has shown before.
    assert!(answered(&hit, 40.1, 44.9) < 5);
    assert!((answered(&hit, 45.0, 55.0) as f64 - 1000.0).abs() < 20.0);
}

#[test]
fn those_who_wait_too_long_leave_whatever_the_clock_shows() {
    let queue = "policy.queue={ kind = \"fifo\", max_wait_s = 4 }";
    let settings = [
        "gateway.executor_slots=1",
        "gateway.clock=wall",
        "workload.sources.crowd.rate_per_s=2",
        queue,
        "run.drain_s=100000",
    ];
    for by in ["30", "-30", "0.7, every_s = 0.3", "-0.7, every_s = 0.3"] {
        let step = fault(0, &format!("kind = \"clock_step\", by_s = {by}"), 100.0, 500.0);
        let hit = run(BASE, &[&settings[..], &[&step]].concat());
        assert!(hit.ledger.rejected["queue.expired"] > 100, "{by}");
        assert_eq!(hit.ledger.in_flight_at_end, 0, "{by}");
    }
    // A clock that is set forward by more than the limit turns all away who wait at that instant.
    let step = fault(0, "kind = \"clock_step\", by_s = 30", 100.0, 500.0);
    let hit = run(BASE, &[&settings[..], &["run.timeline_points=10000", &step]].concat());
    let at = |s: f64| hit.timeline.iter().find(|p| (p.t_s - s).abs() < 1e-6).expect("a point");
    assert!(at(100.0).queued >= 2);
    assert_eq!(at(100.1).rejected, at(100.0).queued);
}

#[test]
fn no_module_minds_a_clock_that_goes_back() {
    let modules = [
        "policy.admission.entry={ kind = \"fixed_rate\", limit = 5, window_s = 1 }",
        "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 5, burst = 3, key = \"user\" }",
        "policy.admission.entry={ kind = \"weighted_bucket\", base_rate_per_s = 5 }",
        "policy.admission.entry={ kind = \"concurrency_gate\", place = \"rerank_call\", max_at_once = 1, wait_at_most_s = 0.4 }",
        "policy.queue={ kind = \"strict_priority\", max_wait_s = 1, aging_s = 0.5 }",
        "policy.fallback.rerank={ max_at_once = 1, wait_at_most_ms = 50, p95_above_ms = 40, p95_over = 5, degraded_s = 3 }",
        "policy.signals.vram.filter={ kind = \"sliding_mean\", window_s = 5 }",
    ];
    for module in modules {
        for by in ["-9", "-0.3, every_s = 0.2", "3000"] {
            let step = fault(0, &format!("kind = \"clock_step\", by_s = {by}"), 10.0, 30.0);
            let hit = run(ALL, &[module, &step]);
            assert_eq!(hit.ledger.in_flight_at_end, 0, "{module}, {by}");
            // After a large step forward and back, some stand still until the clock has caught up.
            assert!(by == "3000" || answered(&hit, 45.0, 60.0) > 10, "{module}, {by}: it serves again");
        }
    }
}
