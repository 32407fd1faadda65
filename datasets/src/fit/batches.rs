//! Time per token and power against batch size or load: curves over every second point of a line, judged on
//! the others. A line is what was measured of one model on one kind of hardware.

use std::collections::BTreeMap;

use super::curve::{Axis, Curve, Shape};
use super::robust::median;
use super::slots::{BatchRow, groups};

/// Fewest rows of a line: two points for the curve, one to judge it.
const ROWS_MIN: usize = 3;

/// What is fitted against the batch size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// [`BatchRow::itl_median_s`].
    TokenTime,
    /// [`BatchRow::power_w`].
    Power,
}

impl Quantity {
    /// Of a row; `None` where it was not recorded.
    pub fn of(self, row: &BatchRow) -> Option<f64> {
        match self {
            Self::TokenTime => Some(row.itl_median_s),
            Self::Power => row.power_w,
        }
    }

    fn form(self) -> (Axis, Shape) {
        match self {
            Self::TokenTime => (Axis::Linear, Shape::Rising),
            Self::Power => (Axis::Log, Shape::Free),
        }
    }
}

/// The curve of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct CurveFit {
    /// What tells the line from others, by name.
    pub of: BTreeMap<String, String>,
    /// The curve over the fitted half.
    pub curve: Curve,
    /// Smallest and largest batch measured, both halves.
    pub range: [f64; 2],
    /// Rows fitted, and rows that judged.
    pub rows: [usize; 2],
    /// Absolute errors, percent, of the inner fitted points, each left out in turn.
    pub left_out: Vec<f64>,
    /// Absolute errors on the other rows, percent, by rising batch.
    pub held_out: Vec<f64>,
}

impl CurveFit {
    /// Median absolute error on the held-out rows, percent.
    pub fn held_out_median(&self) -> f64 {
        median(self.held_out.clone())
    }

    /// The largest.
    pub fn held_out_worst(&self) -> f64 {
        self.held_out.iter().copied().fold(0.0, f64::max)
    }
}

/// Fits every line of at least three rows, in the order in which they first appear: the first, third, …
/// batch size is fitted, the second, fourth, … judges.
pub fn fit_batches(rows: &[BatchRow], quantity: Quantity) -> Vec<CurveFit> {
    let lines = groups(rows);
    let fits = lines.iter().filter_map(|line| {
        let points = line.iter().filter_map(|row| Some((row.batch, quantity.of(row)?))).collect();
        Some(CurveFit { of: names(line[0]), ..fit_points(points, quantity)? })
    });
    fits.collect()
}

/// What tells a row's line from others, by name.
pub fn names(row: &BatchRow) -> BTreeMap<String, String> {
    let [tensor, expert, data] = row.split;
    [
        ("model", row.model.clone()),
        ("task", row.task.clone()),
        ("gpu", row.gpu.clone()),
        ("gpus", row.gpus.to_string()),
        ("precision", row.precision.clone()),
        ("split", format!("tensor {tensor}, expert {expert}, data {data}")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// Fits one line of points, in any order; `None` with fewer than three.
pub fn fit_points(mut points: Vec<(f64, f64)>, quantity: Quantity) -> Option<CurveFit> {
    if points.len() < ROWS_MIN {
        return None;
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted: Vec<_> = points.iter().copied().step_by(2).collect();
    let others: Vec<_> = points.iter().copied().skip(1).step_by(2).collect();
    let (along, shape) = quantity.form();
    let curve = Curve::fit(&fitted, along, shape)?;
    let held_out = others.iter().map(|&(x, y)| 100.0 * (curve.at(x) / y - 1.0).abs()).collect();
    Some(CurveFit {
        of: BTreeMap::new(),
        range: [points[0].0, points[points.len() - 1].0],
        rows: [fitted.len(), others.len()],
        left_out: Curve::left_out(&fitted, along, shape),
        held_out,
        curve,
    })
}

/// Median over all held-out rows of some lines, percent, and how many rows those are.
pub fn overall<'a>(fits: impl IntoIterator<Item = &'a CurveFit>) -> (f64, usize) {
    let errors: Vec<f64> = fits.into_iter().flat_map(|fit| fit.held_out.iter().copied()).collect();
    let rows = errors.len();
    (median(errors), rows)
}

#[cfg(test)]
mod tests {
    use super::super::slots::read_batch_rows;
    use super::*;

    fn table() -> Vec<BatchRow> {
        read_batch_rows(include_str!("../../measured/ml-energy/llm_configs.csv")).unwrap()
    }

    #[test]
    fn time_per_token_is_met_within_five_percent() {
        let fits = fit_batches(&table(), Quantity::TokenTime);
        let (all, rows) = overall(&fits);
        assert!(rows >= 360 && all <= 5.0, "{all} % over {rows} rows");
        let left_out: Vec<f64> = fits.iter().flat_map(|fit| fit.left_out.iter().copied()).collect();
        println!("time per token: {all:.2} % over {rows}, left out {:.2} %", median(left_out));
        for gpu in ["H100", "B200"] {
            let (median, rows) = overall(fits.iter().filter(|fit| fit.of["gpu"] == gpu));
            println!("{gpu}: {median:.2} % over {rows}");
        }
    }

    #[test]
    fn power_is_met_within_three_percent() {
        let fits = fit_batches(&table(), Quantity::Power);
        let (all, rows) = overall(&fits);
        assert!(rows >= 360 && all <= 3.0, "{all} % over {rows} rows");
        for gpu in ["H100", "B200"] {
            let (median, rows) = overall(fits.iter().filter(|fit| fit.of["gpu"] == gpu));
            println!("{gpu}: power {median:.2} % over {rows}");
        }
    }

    /// A tenth of the fitted rows made five times as long: the others are still met.
    #[test]
    fn outliers_in_the_fitted_half_do_not_spoil_it() {
        let clean = overall(&fit_batches(&table(), Quantity::TokenTime)).0;
        let mut spoilt = Vec::new();
        let table = table();
        let mut count = 0;
        for line in groups(&table) {
            let mut line: Vec<BatchRow> = line.into_iter().cloned().collect();
            line.sort_by(|a, b| a.batch.total_cmp(&b.batch));
            for row in line.iter_mut().step_by(2) {
                count += 1;
                if count % 10 == 4 {
                    row.itl_median_s *= 5.0;
                }
            }
            spoilt.extend(line);
        }
        let fits = fit_batches(&spoilt, Quantity::TokenTime);
        let mut errors: Vec<f64> = fits.iter().flat_map(|fit| fit.held_out.iter().copied()).collect();
        errors.sort_by(f64::total_cmp);
        let [median, p90] = [0.5, 0.9].map(|q| errors[(q * errors.len() as f64) as usize]);
        assert!(median < clean + 2.5 && p90 < 45.0, "{median} % and {p90} % after {clean} %");
    }
}
