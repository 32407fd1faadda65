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
    /// The objective; absent where it could not be evaluated.
    pub objective: Option<Estimate>,
    /// The constraints' metrics, in their order; absent likewise.
    pub constraints: Vec<Option<Estimate>>,
    /// The means keep all constraints.
    pub feasible: bool,
    /// The constraints hold with 95 % confidence: the interval's unfavourable end keeps them.
    pub surely_feasible: bool,
    /// Why it could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
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
    /// By how much the objective is better with the recommended value, in pairs; negative: worse. Absent where
    /// one of the two could not be evaluated.
    pub gain: Option<Estimate>,
    /// Nothing is random in the scenario: the crowds are the one that the search has seen.
    pub one_crowd: bool,
}

/// Evaluates the recommended and the present value on held-out crowds.
pub(super) fn held_out(
    evaluator: &mut Evaluator<'_>,
    recommended: f64,
    one_crowd: bool,
) -> Result<HeldOut, TuneError> {
    let plan = evaluator.plan();
    evaluator.hold_out(&[Some(recommended), None])?;
    let trials: Vec<&Trial> =
        evaluator.trials().iter().filter(|trial| trial.phase == Phase::HeldOut).collect();
    let (new, old): (Vec<&Trial>, Vec<&Trial>) = trials.iter().partition(|trial| trial.value.is_some());
    let objective =
        |trials: &[&Trial]| trials.iter().map(|t| plan.goal.turned(t.objective)).collect::<Vec<_>>();
    let known = trials.iter().all(|trial| trial.reason.is_none());
    let gain = known.then(|| Interval::paired(&objective(&new), &objective(&old), 0.95));
    Ok(HeldOut {
        replications: plan.held_out,
        gain: gain.map(|gain| Estimate::of(gain, one_crowd)),
        one_crowd,
        recommended: side(plan, &new, one_crowd),
        current: side(plan, &old, one_crowd),
    })
}

fn side(plan: &Plan, trials: &[&Trial], one_crowd: bool) -> Side {
    let reason = trials.iter().find_map(|trial| trial.reason.clone());
    if reason.is_some() {
        let constraints = vec![None; plan.constraints.len()];
        return Side { objective: None, constraints, feasible: false, surely_feasible: false, reason };
    }
    let estimate = |of: &dyn Fn(&Trial) -> f64| {
        Interval::of(&trials.iter().map(|trial| of(trial)).collect::<Vec<_>>(), 0.95)
    };
    let constraints: Vec<Interval> =
        (0..plan.constraints.len()).map(|index| estimate(&|trial| trial.constraints[index])).collect();
    let all = |of: &dyn Fn(&Interval) -> Vec<f64>| {
        plan.constraints.iter().zip(&constraints).all(|(c, found)| of(found).into_iter().all(|v| c.holds(v)))
    };
    Side {
        objective: Some(Estimate::of(estimate(&|trial| trial.objective), one_crowd)),
        feasible: all(&|found| vec![found.mean]),
        surely_feasible: all(&|found| vec![found.lo, found.hi]),
        constraints: constraints.into_iter().map(|found| Some(Estimate::of(found, one_crowd))).collect(),
        reason,
    }
}

/// The verdict: what to do, and why, one sentence each.
pub(super) fn verdict(
    plan: &Plan,
    curve: &Curve<'_>,
    cutoff: Option<&Cutoff>,
    held_out: Option<&HeldOut>,
    cliff: Option<f64>,
    one_crowd: bool,
) -> (Decision, Vec<String>) {
    let (Some(cutoff), Some(held_out)) = (cutoff, held_out) else {
        return (Decision::Infeasible, vec![infeasible(plan, curve)]);
    };
    let decision = decide(held_out);
    let mut said = vec![headline(plan, cutoff, held_out, decision), gain(plan, cutoff, held_out)];
    if !curve.moves() {
        said.push(format!(
            "This parameter does not move it: from {} to {}, {} is the same within its noise.",
            number(plan.from),
            number(plan.to),
            plan.goal.metric
        ));
    }
    if one_crowd {
        said.push(
            "Nothing is random in this scenario: there are no other crowds to test on, and no intervals."
                .to_owned(),
        );
    }
    for index in 0..plan.constraints.len() {
        said.push(kept(plan, index, cutoff, held_out));
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

/// Whether the recommended value keeps a constraint on the held-out crowds.
fn kept(plan: &Plan, index: usize, cutoff: &Cutoff, held_out: &HeldOut) -> String {
    let constraint = &plan.constraints[index];
    let found = held_out.recommended.constraints[index].as_ref();
    let holds = match found.map(|found| (constraint.holds(found.mean), found.ci95)) {
        None => "has no value",
        Some((false, _)) => "does not hold",
        Some((true, _)) if held_out.one_crowd => "holds",
        Some((true, Some([lo, hi]))) if constraint.holds(lo) && constraint.holds(hi) => {
            "holds, with 95 % confidence"
        }
        Some((true, _)) => "holds on average, not with 95 % confidence",
    };
    let whose = if held_out.one_crowd { "On this crowd" } else { "On crowds the search has not seen" };
    format!(
        "{whose}, {constraint} {holds} at {}: {}; at the present setting it is {}.",
        number(cutoff.recommended),
        estimate(found),
        estimate(held_out.current.constraints[index].as_ref())
    )
}

fn decide(held_out: &HeldOut) -> Decision {
    let surely_better = held_out.gain.is_some_and(|gain| match gain.ci95 {
        Some([lo, _]) => lo > 0.0,
        None => held_out.one_crowd && gain.mean > 0.0,
    });
    match (held_out.current.feasible, held_out.recommended.feasible) {
        (true, true) if surely_better => Decision::Change,
        (false, true) => Decision::Change,
        _ => Decision::NoChange,
    }
}

fn headline(plan: &Plan, cutoff: &Cutoff, held_out: &HeldOut, decision: Decision) -> String {
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
            let why = match &held_out.current {
                Side { feasible: true, .. } => String::new(),
                Side { reason: Some(reason), .. } => {
                    format!(" The present setting gives no result: {reason}.")
                }
                current => format!(" The reason: the present setting breaks {}.", broken(plan, current)),
            };
            format!("Set {path} = {} (now {present}): {place}.{why}", number(cutoff.recommended))
        }
        _ if !held_out.current.feasible && !held_out.recommended.feasible => format!(
            "No change recommended: {path} stays {present}; {place}. On these crowds neither the present setting \
             nor {} keeps {}: more replications or a wider range may find a value that does.",
            number(cutoff.recommended),
            broken(plan, &held_out.recommended)
        ),
        _ => format!("No change recommended: {path} stays {present}; {place}."),
    }
}

