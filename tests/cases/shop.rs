//! The shop at its peak, on the bundled `shop-peak` and its small twin, with one set of parameters:
//! W7, W8, I1, F2, F3, F5.

use super::simulated::{metric, near, paired, percent, read, run, shown};
use forebay_engine::Interval;
use forebay_model::Replication;
use forebay_tests::case_table::{Shown, show};
use forebay_workbench::Workers;
use forebay_workbench::inputs::open;
use forebay_workbench::tune::{Overrides, Plan, tune};

#[test]
fn w8_who_holds_the_gpus() {
    // At rest, one class at a time: slot time is what the model's slots are busy, per answer.
    let classes = ["short", "medium", "long"];
    let slot_s = classes.map(|class| {
        let mut settings =
            vec!["workload.sources.crowd.rate_per_s=20".to_owned(), "run.duration_s=60".to_owned()];
        for other in classes.iter().filter(|other| **other != class) {
            settings.push(format!("workload.classes.{other}.weight=0"));
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let replications = run("shop-peak-mini", &settings, 4);
        metric(&replications, "stage.llm.busy_mean").mean / metric(&replications, "throughput_per_s").mean
    });
    let scenario = read("shop-peak-mini", &[]).scenario;
    let weights = classes.map(|class| scenario.workload.classes[class].weight);
    assert_eq!(weights, [0.83, 0.05, 0.12]);
    let held: Vec<f64> = weights.iter().zip(slot_s).map(|(weight, seconds)| weight * seconds).collect();
    let share = held[2] / held.iter().sum::<f64>();
    assert!((share - 0.74).abs() <= 0.02, "{share}");
    show(
        "W8",
        &Shown::met(format!(
            "83 % short, 12 % long by their weights; the long hold {:.1} % of slot time",
            100.0 * share
        )),
    );
}

#[test]
fn i1_no_governance() {
    let rest = run("shop-peak", &["variant=no_governance", "run.duration_s=20", "run.warmup_s=5"], 4);
    let peak = run("shop-peak", &["variant=no_governance"], 4);
    let [before, after] = [&rest, &peak].map(|replications| metric(replications, "latency_mean_s"));
    let errors = metric(&peak, "error_rate");
    assert!(near(before.mean, 0.8, 0.25) && near(after.mean, 4.7, 0.25), "{before:?} {after:?}");
    assert!(errors.lo > 0.18, "{errors:?}");
    let text = format!("{} s -> {} s; errors {}", shown(&before, 1.0), shown(&after, 1.0), percent(&errors));
    show("I1", &Shown::met(text));
}

#[test]
fn w7_three_limiters() {
    let runs = ["fixed_rate", "weighted_bucket", "adaptive_bucket"]
        .map(|variant| run("shop-peak", &[&format!("variant={variant}")], 4));
    let of = |name: &str| [0, 1, 2].map(|index: usize| metric(&runs[index], name));
    let columns = [
        ("throughput_per_s", [1000.0, 1120.0, 1350.0]),
        ("latency_mean_s", [3.2, 1.8, 1.1]),
        ("error_rate", [22.7, 8.3, 2.1]),
    ];
    for (name, published) in columns {
        let found = of(name);
        let rising = published[1] > published[0];
        for index in 1..3 {
            let better = if rising {
                found[index].lo > found[index - 1].hi
            } else {
                found[index].hi < found[index - 1].lo
            };
            assert!(better, "{name}: {found:?}");
            let ratio = found[index].mean / found[0].mean;
            assert!(near(ratio, published[index] / published[0], 0.25), "{name}: ratio {ratio}");
        }
    }
    // Memory: the two means in their bands, and the spikes of the first on the fullest device.
    let vram = of("vram_mean");
    assert!((0.67..=0.77).contains(&vram[1].mean) && (0.75..=0.81).contains(&vram[2].mean), "{vram:?}");
    let (most, swing) = (of("vram_max"), of("vram_sd"));
    assert!(most[0].mean > 0.97 && swing[0].lo > swing[1].hi.max(swing[2].hi), "{most:?} {swing:?}");
    // The part that is not met, the order of the other two: once it is, the case is.
    assert!(swing[1].hi < swing[2].lo, "{swing:?}");
    let told = |name: &str, factor: f64| of(name).map(|interval| shown(&interval, factor)).join(" \u{2192} ");
    show(
        "W7",
        &Shown::unmet(
            format!(
                "served {} per s; mean latency {} s; errors {} %; memory {} %, its standard deviation {} points, the \
                 fullest device at most {} %",
                told("throughput_per_s", 1.0),
                told("latency_mean_s", 1.0),
                told("error_rate", 100.0),
                told("vram_mean", 100.0),
                told("vram_sd", 100.0),
                told("vram_max", 100.0)
            ),
            "all ratios and all orders are met but one: memory is steadier under the static bucket than under \
             the adaptive one, which fills it to its threshold; the published static one had +- 5 %, the adaptive one \
             +- 3 %. What else moved the memory there is not told",
        ),
    );
}

#[test]
fn f2_at_rest() {
    let mut told = Vec::new();
    for (level, bound_s) in [("l1", 1.2), ("l2", 0.6), ("l3", 0.2), ("l4", 0.1)] {
        let mut settings = vec!["workload.sources.crowd.rate_per_s=20".to_owned()];
        if level != "l1" {
            settings.push(format!("policy.fallback.{level}.vram_above=0"));
        }
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let replications = run("shop-peak-mini", &settings, 4);
        let share = metric(&replications, &format!("share_{level}"));
        assert!(share.mean > 0.99, "{level}: {share:?}");
        let latency = metric(&replications, "latency_mean_s");
        assert!(latency.hi < bound_s, "{level}: {latency:?}");
        told.push(format!("{} {} s", level.to_uppercase(), shown(&latency, 1.0)));
    }
    show("F2", &Shown::met(format!("means: {}", told.join(", "))));
}

/// Error rate in per cent at a cutoff.
fn at_cutoff(cutoff: &str) -> Vec<Replication> {
    run("shop-peak", &[&format!("fallback.l2.vram_above={cutoff}")], 8)
}

#[test]
fn f3_the_cutoff_of_l2() {
    let published = [("0.85", 2.1), ("0.87", 3.8), ("0.88", 5.3), ("0.90", 12.7)];
    let runs = published.map(|(cutoff, _)| at_cutoff(cutoff));
    let errors = [0, 1, 2, 3].map(|index: usize| metric(&runs[index], "error_rate"));
    for (error, (cutoff, expected)) in errors.iter().zip(published) {
        assert!((100.0 * error.mean - expected).abs() <= 1.0, "at {cutoff}: {error:?}");
    }
    let [at_85, at_87] = [0, 1].map(|index: usize| metric(&runs[index], "goodput_per_s").mean);
    let gain: Interval = paired(&runs[1], &runs[0], "goodput_per_s");
    let share = gain.mean / at_85;
    // The part that is not met: once it is, the case is.
    assert!(gain.lo > 0.0 && share < 0.22 * 0.75, "{share} {at_87}");
    // The tuner, asked on the small twin.
    let overrides = Overrides { parameter: None, from: Some(0.84), to: Some(0.92), points: Some(5) };
    let opened = open("shop-peak-mini", &[]).expect("it is bundled");
    let objective = &opened.loaded.scenario.objective.as_ref().expect("it has an objective");
    assert_eq!(objective.constraints, ["error_rate <= 0.04"]);
    let plan = Plan::of(&opened, &overrides).expect("a range");
    let workers = Workers::new(None).expect("workers");
    let tuning = tune(&opened, &plan, &workers, &|_, _| ()).expect("it tunes");
    let cutoff = tuning.cutoff.expect("there is one");
    assert!((cutoff.value - 0.87).abs() <= 0.005, "{cutoff:?}");
    let told: Vec<String> = errors.iter().map(|error| shown(error, 100.0)).collect();
    show(
        "F3",
        &Shown::unmet(
            format!(
                "errors {} %; right answers per s at 87 % {:.1} % above those at 85 %; the tuner answers {:.2} %",
                told.join(" \u{2192} "),
                100.0 * share,
                100.0 * cutoff.value
            ),
            "the errors are met, 87 % among them; the 22 % are not: two points of memory are room for a tenth more \
             calls of the full path at most, and answers of the light path are worth something too. A floor of \
             76 % of memory instead of 65 % would give it, and contradict W7",
        ),
    );
}

#[test]
fn f5_rules_against_the_model() {
    let at_l1 = [
        "variant=no_governance",
        "workload.sources.crowd={ kind = \"poisson\", rate_per_s = 640 }",
        "run.duration_s=70",
        "run.warmup_s=10",
    ];
    let at_l3 = [
        "policy.fallback.l3.vram_above=0",
        "policy.admission={}",
        "workload.sources.crowd.rate_per_s=10000",
        "run.duration_s=20",
        "run.warmup_s=5",
    ];
    let at_rest = [
        "variant=no_governance",
        "workload.sources.crowd={ kind = \"poisson\", rate_per_s = 150 }",
        "run.duration_s=800",
        "run.warmup_s=10",
    ];
    let (l1, l3) = (run("shop-peak-mini", &at_l1, 12), run("shop-peak-mini", &at_l3, 12));
    // Right answers of L1 at rest, where none is lost, so that they are those to all questions.
    let calm = run("shop-peak-mini", &at_rest, 12);
    assert!(metric(&calm, "error_rate").hi < 1e-4);
    let right = [&calm, &l3].map(|replications| metric(replications, "right_share").mean);
    let below = 100.0 * (right[0] - right[1]);
    let times = metric(&l3, "throughput_per_s").mean / metric(&l1, "throughput_per_s").mean;
    assert!((below - 0.8).abs() <= 0.08, "{below}");
    assert!(near(times, 17.0, 0.1), "{times}");
    // Of the questions that the FAQ matches, with no others asked.
    let matched = ["short", "medium", "long"].map(|class| {
        [format!("workload.classes.{class}.faq_share=1"), format!("workload.classes.{class}.new_share=0")]
    });
    let matched: Vec<&str> = matched.iter().flatten().map(String::as_str).collect();
    let [faq_l3, faq_l1] = [&at_l3[..], &at_rest[..]].map(|settings| {
        let settings: Vec<&str> = settings.iter().chain(&matched).copied().collect();
        metric(&run("shop-peak-mini", &settings, 4), "right_share")
    });
    assert!(
        (faq_l3.mean - 0.992).abs() <= 0.001 && (faq_l1.mean - 0.83).abs() <= 0.005,
        "{faq_l3:?} {faq_l1:?}"
    );
    show(
        "F5",
        &Shown::met(format!(
            "{} | {}; over all {below:.2} points below L1, throughput {times:.1} times L1",
            percent(&faq_l3),
            percent(&faq_l1)
        )),
    );
}
