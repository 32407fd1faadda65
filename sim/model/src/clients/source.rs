//! Sources of arrivals: each knows when its next request comes, from its own random stream.
//!
//! Time-varying rates are drawn by inverting the integrated rate, not by thinning: one random number an
//! arrival, so that two rates that differ little give crowds that differ little.

use crate::scenario::Source;
use crate::trace::Trace;
use forebay_engine::{Dist, DistError, Sampler, Span, Stream, Time};
use std::sync::Arc;

/// One arrival: when, and for a replayed trace which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) at: Time,
    pub(crate) row: Option<u32>,
}

/// A source while a run goes on. Closed-loop users are driven by the world (their next question depends
/// on the answer); here they only say how long they think.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    law: Law,
    /// Exponential of mean 1: the work between two Poisson arrivals.
    unit: Sampler,
    stream: Stream,
    end: Time,
}

#[derive(Clone, Debug)]
enum Law {
    Poisson { mean_gap_s: f64, from: Time, to: Time },
    Renewal { gap: Sampler },
    Profile(Profile),
    Burst { at: Time, count: u64, within: Span, every: Option<Span>, sent: u64 },
    Closed { users: u32, think: Sampler },
    Trace { trace: Arc<Trace>, speed: f64, next: u32 },
}

impl Arrivals {
    /// A source as the scenario describes it; `trace` is needed for a replay only.
    pub(crate) fn new(
        source: &Source,
        trace: Option<Arc<Trace>>,
        stream: Stream,
        end: Time,
    ) -> Result<Self, DistError> {
        let seconds = |s: f64| Time::ZERO + Span::from_secs_f64(s);
        let law = match source {
            Source::Poisson { rate_per_s, from_s, to_s } => Law::Poisson {
                mean_gap_s: if *rate_per_s > 0.0 { 1.0 / rate_per_s } else { f64::INFINITY },
                from: seconds(*from_s),
                to: to_s.map_or(Time::MAX, seconds),
            },
            Source::Renewal { gap_s } => Law::Renewal { gap: gap_s.sampler()? },
            Source::Profile { points, repeat_s, scale } => {
                Law::Profile(Profile::new(points, *repeat_s, *scale))
            }
            Source::Microburst { at_s, count, within_s, every_s } => Law::Burst {
                at: seconds(*at_s),
                count: *count,
                within: Span::from_secs_f64(*within_s),
                every: every_s.map(Span::from_secs_f64),
                sent: 0,
            },
            Source::ClosedLoop { users, think_s } => Law::Closed { users: *users, think: think_s.sampler()? },
            Source::Trace { speed, .. } => match trace {
                Some(trace) => Law::Trace { trace, speed: *speed, next: 0 },
                None => Law::Burst { at: Time::MAX, count: 0, within: Span::ZERO, every: None, sent: 0 },
            },
        };
        Ok(Self { law, unit: Dist::Exponential { mean: 1.0 }.sampler()?, stream, end })
    }

    /// The next arrival after `now`, or none before the run's end.
    pub(crate) fn next(&mut self, now: Time) -> Option<Due> {
        let mut row = None;
        let at = match &mut self.law {
            Law::Poisson { mean_gap_s, from, to } => {
                let gap = self.unit.sample(&mut self.stream) * *mean_gap_s;
                if !gap.is_finite() {
                    return None;
                }
                let at = now.max(*from) + Span::from_secs_f64(gap);
                (at <= *to).then_some(at)?
            }
            Law::Renewal { gap } => now + Span::from_secs_f64(gap.sample(&mut self.stream)),
            Law::Profile(profile) => {
                let work = self.unit.sample(&mut self.stream);
                Time::ZERO + Span::from_secs_f64(profile.after(now.as_secs_f64(), work)?)
            }
            Law::Burst { at, count, within, every, sent } => {
                if *sent == *count {
                    *at += (*every)?;
                    *sent = 0;
                }
                if *count == 0 {
                    return None;
                }
                let offset = u128::from(within.as_nanos()) * u128::from(*sent) / u128::from(*count);
                *sent += 1;
                *at + Span::from_nanos(offset as u64)
            }
            Law::Closed { .. } => return None,
            Law::Trace { trace, speed, next } => {
                let found = trace.rows().get(*next as usize)?;
                row = Some(*next);
                *next += 1;
                let at = if *speed == 1.0 {
                    Span::from_nanos(found.at_ns)
                } else {
                    Span::from_secs_f64(found.at_ns as f64 * 1e-9 / *speed)
                };
                Time::ZERO + at
            }
        };
        (at < self.end).then_some(Due { at, row })
    }

    /// Users of a closed loop; 0 for every other source.
    pub(crate) fn users(&self) -> u32 {
        if let Law::Closed { users, .. } = self.law { users } else { 0 }
    }

    /// How long a closed-loop user thinks, from that user's own chance.
    pub(crate) fn think(&self, draw: &mut forebay_engine::Draw) -> Span {
        match &self.law {
            Law::Closed { think, .. } => Span::from_secs_f64(think.sample(draw)),
            _ => Span::ZERO,
        }
    }

    /// The trace that is replayed.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        if let Law::Trace { trace, .. } = &self.law { Some(trace) } else { None }
    }
}

/// A piecewise-linear rate over time, and the inverse of its integral.
#[derive(Clone, Debug)]
struct Profile {
    points: Vec<(f64, f64)>,
    repeat_s: Option<f64>,
    /// Integral over one period, if it repeats.
    period_work: f64,
}

