//! Two measured vLLM runs, replayed through the whole simulator: trace, gateway, engine, metrics.
//!
//! The calibrations were fitted on the first half of each run; how they do on the second half, by the
//! engine alone, is a test beside the fit. Here the whole run goes through a scenario, as a user would
//! replay a log of their own. Table: `cargo test -p forebay-tests engine_runs -- --nocapture`.

use forebay_datasets::fit::{ObservedRequest, read_vllm_log};
use forebay_model::simulate;
use forebay_workbench::open;
use std::fmt::Write as _;
use std::path::Path;

struct MeasuredRun {
    folder: &'static str,
    calibration: &'static str,
    log: &'static str,
}

const RUNS: [MeasuredRun; 2] = [
    MeasuredRun {
        folder: "RTX4090-Llama-3.1-8B",
        calibration: "vllm-rtx4090-llama-3.1-8b",
        log: include_str!("../datasets/measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl"),
    },
    MeasuredRun {
        folder: "RTXPRO6000-Llama-3.1-8B",
        calibration: "vllm-rtxpro6000-llama-3.1-8b",
        log: include_str!("../datasets/measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl"),
    },
];

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / n
}

/// The value that 99 % do not exceed, by nearest rank, as the simulator's histogram counts it.
fn p99(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[(sorted.len() * 99).div_ceil(100) - 1]
}

#[test]
fn both_measured_runs_are_met_within_three_percent() {
    let mut table =
        String::from("run                        metric             measured  simulated   error\n");
    let mut worst = 0.0_f64;
    for run in &RUNS {
        let log = read_vllm_log(run.log).expect("a log that can be read");
        let measured = [
            ("ttft_mean_s", mean(log.iter().map(ObservedRequest::ttft_s))),
            ("latency_mean_s", mean(log.iter().map(ObservedRequest::latency_s))),
            ("latency_p99_s", p99(log.iter().map(ObservedRequest::latency_s))),
            ("tpot_mean_s", mean(log.iter().map(ObservedRequest::tpot_s))),
        ];
        let folder =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../datasets/measured/vllm-runs").join(run.folder);
        let scenario = format!(
            "name = \"measured-run\"\n[run]\nduration_s = 3600\nreplications = 1\n\
             [workload.sources.log]\nkind = \"trace\"\ntrace = {:?}\n[workload.classes.question]\n\
             [endpoints.chat]\nl1 = [\"llm\"]\n\
             [stages.llm]\nkind = \"llm_batching\"\nreplicas = 1\ncalibration = {:?}\n",
            folder.join("requests.jsonl"),
            run.calibration,
        );
        let opened = forebay_workbench::inputs::open_text("measured-run", &scenario, &[])
            .unwrap_or_else(|error| panic!("{}: {error}", run.folder));
        let simulated = simulate(&opened.loaded, 1, 0).expect("it runs");
        assert_eq!(simulated.ledger.answered.l1, log.len() as u64, "{}", run.folder);
        for (metric, expected) in measured {
            let found = simulated.metrics[metric].value.expect("every request was answered");
            let error = 100.0 * (found / expected - 1.0);
            worst = worst.max(error.abs());
            let _ = writeln!(
                table,
                "{:<26} {metric:<18} {expected:>9.4}  {found:>9.4}  {error:>+5.2} %",
                run.folder
            );
        }
    }
    println!("{table}");
    assert!(worst <= 3.0, "an error above 3 %:\n{table}");
}

#[test]
fn the_azure_trace_is_answered_and_adds_up() {
    let loaded = open("azure-conversations", &[]).expect("it opens").loaded;
    let run = simulate(&loaded, loaded.scenario.run.seed, 0).expect("it runs");
    assert_eq!(run.ledger.offered, 19_366);
    assert_eq!(run.ledger.accounted(), run.ledger.offered);
    assert_eq!(run.ledger.answered.l1, 19_366);
}
