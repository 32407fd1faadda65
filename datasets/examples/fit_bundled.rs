//! Fits the bundled calibrations again from the bundled measurements and prints them, with the table of
//! errors: `cargo run --release -p forebay-datasets --example fit_bundled`. Takes half a minute.

use std::error::Error;

use forebay_datasets::fit::{
    BatchingCalibration, Calibration, LatencyErrors, SlotsCalibration, Source, TokenTime, fit_batching,
    fit_slots, read_batch_rows, read_vllm_log, replay,
};
use forebay_model::llm::batching::{BatchingConfig, IterationCost, QueueOrder};

const RTX4090: &str = include_str!("../measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl");
const RTXPRO6000: &str = include_str!("../measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl");
const ML_ENERGY: &str = include_str!("../measured/ml-energy/llm_configs.csv");

/// Settings of a measured server, with the coefficients that its source's layer profile suggests: where
/// the fit starts. [constant, per prefill token, per decoding sequence, per resident token, per context],
/// and a share of prefix hits to start from, 0 for none.
fn server(kv_blocks: u32, max_seqs: u32, start: [f64; 5], prefix_hit_share: f64) -> BatchingConfig {
    let [c0_s, prefill, sequence, resident, context] = start;
    let cost = IterationCost {
        c0_s,
        per_prefill_token_s: prefill,
        per_prefill_context_s: context,
        per_decode_sequence_s: sequence,
        per_resident_token_s: resident,
        ..IterationCost::default()
    };
    BatchingConfig {
        cost,
        max_seqs,
        max_batched_tokens: 2048,
        kv_blocks,
        block_tokens: 16,
        prefix_hit_share,
        queue: QueueOrder::Arrival,
        async_scheduling: true,
        reserve_full_prompt: true,
        resume_from_cache: true,
    }
}

fn row(name: &str, errors: &LatencyErrors) {
    let [ttft, mean, p99, tpot] = errors.all();
    println!("# {name:<28} {ttft:>+9.2} {mean:>+9.2} {p99:>+9.2} {tpot:>+9.2}");
}

fn batching(name: &str, log: &str, server: &BatchingConfig, running_max: u32) -> Result<(), Box<dyn Error>> {
    let log = read_vllm_log(log)?;
    let half = log.len() / 2;
    let fit = fit_batching(&log, server, half)?;
    let source = Source {
        data: "casys-kaist/LLMServingSim (2026-08): measured vLLM 0.19 run, Llama-3.1-8B, bf16".to_owned(),
        license: "MIT".to_owned(),
        fitted: "2026-11-30".to_owned(),
    };
    let calibration = BatchingCalibration::new(source, &fit, server, &log, running_max);
    println!("\n# {name}: errors, % {:>15} {:>9} {:>9} {:>9}", "TTFT", "mean", "p99", "TPOT");
    row("fitted half", &fit.fitted);
    row("held-out half", &fit.held_out);
    let whole = replay(&log, &calibration.measured_engine(), fit.start_delay_s)?;
    row("whole run", &LatencyErrors::new(&log, &whole));
    let engine_alone = replay(&log, &calibration.engine, 0.0)?;
    row("held-out half, engine alone", &LatencyErrors::new(&log[half..], &engine_alone[half..]));
    row("whole run, engine alone", &LatencyErrors::new(&log, &engine_alone));
    print!("{}", toml::to_string(&Calibration::Batching(Box::new(calibration)))?);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let rtx4090 = server(2588, 256, [1.7e-2, 8.8e-5, 6.2e-5, 1.38e-7, 3e-9], 0.012);
    batching("vllm-rtx4090-llama-3.1-8b", RTX4090, &rtx4090, 49)?;
    let rtxpro6000 = server(35_800, 128, [1.12e-2, 3.6e-5, 3e-5, 9.1e-8, 2.2e-9], 0.0);
    batching("vllm-rtxpro6000-llama-3.1-8b", RTXPRO6000, &rtxpro6000, 128)?;
    let fits = fit_slots(&read_batch_rows(ML_ENERGY)?, TokenTime::Mean);
    for gpu in ["H100", "B200"] {
        let mut errors: Vec<f64> =
            fits.iter().filter(|fit| fit.of.gpu == gpu).map(|fit| fit.held_out).collect();
        errors.sort_by(f64::total_cmp);
        let middle = errors.get(errors.len() / 2).copied().unwrap_or(f64::NAN);
        println!("\n# ml-energy, {gpu}: {} lines, held-out error {middle:.1} % in the median", errors.len());
    }
    for fit in
        fits.iter().filter(|fit| fit.of.gpu == "H100" && fit.of.model.ends_with("Llama-3.1-8B-Instruct"))
    {
        let source = Source {
            data: "ML.ENERGY Benchmark v3: measured vLLM configurations".to_owned(),
            license: "Apache-2.0".to_owned(),
            fitted: "2026-11-30".to_owned(),
        };
        print!("{}", toml::to_string(&Calibration::Slots(Box::new(SlotsCalibration::new(source, fit))))?);
    }
    Ok(())
}
