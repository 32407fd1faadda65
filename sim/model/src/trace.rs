//! A trace: the requests of a recorded workload, one row each, in the order of their arrival.
//!
//! This is the form in which every recording reaches the simulator, whatever file it came from: the
//! readers live in the `datasets` crate, so that this crate stays free of file formats. A [`Trace`] can
//! only be made through its constructors, which refuse what a simulation could not replay honestly
//! (no rows, time going backwards, requests without tokens); nothing after them has to check again.
//! The rows are shared, so that every replication replays the same memory.
//!
//! Time is relative: the first request is at zero. Absolute dates were rejected because a run has no
//! calendar date, and because two recordings of different years could then not be laid side by side.

mod columns;
mod summary;

use std::sync::Arc;

pub use columns::{Columns, TimeUnit};
pub use summary::{ClassCount, TokenSummary, TraceSummary};

/// The longest trace that can be replayed, in nanoseconds: 100 years of 365 days. It stands well
/// inside what the simulator's clock can count, and a unit given wrongly (milliseconds read as
/// seconds) shows up as a longer one.
pub const MAX_DURATION_NS: u64 = 100 * 365 * 86_400 * NS_PER_S;

/// The factors that [`Trace::speed`] and [`Trace::condensed`] accept.
pub const SPEED_RANGE: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

const NS_PER_S: u64 = 1_000_000_000;

/// One recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When it arrived, in nanoseconds after the first request of the trace.
    pub at_ns: u64,
    /// Tokens of the prompt, at least 1.
    pub tokens_in: u32,
    /// Tokens of the answer, at least 1.
    pub tokens_out: u32,
    /// The request's class: an index into [`Trace::classes`].
    pub class: Option<u16>,
    /// Who sent it, where the recording says so.
    pub user: Option<u64>,
    /// The conversation that it belongs to, where the recording says so.
    pub session: Option<u64>,
}

/// What makes rows unfit to be a trace. Rows are counted from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// There is nothing to replay.
    #[error("the trace has no rows; at least one request is wanted")]
    Empty,
    /// A row is earlier than the one before it.
    #[error("row {row} arrives at {} s, before row {} at {} s; times must not go backwards \
             (`columns = {{ sort = true }}` in a scenario, or `--sort` on the command line, sorts them)", seconds(*.at_ns), .row - 1, seconds(*.before_ns))]
    Backwards {
        /// The row that is too early.
        row: usize,
        /// Its time, in nanoseconds.
        at_ns: u64,
        /// The time of the row before it, in nanoseconds.
        before_ns: u64,
    },
    /// A request has no tokens.
    #[error("row {row} has {column} = 0; at least 1 is wanted")]
    NoTokens {
        /// The row.
        row: usize,
        /// `tokens_in` or `tokens_out`.
        column: &'static str,
    },
    /// A row names a class that the trace does not have.
    #[error("row {row} has class number {class}, and the trace names {known} classes")]
    UnknownClass {
        /// The row.
        row: usize,
        /// The index found.
        class: u16,
        /// How many classes there are.
        known: usize,
    },
    /// The trace is longer than the simulator's clock should count.
    #[error("the trace lasts {} s, longer than the {} s (100 years) that can be replayed; \
             is the time's unit right?", seconds(*.duration_ns), seconds(MAX_DURATION_NS))]
    TooLong {
        /// From the first row to the last, in nanoseconds.
        duration_ns: u64,
    },
    /// A factor or a share lies outside its range.
    #[error("{what} = {found}; a number from {least} to {most} is wanted")]
    OutOfRange {
        /// Which argument.
        what: &'static str,
        /// Its value.
        found: f64,
        /// The least value allowed.
        least: f64,
        /// The greatest value allowed.
        most: f64,
    },
}

/// The requests of a recorded workload, in the order of their arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    name: String,
    classes: Vec<String>,
    rows: Arc<[TraceRow]>,
}

impl Trace {
    /// A trace without classes. Times are shifted so that the first row is at zero.
    ///
    /// # Errors
    /// See [`TraceError`]; rows of equal time are allowed, and keep their order.
    pub fn new(name: impl Into<String>, rows: Vec<TraceRow>) -> Result<Self, TraceError> {
        Self::with_classes(name, Vec::new(), rows)
    }

