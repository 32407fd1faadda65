//! A bucket that weighs requests and follows the state of the service (published cases W1 to W7).
//!
//! A request weighs more the longer it is, the more turns it carries and the more complex its intent
//! ([`WeightedBucket::weight`]). The capacity grows with free GPU memory ([`WeightedBucket::capacity`]),
//! the refill falls with errors or with used GPU memory ([`WeightedBucket::refill_per_s`]). The balance
//! may go below zero by a share of the capacity; when it crosses zero downwards, the refill is cut for
//! a while. Requests that are let in while the balance is still negative are part of the same
//! overdraft and do not start the cut anew: otherwise a lasting overload would halve the rate for good.

use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::moment::nanos;
use crate::signal::SignalKind;
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// By how little the balance may pass its end, in tokens: sums of decimal weights come out a few
/// billionths beside their true value, and a request that fits exactly must not be refused for that.
const SLACK: f64 = 1e-9;

/// What the refill follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Refill {
    /// The base rate, whatever happens.
    Steady,
    /// The error rate (W3).
    #[default]
    Errors,
    /// GPU memory in use (W4).
    Vram,
}

/// Parameters of the weighted bucket. The weights' unit is one token; the published values are the
/// defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedBucket {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// Base rate B: tokens per second, and tokens of capacity before free memory adds to it.
    #[schemars(range(min = 0.001, max = 1e9))]
    pub base_rate_per_s: f64,
    /// Weight per power of ten of the characters (W1).
    #[serde(default = "published::chars_weight")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub chars_weight: f64,
    /// Weight per turn of history (W1).
    #[serde(default = "published::turns_weight")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub turns_weight: f64,
    /// Weight of the most complex intent (W1).
    #[serde(default = "published::complexity_weight")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub complexity_weight: f64,
    /// Least weight of a request (W1).
    #[serde(default = "published::least_weight")]
    #[schemars(range(min = 0.0, max = 1000.0))]
    pub least_weight: f64,
    /// Greatest weight of a request (W1).
    #[serde(default = "published::greatest_weight")]
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub greatest_weight: f64,
    /// By what share the capacity grows when all GPU memory is free (W2).
    #[serde(default = "published::capacity_per_free")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub capacity_per_free: f64,
    /// What the refill follows.
    #[serde(default)]
    pub refill: Refill,
    /// By what share the refill falls when every request is an error (W3).
    #[serde(default = "published::refill_per_error")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub refill_per_error: f64,
    /// Share of GPU memory in use up to which the refill is at its greatest (W4).
    #[serde(default = "published::vram_low")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_low: f64,
    /// The greatest refill, as a factor of the base rate (W4).
    #[serde(default = "published::vram_low_factor")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub vram_low_factor: f64,
    /// Share of GPU memory in use from which the refill is at its least (W4).
    #[serde(default = "published::vram_high")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_high: f64,
    /// The least refill, as a factor of the base rate (W4).
    #[serde(default = "published::vram_high_factor")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub vram_high_factor: f64,
    /// Share of the capacity by which the balance may go below zero (W6).
    #[serde(default = "published::overdraft")]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub overdraft: f64,
    /// How long the refill is cut once the balance went below zero, in seconds (W6).
    #[serde(default = "published::overdraft_cut_s")]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub overdraft_cut_s: f64,
    /// The refill while it is cut, as a factor (W6).
    #[serde(default = "published::overdraft_cut_factor")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub overdraft_cut_factor: f64,
}

/// The published values.
mod published {
    macro_rules! values {
        ($($name:ident = $value:literal),* $(,)?) => {
            $(pub(super) fn $name() -> f64 { $value })*
        };
    }
    values! {
        chars_weight = 0.3, turns_weight = 0.5, complexity_weight = 0.2,
        least_weight = 0.5, greatest_weight = 5.0,
        capacity_per_free = 0.3, refill_per_error = 0.4,
        vram_low = 0.6, vram_low_factor = 1.2, vram_high = 0.9, vram_high_factor = 0.6,
        overdraft = 0.2, overdraft_cut_s = 3.0, overdraft_cut_factor = 0.5,
    }
}

/// The base rate that a load test supports: the concurrency at which the service stayed stable, less a
/// share held in reserve (W5).
pub fn base_rate_per_s(stable_concurrency: f64, reserve: f64) -> f64 {
    stable_concurrency * (1.0 - reserve)
}

impl WeightedBucket {
    /// The published parameters with this base rate.
    pub fn published(base_rate_per_s: f64) -> Self {
        Self {
            place: front(),
            key: Key::Global,
            base_rate_per_s,
            chars_weight: published::chars_weight(),
            turns_weight: published::turns_weight(),
            complexity_weight: published::complexity_weight(),
            least_weight: published::least_weight(),
            greatest_weight: published::greatest_weight(),
            capacity_per_free: published::capacity_per_free(),
            refill: Refill::Errors,
            refill_per_error: published::refill_per_error(),
            vram_low: published::vram_low(),
            vram_low_factor: published::vram_low_factor(),
            vram_high: published::vram_high(),
            vram_high_factor: published::vram_high_factor(),
            overdraft: published::overdraft(),
            overdraft_cut_s: published::overdraft_cut_s(),
            overdraft_cut_factor: published::overdraft_cut_factor(),
        }
    }

    /// The weight of a request with so many characters, turns of history and an intent of this
    /// complexity (0 to 1), in tokens (W1).
    pub fn weight(&self, chars: u32, turns: u16, complexity: f64) -> f64 {
        let by_chars = self.chars_weight * libm::log10(f64::from(chars) + 1.0);
        let by_turns = self.turns_weight * f64::from(turns);
        let weight = by_chars + by_turns + self.complexity_weight * complexity;
        // `max` then `min` rather than `clamp`, which panics when the tuner crosses the two ends.
        weight.max(self.least_weight).min(self.greatest_weight)
    }

