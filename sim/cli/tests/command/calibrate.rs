//! `forebay calibrate`: imports, sheets, and runs held against real logs.

use crate::workplace::Workplace;

/// A file of what was measured.
fn measured(path: &str) -> String {
    format!("{}/../../datasets/measured/{path}", env!("CARGO_MANIFEST_DIR"))
}

const SMI: &str = "timestamp, index, memory.used [MiB], power.draw [W]\n\
                   2026/07/23 12:00:09.000, 0, 10 MiB, 300.00 W\n\
                   2026/07/23 12:00:09.500, 0, 11 MiB, [N/A]\n\
                   2026/07/23 12:00:10.000, 0, 12 MiB, 301.00 W\n";

#[test]
fn telemetry_is_imported_with_a_report() {
    let place = Workplace::new();
    place.write("gpu.csv", SMI);
    let import = ["calibrate", "import", "gpu.csv", "--out", "gpu.parquet"];
    let ended = place.forebay(&import).with(0);
    for expected in [
        "gpu.csv: 3 rows of the kind nvidia-smi",
        "`power.draw` not told: N/A",
        "first at line 3",
        "--utc-offset",
    ] {
        assert!(ended.out.contains(expected), "{expected}: {}", ended.out);
    }
    assert_eq!(ended.err, "written: gpu.parquet\n");
    assert_eq!(place.names("."), ["gpu.csv", "gpu.parquet", "small.toml"]);
    let again = place.forebay(&import).with(2);
    assert!(again.err.contains("gpu.parquet: the file exists already; --force"), "{}", again.err);
    let itself = place.forebay(&["calibrate", "import", "gpu.csv", "--out", "gpu.csv", "--force"]).with(2);
    assert!(itself.err.contains("gpu.csv: this file is read"), "{}", itself.err);
    let forced = [&import[..], &["--force", "--utc-offset", "-07:00"]].concat();
    let report = place.json(&forced);
    assert_eq!((&report["kind"], &report["rows"]), (&"nvidia-smi".into(), &3.into()));
    assert_eq!((&report["period_s"], report["remarks"].as_array().unwrap().len()), (&0.5.into(), 0));
}

#[test]
fn what_is_malformed_is_refused_in_one_line_and_leaves_nothing() {
    let place = Workplace::new();
    place.write("gpu.csv", SMI.replace("11 MiB", "11 W"));
    place.write("rubbish", "one\ntwo\n");
    place.write("log.csv", "when,p,c\n1,2,3\n");
    for (file, more, expected) in [
        (
            "gpu.csv",
            &[][..],
            "gpu.csv: line 3, column `memory.used`: its unit is W; B, KiB, MiB, MB or GiB is wanted",
        ),
        (
            "rubbish",
            &[],
            "rubbish: line 1: the first lines do not tell what kind of file this is; say so with --from",
        ),
        ("none.csv", &[], "none.csv: there is no such file"),
        (".", &[], ".: this is a folder, not a file"),
        ("log.csv", &[], "log.csv: no column is named for the time of arrival: say --arrival COLUMN"),
        (
            "log.csv",
            &["--arrival", "when"],
            "log.csv: column `when`: its unit is not given: say --arrival-unit",
        ),
        ("gpu.csv", &["--date", "2026-07-23"], "gpu.csv: --date cannot be heeded"),
    ] {
        let ended =
            place.forebay(&[&["calibrate", "import", file, "--out", "x.parquet"], more].concat()).with(2);
        assert!(
            ended.err.starts_with(expected) && ended.err.lines().count() == 1,
            "{expected}\n{}",
            ended.err
        );
        assert_eq!(ended.out, "");
    }
    let unknown =
        place.forebay(&["calibrate", "import", "gpu.csv", "--out", "x.parquet", "--from", "x"]).with(2);
    assert!(unknown.err.contains("engine-csv"), "{}", unknown.err);
    let nowhere =
        place.forebay(&["calibrate", "import", "rubbish", "--from", "dmon", "--out", "no/x.parquet"]).with(2);
    assert!(nowhere.err.contains("rubbish: line 1: there is no header"), "{}", nowhere.err);
    assert_eq!(place.names("."), ["gpu.csv", "log.csv", "rubbish", "small.toml"]);
}

