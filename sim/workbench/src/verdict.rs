//! The verdict that stands before any latency: stable, backlogged or overloaded; and the bottleneck.
//!
//! **Rule.** Take the requests in the system over time, less those that the present arrivals explain by
//! themselves (arrival rate times the time to get through undisturbed, Little's law): the *backlog*.
//! - **overloaded**: over the second half of the arrivals the backlog grows. The slope of a least-squares
//!   line through ten averages of it is above 0 with 97.5 % confidence (over replications; for a single
//!   one, by the scatter of the averages about the line), and amounts to more than 1 % of the arrivals.
//! - **backlogged**: it does not grow, but in some twentieth of the run requests took more than three
//!   times the undisturbed time to get through; or a stage is busy 98 % of the time or more, so that only
//!   limits hold its queue; or the drain did not empty the system.
//! - **stable**: neither.
//!
//! A number in system that grows linearly is what tells an unstable queue (Wieland, Pasupathy and
//! Schmeiser, "Queueing-network stability: simulation-based checking", Winter Simulation Conference 2003);
//! averages in place of the points, because neighbouring points are correlated. Utilisation alone was
//! rejected: above capacity it reads 100 % whether people are waiting, are turned away or have left.

use crate::show::seconds;
use crate::summary::MetricSummary;
use forebay_engine::{Interval, student_t_quantile};
use forebay_model::scenario::RunPlan;
use forebay_model::timeline::Point;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// How the service stands its load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It keeps up.
    Stable,
    /// It keeps up with a standing queue, or built up a backlog that no longer grows.
    Backlogged,
    /// It falls further and further behind.
    Overloaded,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "stable",
            Self::Backlogged => "backlogged",
            Self::Overloaded => "overloaded",
        })
    }
}

/// Averages through which the slope is laid.
const BATCHES: usize = 10;
/// Parts of the run in which the time to get through is compared.
const PARTS: usize = 20;
/// Growth that matters, as a share of the arrivals.
const GROWTH: f64 = 0.01;
/// A delay that matters, in undisturbed times.
const DELAY: f64 = 3.0;
/// Utilisation from which only limits hold a queue.
const SATURATED: f64 = 0.98;

/// How the backlog of one replication went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Growth over the second half of the arrivals, requests per second.
    pub(crate) growth_per_s: f64,
    /// Half of the 95 % interval of the growth by its own scatter.
    pub(crate) growth_half_width: f64,
    /// Arrivals per second in that half.
    pub(crate) arrivals_per_s: f64,
    /// Largest time to get through, in undisturbed times.
    pub(crate) delay: f64,
    /// The drain was long enough to empty a service that keeps up, and did not.
    pub(crate) undrained: bool,
}

impl Backlog {
    /// From the timeline of a replication.
    pub(crate) fn of(points: &[Point], plan: &RunPlan, in_flight_at_end: u64) -> Self {
        let window = |from: f64| {
            let last = points.partition_point(|p| p.t_s <= plan.duration_s * (1.0 + 1e-9));
            let first = points.partition_point(|p| p.t_s <= from).min(last);
            &points[first..last]
        };
        let parts = averages(window(plan.warmup_s), PARTS, plan);
        let through: Vec<f64> = parts.iter().filter_map(|part| part.through_s).collect();
        let undisturbed_s = quantile(&through, 0.25);
        let worst_s = quantile(&through, 1.0);
        let half = averages(window(plan.duration_s / 2.0), BATCHES, plan);
        let line: Vec<(f64, f64)> = half
            .iter()
            .map(|part| (part.at_s, part.in_system - undisturbed_s * part.arrivals_per_s))
            .collect();
        let (growth_per_s, growth_half_width) = slope(&line).unwrap_or((0.0, f64::INFINITY));
        let arrivals = half.iter().map(|part| part.arrivals_per_s).sum::<f64>();
        Self {
            growth_per_s,
            growth_half_width,
            arrivals_per_s: arrivals / half.len().max(1) as f64,
            delay: if undisturbed_s > 0.0 { worst_s / undisturbed_s } else { 1.0 },
            undrained: in_flight_at_end > 0 && plan.drain_s > DELAY * undisturbed_s,
        }
    }
}

