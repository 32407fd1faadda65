//! Time per token against batch size, for the `slots` engine: `a + b * batch`.
//!
//! The line minimises the sum of absolute *relative* deviations. Absolute, because some measured rows are
//! outliers by a factor of five and a square would follow them; relative, because batches span two orders
//! of magnitude and small ones matter as much. Such a line runs through two of the points (or through one
//! and the origin of a coefficient), so that trying all pairs finds it exactly.
//!
//! Every second batch size is fitted, the others judge.

use super::observed::LogError;
use super::robust::median;

/// Fewest rows of a group: two to fit, two to judge.
const ROWS_MIN: usize = 4;

/// One measured configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow {
    /// Model, as published.
    pub model: String,
    /// The benchmark's task, which sets the lengths.
    pub task: String,
    /// GPU model and how many of them.
    pub gpu: String,
    /// GPUs that serve one copy.
    pub gpus: u32,
    /// Precision of the weights.
    pub precision: String,
    /// How the model is split over the GPUs: tensor, expert, data parallel ways.
    pub split: [u32; 3],
    /// Sequences in the batch, mean over the run.
    pub batch: f64,
    /// Median gap between two tokens of a request, s: an iteration without prefill.
    pub itl_median_s: f64,
    /// Mean time per token of a request, s: batch over throughput, prefill of others included.
    pub token_mean_s: f64,
    /// Mean power of all GPUs that serve the copy, W; absent where it was not recorded.
    pub power_w: Option<f64>,
}

/// Which time is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenTime {
    /// [`BatchRow::itl_median_s`].
    Median,
    /// [`BatchRow::token_mean_s`]: what a slot is held for, per token.
    Mean,
}

/// The line of one model on one kind of hardware.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotsFit {
    /// A row of the group, for its names.
    pub of: BatchRow,
    /// Time per token of a lone request, s.
    pub base_s: f64,
    /// Added per sequence in the batch, s.
    pub per_sequence_s: f64,
    /// Smallest and largest batch measured.
    pub range: [f64; 2],
    /// Rows fitted, and rows that judged.
    pub rows: [usize; 2],
    /// Median absolute error on the fitted rows, percent.
    pub fitted: f64,
    /// Median absolute error on the other rows, percent.
    pub held_out: f64,
    /// Largest absolute error on the other rows, percent.
    pub held_out_worst: f64,
}

/// Reads the table of ML.ENERGY's benchmark: comma-separated, unquoted, with a header.
///
/// # Errors
/// A missing column, or a row whose numbers do not parse or are not positive.
pub fn read_batch_rows(text: &str) -> Result<Vec<BatchRow>, LogError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let header: Vec<&str> = lines.next().map_or("", |(_, line)| line).trim().split(',').collect();
    let column = |name: &'static str| {
        let found = header.iter().position(|&column| column == name);
        found.ok_or(LogError::Column { name })
    };
    let text_columns = [column("model")?, column("task")?, column("gpu")?, column("weight_precision")?];
    let count_columns = [column("num_gpus")?, column("tp")?, column("ep")?, column("dp")?];
    let number_columns = [column("avg_batch_size")?, column("median_itl_ms")?, column("output_tok_per_s")?];
    let power_column = header.iter().position(|&column| column == "avg_power_w");
    let mut rows = Vec::new();
    for (index, line) in lines {
        let line_number = index + 1;
        let bad = |column: usize| LogError::Value { line: line_number, column: header[column].to_owned() };
        let cells: Vec<&str> = line.trim().split(',').collect();
        let cell = |column: usize| cells.get(column).copied().ok_or_else(|| bad(column));
        let count = |column: usize| cell(column)?.parse::<u32>().map_err(|_| bad(column));
        let number = |column: usize| {
            let parsed = cell(column)?.parse::<f64>().ok();
            parsed.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| bad(column))
        };
        let [model, task, gpu, precision] = text_columns.map(|column| cell(column).map(str::to_owned));
        let [gpus, tensor, expert, data] = count_columns.map(count);
        let [batch, itl_ms, throughput] = number_columns.map(number);
        let batch = batch?;
        // A column of its own accord: what was not recorded stands there as 0 or as nothing.
        let power_w = power_column.and_then(|column| number(column).ok());
        rows.push(BatchRow {
            model: model?,
            task: task?,
            gpu: gpu?,
            gpus: gpus?,
            precision: precision?,
            split: [tensor?, expert?, data?],
            batch,
            itl_median_s: itl_ms? / 1000.0,
            token_mean_s: batch / throughput?,
            power_w,
        });
    }
    Ok(rows)
}