/// The constraints that a side breaks on average.
fn broken(plan: &Plan, side: &Side) -> String {
    let broken = plan.constraints.iter().zip(&side.constraints);
    broken
        .filter(|(constraint, found)| found.is_none_or(|found| !constraint.holds(found.mean)))
        .map(|(constraint, _)| constraint.to_string())
        .collect::<Vec<_>>()
        .join(" and ")
}

fn gain(plan: &Plan, cutoff: &Cutoff, held_out: &HeldOut) -> String {
    let (Some(gain), Some(current)) = (&held_out.gain, &held_out.current.objective) else {
        return format!(
            "{} has no value at {} or at the present setting on all crowds: the two cannot be compared.",
            plan.goal.metric,
            number(cutoff.recommended)
        );
    };
    let base = current.mean;
    let spans_zero = if held_out.one_crowd {
        gain.mean == 0.0
    } else {
        gain.ci95.is_none_or(|[lo, hi]| lo <= 0.0 && hi >= 0.0)
    };
    let judged = match (spans_zero, gain.mean > 0.0) {
        (true, _) if held_out.one_crowd => "no difference",
        (true, _) => "no difference that these crowds can tell",
        (false, true) => "better",
        (false, false) => "worse",
    };
    // The gain counts what is better as more; the sentence speaks of the metric itself.
    let difference = plan.goal.turned(gain.mean);
    let percent =
        if base == 0.0 { String::new() } else { format!(" ({:+.1} %)", 100.0 * difference / base.abs()) };
    let (at, metric) = (number(cutoff.recommended), &plan.goal.metric);
    if difference == 0.0 {
        return format!("At {at} {metric} is the same as at the present setting: {judged}.");
    }
    let verb = if difference < 0.0 { "smaller" } else { "larger" };
    let size = Estimate {
        mean: gain.mean.abs(),
        ci95: gain.ci95.map(|[lo, hi]| if gain.mean < 0.0 { [-hi, -lo] } else { [lo, hi] }),
    };
    let crowds = if held_out.one_crowd {
        String::new()
    } else {
        format!(", over {} crowds in pairs", held_out.replications)
    };
    format!(
        "At {at} {metric} is {} {verb}{percent} than at the present setting{crowds}: {judged}.",
        estimate(Some(&size))
    )
}

fn infeasible(plan: &Plan, curve: &Curve<'_>) -> String {
    let constraints: Vec<String> = plan.constraints.iter().map(ToString::to_string).collect();
    let nearest = curve.least_broken().map(|point| {
        let found: Vec<String> = point.constraints.iter().map(|found| estimate(found.as_ref())).collect();
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

fn estimate(found: Option<&Estimate>) -> String {
    let Some(found) = found else { return "without a value".to_owned() };
    match found.ci95 {
        Some([lo, hi]) => format!("{} [{}, {}]", number(found.mean), number(lo), number(hi)),
        None => number(found.mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(feasible: bool) -> Side {
        let objective = Some(Estimate { mean: 1.0, ci95: None });
        Side { objective, constraints: Vec::new(), feasible, surely_feasible: feasible, reason: None }
    }

    fn decided(current: bool, recommended: bool, gain: [f64; 2]) -> Decision {
        let gain = Some(Estimate { mean: 0.5 * (gain[0] + gain[1]), ci95: Some(gain) });
        let (recommended, current) = (side(recommended), side(current));
        decide(&HeldOut { replications: 8, recommended, current, gain, one_crowd: false })
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
