//! A simulated run against a real request log: latencies percentile by percentile, queue and KV cache over
//! time.
//!
//! Both sides are request logs with the same columns, so that every figure is computed by the same code from
//! the same kind of stamps. A request waits until its first token and runs until its last; engines count
//! otherwise (a prompt that is computed runs already), so that what they told of themselves stands beside as a
//! curve of its own. Only requests that were served count.

mod curves;
mod side;

use forebay_datasets::engine_series::EngineSample;
use forebay_datasets::fit::ObservedRequest;
use serde::Serialize;

pub use curves::{Curve, CurvePoint};
pub use side::{CompareError, Side, read_run};

/// Percentiles that are compared.
pub const PERCENTILES: [f64; 10] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9];
/// A percentile with fewer requests beyond it is that of few requests.
const FEW_BEYOND: f64 = 5.0;
/// Relative difference of the crowds from which on errors are not the engine's alone.
const CROWDS_DIFFER: f64 = 0.005;

/// A simulated run and a real one, side by side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What was asked in the simulation.
    pub simulated: Crowd,
    /// What was asked in reality.
    pub measured: Crowd,
    /// Requests at the beginning that are left out of the latencies.
    pub skipped: usize,
    /// Time to first token, time per token after it, and arrival to last token; s.
    pub measures: Vec<Measure>,
    /// Request by request, if both sides are the same requests in the same order.
    pub paired: Option<Vec<Paired>>,
    /// Over time.
    pub curves: Vec<Curve>,
    /// What should be known.
    pub remarks: Vec<String>,
}

/// The requests of one side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Crowd {
    /// Requests.
    pub requests: usize,
    /// Of these, those that were served and are told completely.
    pub served: usize,
    /// Mean prompt of these, tokens.
    pub tokens_in_mean: f64,
    /// Mean answer of these, tokens.
    pub tokens_out_mean: f64,
    /// From the first arrival to the last, s.
    pub arrivals_s: f64,
    /// From the first arrival to the last token, s.
    pub until_s: f64,
}

/// A time that requests took, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    /// `ttft_s`, `tpot_s` or `latency_s`.
    pub name: String,
    /// Mean and percentiles.
    pub rows: Vec<Row>,
}

/// A statistic on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// `mean`, or a percentile such as `p99.9`.
    pub of: String,
    /// In the simulation, s.
    pub simulated: f64,
    /// In reality, s.
    pub measured: f64,
    /// By how much the simulation is off, percent of reality; none where reality has 0.
    pub error_percent: Option<f64>,
    /// So few requests lie beyond it that it says little.
    pub few: bool,
}

/// How far off single requests are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// As of [`Measure`].
    pub name: String,
    /// Median of the deviations' sizes, s.
    pub median_s: f64,
    /// 90th percentile of them, s.
    pub p90_s: f64,
}