/// Fits every group of rows that differ only in their batch and have at least four of them, in the order
/// in which the groups first appear.
pub fn fit_slots(rows: &[BatchRow], time: TokenTime) -> Vec<SlotsFit> {
    groups(rows).iter().filter_map(|group| fit_group(group, time)).collect()
}

/// The rows that differ only in their batch, together, in the order in which each group first appears.
pub(super) fn groups(rows: &[BatchRow]) -> Vec<Vec<&BatchRow>> {
    let mut groups: Vec<Vec<&BatchRow>> = Vec::new();
    for row in rows {
        match groups.iter_mut().find(|group| same_setting(group[0], row)) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

fn same_setting(a: &BatchRow, b: &BatchRow) -> bool {
    a.model == b.model
        && a.task == b.task
        && a.gpu == b.gpu
        && a.gpus == b.gpus
        && a.precision == b.precision
        && a.split == b.split
}

fn fit_group(group: &[&BatchRow], time: TokenTime) -> Option<SlotsFit> {
    if group.len() < ROWS_MIN {
        return None;
    }
    let mut points: Vec<(f64, f64)> = group
        .iter()
        .map(|row| match time {
            TokenTime::Median => (row.batch, row.itl_median_s),
            TokenTime::Mean => (row.batch, row.token_mean_s),
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted: Vec<_> = points.iter().copied().step_by(2).collect();
    let others: Vec<_> = points.iter().copied().skip(1).step_by(2).collect();
    let line = relative_line(&fitted);
    let other_errors = errors(line, &others);
    Some(SlotsFit {
        of: group[0].clone(),
        base_s: line.0,
        per_sequence_s: line.1,
        range: [points[0].0, points[points.len() - 1].0],
        rows: [fitted.len(), others.len()],
        fitted: median(errors(line, &fitted)),
        held_out_worst: other_errors.iter().copied().fold(0.0, f64::max),
        held_out: median(other_errors),
    })
}

/// The line `(a, b)`, both at least 0, with the least sum of absolute relative deviations.
fn relative_line(points: &[(f64, f64)]) -> (f64, f64) {
    let mut candidates = Vec::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        candidates.push((y, 0.0));
        candidates.push((0.0, y / x));
        for &(other_x, other_y) in &points[index + 1..] {
            if other_x > x {
                let slope = (other_y - y) / (other_x - x);
                candidates.push((y - slope * x, slope));
            }
        }
    }
    let valid = candidates.into_iter().filter(|&(a, b)| a >= 0.0 && b >= 0.0);
    let sum = |line: &(f64, f64)| errors(*line, points).iter().sum::<f64>();
    let best = valid.min_by(|a, b| sum(a).total_cmp(&sum(b)));
    best.expect("a flat line through the first point is always a candidate")
}

/// Absolute relative deviations, percent.
fn errors((a, b): (f64, f64), points: &[(f64, f64)]) -> Vec<f64> {
    points.iter().map(|&(x, y)| 100.0 * ((a + b * x) / y - 1.0).abs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "model,task,weight_precision,gpu,num_gpus,avg_batch_size,output_tok_per_s,median_itl_ms,tp,ep,dp";

    fn table(points: &[(f64, f64)]) -> String {
        let rows = points.iter().map(|(batch, itl_ms)| {
            format!("\nm,chat,bf16,H100,1,{batch},{},{itl_ms},1,1,1", batch / itl_ms * 1000.0)
        });
        HEADER.to_owned() + &rows.collect::<String>()
    }

    #[test]
    fn a_line_is_found_through_outliers() {
        let mut points: Vec<(f64, f64)> =
            (1..=10).map(|i| (f64::from(i * i), 5.0 + 0.25 * f64::from(i * i))).collect();
        points[4].1 *= 6.0;
        points[7].1 *= 0.2;
        let rows = read_batch_rows(&table(&points)).unwrap();
        for time in [TokenTime::Median, TokenTime::Mean] {
            let fits = fit_slots(&rows, time);
            assert_eq!(fits.len(), 1);
            let fit = &fits[0];
            assert!(
                (fit.base_s - 0.005).abs() < 1e-9 && (fit.per_sequence_s - 0.000_25).abs() < 1e-9,
                "{fit:?}"
            );
            assert!(fit.held_out < 1e-6 && fit.held_out_worst > 50.0, "{fit:?}");
            assert_eq!((fit.rows, fit.range), ([5, 5], [1.0, 100.0]));
        }
    }

    #[test]
    fn bad_tables_are_refused() {
        assert!(read_batch_rows("").is_err());
        assert!(read_batch_rows("model,task").is_err());
        let error = read_batch_rows(&table(&[(8.0, -1.0)])).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        assert!(
            fit_slots(&read_batch_rows(&table(&[(8.0, 1.0), (9.0, 2.0)])).unwrap(), TokenTime::Mean)
                .is_empty()
        );
    }
}
