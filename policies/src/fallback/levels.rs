//! The ladder L1 to L4 (published case F1).
//!
//! Each level has thresholds on signals. A threshold trips when its signal reaches it and clears only
//! when the signal has fallen below a second, lower one (hysteresis): between the two it keeps what it
//! was. The level is the lowest that any tripped threshold asks for. Going down is immediate; going up
//! also waits until the present level has been kept for `least_dwell_s`. A signal that is not measured
//! changes nothing.
//!
//! The published table reads "below 85 | 85..92 | 92..98 | above 98 or more than 5 time-outs": L2 and L3
//! begin at their threshold, L4 only above it, and time-outs count only above theirs.

use super::Fallback;
use super::timeouts::Timeouts;
use crate::admission::Refusal;
use crate::moment::nanos;
use crate::signal::SignalKind;
use crate::{Level, Moment, PolicyError, Reason, Signals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// By how much less than its threshold a share must be to clear it, unless stated.
const SHARE_BAND: f64 = 0.02;
/// The clearing threshold of other quantities as a share of the threshold, unless stated.
const OTHER_BAND: f64 = 0.8;
/// Model time-outs that L4 tolerates, unless stated.
const L4_TIMEOUTS: u32 = 5;
/// Window of the governor's own count of model time-outs, in seconds, unless stated.
const TIMEOUTS_WINDOW_S: f64 = 30.0;

/// When requests are answered at one level. Every threshold is optional.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LevelRule {
    /// Mean share of GPU memory in use from which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_above: Option<f64>,
    /// Mean share of GPU memory in use below which it is left; 0.02 less than `vram_above` if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_below: Option<f64>,
    /// Share of the fullest GPU's memory in use from which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_max_above: Option<f64>,
    /// Share of the fullest GPU's memory below which it is left; 0.02 less if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub vram_max_below: Option<f64>,
    /// Share of KV blocks in use from which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub kv_above: Option<f64>,
    /// Share of KV blocks in use below which it is left; 0.02 less if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub kv_below: Option<f64>,
    /// Share of busy model slots from which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub llm_busy_above: Option<f64>,
    /// Share of busy model slots below which it is left; 0.02 less if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub llm_busy_below: Option<f64>,
    /// Requests waiting in the queue from which the level is taken.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub queue_above: Option<f64>,
    /// Requests waiting in the queue below which it is left; 0.8 times as many if absent.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub queue_below: Option<f64>,
    /// Share of errors from which the level is taken.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error_rate_above: Option<f64>,
    /// Share of errors below which it is left; 0.02 less if absent.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error_rate_below: Option<f64>,
    /// 95th percentile of the latency, in seconds, from which the level is taken.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub latency_above_s: Option<f64>,
    /// 95th percentile of the latency, in seconds, below which it is left; 0.8 times as much if absent.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub latency_below_s: Option<f64>,
    /// Arrivals per second from which the level is taken.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub arrivals_above_per_s: Option<f64>,
    /// Arrivals per second below which it is left; 0.8 times as many if absent.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub arrivals_below_per_s: Option<f64>,
    /// The level is taken when there were more model time-outs than this; if absent, 5 for L4 when any
    /// other threshold of the ladder is set, else off. The signal and the governor's own count are read, and the greater counts.
    #[schemars(range(min = 0, max = 100_000))]
    pub llm_timeouts_above: Option<u32>,
    /// Window of the governor's own count of model time-outs, in seconds; 30 if absent. One window for
    /// all levels: the longest that is stated.
    #[schemars(range(min = 0.001, max = 3_600.0))]
    pub llm_timeouts_window_s: Option<f64>,
}

/// The two thresholds of one signal, and the names of their parameters.
struct Pair {
    signal: SignalKind,
    above: Option<f64>,
    below: Option<f64>,
    names: [&'static str; 2],
}

impl LevelRule {
    fn pairs(&self) -> [Pair; 8] {
        macro_rules! pair {
            ($signal:ident, $above:ident, $below:ident) => {
                Pair {
                    signal: SignalKind::$signal,
                    above: self.$above,
                    below: self.$below,
                    names: [stringify!($above), stringify!($below)],
                }
            };
        }
        [
            pair!(Vram, vram_above, vram_below),
            pair!(VramMax, vram_max_above, vram_max_below),
            pair!(Kv, kv_above, kv_below),
            pair!(LlmBusy, llm_busy_above, llm_busy_below),
            pair!(QueueLength, queue_above, queue_below),
            pair!(ErrorRate, error_rate_above, error_rate_below),
            pair!(LatencyP95, latency_above_s, latency_below_s),
            pair!(ArrivalRate, arrivals_above_per_s, arrivals_below_per_s),
        ]
    }

    /// The thresholds that are set: the signal, the parameter's name, and its value.
    pub fn set_thresholds(&self) -> Vec<(SignalKind, &'static str, f64)> {
        let set = |pair: Pair| Some((pair.signal, pair.names[0], pair.above?));
        self.pairs().into_iter().filter_map(set).collect()
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        for Pair { above, below, names: [above_name, below_name], .. } in self.pairs() {
            if let (Some(above), Some(below)) = (above, below) {
                PolicyError::ordered(path, (below_name, below), (above_name, above))?;
            }
        }
        Ok(())
    }
}

/// A threshold in use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Threshold {
    level: Level,
    signal: SignalKind,
    above: f64,
    below: f64,
    /// Tripped only above the value, not at it.
    strict: bool,
    tripped: bool,
}

