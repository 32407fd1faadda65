//! What both sides looked like over time. Each side's clock begins with its first arrival.

use super::Side;
use forebay_datasets::engine_series::EngineSample;
use forebay_datasets::fit::ObservedRequest;
use serde::Serialize;
use std::collections::BTreeMap;

/// Steps of a curve.
const STEPS: usize = 60;
/// An engine's word counts for so many of its periods.
const PERIODS: f64 = 3.0;

/// A quantity over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// `waiting`: sent and without a first token; `running`: between first and last token; `kv_tokens`: tokens of
    /// the running requests, prompts and answers so far; `kv_usage`: share of the KV cache in use.
    pub name: String,
    /// Means over the curve: of the simulation, of the log, of what the engines told.
    pub mean: [Option<f64>; 3],
    /// Mean size of the difference between simulation and log, or what the engines told where the log does not
    /// tell; in percent of the latter's mean.
    pub off_percent: Option<f64>,
    /// Its points, each the mean over a step.
    pub points: Vec<CurvePoint>,
}

/// A point of a curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Middle of the step, seconds after the first arrival.
    pub t_s: f64,
    /// In the simulation.
    pub simulated: Option<f64>,
    /// In reality, by the stamps of the log.
    pub measured: Option<f64>,
    /// In reality, as the engines told.
    pub told: Option<f64>,
}

pub(super) fn curves(
    simulated: &Side,
    measured: &Side,
    observed: [&[ObservedRequest]; 2],
    series: &[EngineSample],
    remarks: &mut Vec<String>,
) -> Vec<Curve> {
    let starts =
        [simulated, measured].map(|side| side.log.requests.first().map_or(0.0, |first| first.arrival_s));
    let end = |side: usize| observed[side].iter().map(|r| r.last_token_s - starts[side]).fold(0.0, f64::max);
    let step_s = end(0).max(end(1)) / STEPS as f64;
    if step_s <= 0.0 {
        return Vec::new();
    }
    let stamps = [0, 1].map(|side| Stamps::of(observed[side], starts[side], step_s));
    let told = told(series, measured, starts[1], remarks);
    let curve = |name: &str, of: fn(&Stamps) -> &Vec<f64>, told: &[(f64, f64)]| {
        let points = (0..STEPS).map(|step| CurvePoint {
            t_s: (step as f64 + 0.5) * step_s,
            simulated: Some(of(&stamps[0])[step]),
            measured: Some(of(&stamps[1])[step]),
            told: at_step(told, step, step_s),
        });
        finished(name, points.collect())
    };
    let mut curves = vec![
        curve("waiting", |stamps| &stamps.waiting, &told.waiting),
        curve("running", |stamps| &stamps.running, &told.running),
        curve("kv_tokens", |stamps| &stamps.kv_tokens, &[]),
    ];
    let kv: Vec<(f64, f64)> = simulated.kv.iter().map(|(t_s, share)| (t_s - starts[0], *share)).collect();
    if !kv.is_empty() || !told.kv.is_empty() {
        let points = (0..STEPS).map(|step| CurvePoint {
            t_s: (step as f64 + 0.5) * step_s,
            simulated: at_step(&kv, step, step_s),
            measured: None,
            told: at_step(&told.kv, step, step_s),
        });
        curves.push(finished("kv_usage", points.collect()));
    }
    curves
}

/// Means over each step, from the stamps of requests.
struct Stamps {
    waiting: Vec<f64>,
    running: Vec<f64>,
    kv_tokens: Vec<f64>,
}

