//! A measured curve: a positive quantity at a few measured points, straight lines between them.
//!
//! Time per token and power against the batch size bend in ways that no short formula holds: kernels and
//! graphs change at certain batch sizes, experts of a mixture fill up, and a device meets its power limit.
//! On ML.ENERGY's table, leaving out every inner fitted point in turn and asking the rest for it (so on
//! the fitted half alone), the median error of time per token is 7.8 % for straight lines against 11.7 %
//! for one robust line; of power 3.2 % over the logarithm of the batch against 7.7 %. Three smooth terms
//! (1, ln x, x) come near at 7.6 % and 4.6 %, and serve here as the robust trend that outliers are held to.
//!
//! Before they become knots, points are held within a quarter of that trend, and where the
//! quantity cannot fall (time per token, as the batch grows) neighbours that do fall are pooled.

use serde::{Deserialize, Serialize};

use super::robust::{Estimate, median, regress, significant};

/// A point further from the robust trend than this factor is moved to it.
const NEAR_TREND: f64 = 1.25;
/// Fewest points of a trend with three terms; one with fewer has two.
const POINTS_TO_BEND: usize = 6;
/// Points whose `x` differ by less than this share are one.
const SAME_X: f64 = 0.02;

/// Along what the lines between two points are straight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Axis {
    /// The variable itself.
    Linear,
    /// Its logarithm.
    Log,
}

/// A curve through measured points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Along what the lines between two points are straight.
    pub along: Axis,
    /// Points `[x, y]` by rising `x`. Below the first the curve is level, beyond the last it goes on as the
    /// last line does.
    pub points: Vec<[f64; 2]>,
    /// Standard error of a point, as a share of it; absent with fewer than four points.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
}

/// What is known of the quantity beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// It does not fall.
    Rising,
    /// Nothing.
    Free,
}

impl Curve {
    /// The curve of some measured points, in any order; `None` without two points at different `x`, and
    /// where a number is not positive and finite.
    pub fn fit(measured: &[(f64, f64)], along: Axis, shape: Shape) -> Option<Self> {
        let sound = |value: f64| value.is_finite() && value > 0.0;
        if !measured.iter().all(|&(x, y)| sound(x) && sound(y)) {
            return None;
        }
        let mut points = merged(measured);
        if points.len() < 2 {
            return None;
        }
        hold_to_trend(&mut points);
        let standard_error = scatter(&points, along);
        if shape == Shape::Rising {
            pool(&mut points);
        }
        Some(Self { along, points, standard_error })
    }

    /// The value at `x`; never below 0.
    pub fn at(&self, x: f64) -> f64 {
        let points = &self.points;
        let Some(&[first_x, first_y]) = points.first() else { return 0.0 };
        if x <= first_x || points.len() < 2 {
            return first_y;
        }
        let right = points.partition_point(|point| point[0] < x).clamp(1, points.len() - 1);
        between(points[right - 1], points[right], x, self.along).max(0.0)
    }

    /// Smallest and largest measured `x`.
    pub fn range(&self) -> [f64; 2] {
        let end = |point: Option<&[f64; 2]>| point.map_or(0.0, |point| point[0]);
        [end(self.points.first()), end(self.points.last())]
    }

    /// A point with its interval: the curve's standard error is its scatter about its neighbours.
    pub fn estimate(&self, point: usize) -> Estimate {
        let y = self.points[point][1];
        Estimate::new(y, self.standard_error.map(|share| share * y), self.points.len().saturating_sub(2))
    }

