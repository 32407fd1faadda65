//! Who arrives, how often, and with what lengths.

use super::Moments;
use crate::mix::weights;
use forebay_engine::DistError;
use forebay_model::Trace;
use forebay_model::scenario::{Class, Loaded, RunPlan, Source};

/// Requests of one class from one source.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Index of the class.
    pub(super) class: usize,
    /// Per second, on average over the run; of a trace, over the time in which it sends.
    pub(super) rate_per_s: f64,
    pub(super) tokens_in: Moments,
    pub(super) tokens_out: Moments,
}

/// All that arrives.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) flows: Vec<Flow>,
    /// Busiest rate over average rate.
    peak: f64,
    /// Squared coefficient of variation of the gaps: 1 for Poisson.
    pub(super) arrival_scv: f64,
    pub(super) notes: Vec<String>,
}

/// Average and busiest rate of a source, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rate {
    mean: f64,
    peak: f64,
}

impl Demand {
    pub(super) fn of(loaded: &Loaded) -> Result<Self, DistError> {
        let scenario = &loaded.scenario;
        let workload = &scenario.workload;
        let mut demand = Self { flows: Vec::new(), peak: 1.0, arrival_scv: 1.0, notes: Vec::new() };
        let (mut mean, mut peak) = (0.0, 0.0);
        for (name, source) in &workload.sources {
            let trace = match source {
                Source::Trace { trace, .. } => loaded.inputs.traces.get(trace).map(AsRef::as_ref),
                _ => None,
            };
            let rate = rate(source, trace, &scenario.run)?;
            mean += rate.mean;
            peak += rate.peak;
            demand.add(loaded, name, trace, rate.mean)?;
            if let Source::ClosedLoop { users, .. } = source {
                demand.notes.push(format!(
                    "{users} users of a closed loop are counted as if answers came at once: the most they \
                     can ask"
                ));
            }
        }
        demand.peak = if mean > 0.0 { peak / mean } else { 1.0 };
        if let [Source::Renewal { gap_s }] = workload.sources.values().collect::<Vec<_>>()[..] {
            demand.arrival_scv = gap_s.sampler()?.scv();
        }
        Ok(demand)
    }

    pub(super) fn offered_per_s(&self) -> f64 {
        self.flows.iter().map(|flow| flow.rate_per_s).sum()
    }

    pub(super) fn peak_per_s(&self) -> f64 {
        self.offered_per_s() * self.peak
    }

    /// Spreads a source over the classes: by the trace where it names them, else by the source's weights.
    fn add(
        &mut self,
        loaded: &Loaded,
        source: &str,
        trace: Option<&Trace>,
        rate_per_s: f64,
    ) -> Result<(), DistError> {
        let classes = &loaded.scenario.workload.classes;
        let of_trace = trace.map(lengths);
        let weights: Vec<f64> = match trace.filter(|trace| !trace.classes().is_empty()) {
            Some(trace) => {
                let summary = trace.summary();
                let count = |name: &String| {
                    summary.classes.iter().find(|c| c.class == *name).map_or(0.0, |c| c.requests as f64)
                };
                classes.keys().map(count).collect()
            }
            None => weights(&loaded.scenario.workload, source),
        };
        let whole: f64 = weights.iter().sum();
        for (index, (class, weight)) in classes.values().zip(weights).enumerate() {
            if weight <= 0.0 || whole <= 0.0 || rate_per_s <= 0.0 {
                continue;
            }
            let (tokens_in, tokens_out) = match of_trace {
                Some(lengths) => lengths,
                None => own_lengths(class)?,
            };
            let rate_per_s = rate_per_s * weight / whole;
            self.flows.push(Flow { class: index, rate_per_s, tokens_in, tokens_out });
        }
        Ok(())
    }
}

/// Tokens in and out of a class; answers have at least one.
fn own_lengths(class: &Class) -> Result<(Moments, Moments), DistError> {
    let out = Moments::of(&class.tokens_out)?;
    let out = if out.mean < 1.0 { Moments::constant(1.0) } else { out };
    Ok((Moments::of(&class.tokens_in)?, out))
}

/// Tokens in and out of a trace.
fn lengths(trace: &Trace) -> (Moments, Moments) {
    let n = trace.rows().len() as f64;
    let moments = |of: fn(&forebay_model::trace::TraceRow) -> u32| {
        let values = || trace.rows().iter().map(|row| f64::from(of(row)));
        Moments { mean: values().sum::<f64>() / n, square: values().map(|x| x * x).sum::<f64>() / n }
    };
    (moments(|row| row.tokens_in), moments(|row| row.tokens_out))
}

