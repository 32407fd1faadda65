//! `forebay run --ablate`.

use crate::workplace::{Ended, Workplace};

/// Twice as many questions as a desk can answer, a bucket that halves them, one that never acts.
pub(crate) const SCENARIO: &str = r#"
name = "small"
[run]
duration_s = 100
warmup_s = 10
replications = 3
[workload.sources.all]
kind = "poisson"
rate_per_s = 20.0
[workload.classes.any]
[gateway]
executor_slots = 1
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.1 }
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 8
burst = 10
[policy.admission.never]
kind = "fixed_rate"
limit = 1000000
[policy.queue]
kind = "fifo"
max_length = 20
[objective]
maximize = "throughput_per_s"
constraints = ["latency_mean_s <= 0.5"]
[variants.open]
title = "without the bucket"
without = ["policy.admission.entry"]
[variants.slow.set]
stages.desk.service_s.mean = 0.2
"#;

#[test]
fn each_module_has_its_row() {
    let place = Workplace::with(SCENARIO);
    let Ended { out, err, .. } = place.forebay(&["run", "small.toml", "--ablate"]).with(0);
    assert!(err.contains("12 simulations"), "{err}");
    for expected in
        ["small: what each module", "as it is", "policy.admission.entry", "policy.queue", "error rate", "±"]
    {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let never = out.lines().find(|line| line.starts_with("policy.admission.never")).unwrap();
    assert!(never.split_whitespace().skip(1).all(|cell| cell == "0"), "{never}");
}

#[test]
fn threads_change_nothing_and_the_folder_holds_all() {
    let place = Workplace::with(SCENARIO);
    let ablate = ["run", "small.toml", "--ablate"];
    let ablation = |more: &[&str]| {
        let mut json = place.json(&[&ablate[..], more].concat());
        json["wall_s"] = 0.into();
        json
    };
    let one = ablation(&["--threads", "1"]);
    assert_eq!(one, ablation(&["--threads", "3", "--out", "out/a"]));
    let entry = &one["modules"][0];
    assert_eq!(entry["path"], "policy.admission.entry");
    assert!(entry["changes"]["error_rate"]["ci95"][1].as_f64().unwrap() < 0.0, "{entry}");
    assert_eq!(one["modules"][1]["changes_nothing"], true);
    // What the objective is about is among the metrics.
    assert!(one["metrics"]["latency_mean_s"]["value"].is_number());
    assert_eq!(place.names("out/a"), ["ablation.json", "manifest.json", "scenario.toml"]);
    let manifest: serde_json::Value = serde_json::from_str(&place.read("out/a/manifest.json")).unwrap();
    assert_eq!(manifest["digest"], one["digest"]);
    assert!(manifest["digest"].is_string() && manifest["wall_s"].as_f64().unwrap() > 0.0, "{manifest}");
    assert_ne!(one["digest"], ablation(&["--seed", "9"])["digest"]);
    let again = [&ablate[..], &["--out", "out/a"]].concat();
    place.forebay(&again).with(2);
    place.forebay(&[&again[..], &["--force"]].concat()).with(0);
    // The module is worth the same as the difference of the two runs.
    let error_rate = |more: &[&str]| {
        let json = place.json(&[&["run", "small.toml"], more].concat());
        json["metrics"]["error_rate"]["value"].as_f64().unwrap()
    };
    let difference = error_rate(&["--set", "variant=open"]) - error_rate(&[]);
    let found = entry["changes"]["error_rate"]["difference"].as_f64().unwrap();
    assert!((found - difference).abs() < 1e-12, "{found} and {difference}");
}

#[test]
fn a_module_that_another_needs_says_why() {
    let place = Workplace::with(SCENARIO);
    let controller = "policy.feedback.setpoints.hold={ signal = \"queue_length\", target = 5, ki = 0.01, \
                      least = 1, most = 20, parameter = \"admission.entry.rate_per_s\" }";
    let ablate = ["run", "small.toml", "--ablate", "-q", "--set", controller];
    let Ended { out, err, .. } = place.forebay(&ablate).with(0);
    assert_eq!(err, "");
    let why = out.split("policy.admission.entry cannot be switched off:\n").nth(1).unwrap();
    assert!(why.starts_with("  policy.feedback.setpoints.hold.parameter: found"), "{out}");
    assert!(
        out.lines().any(|line| line.starts_with("policy.admission.entry  ") && line.ends_with('-')),
        "{out}"
    );
    assert!(out.lines().any(|line| line.starts_with("policy.feedback.setpoints.hold  ")), "{out}");
}

#[test]
fn what_cannot_be_ablated_ends_with_2() {
    let place = Workplace::with(SCENARIO);
    let cases: &[(&[&str], &str)] = &[
        (&["run", "small.toml", "--ablate", "--require"], "--require"),
        (&["run", "small.toml", "--ablate", "--trace-requests", "5", "--out", "x"], "--trace-requests"),
        (&["run", "theory-mm1", "--ablate"], "no module that could be switched off"),
        (&["run", "small.toml", "--ablate", "--out", "small.toml/x"], "no results can be written"),
        (&["run", "small.toml", "--ablate", "--set", "variant=opne"], "did you mean `open`?"),
    ];
    for (arguments, expected) in cases {
        let Ended { out, err, .. } = place.forebay(arguments).with(2);
        assert_eq!(out, "", "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}
