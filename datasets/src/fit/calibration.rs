//! Calibration files: fitted numbers with the measurements they come from, their errors, and the range in
//! which they were measured.

mod kinds;
mod surroundings;

use forebay_model::llm::batching::BatchingConfig;
use serde::{Deserialize, Serialize};

use super::iteration::IterationFit;
use super::joint::Inference;
use super::observed::ObservedRequest;
use super::replay::LatencyErrors;
use super::slots::SlotsFit;
pub use kinds::{
    CurveCalibration, Decode, Evidence, Law, LengthsCalibration, PhaseRange, PhasesCalibration, Prefill,
    RerankCalibration, ServiceCalibration, VramCalibration, sha256,
};
pub use surroundings::{Clients, DeviceFacts, DevicesCalibration, LoadCalibration};

/// A calibration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Calibration {
    /// Of the `batching` engine.
    Batching(Box<BatchingCalibration>),
    /// Of the `slots` engine.
    Slots(Box<SlotsCalibration>),
    /// Time per token against batch size, s.
    Decode(Box<CurveCalibration>),
    /// Power against batch size or load, W.
    Power(Box<CurveCalibration>),
    /// Prefill and decode of one batch at a time.
    Phases(Box<PhasesCalibration>),
    /// A service time.
    Service(Box<ServiceCalibration>),
    /// Lengths of texts.
    Lengths(Box<LengthsCalibration>),
    /// Rerank time against documents.
    Rerank(Box<RerankCalibration>),
    /// What fills a device's memory.
    Vram(Box<VramCalibration>),
    /// The load of a day.
    Load(Box<LoadCalibration>),
    /// Facts of devices.
    Devices(Box<DevicesCalibration>),
}

/// Where a calibration's measurements come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Data and its publisher.
    pub data: String,
    /// Licence of the data.
    pub license: String,
    /// Day of the fit, ISO 8601.
    pub fitted: String,
}

/// A calibrated `batching` engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BatchingCalibration {
    /// Origin.
    pub source: Source,
    /// The engine: settings of the measured server, iteration cost as fitted.
    pub engine: BatchingConfig,
    /// What the fit found out about the measured run, and a replay of that run needs besides.
    pub run: MeasuredRun,
    /// Errors.
    pub errors: SplitErrors,
    /// What was measured.
    pub range: MeasuredRange,
    /// How the numbers were found, if from a request log alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference: Option<Inference>,
}

/// Properties of a measured run that are not the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    /// Requests in the run.
    pub requests: usize,
    /// Of these, by arrival, those that the fit saw.
    pub fitted_on: usize,
    /// Share of prompt tokens found in the prefix cache.
    pub prefix_hit_share: f64,
    /// By how much the server was late on its first iterations, s.
    pub start_delay_s: f64,
}

/// Errors of a replay of the measured run, percent of the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitErrors {
    /// On the requests that the fit saw.
    pub fitted: LatencyErrors,
    /// On the others.
    pub held_out: LatencyErrors,
}

/// Smallest and largest of what was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRange {
    /// Sequences in the batch.
    pub running: [u32; 2],
    /// Prompt length, tokens.
    pub tokens_in: [u32; 2],
    /// Answer length, tokens.
    pub tokens_out: [u32; 2],
}

/// A calibrated `slots` engine: what a slot is held for, per token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsCalibration {
    /// Origin.
    pub source: Source,
    /// Model and hardware.
    pub model: String,
    /// The benchmark's task, which sets the lengths.
    pub task: String,
    /// GPU model.
    pub gpu: String,
    /// GPUs that serve one copy.
    pub gpus: u32,
    /// Precision of the weights.
    pub precision: String,
    /// Mean time per token of a lone request, s.
    pub base_s: f64,
    /// Added per sequence in the batch, s.
    pub per_sequence_s: f64,
    /// Smallest and largest batch measured.
    pub batch: [f64; 2],
    /// Median absolute error, percent, on the batch sizes that the fit saw.
    pub fitted_error: f64,
    /// The same on the others.
    pub held_out_error: f64,
    /// The largest on the others, percent.
    pub held_out_worst: f64,
}

