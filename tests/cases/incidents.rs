//! The incidents: each bundled scenario in its wrong and in its right variant, by the numbers of the file.

use super::simulated::{
    answered, finds, followed, ledger, metric, near, paired, percent, read, run, shown, values,
};
use forebay_model::Replication;
use forebay_model::spans::How;
use forebay_tests::case_table::{Shown, show_incident};
use forebay_workbench::findings::of_scenario;

/// Both variants of an incident, the wrong one first.
fn both(scenario: &str, replications: u64) -> [Vec<Replication>; 2] {
    [run(scenario, &["variant=wrong"], replications), run(scenario, &[], replications)]
}

/// The only value of a metric.
fn value(replications: &[Replication], name: &str) -> f64 {
    values(replications, name)[0]
}

fn rejected(replications: &[Replication]) -> u64 {
    ledger(replications).rejected.values().sum()
}

/// The greatest number in the system between two seconds.
fn most_inside(replications: &[Replication], from_s: f64, to_s: f64) -> u64 {
    let points = replications[0].timeline.iter().filter(|point| (from_s..to_s).contains(&point.t_s));
    points.map(|point| point.in_system).max().unwrap_or(0)
}

#[test]
fn n01_a_quota_that_is_charged_too_late() {
    let [wrong, right] = both("incident-n01", 1);
    let passed = |replications: &[Replication]| {
        let tokens = value(replications, "tokens_in") + value(replications, "tokens_out");
        (answered(replications), tokens)
    };
    assert_eq!((passed(&wrong), passed(&right)), ((5, 663.0), (1, 58.0)));
    show_incident("N01", &Shown::met("all 5 pass, 663 tokens"), &Shown::met("the first passes, 58 tokens"));
}

#[test]
fn n03_one_window_flag_for_two_counters() {
    const MINUTE_NS: u64 = 60_000_000_000;
    assert_eq!(rejected(&run("incident-n03", &[], 1)), 0);
    // Tokens let in during the minute that was running when the first was turned away, and for how long none
    // was let in after it, in seconds.
    let blocked = |variant: &str| {
        let requests = followed("incident-n03", &[&format!("variant={variant}")]);
        let passed = |how: How| how == How::Answered;
        let first = requests.iter().position(|r| !passed(r.outcome.how)).expect("one was turned away");
        let at = requests[first].born_ns;
        let minute = at - at % MINUTE_NS;
        let used: u32 = requests[..first]
            .iter()
            .filter(|r| r.born_ns >= minute)
            .map(|r| r.tokens_in + r.tokens_out)
            .sum();
        let next = requests[first..].iter().find(|r| passed(r.outcome.how));
        let until = next.expect("one is let in again").born_ns;
        (used, (until - at) as f64 / 1e9)
    };
    let (used, locked_s) = blocked("wrong");
    assert!((300_000..=350_000).contains(&used), "blocked at {used}");
    assert!((120.0..=300.0).contains(&locked_s), "locked for {locked_s} s");
    let (used_above, locked_above_s) = blocked("above");
    // The next would have gone beyond.
    assert!((498_001..=500_000).contains(&used_above), "blocked at {used_above}");
    assert!(locked_above_s <= 60.0, "locked for {locked_above_s} s");
    show_incident(
        "N03",
        &Shown::met(format!("blocked at {used} tokens, locked for {locked_s:.0} s")),
        &Shown::met(format!(
            "never blocked within the quota; above it at {used_above} tokens, free again after {locked_above_s:.0} s"
        )),
    );
}

#[test]
fn n05_all_providers_rest_at_once() {
    let [wrong, right] = both("incident-n05", 1);
    let refused = ledger(&wrong).rejected.get("providers.all_open").copied().unwrap_or(0);
    // A minute of one question per second, and those of the burst that came too late.
    assert!(refused > 60, "{refused}");
    assert_eq!(rejected(&right), 0);
    let longest = value(&right, "latency_max_s");
    assert!(longest <= 91.0, "{longest}");
    show_incident(
        "N05",
        &Shown::met(format!("{refused} answered 503 while all three rest")),
        &Shown::met(format!("none; the longest answer takes {longest:.1} s, at most 90 s of it waiting")),
    );
}

