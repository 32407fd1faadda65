//! A bucket for each business class, at the total rate times the class's factor (published cases H1 to
//! H3).
//!
//! The factors need not add up to one: in the published case they do not. A class that acquires three
//! times in a row has its factor cut until another class is served, so that one class alone does not
//! take its whole share of a busy hour.
//!
//! The rate may be moved by a control loop, and a larger rate is a promise to what stands behind. So a
//! rise is taken in steps: none larger than `largest_step`, and none within `step_cooldown_s` of the last
//! change. What is still missing then follows by itself. A lower rate is taken at once: it protects.

use super::bucket::{Bucket, MICRO, TOKEN, micro};
use super::{Key, Limiter, Refusal, Verdict, front, keyed::Keyed};
use crate::moment::nanos;
use crate::{CLASSES, Cost, Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the priority buckets; the published values are the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriorityBuckets {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart: each value has a bucket for each class.
    #[serde(default)]
    pub key: Key,
    /// Total rate: tokens per second of a class whose factor is 1.
    #[serde(default = "published_rate")]
    #[schemars(range(min = 0.001, max = 1e9))]
    pub rate_per_s: f64,
    /// What a class's share of the rate is.
    #[serde(default)]
    pub factor: Factors,
    /// What a full bucket holds, as the seconds in which it fills; at least one token.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub burst_s: f64,
    /// How many tokens of its bucket a request takes: one, or as many as its own.
    #[serde(default)]
    pub cost: Cost,
    /// After how many acquisitions in a row a class's factor falls.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub decay_after: u32,
    /// By what share it falls, until another class is served; 0: not at all.
    #[serde(default = "a_fifth")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub decay: f64,
    /// Largest rise of the rate in one step, as a share of the rate: 2 is +200 %.
    #[serde(default = "two")]
    #[schemars(range(min = 0.001, max = 1e6))]
    pub largest_step: f64,
    /// Least time from one change of the rate to the next rise, in seconds.
    #[serde(default = "half_a_minute")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub step_cooldown_s: f64,
}

/// The factor of each class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Factors {
    /// Factor of S0, the most important class.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub s0: f64,
    /// Factor of S1.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub s1: f64,
    /// Factor of S2.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub s2: f64,
    /// Factor of S3.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub s3: f64,
    /// Factor of S4.
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub s4: f64,
}

impl Default for Factors {
    fn default() -> Self {
        Self { s0: 1.5, s1: 1.2, s2: 1.0, s3: 0.8, s4: 0.5 }
    }
}

fn published_rate() -> f64 {
    500.0
}

fn one() -> f64 {
    1.0
}

fn two() -> f64 {
    2.0
}

fn three() -> u32 {
    3
}

fn a_fifth() -> f64 {
    0.2
}

fn half_a_minute() -> f64 {
    30.0
}

impl PriorityBuckets {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every module has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }

    /// The bucket of each class at this total rate, as it is and with its factor cut.
    fn sizes(&self, rate_per_s: f64) -> [[Size; 2]; CLASSES] {
        let Factors { s0, s1, s2, s3, s4 } = self.factor;
        [s0, s1, s2, s3, s4].map(|factor| {
            [1.0, 1.0 - self.decay].map(|cut| {
                let per_s = rate_per_s * factor * cut;
                Size { rate: micro(per_s), burst: micro(per_s * self.burst_s).max(TOKEN) }
            })
        })
    }
}

/// Rate and size of a bucket, in millionths of a token.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Size {
    rate: u64,
    burst: u64,
}

/// The buckets, and the rate that is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: PriorityBuckets,
    cooldown_ns: u64,
    /// The rate in force, on its way to the one of the parameters.
    rate_per_s: f64,
    changed: Option<Moment>,
    sizes: [[Size; 2]; CLASSES],
    buckets: Keyed<Classes>,
}

/// The buckets of one value of the key, and who was served last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Classes {
    buckets: [Bucket; CLASSES],
    last: usize,
    /// How many times in a row it was served.
    run: u32,
}

impl Classes {
    /// 1 for the class whose factor is cut, else 0.
    #[inline]
    fn cut(&self, class: usize, decay_after: u32) -> usize {
        usize::from(class == self.last && self.run >= decay_after)
    }

