//! How an adaptive limit moves: by additive increase and multiplicative decrease, or by the gradient of
//! latency.
//!
//! **AIMD.** While answers come in time and at least half the limit is in use, the limit grows by
//! `increase` for each limit's worth of answers. A failure, a time-out or a late answer multiplies it by
//! `decrease`, once for all that were already inside: they tell of the same congestion.
//!
//! **Gradient.** From time to time the limit is lowered to `measure_at`, so that nobody waits inside, and
//! the median latency of the next answers is taken as the least latency. Otherwise, at the end of each
//! window, gradient = least latency * (1 + buffer) / median latency of the window, held within 0.5 and 2,
//! and the limit goes to gradient * limit + sqrt(gradient * limit), smoothed. The root is the headroom by
//! which the limit feels its way upwards.
//!
//! The gradient's known failure (incident N19) is kept as `keep_old_samples`: when the limit is lowered
//! under load, those already inside still end, with the latency of the crowd. Taken into the measurement
//! they raise the least latency, the limit follows, the crowd grows, and the next measurement is higher
//! still. Only those that started after the limit was lowered may count.

use crate::moment::nanos;
use crate::{End, Moment, Outcome};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most latencies that a window keeps; of more answers only the newest so many count.
const MOST_SAMPLES: usize = 256;
/// Within what the gradient is held.
const GRADIENTS: [f64; 2] = [0.5, 2.0];

/// How the limit moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LimitLaw {
    /// Additive increase, multiplicative decrease.
    Aimd {
        /// By how much the limit grows for each limit's worth of answers.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0, max = 1_000.0))]
        increase: f64,
        /// The limit is multiplied by this when there are signs of congestion.
        #[serde(default = "nine_tenths")]
        #[schemars(range(min = 0.1, max = 1.0))]
        decrease: f64,
        /// An answer that took longer than this many seconds is a sign of congestion; if absent, only
        /// failures and time-outs are.
        #[serde(default)]
        #[schemars(range(min = 0.0, max = 3_600.0))]
        latency_above_s: Option<f64>,
    },
    /// Follows the ratio of the least latency to the present one.
    Gradient {
        /// Length of the window after which the limit moves, in seconds.
        #[serde(default = "tenth")]
        #[schemars(range(min = 0.001, max = 3_600.0))]
        window_s: f64,
        /// By what share the least latency may be exceeded without the limit falling.
        #[serde(default = "quarter")]
        #[schemars(range(min = 0.0, max = 10.0))]
        buffer: f64,
        /// What share of the way to its new value the limit goes: 1 is all of it.
        #[serde(default = "fifth")]
        #[schemars(range(min = 0.01, max = 1.0))]
        smoothing: f64,
        /// Time from one measurement of the least latency to the next, in seconds.
        #[serde(default = "a_minute")]
        #[schemars(range(min = 0.001, max = 86_400.0))]
        measure_every_s: f64,
        /// How many answers a measurement takes.
        #[serde(default = "fifty")]
        #[schemars(range(min = 1, max = 256))]
        measure_requests: u32,
        /// The limit during a measurement.
        #[serde(default = "three")]
        #[schemars(range(min = 1, max = 1_000_000))]
        measure_at: u32,
        /// Whether a measurement counts those that started before it. Wrong: under load the least latency
        /// climbs from one measurement to the next, and the limit with it.
        #[serde(default)]
        keep_old_samples: bool,
    },
}

fn one() -> f64 {
    1.0
}

fn nine_tenths() -> f64 {
    0.9
}

fn tenth() -> f64 {
    0.1
}

fn quarter() -> f64 {
    0.25
}

fn fifth() -> f64 {
    0.2
}

fn a_minute() -> f64 {
    60.0
}

fn fifty() -> u32 {
    50
}

fn three() -> u32 {
    3
}

/// The least and the greatest limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bounds {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

/// The limit for one value of a key, and what it has learnt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Law {
    limit: f64,
    /// The limit in force, a whole number.
    in_force: u32,
    phase: Phase,
    /// Latencies of the running window or measurement, in nanoseconds.
    samples: Vec<u64>,
    /// How many there were, those that were written over included.
    seen: u64,
    least_ns: u64,
    /// When it last heard of anything.
    heard: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum Phase {
    /// AIMD; the limit was last cut at this moment.
    Cut(Moment),
    /// The least latency is being measured since then.
    Measuring(Moment),
    /// The limit follows the latency; the window began, and the last measurement ended.
    Following { window: Moment, measured: Moment },
}