impl Stamps {
    fn of(requests: &[ObservedRequest], start_s: f64, step_s: f64) -> Self {
        let mut found =
            Self { waiting: vec![0.0; STEPS], running: vec![0.0; STEPS], kv_tokens: vec![0.0; STEPS] };
        for request in requests {
            let [arrival, first, last] =
                [request.arrival_s, request.first_token_s, request.last_token_s].map(|s| s - start_s);
            spread(arrival, first, step_s, |step, share, _| found.waiting[step] += share);
            let (tokens_in, tokens_out) = (f64::from(request.tokens_in), f64::from(request.tokens_out));
            spread(first, last, step_s, |step, share, middle| {
                found.running[step] += share;
                found.kv_tokens[step] += share * (tokens_in + tokens_out * (middle - first) / (last - first));
            });
        }
        found
    }
}

/// Tells of each step that a stretch touches: which, what share of the step it covers, and the middle of that.
fn spread(from: f64, to: f64, step_s: f64, mut add: impl FnMut(usize, f64, f64)) {
    if to <= from {
        return;
    }
    let first = (from / step_s).max(0.0) as usize;
    for step in first..STEPS {
        let (begin, end) = (step as f64 * step_s, (step + 1) as f64 * step_s);
        if begin >= to {
            return;
        }
        let (low, high) = (from.max(begin), to.min(end));
        add(step, (high - low).max(0.0) / step_s, 0.5 * (low + high));
    }
}

/// What the engines told, together, by seconds after the log's first arrival.
#[derive(Default)]
struct Told {
    waiting: Vec<(f64, f64)>,
    running: Vec<(f64, f64)>,
    kv: Vec<(f64, f64)>,
}

fn told(series: &[EngineSample], measured: &Side, start_s: f64, remarks: &mut Vec<String>) -> Told {
    let Some(first) = series.first() else { return Told::default() };
    let log_wall_ns = measured.log.requests.first().map_or(0, |request| request.wall_ns);
    let dated = log_wall_ns > 0 && first.wall_ns > 0;
    if !dated {
        remarks.push(
            "log and engine series share no clock: the series is taken to begin with the first arrival"
                .to_owned(),
        );
    }
    let at = |sample: &EngineSample| {
        if dated {
            (i128::from(sample.wall_ns) - i128::from(log_wall_ns)) as f64 * 1e-9
        } else {
            sample.t_ns as f64 * 1e-9
        }
    };
    // Engines side by side are asked at the same moments, and counted together.
    let mut sums: BTreeMap<u64, Vec<&EngineSample>> = BTreeMap::new();
    for sample in series {
        sums.entry(sample.t_ns).or_default().push(sample);
    }
    let mut told = Told::default();
    let sum = |samples: &[&EngineSample], of: fn(&EngineSample) -> Option<f64>| {
        samples
            .iter()
            .map(|sample| of(sample))
            .collect::<Option<Vec<f64>>>()
            .map(|values| values.iter().sum::<f64>())
    };
    for samples in sums.values() {
        let t_s = at(samples[0]) - if dated { 0.0 } else { start_s };
        told.waiting.extend(sum(samples, EngineSample::waiting).map(|value| (t_s, value)));
        told.running.extend(sum(samples, EngineSample::running).map(|value| (t_s, value)));
        let kv = sum(samples, EngineSample::kv_usage).map(|value| value / samples.len() as f64);
        told.kv.extend(kv.map(|value| (t_s, value)));
    }
    if !told.kv.is_empty()
        && told.kv.iter().all(|(_, share)| *share == 0.0)
        && told.running.iter().any(|p| p.1 > 0.0)
    {
        remarks.push(
            "the engines told a KV usage of 0 throughout, while requests ran: it is left out".to_owned(),
        );
        told.kv.clear();
    }
    told
}

/// The mean of what was told within a step, or what was told last before it, if that is not too long ago.
fn at_step(told: &[(f64, f64)], step: usize, step_s: f64) -> Option<f64> {
    let (begin, end) = (step as f64 * step_s, (step + 1) as f64 * step_s);
    let first = told.partition_point(|(t_s, _)| *t_s < begin);
    let after = told.partition_point(|(t_s, _)| *t_s < end);
    if first < after {
        let within = &told[first..after];
        return Some(within.iter().map(|(_, value)| value).sum::<f64>() / within.len() as f64);
    }
    let (before_s, value) = *told[..first].last()?;
    let period_s = (told.last()?.0 - told.first()?.0) / (told.len() - 1).max(1) as f64;
    (0.5 * (begin + end) - before_s <= PERIODS * period_s).then_some(value)
}

