//! What `forebay calibrate compare` prints.

use crate::table::{Mark, chart, row, write, write_indented};
use crate::units::{NONE, count, number, seconds};
use forebay_workbench::compare::{Comparison, Crowd, Curve, Measure};
use std::fmt::Write;

pub(super) fn screen(simulated: &str, measured: &str, comparison: &Comparison) -> String {
    let mut out = format!("simulated: {simulated}\nmeasured:  {measured}\n\n");
    crowds(&mut out, comparison);
    if comparison.skipped > 0 {
        let _ = writeln!(
            out,
            "latencies are those of all but the first {} requests",
            count(comparison.skipped as u64)
        );
    }
    out.push('\n');
    let mut rows = vec![row(["", "simulated", "measured", "error"])];
    for measure in &comparison.measures {
        rows.extend(lines(measure));
    }
    write(&mut out, &rows);
    if comparison.measures.iter().any(|measure| measure.rows.iter().any(|row| row.few)) {
        out.push_str("(few): fewer than 5 requests lie beyond it\n");
    }
    if let Some(paired) = &comparison.paired {
        out.push_str("\nrequest by request, sizes of the deviations\n");
        let mut rows = vec![row(["", "median", "p90"])];
        rows.extend(
            paired.iter().map(|p| vec![title(&p.name).to_owned(), seconds(p.median_s), seconds(p.p90_s)]),
        );
        write_indented(&mut out, "  ", &rows);
    }
    for curve in &comparison.curves {
        out.push('\n');
        write_curve(&mut out, curve);
    }
    for remark in &comparison.remarks {
        let _ = writeln!(out, "\nnote: {remark}");
    }
    out
}

fn crowds(out: &mut String, comparison: &Comparison) {
    let line = |name: &str, of: &dyn Fn(&Crowd) -> String| {
        vec![name.to_owned(), of(&comparison.simulated), of(&comparison.measured)]
    };
    let rows = [
        row(["", "simulated", "measured"]),
        line("requests", &|crowd| count(crowd.requests as u64)),
        line("served", &|crowd| count(crowd.served as u64)),
        line("tokens of a prompt, mean", &|crowd| number(crowd.tokens_in_mean)),
        line("tokens of an answer, mean", &|crowd| number(crowd.tokens_out_mean)),
        line("arrivals over", &|crowd| seconds(crowd.arrivals_s)),
        line("last token after", &|crowd| seconds(crowd.until_s)),
    ];
    write(out, &rows);
}

fn title(name: &str) -> &'static str {
    match name {
        "ttft_s" => "time to first token",
        "tpot_s" => "time per token",
        _ => "latency",
    }
}

fn lines(measure: &Measure) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    for found in &measure.rows {
        let error = found.error_percent.map_or_else(|| NONE.to_owned(), |error| format!("{error:+.2} %"));
        let few = if found.few { " (few)" } else { "" };
        lines.push(vec![
            format!("{} {}{few}", title(&measure.name), found.of),
            seconds(found.simulated),
            seconds(found.measured),
            error,
        ]);
    }
    lines
}

fn write_curve(out: &mut String, curve: &Curve) {
    let (name, signs) = match curve.name.as_str() {
        "waiting" => {
            ("requests waiting for their first token", "● simulated, ○ measured, + as the engine told")
        }
        "running" => {
            ("requests between first and last token", "● simulated, ○ measured, + as the engine told")
        }
        "kv_tokens" => ("tokens of these requests, by their stamps", "● simulated, ○ measured"),
        _ => ("share of the KV cache in use", "● simulated, + as the engine told"),
    };
    let mut marks = Vec::new();
    for point in &curve.points {
        // The simulation last, so that it is seen where points share a place.
        for (value, sign) in [(point.told, '+'), (point.measured, '○'), (point.simulated, '●')] {
            marks.extend(value.map(|y| Mark { x: point.t_s, y, sign }));
        }
    }
    let mean = |value: Option<f64>| value.map_or_else(|| NONE.to_owned(), number);
    let [simulated, measured, told] = curve.mean.map(mean);
    let off = curve
        .off_percent
        .map_or_else(String::new, |off| format!("; off by {off:.1} % of its mean, on average"));
    chart(out, &format!("{name} over seconds ({signs})"), &marks, None, None);
    let _ = writeln!(out, "means: simulated {simulated}, measured {measured}, told {told}{off}");
}