/// What the backlogs of all replications, and the busiest stage, say together.
pub(crate) fn judge(backlogs: &[Backlog], busiest: Option<f64>) -> Verdict {
    let mean =
        |value: fn(&Backlog) -> f64| backlogs.iter().map(value).sum::<f64>() / backlogs.len().max(1) as f64;
    let growth = mean(|b| b.growth_per_s);
    let half_width = match backlogs {
        [] => f64::INFINITY,
        [single] => single.growth_half_width,
        _ => {
            let slopes: Vec<f64> = backlogs.iter().map(|b| b.growth_per_s).collect();
            Interval::of(&slopes, 0.95).half_width()
        }
    };
    if growth > half_width && growth > GROWTH * mean(|b| b.arrivals_per_s) {
        return Verdict::Overloaded;
    }
    let undrained = backlogs.iter().filter(|b| b.undrained).count() * 2 > backlogs.len();
    let held_by_limits = busiest.is_some_and(|utilisation| utilisation >= SATURATED);
    if mean(|b| b.delay) > DELAY || held_by_limits || undrained {
        return Verdict::Backlogged;
    }
    Verdict::Stable
}

/// A part of the timeline, averaged.
#[derive(Clone, Copy, Debug)]
struct Part {
    at_s: f64,
    in_system: f64,
    arrivals_per_s: f64,
    /// Mean latency of its answers: unlike the number in system, of which the timeline has samples, an
    /// average over all of them. Absent without answers.
    through_s: Option<f64>,
}

/// The averages of equal parts; points that do not fill them are left out at the beginning.
fn averages(points: &[Point], parts: usize, plan: &RunPlan) -> Vec<Part> {
    let size = points.len() / parts;
    if size == 0 {
        return Vec::new();
    }
    let step_s = plan.duration_s / f64::from(plan.timeline_points);
    let of = |part: &[Point]| {
        let n = part.len() as f64;
        let answers = |p: &Point| p.answered.iter().sum::<u64>() as f64;
        let answered: f64 = part.iter().map(answers).sum();
        let latencies: f64 = part.iter().map(|p| p.latency_mean_s * answers(p)).sum();
        Part {
            through_s: (answered > 0.0).then(|| latencies / answered),
            at_s: part.iter().map(|p| p.t_s).sum::<f64>() / n,
            in_system: part.iter().map(|p| p.in_system as f64).sum::<f64>() / n,
            arrivals_per_s: part.iter().map(|p| p.offered as f64).sum::<f64>() / (n * step_s),
        }
    };
    points[points.len() - size * parts..].chunks_exact(size).map(of).collect()
}

/// Slope of the least-squares line and half of its 95 % interval; `None` below three points.
fn slope(line: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = line.len() as f64;
    if line.len() < 3 {
        return None;
    }
    let mean_x = line.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = line.iter().map(|(_, y)| y).sum::<f64>() / n;
    let square_x: f64 = line.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    let slope = line.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / square_x;
    let rest: f64 = line.iter().map(|(x, y)| y - mean_y - slope * (x - mean_x)).map(|r| r * r).sum();
    let error = (rest / (n - 2.0) / square_x).sqrt();
    Some((slope, student_t_quantile(0.975, n - 2.0) * error))
}

/// The value below which a share of the values lies (nearest rank); 0 without values.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * values.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// The stage that would saturate first.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// Its name; `executor` is the gateway's.
    pub stage: String,
    /// Share of its servers, slots or sequences that is busy on average.
    pub utilisation: f64,
    /// It serves batches: a server that is always busy may still have room in its batches.
    pub batches: bool,
    /// One sentence for people.
    pub sentence: String,
}

