//! The calibrations of single quantities: curves, phases, laws, lines and memory.

use std::collections::BTreeMap;

use forebay_engine::Dist;
use forebay_model::llm::batching::{BatchingConfig, QueueOrder};
use forebay_model::scenario::Allocator;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::super::batches::CurveFit;
use super::super::curve::Curve;
use super::super::families::{LawErrors, LawFit};
use super::super::phases::PhaseFit;
use super::super::rerank::RerankFit;
use super::super::robust::{Estimate, median, significant};
use super::super::vram::VramFit;
use super::Source;

/// Significant digits of coefficients: more than any fit knows.
const DIGITS: usize = 4;
/// Tokens in a KV block of an engine whose own are not known.
const BLOCK_TOKENS: u32 = 16;

/// What a fit was made of, and what it is worth. Errors are absolute, in percent of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// SHA-256 of the data.
    pub sha256: String,
    /// Rows fitted, and rows held out to judge.
    pub rows: [usize; 2],
    /// Median error on the fitted rows.
    pub fitted_error: f64,
    /// Median error on the held-out rows.
    pub held_out_error: f64,
    /// Largest error on the held-out rows.
    pub held_out_worst: f64,
}

impl Evidence {
    /// From the hash of the data and errors of the two parts.
    fn new(sha256: &str, rows: [usize; 2], fitted: f64, held_out: f64, worst: f64) -> Self {
        let [fitted_error, held_out_error, held_out_worst] = [fitted, held_out, worst].map(hundredths);
        Self { sha256: sha256.to_owned(), rows, fitted_error, held_out_error, held_out_worst }
    }

    fn of_errors(sha256: &str, errors: &[Vec<f64>; 2]) -> Self {
        let worst = errors[1].iter().copied().fold(0.0, f64::max);
        let [fitted, held_out] = [0, 1].map(|part| median(errors[part].clone()));
        Self::new(sha256, [errors[0].len(), errors[1].len()], fitted, held_out, worst)
    }
}

/// SHA-256 of some data, as `sha256sum` prints it.
pub fn sha256(data: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(data).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn hundredths(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

/// A quantity against another: time per token or power against batch size or load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CurveCalibration {
    /// Origin.
    pub source: Source,
    /// What was measured: model, GPU and the like, by name.
    pub of: BTreeMap<String, String>,
    /// Unit of the quantity: `s` or `W`.
    pub unit: String,
    /// What it is drawn against, such as `sequences in the batch`.
    pub against: String,
    /// Smallest and largest measured of that.
    pub range: [f64; 2],
    /// Fit and judgement. The error on fitted rows is that of each left out in turn.
    pub evidence: Evidence,
    /// The curve.
    pub curve: Curve,
}

impl CurveCalibration {
    /// A fit with its origin; `against` says what the quantity is drawn against.
    pub fn new(source: Source, sha256: &str, [unit, against]: [&str; 2], fit: &CurveFit) -> Self {
        let left_out = median(fit.left_out.clone());
        let [held_out, worst] = [fit.held_out_median(), fit.held_out_worst()];
        Self {
            source,
            of: fit.of.clone(),
            unit: unit.to_owned(),
            against: against.to_owned(),
            range: fit.range.map(|end| significant(end, 6)),
            evidence: Evidence::new(sha256, fit.rows, left_out, held_out, worst),
            curve: fit.curve.rounded(5),
        }
    }
}

/// Prefill and decode of one batch at a time; the form is in the fit's module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhasesCalibration {
    /// Origin.
    pub source: Source,
    /// Model.
    pub model: String,
    /// Hardware.
    pub hardware: String,
    /// Ways of tensor parallelism.
    pub parallel: u32,
    /// Time per token of an answer.
    pub decode: Decode,
    /// Time of a batch's prefill.
    pub prefill: Prefill,
    /// What was measured.
    pub range: PhaseRange,
    /// The prefill in the engine's form, judged: the error that a scenario has which names the calibration.
    pub engine_evidence: Evidence,
    /// The `batching` engine: its cost is fitted, its limits are those of the measured range and not the GPU's.
    pub engine: BatchingConfig,
}

/// Time per token: `base_s + per_sequence_s * batch + per_resident_token_s * tokens that the batch holds`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decode {
    /// Fit and judgement, over points of prompt and batch.
    pub evidence: Evidence,
    /// Without sequences, s.
    pub base_s: Estimate,
    /// Per sequence, s.
    pub per_sequence_s: Estimate,
    /// Per token, s.
    pub per_resident_token_s: Estimate,
}

