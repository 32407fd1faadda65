//! The recommended value against the present one, on crowds that the search has not seen, and the verdict.

use super::curve::{Curve, Cutoff, CutoffKind};
use super::trials::{Evaluator, Phase, Trial};
use super::{Estimate, Plan, TuneError};
use crate::show::number;
use forebay_engine::Interval;
use serde::{Deserialize, Serialize};

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Set the recommended value.
    Change,
    /// Leave the parameter as it is.
    NoChange,
    /// No value of the range keeps the constraints.
    Infeasible,
}

/// One setting on the held-out crowds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// The objective.
    pub objective: Estimate,
    /// The constraints' metrics, in their order.
    pub constraints: Vec<Estimate>,
    /// The means keep all constraints.
    pub feasible: bool,
    /// The constraints hold with 95 % confidence: the interval's unfavourable end keeps them.
    pub surely_feasible: bool,
}

/// Recommended and present value on crowds that the search has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Crowds.
    pub replications: u32,
    /// With the recommended value.
    pub recommended: Side,
    /// As the scenario stands.
    pub current: Side,
    /// By how much the objective is better with the recommended value, in pairs; negative: worse.
    pub gain: Estimate,
}

/// Evaluates the recommended and the present value on held-out crowds.
pub(super) fn held_out(evaluator: &mut Evaluator<'_>, recommended: f64) -> Result<HeldOut, TuneError> {
    let plan = evaluator.plan();
    evaluator.hold_out(&[Some(recommended), None])?;
    let trials: Vec<&Trial> =
        evaluator.trials().iter().filter(|trial| trial.phase == Phase::HeldOut).collect();
    let (new, old): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| trial.value.is_some());
    let objective =
        |trials: &[&Trial]| trials.iter().map(|t| plan.goal.turned(t.objective)).collect::<Vec<_>>();
    Ok(HeldOut {
        replications: plan.held_out,
        gain: Interval::paired(&objective(&new), &objective(&old), 0.95).into(),
        recommended: side(plan, &new),
        current: side(plan, &old),
    })
}

fn side(plan: &Plan, trials: &[&Trial]) -> Side {
    let estimate = |of: &dyn Fn(&Trial) -> f64| {
        Interval::of(&trials.iter().map(|trial| of(trial)).collect::<Vec<_>>(), 0.95)
    };
    let constraints: Vec<Interval> =
        (0..plan.constraints.len()).map(|index| estimate(&|trial| trial.constraints[index])).collect();
    let all = |of: &dyn Fn(&Interval) -> Vec<f64>| {
        plan.constraints.iter().zip(&constraints).all(|(c, found)| of(found).into_iter().all(|v| c.holds(v)))
    };
    Side {
        objective: estimate(&|trial| trial.objective).into(),
        feasible: all(&|found| vec![found.mean]),
        surely_feasible: all(&|found| vec![found.lo, found.hi]),
        constraints: constraints.into_iter().map(Estimate::from).collect(),
    }
}

/// The verdict: what to do, and why, one sentence each.
pub(super) fn verdict(
    plan: &Plan,
    curve: &Curve<'_>,
    cutoff: Option<&Cutoff>,
    held_out: Option<&HeldOut>,
    cliff: Option<f64>,
) -> (Decision, Vec<String>) {
    let (Some(cutoff), Some(held_out)) = (cutoff, held_out) else {
        return (Decision::Infeasible, vec![infeasible(plan, curve)]);
    };
    let decision = decide(held_out);
    let mut said = vec![headline(plan, cutoff, decision), gain(plan, cutoff, held_out)];
    for (index, constraint) in plan.constraints.iter().enumerate() {
        let side = &held_out.recommended;
        let found = &side.constraints[index];
        let holds = match (constraint.holds(found.mean), found.ci95) {
            (false, _) => "does not hold",
            (true, Some([lo, hi])) if constraint.holds(lo) && constraint.holds(hi) => {
                "holds, with 95 % confidence"
            }
            (true, _) => "holds on average, not with 95 % confidence",
        };
        said.push(format!(
            "On crowds the search has not seen, {constraint} {holds} at {}: {}; at the present setting it is {}.",
            number(cutoff.recommended),
            estimate(found),
            estimate(&held_out.current.constraints[index])
        ));
    }
    if !plan.constraints.is_empty() {
        said.push(match cliff {
            Some(cliff) => format!(
                "The cliff, where a constraint is broken by more than half its limit, is {} away, at {}.",
                number((cliff - cutoff.recommended).abs()),
                number(cliff)
            ),
            None => format!(
                "No value from {} to {} breaks a constraint by more than half its limit: there is no cliff.",
                number(plan.from),
                number(plan.to)
            ),
        });
    }
    if cutoff.at_end_of_range {
        said.push(
            "The best value lies at an end of the range: a wider one might hold a better value.".to_owned(),
        );
    }
    (decision, said)
}