/// The busiest stage of a run, from the stages' metrics.
pub(crate) fn bottleneck(
    stages: Option<&IndexMap<String, IndexMap<String, MetricSummary>>>,
    kv_mean: Option<f64>,
) -> Option<Bottleneck> {
    let value = |metrics: &IndexMap<String, MetricSummary>, name: &str| metrics.get(name)?.value;
    let (stage, metrics, utilisation) = stages?
        .iter()
        .filter_map(|(name, metrics)| Some((name, metrics, value(metrics, "utilisation")?)))
        .reduce(|best, other| if other.2 > best.2 { other } else { best })?;
    let percent = utilisation * 100.0;
    let mut sentence = if utilisation < 0.5 {
        format!("no stage is near saturation; the busiest is {stage}, {percent:.1} % busy")
    } else {
        format!("the bottleneck is {stage}, {percent:.1} % busy")
    };
    if let Some(wait_s) = value(metrics, "wait_mean_s").filter(|_| utilisation >= 0.5) {
        let _ = write!(sentence, "; calls wait {} for it on average", seconds(wait_s));
    }
    if let Some(kv) = kv_mean.filter(|kv| *kv > 0.9) {
        let _ = write!(sentence, "; KV memory is {:.1} % full", kv * 100.0);
    }
    let batches = value(metrics, "batch_mean").is_some();
    Some(Bottleneck { stage: stage.clone(), utilisation, batches, sentence })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(duration_s: f64, drain_s: f64) -> RunPlan {
        RunPlan { duration_s, drain_s, warmup_s: 0.0, seed: 1, replications: 1, timeline_points: 100 }
    }

    /// A timeline of 100 steps of a second: arrivals and requests in system of each, with the latency that
    /// Little's law gives.
    fn timeline(of: impl Fn(u64) -> (u64, u64)) -> Vec<Point> {
        (1..=100)
            .map(|t| {
                let (offered, in_system) = of(t);
                let latency_mean_s = in_system as f64 / offered as f64;
                let answered = [offered, 0, 0, 0];
                Point { t_s: t as f64, offered, in_system, answered, latency_mean_s, ..Point::default() }
            })
            .collect()
    }

    #[test]
    fn a_level_that_stays_is_stable() {
        let points = timeline(|t| (10, 20 + t % 3));
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 20);
        assert!(backlog.growth_per_s.abs() < 0.01 && (backlog.arrivals_per_s - 10.0).abs() < 1e-9);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Stable);
        assert_eq!(judge(&[backlog; 4], Some(0.99)), Verdict::Backlogged);
    }

    #[test]
    fn a_backlog_that_grows_is_an_overload() {
        let points = timeline(|t| (10, 5 + 2 * t));
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 205);
        assert!((backlog.growth_per_s - 2.0).abs() < 1e-9);
        assert_eq!(judge(&[backlog], Some(1.0)), Verdict::Overloaded);
    }

    #[test]
    fn a_rising_rate_is_no_backlog() {
        // Everybody takes 2 s, ever more people come.
        let points = timeline(|t| (10 + t, 2 * (10 + t)));
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 0);
        assert!(backlog.growth_per_s.abs() < 1e-9, "{backlog:?}");
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Stable);
    }

    #[test]
    fn a_surge_that_passed_and_an_undrained_end_are_backlogs() {
        let surge = timeline(|t| (10, if (20..40).contains(&t) { 300 } else { 20 }));
        let backlog = Backlog::of(&surge, &plan(100.0, 0.0), 0);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Backlogged);
        let level = timeline(|_| (10, 20));
        let backlog = Backlog::of(&level, &plan(100.0, 60.0), 20);
        assert!(backlog.undrained);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Backlogged);
    }

    #[test]
    fn too_few_points_say_nothing() {
        let backlog = Backlog::of(&timeline(|_| (1, 1))[..5], &plan(100.0, 0.0), 0);
        assert_eq!(judge(&[backlog], None), Verdict::Stable);
        assert_eq!(judge(&[], None), Verdict::Stable);
    }
}
