//! Determinism: every bundled scenario has a pinned digest, whatever the number of threads and the
//! profile; and where two runs differ, the first difference is named.
//!
//! The digests in `data/digests.toml` were printed by the release build of
//! `forebay run NAME --format json`; this test runs in whatever profile it is built in. A digest changes
//! with every change of the simulated world or of the scenario: then it is pinned anew, and the changelog
//! says why.

use forebay_datasets::bundled;
use forebay_model::document::Setting;
use forebay_model::{Replication, simulate};
use forebay_workbench::{Workers, open, run};
use std::collections::BTreeMap;

fn digest(name: &str, threads: usize) -> String {
    let opened = open(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}"));
    let workers = Workers::new(Some(threads)).expect("threads");
    let run =
        run(&opened.loaded, &workers, false, &|_, _| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
    run.summary.digest
}

#[test]
fn every_bundled_scenario_has_its_pinned_digest_with_one_thread_and_with_two() {
    let pinned: BTreeMap<String, String> =
        toml::from_str(include_str!("data/digests.toml")).expect("a table of digests");
    let mut wrong = Vec::new();
    for name in bundled::scenario_names() {
        let found = digest(name, 2);
        match pinned.get(name) {
            None => wrong.push(format!("{name} = \"{found}\"  (not pinned yet)")),
            Some(pin) if *pin != found => wrong.push(format!("{name} = \"{found}\"  (pinned: {pin})")),
            Some(_) => {}
        }
        // The longest scenarios are enough of a trial with two threads; the rest is run with one as well.
        if !name.starts_with("shop-peak") || name.ends_with("mini") {
            assert_eq!(digest(name, 1), found, "{name} with one thread and with two");
        }
    }
    assert_eq!(pinned.len(), bundled::scenario_names().count(), "a digest is pinned of no scenario");
    assert!(wrong.is_empty(), "digests differ:\n{}", wrong.join("\n"));
}

/// The first step of the timeline at which two replications differ.
fn first_difference(a: &Replication, b: &Replication) -> Option<String> {
    for (left, right) in a.timeline.iter().zip(&b.timeline) {
        if left != right {
            return Some(format!("by {} s:\n  {left:?}\n  {right:?}", left.t_s));
        }
    }
    (a.digest != b.digest).then(|| "after the last step of the timeline".to_owned())
}

#[test]
fn a_run_repeated_is_the_same_to_the_last_bit() {
    for name in ["shop-peak-mini", "rag-burst", "azure-conversations"] {
        let loaded = open(name, &[]).unwrap_or_else(|error| panic!("{name}: {error}")).loaded;
        let [first, second] = [0, 1].map(|_| simulate(&loaded, 7, 3).expect("it runs"));
        assert_eq!(first_difference(&first, &second), None, "{name}");
        assert_eq!(first, second, "{name}: timelines agree, measured values do not");
    }
}

#[test]
fn replication_k_is_the_same_however_many_run() {
    let loaded = open("shop-peak-mini", &[]).expect("it opens").loaded;
    let alone = simulate(&loaded, loaded.scenario.run.seed, 5).expect("it runs");
    let mut digests = Vec::new();
    let workers = Workers::new(Some(2)).expect("threads");
    workers
        .in_order(
            8,
            |k| simulate(&loaded, loaded.scenario.run.seed, k as u64),
            |_, replication| digests.push(replication.digest),
        )
        .expect("they run");
    assert_eq!(digests[5], alone.digest);
}

#[test]
fn the_resolved_scenario_is_the_same_scenario() {
    for name in bundled::scenario_names() {
        let opened = open(name, &[Setting::new("run.duration_s", "60"), Setting::new("run.warmup_s", "1")])
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let again = forebay_workbench::inputs::open_text(name, &opened.loaded.resolved, &[])
            .unwrap_or_else(|error| panic!("{name}, resolved: {error}"));
        assert_eq!(again.loaded.scenario, opened.loaded.scenario, "{name}");
        assert_eq!(again.loaded.hash, opened.loaded.hash, "{name}");
    }
}
