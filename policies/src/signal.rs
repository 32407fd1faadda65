//! Signals: measured quantities that a policy may read, each as it was measured, some time ago, and
//! after the filter the policy asked for.
//!
//! The driver samples its meters every period and hands each [`Reading`] over when it arrives;
//! [`Signals`] passes it through the filters. The filters live here rather than in the simulator so
//! that production smooths in the same way.

use crate::Moment;
use crate::feedback::filter::{Filter, FilterState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! signals {
    ($($variant:ident $field:ident $doc:literal;)*) => {
        /// A measured quantity.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum SignalKind {
            $(#[doc = $doc] $variant,)*
        }

        impl SignalKind {
            /// All signals, in the order of [`SignalKind::index`].
            pub const ALL: [Self; [$(Self::$variant,)*].len()] = [$(Self::$variant,)*];

            /// The signal's name in files, such as `vram`.
            pub fn name(self) -> &'static str {
                const NAMES: &[&str] = &[$(stringify!($field),)*];
                NAMES[self.index()]
            }
        }

        /// How each signal is treated before a rule reads it: the table `[policy.signals]`.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        pub struct SignalConfig {
            $(#[doc = $doc] pub $field: SignalRule,)*
        }

        impl SignalConfig {
            fn filters(&self) -> [Filter; SignalKind::COUNT] {
                [$(self.$field.filter,)*]
            }
        }
    };
}

signals! {
    Vram vram "Share of GPU memory in use, the mean over the devices, 0 to 1.";
    VramMax vram_max "Share of GPU memory in use on the fullest device, 0 to 1.";
    Kv kv "Share of the model engines' KV blocks in use, 0 to 1.";
    LlmBusy llm_busy "Share of the model's slots that are busy, 0 to 1.";
    QueueLength queue_length "Requests that wait in the gateway's queue.";
    ErrorRate error_rate "Share of ended requests that ended in an error, 0 to 1.";
    LatencyP95 latency_p95 "95th percentile of the latency of ended requests, in seconds.";
    ArrivalRate arrival_rate "Arrivals per second.";
    LlmTimeouts llm_timeouts "Model calls that ended by their time limit within the meter's window.";
    // The signals above are those of the ladder: `SignalKind::LADDER` counts them.
    StoreLatency store_latency "Mean latency of the vector store within the meter's window, in seconds.";
    L3Share l3_share "Share of the answers that were given at L3, 0 to 1.";
    Csat csat "Customer satisfaction, the mean over the meter's window, 0 to 1.";
    QueueHigh queue_high "Requests that wait in the governor's first queue.";
    QueueStandard queue_standard "Requests that wait in the governor's second queue.";
    QueueDegraded queue_degraded "Requests that wait in the governor's third queue.";
    TokenBalance token_balance "Share of its capacity that the emptiest bucket at the front holds, 0 to 1.";
    CacheHitRate cache_hit_rate "Share of the questions that the semantic cache answered, 0 to 1.";
    TtftP95 ttft_p95 "95th percentile of the time to the first token of answered requests, in seconds.";
    InFlight in_flight "Attempts that are being served.";
    LlmQueue llm_queue "Calls that wait at the model engines.";
}

/// How one signal is treated before a rule reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SignalRule {
    /// Smoothing; none by default.
    pub filter: Filter,
}

impl SignalKind {
    /// How many signals there are.
    pub const COUNT: usize = Self::ALL.len();

    /// How many of them, from the first, the ladder reads.
    pub const LADDER: usize = 9;

    /// Position in [`SignalKind::ALL`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// One round of the driver's meters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// When the meters were read; earlier than when the reading is delivered.
    pub taken: Moment,
    /// What each showed, by [`SignalKind::index`]; `None`: it was not read.
    pub values: [Option<f64>; SignalKind::COUNT],
}

impl Reading {
    /// A reading taken at `taken` with no meter read yet.
    pub fn new(taken: Moment) -> Self {
        Self { taken, values: [None; SignalKind::COUNT] }
    }

    /// The same reading with one more meter.
    #[must_use]
    pub fn with(mut self, kind: SignalKind, value: f64) -> Self {
        self.values[kind.index()] = Some(value);
        self
    }
}

/// What a policy may know of the state of the service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Signals {
    values: [Option<f64>; SignalKind::COUNT],
    taken: [Moment; SignalKind::COUNT],
    filters: [FilterState; SignalKind::COUNT],
}

impl Signals {
    /// No signal is known yet.
    pub fn new(config: &SignalConfig) -> Self {
        Self {
            values: [None; SignalKind::COUNT],
            taken: [Moment::ZERO; SignalKind::COUNT],
            filters: config.filters().map(FilterState::new),
        }
    }

    /// Takes a reading in. A meter that was not read keeps its last value and grows older. A value that
    /// is not finite, or older than the one held, is ignored: late packets do not turn time back.
    pub fn deliver(&mut self, now: Moment, reading: &Reading) {
        let taken = reading.taken.min(now);
        for (index, value) in reading.values.iter().enumerate() {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            if self.values[index].is_some() && taken < self.taken[index] {
                continue;
            }
            self.values[index] = Some(self.filters[index].push(taken, value));
            self.taken[index] = taken;
        }
    }

    /// The signal after its filter; `None` until it was first read.
    #[inline]
    pub fn get(&self, kind: SignalKind) -> Option<f64> {
        self.values[kind.index()]
    }

    /// Nanoseconds since the newest value of the signal was measured; `None` until it was first read.
    pub fn age(&self, now: Moment, kind: SignalKind) -> Option<u64> {
        self.values[kind.index()].map(|_| now.since(self.taken[kind.index()]))
    }
}

impl Default for Signals {
    /// Signals without filters.
    fn default() -> Self {
        Self::new(&SignalConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_keeps_its_last_value_and_ages() {
        let mut signals = Signals::default();
        assert_eq!(signals.get(SignalKind::Vram), None);
        assert_eq!(signals.age(Moment(9), SignalKind::Vram), None);
        signals.deliver(Moment(15), &Reading::new(Moment(10)).with(SignalKind::Vram, 0.5));
        signals.deliver(Moment(25), &Reading::new(Moment(20)).with(SignalKind::Kv, 0.25));
        assert_eq!(signals.get(SignalKind::Vram), Some(0.5));
        assert_eq!(signals.age(Moment(30), SignalKind::Vram), Some(20));
        assert_eq!(signals.age(Moment(30), SignalKind::Kv), Some(10));
    }

    #[test]
    fn late_and_broken_readings_are_ignored() {
        let mut signals = Signals::default();
        signals.deliver(Moment(20), &Reading::new(Moment(20)).with(SignalKind::Vram, 0.5));
        signals.deliver(Moment(21), &Reading::new(Moment(10)).with(SignalKind::Vram, 0.9));
        signals.deliver(Moment(22), &Reading::new(Moment(22)).with(SignalKind::Vram, f64::NAN));
        assert_eq!(signals.get(SignalKind::Vram), Some(0.5));
        assert_eq!(signals.age(Moment(22), SignalKind::Vram), Some(2));
    }

    #[test]
    fn names_are_the_fields_of_the_table() {
        let table = serde_json::to_value(SignalConfig::default()).unwrap();
        let names: Vec<&str> = SignalKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(table.as_object().unwrap().keys().collect::<Vec<_>>(), names);
        for kind in SignalKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
