//! The curve that was seen: objective and constraints over the parameter, its cutoff and the cutoff's
//! interval.

use super::trials::{Phase, Trial};
use super::{CurvePoint, Estimate, Plan};
use forebay_engine::{Interval, Stream};
use serde::{Deserialize, Serialize};

/// Resamples of the bootstrap.
const RESAMPLES: u64 = 1000;
/// Points within so many steps of the best one lie on its parabola.
const AROUND: f64 = 2.5;

/// What makes the best value the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutoffKind {
    /// Beyond it a constraint is broken.
    Constraint,
    /// The objective is best there.
    Optimum,
}

/// Where the best value lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cutoff {
    /// Why it is there.
    pub kind: CutoffKind,
    /// The estimate.
    pub value: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// The value to set: at a constraint the safe end of the interval, at an optimum the estimate.
    pub recommended: f64,
    /// It lies at an end of the range: a wider one might hold a better value.
    pub at_end_of_range: bool,
}

/// A value with what was seen there, by replication.
#[derive(Clone, Debug)]
struct Seen {
    value: f64,
    phase: Phase,
    objective: Vec<f64>,
    /// By constraint.
    constraints: Vec<Vec<f64>>,
    /// Why it could not be evaluated.
    reason: Option<String>,
}

/// The curve that was seen, by ascending value.
#[derive(Clone, Debug)]
pub(super) struct Curve<'a> {
    plan: &'a Plan,
    seen: Vec<Seen>,
    /// Replications that count, one number for each draw: all of them once, or a resample.
    picked: Vec<usize>,
}

impl<'a> Curve<'a> {
    /// Of the trials of a search; those on held-out crowds do not count.
    pub(super) fn of(plan: &'a Plan, trials: &[Trial]) -> Self {
        let mut seen: Vec<Seen> = Vec::new();
        for trial in trials.iter().filter(|trial| trial.phase != Phase::HeldOut) {
            let Some(value) = trial.value else { continue };
            if seen.last().is_none_or(|last| last.value != value) {
                let constraints = vec![Vec::new(); plan.constraints.len()];
                seen.push(Seen {
                    value,
                    phase: trial.phase,
                    objective: Vec::new(),
                    constraints,
                    reason: None,
                });
            }
            let Some(last) = seen.last_mut() else { continue };
            last.reason = last.reason.take().or_else(|| trial.reason.clone());
            last.objective.push(trial.objective);
            for (values, value) in last.constraints.iter_mut().zip(&trial.constraints) {
                values.push(*value);
            }
        }
        seen.sort_by(|a, b| a.value.total_cmp(&b.value));
        let replications = seen.first().map_or(0, |first| first.objective.len());
        Self { plan, seen, picked: (0..replications).collect() }
    }

    pub(super) fn index_of(&self, value: f64) -> Option<usize> {
        self.seen.iter().position(|seen| seen.value == value)
    }

    fn mean(&self, values: &[f64]) -> f64 {
        self.picked.iter().map(|&index| values[index]).sum::<f64>() / self.picked.len() as f64
    }

    /// Mean objective at a point, turned so that larger is better; minus infinity where the point could not
    /// be evaluated.
    pub(super) fn worth(&self, index: usize) -> f64 {
        if self.seen[index].reason.is_some() {
            return f64::NEG_INFINITY;
        }
        self.plan.goal.turned(self.mean(&self.seen[index].objective))
    }

    /// By how much the means break the constraint that is broken most, as a share of its limit; 0 or less
    /// when all hold. Minus infinity without constraints, infinity where the point could not be evaluated.
    pub(super) fn violation(&self, index: usize) -> f64 {
        if self.seen[index].reason.is_some() {
            return f64::INFINITY;
        }
        let broken = self.plan.constraints.iter().zip(&self.seen[index].constraints);
        broken
            .map(|(constraint, values)| {
                let scale = if constraint.limit == 0.0 { 1.0 } else { constraint.limit.abs() };
                constraint.violation(self.mean(values)) / scale
            })
            .fold(f64::NEG_INFINITY, f64::max)
    }

    fn feasible(&self, index: usize) -> bool {
        self.violation(index) <= 0.0
    }

    /// Whether the objective differs anywhere by more than the replications of its best and worst point
    /// scatter, in pairs; and so whether the parameter moves it.
    pub(super) fn moves(&self) -> bool {
        let known = || (0..self.seen.len()).filter(|&index| self.seen[index].reason.is_none());
        let extreme = |sign: f64| {
            known().reduce(|a, b| if sign * self.worth(b) > sign * self.worth(a) { b } else { a })
        };
        let Some((best, worst)) = extreme(1.0).zip(extreme(-1.0)) else { return true };
        let (best, worst) = (&self.seen[best].objective, &self.seen[worst].objective);
        if best.len() < 2 {
            return best != worst;
        }
        let difference = Interval::paired(best, worst, 0.95);
        difference.lo > 0.0 || difference.hi < 0.0
    }

    /// The feasible point of the best mean.
    fn best(&self) -> Option<usize> {
        (0..self.seen.len())
            .filter(|&index| self.feasible(index))
            .reduce(|best, other| if self.worth(other) > self.worth(best) { other } else { best })
    }

