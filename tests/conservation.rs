//! Conservation: in every run, whatever the scenario, each request has one end, all that was acquired is
//! given back, and Little's law holds to the nanosecond; a run repeated, or forked midway, ends the same.

mod swarm;

use forebay_engine::{Span, Stop, Time};
use forebay_model::replication::finish;
use forebay_model::service::Service;
use forebay_model::spans::RequestSpans;
use forebay_model::{Loaded, Metrics, Replication, simulate, simulate_with_spans};
use forebay_tests::scenario::{read, shown};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// What must hold of one run.
fn holds(run: &Replication) -> Result<(), String> {
    if !run.violations.is_empty() {
        return Err(format!("violations: {:?}", run.violations));
    }
    if run.ledger.accounted() != run.ledger.offered {
        return Err(format!("the ledger does not add up: {:?}", run.ledger));
    }
    // Arrivals are over and the draining takes as long as it likes: nobody is left.
    if run.ledger.in_flight_at_end != 0 {
        return Err(format!("{} requests never end", run.ledger.in_flight_at_end));
    }
    let offered: u64 = run.timeline.iter().map(|point| point.offered).sum();
    if offered != run.ledger.offered {
        return Err(format!(
            "the timeline knows of {offered} requests, the ledger of {}",
            run.ledger.offered
        ));
    }
    let breakdowns = run.by.values().flat_map(|keys| keys.values());
    std::iter::once(&run.metrics).chain(breakdowns).try_for_each(sane)
}

/// Metrics that cannot be: a share outside 0..=1, a negative time, none without a reason.
fn sane(metrics: &Metrics) -> Result<(), String> {
    for (name, metric) in metrics {
        let Some(value) = metric.value else {
            if metric.reason.is_none() {
                return Err(format!("{name} has neither a value nor a reason"));
            }
            continue;
        };
        let share = ["share", "rate", "utilisation", "kv_"].iter().any(|part| name.contains(part));
        // Memory and time averages are sums of fractions: they may end a rounding error off.
        let most = if share { 1.0 + 1e-9 } else { f64::INFINITY };
        if !(-1e-9..=most).contains(&value) || !value.is_finite() {
            return Err(format!("{name} = {value}"));
        }
    }
    Ok(())
}

/// Spans follow one another without a gap, and account for all the time of a request to the nanosecond.
fn accounts_for_its_time(request: &RequestSpans) -> bool {
    let mut at = request.born_ns;
    let attempts_meet = request.attempts.iter().all(|attempt| {
        let mut here = attempt.sent_ns;
        let spans_meet = attempt.spans.iter().all(|span| {
            let meets = span.from_ns == here;
            here = span.to_ns;
            meets
        });
        let follows = attempt.sent_ns == at;
        at = attempt.waited_until_ns();
        spans_meet && follows && here == attempt.end_ns
    });
    attempts_meet && at == request.end_ns
}

/// The same run, forked after a share of its time: what goes on and what was forked must end alike.
fn forked(loaded: &Loaded, seed: u64, share: f64) -> Result<[Replication; 2], String> {
    let mut simulation = Service::simulation(loaded, seed, 0).map_err(|error| error.to_string())?;
    let at = Time::ZERO + Span::from_secs_f64(loaded.scenario.run.duration_s * share);
    if let Stop::Stuck { at, .. } = simulation.run_until(at) {
        return Err(format!("the clock stands still at {at:?}"));
    }
    let fork = simulation.clone();
    let end = |simulation| finish(simulation, loaded).map_err(|error| error.to_string());
    Ok([end(simulation)?, end(fork)?])
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_and_nothing_differs(
        seed in any::<u64>(), features in prop::bits::u32::between(0, swarm::FEATURES as usize), share in 0.0..1.5_f64,
    ) {
        let text = swarm::scenario(seed, features);
        let loaded = read("swarm", &text, &[""; 0]);
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(problems) => return Err(TestCaseError::fail(format!("{}\n{text}", shown(&problems)))),
        };
        let run = match simulate(&loaded, seed, 0) {
            Ok(run) => run,
            Err(error) => return Err(TestCaseError::fail(format!("{error}\n{text}"))),
        };
        prop_assert!(holds(&run).is_ok(), "{:?}\n{text}", holds(&run));
        prop_assert_eq!(&simulate(&loaded, seed, 0).expect("it ran before"), &run, "repeated\n{}", text);
        let (followed, spans) = simulate_with_spans(&loaded, seed, 0, u32::MAX).expect("it ran before");
        prop_assert_eq!(&followed, &run, "followed\n{}", text);
        prop_assert_eq!(spans.len() as u64, run.ledger.offered);
        for request in &spans {
            prop_assert!(accounts_for_its_time(request), "{request:#?}\n{text}");
        }
        let [on, fork] = forked(&loaded, seed, share).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&on, &run, "stepped\n{}", text);
        prop_assert_eq!(&fork, &run, "forked\n{}", text);
    }
}

/// A scenario with everything at once, long enough to fill every queue.
#[test]
fn everything_at_once() {
    for seed in 0..8 {
        let text = swarm::scenario(seed, (1 << swarm::FEATURES) - 1);
        let loaded =
            read("swarm", &text, &["run.duration_s=300"]).unwrap_or_else(|p| panic!("{}", shown(&p)));
        let run = simulate(&loaded, seed, 0).expect("it runs");
        assert_eq!(holds(&run), Ok(()), "seed {seed}");
        assert!(run.ledger.offered > 500, "seed {seed}: {:?}", run.ledger);
    }
}
