//! Fits engines to request logs alone and says how long it takes: the two measured runs, and a made-up log of a
//! million requests to four replicas:
//! `cargo run --release -p forebay-datasets --example fit_engines`.

use std::error::Error;
use std::time::Instant;

use forebay_datasets::fit::joint::{Fleet, Segment, Spread, replay_fleet};
use forebay_datasets::fit::{EngineFlags, ObservedRequest, fit_engine, read_vllm_log};
use forebay_model::llm::batching::{BatchingConfig, IterationCost, QueueOrder};

const RTX4090: &str = include_str!("../measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl");
const RTXPRO6000: &str = include_str!("../measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl");
const MILLION: u32 = 1_000_000;

/// A log of so many requests, as four engines would have answered them one after the other.
fn made_up(requests: u32) -> Result<Vec<ObservedRequest>, Box<dyn Error>> {
    let cost = IterationCost {
        c0_s: 0.019,
        per_prefill_token_s: 8e-5,
        per_prefill_context_s: 3e-9,
        per_decode_sequence_s: 5e-5,
        per_resident_token_s: 1e-7,
        ..IterationCost::default()
    };
    let engine = BatchingConfig {
        cost,
        max_seqs: 64,
        max_batched_tokens: 2048,
        kv_blocks: 50_000,
        block_tokens: 16,
        prefix_hit_share: 0.0,
        queue: QueueOrder::Arrival,
        async_scheduling: true,
        reserve_full_prompt: true,
        resume_from_cache: true,
    };
    let fleet = Fleet { engine, replicas: 4, spread: Spread::RoundRobin };
    // Lengths and gaps without pattern, from the bits of a product.
    let bits =
        |i: u32, salt: u32| (i ^ salt).wrapping_mul(2_654_435_761).rotate_left(13).wrapping_mul(40_503) >> 8;
    let mut now_s = 0.0;
    let mut log: Vec<ObservedRequest> = (0..requests)
        .map(|i| {
            now_s += f64::from(bits(i, 77) % 1000) * 2.4e-4;
            ObservedRequest {
                tokens_in: 100 + bits(i, 1) % 1600,
                tokens_out: 20 + bits(i, 2) % 500,
                arrival_s: now_s,
                first_token_s: 0.0,
                last_token_s: 0.0,
            }
        })
        .collect();
    let (replayed, _) = replay_fleet(&Segment::whole(&log, 0..log.len()), &fleet, 0.0)?;
    for (request, replayed) in log.iter_mut().zip(&replayed) {
        *request = replayed.in_place_of(request);
    }
    Ok(log)
}

#[expect(clippy::disallowed_methods, reason = "an example that measures time")]
fn fit(name: &str, log: &[ObservedRequest], flags: &EngineFlags) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let fit = fit_engine(log, flags)?;
    let took_s = begin.elapsed().as_secs_f64();
    let engine = &fit.fleet.engine;
    let (replicas, spread) = (fit.fleet.replicas, fit.fleet.spread);
    println!("{name}: {} requests, {took_s:.1} s; {replicas} engines {spread:?}", log.len());
    println!("  {:?} KV blocks {}, {:?}", fit.kv, engine.kv_blocks, engine.cost);
    println!("  held-out errors, %: {:?}", fit.held_out.rounded());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    fit("RTX 4090", &read_vllm_log(RTX4090)?, &EngineFlags::new(256, 2048))?;
    fit("RTX PRO 6000", &read_vllm_log(RTXPRO6000)?, &EngineFlags::new(128, 2048))?;
    fit("made up", &made_up(MILLION)?, &EngineFlags::new(64, 2048))
}
