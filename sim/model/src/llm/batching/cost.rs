//! What an iteration costs, in seconds as calibrations state it and in the exact integer units in which
//! the engine adds it up.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::config::BatchingError;

/// Binary digits of the time unit below a nanosecond: time is counted in 2^-30 ns.
pub(super) const UNIT_BITS: u32 = 30;
/// Largest constant part accepted, s.
const FIXED_MAX_S: f64 = 100.0;
/// Largest coefficient per token or sequence accepted, s.
const PER_ITEM_MAX_S: f64 = 0.01;

/// The length of one iteration, linear in what it computes:
///
/// ```text
/// c0 + per_prefill_token * max(0, P - hidden) + per_prefill_context * sum(chunk * (context + chunk / 2))
///    + per_decode_sequence * D + (per_resident_token + mixed) * R
/// ```
///
/// with `P` prefill tokens, `D` decoding sequences and `R` the tokens these hold in the cache. `hidden`
/// is what `hidden_tokens` leaves after `D`, and `mixed` is `per_resident_token_mixed` in an iteration
/// that also prefills, else 0. All coefficients are at least 0.
///
/// The form follows the hardware: reading the weights takes `c0` however few tokens ride along (so the
/// first `hidden_tokens` are free), computing takes time per token, attention reads the resident cache,
/// and attention kernels that mix prefill and decode read it less well. Calibrations state where their
/// numbers come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IterationCost {
    /// Constant part: weights read, launches, scheduling; s, 1e-9 to 100.
    #[schemars(range(min = 1e-9, max = 100.0))]
    pub c0_s: f64,
    /// Per prefill token beyond the hidden ones; s, 0 to 0.01.
    #[schemars(range(min = 0.0, max = 0.01))]
    pub per_prefill_token_s: f64,
    /// Per prefill token and token of context before it; s, 0 to 0.01.
    #[schemars(range(min = 0.0, max = 0.01))]
    pub per_prefill_context_s: f64,
    /// Per decoding sequence; s, 0 to 0.01.
    #[schemars(range(min = 0.0, max = 0.01))]
    pub per_decode_sequence_s: f64,
    /// Per token that decoding sequences hold in the cache; s, 0 to 0.01.
    #[schemars(range(min = 0.0, max = 0.01))]
    pub per_resident_token_s: f64,
    /// The same again, added in iterations that also prefill; s, 0 to 0.01.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 0.01))]
    pub per_resident_token_mixed_s: f64,
    /// Tokens of an iteration, decoding ones first, that ride along with the weights for nothing.
    #[serde(default)]
    pub hidden_tokens: u32,
}

impl IterationCost {
    /// Checks every range.
    ///
    /// # Errors
    /// The first coefficient that is outside its range (NaN is).
    pub fn check(&self) -> Result<(), BatchingError> {
        if !(1e-9..=FIXED_MAX_S).contains(&self.c0_s) {
            return Err(BatchingError::new("cost.c0_s", &self.c0_s, "1e-9 to 100"));
        }
        for (field, value) in [
            ("cost.per_prefill_token_s", self.per_prefill_token_s),
            ("cost.per_prefill_context_s", self.per_prefill_context_s),
            ("cost.per_decode_sequence_s", self.per_decode_sequence_s),
            ("cost.per_resident_token_s", self.per_resident_token_s),
            ("cost.per_resident_token_mixed_s", self.per_resident_token_mixed_s),
        ] {
            if !(0.0..=PER_ITEM_MAX_S).contains(&value) {
                return Err(BatchingError::new(field, &value, "0 to 0.01"));
            }
        }
        Ok(())
    }

    /// Whether an engine that takes `factor` times as long has all coefficients in their ranges.
    pub(crate) fn may_take(&self, factor: f64) -> bool {
        let items = [
            self.per_prefill_token_s,
            self.per_prefill_context_s,
            self.per_decode_sequence_s,
            self.per_resident_token_s,
            self.per_resident_token_mixed_s,
        ];
        (1e-9..=FIXED_MAX_S).contains(&(self.c0_s * factor))
            && items.iter().all(|item| item * factor <= PER_ITEM_MAX_S)
    }

    /// The cost of an engine that takes `factor` times as long; coefficients stay in their ranges.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        let per_item = |s: f64| (s * factor).min(PER_ITEM_MAX_S);
        Self {
            c0_s: (self.c0_s * factor).clamp(1e-9, FIXED_MAX_S),
            per_prefill_token_s: per_item(self.per_prefill_token_s),
            per_prefill_context_s: per_item(self.per_prefill_context_s),
            per_decode_sequence_s: per_item(self.per_decode_sequence_s),
            per_resident_token_s: per_item(self.per_resident_token_s),
            per_resident_token_mixed_s: per_item(self.per_resident_token_mixed_s),
            hidden_tokens: self.hidden_tokens,
        }
    }
}

/// What one iteration computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Prefill tokens of all chunks.
    pub prefill_tokens: u64,
    /// Sum over chunks of `chunk * (2 * context + chunk)`: twice the area that attention covers.
    pub prefill_area: u128,
    /// Decoding sequences.
    pub decodes: u64,
    /// Tokens they hold, the one being computed included.
    pub resident: u64,
}

impl Load {
    pub(super) fn add_chunk(&mut self, context: u64, chunk: u64) {
        self.prefill_tokens += chunk;
        self.prefill_area += u128::from(chunk) * u128::from(2 * context + chunk);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.prefill_tokens == 0 && self.decodes == 0
    }
}

/// The coefficients in time units (2^-30 ns). With the ranges above and at most 2^31 tokens in the
/// cache, an iteration stays below 2^107 units and a bulk of 2^31 of them below 2^126.
#[derive(Clone, Debug)]
pub(super) struct CostUnits {
    fixed: u128,
    prefill_token: u128,
    /// Half the coefficient per token and context, as [`Load::prefill_area`] is twice the area.
    prefill_area: u128,
    sequence: u128,
    resident: u128,
    resident_mixed: u128,
    hidden_tokens: u64,
}

impl CostUnits {
    pub(super) fn new(cost: &IterationCost) -> Self {
        let units = |seconds: f64| (seconds * 1e9 * f64::from(1_u32 << UNIT_BITS)).round() as u128;
        Self {
            fixed: units(cost.c0_s),
            prefill_token: units(cost.per_prefill_token_s),
            prefill_area: units(cost.per_prefill_context_s / 2.0),
            sequence: units(cost.per_decode_sequence_s),
            resident: units(cost.per_resident_token_s),
            resident_mixed: units(cost.per_resident_token_mixed_s),
            hidden_tokens: u64::from(cost.hidden_tokens),
        }
    }

    /// Length of an iteration, units.
    pub(super) fn duration(&self, load: &Load) -> u128 {
        let mut sum =
            self.fixed + self.sequence * u128::from(load.decodes) + self.resident * u128::from(load.resident);
        if load.prefill_tokens > 0 {
            let hidden = self.hidden_tokens.saturating_sub(load.decodes);
            sum += self.prefill_token * u128::from(load.prefill_tokens.saturating_sub(hidden))
                + self.prefill_area * load.prefill_area
                + self.resident_mixed * u128::from(load.resident);
        }
        sum
    }

    /// By how much each iteration is longer than the one before while `decodes` sequences decode.
    pub(super) fn growth(&self, decodes: u64) -> u128 {
        self.resident * u128::from(decodes)
    }
}
