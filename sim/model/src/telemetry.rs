//! Telemetry: what the driver measures for its policies, and how late and how noisy it comes.
//!
//! Every period the service's meters are read once; the reading arrives `delay` later and passes the
//! filters of the policy on arrival. Rates and shares are taken over a sliding window of periods.

use crate::measure::WindowCounts;
use crate::scenario::Telemetry;
use forebay_engine::{Span, Stream, Time};
use forebay_policies::Reading;
use forebay_policies::signal::SignalKind;
use std::collections::VecDeque;

/// Answered latencies kept for the p95.
const LATENCIES: usize = 256;

#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) period: Span,
    pub(crate) delay: Span,
    noise: f64,
    stream: Stream,
    /// Counts of each past period in the window, oldest first.
    window: VecDeque<WindowCounts>,
    periods: usize,
    sum: WindowCounts,
    /// Counts of the present period.
    pub(crate) now: WindowCounts,
    latencies_ns: Vec<u64>,
    next_latency: usize,
    scratch: Vec<u64>,
    /// Readings on their way.
    pub(crate) in_transit: VecDeque<Reading>,
    /// What the meters showed last, while they worked.
    pub(crate) shown: [Option<f64>; SignalKind::COUNT],
}

/// Shares over the window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowShares {
    pub(crate) arrival_rate_per_s: f64,
    pub(crate) error_rate: Option<f64>,
    pub(crate) llm_timeouts: f64,
    pub(crate) latency_p95_s: Option<f64>,
    pub(crate) store_latency_s: Option<f64>,
    pub(crate) cache_hit_rate: Option<f64>,
}

impl Meter {
    pub(crate) fn new(telemetry: &Telemetry, stream: Stream) -> Self {
        let periods = libm::ceil(telemetry.window_s / telemetry.period_s).clamp(1.0, 1e6) as usize;
        Self {
            period: Span::from_secs_f64(telemetry.period_s),
            delay: Span::from_secs_f64(telemetry.delay_s),
            noise: telemetry.noise,
            stream,
            window: VecDeque::with_capacity(periods + 1),
            periods,
            sum: WindowCounts::default(),
            now: WindowCounts::default(),
            latencies_ns: Vec::with_capacity(LATENCIES),
            next_latency: 0,
            scratch: Vec::with_capacity(LATENCIES),
            in_transit: VecDeque::new(),
            shown: [None; SignalKind::COUNT],
        }
    }

    /// An answer took this long.
    #[inline]
    pub(crate) fn answered(&mut self, latency: Span) {
        let ns = latency.as_nanos();
        if self.latencies_ns.len() < LATENCIES {
            self.latencies_ns.push(ns);
        } else {
            self.latencies_ns[self.next_latency] = ns;
        }
        self.next_latency = (self.next_latency + 1) % LATENCIES;
    }

    /// A measured memory share, with noise; stays in 0..=1.
    pub(crate) fn noisy(&mut self, share: f64) -> f64 {
        if self.noise == 0.0 {
            return share;
        }
        (share + self.noise * forebay_engine::normal_quantile(self.stream.uniform())).clamp(0.0, 1.0)
    }

    /// Closes the present period, and gives the shares over the window that ends with it.
    pub(crate) fn close_period(&mut self) -> WindowShares {
        let present = std::mem::take(&mut self.now);
        self.window.push_back(present);
        add(&mut self.sum, present, u64::wrapping_add);
        if self.window.len() > self.periods
            && let Some(old) = self.window.pop_front()
        {
            add(&mut self.sum, old, u64::wrapping_sub);
        }
        let seconds = self.period.as_secs_f64() * self.window.len() as f64;
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.latencies_ns);
        let p95 = (!self.scratch.is_empty()).then(|| {
            let rank = (self.scratch.len() * 95).div_ceil(100) - 1;
            *self.scratch.select_nth_unstable(rank).1 as f64 * 1e-9
        });
        WindowShares {
            arrival_rate_per_s: self.sum.arrived as f64 / seconds,
            error_rate: (self.sum.ended > 0).then(|| self.sum.errors as f64 / self.sum.ended as f64),
            llm_timeouts: self.sum.llm_timeouts as f64,
            latency_p95_s: p95,
            store_latency_s: (self.sum.store_calls > 0)
                .then(|| self.sum.store_ns as f64 * 1e-9 / self.sum.store_calls as f64),
            cache_hit_rate: (self.sum.cache_lookups > 0)
                .then(|| self.sum.cache_hits as f64 / self.sum.cache_lookups as f64),
        }
    }

    /// When the next sample is due.
    pub(crate) fn next(&self, now: Time) -> Time {
        now + self.period
    }
}

fn add(sum: &mut WindowCounts, counts: WindowCounts, op: impl Fn(u64, u64) -> u64) {
    sum.arrived = op(sum.arrived, counts.arrived);
    sum.ended = op(sum.ended, counts.ended);
    sum.errors = op(sum.errors, counts.errors);
    sum.llm_timeouts = op(sum.llm_timeouts, counts.llm_timeouts);
    sum.store_calls = op(sum.store_calls, counts.store_calls);
    sum.store_ns = op(sum.store_ns, counts.store_ns);
    sum.cache_lookups = op(sum.cache_lookups, counts.cache_lookups);
    sum.cache_hits = op(sum.cache_hits, counts.cache_hits);
}
