//! What is measured while a run goes on: streaming statistics, whose memory does not grow with the run.

use crate::outcome::End;
use forebay_engine::{Histogram, Span, Time, TimeWeighted, Welford};
use forebay_policies::Level;

/// Statistics of the requests of one key: a class, a tier, a level, an endpoint, a tenant, or all.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) ended: u64,
    pub(crate) answered: u64,
    pub(crate) right: u64,
    /// Answers given within the measured window, whenever their requests were born: the rates.
    pub(crate) answered_in_window: u64,
    /// Those of them that were right and in time.
    pub(crate) good_in_window: u64,
    pub(crate) latency: Histogram,
    pub(crate) ttft: Histogram,
    /// Time spent waiting in queues by requests that were answered, seconds.
    pub(crate) waited: Welford,
}

impl Group {
    /// For all requests: full resolution.
    pub(crate) fn fine() -> Self {
        Self::with(Histogram::new)
    }

    /// For a breakdown: two digits.
    pub(crate) fn coarse() -> Self {
        Self::with(Histogram::coarse)
    }

    fn with(histogram: impl Fn() -> Histogram) -> Self {
        Self {
            ended: 0,
            answered: 0,
            right: 0,
            answered_in_window: 0,
            good_in_window: 0,
            latency: histogram(),
            ttft: histogram(),
            waited: Welford::new(),
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, ended: &Ended) {
        if ended.in_window && ended.end == End::Answered {
            self.answered_in_window += 1;
            self.good_in_window += u64::from(ended.right && ended.in_time);
        }
        if !ended.counts {
            return;
        }
        self.ended += 1;
        if let End::Answered = ended.end {
            self.answered += 1;
            self.right += u64::from(ended.right);
            self.latency.record(ended.latency);
            self.ttft.record(ended.ttft);
            self.waited.add(ended.waited.as_secs_f64());
        }
    }

    /// Requests that ended neither answered nor handed over.
    pub(crate) fn errors(&self) -> u64 {
        self.ended - self.answered
    }
}

/// The end of a request, as the statistics need it.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, read by name")]
pub(crate) struct Ended {
    pub(crate) end: End,
    pub(crate) level: Level,
    /// It came from a cache, and is no answer of its level.
    pub(crate) cached: bool,
    pub(crate) right: bool,
    pub(crate) in_time: bool,
    /// Its request was born after the warm-up.
    pub(crate) counts: bool,
    /// It ended within the measured window.
    pub(crate) in_window: bool,
    pub(crate) latency: Span,
    pub(crate) ttft: Span,
    pub(crate) waited: Span,
}

impl Ended {
    /// The level that answered it; an answer from a cache is no level's.
    #[inline]
    pub(crate) fn answered_at(&self) -> Option<Level> {
        (self.end == End::Answered && !self.cached).then_some(self.level)
    }
}

/// Statistics of one stage.
#[derive(Clone, Debug)]
pub(crate) struct StageMeasure {
    /// Parallel servers, slots or sequences, for the utilisation.
    pub(crate) capacity: u64,
    pub(crate) wait: Histogram,
    pub(crate) wait_s: Welford,
    /// Calls that waited at all.
    pub(crate) delayed: u64,
    /// Calls that came, those turned away included.
    pub(crate) offered: u64,
    pub(crate) turned_away: u64,
    pub(crate) batches: u64,
    pub(crate) batched_calls: u64,
    /// Share of the engines' KV memory in use, as sampled; of a batching engine only.
    pub(crate) kv: Welford,
    pub(crate) busy: TimeWeighted<u64>,
    pub(crate) queue: TimeWeighted<u64>,
    /// Time-weighted values at the end of the measured window.
    pub(crate) closed: Option<StageClosed>,
}

/// Time averages of a stage over the measured window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StageClosed {
    pub(crate) utilisation: f64,
    pub(crate) busy_mean: f64,
    pub(crate) queue_mean: f64,
    pub(crate) queue_max: f64,
}

impl StageMeasure {
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            wait: Histogram::new(),
            wait_s: Welford::new(),
            delayed: 0,
            offered: 0,
            turned_away: 0,
            batches: 0,
            batched_calls: 0,
            kv: Welford::new(),
            busy: TimeWeighted::new(Time::ZERO, 0),
            queue: TimeWeighted::new(Time::ZERO, 0),
            closed: None,
        }
    }

    /// A call's wait has ended, by service or by leaving.
    #[inline]
    pub(crate) fn waited(&mut self, wait: Span) {
        self.wait.record(wait);
        self.wait_s.add(wait.as_secs_f64());
        self.delayed += u64::from(wait > Span::ZERO);
    }

    /// Forgets what was measured before `now`.
    pub(crate) fn restart(&mut self, now: Time) {
        let (busy, queue) = (self.busy.level(), self.queue.level());
        *self = Self { capacity: self.capacity, ..Self::new(self.capacity) };
        self.busy = TimeWeighted::new(now, busy);
        self.queue = TimeWeighted::new(now, queue);
    }

    /// Fixes the time averages at the end of the measured window.
    pub(crate) fn close(&mut self, now: Time) {
        let busy_mean = self.busy.mean(now);
        self.closed = Some(StageClosed {
            utilisation: busy_mean / self.capacity as f64,
            busy_mean,
            queue_mean: self.queue.mean(now),
            queue_max: self.queue.max() as f64,
        });
    }
}

/// A ratio's running sums, for the shares the telemetry reports over its window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowCounts {
    pub(crate) arrived: u64,
    pub(crate) ended: u64,
    pub(crate) errors: u64,
    pub(crate) llm_timeouts: u64,
    pub(crate) answered: u64,
    pub(crate) answered_l3: u64,
    /// Millionths of satisfaction, and of how many people.
    pub(crate) satisfaction: u64,
    pub(crate) rated: u64,
    /// Calls of vector stores, and their nanoseconds.
    pub(crate) store_calls: u64,
    pub(crate) store_ns: u64,
    pub(crate) cache_lookups: u64,
    pub(crate) cache_hits: u64,
}
