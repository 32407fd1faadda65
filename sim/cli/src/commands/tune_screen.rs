//! What `forebay tune` prints: the verdict, the curve it saw as a table and as a chart.

use crate::table::{Mark, chart, write};
use crate::units::{NONE, number};
use forebay_model::scenario::objective::Constraint;
use forebay_workbench::tune::{CurvePoint, Estimate, Phase, Plan, Tuning};
use std::fmt::Write;

pub(crate) fn screen(plan: &Plan, tuning: &Tuning) -> String {
    let mut out = String::new();
    for sentence in &tuning.verdict {
        let _ = writeln!(out, "{sentence}");
    }
    let _ = writeln!(
        out,
        "\nthe curve: {} over {}, mean ± half of the 95 % interval, {} replications, digest {}",
        tuning.goal.metric, tuning.parameter, tuning.replications, tuning.digest
    );
    let mut head = vec![last(&tuning.parameter).to_owned(), tuning.goal.metric.clone()];
    head.extend(tuning.constraints.iter().cloned());
    head.extend(["keeps", ""].map(str::to_owned));
    let mut rows = vec![head];
    let own = own_row(plan, tuning);
    let before = own.as_ref().map_or(0, |(value, _)| tuning.curve.partition_point(|p| p.value < *value));
    rows.extend(tuning.curve.iter().map(|point| line(point, plan, tuning)));
    if let Some((_, own)) = own {
        rows.insert(1 + before, own);
    }
    write(&mut out, &rows);
    for point in &tuning.curve {
        if let Some(reason) = &point.reason {
            let _ = writeln!(out, "{}: {reason}", shown(point.value, plan));
        }
    }
    out.push('\n');
    let objective = marks(&tuning.curve, |point| point.objective.map(|found| found.mean));
    let title = format!("{} (● keeps the constraints, ○ does not, ▲ recommended)", tuning.goal.metric);
    chart(&mut out, &title, &objective, None, tuning.recommended);
    for (index, constraint) in plan.constraints.iter().enumerate() {
        let found = marks(&tuning.curve, |point| point.constraints[index].map(|found| found.mean));
        out.push('\n');
        chart(&mut out, &title_of(constraint), &found, Some(constraint.limit), tuning.recommended);
    }
    out
}

fn title_of(constraint: &Constraint) -> String {
    format!("{} (┄ the limit, {constraint})", constraint.metric)
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// A value of the parameter with one digit beyond the resolution, which refined points use.
fn shown(value: f64, plan: &Plan) -> String {
    let decimals = if plan.whole { 0 } else { (1.0 - plan.resolution().log10().round()).max(0.0) as usize };
    format!("{value:.decimals$}")
}

/// The recommended value, which need not be one of the curve's, on the held-out crowds.
fn own_row(plan: &Plan, tuning: &Tuning) -> Option<(f64, Vec<String>)> {
    let (value, held_out) = tuning.recommended.zip(tuning.held_out.as_ref())?;
    if tuning.curve.iter().any(|point| point.value == value) {
        return None;
    }
    let side = &held_out.recommended;
    let mut cells = vec![shown(value, plan), estimate(side.objective.as_ref())];
    cells.extend(side.constraints.iter().map(|found| estimate(found.as_ref())));
    cells.push(if side.feasible { "yes" } else { "no" }.to_owned());
    let crowds = if held_out.one_crowd { "recommended" } else { "recommended, on the held-out crowds" };
    cells.push(crowds.to_owned());
    Some((value, cells))
}

fn line(point: &CurvePoint, plan: &Plan, tuning: &Tuning) -> Vec<String> {
    let mut cells = vec![shown(point.value, plan), estimate(point.objective.as_ref())];
    cells.extend(point.constraints.iter().map(|found| estimate(found.as_ref())));
    cells.push(if point.feasible { "yes" } else { "no" }.to_owned());
    let mut remarks = Vec::new();
    if point.phase == Phase::Refine {
        remarks.push("refined");
    }
    if point.reason.is_some() {
        remarks.push("not evaluated");
    }
    if tuning.current == Some(point.value) {
        remarks.push("present");
    }
    if tuning.recommended == Some(point.value) {
        remarks.push("recommended");
    }
    cells.push(remarks.join(", "));
    cells
}

fn estimate(found: Option<&Estimate>) -> String {
    let Some(found) = found else { return NONE.to_owned() };
    match found.half_width() {
        Some(half) => format!("{} ± {}", number(found.mean), number(half)),
        None => number(found.mean),
    }
}

fn marks(curve: &[CurvePoint], of: impl Fn(&CurvePoint) -> Option<f64>) -> Vec<Mark> {
    // Those that keep the constraints last, so that they are seen where points share a place.
    let mut marks = Vec::new();
    for feasible in [false, true] {
        let sign = if feasible { '●' } else { '○' };
        let points = curve.iter().filter(|point| point.feasible == feasible);
        marks.extend(points.filter_map(|point| Some(Mark { x: point.value, y: of(point)?, sign })));
    }
    marks
}
