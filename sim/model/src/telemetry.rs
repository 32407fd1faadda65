//! Telemetry: what the driver measures for its policies, and how late and how noisy it comes.
//!
//! Every period the service's meters are read once; the reading arrives `delay` later and passes the
//! filters of the policy on arrival. Rates and shares are taken over a sliding window of periods.

use crate::measure::{Ended, WindowCounts};
use crate::outcome::End;
use crate::scenario::Telemetry;
use forebay_engine::{Span, Stream, Time};
use forebay_policies::signal::SignalKind;
use forebay_policies::{Level, Reading};
use std::collections::VecDeque;

/// Answered latencies kept for the p95.
const LATENCIES: usize = 256;
const MILLION: f64 = 1e6;

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
    latencies: Newest,
    first_tokens: Newest,
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
    pub(crate) ttft_p95_s: Option<f64>,
    pub(crate) l3_share: Option<f64>,
    pub(crate) csat: Option<f64>,
    pub(crate) store_latency_s: Option<f64>,
    pub(crate) cache_hit_rate: Option<f64>,
}

/// The newest of some times, for their p95.
#[derive(Clone, Debug, Default)]
struct Newest {
    ns: Vec<u64>,
    next: usize,
    scratch: Vec<u64>,
}

impl Newest {
    #[inline]
    fn add(&mut self, time: Span) {
        if self.ns.len() < LATENCIES {
            self.ns.push(time.as_nanos());
        } else {
            self.ns[self.next] = time.as_nanos();
        }
        self.next = (self.next + 1) % LATENCIES;
    }

    fn p95_s(&mut self) -> Option<f64> {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.ns);
        let rank = (self.scratch.len() * 95).div_ceil(100).checked_sub(1)?;
        Some(*self.scratch.select_nth_unstable(rank).1 as f64 * 1e-9)
    }
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
            latencies: Newest::default(),
            first_tokens: Newest::default(),
            in_transit: VecDeque::new(),
            shown: [None; SignalKind::COUNT],
        }
    }

    /// A request has its end, with which the person was so satisfied, 0 to 1; `all`: signals that no meter
    /// shows by itself are wanted too.
    pub(crate) fn ended(&mut self, ended: &Ended, all: bool, satisfaction: Option<f64>) {
        self.now.ended += 1;
        if let Some(satisfaction) = satisfaction {
            self.now.rated += 1;
            self.now.satisfaction += (satisfaction * MILLION).round() as u64;
        }
        if ended.end != End::Answered {
            self.now.errors += 1;
            return;
        }
        self.latencies.add(ended.latency);
        if all {
            self.now.answered += 1;
            self.now.answered_l3 += u64::from(ended.answered_at() == Some(Level::L3));
            self.first_tokens.add(ended.ttft);
        }
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
        let sum = &self.sum;
        let ratio = |part: f64, whole: u64| (whole > 0).then(|| part / whole as f64);
        WindowShares {
            arrival_rate_per_s: self.sum.arrived as f64 / seconds,
            error_rate: ratio(sum.errors as f64, sum.ended),
            llm_timeouts: self.sum.llm_timeouts as f64,
            latency_p95_s: self.latencies.p95_s(),
            ttft_p95_s: self.first_tokens.p95_s(),
            l3_share: ratio(sum.answered_l3 as f64, sum.answered),
            csat: ratio(sum.satisfaction as f64 / MILLION, sum.rated),
            store_latency_s: ratio(sum.store_ns as f64 * 1e-9, sum.store_calls),
            cache_hit_rate: ratio(sum.cache_hits as f64, sum.cache_lookups),
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
    sum.answered = op(sum.answered, counts.answered);
    sum.answered_l3 = op(sum.answered_l3, counts.answered_l3);
    sum.satisfaction = op(sum.satisfaction, counts.satisfaction);
    sum.rated = op(sum.rated, counts.rated);
    sum.store_calls = op(sum.store_calls, counts.store_calls);
    sum.store_ns = op(sum.store_ns, counts.store_ns);
    sum.cache_lookups = op(sum.cache_lookups, counts.cache_lookups);
    sum.cache_hits = op(sum.cache_hits, counts.cache_hits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_a_cache_is_none_of_l3() {
        let mut meter = Meter::new(&Telemetry::default(), Stream::new(1, 0, "telemetry noise", 0));
        let rules = Ended {
            end: End::Answered,
            level: Level::L3,
            cached: false,
            right: true,
            in_time: true,
            counts: true,
            in_window: true,
            latency: Span::from_secs_f64(1.0),
            ttft: Span::from_secs_f64(1.0),
            waited: Span::ZERO,
        };
        for cached in [false, true, true, true] {
            meter.ended(&Ended { cached, ..rules }, true, None);
        }
        assert_eq!(meter.close_period().l3_share, Some(0.25));
    }
}
