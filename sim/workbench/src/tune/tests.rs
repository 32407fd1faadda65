//! Tuning against queues whose answer is known.

use super::*;
use crate::inputs::open_text;
use crate::output::tests::Scratch;
use crate::run::tests::MM1;
use forebay_datasets::frames::read_parquet;
use forebay_model::document::Setting;
use forebay_policies::Policy;

fn opened(objective: &str, settings: &[(&str, &str)]) -> Opened {
    let settings: Vec<Setting> = settings.iter().map(|(path, value)| Setting::new(*path, *value)).collect();
    open_text("mm1", &format!("{MM1}\n[objective]\n{objective}\n"), &settings).unwrap()
}

fn arrivals(from: f64, to: f64, points: u32) -> Overrides {
    let parameter = Some("workload.sources.all.rate_per_s".to_owned());
    Overrides { parameter, from: Some(from), to: Some(to), points: Some(points) }
}

fn tuned(opened: &Opened, overrides: &Overrides, threads: usize) -> (Plan, Tuning) {
    let plan = Plan::of(opened, overrides).unwrap();
    let workers = Workers::new(Some(threads)).unwrap();
    let tuning = tune(opened, &plan, &workers, &|_, _| ()).unwrap();
    (plan, tuning)
}

#[test]
fn the_rate_that_a_queue_stands_is_found() {
    // M/M/1 with 10 per second: the mean time in system is 1 / (10 - rate), and 0.5 s at a rate of 8.
    let opened = opened(
        "maximize = \"throughput_per_s\"\nconstraints = [\"latency_mean_s <= 0.5\"]",
        &[("run.replications", "8"), ("workload.sources.all.rate_per_s", "6.0")],
    );
    let (_, tuning) = tuned(&opened, &arrivals(5.0, 9.5, 10), 2);
    let cutoff = tuning.cutoff.unwrap();
    assert_eq!(cutoff.kind, CutoffKind::Constraint);
    assert!((cutoff.value - 8.0).abs() < 0.15, "{cutoff:?}");
    assert!(cutoff.ci95[0] <= 8.05 && 7.95 <= cutoff.ci95[1], "{cutoff:?}");
    assert!(cutoff.recommended <= cutoff.value && cutoff.recommended > 7.5, "{cutoff:?}");
    assert_eq!(tuning.decision, Decision::Change);
    // The root finder closes in on zero violation.
    let nearest =
        tuning.curve.iter().map(|p| (p.constraints[0].unwrap().mean - 0.5).abs()).fold(1.0, f64::min);
    assert!(nearest < 0.01, "{nearest}");
    assert!(tuning.curve.iter().any(|point| point.phase == Phase::Refine));
    assert_eq!(tuning.cliff, Some(9.0));
}

#[test]
fn the_threads_change_nothing() {
    let objective = "maximize = \"throughput_per_s\"\nconstraints = [\"latency_mean_s <= 0.5\"]";
    let opened = opened(objective, &[("run.duration_s", "300"), ("run.warmup_s", "30")]);
    let [one, many] = [1, 3].map(|threads| {
        let (_, mut tuning) = tuned(&opened, &arrivals(5.0, 9.5, 4), threads);
        tuning.wall_s = 0.0;
        tuning
    });
    assert_eq!(one, many);
}

#[test]
fn an_optimum_between_the_ends_is_found() {
    // Answers within 1 s count: rate x (1 - exp(-(10 - rate))) is largest at a rate of 7.82.
    let opened =
        opened("maximize = \"goodput_per_s\"", &[("gateway.in_time_s", "1.0"), ("run.replications", "8")]);
    let (_, tuning) = tuned(&opened, &arrivals(5.0, 9.5, 10), 2);
    let cutoff = tuning.cutoff.unwrap();
    assert_eq!(cutoff.kind, CutoffKind::Optimum);
    assert!((cutoff.value - 7.82).abs() < 0.3, "{cutoff:?}");
    assert!(cutoff.ci95[0] < 7.9 && 7.7 < cutoff.ci95[1] && !cutoff.at_end_of_range, "{cutoff:?}");
    // The present rate of 8 is as good: there is nothing to gain.
    assert_eq!(tuning.decision, Decision::NoChange);
    assert!(tuning.verdict[0].starts_with("No change recommended"), "{:?}", tuning.verdict);
}