impl Profile {
    fn new(points: &[(f64, f64)], repeat_s: Option<f64>, scale: f64) -> Self {
        let points: Vec<_> = points.iter().map(|&(t, rate)| (t, rate * scale)).collect();
        let mut profile = Self { points, repeat_s: None, period_work: 0.0 };
        if let Some(period) = repeat_s {
            profile.period_work = profile.integral(0.0, period);
            profile.repeat_s = Some(period);
        }
        profile
    }

    /// Segments `(from, to, rate at from, rate at to)`; before the first point its rate holds, and after
    /// the last point the last rate.
    fn segments(&self) -> impl Iterator<Item = (f64, f64, f64, f64)> + '_ {
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        std::iter::once((0.0, first.0, first.1, first.1))
            .chain(self.points.windows(2).map(|w| (w[0].0, w[1].0, w[0].1, w[1].1)))
            .chain(std::iter::once((last.0, f64::INFINITY, last.1, last.1)))
            .filter(|s| s.1 > s.0)
    }

    fn integral(&self, from: f64, to: f64) -> f64 {
        self.segments()
            .map(|(a, b, ra, rb)| {
                let (x, y) = (a.max(from), b.min(to));
                if y <= x {
                    return 0.0;
                }
                let slope = if b.is_finite() { (rb - ra) / (b - a) } else { 0.0 };
                let (rx, ry) = (ra + slope * (x - a), ra + slope * (y - a));
                0.5 * (rx + ry) * (y - x)
            })
            .sum()
    }

    /// The time at which the integral from `now` reaches `work`.
    fn after(&self, now: f64, mut work: f64) -> Option<f64> {
        let Some(period) = self.repeat_s else { return self.within(now, work) };
        let mut start = libm::floor(now / period) * period;
        let mut offset = now - start;
        loop {
            let left = self.integral(offset, period);
            if work <= left {
                return self.within(offset, work).map(|t| start + t);
            }
            work -= left;
            if self.period_work <= 0.0 {
                return None;
            }
            // Skips whole empty stretches at once, so that a tiny rate does not loop period by period.
            let whole = libm::floor(work / self.period_work);
            work -= whole * self.period_work;
            start += period * (1.0 + whole);
            offset = 0.0;
        }
    }

    fn within(&self, now: f64, mut work: f64) -> Option<f64> {
        for (a, b, ra, rb) in self.segments() {
            if b <= now {
                continue;
            }
            let x = a.max(now);
            let slope = if b.is_finite() { (rb - ra) / (b - a) } else { 0.0 };
            let rate = ra + slope * (x - a);
            let here = if b.is_finite() { 0.5 * (rate + rb) * (b - x) } else { f64::INFINITY };
            if work <= here && (rate > 0.0 || slope > 0.0) {
                // Root of rate d + slope d^2 / 2 = work, in the form that stays exact for small slopes.
                let root = (rate * rate + 2.0 * slope * work).max(0.0).sqrt();
                return Some((x + 2.0 * work / (rate + root)).min(b));
            }
            if b.is_infinite() {
                return None;
            }
            work -= here;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &Source, end_s: f64) -> Vec<f64> {
        let stream = Stream::new(1, 0, "arrivals", 0);
        let mut arrivals =
            Arrivals::new(source, None, stream, Time::ZERO + Span::from_secs_f64(end_s)).expect("valid");
        let (mut now, mut out) = (Time::ZERO, Vec::new());
        while let Some(due) = arrivals.next(now) {
            now = due.at;
            out.push(now.as_secs_f64());
        }
        out
    }

    #[test]
    fn a_profile_sends_what_its_integral_says() {
        let points = vec![(0.0, 0.0), (100.0, 200.0), (200.0, 0.0)];
        let times = all(&Source::Profile { points, repeat_s: None, scale: 1.0 }, 1000.0);
        let expected = 20_000.0_f64;
        assert!((times.len() as f64 - expected).abs() < 4.0 * expected.sqrt(), "{}", times.len());
        let early = times.iter().filter(|&&t| t < 50.0).count() as f64;
        assert!((early - 2500.0).abs() < 4.0 * 50.0, "{early}");
        assert!(times.iter().all(|&t| t <= 200.0));
    }

    #[test]
    fn a_repeating_profile_repeats() {
        let points = vec![(0.0, 10.0), (10.0, 10.0), (10.5, 0.0), (20.0, 0.0)];
        let times = all(&Source::Profile { points, repeat_s: Some(20.0), scale: 2.0 }, 2000.0);
        let late = times.iter().filter(|&&t| t % 20.0 > 10.5).count();
        assert_eq!(late, 0);
        let expected = 100.0 * (200.0 + 5.0);
        assert!((times.len() as f64 - expected).abs() < 4.0 * f64::sqrt(expected), "{}", times.len());
    }

    #[test]
    fn a_microburst_is_even_and_repeats() {
        let source = Source::Microburst { at_s: 1.0, count: 4, within_s: 0.1, every_s: Some(10.0) };
        let times = all(&source, 12.0);
        assert_eq!(times, [1.0, 1.025, 1.05, 1.075, 11.0, 11.025, 11.05, 11.075]);
    }

    #[test]
    fn poisson_stays_in_its_window_and_zero_rate_sends_nothing() {
        let source = Source::Poisson { rate_per_s: 50.0, from_s: 10.0, to_s: Some(20.0) };
        let times = all(&source, 100.0);
        assert!(times.iter().all(|&t| (10.0..=20.0).contains(&t)));
        assert!((400..600).contains(&times.len()));
        assert!(all(&Source::Poisson { rate_per_s: 0.0, from_s: 0.0, to_s: None }, 100.0).is_empty());
    }
}