/// Time of a prefill of `T` tokens in all:
/// `max(floor_s, per_token_s * T) + beyond_knee_s * max(0, T - knee_tokens)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefill {
    /// Fit and judgement, over points of prompt and batch.
    pub evidence: Evidence,
    /// The least, s.
    pub floor_s: Estimate,
    /// Per token, s.
    pub per_token_s: Estimate,
    /// Added per token beyond the knee, s.
    pub beyond_knee_s: Estimate,
    /// The knee, tokens.
    pub knee_tokens: f64,
}

/// Smallest and largest of what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRange {
    /// Tokens of a prompt.
    pub prompt: [f64; 2],
    /// Sequences in the batch, at prompts of one length.
    pub batch: [f64; 2],
    /// Tokens of an answer.
    pub tokens_out: [f64; 2],
}

impl PhasesCalibration {
    /// A fit with its origin.
    pub fn new(source: Source, sha256: &str, fit: &PhaseFit) -> Self {
        let forms = &fit.forms;
        let round = |estimate: Estimate| estimate.rounded(DIGITS);
        Self {
            source,
            model: fit.of.model.clone(),
            hardware: fit.of.hardware.clone(),
            parallel: fit.of.parallel,
            decode: Decode {
                evidence: Evidence::of_errors(sha256, &fit.decode),
                base_s: round(forms.decode_base_s),
                per_sequence_s: round(forms.per_sequence_s),
                per_resident_token_s: round(forms.per_resident_token_s),
            },
            prefill: Prefill {
                evidence: Evidence::of_errors(sha256, &fit.prefill),
                floor_s: round(forms.floor_s),
                per_token_s: round(forms.per_prefill_token_s),
                beyond_knee_s: round(forms.beyond_knee_s),
                knee_tokens: forms.knee_tokens,
            },
            range: PhaseRange { prompt: fit.prompt, batch: fit.batch, tokens_out: fit.tokens_out },
            engine_evidence: Evidence::of_errors(sha256, &fit.prefill_of_engine),
            engine: BatchingConfig {
                cost: fit.cost.clone(),
                max_seqs: fit.batch[1] as u32,
                // The largest prefill measured at once.
                max_batched_tokens: fit.most_prefill as u32,
                kv_blocks: (fit.most_tokens / f64::from(BLOCK_TOKENS)).ceil() as u32,
                block_tokens: BLOCK_TOKENS,
                prefix_hit_share: 0.0,
                queue: QueueOrder::Arrival,
                async_scheduling: false,
                reserve_full_prompt: true,
                resume_from_cache: true,
            },
        }
    }
}

/// The law of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Law {
    /// The likeliest family's law, as a scenario writes it.
    pub dist: Dist,
    /// What the fitted half was, as a scenario writes it: straight lines between its quantiles.
    pub quantiles: Dist,
    /// Median of the errors of its mean, median and 95th percentile on the held-out half, percent: the law
    /// to take is the one that is less off.
    pub quantiles_held_out_error: f64,
    /// Unit of the values.
    pub unit: String,
    /// The law's parameters with their errors, by the names that scenarios use.
    pub parameters: BTreeMap<String, Estimate>,
    /// Akaike's criterion less that of the best, by family.
    pub behind: BTreeMap<String, f64>,
    /// Kolmogorov and Smirnov's distance over the values that were checked.
    pub distance: f64,
    /// How likely a distance as large is if the law is right, its parameters being fitted.
    pub p_value: f64,
    /// Values that were checked.
    pub checked: usize,
    /// Smallest and largest value measured.
    pub range: [f64; 2],
    /// Fit and judgement: the median and the largest of the errors of mean, median and 95th percentile.
    pub evidence: Evidence,
}