fn decide(held_out: &HeldOut) -> Decision {
    let surely_better = held_out.gain.ci95.is_some_and(|[lo, _]| lo > 0.0);
    match (held_out.current.feasible, held_out.recommended.feasible) {
        (true, true) if surely_better => Decision::Change,
        (false, true) => Decision::Change,
        _ => Decision::NoChange,
    }
}

fn headline(plan: &Plan, cutoff: &Cutoff, decision: Decision) -> String {
    let path = &plan.parameter;
    let [lo, hi] = cutoff.ci95.map(number);
    let value = number(cutoff.value);
    let place = match cutoff.kind {
        CutoffKind::Constraint => format!("the constraint begins to break at {value} [{lo}, {hi}]"),
        CutoffKind::Optimum => format!("the objective is best at {value} [{lo}, {hi}]"),
    };
    let present = plan.current.map_or_else(|| "unset".to_owned(), number);
    match decision {
        Decision::Change => {
            format!("Set {path} = {} (now {present}): {place}.", number(cutoff.recommended))
        }
        _ => format!("No change recommended: {path} stays {present}; {place}."),
    }
}

fn gain(plan: &Plan, cutoff: &Cutoff, held_out: &HeldOut) -> String {
    let gain = &held_out.gain;
    let base = held_out.current.objective.mean;
    let percent =
        if base == 0.0 { String::new() } else { format!(" ({:+.1} %)", 100.0 * gain.mean / base.abs()) };
    let spans_zero = gain.ci95.is_none_or(|[lo, hi]| lo <= 0.0 && hi >= 0.0);
    let judged = match (spans_zero, gain.mean > 0.0) {
        (true, _) => "no difference that these crowds can tell",
        (false, true) => "better",
        (false, false) => "worse",
    };
    let (verb, count) = (if plan.goal.maximize { "larger" } else { "smaller" }, held_out.replications);
    format!(
        "At {} {} is {} {verb}{percent} than at the present setting, over {count} crowds in pairs: {judged}.",
        number(cutoff.recommended),
        plan.goal.metric,
        estimate(gain)
    )
}

fn infeasible(plan: &Plan, curve: &Curve<'_>) -> String {
    let constraints: Vec<String> = plan.constraints.iter().map(ToString::to_string).collect();
    let nearest = curve.least_broken().map(|point| {
        let found: Vec<String> = point.constraints.iter().map(estimate).collect();
        format!(" The nearest is {}, with {}.", number(point.value), found.join(", "))
    });
    format!(
        "No value of {} from {} to {} keeps {}.{} Widen the range, add capacity, or relax the constraint.",
        plan.parameter,
        number(plan.from),
        number(plan.to),
        constraints.join(" and "),
        nearest.unwrap_or_default()
    )
}

fn estimate(found: &Estimate) -> String {
    match found.ci95 {
        Some([lo, hi]) => format!("{} [{}, {}]", number(found.mean), number(lo), number(hi)),
        None => number(found.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(feasible: bool) -> Side {
        let objective = Estimate { mean: 1.0, ci95: None };
        Side { objective, constraints: Vec::new(), feasible, surely_feasible: feasible }
    }

    fn decided(current: bool, recommended: bool, gain: [f64; 2]) -> Decision {
        let gain = Estimate { mean: 0.5 * (gain[0] + gain[1]), ci95: Some(gain) };
        decide(&HeldOut { replications: 8, recommended: side(recommended), current: side(current), gain })
    }

    #[test]
    fn a_change_needs_a_sure_gain_or_a_broken_constraint() {
        assert_eq!(decided(true, true, [0.1, 0.3]), Decision::Change);
        assert_eq!(decided(true, true, [-0.1, 0.3]), Decision::NoChange);
        assert_eq!(decided(false, true, [-0.3, -0.1]), Decision::Change);
        assert_eq!(decided(true, false, [0.1, 0.3]), Decision::NoChange);
        assert_eq!(decided(false, false, [0.1, 0.3]), Decision::NoChange);
    }
}
