//! Fits of logs whose truth is known, and of the measured runs.

use forebay_model::llm::batching::IterationCost;

use super::super::read_vllm_log;
use super::*;

/// Numbers without pattern (`SplitMix64`), and those that arrivals, lengths and noise need of them.
struct Chance(u64);

impl Chance {
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.share())
    }

    /// Lognormal, with this mean.
    fn length(&mut self, mean: f64) -> u32 {
        let normal = libm::sqrt(2.0 * self.exponential()) * libm::cos(std::f64::consts::TAU * self.share());
        (mean * libm::exp(0.75 * normal - 0.28)).clamp(4.0, 8000.0) as u32
    }
}

/// A made-up server and its load.
#[derive(Clone)]
struct Made {
    fleet: Fleet,
    requests: usize,
    rate_per_s: f64,
    tokens: [f64; 2],
    /// Mean of what the network adds to each time, s; it is distributed exponentially.
    noise_s: f64,
}

impl Made {
    fn new(requests: usize, rate_per_s: f64) -> Self {
        let cost = IterationCost {
            c0_s: 0.019,
            per_prefill_token_s: 8e-5,
            per_prefill_context_s: 3e-9,
            per_decode_sequence_s: 5e-5,
            per_resident_token_s: 1e-7,
            ..IterationCost::default()
        };
        let engine = EngineFlags::new(64, 2048).engine(cost, 50_000);
        Self { fleet: Fleet::single(engine), requests, rate_per_s, tokens: [900.0, 300.0], noise_s: 0.002 }
    }

    fn log(&self, seed: u64) -> Vec<ObservedRequest> {
        let mut chance = Chance(seed);
        let mut now_s = 0.0;
        let mut log: Vec<ObservedRequest> = (0..self.requests)
            .map(|_| {
                now_s += chance.exponential() / self.rate_per_s;
                let [tokens_in, tokens_out] = self.tokens.map(|mean| chance.length(mean));
                ObservedRequest {
                    tokens_in,
                    tokens_out,
                    arrival_s: now_s,
                    first_token_s: 0.0,
                    last_token_s: 0.0,
                }
            })
            .collect();
        let (replayed, _) = replay_fleet(&Segment::whole(&log, 0..log.len()), &self.fleet, 0.0).unwrap();
        for (request, replayed) in log.iter_mut().zip(&replayed) {
            request.first_token_s = replayed.first_token_s + self.noise_s * chance.exponential();
            let last_s = replayed.last_token_s + self.noise_s * chance.exponential();
            request.last_token_s = last_s.max(request.first_token_s);
        }
        log
    }

    fn flags(&self) -> EngineFlags {
        EngineFlags {
            kv_blocks: Some(self.fleet.engine.kv_blocks),
            replicas: Some(self.fleet.replicas),
            spread: Some(self.fleet.spread),
            ..EngineFlags::new(self.fleet.engine.max_seqs, 2048)
        }
    }

    fn truth(&self, parameter: Parameter) -> f64 {
        let model = space::Model { fleet: self.fleet.clone(), start_delay_s: 0.0, entry_s: self.noise_s };
        parameter.of(&model)
    }
}

const RTX4090: &str = include_str!("../../../measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl");
const RTXPRO6000: &str = include_str!("../../../measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl");

/// From the log and the two flags of the server alone. The first server's cache is full for most of the run and
/// has 2588 blocks; the other's is never full.
#[test]
fn measured_runs_are_predicted_within_three_percent() {
    for (log, max_seqs, full) in [(RTX4090, 256, true), (RTXPRO6000, 128, false)] {
        let log = read_vllm_log(log).unwrap();
        let flags = EngineFlags { replicas: Some(1), ..EngineFlags::new(max_seqs, 2048) };
        let fit = fit_engine(&log, &flags).unwrap();
        assert_eq!((fit.fitted_on[0].requests, fit.judged_on[0].requests), (150, 150));
        assert!(fit.held_out.worst() < 3.0, "{:?}", fit.held_out);
        if full {
            assert_eq!(fit.kv, KvCapacity::Inferred);
            assert!((2510..2666).contains(&fit.fleet.engine.kv_blocks), "{}", fit.fleet.engine.kv_blocks);
        } else {
            assert_eq!(fit.kv, KvCapacity::AtLeast);
            assert!(fit.fleet.engine.kv_blocks > 10_000);
        }
    }
}

