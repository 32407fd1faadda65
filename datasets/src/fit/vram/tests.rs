//! GPU memory fitted to recordings whose truth is known.

use super::super::coverage::{about_95_in_100, noise};
use super::*;
use forebay_engine::Stream;
use forebay_model::document::Source;
use forebay_model::scenario::{Inputs, Loaded};
use forebay_model::simulate_with_spans;

const GB: f64 = 1e9;
const DEVICE_GB: f64 = 40.0;

/// A device that a decoder and a reranker share.
fn scenario(allocator: &str) -> String {
    format!(
        "name = \"shared-device\"\n[run]\nduration_s = 300\nreplications = 1\ntimeline_points = 3000\n\
         [workload.sources.all]\nkind = \"poisson\"\nrate_per_s = 1.5\n\
         [workload.classes.question]\ntokens_in = {{ kind = \"uniform\", min = 200, max = 4000 }}\n\
         tokens_out = {{ kind = \"lognormal\", median = 300, p95 = 900 }}\n\
         [endpoints.chat]\nl1 = [\"rerank\", \"llm\"]\ndocuments = 20\ndocuments_kept = 5\n\
         [stages.rerank]\nkind = \"reranker\"\ngpus = 1\nmax_docs = 20\nbase_s = 0.1\nper_document_s = 0.01\n\
         device = \"gpu\"\nweights_gb = 1.2\nworkspace_per_document_gb = 0.05\n\
         [stages.llm]\nkind = \"llm_slots\"\nreplicas = 1\nslots = 12\nfirst_token_s = 0.2\nper_token_s = 0.01\n\
         [stages.llm.memory]\ndevice = \"gpu\"\nweights_gb = 16\nper_call_gb = 0.1\nper_token_mb = 0.3\n\
         [devices.gpu]\ncount = 1\nmemory_gb = {DEVICE_GB}\nallocator = \"{allocator}\"\n"
    )
}

/// What the model's own device shows, as a recorder would see it: late and with noise. With it the log.
fn recorded(allocator: &str, more: &str, delay_s: f64, noise_gb: f64) -> (Vec<(f64, f64)>, Vec<Work>) {
    let text = scenario(allocator) + more;
    let loaded = Loaded::read(&Source::new("shared-device", &text), &[], |_| Ok(Inputs::default()));
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:?}"));
    let (replication, requests) = simulate_with_spans(&loaded, 5, 0, 100_000).unwrap();
    assert!(replication.violations.is_empty());
    let mut stream = Stream::new(31, 0, allocator, 0);
    let shown = |vram: f64, noise: f64| (vram * DEVICE_GB + noise_gb * noise) * GB;
    let samples = replication
        .timeline
        .iter()
        .map(|point| (point.t_s + delay_s, shown(point.vram.unwrap(), noise(&mut stream))))
        .collect();
    let mut works = Vec::new();
    for request in &requests {
        for span in request.attempts.iter().flat_map(|attempt| &attempt.spans) {
            if span.kind != forebay_model::spans::PlaceKind::Serving {
                continue;
            }
            let span_s = |ns: u64| ns as f64 * 1e-9;
            let (from_s, to_s) = (span_s(span.from_ns), span_s(span.to_ns));
            let [tokens_in, tokens_out] = [request.tokens_in, request.tokens_out].map(f64::from);
            works.push(match span.place.as_str() {
                "rerank" => Work { from_s, to_s, documents: 20.0, ..Work::default() },
                _ => Work {
                    from_s,
                    to_s,
                    tokens_from: tokens_in,
                    tokens_to: tokens_in + tokens_out,
                    documents: 0.0,
                    calls: 1.0,
                },
            });
        }
    }
    assert!(works.len() > 500);
    (samples, works)
}

fn near(estimate: Estimate, truth: f64, share: f64) {
    assert!((estimate.value / truth - 1.0).abs() < share, "{estimate:?}, {truth} in truth");
}

#[test]
fn an_exact_device_is_read_back() {
    let (samples, works) = recorded("exact", "", 0.0, 0.0);
    let fit = fit_vram(&samples, &works).unwrap();
    assert_eq!((fit.allocator, fit.released), (Allocator::Exact, 0), "{:?}", fit.criteria);
    near(fit.base, 17.2 * GB, 0.001);
    near(fit.per_token, 0.3e6, 0.01);
    near(fit.per_document, 0.05 * GB, 0.02);
    near(fit.per_call, 0.1 * GB, 0.05);
    assert!(fit.errors[1] < 0.1, "{fit:?}");
}

