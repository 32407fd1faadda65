//! What is fitted: which numbers of a model are free, in which units a search moves them, and their bounds.

use forebay_model::llm::batching::BatchingConfig;
use serde::{Deserialize, Serialize};

use super::fleet::Fleet;
use super::sketch::{PARTS, Sketch};

/// A fleet, and what a replay of the logged run needs besides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Model {
    pub(super) fleet: Fleet,
    pub(super) start_delay_s: f64,
    /// What passes between arrival and engine, and back, s.
    pub(super) entry_s: f64,
}

/// A number that can be fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Parameter {
    /// Constant part of an iteration, s.
    #[serde(rename = "c0_s")]
    Constant,
    /// Per prefill token, s.
    #[serde(rename = "per_prefill_token_s")]
    PrefillToken,
    /// Per prefill token and token before it, s.
    #[serde(rename = "per_prefill_context_s")]
    PrefillContext,
    /// Per decoding sequence, s.
    #[serde(rename = "per_decode_sequence_s")]
    Sequence,
    /// Per resident token, s.
    #[serde(rename = "per_resident_token_s")]
    ResidentToken,
    /// Per resident token in iterations that also prefill, s.
    #[serde(rename = "per_resident_token_mixed_s")]
    ResidentMixed,
    /// Share of prompt tokens found in the prefix cache.
    #[serde(rename = "prefix_hit_share")]
    PrefixHits,
    /// KV blocks of one engine.
    #[serde(rename = "kv_blocks")]
    KvBlocks,
    /// By how much the server was late on its first iterations, s.
    #[serde(rename = "start_delay_s")]
    StartDelay,
    /// What passes between a client and its engine, there and back, s.
    #[serde(rename = "entry_s")]
    Entry,
}

impl Parameter {
    /// The parts of the cost that every fit has.
    pub(super) const COST: [Self; PARTS] =
        [Self::Constant, Self::PrefillToken, Self::PrefillContext, Self::Sequence, Self::ResidentToken];

    /// The field of a calibration that it is.
    pub fn field(self) -> &'static str {
        match self {
            Self::Constant => "c0_s",
            Self::PrefillToken => "per_prefill_token_s",
            Self::PrefillContext => "per_prefill_context_s",
            Self::Sequence => "per_decode_sequence_s",
            Self::ResidentToken => "per_resident_token_s",
            Self::ResidentMixed => "per_resident_token_mixed_s",
            Self::PrefixHits => "prefix_hit_share",
            Self::KvBlocks => "kv_blocks",
            Self::StartDelay => "start_delay_s",
            Self::Entry => "entry_s",
        }
    }

    /// Its value in a model.
    pub(super) fn of(self, model: &Model) -> f64 {
        let engine = &model.fleet.engine;
        match self {
            Self::Constant => engine.cost.c0_s,
            Self::PrefillToken => engine.cost.per_prefill_token_s,
            Self::PrefillContext => engine.cost.per_prefill_context_s,
            Self::Sequence => engine.cost.per_decode_sequence_s,
            Self::ResidentToken => engine.cost.per_resident_token_s,
            Self::ResidentMixed => engine.cost.per_resident_token_mixed_s,
            Self::PrefixHits => engine.prefix_hit_share,
            Self::KvBlocks => f64::from(engine.kv_blocks),
            Self::StartDelay => model.start_delay_s,
            Self::Entry => model.entry_s,
        }
    }

    pub(super) fn set(self, model: &mut Model, value: f64) {
        let engine: &mut BatchingConfig = &mut model.fleet.engine;
        match self {
            Self::Constant => engine.cost.c0_s = value,
            Self::PrefillToken => engine.cost.per_prefill_token_s = value,
            Self::PrefillContext => engine.cost.per_prefill_context_s = value,
            Self::Sequence => engine.cost.per_decode_sequence_s = value,
            Self::ResidentToken => engine.cost.per_resident_token_s = value,
            Self::ResidentMixed => engine.cost.per_resident_token_mixed_s = value,
            Self::PrefixHits => engine.prefix_hit_share = value,
            Self::KvBlocks => engine.kv_blocks = value.round().max(1.0) as u32,
            Self::StartDelay => model.start_delay_s = value,
            Self::Entry => model.entry_s = value,
        }
    }
}

/// A free number: the unit it is counted in, and its bounds in that unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) parameter: Parameter,
    pub(super) unit: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Axis {
    /// Which part of the cost it is, if it is one.
    pub(super) fn part(&self) -> Option<usize> {
        Parameter::COST.iter().position(|parameter| *parameter == self.parameter)
    }
}

/// The free numbers around a model that gives all others.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) base: Model,
    pub(super) axes: Vec<Axis>,
}

impl Space {
    /// The cost alone.
    pub(super) fn new(base: Model, sketch: &Sketch) -> Self {
        let free = |(parameter, unit): (Parameter, f64)| {
            let low = if parameter == Parameter::Constant { 1e-3 } else { 0.0 };
            Axis { parameter, unit, low, high: (0.01 / unit).min(20.0) }
        };
        let mut axes: Vec<Axis> = Parameter::COST.into_iter().zip(sketch.scales).map(free).collect();
        axes[0].high = 20.0;
        Self { base, axes }
    }

    pub(super) fn with(mut self, parameter: Parameter, unit: f64, low: f64, high: f64) -> Self {
        self.axes.retain(|axis| axis.parameter != parameter);
        self.axes.push(Axis { parameter, unit, low: low / unit, high: high / unit });
        self
    }

    pub(super) fn has(&self, parameter: Parameter) -> bool {
        self.axes.iter().any(|axis| axis.parameter == parameter)
    }

    /// Where a model lies.
    pub(super) fn place(&self, model: &Model) -> Vec<f64> {
        let place = |axis: &Axis| (axis.parameter.of(model) / axis.unit).clamp(axis.low, axis.high);
        self.axes.iter().map(place).collect()
    }

    /// The model at a place.
    pub(super) fn at(&self, place: &[f64]) -> Model {
        let mut model = self.base.clone();
        for (axis, value) in self.axes.iter().zip(place) {
            axis.parameter.set(&mut model, value * axis.unit);
        }
        model
    }
}