    /// The first point from `best` in a direction that breaks a constraint.
    fn first_broken(&self, best: usize, rising: bool) -> Option<usize> {
        if rising {
            (best + 1..self.seen.len()).find(|&index| !self.feasible(index))
        } else {
            (0..best).rev().find(|&index| !self.feasible(index))
        }
    }

    /// Whether the point next to `best` breaks a constraint and has the better objective.
    fn barred(&self, best: usize, rising: bool) -> bool {
        let next = if rising { Some(best + 1) } else { best.checked_sub(1) };
        next.zip(self.first_broken(best, rising))
            .is_some_and(|(next, broken)| next == broken && self.worth(broken) > self.worth(best))
    }

    /// The best point and the one beside it that breaks a constraint, if there is one: of two, that with
    /// the better objective.
    pub(super) fn edge(&self) -> Option<(f64, f64)> {
        let best = self.best()?;
        let beside = [best.checked_sub(1), Some(best + 1).filter(|&next| next < self.seen.len())];
        let broken = beside
            .into_iter()
            .flatten()
            .filter(|&index| !self.feasible(index) && self.violation(index).is_finite())
            .reduce(|a, b| if self.worth(b) > self.worth(a) { b } else { a })?;
        Some((self.seen[best].value, self.seen[broken].value))
    }

    /// The feasible values around the best point, unless a constraint bars the way to a better objective,
    /// or they are not `least` apart.
    pub(super) fn around_optimum(&self, least: f64) -> Option<(f64, f64)> {
        let best = self.best()?;
        if self.barred(best, false) || self.barred(best, true) {
            return None;
        }
        let value = |index: usize| self.seen[index].value;
        let beside = |index: Option<usize>| {
            index.filter(|&index| index < self.seen.len() && self.feasible(index)).map_or(value(best), value)
        };
        let (from, to) = (beside(best.checked_sub(1)), beside(Some(best + 1)));
        (to - from > least).then_some((from, to))
    }

    /// The points, for people; without intervals where all crowds are one.
    pub(super) fn points(&self, one_crowd: bool) -> Vec<CurvePoint> {
        let estimate = |seen: &Seen, values: &Vec<f64>| {
            seen.reason.is_none().then(|| Estimate::of(Interval::of(values, 0.95), one_crowd))
        };
        let point = |(index, seen): (usize, &Seen)| CurvePoint {
            value: seen.value,
            phase: seen.phase,
            objective: estimate(seen, &seen.objective),
            constraints: seen.constraints.iter().map(|values| estimate(seen, values)).collect(),
            feasible: self.feasible(index),
            reason: seen.reason.clone(),
        };
        self.seen.iter().enumerate().map(point).collect()
    }

    /// The point that breaks the constraints least.
    pub(super) fn least_broken(&self) -> Option<CurvePoint> {
        let least = (0..self.seen.len()).reduce(|least, other| {
            if self.violation(other) < self.violation(least) { other } else { least }
        })?;
        self.points(false).into_iter().nth(least)
    }

    /// Where the best value lies, with its interval by the percentile bootstrap over the replications
    /// (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13).
    ///
    /// It is the optimum among the feasible points, unless that is barred by a constraint or lies nearer
    /// to one than the constraint's own interval: then it is the constraint.
    pub(super) fn cutoff(&self) -> Option<Cutoff> {
        let best = self.best()?;
        let (value, ci95) = self.bootstrap(|curve| curve.optimum(best));
        let near = |end: f64| (value - end).abs() <= 0.5 * self.plan.step();
        let mut cutoff = Cutoff {
            kind: CutoffKind::Optimum,
            value: self.plan.tidy(value),
            ci95,
            recommended: self.plan.coarse(value).clamp(self.plan.from, self.plan.to),
            at_end_of_range: near(self.plan.from) || near(self.plan.to),
        };
        let step = self.plan.resolution();
        for rising in [false, true] {
            if self.first_broken(best, rising).is_none() {
                continue;
            }
            let (value, ci95) = self.bootstrap(|curve| curve.crossing(best, rising));
            // Rounded towards the feasible side, so that rounding does not undo the margin.
            let safe = if rising {
                (ci95[0] / step + 1e-9).floor() * step
            } else {
                (ci95[1] / step - 1e-9).ceil() * step
            };
            let beyond = if rising { cutoff.recommended > safe } else { cutoff.recommended < safe };
            if beyond || self.barred(best, rising) {
                cutoff = Cutoff {
                    kind: CutoffKind::Constraint,
                    value: self.plan.tidy(value),
                    ci95,
                    recommended: self.plan.tidy(safe.clamp(self.plan.from, self.plan.to)),
                    at_end_of_range: false,
                };
            }
        }
        Some(cutoff)
    }

    /// A quantity of the curve, and its 95 % interval.
    fn bootstrap(&self, quantity: impl Fn(&Self) -> f64) -> (f64, [f64; 2]) {
        let value = quantity(self);
        let mut resampled: Vec<f64> = (0..RESAMPLES).map(|n| quantity(&self.resample(n))).collect();
        resampled.sort_by(f64::total_cmp);
        let rank = |share: f64| resampled[((RESAMPLES as f64 * share) as usize).min(resampled.len() - 1)];
        (value, [rank(0.025).min(value), rank(0.975).max(value)].map(|end| self.plan.tidy(end)))
    }

