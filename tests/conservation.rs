//! Conservation: in every run, whatever the scenario, each request has one end, all that was acquired is
//! given back, and Little's law holds to the nanosecond; a run repeated, or forked midway, ends the same.

mod followed;
mod holds;
mod limits;
mod swarm;

use forebay_engine::{Span, Stop, Time};
use forebay_model::replication::finish;
use forebay_model::service::Service;
use forebay_model::{Loaded, Replication, simulate, simulate_with_spans};
use forebay_tests::scenario::{read, shown};
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::FileFailurePersistence;
use swarm::Feature;

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

/// Runs a scenario in every way there is, and holds what comes out against what must be.
fn check(loaded: &Loaded, seed: u64, share: f64) -> Result<Replication, String> {
    let again = || simulate(loaded, seed, 0).map_err(|error| error.to_string());
    let run = again()?;
    holds::holds(&loaded.scenario, &run)?;
    let (followed, spans) =
        simulate_with_spans(loaded, seed, 0, u32::MAX).map_err(|error| error.to_string())?;
    followed::agree(&loaded.scenario, &spans, &run)?;
    limits::kept(&loaded.scenario, &spans)?;
    let [on, fork] = forked(loaded, seed, share)?;
    for (how, other) in [("repeated", again()?), ("followed", followed), ("stepped", on), ("forked", fork)] {
        if other != run {
            return Err(format!("{how} it ends otherwise: {}", first_difference(&other, &run)));
        }
    }
    Ok(run)
}

/// Where two runs differ first, as they are written.
fn first_difference(other: &Replication, run: &Replication) -> String {
    let (other, run) = (format!("{other:#?}"), format!("{run:#?}"));
    let differs = other.lines().zip(run.lines()).find(|(a, b)| a != b);
    differs.map_or("in length".to_owned(), |(a, b)| format!("{} for {}", a.trim(), b.trim()))
}

/// As many cases as the environment asks for, or so many that they take about a minute.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_and_nothing_differs(
        seed in any::<u64>(), features in subsequence(Feature::ALL, 0..=Feature::ALL.len()), share in 0.0..1.5_f64,
    ) {
        let text = swarm::scenario(seed, &features);
        let loaded = match read("swarm", &text, &[""; 0]) {
            Ok(loaded) => loaded,
            Err(problems) => return Err(TestCaseError::fail(format!("{}\n{text}", shown(&problems)))),
        };
        if let Err(why) = check(&loaded, seed, share) {
            return Err(TestCaseError::fail(format!("{why}\n{text}")));
        }
    }
}

/// A scenario with everything at once, long enough to fill every queue.
#[test]
fn everything_at_once() {
    for seed in 0..8 {
        let text = swarm::scenario(seed, Feature::ALL);
        let loaded =
            read("swarm", &text, &["run.duration_s=300"]).unwrap_or_else(|p| panic!("{}\n{text}", shown(&p)));
        let run = simulate(&loaded, seed, 0).expect("it runs");
        assert_eq!(holds::holds(&loaded.scenario, &run), Ok(()), "seed {seed}\n{text}");
        assert!(run.ledger.offered > 500, "seed {seed}: {:?}", run.ledger);
    }
}