    /// How full its emptiest bucket is, 0 to 1.
    fn balance(&self, now: Moment, sizes: &[[Size; 2]; CLASSES], decay_after: u32) -> f64 {
        let share = |class: usize| {
            let Size { rate, burst } = sizes[class][self.cut(class, decay_after)];
            self.buckets[class].refilled(now, rate, burst).share_of(burst)
        };
        (0..CLASSES).map(share).fold(1.0, f64::min)
    }
}

impl State {
    /// Moves the rate towards the one that was asked for, as far as it may.
    #[inline]
    fn pursue(&mut self, now: Moment) {
        let (wanted, rate) = (self.parameters.rate_per_s, self.rate_per_s);
        if wanted == rate {
            return;
        }
        let resting = self.changed.is_some_and(|changed| now.since(changed) < self.cooldown_ns);
        if wanted > rate && resting {
            return;
        }
        self.rate_per_s = wanted.min(rate * (1.0 + self.parameters.largest_step));
        self.changed = Some(now);
        self.sizes = self.parameters.sizes(self.rate_per_s);
    }
}

impl Limiter for State {
    type Parameters = PriorityBuckets;

    fn new(parameters: &PriorityBuckets) -> Self {
        Self {
            cooldown_ns: nanos(parameters.step_cooldown_s),
            rate_per_s: parameters.rate_per_s,
            changed: None,
            sizes: parameters.sizes(parameters.rate_per_s),
            buckets: Keyed::new(parameters.key),
            parameters: parameters.clone(),
        }
    }

    fn adopt(&mut self, now: Moment, parameters: &PriorityBuckets) {
        self.parameters = parameters.clone();
        self.cooldown_ns = nanos(parameters.step_cooldown_s);
        self.sizes = parameters.sizes(self.rate_per_s);
        self.pursue(now);
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, request: &RequestView, _: &Signals) -> Verdict {
        self.pursue(now);
        let (sizes, decay_after) = (&self.sizes, self.parameters.decay_after);
        let fresh = || Classes {
            buckets: std::array::from_fn(|class| Bucket::full(now, sizes[class][0].burst)),
            last: 0,
            run: 0,
        };
        // With all buckets full nothing is left to remember but who was served last.
        let idle = |classes: &Classes| classes.balance(now, sizes, decay_after) >= 1.0;
        let classes = self.buckets.entry(key, fresh, idle);
        let class = usize::from(request.class).min(CLASSES - 1);
        let Size { rate, burst } = sizes[class][classes.cut(class, decay_after)];
        let cost = self.parameters.cost.of(request) * TOKEN;
        let bucket = &mut classes.buckets[class];
        *bucket = bucket.refilled(now, rate, burst);
        if cost > burst {
            let (burst, cost) = (burst as f64 / MICRO, cost as f64 / MICRO);
            return Verdict::Refuse(Refusal::new(Reason::PriorityBucketTooLarge, burst, cost));
        }
        if !bucket.take(cost) {
            let (level, needed) = (bucket.level() as f64 / MICRO, cost as f64 / MICRO);
            let retry_after_ns = bucket.until(cost, rate);
            let refusal = Refusal::new(Reason::PriorityBucketEmpty, level, needed);
            return Verdict::Refuse(Refusal { retry_after_ns, ..refusal });
        }
        if class == classes.last {
            classes.run = classes.run.saturating_add(1);
        } else {
            // The cut of the other class ends now: until now it was refilled at the lower rate.
            let last = classes.last;
            let Size { rate, burst } = sizes[last][classes.cut(last, decay_after)];
            classes.buckets[last] = classes.buckets[last].refilled(now, rate, burst);
            (classes.last, classes.run) = (class, 1);
        }
        Verdict::Pass
    }

    fn balance(&self, now: Moment, _: &Signals) -> Option<f64> {
        let balance = |classes: &Classes| classes.balance(now, &self.sizes, self.parameters.decay_after);
        Some(self.buckets.values().map(balance).fold(1.0, f64::min))
    }
}

#[cfg(test)]
#[path = "priority_buckets_tests.rs"]
mod tests;
