//! Linear regression that outliers do not move: coefficients at least 0, each with a standard error.
//!
//! Two passes. The first minimises the sum of absolute residuals, which a row that is off by a factor
//! pulls no harder than one that is off by a little. Rows that lie far from it are left out, and the
//! second pass is ordinary least squares over the rest, so that its standard errors are those of the
//! textbook. Rejected: weights that fall with the residual in one pass (bisquare): with the handful of
//! rows that a measured line has, they reject good rows and then state errors that are too small.

use forebay_engine::student_t_quantile;
use serde::{Deserialize, Serialize};

/// A row is left out whose residual is beyond this many robust standard deviations…
const FAR: f64 = 6.0;
/// … and beyond this share of its scale.
const FAR_SHARE: f64 = 0.1;
/// Rounds of reweighting towards the least sum of absolute residuals.
const ROUNDS: usize = 40;
/// Median of absolute deviations to standard deviation, for a normal law.
const MAD_TO_SIGMA: f64 = 1.4826;

/// An estimated number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Its standard error; absent where the data leave nothing to estimate it from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    /// The 95 % confidence interval that follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
}

impl Estimate {
    /// A number without a known error.
    pub fn bare(value: f64) -> Self {
        Self { value, standard_error: None, ci95: None }
    }

    /// A number that cannot be negative, its standard error, and the degrees of freedom behind that.
    pub fn new(value: f64, standard_error: Option<f64>, freedom: usize) -> Self {
        let standard_error = standard_error.filter(|error| error.is_finite() && freedom > 0);
        let ci95 = standard_error.map(|error| {
            let half = student_t_quantile(0.975, freedom as f64) * error;
            [(value - half).max(0.0), value + half]
        });
        Self { value, standard_error, ci95 }
    }

    /// With `digits` significant digits, as calibration files hold them.
    #[must_use]
    pub fn rounded(self, digits: usize) -> Self {
        Self {
            value: significant(self.value, digits),
            standard_error: self.standard_error.map(|error| significant(error, 2)),
            ci95: self.ci95.map(|ci95| ci95.map(|end| significant(end, digits))),
        }
    }

    /// Whether the interval holds a value; without one it does not.
    pub fn holds(&self, truth: f64) -> bool {
        self.ci95.is_some_and(|[least, most]| (least..=most).contains(&truth))
    }
}

/// Rounds to significant digits, through text: exactly what would be read back.
pub fn significant(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// A fitted sum of coefficients times basis values.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    /// The coefficients, in the order of the basis.
    pub coefficients: Vec<Estimate>,
    /// Standard deviation of a residual over its scale.
    pub sigma: f64,
    /// Rows that were used, less coefficients.
    pub freedom: usize,
    /// Which rows were used; the others are outliers.
    pub used: Vec<bool>,
}

impl Regression {
    /// The fitted value at some basis values.
    pub fn at(&self, basis: &[f64]) -> f64 {
        self.coefficients.iter().zip(basis).map(|(coefficient, value)| coefficient.value * value).sum()
    }
}

/// Fits `values[i]` by a sum over `basis[i]`, with residuals counted in units of `scales[i]`: the values
/// themselves for relative residuals. Where there are fewer rows than columns only the first columns are
/// used, and a column of zeros gets the coefficient 0.
///
/// `None`: there are no rows, lengths that do not match, numbers that are not finite, or no solution.
pub fn regress(basis: &[Vec<f64>], values: &[f64], scales: &[f64]) -> Option<Regression> {
    let columns = basis.first()?.len();
    let fit = values.len() == basis.len()
        && scales.len() == basis.len()
        && basis.iter().all(|row| row.len() == columns && row.iter().all(|value| value.is_finite()))
        && values.iter().all(|value| value.is_finite())
        && scales.iter().all(|scale| scale.is_finite() && *scale > 0.0);
    if !fit {
        return None;
    }
    let live: Vec<usize> =
        (0..columns).filter(|&column| basis.iter().any(|row| row[column] != 0.0)).take(basis.len()).collect();
    let rows: Vec<Vec<f64>> = basis
        .iter()
        .zip(scales)
        .map(|(row, scale)| live.iter().map(|&column| row[column] / scale).collect())
        .collect();
    let targets: Vec<f64> = values.iter().zip(scales).map(|(value, scale)| value / scale).collect();
    let first = least_absolute(&rows, &targets)?;
    let used = near(&rows, &targets, &first);
    let kept = used.iter().filter(|used| **used).count();
    let weights: Vec<f64> = used.iter().map(|used| f64::from(u8::from(*used))).collect();
    let solution = non_negative(&rows, &targets, &weights)?;
    let squares: f64 = residuals(&rows, &targets, &solution)
        .iter()
        .zip(&weights)
        .map(|(residual, weight)| weight * residual * residual)
        .sum();
    let freedom = kept.saturating_sub(live.len());
    let sigma = if freedom > 0 { (squares / freedom as f64).sqrt() } else { 0.0 };
    let inverse = inverse(&normal(&rows, &weights));
    let mut coefficients = vec![Estimate::bare(0.0); columns];
    for (place, &column) in live.iter().enumerate() {
        let error = inverse.as_ref().map(|inverse| sigma * inverse[place][place].max(0.0).sqrt());
        coefficients[column] = Estimate::new(solution[place], error, freedom);
    }
    Some(Regression { coefficients, sigma, freedom, used })
}

