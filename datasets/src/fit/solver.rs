//! Nelder and Mead's method on argmin, restarted: simulated latencies are steps in the coefficients
//! (a request makes this iteration or the next), so there is no gradient to follow, and a simplex that
//! has shrunk onto a step is blown up again.

use argmin::core::{CostFunction, Error, Executor};
use argmin::solver::neldermead::NelderMead;

/// What is returned in place of a cost that is not a number: the solver orders by cost and must not meet
/// NaN.
const WORST: f64 = 1e30;

/// A function to minimise.
struct Objective<'a, F>(&'a F);

impl<F: Fn(&[f64]) -> f64> CostFunction for Objective<'_, F> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, point: &Vec<f64>) -> Result<f64, Error> {
        let cost = (self.0)(point);
        Ok(if cost.is_finite() { cost.min(WORST) } else { WORST })
    }
}

/// Minimises `cost` from `start`, with one restart per entry of `spans`, the edge of the simplex that it
/// begins with. Returns the best point and its cost. The same input gives the same result.
///
/// # Errors
/// Whatever the solver refuses, as text: an empty `start` among others.
pub fn minimise<F: Fn(&[f64]) -> f64>(
    cost: &F,
    start: &[f64],
    spans: &[f64],
    iterations: u64,
) -> Result<(Vec<f64>, f64), String> {
    let mut best = (start.to_vec(), cost(start));
    for span in spans {
        let simplex = (0..=start.len()).map(|corner| {
            let mut point = best.0.clone();
            if let Some(value) = corner.checked_sub(1).and_then(|axis| point.get_mut(axis)) {
                *value += span;
            }
            point
        });
        let solver = NelderMead::new(simplex.collect()).with_sd_tolerance(1e-7).map_err(|e| e.to_string())?;
        let run = Executor::new(Objective(cost), solver)
            .configure(|state| state.max_iters(iterations))
            .run()
            .map_err(|e| e.to_string())?;
        let state = run.state;
        if let Some(point) = state.best_param.filter(|_| state.best_cost < best.1 || best.1.is_nan()) {
            best = (point, state.best_cost);
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_bottom_of_a_valley() {
        let valley = |x: &[f64]| 100.0 * (x[1] - x[0] * x[0]).powi(2) + (1.0 - x[0]).powi(2);
        let (point, cost) = minimise(&valley, &[-1.2, 1.0], &[0.5, -0.3, 0.2], 300).unwrap();
        assert!(cost < 1e-5 && (point[0] - 1.0).abs() < 0.01, "{point:?}: {cost}");
    }

    #[test]
    fn survives_a_function_without_values() {
        let (point, _) = minimise(&|_: &[f64]| f64::NAN, &[1.0, 2.0], &[0.1], 10).unwrap();
        assert_eq!(point.len(), 2);
    }
}
