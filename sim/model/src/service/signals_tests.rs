//! What the feedback loops do to a running service.

use crate::small::{BASE, metric, run, stage};

/// Half a request per second; a rule cuts the entry to a fifth, and an alert says so.
const CUT: &str = r#"
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 100
burst = 10
[policy.feedback.control_center.cut]
when = [{ signal = "arrival_rate", above = 0.01 }]
set = "admission.entry.rate_per_s"
to = 0.1
hold_s = 100
[policy.feedback.alerts.crowd]
signal = "arrival_rate"
above = 0.01
severity = "p2"
"#;

#[test]
fn commands_are_in_force_counted_and_marked() {
    let text = format!("{BASE}{CUT}");
    let cut = run(&text, &[]);
    let marks: Vec<_> = cut.marks.iter().map(|mark| (mark.what.as_str(), mark.name.as_str())).collect();
    assert!(marks.contains(&("command", "admission.entry.rate_per_s = 0.1")), "{marks:?}");
    assert!(marks.contains(&("alert", "crowd")), "{marks:?}");
    assert_eq!(marks.iter().filter(|(what, _)| *what == "command").count(), 1);
    assert!((metric(&cut, "commands_per_min") - 60.0 / 1000.0).abs() < 1e-9);
    let open = run(&text, &["policy.feedback.manual=true"]);
    assert!(open.marks.iter().all(|mark| mark.what != "command"));
    assert_eq!(metric(&open, "error_rate"), 0.0);
    assert!(metric(&cut, "error_rate") > 0.5, "{}", metric(&cut, "error_rate"));
}

/// Two engines that share one GPU.
const ENGINES: &str = r#"
name = "engines"
[run]
duration_s = 100
drain_s = 60
timeline_points = 100
[workload.sources.crowd]
kind = "renewal"
gap_s = 0.5
[workload.classes.question]
tokens_in = 64
tokens_out = 20
[endpoints.ask]
l1 = ["llm"]
[stages.llm]
kind = "llm_batching"
replicas = 2
max_seqs = 4
max_batched_tokens = 128
kv_blocks = 60
device = "gpu"
memory_share = 0.4
cost = { c0_s = 0.05, per_prefill_token_s = 0.0, per_prefill_context_s = 0.0, per_decode_sequence_s = 0.0, per_resident_token_s = 0.0 }
[devices.gpu]
count = 1
memory_gb = 20
"#;

#[test]
fn each_engine_of_a_gpu_takes_its_share_of_the_memory() {
    let shown = |run: &crate::Replication| run.timeline[50].vram.expect("there is a GPU");
    assert!((shown(&run(ENGINES, &[])) - 0.8).abs() < 1e-9);
    assert!((shown(&run(ENGINES, &["stages.llm.replicas=1"])) - 0.4).abs() < 1e-9);
}

#[test]
fn only_engines_that_run_have_kv_memory() {
    let lost = "faults.f={ kind = \"gpu_lost\", device = \"gpu\", count = 1, from_s = 30.5, to_s = 60.5 }";
    let hit = run(ENGINES, &[lost]);
    for point in hit.timeline.iter().filter(|point| point.t_s <= 100.0) {
        assert_eq!(point.kv.is_none(), (31.0..=60.0).contains(&point.t_s), "{point:?}");
    }
    // Of two engines one is down: the mean is that of the other, which has all calls.
    let crash = "faults.f={ kind = \"replica_crash\", stage = \"llm\", replica = 0, from_s = 0, to_s = 200 }";
    let (both, one) = (run(ENGINES, &[]), run(ENGINES, &[crash]));
    let ratio = metric(&one, "kv_mean") / metric(&both, "kv_mean");
    assert!((1.8..2.3).contains(&ratio), "{ratio}");
    assert_eq!(stage(&one, "llm", "kv_mean"), metric(&one, "kv_mean"));
}
