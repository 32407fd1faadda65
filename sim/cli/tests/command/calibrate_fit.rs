//! `forebay calibrate fit`: from a table or a recording to a calibration file.

use crate::workplace::Workplace;
use forebay_datasets::recording::{Sample, create, table};

/// Lines, each ended.
fn lines(all: impl Iterator<Item = String>) -> String {
    all.fold(String::new(), |text, line| text + &line + "\n")
}

fn measured(path: &str) -> String {
    format!("{}/../../datasets/measured/{path}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_service_time_is_fitted_judged_and_shown() {
    let place = Workplace::new();
    // Quantiles of an exponential law of mean 40 ms, in an order that mixes them.
    let rows =
        lines((0..400).map(|i| (-40.0 * (1.0 - (f64::from(i * 151 % 400) + 0.5) / 400.0).ln()).to_string()));
    place.write("calls.csv", format!("service_ms\n{rows}"));
    let fit = ["calibrate", "fit", "service", "calls.csv", "--column", "service_ms", "--unit", "ms", "--out"];
    let ended = place.forebay(&[&fit[..], &["desk.toml"]].concat()).with(0);
    for expected in ["service_ms: ", "on the 200 rows held out", "Kolmogorov-Smirnov", "95 % interval"] {
        assert!(ended.out.contains(expected), "{expected}: {}", ended.out);
    }
    assert_eq!(ended.err, "written: desk.toml\n");
    let file = place.read("desk.toml");
    for expected in ["kind = \"service\"", "sha256 = ", "license = \"not stated\"", "data = \"calls.csv\""] {
        assert!(file.contains(expected), "{expected}: {file}");
    }
    let again = place.forebay(&[&fit[..], &["desk.toml"]].concat()).with(2);
    assert!(again.err.contains("desk.toml: the file exists already; --force"), "{}", again.err);
    let strict = ["strict.toml", "--within", "0.0001", "--license", "CC0"];
    let ended = place.forebay(&[&fit[..], &strict].concat()).with(1);
    assert!(ended.err.contains("--within allows 0.0001 %"), "{}", ended.err);
    let shown = place.forebay(&["calibrate", "show", "desk.toml"]).with(0);
    assert!(shown.out.contains("a calibration of the kind service"), "{}", shown.out);
}

#[test]
fn lines_of_published_tables_are_fitted() {
    let place = Workplace::new();
    let energy = measured("ml-energy/llm_configs.csv");
    let rows = [
        "--where",
        "model=meta-llama/Llama-3.1-8B-Instruct",
        "--where",
        "gpu=H100",
        "--where",
        "task=lm-arena-chat",
    ];
    let decode = ["--x", "avg_batch_size", "--y", "median_itl_ms", "--unit", "ms", "--within", "5"];
    let start = ["calibrate", "fit", "decode", &energy, "--out", "decode.toml"];
    place.forebay(&[&start[..], &rows, &decode].concat()).with(0);
    let power = ["--x", "avg_batch_size", "--y", "avg_power_w", "--within", "3"];
    let start = ["calibrate", "fit", "power", &energy, "--out", "power.toml"];
    place.forebay(&[&start[..], &rows, &power].concat()).with(0);
    let splitwise = measured("splitwise/perf_model.csv");
    let phases = ["calibrate", "fit", "phases", &splitwise, "--out", "phases.toml"];
    let ended = place.forebay(&phases).with(2);
    assert!(ended.err.contains("choose one line with --where"), "{}", ended.err);
    let line =
        ["--where", "model=llama2-70b", "--where", "hardware=a100-80gb", "--where", "tensor_parallel=2"];
    let ended = place.forebay(&[&phases[..], &line, &["--within", "10"]].concat()).with(0);
    assert!(ended.out.contains("5 rows that take longer than their parts"), "{}", ended.out);
}

#[test]
fn memory_and_rerank_times_are_fitted() {
    let place = Workplace::new();
    let mut writer = create(&place.path("gpu.parquet"), false).unwrap();
    // One batch of 1 to 16 documents in each second, for its first half.
    let documents = |second: u64| 1_u32 << (second % 5);
    let sample = |tick: u64| {
        let running = if tick % 10 < 5 { documents(tick / 10) } else { 0 };
        Sample {
            t_ns: tick * 100_000_000 + 50_000_000,
            memory_used: Some(2e9 + 5e7 * f64::from(running) + (tick % 7) as f64 * 1e4),
            ..Sample::default()
        }
    };
    writer.write(&table(&(0..600).map(sample).collect::<Vec<_>>())).unwrap();
    writer.finish().unwrap();
    let log = lines((0..60).map(|second| format!("{second},{second}.5,{}", documents(second))));
    place.write("log.csv", format!("start_s,end_s,documents\n{log}"));
    let vram = ["calibrate", "fit", "vram", "gpu.parquet", "log.csv", "--out", "vram.toml", "--within", "1"];
    let ended = place.forebay(&vram).with(0);
    assert!(ended.out.contains("allocator exact"), "{}", ended.out);
    assert!(place.read("vram.toml").contains("allocator = \"exact\""));
    let other =
        ["calibrate", "fit", "vram", "gpu.parquet", "log.csv", "--out", "other.toml", "--device", "3"];
    let ended = place.forebay(&other).with(2);
    assert!(ended.err.contains("gpu.parquet: device 3: 0 samples"), "{}", ended.err);

    let batches = lines((0..40_u32).map(|i| {
        let documents = f64::from(documents(u64::from(i)));
        let scatter = 1.0 + 0.01 * (f64::from(i * 7 % 11) - 5.0);
        format!("{documents},{}", (4.0 + 1.5 * documents) * scatter)
    }));
    place.write("batches.csv", format!("documents,batch_ms\n{batches}"));
    let rerank = [
        "calibrate",
        "fit",
        "rerank",
        "batches.csv",
        "--column",
        "batch_ms",
        "--unit",
        "ms",
        "--out",
        "rerank.toml",
    ];
    let file = place.json(&[&rerank[..], &["--within", "5"]].concat());
    let base_s = file["base_s"]["value"].as_f64().unwrap();
    assert!((base_s - 0.004).abs() < 0.0004, "{base_s}");
}

#[test]
fn what_cannot_be_fitted_is_refused_in_one_line_and_leaves_nothing() {
    let place = Workplace::new();
    place.write("t.csv", "service_s\n1\nx\n");
    place.write("few.csv", "service_s,batch,per_token_s\n1,1,1\n2,2,2\n");
    for (kind, file, expected) in [
        ("service", "t.csv", "t.csv: line 3, column `service_s`: found `x`, allowed: a number"),
        ("service", "few.csv", "few.csv: column `service_s`: 2 values: at least 40 are needed"),
        ("service", "none.csv", "none.csv: "),
        ("decode", "few.csv", "few.csv: at least three points are needed"),
        (
            "rerank",
            "few.csv",
            "few.csv: there is no column `documents`; there are: service_s, batch, per_token_s",
        ),
        ("phases", "few.csv", "few.csv: there is no column `model`"),
    ] {
        let ended = place.forebay(&["calibrate", "fit", kind, file, "--out", "x.toml"]).with(2);
        assert!(ended.err.contains(expected) && ended.err.lines().count() == 1, "{expected}: {}", ended.err);
    }
    assert_eq!(place.names("."), ["few.csv", "small.toml", "t.csv"]);
}
