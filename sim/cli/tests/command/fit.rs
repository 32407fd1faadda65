//! From a request log to a calibration, and from there to a run.

use crate::workplace::Workplace;

const LOG: &str =
    include_str!("../../../../datasets/measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl");

const SCENARIO: &str = r#"
name = "own-engine"
[run]
duration_s = 60
replications = 1
[workload.sources.all]
kind = "poisson"
rate_per_s = 2.0
[workload.classes.any]
tokens_in = 500
tokens_out = 100
[endpoints.ask]
l1 = ["llm"]
[stages.llm]
kind = "llm_batching"
replicas = 1
calibration = "engine.toml"
"#;

#[test]
fn an_engine_is_fitted_and_used_by_a_scenario_beside_it() {
    let place = Workplace::with(SCENARIO);
    let lines: Vec<&str> = LOG.lines().take(80).collect();
    place.write("log.jsonl", lines.join("\n"));
    let fit = [
        "calibrate",
        "fit",
        "engine",
        "log.jsonl",
        "--max-seqs",
        "128",
        "--replicas",
        "1",
        "--out",
        "engine.toml",
    ];
    let text = place.forebay(&fit).with(0).out;
    for part in ["one engine", "at least", "c0_s", "held out", "part of the log"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // Nothing is overwritten unasked.
    place.forebay(&fit).with(2);
    place.forebay(&["run", "small.toml"]).with(0);
}

#[test]
fn what_is_no_log_is_refused() {
    let place = Workplace::with(SCENARIO);
    place.write("short.csv", "arrival_s,tokens_in,tokens_out,first_token_s,last_token_s\n0,5,5,0.1,0.2\n");
    for (log, why) in
        [("short.csv", "requests: at least 40"), ("none.csv", "none.csv"), ("small.toml", "small.toml")]
    {
        let said = place.forebay(&["calibrate", "fit", "engine", log, "--max-seqs", "8"]).with(2).err;
        assert!(said.contains(why), "{why} in {said}");
    }
    // The engine's calibration is missing: where it was looked for is told.
    let said = place.forebay(&["check", "small.toml"]).with(2).err;
    assert!(said.contains("engine.toml"), "{said}");
}
