//! The commands that look without a run: `params`, `capacity`, `trace`.

use crate::workplace::Workplace;

#[test]
fn parameters_capacity_and_traces_print_text_and_json() {
    let place = Workplace::new();
    let params = place.forebay(&["params", "small.toml", "--under", "run"]).with(0).out;
    assert!(params.contains("run.duration_s") && !params.contains("stages."), "{params}");
    let params = place.forebay(&["params", "small.toml", "--format", "json"]).with(0).json();
    assert!(params.as_array().unwrap().iter().any(|p| p["path"] == "stages.desk.servers" && p["value"] == 1));
    assert!(place.forebay(&["capacity", "small.toml"]).with(0).out.contains("10.00 requests/s at most"));
    let capacity =
        place.forebay(&["capacity", "small.toml", "--format", "json", "--out", "c"]).with(0).json();
    assert_eq!(capacity["first_bottleneck"], "desk");
    assert_eq!(place.names("c"), ["capacity.json", "manifest.json", "scenario.toml"]);
    let trace = place.forebay(&["trace", "azure-conversations", "--format", "json"]).with(0).json();
    assert_eq!(trace["requests"], 19_366);
    place.write("own.csv", "ts,p,c\n0,10,5\n500,20,5\n1500,30,6\n");
    let columns = ["--time", "ts", "--time-unit", "ms", "--tokens-in", "p", "--tokens-out", "c"];
    let own = place.forebay(&[&["trace", "own.csv"], &columns[..]].concat()).with(0).out;
    assert!(own.starts_with("own: 3 requests in 1.50 s"), "{own}");
    // What an error advises is an option of this command, not a key of a scenario.
    place.write("own.csv", "ts,p,c\n500,10,5\n0,20,5\n");
    let advised = |columns: &[&str]| {
        let ended = place.forebay(&[&["trace", "own.csv"], columns].concat()).with(2);
        assert!(!ended.err.contains("sort = ") && !ended.err.contains(" = "), "{}", ended.err);
        ended.err
    };
    assert!(advised(&columns).contains("--sort"));
    assert!(advised(&columns[..2]).contains("--time-unit"));
    assert!(advised(&[]).contains("--tokens-in"));
}