    /// Absolute errors, percent, of each inner point as the others have it: errors between points that are
    /// twice as far apart. None with fewer than three points.
    pub fn left_out(measured: &[(f64, f64)], along: Axis, shape: Shape) -> Vec<f64> {
        let points = merged(measured);
        let mut errors = Vec::new();
        for left_out in 1..points.len().saturating_sub(1) {
            let rest: Vec<(f64, f64)> = points
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != left_out)
                .map(|(_, p)| (p[0], p[1]))
                .collect();
            let Some(curve) = Self::fit(&rest, along, shape) else { continue };
            let [x, y] = points[left_out];
            errors.push(100.0 * (curve.at(x) / y - 1.0).abs());
        }
        errors
    }

    /// With `digits` significant digits in `y`, and three more digits in `x` than batches have.
    #[must_use]
    pub fn rounded(&self, digits: usize) -> Self {
        let points = self.points.iter().map(|[x, y]| [significant(*x, 6), significant(*y, digits)]);
        Self {
            along: self.along,
            points: points.collect(),
            standard_error: self.standard_error.map(|share| significant(share, 2)),
        }
    }
}

fn between([x0, y0]: [f64; 2], [x1, y1]: [f64; 2], x: f64, along: Axis) -> f64 {
    let share = match along {
        Axis::Linear => (x - x0) / (x1 - x0),
        Axis::Log => libm::log(x / x0) / libm::log(x1 / x0),
    };
    y0 + (y1 - y0) * share
}

/// By rising `x`, points at nearly the same `x` made one.
fn merged(measured: &[(f64, f64)]) -> Vec<[f64; 2]> {
    let mut sorted: Vec<[f64; 2]> = measured.iter().map(|&(x, y)| [x, y]).collect();
    sorted.sort_by(|a, b| a[0].total_cmp(&b[0]).then(a[1].total_cmp(&b[1])));
    let mut groups: Vec<Vec<[f64; 2]>> = Vec::new();
    for point in sorted {
        match groups.last_mut() {
            Some(group) if point[0] <= group[0][0] * (1.0 + SAME_X) => group.push(point),
            _ => groups.push(vec![point]),
        }
    }
    let mean = |group: &Vec<[f64; 2]>, axis: usize| {
        group.iter().map(|point| point[axis]).sum::<f64>() / group.len() as f64
    };
    groups.iter().map(|group| [mean(group, 0), mean(group, 1)]).collect()
}

/// Moves points that are far from the robust trend to where they are just near.
fn hold_to_trend(points: &mut [[f64; 2]]) {
    let first = points[0][0];
    // Three terms go through nearly all of a handful of points, outliers too.
    let bends = points.len() >= POINTS_TO_BEND;
    let row = |[x, _]: &[f64; 2]| {
        if bends { vec![1.0, libm::log(x / first), x - first] } else { vec![1.0, x - first] }
    };
    let basis: Vec<Vec<f64>> = points.iter().map(row).collect();
    let values: Vec<f64> = points.iter().map(|point| point[1]).collect();
    // Relative to the value or to what its neighbours have, whichever is larger: an outlier far above then
    // weighs little, and one far below not more than others.
    let scales: Vec<f64> = (0..values.len())
        .map(|i| {
            let from = i.saturating_sub(1).min(values.len().saturating_sub(3));
            median(values[from..(from + 3).min(values.len())].to_vec()).max(values[i])
        })
        .collect();
    let Some(trend) = regress(&basis, &values, &scales) else { return };
    for (point, row) in points.iter_mut().zip(&basis) {
        let at = trend.at(row);
        if at > 0.0 {
            point[1] = point[1].clamp(at / NEAR_TREND, at * NEAR_TREND);
        }
    }
}

/// Pools neighbours that fall, each pool at the median of its logarithms.
fn pool(points: &mut [[f64; 2]]) {
    let mut pools: Vec<Vec<f64>> = Vec::new();
    for point in points.iter() {
        pools.push(vec![libm::log(point[1])]);
        while let [.., before, last] = pools.as_slice() {
            if median(before.clone()) <= median(last.clone()) {
                break;
            }
            let last = pools.pop().unwrap_or_default();
            pools.last_mut().expect("there were two").extend(last);
        }
    }
    let levels = pools.iter().flat_map(|pool| {
        // A pool of one keeps its value to the last digit.
        let level = (pool.len() > 1).then(|| libm::exp(median(pool.clone())));
        std::iter::repeat_n(level, pool.len())
    });
    for (point, level) in points.iter_mut().zip(levels) {
        point[1] = level.unwrap_or(point[1]);
    }
}