impl Threshold {
    #[inline]
    fn read(&mut self, value: f64) {
        if self.tripped {
            self.tripped = value >= self.below;
        } else {
            self.tripped = value > self.above || (value == self.above && !self.strict);
        }
    }
}

/// Where the ladder stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ladder {
    thresholds: Vec<Threshold>,
    dwell_ns: u64,
    timeouts: Timeouts,
    level: Level,
    /// The comparison that put it there.
    cause: Option<Cause>,
    since: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Cause {
    why: Reason,
    found: f64,
    threshold: f64,
}

impl Ladder {
    pub(crate) fn new(parameters: &Fallback) -> Self {
        let mut ladder = Self::default();
        ladder.adopt(parameters);
        ladder
    }

    /// Takes changed thresholds over; what was tripped stays so until its signal is read again.
    pub(crate) fn adopt(&mut self, parameters: &Fallback) {
        let before = std::mem::take(&mut self.thresholds);
        let stated = parameters.rules().map(|(_, rule)| rule.llm_timeouts_window_s);
        let window_s = stated.into_iter().flatten().reduce(f64::max).unwrap_or(TIMEOUTS_WINDOW_S);
        // A ladder that was not asked for hands nobody over to people.
        let in_use =
            parameters.rules().iter().any(|(_, rule)| rule.pairs().iter().any(|pair| pair.above.is_some()));
        let mut most = 0;
        for (level, rule) in parameters.rules() {
            let strict = level == Level::L4;
            for Pair { signal, above, below, .. } in rule.pairs() {
                let Some(above) = above else { continue };
                let below = below.unwrap_or_else(|| default_below(signal, above));
                self.thresholds.push(Threshold { level, signal, above, below, strict, tripped: false });
            }
            let timeouts = rule.llm_timeouts_above.or((strict && in_use).then_some(L4_TIMEOUTS));
            if let Some(above) = timeouts {
                most = most.max(above as usize + 1);
                let above = f64::from(above);
                let signal = SignalKind::LlmTimeouts;
                let threshold =
                    Threshold { level, signal, above, below: above, strict: true, tripped: false };
                self.thresholds.push(threshold);
            }
        }
        for threshold in &mut self.thresholds {
            let same = |old: &&Threshold| old.level == threshold.level && old.signal == threshold.signal;
            threshold.tripped = before.iter().find(same).is_some_and(|old| old.tripped);
        }
        self.dwell_ns = nanos(parameters.least_dwell_s);
        self.timeouts.adopt(nanos(window_s), most);
    }

    /// Whether any threshold on a signal is set.
    pub(crate) fn reads_signals(&self) -> bool {
        self.thresholds.iter().any(|threshold| threshold.signal != SignalKind::LlmTimeouts)
    }

    /// A model call ended by its time limit.
    pub(crate) fn timed_out(&mut self, now: Moment) {
        self.timeouts.note(now);
    }

    /// The level as last read.
    pub(crate) fn last(&self) -> Level {
        self.level
    }

    /// Reads the signals and says at which level requests are answered now, and why.
    #[inline]
    pub(crate) fn read(&mut self, now: Moment, signals: &Signals) -> (Level, Reason) {
        let mut lowest = Level::L1;
        let mut cause = None;
        for threshold in &mut self.thresholds {
            let mut value = signals.get(threshold.signal);
            if threshold.signal == SignalKind::LlmTimeouts {
                let counted = self.timeouts.count(now);
                value = Some(value.map_or(counted, |value| value.max(counted)));
            }
            if let Some(value) = value {
                threshold.read(value);
            }
            if threshold.tripped && threshold.level > lowest {
                lowest = threshold.level;
                let found = value.unwrap_or(threshold.above);
                // Between the two thresholds it is the lower one that keeps it tripped.
                let compared = if found < threshold.above { threshold.below } else { threshold.above };
                cause = Some((threshold.signal, found, compared));
            }
        }
        let kept = now.since(self.since) >= self.dwell_ns;
        if lowest >= self.level || kept {
            if lowest != self.level {
                self.level = lowest;
                self.since = now;
            }
            self.cause = cause.map(|(signal, found, threshold)| Cause {
                why: Reason::of_level(lowest, signal),
                found,
                threshold,
            });
        }
        (self.level, self.cause.map_or(Reason::Normal, |cause| cause.why))
    }

    /// The comparison that put the ladder where it stands.
    pub(crate) fn compared(&self) -> Option<Refusal> {
        self.cause.map(|cause| Refusal::new(cause.why, cause.found, cause.threshold))
    }
}

/// The clearing threshold that goes with `above` when none is stated.
fn default_below(signal: SignalKind, above: f64) -> f64 {
    use SignalKind as K;
    match signal {
        K::Vram | K::VramMax | K::Kv | K::LlmBusy | K::ErrorRate => {
            (above - SHARE_BAND).max(above * OTHER_BAND)
        }
        // The others are no shares, or are none of the ladder's.
        _ => above * OTHER_BAND,
    }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