/// Iteratively reweighted least squares: a convex loss, so that it does not depend on where it begins.
fn least_absolute(rows: &[Vec<f64>], targets: &[f64]) -> Option<Vec<f64>> {
    let mut weights = vec![1.0; rows.len()];
    let mut solution = non_negative(rows, targets, &weights)?;
    for _ in 0..ROUNDS {
        for (weight, residual) in weights.iter_mut().zip(residuals(rows, targets, &solution)) {
            *weight = 1.0 / residual.abs().max(1e-9);
        }
        let next = non_negative(rows, targets, &weights)?;
        let moved = next.iter().zip(&solution).map(|(a, b)| (a - b).abs() / (b.abs() + 1e-30));
        let still = moved.fold(0.0, f64::max) < 1e-7;
        solution = next;
        if still {
            break;
        }
    }
    Some(solution)
}

/// Rows that are near a solution. As many residuals as there are coefficients can be 0 however wide the
/// data scatter, and do not count.
fn near(rows: &[Vec<f64>], targets: &[f64], solution: &[f64]) -> Vec<bool> {
    let residuals = residuals(rows, targets, solution);
    let mut sizes: Vec<f64> = residuals.iter().map(|residual| residual.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let free = &sizes[solution.len().min(sizes.len() - 1)..];
    let sigma = MAD_TO_SIGMA * median(free.to_vec());
    let share = targets.iter().map(|target| FAR_SHARE * target.abs());
    residuals.iter().zip(share).map(|(residual, share)| residual.abs() <= (FAR * sigma).max(share)).collect()
}

fn residuals(rows: &[Vec<f64>], targets: &[f64], solution: &[f64]) -> Vec<f64> {
    let at = |row: &Vec<f64>| row.iter().zip(solution).map(|(a, b)| a * b).sum::<f64>();
    rows.iter().zip(targets).map(|(row, target)| at(row) - target).collect()
}

/// Weighted least squares with coefficients of at least 0: the best of all sets of columns that give none
/// below. There are at most a handful of columns.
fn non_negative(rows: &[Vec<f64>], targets: &[f64], weights: &[f64]) -> Option<Vec<f64>> {
    let columns = rows.first()?.len();
    let normal = normal(rows, weights);
    let right: Vec<f64> = (0..columns)
        .map(|c| rows.iter().zip(targets).zip(weights).map(|((row, y), w)| w * row[c] * y).sum())
        .collect();
    let mut best: Option<(f64, Vec<f64>)> = None;
    for set in (0..1_u32 << columns).rev() {
        let chosen: Vec<usize> = (0..columns).filter(|c| set >> c & 1 == 1).collect();
        let matrix: Vec<Vec<f64>> =
            chosen.iter().map(|&r| chosen.iter().map(|&c| normal[r][c]).collect()).collect();
        let Some(inverse) = inverse(&matrix) else { continue };
        let mut solution = vec![0.0; columns];
        for (place, row) in chosen.iter().zip(&inverse) {
            solution[*place] = row.iter().zip(&chosen).map(|(a, &c)| a * right[c]).sum();
        }
        if solution.iter().any(|value| *value < 0.0 || !value.is_finite()) {
            continue;
        }
        // The loss but for a constant: what the chosen columns explain.
        let gain: f64 = solution.iter().zip(&right).map(|(a, b)| a * b).sum();
        // A set within rounding of a larger one brings nothing.
        if best.as_ref().is_none_or(|(most, _)| gain > most + most.abs() * 1e-12) {
            best = Some((gain, solution));
        }
        if set + 1 == 1 << columns {
            // All columns serve: no smaller set can do better.
            break;
        }
    }
    best.map(|(_, solution)| solution)
}

fn normal(rows: &[Vec<f64>], weights: &[f64]) -> Vec<Vec<f64>> {
    let columns = rows.first().map_or(0, Vec::len);
    let entry = |a: usize, b: usize| rows.iter().zip(weights).map(|(row, w)| w * row[a] * row[b]).sum();
    (0..columns).map(|a| (0..columns).map(|b| entry(a, b)).collect()).collect()
}

/// Gauss and Jordan's inverse of a symmetric matrix, its columns brought to one size first; `None` if it
/// is singular to rounding.
fn inverse(matrix: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = matrix.len();
    let size: Vec<f64> = (0..n).map(|i| matrix[i][i].sqrt()).collect();
    if size.iter().any(|size| !size.is_finite() || *size <= 0.0) {
        return None;
    }
    let mut work: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            let left = (0..n).map(|j| matrix[i][j] / (size[i] * size[j]));
            left.chain((0..n).map(|j| f64::from(u8::from(i == j)))).collect()
        })
        .collect();
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| work[a][column].abs().total_cmp(&work[b][column].abs()))?;
        if work[pivot][column].abs() < 1e-12 {
            return None;
        }
        work.swap(column, pivot);
        let head = work[column][column];
        work[column].iter_mut().for_each(|value| *value /= head);
        let pivot_row = work[column].clone();
        for (row, line) in work.iter_mut().enumerate().filter(|(row, _)| *row != column) {
            let factor = line[column];
            debug_assert!(row < n);
            line.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some((0..n).map(|i| (0..n).map(|j| work[i][n + j] / (size[i] * size[j])).collect()).collect())
}