fn finished(name: &str, points: Vec<CurvePoint>) -> Curve {
    let mean = |of: fn(&CurvePoint) -> Option<f64>| {
        let values: Vec<f64> = points.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let real = |point: &CurvePoint| point.measured.or(point.told);
    let pairs: Vec<(f64, f64)> =
        points.iter().filter_map(|point| Some((point.simulated?, real(point)?))).collect();
    let off: f64 = pairs.iter().map(|(ours, theirs)| (ours - theirs).abs()).sum();
    let whole: f64 = pairs.iter().map(|(_, theirs)| theirs).sum();
    Curve {
        name: name.to_owned(),
        mean: [mean(|p| p.simulated), mean(|p| p.measured), mean(|p| p.told)],
        off_percent: (whole > 0.0).then(|| 100.0 * off / whole),
        points,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_datasets::engine_series::NUMBERS;
    use forebay_datasets::request_log::{Logged, RequestLog};

    #[test]
    fn stretches_are_spread_over_the_steps_they_touch() {
        let mut found = Vec::new();
        spread(1.5, 4.0, 1.0, |step, share, middle| found.push((step, share, middle)));
        assert_eq!(found, [(1, 0.5, 1.75), (2, 1.0, 2.5), (3, 1.0, 3.5)]);
        spread(2.0, 2.0, 1.0, |_, _, _| panic!("it takes no time"));
    }

    fn sample(since: u64, wall: u64, engine: &str, running: f64, kv: f64) -> EngineSample {
        let mut numbers = [None; NUMBERS.len()];
        (numbers[0], numbers[3]) = (Some(running), Some(kv));
        let (t_ns, wall_ns) = (since * 1_000_000_000, wall * 1_000_000_000);
        EngineSample { t_ns, wall_ns, engine: engine.to_owned(), numbers }
    }

    fn side(wall_ns: u64) -> Side {
        let request = Logged { wall_ns, tokens_in: 1, tokens_out: 1, ..Logged::default() };
        Side { name: "log".to_owned(), log: RequestLog::served(vec![request]), kv: Vec::new() }
    }

    #[test]
    fn engines_are_counted_together_on_the_logs_clock() {
        let series = [sample(0, 1_790_000_002, "a", 3.0, 0.2), sample(0, 1_790_000_002, "b", 4.0, 0.4)];
        let mut remarks = Vec::new();
        let found = told(&series, &side(1_790_000_000_000_000_000), 0.0, &mut remarks);
        assert_eq!(found.running, [(2.0, 7.0)]);
        assert!((found.kv[0].1 - 0.3).abs() < 1e-12 && remarks.is_empty());
        let found = told(&series, &side(0), 0.0, &mut remarks);
        assert_eq!((found.running[0].0, remarks.len()), (0.0, 1));
    }

    #[test]
    fn a_meaningless_kv_usage_is_left_out() {
        let mut remarks = Vec::new();
        let found = told(&[sample(1, 0, "", 3.0, 0.0)], &side(0), 0.0, &mut remarks);
        assert!(found.kv.is_empty() && remarks.iter().any(|remark| remark.contains("left out")));
    }

    #[test]
    fn what_was_told_holds_for_a_while() {
        let told = [(0.0, 1.0), (1.0, 2.0), (2.0, 4.0)];
        assert_eq!(at_step(&told, 0, 1.5), Some(1.5));
        assert_eq!(at_step(&told, 4, 1.0), Some(4.0));
        assert_eq!(at_step(&told, 9, 1.0), None);
        assert_eq!(at_step(&[], 0, 1.0), None);
    }
}