#[test]
fn a_constraint_that_no_value_keeps_is_said() {
    let objective = "maximize = \"throughput_per_s\"\nconstraints = [\"latency_mean_s <= 0.01\"]";
    let opened =
        opened(objective, &[("run.duration_s", "200"), ("run.warmup_s", "20"), ("run.replications", "2")]);
    let (_, tuning) = tuned(&opened, &arrivals(5.0, 9.5, 3), 1);
    assert_eq!((tuning.decision, tuning.recommended, tuning.cutoff), (Decision::Infeasible, None, None));
    assert!(tuning.verdict[0].contains("keeps latency_mean_s <= 0.01"), "{:?}", tuning.verdict);
}

#[test]
fn whole_numbers_stay_whole() {
    // With room for k in the queue at a load of 0.8, Erlang's cousin M/M/1/K loses ever less.
    let opened = opened(
        "minimize = \"latency_mean_s\"\nconstraints = [\"error_rate <= 0.05\"]",
        &[("stages.desk.max_queue", "3"), ("run.replications", "4")],
    );
    let parameter = Some("stages.desk.max_queue".to_owned());
    let overrides = Overrides { parameter, from: Some(1.0), to: Some(20.0), points: Some(6) };
    let (_, tuning) = tuned(&opened, &overrides, 2);
    assert!(tuning.curve.iter().all(|point| point.value.fract() == 0.0));
    // P(full) = 0.2 x 0.8^K / (1 - 0.8^(K+1)), K = queue + 1: 5 % between queues of 5 and 6... of 6 and 7.
    let cutoff = tuning.cutoff.unwrap();
    assert_eq!(cutoff.kind, CutoffKind::Constraint);
    assert!((5.0..=9.0).contains(&cutoff.recommended), "{cutoff:?}");
}

