//! The HR assistant's day: H4, H6, H9, H10.

use super::simulated::{metric, near, paired, percent, run};
use forebay_tests::case_table::{Shown, show};

#[test]
fn h4_three_peaks() {
    let replications = run("hr-day", &["variant=for_the_peak"], 4);
    let mut told = Vec::new();
    for (from_s, to_s, expected) in
        [(30_600.0, 34_200.0, 0.35), (43_200.0, 48_600.0, 0.20), (61_200.0, 64_800.0, 0.25)]
    {
        let (mut inside, mut all) = (0, 0);
        for point in replications.iter().flat_map(|replication| &replication.timeline) {
            all += point.offered;
            // A point tells of the minute that ends with it.
            inside += if point.t_s > from_s && point.t_s <= to_s { point.offered } else { 0 };
        }
        let share = inside as f64 / all as f64;
        assert!((share - expected).abs() <= 0.005, "{share}");
        told.push(format!("{:.2} %", 100.0 * share));
    }
    show("H4", &Shown::met(told.join(", ")));
}

#[test]
fn h6_replicas_ahead_of_the_peak() {
    let [forecast, demand, fixed] = ["right", "on_demand", "for_the_peak"]
        .map(|variant| run("hr-day", &[&format!("variant={variant}")], 4));
    let missed = paired(&demand, &forecast, "error_rate");
    assert!(missed.lo > 0.005, "{missed:?}");
    assert!(metric(&forecast, "error_rate").hi < 0.005);
    let used = metric(&fixed, "stage.llm.utilisation");
    assert!(used.hi < 0.3, "{used:?}");
    show(
        "H6",
        &Shown::met(format!(
            "lost on demand {}, by forecast {}; sized for the peak {} used",
            percent(&metric(&demand, "error_rate")),
            percent(&metric(&forecast, "error_rate")),
            percent(&used)
        )),
    );
}

#[test]
fn h9_a_candidate_beside_the_live_policy() {
    let [before, after] =
        ["right", "keyword_rule"].map(|variant| run("hr-day", &[&format!("variant={variant}")], 4));
    // It changes nothing: every request ends as it does without a candidate.
    let alone = run("hr-day", &["variant=alone"], 4);
    let digests = |runs: &[forebay_model::Replication]| runs.iter().map(|r| r.digest).collect::<Vec<_>>();
    assert_eq!(digests(&before), digests(&after));
    assert_eq!(digests(&before), digests(&alone));
    let low = |runs| metric(runs, "class.policy.shadow_low_share");
    assert!(
        (low(&before).mean - 0.15).abs() <= 0.02 && low(&after).hi < 0.02,
        "{:?} {:?}",
        low(&before),
        low(&after)
    );
    show(
        "H9",
        &Shown::met(format!(
            "{} -> {}; the live run is the one without it, by its digests",
            percent(&low(&before)),
            percent(&low(&after))
        )),
    );
}

#[test]
fn h10_what_governance_is_worth() {
    let [before, after] =
        ["ungoverned", "right"].map(|variant| run("hr-day", &[&format!("variant={variant}")], 4));
    let payroll = [&before, &after].map(|runs| metric(runs, "class.payroll.error_rate"));
    let first = [&before, &after].map(|runs| metric(runs, "class.policy.ttft_mean_s").mean);
    let interview = [&before, &after].map(|runs| metric(runs, "class.interview.latency_mean_s").mean);
    assert!(near(payroll[0].mean, 0.05, 0.3) && near(payroll[1].mean, 0.003, 0.3), "{payroll:?}");
    let falls = [first, interview].map(|[before, after]| 1.0 - after / before);
    assert!(near(falls[0], 0.6, 0.3), "{falls:?}");
    // The part that is not met: once it is, the case is.
    assert!(falls[1] > 0.0 && !near(falls[1], 0.4, 0.3), "{falls:?}");
    show(
        "H10",
        &Shown::unmet(
            format!(
                "payroll errors {} -> {}; first answer to policy questions -{:.0} %; interview questions -{:.0} %",
                percent(&payroll[0]),
                percent(&payroll[1]),
                100.0 * falls[0],
                100.0 * falls[1]
            ),
            "the first two are met; interview questions, the longest, are mostly generation, which no queue shortens, \
             and whoever waits too long here gives up: a batch that waits for ever has no place among people of one \
             patience. Patience by class would be needed",
        ),
    );
}
