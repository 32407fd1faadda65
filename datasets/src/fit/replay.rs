//! Logged requests through the `batching` engine, and by how much the engine is off.

use forebay_model::llm::batching::{BatchingConfig, BatchingEngine, BatchingError, Job, Progress};

use serde::{Deserialize, Serialize};

use super::observed::{ObservedRequest, per_token};

/// What the engine made of a request. Times as in [`ObservedRequest`]; NaN if it refused the request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replayed {
    /// When its first token came out, s.
    pub first_token_s: f64,
    /// When its last token came out, s.
    pub last_token_s: f64,
}

impl Replayed {
    /// The observed request with its times replaced by these.
    pub fn in_place_of(&self, observed: &ObservedRequest) -> ObservedRequest {
        ObservedRequest { first_token_s: self.first_token_s, last_token_s: self.last_token_s, ..*observed }
    }

    /// The same, all times later.
    #[must_use]
    pub fn later_by(&self, s: f64) -> Self {
        Self { first_token_s: self.first_token_s + s, last_token_s: self.last_token_s + s }
    }
}

/// Runs the requests through one engine, at their arrivals. For `start_delay_s` after the first arrival
/// the engine takes nothing in: a server that has just started compiles and tunes kernels on its first
/// iterations, which belongs to the run and not to the engine's cost.
///
/// # Errors
/// A configuration outside its ranges.
pub fn replay(
    requests: &[ObservedRequest],
    config: &BatchingConfig,
    start_delay_s: f64,
) -> Result<Vec<Replayed>, BatchingError> {
    let mut engine = BatchingEngine::new(config.clone())?;
    let mut replayed = vec![Replayed { first_token_s: f64::NAN, last_token_s: f64::NAN }; requests.len()];
    let mut out = Vec::new();
    let opening_s = requests.first().map_or(0.0, |first| first.arrival_s) + start_delay_s;
    for (id, request) in (0_u64..).zip(requests) {
        let now = (request.arrival_s.max(opening_s) * 1e9).round() as u64;
        while let Some(at) = engine.next_event().filter(|&at| at < now) {
            engine.advance(at, &mut out);
            note(&mut out, &mut replayed);
        }
        let (tokens_in, tokens_out) = (request.tokens_in, request.tokens_out);
        engine.submit(now, Job { id, tokens_in, tokens_out, priority: 0 });
    }
    while let Some(at) = engine.next_event() {
        engine.advance(at, &mut out);
        note(&mut out, &mut replayed);
    }
    Ok(replayed)
}

fn note(out: &mut Vec<Progress>, replayed: &mut [Replayed]) {
    for progress in out.drain(..) {
        match progress {
            Progress::FirstToken { id, at } => replayed[id as usize].first_token_s = at as f64 * 1e-9,
            Progress::Finished { id, at } => replayed[id as usize].last_token_s = at as f64 * 1e-9,
            Progress::Started { .. } | Progress::Preempted { .. } | Progress::Refused { .. } => {}
        }
    }
}

/// Errors of the simulated against the observed latencies, percent of the observed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyErrors {
    /// Mean time to first token.
    pub ttft_mean: f64,
    /// Mean latency, arrival to last token.
    pub latency_mean: f64,
    /// 99th percentile of the latency, linear between order statistics.
    pub latency_p99: f64,
    /// Mean over requests of the mean time per token after the first.
    pub tpot_mean: f64,
}

impl LatencyErrors {
    /// Compares the same requests, observed and replayed.
    pub fn new(observed: &[ObservedRequest], replayed: &[Replayed]) -> Self {
        let simulated: Vec<_> = observed.iter().zip(replayed).map(|(o, r)| r.in_place_of(o)).collect();
        let error = |statistic: fn(&[ObservedRequest]) -> f64| {
            100.0 * (statistic(&simulated) / statistic(observed) - 1.0)
        };
        Self {
            ttft_mean: error(|requests| mean(requests, ObservedRequest::ttft_s)),
            latency_mean: error(|requests| mean(requests, ObservedRequest::latency_s)),
            latency_p99: error(latency_p99),
            tpot_mean: error(|requests| mean(requests, ObservedRequest::tpot_s)),
        }
    }

    /// The four in the order of their declaration, percent.
    pub fn all(&self) -> [f64; 4] {
        [self.ttft_mean, self.latency_mean, self.latency_p99, self.tpot_mean]
    }

    /// The four to two decimals, as files and tables state them.
    #[must_use]
    pub fn rounded(&self) -> Self {
        let round = |percent: f64| (percent * 100.0).round() / 100.0;
        Self {
            ttft_mean: round(self.ttft_mean),
            latency_mean: round(self.latency_mean),
            latency_p99: round(self.latency_p99),
            tpot_mean: round(self.tpot_mean),
        }
    }

    /// The largest of the four in size, percent.
    pub fn worst(&self) -> f64 {
        self.all().into_iter().map(f64::abs).fold(0.0, f64::max)
    }
}

fn mean(requests: &[ObservedRequest], of: fn(&ObservedRequest) -> f64) -> f64 {
    requests.iter().map(of).sum::<f64>() / requests.len() as f64
}

fn latency_p99(requests: &[ObservedRequest]) -> f64 {
    let mut latencies: Vec<f64> = requests.iter().map(ObservedRequest::latency_s).collect();
    latencies.sort_by(f64::total_cmp);
    let Some(last) = latencies.len().checked_sub(1) else { return f64::NAN };
    let rank = 0.99 * last as f64;
    let (low, share) = (rank.floor() as usize, rank - rank.floor());
    latencies[low] + share * (latencies[(low + 1).min(last)] - latencies[low])
}

/// Deviations of one request: first token, last token and time per token, s.
pub(super) fn deviations(observed: &ObservedRequest, replayed: &Replayed) -> [f64; 3] {
    let stretch = replayed.last_token_s - replayed.first_token_s;
    [
        replayed.first_token_s - observed.first_token_s,
        replayed.last_token_s - observed.last_token_s,
        per_token(stretch, observed.tokens_out) - observed.tpot_s(),
    ]
}