impl Calibration {
    /// Reads a calibration file.
    ///
    /// # Errors
    /// Whatever is wrong with it, with its place.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The file, without a head.
    ///
    /// # Errors
    /// Numbers that TOML cannot hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string(self)
    }

    /// The settings of the `batching` engine, if it has one.
    pub fn engine(&self) -> Option<&BatchingConfig> {
        match self {
            Self::Batching(calibration) => Some(&calibration.engine),
            Self::Phases(calibration) => Some(&calibration.engine),
            _ => None,
        }
    }

    /// In which range that engine was measured.
    pub fn engine_range(&self) -> Option<MeasuredRange> {
        match self {
            Self::Batching(calibration) => Some(calibration.range),
            Self::Phases(calibration) => {
                let range = &calibration.range;
                let whole = |[least, most]: [f64; 2]| [least as u32, most as u32];
                Some(MeasuredRange {
                    running: whole(range.batch),
                    tokens_in: whole(range.prompt),
                    tokens_out: whole(range.tokens_out),
                })
            }
            _ => None,
        }
    }

    /// What it is of, as its file's `kind` says.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Batching(_) => "batching",
            Self::Slots(_) => "slots",
            Self::Decode(_) => "decode",
            Self::Power(_) => "power",
            Self::Phases(_) => "phases",
            Self::Service(_) => "service",
            Self::Lengths(_) => "lengths",
            Self::Rerank(_) => "rerank",
            Self::Vram(_) => "vram",
            Self::Load(_) => "load",
            Self::Devices(_) => "devices",
        }
    }

    /// Where its measurements come from.
    pub fn source(&self) -> &Source {
        match self {
            Self::Batching(of) => &of.source,
            Self::Slots(of) => &of.source,
            Self::Decode(of) | Self::Power(of) => &of.source,
            Self::Phases(of) => &of.source,
            Self::Service(of) => &of.source,
            Self::Lengths(of) => &of.source,
            Self::Rerank(of) => &of.source,
            Self::Vram(of) => &of.source,
            Self::Load(of) => &of.source,
            Self::Devices(of) => &of.source,
        }
    }
}

impl BatchingCalibration {
    /// A fit with what belongs beside it. `engine` are the settings that it started from, and
    /// `running_max` the most sequences that were seen in the batch.
    pub fn new(
        source: Source,
        fit: &IterationFit,
        engine: &BatchingConfig,
        log: &[ObservedRequest],
        running_max: u32,
    ) -> Self {
        let bounds = |of: fn(&ObservedRequest) -> u32| {
            let least = log.iter().map(of).min().unwrap_or(0);
            [least, log.iter().map(of).max().unwrap_or(0)]
        };
        Self {
            source,
            engine: BatchingConfig { cost: fit.cost.clone(), prefix_hit_share: 0.0, ..engine.clone() },
            run: MeasuredRun {
                requests: log.len(),
                fitted_on: fit.fitted_on,
                prefix_hit_share: fit.prefix_hit_share,
                start_delay_s: fit.start_delay_s,
            },
            errors: SplitErrors { fitted: fit.fitted.rounded(), held_out: fit.held_out.rounded() },
            range: MeasuredRange {
                running: [1, running_max],
                tokens_in: bounds(|request| request.tokens_in),
                tokens_out: bounds(|request| request.tokens_out),
            },
            inference: None,
        }
    }

    /// The engine as it was during the measured run: with the prompts' share of prefix hits.
    pub fn measured_engine(&self) -> BatchingConfig {
        BatchingConfig { prefix_hit_share: self.run.prefix_hit_share, ..self.engine.clone() }
    }
}

