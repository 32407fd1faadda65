//! A table of quantiles with straight lines between them.

use super::check::{finite, non_negative};
use super::{Below, Shape};
use crate::distribution::DistError;

#[derive(Clone, Debug)]
pub(crate) struct Empirical {
    /// Probability and value, the former strictly ascending from 0 to 1, the latter not descending.
    knots: Vec<[f64; 2]>,
    mean: f64,
    variance: f64,
}

impl Empirical {
    pub(super) fn new(quantiles: &[[f64; 2]]) -> Result<Self, DistError> {
        let last = quantiles.len().saturating_sub(1);
        if last == 0 {
            return Err(DistError::TooFew { field: "quantiles".into(), found: quantiles.len(), least: 2 });
        }
        for (at, &[q, value]) in quantiles.iter().enumerate() {
            let [before, floor] = if at == 0 { [-1.0, 0.0] } else { quantiles[at - 1] };
            let allowed = match at {
                0 => "0, the first probability".to_owned(),
                _ if at == last => "1, the last probability".to_owned(),
                _ => format!("a probability above the one before ({before}) and below 1"),
            };
            finite(format!("quantiles[{at}][0]"), q, allowed, |q| match at {
                0 => q == 0.0,
                _ if at == last => q == 1.0,
                _ => q > before && q < 1.0,
            })?;
            let field = format!("quantiles[{at}][1]");
            non_negative(field.clone(), value)?;
            let allowed = format!("a number not below the one before ({floor})");
            finite(field, value, allowed, |value| value >= floor)?;
        }
        let mut law = Self { knots: quantiles.to_vec(), mean: 0.0, variance: 0.0 };
        law.mean = law.pieces().map(|[dq, a, b]| dq * 0.5 * (a + b)).sum();
        law.variance = law.pieces().map(|[dq, a, b]| dq * spread(a - law.mean, b - law.mean)).sum();
        Ok(law)
    }

    /// Probability, lowest and highest value of each straight piece.
    fn pieces(&self) -> impl Iterator<Item = [f64; 3]> + '_ {
        self.knots.windows(2).map(|pair| [pair[1][0] - pair[0][0], pair[0][1], pair[1][1]])
    }
}

/// The mean square of a value uniform between `a` and `b`.
fn spread(a: f64, b: f64) -> f64 {
    (a * a + a * b + b * b) / 3.0
}

impl Shape for Empirical {
    fn mean(&self) -> f64 {
        self.mean
    }

    fn variance(&self) -> f64 {
        self.variance
    }

    fn min(&self) -> f64 {
        self.knots[0][1]
    }

    fn quantile(&self, q: f64) -> f64 {
        let upper = self.knots.partition_point(|knot| knot[0] < q).clamp(1, self.knots.len() - 1);
        let ([q0, low], [q1, high]) = (self.knots[upper - 1], self.knots[upper]);
        (low + (high - low) * ((q - q0) / (q1 - q0))).clamp(low, high)
    }

    fn below(&self, x: f64) -> Below {
        let mut sum = Below::NOTHING;
        for [dq, low, high] in self.pieces() {
            if x < low {
                break;
            }
            let top = x.min(high);
            let share = if x >= high { dq } else { dq * (x - low) / (high - low) };
            sum.probability += share;
            sum.first += share * 0.5 * (low + top);
            sum.second += share * spread(low, top);
        }
        sum
    }
}
