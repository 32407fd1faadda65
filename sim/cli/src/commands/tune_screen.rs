//! What `forebay tune` prints: the verdict, the curve it saw as a table and as a chart.

use crate::table::{Mark, chart, write};
use crate::units::number;
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
    rows.extend(tuning.curve.iter().map(|point| line(point, plan, tuning)));
    write(&mut out, &rows);
    out.push('\n');
    let objective = marks(&tuning.curve, |point| point.objective.mean);
    let title = format!("{} (● keeps the constraints, ○ does not, ▲ recommended)", tuning.goal.metric);
    chart(&mut out, &title, &objective, None, tuning.recommended);
    for (index, constraint) in plan.constraints.iter().enumerate() {
        let found = marks(&tuning.curve, |point| point.constraints[index].mean);
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

fn line(point: &CurvePoint, plan: &Plan, tuning: &Tuning) -> Vec<String> {
    // One digit beyond the resolution, which refined points use.
    let decimals = if plan.whole { 0 } else { (1.0 - plan.resolution().log10().round()).max(0.0) as usize };
    let mut cells = vec![format!("{:.decimals$}", point.value), estimate(&point.objective)];
    cells.extend(point.constraints.iter().map(estimate));
    cells.push(if point.feasible { "yes" } else { "no" }.to_owned());
    let mut remarks = Vec::new();
    if point.phase == Phase::Refine {
        remarks.push("refined");
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

fn estimate(found: &Estimate) -> String {
    match found.half_width() {
        Some(half) => format!("{} ± {}", number(found.mean), number(half)),
        None => number(found.mean),
    }
}

fn marks(curve: &[CurvePoint], of: impl Fn(&CurvePoint) -> f64) -> Vec<Mark> {
    // Those that keep the constraints last, so that they are seen where points share a place.
    let mut marks = Vec::new();
    for feasible in [false, true] {
        let sign = if feasible { '●' } else { '○' };
        let points = curve.iter().filter(|point| point.feasible == feasible);
        marks.extend(points.map(|point| Mark { x: point.value, y: of(point), sign }));
    }
    marks
}