/// The median; 0 of nothing.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

#[cfg(test)]
mod tests {
    use super::super::coverage::{about_95_in_100, noise};
    use super::*;
    use forebay_engine::Stream;

    fn line(xs: &[f64]) -> Vec<Vec<f64>> {
        xs.iter().map(|x| vec![1.0, *x]).collect()
    }

    #[test]
    fn an_outlier_moves_nothing() {
        let xs = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0];
        let clean: Vec<f64> = xs.iter().map(|x| 0.02 + 0.001 * x).collect();
        for spoilt in 0..xs.len() {
            let mut values = clean.clone();
            values[spoilt] *= 5.0;
            let fit = regress(&line(&xs), &values, &values).unwrap();
            let [a, b] = [0, 1].map(|i| fit.coefficients[i].value);
            assert!((a / 0.02 - 1.0).abs() < 1e-6 && (b / 0.001 - 1.0).abs() < 1e-6, "{spoilt}: {a} {b}");
            assert_eq!(fit.used.iter().filter(|used| !**used).count(), 1);
        }
    }

    #[test]
    fn no_coefficient_is_negative() {
        let values = [5.0, 4.0, 3.5, 3.0];
        let fit = regress(&line(&[1.0, 2.0, 3.0, 4.0]), &values, &values).unwrap();
        assert!(fit.coefficients[1].value == 0.0 && fit.coefficients[0].value > 3.0, "{fit:?}");
    }

    #[test]
    fn few_rows_use_the_first_columns() {
        let fit = regress(&line(&[4.0]), &[3.0], &[3.0]).unwrap();
        assert_eq!((fit.coefficients[0].value, fit.coefficients[1].value), (3.0, 0.0));
        assert_eq!(fit.coefficients[0].ci95, None);
        assert_eq!(regress(&[], &[], &[]), None);
        assert_eq!(regress(&line(&[1.0]), &[f64::NAN], &[1.0]), None);
    }

    #[test]
    fn intervals_hold_the_truth_95_times_in_100() {
        let xs = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        about_95_in_100(500, |trial| {
            let mut stream = Stream::new(11, trial, "line", 0);
            let values: Vec<f64> =
                xs.iter().map(|x| (0.03 + 0.0005 * x) * (1.0 + 0.02 * noise(&mut stream))).collect();
            let fit = regress(&line(&xs), &values, &values).unwrap();
            fit.coefficients[1].holds(0.0005)
        });
    }
}