impl SlotsCalibration {
    /// A fit with its origin.
    pub fn new(source: Source, fit: &SlotsFit) -> Self {
        let round = |value: f64, to: f64| (value * to).round() / to;
        Self {
            source,
            model: fit.of.model.clone(),
            task: fit.of.task.clone(),
            gpu: fit.of.gpu.clone(),
            gpus: fit.of.gpus,
            precision: fit.of.precision.clone(),
            base_s: round(fit.base_s, 1e7),
            per_sequence_s: round(fit.per_sequence_s, 1e8),
            batch: fit.range.map(|batch| round(batch, 10.0)),
            fitted_error: round(fit.fitted, 100.0),
            held_out_error: round(fit.held_out, 100.0),
            held_out_worst: round(fit.held_out_worst, 100.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TokenTime, fit_slots};
    use super::super::{read_batch_rows, read_vllm_log, replay};
    use super::*;

    const RTX4090: (&str, &str) = (
        include_str!("../../calibrations/vllm-rtx4090-llama-3.1-8b.toml"),
        include_str!("../../measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl"),
    );
    const RTXPRO6000: (&str, &str) = (
        include_str!("../../calibrations/vllm-rtxpro6000-llama-3.1-8b.toml"),
        include_str!("../../measured/vllm-runs/RTXPRO6000-Llama-3.1-8B/requests.jsonl"),
    );

    fn batching(text: &str) -> BatchingCalibration {
        match Calibration::parse(text) {
            Ok(Calibration::Batching(calibration)) => *calibration,
            other => panic!("no batching calibration: {other:?}"),
        }
    }

    /// The measured runs, replayed: the errors are those that the file states, and all are within 3 %.
    #[test]
    fn measured_runs_are_met_within_three_percent() {
        for (text, log) in [RTX4090, RTXPRO6000] {
            let calibration = batching(text);
            let log = read_vllm_log(log).unwrap();
            let run = calibration.run;
            assert_eq!((log.len(), run.fitted_on), (300, 150));
            let replayed = replay(&log, &calibration.measured_engine(), run.start_delay_s).unwrap();
            let held_out = LatencyErrors::new(&log[150..], &replayed[150..]).rounded();
            let fitted = LatencyErrors::new(&log[..150], &replayed[..150]).rounded();
            assert_eq!((fitted, held_out), (calibration.errors.fitted, calibration.errors.held_out));
            assert!(held_out.worst() < 3.0 && fitted.worst() < 3.0);
        }
    }

    /// Without what the fit found out about the runs' prompts and their cold start.
    #[test]
    fn the_engines_alone_are_within_three_percent_on_the_runs() {
        for (text, log) in [RTX4090, RTXPRO6000] {
            let log = read_vllm_log(log).unwrap();
            let replayed = replay(&log, &batching(text).engine, 0.0).unwrap();
            for part in [0..300, 150..300] {
                let errors = LatencyErrors::new(&log[part.clone()], &replayed[part.clone()]);
                assert!(errors.worst() < 3.0, "{part:?}: {errors:?}");
            }
        }
    }

    #[test]
    fn slots_calibration_is_the_fit_of_its_table() {
        let text = include_str!("../../calibrations/ml-energy-llama-3.1-8b-h100.toml");
        let Ok(Calibration::Slots(calibration)) = Calibration::parse(text) else {
            panic!("no slots calibration")
        };
        let rows = read_batch_rows(include_str!("../../measured/ml-energy/llm_configs.csv")).unwrap();
        let fits = fit_slots(&rows, TokenTime::Mean);
        let fit = fits.iter().find(|fit| fit.of.model == calibration.model && fit.of.gpu == calibration.gpu);
        assert_eq!(SlotsCalibration::new(calibration.source.clone(), fit.unwrap()), *calibration);
        assert!(calibration.held_out_error < 3.0);
    }

    #[test]
    fn unknown_keys_are_refused() {
        let text = RTX4090.0.replace("[run]", "[run]\nspeed = 2");
        assert!(Calibration::parse(&text).is_err());
        assert!(Calibration::parse("kind = \"other\"").is_err());
    }
}