#[test]
fn a_calibration_is_shown_on_one_screen_and_against_its_data() {
    let place = Workplace::new();
    let name = "vllm-rtx4090-llama-3.1-8b";
    let screen = place.forebay(&["calibrate", "show", name]).with(0).out;
    for expected in
        ["RTX 4090", "license: MIT", "engine.cost.c0_s", "262 to 3998", "errors.held_out.latency_p99"]
    {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    let log = measured("vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl");
    let against = place.forebay(&["calibrate", "show", name, &log]).with(0).out;
    assert!(
        against.contains("time to first token") && against.contains("errors on the part not fitted"),
        "{against}"
    );
    let json = place.json(&["calibrate", "show", name, &log]);
    assert_eq!(json["plots"].as_array().unwrap().len(), 2);
    let unknown = place.forebay(&["calibrate", "show", "vllm-rtx"]).with(2);
    assert!(unknown.err.contains("bundled: decode-") && unknown.err.contains("ml-energy"), "{}", unknown.err);
    let other = place.forebay(&["calibrate", "show", name, "small.toml"]).with(2);
    assert!(other.err.starts_with("small.toml: "), "{}", other.err);
}

/// The measured run again, on the calibrated engine as it was then.
fn replay(log: &str) -> String {
    format!(
        r#"
name = "replay"
[run]
duration_s = 250
[workload.sources.log]
kind = "trace"
trace = "{log}"
[workload.classes.any]
[endpoints.chat]
l1 = ["llm"]
[stages.llm]
kind = "llm_batching"
replicas = 1
calibration = "vllm-rtx4090-llama-3.1-8b"
[policy.queue]
kind = "fifo"
"#
    )
}

#[test]
fn a_run_is_held_against_the_real_log() {
    let folder = "vllm-runs/RTX4090-Llama-3.1-8B";
    let (log, series) =
        (measured(&format!("{folder}/requests.jsonl")), measured(&format!("{folder}/timeseries.csv")));
    let place = Workplace::with(&replay(&log));
    place.forebay(&["run", "small.toml", "-q", "--requests", "--out", "run"]).with(0);
    assert!(place.names("run").contains(&"requests.parquet".to_owned()));
    let compare = ["calibrate", "compare", "run", log.as_str()];
    let screen = place.forebay(&[&compare[..], &["--series", &series]].concat()).with(0).out;
    for expected in
        ["time to first token mean", "time per token p50", "latency p99.9 (few)", "request by request"]
    {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    let json = place.json(&[&compare[..], &["--series", &series, "--skip", "150"]].concat());
    let names: Vec<&str> =
        json["curves"].as_array().unwrap().iter().map(|curve| curve["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["waiting", "running", "kv_tokens", "kv_usage"]);
    let mean = |curve: usize, side: usize| json["curves"][curve]["mean"][side].as_f64().unwrap();
    assert!((mean(3, 0) / mean(3, 2) - 1.0).abs() < 0.05, "KV: {} and {}", mean(3, 0), mean(3, 2));
    assert!((mean(0, 0) / mean(0, 1) - 1.0).abs() < 0.03, "waiting: {} and {}", mean(0, 0), mean(0, 1));
    for measure in json["measures"].as_array().unwrap() {
        let mean = &measure["rows"][0];
        assert!(mean["error_percent"].as_f64().unwrap().abs() < 3.0, "{measure}");
    }
    // The bar that calibrations are held to, and one that none of them reaches.
    place.forebay(&[&compare[..], &["--skip", "150", "--within", "3"]].concat()).with(0);
    let beyond = place.forebay(&[&compare[..], &["--within", "0.001"]].concat()).with(1);
    assert!(beyond.err.contains("beyond 0.001 %"), "{}", beyond.err);
}

#[test]
fn comparisons_say_what_they_lack() {
    let place = Workplace::new();
    place.write(
        "log.csv",
        "arrival_s,tokens_in,tokens_out,first_token_s,last_token_s\n0,1,2,1,2\n1,1,2,1.5,2\n",
    );
    assert!(place.forebay(&["run", "small.toml", "--requests"]).with(2).err.contains("--out DIR"));
    place.forebay(&["run", "small.toml", "-q", "--out", "run"]).with(0);
    let lacking = place.forebay(&["calibrate", "compare", "run", "log.csv"]).with(2);
    assert!(lacking.err.contains("there is no requests.parquet in it; `forebay run"), "{}", lacking.err);
    place.forebay(&["run", "small.toml", "-q", "--out", "run", "--force", "--requests"]).with(0);
    let compared = place.forebay(&["calibrate", "compare", "run", "log.csv"]).with(0);
    assert!(compared.out.contains("note: the crowds differ in requests by"), "{}", compared.out);
    let few = place.forebay(&["calibrate", "compare", "run", "log.csv", "--skip", "2"]).with(2);
    assert!(few.err.contains("log.csv: 2 requests were served"), "{}", few.err);
    let series = ["calibrate", "compare", "run", "log.csv", "--series", "log.csv"];
    assert!(place.forebay(&series).with(2).err.contains("engine metrics are wanted"));
}