    /// A trace whose rows may name a class, as an index into `classes`. Times are shifted so that the
    /// first row is at zero.
    ///
    /// # Errors
    /// See [`TraceError`]; rows of equal time are allowed, and keep their order.
    pub fn with_classes(
        name: impl Into<String>,
        classes: Vec<String>,
        mut rows: Vec<TraceRow>,
    ) -> Result<Self, TraceError> {
        let first_ns = rows.first().ok_or(TraceError::Empty)?.at_ns;
        let mut before_ns = first_ns;
        for (index, row) in rows.iter().enumerate() {
            check_row(index + 1, row, before_ns, classes.len())?;
            before_ns = row.at_ns;
        }
        let duration_ns = before_ns - first_ns;
        if duration_ns > MAX_DURATION_NS {
            return Err(TraceError::TooLong { duration_ns });
        }
        for row in &mut rows {
            row.at_ns -= first_ns;
        }
        Ok(Self { name: name.into(), classes, rows: rows.into() })
    }

    /// What the trace is called in messages and summaries.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The requests; never empty, the first at time zero, times never decreasing.
    pub fn rows(&self) -> &[TraceRow] {
        &self.rows
    }

    /// The names that [`TraceRow::class`] indexes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The time of the last request, in nanoseconds after the first.
    pub fn duration_ns(&self) -> u64 {
        self.rows.last().map_or(0, |row| row.at_ns)
    }

    /// Arrivals per second: the gaps divided by the time they span. `None` when all requests arrive at
    /// one instant, which has no rate.
    pub fn mean_rate_per_s(&self) -> Option<f64> {
        let gaps = self.rows.len() - 1;
        let duration_ns = self.duration_ns();
        (duration_ns > 0).then(|| gaps as f64 / (duration_ns as f64 / NS_PER_S as f64))
    }

    /// The same requests, arriving `factor` times as fast.
    ///
    /// # Errors
    /// [`TraceError::OutOfRange`] outside [`SPEED_RANGE`], [`TraceError::TooLong`] when slowed down past
    /// the longest duration.
    pub fn speed(&self, factor: f64) -> Result<Self, TraceError> {
        in_range("speed", factor, *SPEED_RANGE.start(), *SPEED_RANGE.end())?;
        let duration_ns = scaled(self.duration_ns(), factor);
        if duration_ns > MAX_DURATION_NS {
            return Err(TraceError::TooLong { duration_ns });
        }
        let rows = self.rows.iter().map(|row| TraceRow { at_ns: scaled(row.at_ns, factor), ..*row });
        Ok(Self { name: self.name.clone(), classes: self.classes.clone(), rows: rows.collect() })
    }

    /// A share of the requests, evenly picked by their order, the first always among them: the shape of
    /// the load over time stays, its rate is multiplied by `keep_share` (more than 0, at most 1).
    ///
    /// The pick is a fixed pattern and draws no chance. A random pick was rejected: it would add a
    /// variance of its own to the gaps, and the same trace would differ between seeds.
    ///
    /// # Errors
    /// [`TraceError::OutOfRange`] when the share is not in (0, 1].
    pub fn thinned(&self, keep_share: f64) -> Result<Self, TraceError> {
        in_range("keep_share", keep_share, f64::MIN_POSITIVE, 1.0)?;
        let picked_before = |index: usize| (index as f64 * keep_share).ceil();
        let kept = self.rows.iter().enumerate();
        let kept = kept.filter(|(index, _)| picked_before(index + 1) > picked_before(*index));
        let rows = kept.map(|(_, row)| *row).collect();
        Ok(Self { name: self.name.clone(), classes: self.classes.clone(), rows })
    }

    /// The whole course of the trace in a `factor`-th of the time at its own rate: one request of every
    /// `factor` is kept, and time runs `factor` times as fast. A day can so be replayed in an hour.
    ///
    /// # Errors
    /// [`TraceError::OutOfRange`] when the factor is not between 1 and the end of [`SPEED_RANGE`].
    pub fn condensed(&self, factor: f64) -> Result<Self, TraceError> {
        in_range("condense", factor, 1.0, *SPEED_RANGE.end())?;
        self.thinned(1.0 / factor)?.speed(factor)
    }

    /// The figures that describe the trace.
    pub fn summary(&self) -> TraceSummary {
        TraceSummary::of(self)
    }
}

