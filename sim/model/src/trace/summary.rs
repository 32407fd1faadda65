//! The figures that describe a trace: its rate, how bursty it is, and how long its texts are.

use serde::Serialize;

use super::{NS_PER_S, Trace, TraceRow, seconds};

/// The figures that describe a trace. What a trace cannot tell (a rate from a single request) is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceSummary {
    /// The trace's name.
    pub name: String,
    /// How many requests it has.
    pub requests: usize,
    /// From the first request to the last, in seconds.
    pub duration_s: f64,
    /// Arrivals per second.
    pub rate_per_s: Option<f64>,
    /// Coefficient of variation of the gaps between arrivals: 1 for a Poisson process, more when bursty.
    pub gap_cv: Option<f64>,
    /// Variance over mean of the arrivals counted in windows of one second (index of dispersion): 1 for
    /// a Poisson process, more when bursty. `None` below two whole windows.
    pub burstiness: Option<f64>,
    /// The most arrivals in one such window.
    pub peak_per_s: u64,
    /// Prompt tokens of a request.
    pub tokens_in: TokenSummary,
    /// Answer tokens of a request.
    pub tokens_out: TokenSummary,
    /// Requests of each class, in the order of [`Trace::classes`].
    pub classes: Vec<ClassCount>,
}

/// How many requests a class has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClassCount {
    /// The class's name.
    pub class: String,
    /// Its requests.
    pub requests: usize,
}

/// The distribution of a token count. Quantiles are values that occur (nearest rank).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TokenSummary {
    /// Tokens of all requests together.
    pub total: u64,
    /// Their mean.
    pub mean: f64,
    /// The median.
    pub p50: u32,
    /// Nine of ten are at most this.
    pub p90: u32,
    /// 99 of 100 are at most this.
    pub p99: u32,
    /// The largest.
    pub max: u32,
}

impl TraceSummary {
    pub(super) fn of(trace: &Trace) -> Self {
        let rows = trace.rows();
        let (burstiness, peak_per_s) = dispersion(rows, trace.duration_ns());
        let count =
            |index: usize| rows.iter().filter(|row| row.class.map(usize::from) == Some(index)).count();
        let classes = trace.classes().iter().enumerate();
        Self {
            name: trace.name().to_owned(),
            requests: rows.len(),
            duration_s: seconds(trace.duration_ns()),
            rate_per_s: trace.mean_rate_per_s(),
            gap_cv: gap_cv(rows),
            burstiness,
            peak_per_s,
            tokens_in: TokenSummary::of(rows.iter().map(|row| row.tokens_in).collect()),
            tokens_out: TokenSummary::of(rows.iter().map(|row| row.tokens_out).collect()),
            classes: classes
                .map(|(index, class)| ClassCount { class: class.clone(), requests: count(index) })
                .collect(),
        }
    }
}

impl TokenSummary {
    /// Of a list that is not empty.
    fn of(mut tokens: Vec<u32>) -> Self {
        tokens.sort_unstable();
        let rank = |percent: usize| tokens[(tokens.len() * percent).div_ceil(100).max(1) - 1];
        let total = tokens.iter().map(|&count| u64::from(count)).sum::<u64>();
        Self {
            total,
            mean: total as f64 / tokens.len() as f64,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max: rank(100),
        }
    }
}

fn gap_cv(rows: &[TraceRow]) -> Option<f64> {
    let gaps = || rows.windows(2).map(|pair| (pair[1].at_ns - pair[0].at_ns) as f64);
    let count = (rows.len() - 1) as f64;
    let mean = gaps().sum::<f64>() / count;
    let variance = gaps().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / count;
    // The mean of no gaps at all is NaN, which compares false.
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// The index of dispersion of counts in windows of one second and the largest count. Only windows with
/// arrivals are visited, so that a long and sparse trace costs no more than its rows. The last window
/// counts for the dispersion only if it is whole, otherwise its shortness would pass for a lull.
fn dispersion(rows: &[TraceRow], duration_ns: u64) -> (Option<f64>, u64) {
    let whole_windows = duration_ns / NS_PER_S;
    let (mut sum, mut squares, mut peak) = (0.0, 0.0, 0_u64);
    for window in rows.chunk_by(|a, b| a.at_ns / NS_PER_S == b.at_ns / NS_PER_S) {
        let count = window.len() as u64;
        peak = peak.max(count);
        if window[0].at_ns / NS_PER_S < whole_windows {
            sum += count as f64;
            squares += count as f64 * count as f64;
        }
    }
    if whole_windows < 2 || sum == 0.0 {
        return (None, peak);
    }
    let mean = sum / whole_windows as f64;
    let variance = squares / whole_windows as f64 - mean * mean;
    (Some(variance.max(0.0) / mean), peak)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(at_ns: u64) -> TraceRow {
        TraceRow { at_ns, tokens_in: 10, tokens_out: 5, class: None, user: None, session: None }
    }

    fn trace(times_ns: &[u64]) -> Trace {
        Trace::new("t", times_ns.iter().map(|&at_ns| row(at_ns)).collect()).unwrap()
    }

    #[test]
    fn summary_of_a_hand_counted_trace() {
        let mut rows: Vec<_> = [0, 1, 2, 3, 1000, 1001, 3000].map(|ms| row(ms * 1_000_000)).to_vec();
        rows[6].tokens_in = 100;
        rows[0].class = Some(0);
        let summary = Trace::with_classes("t", vec!["chat".into()], rows).unwrap().summary();
        assert_eq!((summary.requests, summary.duration_s, summary.peak_per_s), (7, 3.0, 4));
        assert_eq!(summary.rate_per_s, Some(2.0));
        // Whole windows hold 4, 2 and 0: mean 2, variance 8/3.
        assert!((summary.burstiness.unwrap() - 4.0 / 3.0).abs() < 1e-12);
        assert_eq!(
            summary.tokens_in,
            TokenSummary { total: 160, mean: 160.0 / 7.0, p50: 10, p90: 100, p99: 100, max: 100 }
        );
        assert_eq!(summary.classes, [ClassCount { class: "chat".into(), requests: 1 }]);
    }

    #[test]
    fn even_gaps_have_no_variation_and_one_request_has_no_rate() {
        assert_eq!(trace(&[0, 10, 20, 30]).summary().gap_cv, Some(0.0));
        let single = trace(&[7]).summary();
        assert_eq!((single.rate_per_s, single.gap_cv, single.burstiness), (None, None, None));
        assert_eq!(trace(&[7, 7]).summary().gap_cv, None);
    }
}
