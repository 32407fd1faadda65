//! `forebay tune`: what it prints and writes.

use crate::workplace::Workplace;

#[test]
fn tuning_prints_a_cutoff_and_can_be_given_again() {
    let place = Workplace::new();
    let first = place.forebay(&["tune", "small.toml"]).with(0);
    for expected in ["workload.sources.all.rate_per_s", "constraint", "throughput_per_s", "▲", "tuned.toml"]
    {
        assert!(first.out.contains(expected), "{expected}: {}", first.out);
    }
    let second = place.forebay(&["tune", "small.toml", "--format", "json", "--threads", "1"]).with(0).json();
    assert_eq!(place.names("out"), ["small-tune", "small-tune-2"]);
    let files = [
        "evidence.json",
        "manifest.json",
        "scenario.toml",
        "trials.parquet",
        "tuned-scenario.toml",
        "tuned.toml",
    ];
    assert_eq!(place.names("out/small-tune"), files);
    assert!(first.out.contains(second["digest"].as_str().unwrap()), "{second}");
    let cutoff = second["cutoff"]["value"].as_f64().unwrap();
    assert!((7.0..9.0).contains(&cutoff), "{cutoff}");
    place.forebay(&["tune", "small.toml", "--out", "out/small-tune"]).with(2);
    let impossible =
        ["tune", "small.toml", "-q", "--set", "objective.constraints=[\"latency_mean_s <= 0.001\"]"];
    assert!(place.forebay(&impossible).with(0).out.contains("Widen the range"));
    place.forebay(&[&impossible[..], &["--require"]].concat()).with(1);
}
