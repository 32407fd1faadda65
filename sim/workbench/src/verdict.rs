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
//! A queue that keeps up fluctuates, and a short or thin run shows little else. Therefore growth and delay
//! count only when
//! - they amount to more than 10 requests (growth) or 40 (delay), and to three standard deviations of the
//!   number in system (growth: about its line; delay: by medians, in the parts that are not delayed);
//! - half of the run holds five mean times in progress (latency without waiting): a shorter one shows how a
//!   service fills, not whether it keeps up;
//! - somebody waits: waiting is 5 % of the mean latency or more, or a stage is busy 90 % of the time. A
//!   number in system that grows without that is work in progress.
//!
//! Nor do fewer than 10 requests that are left after the drain count.
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
/// Utilisation from which a queue may grow although nobody who was answered has waited.
const BUSY: f64 = 0.9;
/// Requests below which growth, delay and a rest say nothing.
const HANDFUL: f64 = 10.0;
/// Requests up to which a queue that keeps up may grow for a while: at a load of 80 % more than so many wait
/// for one ten-thousandth of the time (`0.8^40`), however many servers there are.
const EXCURSION: f64 = 40.0;
/// Standard deviations of the number in system within which all is fluctuation.
const DEVIATIONS: f64 = 3.0;
/// Mean times in progress that a judged window holds at least.
const SOJOURNS: f64 = 5.0;
/// Share of the latency that is waiting where there is a queue.
const WAITED: f64 = 0.05;

/// How the backlog of one replication went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Backlog {
    /// Growth over the second half of the arrivals, requests per second.
    pub(crate) growth_per_s: f64,
    /// Half of the 95 % interval of the growth by its own scatter.
    pub(crate) growth_half_width: f64,
    /// Arrivals per second in that half.
    pub(crate) arrivals_per_s: f64,
    /// What it grows by over that half, requests.
    pub(crate) rise: f64,
    /// Standard deviation of the number in system about its line in that half.
    pub(crate) fluctuation: f64,
    /// Mean times in progress, waiting left out, in that half.
    pub(crate) sojourns: f64,
    /// Share of the mean latency that is waiting; 1 where nothing was answered.
    pub(crate) waited: f64,
    /// Largest time to get through, in undisturbed times; 1 where it is within the fluctuation.
    pub(crate) delay: f64,
    /// The drain was long enough to empty a service that keeps up, and did not.
    pub(crate) undrained: bool,
}