fn check_row(number: usize, row: &TraceRow, before_ns: u64, known: usize) -> Result<(), TraceError> {
    if row.at_ns < before_ns {
        return Err(TraceError::Backwards { row: number, at_ns: row.at_ns, before_ns });
    }
    for (column, tokens) in [("tokens_in", row.tokens_in), ("tokens_out", row.tokens_out)] {
        if tokens == 0 {
            return Err(TraceError::NoTokens { row: number, column });
        }
    }
    match row.class {
        Some(class) if usize::from(class) >= known => {
            Err(TraceError::UnknownClass { row: number, class, known })
        }
        _ => Ok(()),
    }
}

fn in_range(what: &'static str, found: f64, least: f64, most: f64) -> Result<(), TraceError> {
    // Written so that NaN, which compares false, is refused.
    if found >= least && found <= most {
        Ok(())
    } else {
        Err(TraceError::OutOfRange { what, found, least, most })
    }
}

/// Division is monotone also after rounding, so that scaled times never go backwards.
fn scaled(at_ns: u64, factor: f64) -> u64 {
    if factor == 1.0 { at_ns } else { (at_ns as f64 / factor).round() as u64 }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / NS_PER_S as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(at_ns: u64) -> TraceRow {
        TraceRow { at_ns, tokens_in: 10, tokens_out: 5, class: None, user: None, session: None }
    }

    fn trace(times_ns: &[u64]) -> Trace {
        Trace::new("t", times_ns.iter().map(|&at_ns| row(at_ns)).collect()).unwrap()
    }

    #[test]
    fn the_first_request_is_at_zero() {
        let trace = trace(&[5, 5, 9]);
        assert_eq!(trace.rows().iter().map(|row| row.at_ns).collect::<Vec<_>>(), [0, 0, 4]);
        assert_eq!(trace.duration_ns(), 4);
    }

    #[test]
    fn unfit_rows_are_refused_by_name() {
        assert_eq!(Trace::new("t", vec![]), Err(TraceError::Empty));
        let backwards = Trace::new("t", vec![row(2_000_000_000), row(1_500_000_000)]).unwrap_err();
        assert!(backwards.to_string().starts_with("row 2 arrives at 1.5 s, before row 1 at 2 s"));
        let silent = TraceRow { tokens_out: 0, ..row(0) };
        assert_eq!(
            Trace::new("t", vec![row(0), silent]),
            Err(TraceError::NoTokens { row: 2, column: "tokens_out" })
        );
        let stray = TraceRow { class: Some(1), ..row(0) };
        assert_eq!(
            Trace::with_classes("t", vec!["chat".into()], vec![stray]),
            Err(TraceError::UnknownClass { row: 1, class: 1, known: 1 })
        );
        let long = Trace::new("t", vec![row(0), row(u64::MAX)]).unwrap_err();
        assert_eq!(long, TraceError::TooLong { duration_ns: u64::MAX });
    }

    #[test]
    fn speed_and_share_outside_their_range_are_refused() {
        let trace = trace(&[0, 10]);
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            assert!(matches!(trace.speed(factor), Err(TraceError::OutOfRange { what: "speed", .. })));
            assert!(trace.condensed(factor).is_err());
        }
        for share in [0.0, -0.5, 1.5, f64::NAN] {
            assert!(trace.thinned(share).is_err());
        }
    }

    #[test]
    fn condensing_keeps_the_rate() {
        let second = trace(&(0..=1000).map(|i| i * 1_000_000).collect::<Vec<_>>());
        let short = second.condensed(4.0).unwrap();
        assert_eq!(short.duration_ns(), second.duration_ns() / 4);
        assert_eq!(short.mean_rate_per_s(), second.mean_rate_per_s());
    }

    proptest! {
        #[test]
        fn thinning_keeps_the_share_and_the_first(n in 1_usize..500, share in 0.001_f64..=1.0) {
            let times: Vec<u64> = (0..n as u64).collect();
            let thin = trace(&times).thinned(share).unwrap();
            prop_assert_eq!(thin.rows().len() as f64, (n as f64 * share).ceil());
            prop_assert_eq!(thin.rows()[0].at_ns, 0);
        }

        #[test]
        fn speeding_never_reorders(mut times in prop::collection::vec(0_u64..MAX_DURATION_NS / 1000, 1..50), factor in 0.001_f64..1000.0) {
            times.sort_unstable();
            let fast = trace(&times).speed(factor).unwrap();
            prop_assert!(fast.rows().is_sorted_by_key(|row| row.at_ns));
        }
    }
}
