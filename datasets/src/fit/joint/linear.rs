//! Least absolute deviations of a linear model within bounds, by least squares with new weights.
//!
//! Absolute and not squared, because near saturation a request that misses a wave of admissions is off by
//! seconds, and squares would fit that one.

/// Rounds of weighting.
const ROUNDS: usize = 25;
/// Deviations smaller than this share of the mean one weigh no more than it.
const FLOOR: f64 = 0.02;
/// Keeps what the data say nothing of where it is, as a share of the mean curvature.
const RIDGE: f64 = 1e-9;

/// A row of the model: `|value + slopes . step|`, times a weight.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) value: f64,
    pub(super) slopes: Vec<f64>,
    pub(super) weight: f64,
}

/// The step within `[low, high]` (per axis; 0 lies within) with the least sum of weighted deviations.
pub(super) fn least_deviations(rows: &[Row], low: &[f64], high: &[f64]) -> Vec<f64> {
    let axes = low.len();
    let mut step = vec![0.0; axes];
    let total: f64 = rows.iter().map(|row| row.weight).sum();
    for _ in 0..ROUNDS {
        let deviation = |row: &Row| row.value + dot(&row.slopes, &step);
        let mean = rows.iter().map(|row| row.weight * deviation(row).abs()).sum::<f64>() / total;
        if mean.is_nan() || mean <= 0.0 {
            break;
        }
        let mut curvature = vec![0.0; axes * axes];
        let mut pull = vec![0.0; axes];
        for row in rows {
            let weight = row.weight / deviation(row).abs().max(FLOOR * mean);
            for (i, &slope) in row.slopes.iter().enumerate() {
                let weighted = weight * slope;
                pull[i] -= weighted * row.value;
                for (sum, &other) in curvature[i * axes..].iter_mut().zip(&row.slopes[..=i]) {
                    *sum += weighted * other;
                }
            }
        }
        for i in 0..axes {
            for j in 0..i {
                curvature[j * axes + i] = curvature[i * axes + j];
            }
        }
        let before = step.clone();
        descend(&curvature, &pull, low, high, &mut step);
        let moved = step.iter().zip(&before).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        if moved < 1e-6 {
            break;
        }
    }
    step
}

/// Minimises a quadratic within bounds: exactly, as the parts of a cost are nearly alike, and going along one
/// axis after the other would stop far from the lowest point.
///
/// Axes are free or held at a bound. From a place within the bounds it goes towards the lowest place of the
/// free axes; the first bound on the way holds its axis; once there, the axis that most wants to leave its
/// bound is freed.
fn descend(curvature: &[f64], pull: &[f64], low: &[f64], high: &[f64], step: &mut [f64]) {
    let axes = step.len();
    let ridge = RIDGE * (0..axes).map(|i| curvature[i * axes + i]).sum::<f64>() / axes as f64;
    let mut free: Vec<bool> = (0..axes).map(|i| step[i] > low[i] && step[i] < high[i]).collect();
    for _ in 0..8 * axes {
        let towards = lowest(curvature, pull, ridge, &free, step);
        let mut share = 1.0;
        let mut held = None;
        for i in (0..axes).filter(|&i| free[i]) {
            let move_by = towards[i] - step[i];
            let room = if move_by > 0.0 { high[i] - step[i] } else { low[i] - step[i] };
            if move_by.abs() > room.abs() && room / move_by < share {
                (share, held) = (room / move_by, Some((i, if move_by > 0.0 { high[i] } else { low[i] })));
            }
        }
        (0..axes).filter(|&i| free[i]).for_each(|i| step[i] += share * (towards[i] - step[i]));
        if let Some((held, bound)) = held {
            step[held] = bound;
            free[held] = false;
            continue;
        }
        let wish = |i: usize| {
            let uphill = dot(&curvature[i * axes..(i + 1) * axes], step) + ridge * step[i] - pull[i];
            let inwards = if step[i] <= low[i] { -uphill } else { uphill };
            inwards / (curvature[i * axes + i] + ridge).max(f64::MIN_POSITIVE)
        };
        let leaves = (0..axes).filter(|&i| !free[i] && high[i] > low[i]).map(|i| (wish(i), i));
        match leaves.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((wish, leaving)) if wish > 1e-9 => free[leaving] = true,
            _ => return,
        }
    }
}

/// The lowest place when only the free axes move: Cholesky's method.
fn lowest(curvature: &[f64], pull: &[f64], ridge: f64, free: &[bool], step: &[f64]) -> Vec<f64> {
    let axes = step.len();
    let free: Vec<usize> = (0..axes).filter(|&i| free[i]).collect();
    let n = free.len();
    let (mut root, mut solved) = (vec![0.0; n * n], vec![0.0; n]);
    for (row, &i) in free.iter().enumerate() {
        let held = (0..axes).filter(|j| !free.contains(j));
        solved[row] = pull[i] - held.map(|j| curvature[i * axes + j] * step[j]).sum::<f64>();
        for (column, &j) in free[..=row].iter().enumerate() {
            let own = if row == column { ridge } else { 0.0 };
            let known = dot(&root[row * n..row * n + column], &root[column * n..column * n + column]);
            let left = curvature[i * axes + j] + own - known;
            root[row * n + column] = if row == column {
                left.max(f64::MIN_POSITIVE).sqrt()
            } else {
                left / root[column * n + column]
            };
        }
        solved[row] =
            (solved[row] - dot(&root[row * n..row * n + row], &solved[..row])) / root[row * n + row];
    }
    for row in (0..n).rev() {
        let below = (row + 1..n).map(|lower| root[lower * n + row] * solved[lower]).sum::<f64>();
        solved[row] = (solved[row] - below) / root[row * n + row];
    }
    let mut place = step.to_vec();
    free.iter().zip(&solved).for_each(|(&i, &value)| place[i] = value);
    place
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(points: &[(f64, f64)]) -> Vec<Row> {
        points.iter().map(|&(x, y)| Row { value: -y, slopes: vec![1.0, x], weight: 1.0 }).collect()
    }

    #[test]
    fn a_line_is_found_through_outliers() {
        let points: Vec<(f64, f64)> = (0..20)
            .map(|i| (f64::from(i), 2.0 + 0.5 * f64::from(i) + if i % 7 == 3 { 50.0 } else { 0.0 }))
            .collect();
        let line = least_deviations(&rows(&points), &[-9.0; 2], &[9.0; 2]);
        assert!((line[0] - 2.0).abs() < 0.05 && (line[1] - 0.5).abs() < 0.01, "{line:?}");
    }

    #[test]
    fn bounds_hold_and_the_rest_adapts() {
        let points: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), 5.0 - 0.1 * f64::from(i))).collect();
        let line = least_deviations(&rows(&points), &[0.0; 2], &[9.0; 2]);
        assert_eq!(line[1], 0.0);
        assert!((line[0] - 4.05).abs() < 0.2, "{line:?}");
    }
}
