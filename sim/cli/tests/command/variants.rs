//! Variants of a scenario: chosen, named in results, and read again.

use crate::ablate::SCENARIO;
use crate::workplace::Workplace;

#[test]
fn a_variant_is_chosen_and_its_folder_runs_again() {
    let place = Workplace::with(SCENARIO);
    let digest = |arguments: &[&str]| place.json(arguments)["digest"].clone();
    let right = digest(&["run", "small.toml"]);
    assert_eq!(right, digest(&["run", "small.toml", "--set", "variant=right"]));
    let slow = place.json(&["run", "small.toml", "--set", "variant=slow", "--out", "slow"]);
    assert_eq!(slow["scenario"]["variant"], "slow");
    assert_ne!(slow["digest"], right);
    assert_eq!(slow["digest"], digest(&["run", "slow/scenario.toml"]));
    assert_eq!(slow["digest"], digest(&["run", "small.toml", "--set", "stages.desk.service_s.mean=0.2"]));
    let written = place.read("slow/scenario.toml");
    assert!(written.contains("title = \"variant slow\"") && !written.contains("[variants"), "{written}");
    let out = place.forebay(&["run", "small.toml", "--set", "variant=open"]).with(0).out;
    assert!(out.starts_with("small (variant open): "), "{out}");
    let out = place.forebay(&["params", "small.toml", "--under", "variant"]).with(0).out;
    assert!(out.contains("right | open | slow") && out.contains("open: without the bucket"), "{out}");
    let out = place.forebay(&["capacity", "small.toml", "--set", "variant=slow"]).with(0).out;
    assert!(out.starts_with("small (variant slow): carries 5.000 requests/s"), "{out}");
    let traced = ["run", "small.toml", "--set", "variant=slow", "--trace-requests", "1", "--out", "traced"];
    place.forebay(&traced).with(0);
    let out = place.forebay(&["explain", "traced"]).with(0).out;
    assert!(out.starts_with("small (variant slow), seed 1"), "{out}");
    let tuned = ["--parameter", "admission.entry.rate_per_s", "--from", "2", "--to", "8", "--points", "3"];
    let tune = [&["tune", "small.toml", "--set", "variant=slow", "-q"], &tuned[..]].concat();
    place.forebay(&tune).with(0);
    assert_eq!(place.names("out"), ["small-slow-tune"]);
    let tuned = place.read("out/small-slow-tune/tuned.toml");
    assert!(tuned.starts_with("# Policy of the scenario small (variant slow), tuned by"), "{tuned}");
    // A variant that is broken is found though another is run.
    let broken = SCENARIO.replace("stages.desk.service_s.mean = 0.2", "stages.desk.service_s.maen = 0.2");
    place.write("broken.toml", broken);
    let err = place.forebay(&["run", "broken.toml"]).with(2).err;
    assert!(err.starts_with("broken.toml:36:23: ") && err.contains("in the variant slow"), "{err}");
}