/// Of 100 logs from one server, each true coefficient lies inside its interval of 95 % about 95 times: fewer
/// than 88 of 100 have a chance of 1 in 600.
#[test]
fn truth_lies_inside_the_intervals_as_often_as_they_say() {
    let made = Made { tokens: [700.0, 120.0], ..Made::new(80, 4.0) };
    let mut inside = std::collections::BTreeMap::new();
    for seed in 0..100 {
        let fit = fit_engine(&made.log(seed), &made.flags()).unwrap();
        for of in &fit.coefficients {
            let truth = made.truth(of.parameter);
            let counted = inside.entry(of.parameter.field()).or_insert((0, 0));
            counted.0 += u32::from((of.interval[0]..=of.interval[1]).contains(&truth));
            counted.1 += 1;
        }
    }
    println!("inside their intervals, of all: {inside:?}");
    for part in Parameter::COST {
        let (within, of) = inside[part.field()];
        assert!(of == 100 && within >= 88, "{inside:?}");
    }
}

#[test]
fn a_cache_that_binds_is_found_to_the_block() {
    let mut made = Made::new(240, 4.0);
    made.fleet.engine.kv_blocks = 2000;
    let fit = fit_engine(&made.log(1), &EngineFlags { kv_blocks: None, ..made.flags() }).unwrap();
    assert_eq!(fit.kv, KvCapacity::Inferred);
    assert!((1960..=2040).contains(&fit.fleet.engine.kv_blocks), "{}", fit.fleet.engine.kv_blocks);
    assert!(fit.held_out.worst() < 3.0, "{:?}", fit.held_out);
}

#[test]
fn replicas_and_their_routing_are_found() {
    let mut made = Made::new(200, 6.0);
    (made.fleet.replicas, made.fleet.spread) = (2, Spread::RoundRobin);
    let flags = EngineFlags { replicas: None, spread: None, ..made.flags() };
    let fit = fit_engine(&made.log(2), &flags).unwrap();
    assert_eq!((fit.fleet.replicas, fit.fleet.spread), (2, Spread::RoundRobin));
    assert!(fit.held_out.latency_mean.abs() < 1.0, "{:?}", fit.held_out);
}

#[test]
fn long_logs_are_fitted_on_windows_and_judged_on_others() {
    let made = Made { tokens: [500.0, 100.0], ..Made::new(4000, 6.0) };
    let fit = fit_engine(&made.log(3), &made.flags()).unwrap();
    let (fitted, judged) = (&fit.fitted_on, &fit.judged_on);
    assert!(fitted.len() >= 2 && judged.len() >= 4, "{fit:?}");
    assert!(fitted.iter().all(|window| window.first + window.requests <= 2000 && window.warm_up > 0));
    assert!(judged.iter().all(|window| window.first >= 2000));
    assert!(fit.held_out.worst() < 3.0, "{:?}", fit.held_out);
}

#[test]
fn threads_change_nothing() {
    let made = Made { tokens: [500.0, 60.0], ..Made::new(60, 6.0) };
    let log = made.log(4);
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit_engine(&log, &EngineFlags { kv_blocks: None, ..made.flags() }).unwrap())
    };
    assert_eq!(with(1), with(3));
}

#[test]
fn what_cannot_be_fitted_is_refused() {
    let made = Made::new(60, 4.0);
    let log = made.log(5);
    assert!(matches!(fit_engine(&log[..30], &made.flags()), Err(JointError::Log(_))));
    let none = EngineFlags { replicas: Some(0), ..made.flags() };
    assert!(matches!(fit_engine(&log, &none), Err(JointError::Replicas(0))));
    let narrow = EngineFlags { max_batched_tokens: 8, ..made.flags() };
    assert!(matches!(fit_engine(&log, &narrow), Err(JointError::Flags(_))));
    let small = EngineFlags { kv_blocks: Some(3), ..made.flags() };
    let error = fit_engine(&log, &small).unwrap_err();
    assert!(error.to_string().contains("longest request"), "{error}");
}

#[test]
fn a_fit_reads_back_from_its_file() {
    use super::super::{BatchingCalibration, Calibration, Source};
    let made = Made { tokens: [500.0, 60.0], ..Made::new(60, 6.0) };
    let log = made.log(6);
    let fit = fit_engine(&log, &made.flags()).unwrap();
    let source = Source { data: "made up".into(), license: "none".into(), fitted: "2026-11-30".into() };
    let written = Calibration::Batching(Box::new(BatchingCalibration::of_log(source, &fit)));
    let text = toml::to_string(&written).unwrap();
    assert_eq!(Calibration::parse(&text).unwrap(), written);
    let Calibration::Batching(read) = written else { panic!("it is of a batching engine") };
    assert_eq!(read.measured_fleet(), fit.fleet);
}