impl Backlog {
    /// From the timeline of a replication, and its mean wait and latency in seconds, if it has them.
    pub(crate) fn of(
        points: &[Point],
        plan: &RunPlan,
        in_flight_at_end: u64,
        spent: Option<(f64, f64)>,
    ) -> Self {
        let (wait_s, latency_s) = spent.unwrap_or_default();
        let progress_s = latency_s - wait_s;
        let window = |from: f64| {
            let last = points.partition_point(|p| p.t_s <= plan.duration_s * (1.0 + 1e-9));
            let first = points.partition_point(|p| p.t_s <= from).min(last);
            &points[first..last]
        };
        let parts = averages(window(plan.warmup_s), PARTS, plan);
        let through: Vec<f64> = parts.iter().filter_map(|part| part.through_s).collect();
        let undisturbed_s = quantile(&through, 0.25);
        let half_points = window(plan.duration_s / 2.0);
        let half = averages(half_points, BATCHES, plan);
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
            rise: growth_per_s * plan.duration_s / 2.0,
            fluctuation: scatter(half_points),
            sojourns: if progress_s > 0.0 { plan.duration_s / 2.0 / progress_s } else { f64::INFINITY },
            waited: if latency_s > 0.0 { wait_s / latency_s } else { 1.0 },
            delay: delay(window(plan.warmup_s), &parts, undisturbed_s),
            undrained: in_flight_at_end as f64 >= HANDFUL && plan.drain_s > DELAY * undisturbed_s,
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
    let waiting = mean(|b| b.waited) >= WAITED || busiest.is_some_and(|utilisation| utilisation >= BUSY);
    let judged = waiting && mean(|b| b.sojourns) >= SOJOURNS;
    let beyond_noise = mean(|b| b.rise) > HANDFUL.max(DEVIATIONS * mean(|b| b.fluctuation));
    let grows = growth > half_width && growth > GROWTH * mean(|b| b.arrivals_per_s);
    if judged && beyond_noise && grows {
        return Verdict::Overloaded;
    }
    let undrained = backlogs.iter().filter(|b| b.undrained).count() * 2 > backlogs.len();
    let held_by_limits = busiest.is_some_and(|utilisation| utilisation >= SATURATED);
    let delayed = judged && mean(|b| b.delay) > DELAY;
    if delayed || held_by_limits || undrained {
        return Verdict::Backlogged;
    }
    Verdict::Stable
}

/// The largest time to get through, in undisturbed times; 1 where the requests that are in the system then
/// are no more than the fluctuation of the other parts explains.
fn delay(points: &[Point], parts: &[Part], undisturbed_s: f64) -> f64 {
    if undisturbed_s <= 0.0 || parts.is_empty() {
        return 1.0;
    }
    let slow = |part: &Part| part.through_s.is_some_and(|through_s| through_s > DELAY * undisturbed_s);
    let size = points.len() / parts.len();
    let chunks = points[points.len() - size * parts.len()..].chunks_exact(size);
    let calm: Vec<f64> = chunks
        .zip(parts)
        .filter(|(_, part)| !slow(part))
        .flat_map(|(points, _)| points.iter().map(|point| point.in_system as f64))
        .collect();
    // By medians: before a delay shows in answers the queue that causes it is already there.
    let level = quantile(&calm, 0.5);
    let apart: Vec<f64> = calm.iter().map(|value| (value - level).abs()).collect();
    // Of a normal distribution the standard deviation is 1.4826 times the median distance.
    let deviation = 1.4826 * quantile(&apart, 0.5);
    parts
        .iter()
        .filter(|part| part.in_system - level > EXCURSION.max(DEVIATIONS * deviation))
        .filter_map(|part| part.through_s)
        .map(|through_s| through_s / undisturbed_s)
        .fold(1.0, f64::max)
}

/// Standard deviation of the number in system about its line.
fn scatter(points: &[Point]) -> f64 {
    let line: Vec<(f64, f64)> = points.iter().map(|p| (p.t_s, p.in_system as f64)).collect();
    let Some((slope, _)) = slope(&line) else { return f64::INFINITY };
    let rest: Vec<f64> = line.iter().map(|(t_s, level)| level - slope * t_s).collect();
    let mean = rest.iter().sum::<f64>() / rest.len() as f64;
    (rest.iter().map(|r| (r - mean) * (r - mean)).sum::<f64>() / rest.len() as f64).sqrt()
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
        let answers = |p: &Point| p.answers() as f64;
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
    let all = || {
        let stages = stages.into_iter().flatten();
        stages.filter_map(|(name, metrics)| Some((name, metrics, value(metrics, "utilisation")?)))
    };
    // A request holds its executor slot while it is at the stages: a busy executor for which nobody waits
    // only shows that the stages behind it are.
    let only_held = |name: &str, metrics: &IndexMap<String, MetricSummary>| {
        name == "executor" && value(metrics, "wait_mean_s").is_none_or(|wait_s| wait_s < 1e-6)
    };
    let named = all().filter(|(name, metrics, _)| !only_held(name, metrics));
    let (stage, metrics, utilisation) = named
        .reduce(|best, other| if other.2 > best.2 { other } else { best })
        .filter(|(_, _, utilisation)| *utilisation >= 0.5)
        .or_else(|| all().reduce(|best, other| if other.2 > best.2 { other } else { best }))?;
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
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 20, None);
        assert!(backlog.growth_per_s.abs() < 0.01 && (backlog.arrivals_per_s - 10.0).abs() < 1e-9);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Stable);
        assert_eq!(judge(&[backlog; 4], Some(0.99)), Verdict::Backlogged);
    }

    #[test]
    fn a_backlog_that_grows_is_an_overload() {
        let points = timeline(|t| (10, 5 + 2 * t));
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 205, None);
        assert!((backlog.growth_per_s - 2.0).abs() < 1e-9);
        assert_eq!(judge(&[backlog], Some(1.0)), Verdict::Overloaded);
    }

    #[test]
    fn a_rising_rate_is_no_backlog() {
        // Everybody takes 2 s, ever more people come.
        let points = timeline(|t| (10 + t, 2 * (10 + t)));
        let backlog = Backlog::of(&points, &plan(100.0, 0.0), 0, None);
        assert!(backlog.growth_per_s.abs() < 1e-9, "{backlog:?}");
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Stable);
        // The same when a cache answers them.
        let cached: Vec<_> = points
            .iter()
            .map(|point| Point { answered: [0; 4], cached: point.answers(), ..*point })
            .collect();
        assert_eq!(Backlog::of(&cached, &plan(100.0, 0.0), 0, None), backlog);
    }

    #[test]
    fn a_surge_that_passed_and_an_undrained_end_are_backlogs() {
        let surge = timeline(|t| (10, if (20..40).contains(&t) { 300 } else { 20 }));
        let backlog = Backlog::of(&surge, &plan(100.0, 0.0), 0, None);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Backlogged);
        let level = timeline(|_| (10, 20));
        let backlog = Backlog::of(&level, &plan(100.0, 60.0), 20, None);
        assert!(backlog.undrained);
        assert_eq!(judge(&[backlog], Some(0.7)), Verdict::Backlogged);
    }

    /// A run of M/M/c with that many servers at 0.1 s each.
    fn verdict_of(settings: &[(&str, &str)]) -> Verdict {
        let settings: Vec<_> = settings
            .iter()
            .map(|(path, value)| forebay_model::document::Setting::new(*path, *value))
            .collect();
        let opened = crate::inputs::open_text("mm1", crate::run::tests::MM1, &settings).unwrap();
        let workers = crate::Workers::new(Some(1)).unwrap();
        crate::run(&opened.loaded, &workers, false, &|_, _| ()).unwrap().summary.verdict
    }

    #[test]
    fn short_and_thin_runs_are_not_called_overloaded() {
        for seed in ["1", "2", "3", "4", "5", "6", "7", "8"] {
            for replications in ["1", "8"] {
                let run = [("run.seed", seed), ("run.replications", replications), ("run.warmup_s", "0")];
                let short = [
                    ("run.duration_s", "30"),
                    ("workload.sources.all.rate_per_s", "24.0"),
                    ("stages.desk.servers", "3"),
                ];
                assert_eq!(
                    verdict_of(&[&run[..], &short].concat()),
                    Verdict::Stable,
                    "{seed} {replications}"
                );
                let thin = [("run.duration_s", "1000"), ("workload.sources.all.rate_per_s", "0.007")];
                assert_eq!(verdict_of(&[&run[..], &thin].concat()), Verdict::Stable, "{seed} {replications}");
            }
        }
    }

    #[test]
    fn true_overloads_are_found_at_any_strength() {
        for rate in ["10.6", "12.0", "20.0", "100.0"] {
            let settings = [("workload.sources.all.rate_per_s", rate), ("run.duration_s", "1000")];
            assert_eq!(verdict_of(&settings), Verdict::Overloaded, "{rate}");
        }
        let short =
            [("workload.sources.all.rate_per_s", "20.0"), ("run.duration_s", "60"), ("run.warmup_s", "5")];
        assert_eq!(verdict_of(&short), Verdict::Overloaded);
    }

    #[test]
    fn a_short_trace_that_is_answered_is_stable() {
        let set = |path: &str, value: &str| forebay_model::document::Setting::new(path, value);
        let settings = [set("run.duration_s", "5"), set("run.warmup_s", "0"), set("run.drain_s", "600")];
        let opened = crate::inputs::open("azure-conversations", &settings).unwrap();
        let workers = crate::Workers::new(Some(1)).unwrap();
        let summary = crate::run(&opened.loaded, &workers, false, &|_, _| ()).unwrap().summary;
        assert_eq!(summary.ledger.answered.total(), summary.ledger.offered);
        assert_eq!(summary.verdict, Verdict::Stable);
    }

    #[test]
    fn an_executor_is_named_only_when_it_is_waited_for() {
        let metric =
            |value: f64| MetricSummary { value: Some(value), ci95: None, unit: String::new(), reason: None };
        let stage = |busy: f64, wait_s: f64| {
            IndexMap::from([
                ("utilisation".to_owned(), metric(busy)),
                ("wait_mean_s".to_owned(), metric(wait_s)),
            ])
        };
        let named = |executor, llm| {
            let stages = IndexMap::from([("executor".to_owned(), executor), ("llm".to_owned(), llm)]);
            bottleneck(Some(&stages), None).unwrap().stage
        };
        assert_eq!(named(stage(0.95, 0.0), stage(0.8, 0.1)), "llm");
        assert_eq!(named(stage(0.95, 0.2), stage(0.8, 0.1)), "executor");
        assert_eq!(named(stage(0.95, 0.0), stage(0.3, 0.0)), "executor");
    }

    #[test]
    fn too_few_points_say_nothing() {
        let backlog = Backlog::of(&timeline(|_| (1, 1))[..5], &plan(100.0, 0.0), 0, None);
        assert_eq!(judge(&[backlog], None), Verdict::Stable);
        assert_eq!(judge(&[], None), Verdict::Stable);
    }
}