#[test]
fn the_band_moves_along() {
    let text = format!(
        "{MM1}\n[policy.fallback.l2]\nqueue_above = 10\nqueue_below = 6\n[objective]\nminimize = \"latency_mean_s\"\n"
    );
    let opened = open_text("mm1", &text, &[]).unwrap();
    let parameter = Some("fallback.l2.queue_above".to_owned());
    let overrides = Overrides { parameter, from: Some(2.0), to: Some(20.0), points: Some(3) };
    let plan = Plan::of(&opened, &overrides).unwrap();
    assert_eq!(plan.parameter, "policy.fallback.l2.queue_above");
    assert_eq!(plan.band, Some(("policy.fallback.l2.queue_below".to_owned(), 4.0)));
    let changed = opened.with(&plan.settings(2.0)).unwrap().loaded.scenario.policy.fallback.l2;
    assert_eq!((changed.queue_above, changed.queue_below), (Some(2.0), Some(0.0)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused =
        |opened: &Opened, overrides: &Overrides| Plan::of(opened, overrides).unwrap_err().to_string();
    let plain = open_text("mm1", MM1, &[]).unwrap();
    assert!(refused(&plain, &arrivals(1.0, 2.0, 3)).contains("no objective"));
    let opened = opened("maximize = \"goodput_per_s\"", &[]);
    assert!(refused(&opened, &Overrides::default()).contains("--parameter"));
    assert!(refused(&opened, &arrivals(3.0, 2.0, 5)).contains("empty"));
    assert!(refused(&opened, &arrivals(1.0, 2.0, 2)).contains("3 to 1000"));
    let mut other = arrivals(1.0, 2.0, 3);
    other.parameter = Some("workload.sources.all.rate".to_owned());
    let message = refused(&opened, &other);
    assert!(message.contains("did you mean `workload.sources.all.rate_per_s`?"), "{message}");
    let mut of_the_experiment = arrivals(1.0, 2.0, 3);
    of_the_experiment.parameter = Some("run.duration_s".to_owned());
    assert!(refused(&opened, &of_the_experiment).contains("of the experiment"));
    // What is tuned is looked at before its range.
    let unknown = Overrides { parameter: Some("stages.desk.severs".to_owned()), ..Overrides::default() };
    assert!(refused(&opened, &unknown).contains("did you mean"));
    let negative = Plan::of(&opened, &arrivals(-3.0, -1.0, 3)).unwrap();
    let error = tune(&opened, &negative, &Workers::new(Some(1)).unwrap(), &|_, _| ()).unwrap_err();
    assert!(matches!(error, TuneError::Value { .. }) && !error.is_internal(), "{error}");
}

#[test]
fn a_tuning_folder_is_complete_and_its_policy_loads() {
    let scratch = Scratch::new("tuning-folder");
    let objective = "maximize = \"throughput_per_s\"\nconstraints = [\"latency_mean_s <= 0.5\"]";
    let opened = opened(
        objective,
        &[
            ("run.duration_s", "200"),
            ("run.warmup_s", "20"),
            ("run.replications", "2"),
            ("policy.queue.kind", "fifo"),
        ],
    );
    let (plan, tuning) = tuned(&opened, &arrivals(5.0, 9.5, 3), 1);
    let target = write(&scratch.join("out"), false, &opened, &plan, &tuning).unwrap();
    let text = std::fs::read_to_string(target.join("tuned.toml")).unwrap();
    assert!(text.starts_with("# Policy of the scenario mm1, tuned by"), "{text}");
    assert_eq!(toml::from_str::<Policy>(&text).unwrap(), opened.loaded.scenario.policy);
    let trials = read_parquet(&target.join("trials.parquet")).unwrap();
    assert_eq!(trials.columns[0].values.len(), tuning.simulations);
    let evidence: Tuning =
        serde_json::from_str(&std::fs::read_to_string(target.join("evidence.json")).unwrap()).unwrap();
    assert_eq!(evidence.curve, tuning.curve);
    assert!(target.join("scenario.toml").is_file() && target.join("manifest.json").is_file());
}

#[test]
fn a_value_that_cannot_be_evaluated_is_a_point_with_its_reason() {
    // Below zero the scenario is refused; at a rate of almost nothing there is no latency.
    let opened = opened(
        "minimize = \"latency_mean_s\"",
        &[("run.duration_s", "100"), ("run.warmup_s", "0"), ("run.replications", "2")],
    );
    let (_, tuning) = tuned(&opened, &arrivals(-4.0, 8.0, 4), 2);
    let first = &tuning.curve[0];
    assert_eq!((first.value, first.feasible, first.objective), (-4.0, false, None));
    assert!(first.reason.as_ref().unwrap().contains("rate_per_s"), "{first:?}");
    assert!(tuning.curve.iter().any(|point| point.feasible) && tuning.recommended.unwrap() > 0.0);
    assert!(tuning.trials.iter().any(|trial| trial.reason.is_some()));
}

#[test]
fn a_smaller_value_is_called_smaller() {
    let objective = "maximize = \"throughput_per_s\"\nconstraints = [\"latency_mean_s <= 0.5\"]";
    let opened = opened(objective, &[("workload.sources.all.rate_per_s", "9.5"), ("run.replications", "4")]);
    let (_, tuning) = tuned(&opened, &arrivals(5.0, 9.5, 5), 2);
    assert_eq!(tuning.decision, Decision::Change);
    assert!(
        tuning.verdict[0].contains("the present setting breaks latency_mean_s <= 0.5"),
        "{:?}",
        tuning.verdict
    );
    let gain = &tuning.verdict[1];
    assert!(gain.contains("smaller (-") && !gain.contains("is -"), "{gain}");
}

#[test]
fn what_moves_nothing_and_has_one_crowd_is_said() {
    let text = MM1
        .replace("kind = \"poisson\"\nrate_per_s = 8.0", "kind = \"trace\"\ntrace = \"azure-conversations\"")
        .replace("{ kind = \"exponential\", mean = 0.1 }", "0.1")
        .replace("duration_s = 2000\nwarmup_s = 200", "duration_s = 20");
    let text = format!("{text}\n[objective]\nminimize = \"latency_mean_s\"\n");
    let opened = open_text("trace", &text, &[]).unwrap();
    let parameter = Some("stages.desk.max_queue".to_owned());
    let overrides = Overrides { parameter, from: Some(1000.0), to: Some(2000.0), points: Some(3) };
    let (_, tuning) = tuned(&opened, &overrides, 1);
    let said = tuning.verdict.join(" ");
    assert!(said.contains("does not move it") && said.contains("no other crowds"), "{said}");
    assert!(!said.contains("crowds the search has not seen"), "{said}");
    assert!(tuning.curve.iter().all(|point| point.objective.unwrap().ci95.is_none()));
}