impl Law {
    pub(crate) fn new(law: &LimitLaw, initial: u32, bounds: Bounds) -> Self {
        let (phase, samples) = match law {
            LimitLaw::Aimd { .. } => (Phase::Cut(Moment::ZERO), Vec::new()),
            LimitLaw::Gradient { .. } => (Phase::Measuring(Moment::ZERO), Vec::with_capacity(MOST_SAMPLES)),
        };
        let limit = f64::from(initial);
        let mut fresh =
            Self { limit, in_force: 0, phase, samples, seen: 0, least_ns: 1, heard: Moment::ZERO };
        fresh.settle(law, bounds);
        fresh
    }

    /// How many may be inside now.
    #[inline]
    pub(crate) fn limit(&self) -> u32 {
        self.in_force
    }

    /// Whether it has heard nothing for so long that what it learnt says nothing any more.
    pub(crate) fn forgotten(&self, now: Moment, after_ns: u64) -> bool {
        now.since(self.heard) >= after_ns
    }

    /// Puts the limit within its bounds and in force.
    pub(crate) fn settle(&mut self, law: &LimitLaw, bounds: Bounds) {
        // `max` then `min` rather than `clamp`, which panics when the tuner crosses the two ends.
        self.limit = self.limit.max(f64::from(bounds.least)).min(f64::from(bounds.most));
        self.in_force = match (law, self.phase) {
            (LimitLaw::Gradient { measure_at, .. }, Phase::Measuring(_)) => {
                (*measure_at).min(self.limit as u32)
            }
            _ => self.limit as u32,
        };
    }

    /// Learns from one that ended, while `inside` (this one included) were inside.
    pub(crate) fn learn(&mut self, now: Moment, end: &End, inside: u32, law: &LimitLaw, bounds: Bounds) {
        self.heard = now;
        match law {
            LimitLaw::Aimd { increase, decrease, latency_above_s } => {
                let late = latency_above_s.is_some_and(|above| end.latency_ns > nanos(above));
                self.add_or_cut(now, end, inside, *increase, *decrease, late);
            }
            LimitLaw::Gradient { .. } => self.follow(now, end, law),
        }
        self.settle(law, bounds);
    }

    fn add_or_cut(&mut self, now: Moment, end: &End, inside: u32, increase: f64, decrease: f64, late: bool) {
        let congested = match end.outcome {
            Outcome::Answered => late,
            Outcome::Failed | Outcome::TimedOut => true,
            // Neither says how the service is.
            Outcome::Refused | Outcome::Gone => return,
        };
        let Phase::Cut(cut) = self.phase else { return };
        let started = Moment(now.0.saturating_sub(end.latency_ns));
        if congested {
            if started >= cut {
                self.limit *= decrease;
                self.phase = Phase::Cut(now);
            }
        } else if f64::from(inside) * 2.0 >= self.limit {
            self.limit += increase / self.limit.max(1.0);
        }
    }

    fn follow(&mut self, now: Moment, end: &End, law: &LimitLaw) {
        let LimitLaw::Gradient {
            window_s,
            buffer,
            smoothing,
            measure_every_s,
            measure_requests,
            keep_old_samples,
            ..
        } = *law
        else {
            return;
        };
        // A quick failure is no quick answer; one that gave up says nothing of the service.
        if !matches!(end.outcome, Outcome::Answered | Outcome::TimedOut) {
            return;
        }
        let started = Moment(now.0.saturating_sub(end.latency_ns));
        match self.phase {
            Phase::Measuring(since) => {
                if started < since && !keep_old_samples {
                    return;
                }
                self.sample(end.latency_ns);
                if self.seen >= u64::from(measure_requests) {
                    self.least_ns = self.median();
                    self.phase = Phase::Following { window: now, measured: now };
                }
            }
            Phase::Following { window, measured } => {
                self.sample(end.latency_ns);
                if now.since(window) < nanos(window_s) {
                    return;
                }
                let allowed = self.least_ns as f64 * (1.0 + buffer);
                let gradient = (allowed / self.median() as f64).clamp(GRADIENTS[0], GRADIENTS[1]);
                let aim = gradient * self.limit;
                self.limit += smoothing * (aim + libm::sqrt(aim) - self.limit);
                self.phase = if now.since(measured) >= nanos(measure_every_s) {
                    Phase::Measuring(now)
                } else {
                    Phase::Following { window: now, measured }
                };
            }
            Phase::Cut(_) => {}
        }
    }

    fn sample(&mut self, latency_ns: u64) {
        if self.samples.len() < MOST_SAMPLES {
            self.samples.push(latency_ns);
        } else {
            self.samples[(self.seen % MOST_SAMPLES as u64) as usize] = latency_ns;
        }
        self.seen += 1;
    }

    /// The median of the samples, in nanoseconds, 1 at least; they are forgotten then.
    fn median(&mut self) -> u64 {
        let middle = self.samples.len() / 2;
        let median = if self.samples.is_empty() { 1 } else { *self.samples.select_nth_unstable(middle).1 };
        self.samples.clear();
        self.seen = 0;
        median.max(1)
    }
}