#[test]
fn n06_retries_that_multiply() {
    let [wrong, right] = both("incident-n06", 1);
    let cycle = run("incident-n06", &["variant=cycle"], 1);
    let names = ["first", "second", "third", "fourth"];
    let calls = |replications: &[Replication]| {
        let offered = ledger(replications).offered as f64;
        names.map(|name| value(replications, &format!("stage.api.{name}.calls")) / offered)
    };
    assert_eq!(calls(&wrong), [12.0, 0.0, 0.0, 0.0]);
    assert_eq!(calls(&cycle), [4.0; 4]);
    assert_eq!(calls(&right), [1.0; 4]);
    show_incident(
        "N06",
        &Shown::met("12 calls for each request; in the circle 16, each provider four times"),
        &Shown::met("4 calls for each request, each provider once"),
    );
}

#[test]
fn n07_thirty_clients_that_come_back_together() {
    let [wrong, right] = both("incident-n07", 4);
    let rate = |replications: &[Replication]| metric(replications, "throughput_per_s");
    // The quota is one per second.
    assert!(rate(&wrong).hi < 0.2, "{:?}", rate(&wrong));
    assert!(paired(&right, &wrong, "throughput_per_s").lo > 0.25);
    // The most calls within a second, after the first half hour.
    let peak = |variant: &str| {
        let mut calls = std::collections::BTreeMap::new();
        for request in followed("incident-n07", &[&format!("variant={variant}")]) {
            for attempt in request.attempts.iter().filter(|attempt| attempt.sent_ns > 1_800_000_000_000) {
                *calls.entry(attempt.sent_ns / 1_000_000_000).or_insert(0_u32) += 1;
            }
        }
        calls.into_values().max().unwrap_or(0)
    };
    let peaks = ["wrong", "right"].map(peak);
    assert!(peaks[0] >= 20 && 2 * peaks[1] < peaks[0], "{peaks:?}");
    let told = |replications: &[Replication], peak: u32| {
        let attempts = metric(replications, "attempts_per_request");
        format!(
            "{} answers per s of 1 allowed, {} attempts for each, at most {peak} in a second",
            shown(&rate(replications), 1.0),
            shown(&attempts, 1.0)
        )
    };
    show_incident("N07", &Shown::met(told(&wrong, peaks[0])), &Shown::met(told(&right, peaks[1])));
}

#[test]
fn n09_a_long_prompt_that_is_let_in_by_its_first_chunk() {
    let [wrong, right] = both("incident-n09", 1);
    let before = run("incident-n09", &["workload.sources.fifth.at_s=7000"], 1);
    // The four's tokens, over the time from the last first token to the last token.
    let rate = |replications: &[Replication]| {
        let span =
            value(replications, "class.first.latency_max_s") - value(replications, "class.first.ttft_max_s");
        4.0 * 2000.0 / span
    };
    let preempted = |replications: &[Replication]| value(replications, "preemptions");
    assert!((rate(&before) - 100.0).abs() < 1.0, "{}", rate(&before));
    assert!((rate(&wrong) - 1.5).abs() < 0.1, "{}", rate(&wrong));
    assert!(preempted(&wrong) > 100.0);
    assert_eq!(preempted(&right), 0.0);
    assert!(rate(&right) > 50.0, "{}", rate(&right));
    let told = |replications: &[Replication]| {
        format!("{} preemptions, {:.2} tokens/s", preempted(replications), rate(replications))
    };
    let wrong = format!("{}, {:.1} before the fifth", told(&wrong), rate(&before));
    show_incident("N09", &Shown::met(wrong), &Shown::met(told(&right)));
}

#[test]
fn n10_two_names_for_one_model() {
    let [wrong, right] = both("incident-n10", 1);
    let preempted = |replications: &[Replication]| value(replications, "preemptions");
    assert!(preempted(&wrong) > 100.0, "{}", preempted(&wrong));
    assert_eq!(preempted(&right), 0.0);
    assert!(10 * answered(&wrong) < 3 * answered(&right), "{} {}", answered(&wrong), answered(&right));
    let told = |replications: &[Replication]| {
        format!("{} preemptions, {} answers", preempted(replications), answered(replications))
    };
    show_incident("N10", &Shown::met(told(&wrong)), &Shown::met(told(&right)));
}

#[test]
fn n12_a_gate_on_a_queue_that_is_scraped_too_rarely() {
    let [wrong, right] = both("incident-n12", 1);
    let longest = |replications: &[Replication]| value(replications, "stage.llm.queue_max");
    assert!((100.0..1000.0).contains(&longest(&wrong)), "{}", longest(&wrong));
    assert!(longest(&right) <= 5.0, "{}", longest(&right));
    // The gate holds the queue, and the engine is not idle behind it.
    let rate = |replications: &[Replication]| value(replications, "throughput_per_s");
    assert!(near(rate(&right), 200.0, 0.05), "{}", rate(&right));
    let told = |replications: &[Replication]| {
        format!("longest queue {}, {:.0} per s of 200 served", longest(replications), rate(replications))
    };
    show_incident("N12", &Shown::met(told(&wrong)), &Shown::met(told(&right)));
}