    /// The capacity when a share `vram` of GPU memory is in use, in tokens (W2). Unknown memory counts as
    /// full: nothing is added.
    pub fn capacity(&self, vram: Option<f64>) -> f64 {
        let free = vram.map_or(0.0, |used| (1.0 - used).clamp(0.0, 1.0));
        self.base_rate_per_s * (1.0 + self.capacity_per_free * free)
    }

    /// The refill, in tokens per second, before an overdraft's cut (W3, W4). An unknown signal leaves
    /// the base rate.
    pub fn refill_per_s(&self, vram: Option<f64>, error_rate: Option<f64>) -> f64 {
        let factor = match self.refill {
            Refill::Steady => 1.0,
            Refill::Errors => {
                error_rate.map_or(1.0, |rate| 1.0 - self.refill_per_error * rate.clamp(0.0, 1.0))
            }
            Refill::Vram => vram.map_or(1.0, |used| self.vram_factor(used)),
        };
        self.base_rate_per_s * factor
    }

    fn vram_factor(&self, used: f64) -> f64 {
        if used <= self.vram_low {
            return self.vram_low_factor;
        }
        if used >= self.vram_high {
            return self.vram_high_factor;
        }
        let way = (used - self.vram_low) / (self.vram_high - self.vram_low);
        self.vram_low_factor + way * (self.vram_high_factor - self.vram_low_factor)
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        PolicyError::ordered(
            path,
            ("least_weight", self.least_weight),
            ("greatest_weight", self.greatest_weight),
        )?;
        PolicyError::ordered(path, ("vram_low", self.vram_low), ("vram_high", self.vram_high))
    }
}

/// The buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: WeightedBucket,
    cut_ns: u64,
    buckets: Keyed<Bucket>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Bucket {
    balance: f64,
    at: Moment,
    cut_until: Moment,
}

impl Bucket {
    /// The bucket at `now`: what came back is counted at the present rate, and cut as long as the cut
    /// lasted.
    #[inline]
    fn refilled(self, now: Moment, per_s: f64, cut_factor: f64, capacity: f64) -> Self {
        let cut_s = self.cut_until.min(now).seconds_since(self.at);
        let full_s = now.seconds_since(self.at) - cut_s;
        let gained = per_s * (full_s + cut_factor * cut_s);
        Self { balance: (self.balance + gained).min(capacity), at: self.at.max(now), ..self }
    }
}

impl State {
    /// Nanoseconds until `missing` tokens have come back; `None`: never at this rate.
    fn until(&self, bucket: &Bucket, missing: f64, per_s: f64) -> Option<u64> {
        let cut_s = bucket.cut_until.seconds_since(bucket.at);
        let while_cut = per_s * self.parameters.overdraft_cut_factor * cut_s;
        let seconds = if missing <= while_cut {
            missing / (per_s * self.parameters.overdraft_cut_factor)
        } else {
            cut_s + (missing - while_cut) / per_s
        };
        seconds.is_finite().then(|| nanos(seconds).saturating_add(1))
    }
}

impl Limiter for State {
    type Parameters = WeightedBucket;

    fn new(parameters: &WeightedBucket) -> Self {
        Self {
            parameters: parameters.clone(),
            cut_ns: nanos(parameters.overdraft_cut_s),
            buckets: Keyed::new(parameters.key),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &WeightedBucket) {
        self.parameters = parameters.clone();
        self.cut_ns = nanos(parameters.overdraft_cut_s);
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, request: &RequestView, signals: &Signals) -> Verdict {
        let p = &self.parameters;
        let vram = signals.get(SignalKind::Vram);
        let capacity = p.capacity(vram);
        let per_s = p.refill_per_s(vram, signals.get(SignalKind::ErrorRate));
        let weight = p.weight(request.chars, request.history_turns, f64::from(request.intent_complexity));
        let cut_factor = p.overdraft_cut_factor;
        let bucket = self.buckets.entry(
            key,
            || Bucket { balance: capacity, at: now, cut_until: Moment::ZERO },
            |bucket| bucket.refilled(now, per_s, cut_factor, capacity).balance >= capacity,
        );
        *bucket = bucket.refilled(now, per_s, cut_factor, capacity);
        let credit = p.overdraft * capacity;
        let after = bucket.balance - weight;
        if after + credit < -SLACK {
            let bucket = *bucket;
            let refusal = Refusal::new(Reason::WeightedBucketEmpty, bucket.balance + credit, weight);
            let retry_after_ns = self.until(&bucket, -(after + credit), per_s);
            return Verdict::Refuse(Refusal { retry_after_ns, ..refusal });
        }
        if after < -SLACK && bucket.balance >= -SLACK {
            bucket.cut_until = now.after(self.cut_ns);
        }
        bucket.balance = after;
        Verdict::Pass
    }

    fn balance(&self, now: Moment, signals: &Signals) -> Option<f64> {
        let p = &self.parameters;
        let vram = signals.get(SignalKind::Vram);
        let capacity = p.capacity(vram);
        let per_s = p.refill_per_s(vram, signals.get(SignalKind::ErrorRate));
        let share = |bucket: &Bucket| {
            let refilled = bucket.refilled(now, per_s, p.overdraft_cut_factor, capacity);
            (refilled.balance / capacity).clamp(0.0, 1.0)
        };
        Some(self.buckets.values().map(share).fold(1.0, f64::min))
    }
}

#[cfg(test)]
#[path = "weighted_bucket_tests.rs"]
mod tests;
