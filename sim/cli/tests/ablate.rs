//! `forebay run --ablate` and variants, as users meet them.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Twice as many questions as a desk can answer, a bucket that halves them, one that never acts.
const SCENARIO: &str = r#"
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

/// A folder of its own for each test, gone at its end.
struct Workplace(PathBuf);

impl Workplace {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-ablate-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("small.toml"), SCENARIO).unwrap();
        Self(path)
    }

    /// The code it ended with, what it printed, and what it complained of.
    fn forebay(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let (code, out, err) = self.forebay(&[arguments, &["--format", "json", "-q"]].concat());
        assert_eq!((code, err.as_str()), (0, ""));
        serde_json::from_str(&out).unwrap()
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn each_module_has_its_row() {
    let place = Workplace::new("rows");
    let (code, out, err) = place.forebay(&["run", "small.toml", "--ablate"]);
    assert_eq!(code, 0, "{err}");
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
    let place = Workplace::new("folder");
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
    let mut names: Vec<String> = std::fs::read_dir(place.0.join("out/a"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["ablation.json", "manifest.json", "scenario.toml"]);
    let again = [&ablate[..], &["--out", "out/a"]].concat();
    assert_eq!(place.forebay(&again).0, 2);
    assert_eq!(place.forebay(&[&again[..], &["--force"]].concat()).0, 0);
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
    let place = Workplace::new("needed");
    let controller = "policy.feedback.setpoints.hold={ signal = \"queue_length\", target = 5, ki = 0.01, \
                      least = 1, most = 20, parameter = \"admission.entry.rate_per_s\" }";
    let (code, out, err) = place.forebay(&["run", "small.toml", "--ablate", "-q", "--set", controller]);
    assert_eq!((code, err.as_str()), (0, ""));
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
    let place = Workplace::new("wrong");
    let cases: &[(&[&str], &str)] = &[
        (&["run", "small.toml", "--ablate", "--require"], "--require"),
        (&["run", "small.toml", "--ablate", "--trace-requests", "5", "--out", "x"], "--trace-requests"),
        (&["run", "theory-mm1", "--ablate"], "no module that could be switched off"),
        (&["run", "small.toml", "--ablate", "--out", "small.toml/x"], "no results can be written"),
        (&["run", "small.toml", "--ablate", "--set", "variant=opne"], "did you mean `open`?"),
    ];
    for (arguments, expected) in cases {
        let (code, out, err) = place.forebay(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {err}");
        assert!(err.contains(expected) && !err.contains("panicked"), "{arguments:?}: {err}");
    }
}

#[test]
fn a_variant_is_chosen_and_its_folder_runs_again() {
    let place = Workplace::new("variant");
    let digest = |arguments: &[&str]| place.json(arguments)["digest"].clone();
    let right = digest(&["run", "small.toml"]);
    assert_eq!(right, digest(&["run", "small.toml", "--set", "variant=right"]));
    let slow = place.json(&["run", "small.toml", "--set", "variant=slow", "--out", "slow"]);
    assert_eq!(slow["scenario"]["variant"], "slow");
    assert_ne!(slow["digest"], right);
    assert_eq!(slow["digest"], digest(&["run", "slow/scenario.toml"]));
    assert_eq!(slow["digest"], digest(&["run", "small.toml", "--set", "stages.desk.service_s.mean=0.2"]));
    let written = std::fs::read_to_string(place.0.join("slow/scenario.toml")).unwrap();
    assert!(written.contains("title = \"variant slow\"") && !written.contains("[variants"), "{written}");
    let (_, out, _) = place.forebay(&["run", "small.toml", "--set", "variant=open"]);
    assert!(out.starts_with("small (variant open): "), "{out}");
    let (_, out, _) = place.forebay(&["params", "small.toml", "--under", "variant"]);
    assert!(out.contains("right | open | slow") && out.contains("open: without the bucket"), "{out}");
    // A variant that is broken is found though another is run.
    let broken = SCENARIO.replace("stages.desk.service_s.mean = 0.2", "stages.desk.service_s.maen = 0.2");
    std::fs::write(place.0.join("broken.toml"), broken).unwrap();
    let (code, _, err) = place.forebay(&["run", "broken.toml"]);
    assert_eq!(code, 2);
    assert!(err.starts_with("broken.toml:36:23: ") && err.contains("in the variant slow"), "{err}");
}
