//! The metrics that an objective is about.

use forebay_model::scenario::Objective;
use forebay_model::scenario::objective::Constraint;

/// Each metric, after the path of what names it: goals first, then constraints in their order.
pub(crate) fn wanted(objective: &Objective) -> impl Iterator<Item = (&'static str, String)> {
    let goals = [("objective.maximize", &objective.maximize), ("objective.minimize", &objective.minimize)];
    let goals = goals.into_iter().filter_map(|(path, metric)| Some((path, metric.clone()?)));
    let constraints = objective.constraints.iter().filter_map(|text| Constraint::parse(text).ok());
    goals.chain(constraints.map(|constraint| ("objective.constraints", constraint.metric)))
}