#[test]
fn n15_a_gate_that_never_acts() {
    let inert = |settings: &[&str]| finds("incident-n15", settings, "gate.never_acts");
    let everyday = run("incident-n15", &["variant=everyday"], 1);
    let [wrong, right] = both("incident-n15", 1);
    assert_eq!(most_inside(&everyday, 0.0, 900.0), 7);
    assert!(inert(&["variant=everyday"]) && inert(&["variant=wrong"]) && !inert(&[]));
    assert_eq!(rejected(&wrong), 0);
    assert!(rejected(&right) > 0);
    let peaks = [most_inside(&wrong, 0.0, 900.0), most_inside(&right, 0.0, 900.0)];
    assert!(peaks[1] <= 15 && peaks[0] > 15, "{peaks:?}");
    show_incident(
        "N15",
        &Shown::met(format!(
            "peak 7 of 190 every day: found as inert; with a batch {} inside, none turned away",
            peaks[0]
        )),
        &Shown::met(format!("at most {} inside, {} turned away", peaks[1], rejected(&right))),
    );
}

#[test]
fn n17_a_low_band_that_starves() {
    let [wrong, right] = both("incident-n17", 4);
    let aging = run("incident-n17", &["variant=aging"], 4);
    let ended = |replications: &[Replication]| metric(replications, "class.low.requests");
    let longest = |replications: &[Replication]| metric(replications, "class.low.latency_max_s");
    // Of some 570 questions none is answered in 1140 s; with a share of its own, all within seconds.
    assert!(ended(&wrong).hi < 0.02 * ended(&right).lo, "{:?} {:?}", ended(&wrong), ended(&right));
    assert!(longest(&right).hi < 10.0, "{:?}", longest(&right));
    assert!(longest(&aging).hi < 120.0 && ended(&aging).lo > 0.8 * ended(&right).lo);
    // Without bound: four times as long, and four times as many wait.
    let waiting = |seconds: &str| {
        let replications = run("incident-n17", &["variant=wrong", &format!("run.duration_s={seconds}")], 4);
        // The twenty of the high band are inside at any time.
        ledger(&replications).in_flight_at_end as f64 / 4.0 - 20.0
    };
    let waiting = ["1200", "4800"].map(waiting);
    assert!(near(waiting[0], 600.0, 0.1) && near(waiting[1], 2400.0, 0.1), "{waiting:?}");
    show_incident(
        "N17",
        &Shown::met(format!(
            "{} of some {} answered; {} wait after 1200 s, {} after 4800 s",
            shown(&ended(&wrong), 1.0),
            shown(&ended(&right), 1.0),
            waiting[0],
            waiting[1]
        )),
        &Shown::met(format!(
            "longest answer {} s by weighted fair queueing, {} s by aging",
            shown(&longest(&right), 1.0),
            shown(&longest(&aging), 1.0)
        )),
    );
}

#[test]
fn n19_a_least_latency_that_is_measured_under_load() {
    let [wrong, right] = both("incident-n19", 1);
    // The crowd fills whatever the limit allows, so those inside are the limit; it is measured every 60 s.
    let inside = |replications: &[Replication], minute: u64| {
        let from = 60.0 * minute as f64;
        let points = replications[0].timeline.iter();
        let points = points.filter(|point| (from + 40.0..from + 58.0).contains(&point.t_s));
        let (sum, n) = points.fold((0, 0), |(sum, n), point| (sum + point.in_system, n + 1));
        sum / n.max(1)
    };
    let [climb, rest] = [&wrong, &right]
        .map(|replications| (0..9).map(|minute| inside(replications, minute)).collect::<Vec<u64>>());
    assert!(climb[0].abs_diff(46) <= 5 && climb[8].abs_diff(272) <= 27, "{climb:?}");
    assert!(climb.is_sorted_by(|before, after| before < after), "{climb:?}");
    assert!(rest.iter().all(|inside| inside.abs_diff(46) <= 6), "{rest:?}");
    let [climbed, flat] = [[climb[0], climb[8]], [rest[0], rest[8]]];
    let told = |[first, last]: [u64; 2]| {
        format!("{first} inside before the first measurement, {last} after the eighth")
    };
    show_incident("N19", &Shown::met(told(climbed)), &Shown::met(told(flat)));
}