    /// The same curve with replications drawn anew, with replacement: the same draw at all points, for
    /// a replication is one crowd that all points faced.
    fn resample(&self, number: u64) -> Self {
        let mut stream = Stream::new(self.plan.seed, number, "bootstrap", 0);
        let n = self.picked.len();
        let picked = (0..n).map(|_| ((stream.uniform() * n as f64) as usize).min(n - 1)).collect();
        Self { picked, ..self.clone() }
    }

    /// Where the mean violation passes zero in a direction, linear between points, seen from a point that
    /// is feasible on the whole curve. The end of what was seen where it does not.
    fn crossing(&self, feasible: usize, rising: bool) -> f64 {
        let last = self.seen.len() - 1;
        let ahead = |at: usize| if rising { (at < last).then(|| at + 1) } else { at.checked_sub(1) };
        let behind = |at: usize| if rising { at.checked_sub(1) } else { (at < last).then(|| at + 1) };
        let mut at = feasible;
        // On a resample the point may not be feasible: back to one that is.
        while !self.feasible(at) {
            match behind(at) {
                Some(before) => at = before,
                None => return self.seen[at].value,
            }
        }
        loop {
            match ahead(at) {
                None => return self.seen[at].value,
                Some(next) if self.feasible(next) => at = next,
                Some(next) => {
                    let (low, high) = (self.violation(at), self.violation(next));
                    let (from, to) = (self.seen[at].value, self.seen[next].value);
                    if !(low.is_finite() && high.is_finite()) {
                        return from;
                    }
                    return from + (to - from) * low / (low - high);
                }
            }
        }
    }

    /// The vertex of the parabola through the feasible points around the best one; the best one itself
    /// where there is no such vertex between them.
    fn optimum(&self, around: usize) -> f64 {
        let Some(best) = self.best() else { return self.seen[around].value };
        let centre = self.seen[best].value;
        let reach = AROUND * self.plan.step();
        let points: Vec<(f64, f64)> = (0..self.seen.len())
            .filter(|&index| self.feasible(index) && (self.seen[index].value - centre).abs() <= reach)
            .map(|index| (self.seen[index].value - centre, self.worth(index)))
            .collect();
        let span = |pick: fn(f64, f64) -> f64| points.iter().map(|(x, _)| *x).fold(0.0, pick);
        match vertex(&points) {
            Some(offset) if (span(f64::min)..=span(f64::max)).contains(&offset) => centre + offset,
            _ => centre,
        }
    }

    /// The swept value nearest to `value` that breaks a constraint by more than half its limit.
    pub(super) fn cliff(&self, value: f64) -> Option<f64> {
        (0..self.seen.len())
            .filter(|&index| self.violation(index) > 0.5 && self.violation(index).is_finite())
            .map(|index| self.seen[index].value)
            .reduce(|a, b| if (b - value).abs() < (a - value).abs() { b } else { a })
    }
}

/// The x of the top of the least-squares parabola through points; `None` when it has no top.
fn vertex(points: &[(f64, f64)]) -> Option<f64> {
    if points.len() < 4 {
        return None;
    }
    // Scaled to about 1, so that the normal equations are well conditioned.
    let scale = points.iter().map(|(x, _)| x.abs()).fold(0.0, f64::max);
    let n = points.len() as f64;
    let level = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let sum =
        |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(x / scale, y - level)).sum::<f64>();
    let (s1, s2) = (sum(&|x, _| x), sum(&|x, _| x * x));
    let (s3, s4) = (sum(&|x, _| x * x * x), sum(&|x, _| x * x * x * x));
    let (t1, t2) = (sum(&|x, y| x * y), sum(&|x, y| x * x * y));
    // y = c + b x + a x^2 with the sum of y zero: eliminate c.
    let (m11, m12, m22) = (s2 - s1 * s1 / n, s3 - s1 * s2 / n, s4 - s2 * s2 / n);
    let determinant = m11 * m22 - m12 * m12;
    if determinant <= 1e-12 * m11 * m22 {
        return None;
    }
    let b = (t1 * m22 - t2 * m12) / determinant;
    let a = (t2 * m11 - t1 * m12) / determinant;
    (a < 0.0).then(|| -b / (2.0 * a) * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vertex_of_a_parabola_is_found() {
        let points: Vec<(f64, f64)> =
            (0..6).map(f64::from).map(|x| (x, 7.0 - (x - 2.3) * (x - 2.3))).collect();
        assert!((vertex(&points).unwrap() - 2.3).abs() < 1e-9);
        let valley: Vec<(f64, f64)> = points.iter().map(|(x, y)| (*x, -y)).collect();
        assert_eq!(vertex(&valley), None);
        assert_eq!(vertex(&points[..3]), None);
        assert_eq!(vertex(&[(0.0, 1.0), (0.0, 1.0), (1.0, 2.0), (1.0, 2.0)]), None);
    }
}