/// Name of a measure, and what it is of a request.
type Taken = (&'static str, fn(&ObservedRequest) -> f64);

const MEASURES: [Taken; 3] = [
    ("ttft_s", ObservedRequest::ttft_s),
    ("tpot_s", ObservedRequest::tpot_s),
    ("latency_s", ObservedRequest::latency_s),
];

impl Comparison {
    /// The largest error, percent, of those by which a calibration is judged: the means, and the latency's p99.
    pub fn worst_percent(&self) -> Option<f64> {
        let judged = |measure: &Measure, row: &Row| {
            row.of == "mean" || (measure.name == "latency_s" && row.of == "p99")
        };
        let errors = self.measures.iter().flat_map(|measure| {
            measure.rows.iter().filter(move |row| judged(measure, row)).map(|row| row.error_percent)
        });
        errors
            .collect::<Option<Vec<f64>>>()
            .map(|errors| errors.into_iter().map(f64::abs).fold(0.0, f64::max))
    }
}

/// Compares the two sides. `series` is what the real engines told of themselves; `skip` requests at the
/// beginning stay out of the latencies, such as those that a fit has seen.
///
/// # Errors
/// A side has no request that was served and is told completely, or none beyond those skipped.
pub fn compare(
    simulated: &Side,
    measured: &Side,
    series: &[EngineSample],
    skip: usize,
) -> Result<Comparison, CompareError> {
    let sides = [simulated, measured];
    let observed = sides.map(|side| side.log.observed());
    for (side, observed) in sides.into_iter().zip(&observed) {
        if observed.len() <= skip {
            return Err(CompareError::TooFew { name: side.name.clone(), served: observed.len(), skip });
        }
    }
    let [ours, theirs] = &observed;
    let crowds = [crowd(simulated, ours), crowd(measured, theirs)];
    let mut remarks = remarks(&crowds);
    let [after_ours, after_theirs] = [&ours[skip..], &theirs[skip..]];
    let figures = MEASURES.map(|measure| compared(measure, after_ours, after_theirs)).to_vec();
    let curves = curves::curves(simulated, measured, [ours, theirs], series, &mut remarks);
    let [of_simulated, of_measured] = crowds;
    Ok(Comparison {
        simulated: of_simulated,
        measured: of_measured,
        skipped: skip,
        measures: figures,
        paired: same(ours, theirs)
            .then(|| MEASURES.map(|measure| paired(measure, after_ours, after_theirs)).to_vec()),
        curves,
        remarks,
    })
}

fn crowd(side: &Side, observed: &[ObservedRequest]) -> Crowd {
    let mean = |of: fn(&ObservedRequest) -> u32| {
        observed.iter().map(|request| f64::from(of(request))).sum::<f64>() / observed.len() as f64
    };
    let first = side.log.requests.first().map_or(0.0, |request| request.arrival_s);
    let last = side.log.requests.last().map_or(0.0, |request| request.arrival_s);
    let until = observed.iter().map(|request| request.last_token_s).fold(last, f64::max);
    Crowd {
        requests: side.log.requests.len(),
        served: observed.len(),
        tokens_in_mean: mean(|request| request.tokens_in),
        tokens_out_mean: mean(|request| request.tokens_out),
        arrivals_s: last - first,
        until_s: until - first,
    }
}

fn remarks(crowds: &[Crowd; 2]) -> Vec<String> {
    let [simulated, measured] = crowds;
    let mut remarks = Vec::new();
    for (what, of) in [
        ("requests", (|crowd| crowd.requests as f64) as fn(&Crowd) -> f64),
        ("served requests", |crowd| crowd.served as f64),
        ("tokens of a prompt", |crowd| crowd.tokens_in_mean),
        ("tokens of an answer", |crowd| crowd.tokens_out_mean),
        ("time of arrivals", |crowd| crowd.arrivals_s),
    ] {
        let (ours, theirs) = (of(simulated), of(measured));
        if (ours - theirs).abs() > CROWDS_DIFFER * theirs.abs() {
            let difference = 100.0 * (ours / theirs - 1.0);
            remarks.push(format!(
                "the crowds differ in {what} by {difference:+.1} %: errors are not the engine's alone"
            ));
        }
    }
    remarks
}

fn sorted(requests: &[ObservedRequest], of: fn(&ObservedRequest) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = requests.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn compared((name, of): Taken, simulated: &[ObservedRequest], measured: &[ObservedRequest]) -> Measure {
    let sides = [sorted(simulated, of), sorted(measured, of)];
    let row = |name: String, statistic: &dyn Fn(&[f64]) -> f64, few: bool| {
        let [simulated, measured] = [statistic(&sides[0]), statistic(&sides[1])];
        let error_percent = (measured != 0.0).then(|| 100.0 * (simulated / measured - 1.0));
        Row { of: name, simulated, measured, error_percent, few }
    };
    let mut rows = vec![row("mean".to_owned(), &mean, false)];
    let fewest = sides[0].len().min(sides[1].len()) as f64;
    rows.extend(PERCENTILES.map(|percent| {
        let beyond = fewest * (50.0 - (percent - 50.0).abs()) / 100.0;
        row(format!("p{percent}"), &|values| percentile(values, percent), beyond < FEW_BEYOND)
    }));
    Measure { name: name.to_owned(), rows }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Linear between order statistics.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let rank = percent / 100.0 * last as f64;
    let (low, share) = (rank.floor() as usize, rank - rank.floor());
    sorted[low] + share * (sorted[(low + 1).min(last)] - sorted[low])
}

/// Whether both sides are the same requests in the same order.
fn same(simulated: &[ObservedRequest], measured: &[ObservedRequest]) -> bool {
    let tokens = |request: &ObservedRequest| (request.tokens_in, request.tokens_out);
    simulated.len() == measured.len() && simulated.iter().zip(measured).all(|(a, b)| tokens(a) == tokens(b))
}

fn paired((name, of): Taken, simulated: &[ObservedRequest], measured: &[ObservedRequest]) -> Paired {
    let mut off: Vec<f64> = simulated.iter().zip(measured).map(|(a, b)| (of(a) - of(b)).abs()).collect();
    off.sort_by(f64::total_cmp);
    Paired { name: name.to_owned(), median_s: percentile(&off, 50.0), p90_s: percentile(&off, 90.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_datasets::request_log::{Logged, RequestLog};

    fn request(arrival_s: f64, first: f64, last: f64) -> Logged {
        Logged {
            arrival_s,
            tokens_in: 100,
            tokens_out: 11,
            first_token_s: Some(arrival_s + first),
            last_token_s: Some(arrival_s + last),
            ..Logged::default()
        }
    }

    fn side(name: &str, requests: Vec<Logged>) -> Side {
        Side { name: name.to_owned(), log: RequestLog::served(requests), kv: Vec::new() }
    }

    /// One request each second: first token after `slow` seconds, ten more, 0.1 s each times `slow`.
    fn steady(name: &str, slow: f64) -> Side {
        side(
            name,
            (0..1000)
                .map(|i| request(f64::from(i), slow * (1.0 + f64::from(i) / 1000.0), slow * 3.0))
                .collect(),
        )
    }

    #[test]
    fn percentiles_and_errors_are_those_of_the_sides() {
        let comparison = compare(&steady("run", 1.1), &steady("log", 1.0), &[], 0).unwrap();
        for measure in &comparison.measures {
            assert_eq!(measure.rows.len(), 11);
            for row in &measure.rows {
                let error = row.error_percent.unwrap();
                assert!((error - 10.0).abs() < 1e-6, "{} {}: {error}", measure.name, row.of);
            }
        }
        let ttft = &comparison.measures[0];
        assert_eq!((ttft.rows[0].of.as_str(), ttft.rows[10].of.as_str()), ("mean", "p99.9"));
        assert!((ttft.rows[5].measured - 1.4995).abs() < 1e-9, "{ttft:?}");
        assert!(ttft.rows[10].few && !ttft.rows[9].few);
        assert!((comparison.worst_percent().unwrap() - 10.0).abs() < 1e-6);
        assert!((comparison.paired.unwrap()[2].median_s - 0.3).abs() < 1e-9);
        assert!(
            comparison.remarks.iter().all(|remark| !remark.contains("crowds")),
            "{:?}",
            comparison.remarks
        );
    }

    #[test]
    fn queues_over_time_are_read_off_the_stamps() {
        let comparison = compare(&steady("run", 1.0), &steady("log", 2.0), &[], 0).unwrap();
        let curve = |name: &str| comparison.curves.iter().find(|curve| curve.name == name).unwrap();
        // Little's law: one arrival a second, and so many seconds each.
        let waiting = curve("waiting");
        let middle = &waiting.points[waiting.points.len() / 2];
        assert!((middle.simulated.unwrap() - 1.5).abs() < 0.1, "{middle:?}");
        assert!((middle.measured.unwrap() - 3.0).abs() < 0.2, "{middle:?}");
        let running = curve("running");
        let middle = &running.points[running.points.len() / 2];
        assert!((middle.simulated.unwrap() - 1.5).abs() < 0.1, "{middle:?}");
    }

    #[test]
    fn other_crowds_are_remarked_and_failures_left_out() {
        let mut measured = steady("log", 1.0);
        measured.log.statuses.push("HTTP 500".to_owned());
        for request in measured.log.requests.iter_mut().take(100) {
            request.status = 1;
        }
        let comparison = compare(&steady("run", 1.0), &measured, &[], 50).unwrap();
        assert_eq!((comparison.measured.requests, comparison.measured.served), (1000, 900));
        assert!(comparison.remarks.iter().any(|remark| remark.contains("served requests by +11.1 %")));
        assert!(comparison.paired.is_none());
        let error = compare(&steady("run", 1.0), &measured, &[], 900).unwrap_err().to_string();
        assert!(error.contains("log: 900 requests"), "{error}");
    }
}
