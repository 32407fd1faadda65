//! Points added where they matter, by argmin's solvers.
//!
//! Noise is no obstacle to them here: every point faces the same crowds, so that the mean over the
//! replications is one deterministic curve, if a rough one. How far that curve is from the true one is the
//! business of the bootstrap and of the held-out crowds.

use super::curve::Curve;
use super::trials::{Evaluator, Phase};
use super::{Plan, TuneError};
use argmin::core::{CostFunction, Error, Executor, IterState, Solver};
use argmin::solver::brent::{BrentOpt, BrentRoot};
use std::cell::RefCell;

/// The curve as argmin sees it.
struct Sought<'a, 'b> {
    evaluator: RefCell<&'a mut Evaluator<'b>>,
    /// Of the point that the curve now has at a value, what is to become zero or small.
    of: fn(&Curve<'_>, usize) -> f64,
    /// Points that may still be added.
    left: RefCell<u32>,
}

impl<'a, 'b> Sought<'a, 'b> {
    fn new(evaluator: &'a mut Evaluator<'b>, budget: u32, of: fn(&Curve<'_>, usize) -> f64) -> Self {
        Self { evaluator: RefCell::new(evaluator), of, left: RefCell::new(budget) }
    }
}

impl CostFunction for Sought<'_, '_> {
    type Param = f64;
    type Output = f64;

    fn cost(&self, value: &f64) -> Result<f64, Error> {
        let mut evaluator = self.evaluator.borrow_mut();
        let plan: &Plan = evaluator.plan();
        let value = value.clamp(plan.from, plan.to);
        let known = |evaluator: &Evaluator<'_>, value: f64| {
            let curve = Curve::of(plan, evaluator.trials());
            let cost = curve.index_of(value).map(|index| (self.of)(&curve, index));
            // A point that could not be evaluated: bad, but a number that the solver can reckon with.
            cost.map(|cost| if cost.is_finite() { cost } else { 1e12_f64.copysign(cost) })
        };
        let coarse = plan.coarse(value);
        if let Some(cost) = known(&evaluator, plan.tidy(value)).or_else(|| known(&evaluator, coarse)) {
            return Ok(cost);
        }
        let mut left = self.left.borrow_mut();
        if *left == 0 {
            return Err(Spent.into());
        }
        *left -= 1;
        evaluator.evaluate(&[coarse], Phase::Refine)?;
        let cost = known(&evaluator, coarse);
        Ok(cost.expect("the point was evaluated just now"))
    }
}

/// The budget is spent: an end, not a failure.
#[derive(Debug, thiserror::Error)]
#[error("the budget is spent")]
struct Spent;

/// Adds points where the constraints begin to break beside the best swept point, then, unless they are
/// what keeps the objective from being better, where it is best. Without a feasible point there is
/// nothing to refine.
pub(super) fn refine(evaluator: &mut Evaluator<'_>) -> Result<(), TuneError> {
    let plan = evaluator.plan();
    let tolerance = plan.resolution();
    let curve = |evaluator: &Evaluator<'_>| Curve::of(plan, evaluator.trials());
    let most = plan.refinements;
    #[expect(clippy::redundant_closure_for_method_calls, reason = "the method alone is of one lifetime only")]
    if let Some((feasible, broken)) = curve(evaluator).edge() {
        // Half of the budget: a root is found fast, and the objective may be best before it.
        let sought = Sought::new(evaluator, most / 2, |curve, index| curve.violation(index));
        solve(sought, BrentRoot::new(feasible, broken, tolerance), plan)?;
    }
    if let Some((from, to)) = curve(evaluator).around_optimum(2.0 * tolerance) {
        let added = evaluator.added();
        let sought = Sought::new(evaluator, most.saturating_sub(added), |curve, index| -curve.worth(index));
        solve(sought, BrentOpt::new(from, to).set_tolerance(1e-8, tolerance), plan)?;
    }
    Ok(())
}

fn solve<'a, 'b, S>(sought: Sought<'a, 'b>, solver: S, plan: &Plan) -> Result<(), TuneError>
where
    S: Solver<Sought<'a, 'b>, IterState<f64, (), (), (), (), f64>>,
{
    let most = u64::from(plan.refinements);
    // No Ctrl-C handler, no timer: a library leaves both to the program.
    let executor = Executor::new(sought, solver).configure(|state| state.max_iters(most)).timer(false);
    match executor.run() {
        Ok(_) => Ok(()),
        Err(error) if error.is::<Spent>() => Ok(()),
        Err(error) => match error.downcast::<TuneError>() {
            Ok(error) => Err(error),
            Err(other) => Err(TuneError::Solver(other.to_string())),
        },
    }
}