fn rate(source: &Source, trace: Option<&Trace>, run: &RunPlan) -> Result<Rate, DistError> {
    let duration_s = run.duration_s;
    Ok(match source {
        Source::Poisson { rate_per_s, from_s, to_s } => {
            let on_s = (to_s.unwrap_or(duration_s).min(duration_s) - from_s).max(0.0);
            Rate { mean: rate_per_s * on_s / duration_s, peak: if on_s > 0.0 { *rate_per_s } else { 0.0 } }
        }
        Source::Renewal { gap_s } => {
            let rate = 1.0 / gap_s.sampler()?.mean();
            Rate { mean: rate, peak: rate }
        }
        Source::Profile { points, repeat_s, scale } => profile(points, *repeat_s, *scale, duration_s),
        Source::Microburst { at_s, count, within_s, every_s } => {
            let times = if *at_s > duration_s {
                0.0
            } else {
                1.0 + every_s.map_or(0.0, |every_s| ((duration_s - at_s) / every_s).floor())
            };
            let count = *count as f64;
            // All at one instant has no rate; it is counted as if within one second.
            let within_s = if *within_s > 0.0 { *within_s } else { 1.0 };
            Rate { mean: times * count / duration_s, peak: if times > 0.0 { count / within_s } else { 0.0 } }
        }
        Source::ClosedLoop { users, think_s } => {
            let rate = f64::from(*users) / think_s.sampler()?.mean().max(1e-9);
            Rate { mean: rate, peak: rate }
        }
        Source::Trace { speed, .. } => trace.map_or(Rate { mean: 0.0, peak: 0.0 }, |trace| {
            let end_ns = duration_s * 1e9 * speed;
            let arrived = trace.rows().partition_point(|row| row.at_ns as f64 <= end_ns);
            let peak = trace.summary().peak_per_s as f64 * speed;
            // Over the time in which it sends: what comes after its end is no load to plan for.
            let sends_s = (trace.duration_ns() as f64 * 1e-9 / speed).min(duration_s);
            let sends_s = if sends_s > 0.0 { sends_s } else { duration_s };
            Rate { mean: arrived as f64 / sends_s, peak }
        }),
    })
}

/// Average and busiest rate of a piecewise-linear profile over the run.
fn profile(points: &[(f64, f64)], repeat_s: Option<f64>, scale: f64, duration_s: f64) -> Rate {
    let period_s = repeat_s.unwrap_or(duration_s).min(duration_s);
    let Some(&(_, last)) = points.last() else { return Rate { mean: 0.0, peak: 0.0 } };
    let at = |t: f64| {
        let next = points.partition_point(|(second, _)| *second <= t);
        match (next.checked_sub(1).map(|before| points[before]), points.get(next)) {
            (Some((t0, r0)), Some(&(t1, r1))) => r0 + (r1 - r0) * (t - t0) / (t1 - t0),
            (None, Some(&(_, first))) => first,
            _ => last,
        }
    };
    // Straight pieces: the trapezoid rule between the corners is exact.
    let mut corners: Vec<f64> =
        points.iter().map(|(t, _)| *t).filter(|t| *t > 0.0 && *t < period_s).collect();
    corners.insert(0, 0.0);
    corners.push(period_s);
    let area: f64 = corners.windows(2).map(|w| 0.5 * (at(w[0]) + at(w[1])) * (w[1] - w[0])).sum();
    let peak = corners.iter().map(|t| at(*t)).fold(0.0, f64::max);
    Rate { mean: scale * area / period_s, peak: scale * peak }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(duration_s: f64) -> RunPlan {
        RunPlan { duration_s, drain_s: 0.0, warmup_s: 0.0, seed: 1, replications: 1, timeline_points: 10 }
    }

    #[test]
    fn a_profile_is_averaged_exactly() {
        // Up from 10 to 30 within 50 s, then level: (20 x 50 + 30 x 50) / 100.
        let rate = profile(&[(0.0, 10.0), (50.0, 30.0)], None, 2.0, 100.0);
        assert_eq!(rate, Rate { mean: 50.0, peak: 60.0 });
        let rate = profile(&[(0.0, 4.0)], Some(10.0), 1.0, 100.0);
        assert_eq!(rate, Rate { mean: 4.0, peak: 4.0 });
    }

    #[test]
    fn a_source_that_is_on_for_a_part_counts_for_it() {
        let source = Source::Poisson { rate_per_s: 8.0, from_s: 25.0, to_s: Some(75.0) };
        assert_eq!(rate(&source, None, &plan(100.0)).unwrap(), Rate { mean: 4.0, peak: 8.0 });
        let source = Source::Microburst { at_s: 10.0, count: 50, within_s: 2.0, every_s: Some(30.0) };
        assert_eq!(rate(&source, None, &plan(100.0)).unwrap(), Rate { mean: 2.0, peak: 25.0 });
    }
}