#[test]
fn n22_pacing_in_whole_milliseconds() {
    let rates = [1000.0, 1200.0, 1500.0, 1900.0, 2500.0];
    let served = |variant: &str| {
        rates.map(|rate| {
            let rate = format!("policy.admission.pace.rate_per_s={rate}");
            value(&run("incident-n22", &[variant, &rate], 1), "throughput_per_s").round()
        })
    };
    let (wrong, right) = (served("variant=wrong"), served("variant=right"));
    assert_eq!(wrong[..4], [1000.0; 4]);
    assert!(wrong[4] > 2900.0, "no limit at all: {}", wrong[4]);
    assert_eq!(right, rates);
    let told = |served: [f64; 5]| {
        format!(
            "1000, 1200, 1500, 1900, 2500 per s asked for give {}",
            served.map(|s| s.to_string()).join(", ")
        )
    };
    show_incident("N22", &Shown::met(told(wrong)), &Shown::met(told(right)));
}

#[test]
fn n24_a_hundred_requests_that_are_each_larger_than_the_quota() {
    let [wrong, right] = both("incident-n24", 1);
    assert_eq!((answered(&wrong), answered(&right)), (100, 0));
    assert_eq!(value(&wrong, "tokens_in") + value(&wrong, "tokens_out"), 20_000.0);
    show_incident(
        "N24",
        &Shown::met("all 100 pass, 20 000 tokens"),
        &Shown::met("none passes: each is larger than the quota"),
    );
}

#[test]
fn n27_a_rerank_pool_of_one() {
    let published = [
        (1, [3290.0, 24_630.0, 56_792.0]),
        (4, [3174.0, 5769.0, 30_266.0]),
        (14, [3361.0, 4321.0, 16_238.0]),
    ];
    let mut told = Vec::new();
    for (pool, expected) in published {
        let mut found = Vec::new();
        for (callers, expected_ms) in [1, 8, 32].into_iter().zip(expected) {
            let settings = [
                "variant=wrong".to_owned(),
                format!("stages.rerank.connections={pool}"),
                format!("workload.sources.callers.users={callers}"),
            ];
            let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
            let p50_ms = 1000.0 * value(&run("incident-n27", &settings, 1), "latency_p50_s");
            let within = near(p50_ms, expected_ms, 0.15);
            // The cell that is not met: once it is, the incident is.
            assert_eq!(within, (pool, callers) != (1, 32), "pool {pool}, {callers} callers: {p50_ms} ms");
            found.push(format!("{p50_ms:.0}"));
        }
        told.push(format!("pool of {pool}: {}", found.join(" / ")));
    }
    let right = run("incident-n27", &[], 1);
    let p95 = value(&right, "latency_p95_s");
    let (lost, skipped) = (value(&right, "error_rate"), value(&right, "rerank_skipped_share"));
    assert!(p95 < 5.0 && lost == 0.0 && skipped > 0.1, "{p95} {lost} {skipped}");
    show_incident(
        "N27",
        &Shown::unmet(
            format!("p50 in ms at 1 / 8 / 32: {}", told.join("; ")),
            "eight of nine within 15 %; the ninth, 32 callers at a pool of one, is the 32 calls of 3.3 s that stand \
             in line, 105 s; the published 57 s are half of it, as if the clients had given up after a minute, which \
             the report does not say",
        ),
        &Shown::met(format!("p95 {p95:.2} s, none fails, {:.0} % go on without reranking", 100.0 * skipped)),
    );
}

#[test]
fn n28_a_fallback_that_can_never_be_reached() {
    let found = |settings: &[&str]| {
        let findings = of_scenario(&read("incident-n28", settings));
        findings.iter().any(|finding| finding.code == "time_limit.not_inside_deadline")
    };
    assert!(found(&["variant=wrong"]) && !found(&[]));
    let [wrong, right] = both("incident-n28", 2);
    let skipped = |replications: &[Replication]| metric(replications, "rerank_skipped_share");
    assert_eq!(skipped(&wrong).mean, 0.0);
    assert!(skipped(&right).lo > 0.2);
    let told = |replications: &[Replication]| {
        let lost = metric(replications, "error_rate");
        format!("{} go on without reranking, {} fail", percent(&skipped(replications)), percent(&lost))
    };
    show_incident("N28", &Shown::met(format!("found by check; {}", told(&wrong))), &Shown::met(told(&right)));
}