/// Relative standard deviation of a point, from how far inner points lie from the line between their
/// neighbours. A bend counts as scatter, so that it is rather too large than too small.
fn scatter(points: &[[f64; 2]], along: Axis) -> Option<f64> {
    if points.len() < 4 {
        return None;
    }
    let squares: f64 = points
        .windows(3)
        .map(|three| {
            let [left, middle, right] = [three[0], three[1], three[2]];
            let at = between(left, right, middle[0], along);
            // The line's own variance, in units of a point's: shares of its two ends.
            let share = between([left[0], 0.0], [right[0], 1.0], middle[0], along);
            let variance = 1.0 + share * share + (1.0 - share) * (1.0 - share);
            let off = (middle[1] - at) / middle[1];
            off * off / variance
        })
        .sum();
    Some((squares / (points.len() - 2) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::coverage::{about_95_in_100, noise};
    use super::*;
    use forebay_engine::Stream;

    const BATCHES: [f64; 8] = [8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

    fn bent(x: f64) -> f64 {
        0.02 + 0.001 * x + 0.002 * libm::log(x)
    }

    #[test]
    fn goes_through_its_points_and_on_beyond_them() {
        let curve = Curve::fit(&[(1.0, 2.0), (3.0, 4.0), (2.0, 3.5)], Axis::Linear, Shape::Free).unwrap();
        assert_eq!([0.5, 1.0, 1.5, 3.0, 5.0].map(|x| curve.at(x)), [2.0, 2.0, 2.75, 4.0, 5.0]);
        let log = Curve::fit(&[(10.0, 100.0), (1000.0, 300.0)], Axis::Log, Shape::Free).unwrap();
        assert!((log.at(100.0) - 200.0).abs() < 1e-9 && log.range() == [10.0, 1000.0]);
    }

    #[test]
    fn an_outlier_is_held_to_the_trend() {
        // An end has no neighbour beyond it: there a factor of five may leave one of two.
        for spoilt in 1..BATCHES.len() - 1 {
            for factor in [5.0, 0.2] {
                let mut points: Vec<(f64, f64)> = BATCHES.iter().map(|&x| (x, bent(x))).collect();
                points[spoilt].1 *= factor;
                let curve = Curve::fit(&points, Axis::Linear, Shape::Rising).unwrap();
                for x in [10.0, 48.0, 200.0, 800.0] {
                    let off = curve.at(x) / bent(x);
                    assert!((0.7..1.4).contains(&off), "{spoilt} x {factor}: {off} at {x}");
                }
                assert!(curve.points.windows(2).all(|two| two[0][1] <= two[1][1]));
            }
        }
    }

    #[test]
    fn what_is_no_curve_is_refused() {
        assert_eq!(Curve::fit(&[(1.0, 1.0)], Axis::Linear, Shape::Free), None);
        assert_eq!(Curve::fit(&[(1.0, 1.0), (1.001, 1.0)], Axis::Linear, Shape::Free), None);
        assert_eq!(Curve::fit(&[(1.0, 1.0), (2.0, -1.0)], Axis::Linear, Shape::Free), None);
        assert_eq!(Curve::fit(&[(1.0, f64::NAN), (2.0, 1.0)], Axis::Log, Shape::Free), None);
    }

    #[test]
    fn intervals_hold_the_truth_95_times_in_100() {
        about_95_in_100(500, |trial| {
            let mut stream = Stream::new(12, trial, "curve", 0);
            let truth = |x: f64| 0.02 + 0.001 * x;
            let points: Vec<(f64, f64)> =
                BATCHES.iter().map(|&x| (x, truth(x) * (1.0 + 0.02 * noise(&mut stream)))).collect();
            let curve = Curve::fit(&points, Axis::Linear, Shape::Free).unwrap();
            let point = trial as usize % BATCHES.len();
            curve.estimate(point).holds(truth(BATCHES[point]))
        });
    }
}