#[test]
fn an_exact_device_is_read_back_through_delay_and_noise() {
    let (samples, works) = recorded("exact", "", 0.4, 0.05);
    let fit = fit_vram(&samples, &works).unwrap();
    assert_eq!(fit.allocator, Allocator::Exact, "{:?}", fit.criteria);
    assert!((fit.delay_s - 0.4).abs() < 0.06, "{}", fit.delay_s);
    near(fit.base, 17.2 * GB, 0.003);
    near(fit.per_token, 0.3e6, 0.03);
    near(fit.per_document, 0.05 * GB, 0.05);
    assert!(fit.errors[1] < 0.4, "{fit:?}");
}

#[test]
fn a_caching_device_is_known_by_its_plateaus() {
    let (samples, works) = recorded("caching", "", 0.2, 0.02);
    let fit = fit_vram(&samples, &works).unwrap();
    assert_eq!((fit.allocator, fit.released), (Allocator::Caching, 0), "{:?}", fit.criteria);
    assert!(fit.errors[1] < 1.0, "{fit:?}");
}

#[test]
fn a_caching_device_that_gives_back_is_known_too() {
    let more = "empty_cache_every_s = 20\n";
    let (samples, works) = recorded("caching", more, 0.2, 0.02);
    let fit = fit_vram(&samples, &works).unwrap();
    assert_eq!(fit.allocator, Allocator::Caching, "{:?}", fit.criteria);
    assert!((8..=15).contains(&fit.released), "{}", fit.released);
    near(fit.base, 17.2 * GB, 0.03);
    near(fit.per_token, 0.3e6, 0.15);
    assert!(fit.errors[1] < 2.0, "{fit:?}");
}

#[test]
fn a_preallocated_device_shows_one_level() {
    // The model counts what runs; an engine that took 36 GB at its start shows those.
    let (mut samples, works) = recorded("exact", "", 0.0, 0.0);
    let mut stream = Stream::new(32, 0, "flat", 0);
    for sample in &mut samples {
        sample.1 = (36.0 + 0.01 * noise(&mut stream)) * GB;
    }
    let fit = fit_vram(&samples, &works).unwrap();
    assert_eq!(fit.allocator, Allocator::Preallocated, "{:?}", fit.criteria);
    near(fit.base, 36.0 * GB, 0.001);
    assert_eq!((fit.per_token.value, fit.of_movement), (0.0, None));
}

#[test]
fn too_little_is_refused() {
    let work = Work { from_s: 0.0, to_s: 1.0, tokens_from: 1.0, tokens_to: 2.0, documents: 0.0, calls: 1.0 };
    assert_eq!(fit_vram(&[(0.0, 1.0)], &[work]), Err(VramError::TooFew { found: 1 }));
    let samples: Vec<(f64, f64)> = (0..100).map(|i| (f64::from(i), GB)).collect();
    assert_eq!(fit_vram(&samples, &[]), Err(VramError::NoWork));
}

/// A coefficient.
type Of = fn(&VramFit) -> Estimate;

/// A made-up device and log; the truth is known without a simulation.
fn made_up(trial: u64) -> (Vec<(f64, f64)>, Vec<Work>) {
    let mut stream = Stream::new(33, trial, "vram", 0);
    let mut works = Vec::new();
    let mut at_s = 0.0;
    while at_s < 60.0 {
        at_s -= libm::log(stream.uniform());
        let tokens = 500.0 + 3000.0 * stream.uniform();
        let to_s = at_s + 1.0 + 5.0 * stream.uniform();
        let documents = if stream.uniform() < 0.5 { 10.0 } else { 0.0 };
        works.push(Work {
            from_s: at_s,
            to_s,
            tokens_from: tokens,
            tokens_to: tokens + 300.0,
            documents,
            calls: 0.0,
        });
    }
    let times: Vec<f64> = (0..240).map(|i| 0.25 * f64::from(i)).collect();
    let loads = Load::new(&works).at(times.iter().copied());
    let samples = times
        .iter()
        .zip(loads)
        .map(|(&t_s, [tokens, documents, _])| {
            (t_s, 16.0 * GB + 4e5 * tokens + 0.02 * GB * documents + 0.1 * GB * noise(&mut stream))
        })
        .collect();
    (samples, works)
}

#[test]
fn intervals_hold_the_truth_95_times_in_100() {
    let fits: Vec<VramFit> = (0..100)
        .map(|trial| {
            let (samples, works) = made_up(trial);
            fit_vram(&samples, &works).unwrap()
        })
        .collect();
    assert!(fits.iter().all(|fit| fit.allocator == Allocator::Exact));
    let truths: [(Of, f64); 3] =
        [(|fit| fit.base, 16.0 * GB), (|fit| fit.per_token, 4e5), (|fit| fit.per_document, 0.02 * GB)];
    for (of, truth) in truths {
        about_95_in_100(fits.len() as u64, |trial| of(&fits[trial as usize]).holds(truth));
    }
}