impl Law {
    /// A fit with the hash of its data.
    pub fn new(sha256: &str, unit: &str, fit: &LawFit) -> Self {
        let errors = |errors: &LawErrors| [errors.mean, errors.p50, errors.p95].map(f64::abs).to_vec();
        let best = fit.candidates.first().map_or(0.0, |candidate| candidate.1);
        let [fitted, held_out] = [&fit.fitted, &fit.held_out].map(errors);
        Self {
            dist: rounded(&fit.dist),
            quantiles: rounded(&fit.quantiles),
            quantiles_held_out_error: hundredths(median(errors(&fit.quantiles_held_out))),
            unit: unit.to_owned(),
            parameters: fit
                .parameters
                .iter()
                .map(|(name, estimate)| ((*name).to_owned(), estimate.rounded(DIGITS)))
                .collect(),
            behind: fit
                .candidates
                .iter()
                .map(|(family, criterion)| (family.name().to_owned(), hundredths(criterion - best)))
                .collect(),
            distance: significant(fit.distance, DIGITS),
            p_value: significant(fit.p_value, 2),
            checked: fit.checked,
            range: fit.range,
            evidence: Evidence::new(
                sha256,
                fit.values,
                median(fitted),
                median(held_out),
                fit.held_out.worst(),
            ),
        }
    }
}

/// A law with its numbers rounded, through the form in which files hold it.
fn rounded(dist: &Dist) -> Dist {
    fn round(value: &mut toml::Value) {
        match value {
            toml::Value::Float(number) => *number = significant(*number, 5),
            toml::Value::Array(values) => values.iter_mut().for_each(round),
            toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| round(value)),
            _ => {}
        }
    }
    let rounded = toml::Value::try_from(dist).ok().and_then(|mut value| {
        round(&mut value);
        value.try_into().ok()
    });
    rounded.unwrap_or_else(|| dist.clone())
}

/// The law of one quantity: a service time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceCalibration {
    /// Origin.
    pub source: Source,
    /// The law.
    pub law: Law,
}

/// The laws of lengths, by what they are the length of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthsCalibration {
    /// Origin.
    pub source: Source,
    /// The laws.
    pub laws: BTreeMap<String, Law>,
}

/// Rerank time: `base_s + per_document_s * documents`, times a factor of mean 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RerankCalibration {
    /// Origin.
    pub source: Source,
    /// Fit and judgement.
    pub evidence: Evidence,
    /// Smallest and largest batch measured, documents.
    pub documents: [f64; 2],
    /// Of a batch without documents, s.
    pub base_s: Estimate,
    /// Per document, s.
    pub per_document_s: Estimate,
    /// The factor; absent where no law could be fitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<Law>,
}

impl RerankCalibration {
    /// A fit with its origin.
    pub fn new(source: Source, sha256: &str, fit: &RerankFit) -> Self {
        let [fitted, held_out] = fit.errors;
        Self {
            source,
            evidence: Evidence::new(sha256, fit.batches, fitted, held_out, fit.held_out_worst),
            documents: fit.documents,
            base_s: fit.base_s.rounded(DIGITS),
            per_document_s: fit.per_document_s.rounded(DIGITS),
            residual: fit.residual.as_ref().map(|law| Law::new(sha256, "", law)),
        }
    }
}

/// What fills a device's memory. Amounts in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VramCalibration {
    /// Origin.
    pub source: Source,
    /// The allocator, as scenarios write it.
    pub allocator: Allocator,
    /// Fit and judgement, percent of the memory shown.
    pub evidence: Evidence,
    /// Median error on the held-out samples, percent of the range that the memory moved in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out_of_movement: Option<f64>,
    /// By how much the telemetry was late, s.
    pub delay_s: f64,
    /// Times that a caching allocator gave memory back.
    pub released: usize,
    /// Most tokens, documents and calls at once: the measured range begins at 0.
    pub most: [f64; 3],
    /// Held whether or not anything runs.
    pub base: Estimate,
    /// Per token that running calls hold.
    pub per_token: Estimate,
    /// Per document of running batches.
    pub per_document: Estimate,
    /// Per running call.
    pub per_call: Estimate,
}

impl VramCalibration {
    /// A fit with its origin.
    pub fn new(source: Source, sha256: &str, fit: &VramFit) -> Self {
        let [fitted, held_out] = fit.errors;
        Self {
            source,
            allocator: fit.allocator,
            evidence: Evidence::new(sha256, fit.samples, fitted, held_out, fit.held_out_worst),
            held_out_of_movement: fit.of_movement.map(hundredths),
            delay_s: significant(fit.delay_s, 3),
            released: fit.released,
            most: fit.most.map(|most| significant(most, 6)),
            base: fit.base.rounded(5),
            per_token: fit.per_token.rounded(DIGITS),
            per_document: fit.per_document.rounded(DIGITS),
            per_call: fit.per_call.rounded(DIGITS),
        }
    }
}
