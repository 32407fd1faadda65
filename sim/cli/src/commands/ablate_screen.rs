//! The table that `forebay run --ablate` prints.

use crate::table::write;
use crate::units::{NONE, number_of, percent_of, seconds, seconds_of, signed};
use forebay_model::scenario::Loaded;
use forebay_workbench::ablate::{Ablation, Change, Module};
use forebay_workbench::show::time_unit;
use forebay_workbench::summary::MetricSummary;
use std::fmt::Write;

/// Metrics that are shares, and are shown in percent.
const SHARES: [&str; 4] = ["error_rate", "right_share", "csat", "rerank_skipped_share"];

pub(crate) fn screen(loaded: &Loaded, ablation: &Ablation) -> String {
    let mut out = String::new();
    let plural = if ablation.replications == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "{}: what each module of the policy is worth\nseed {}, {} replication{plural} of {}, digest {}\n\n\
         Each row: what changes when this module alone is switched off, on the same crowds; ~ where its sign \
         is open.\n",
        ablation.scenario,
        ablation.seed,
        ablation.replications,
        seconds(loaded.scenario.run.duration_s),
        ablation.digest,
    );
    let names: Vec<&String> = ablation.metrics.keys().collect();
    let mut rows = vec![std::iter::once(String::new()).chain(names.iter().map(|name| label(name))).collect()];
    let as_it_is = ablation.metrics.iter().map(|(name, metric)| value(name, metric));
    rows.push(std::iter::once("as it is".to_owned()).chain(as_it_is).collect());
    for module in &ablation.modules {
        rows.push(line(module, ablation));
    }
    write(&mut out, &rows);
    for module in &ablation.modules {
        if let Some(why) = &module.refused {
            let _ = writeln!(out, "\n{} cannot be switched off:\n  {why}", module.path);
        }
    }
    out
}

fn line(module: &Module, ablation: &Ablation) -> Vec<String> {
    let path = match module.switched_off.as_str() {
        "taken out" => module.path.clone(),
        instead => format!("{} ({instead})", module.path),
    };
    let cell = |(name, metric): (&String, &MetricSummary)| match module.changes.get(name) {
        Some(_) if module.changes_nothing => "0".to_owned(),
        Some(change) => difference(name, metric, change),
        None => NONE.to_owned(),
    };
    std::iter::once(path).chain(ablation.metrics.iter().map(cell)).collect()
}

/// A metric's name in words.
fn label(name: &str) -> String {
    let words = name.strip_suffix("_s").filter(|rest| !rest.ends_with("_per")).unwrap_or(name);
    words.replace("_per_s", " /s").replace('_', " ")
}

fn is_time(metric: &MetricSummary) -> bool {
    metric.unit == "s"
}

fn value(name: &str, metric: &MetricSummary) -> String {
    let metric_or_none = Some(metric);
    if SHARES.contains(&name) {
        percent_of(metric_or_none)
    } else if is_time(metric) {
        seconds_of(metric_or_none)
    } else {
        number_of(metric_or_none)
    }
}

/// A difference in the unit of the metric as it is.
fn difference(name: &str, metric: &MetricSummary, change: &Change) -> String {
    let Some(difference) = change.difference else { return NONE.to_owned() };
    let (factor, unit) = if SHARES.contains(&name) {
        (100.0, " points")
    } else if is_time(metric) {
        match time_unit(metric.value.unwrap_or(1.0)) {
            (0.0, _) => (1.0, " s"),
            (factor, "ms") => (factor, " ms"),
            (factor, "µs") => (factor, " µs"),
            (factor, "h") => (factor, " h"),
            (factor, _) => (factor, " s"),
        }
    } else {
        (1.0, "")
    };
    let half = change.ci95.map(|[lo, hi]| 0.5 * (hi - lo) * factor);
    let open = if change.is_open() { "~ " } else { "" };
    format!("{open}{}{unit}", signed(difference * factor, half))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(value: f64, unit: &str) -> MetricSummary {
        MetricSummary { value: Some(value), ci95: None, unit: unit.to_owned(), reason: None }
    }

    fn change(difference: f64, half: f64) -> Change {
        let ci95 = Some([difference - half, difference + half]);
        Change { without: None, difference: Some(difference), ci95, unit: String::new() }
    }

    #[test]
    fn differences_are_in_the_unit_of_what_they_change() {
        let shown = |name, metric: &MetricSummary, d, half| difference(name, metric, &change(d, half));
        assert_eq!(shown("error_rate", &metric(0.02, ""), 0.031, 0.002), "+3.10 ±0.20 points");
        assert_eq!(shown("latency_p95_s", &metric(0.35, "s"), -0.0123, 0.02), "~ -12.3 ±20 ms");
        assert_eq!(shown("latency_p95_s", &metric(1.5, "s"), 2.0, 0.5), "+2.00 ±0.50 s");
        assert_eq!(shown("goodput_per_s", &metric(312.0, "1/s"), -25.0, 1.0), "-25.0 ±1.0");
        let none = Change { difference: None, ..change(0.0, 0.0) };
        assert_eq!(difference("value", &metric(1.0, ""), &none), NONE);
    }

    #[test]
    fn names_are_words() {
        assert_eq!(
            ["error_rate", "goodput_per_s", "latency_p95_s"].map(label),
            ["error rate", "goodput /s", "latency p95"]
        );
    }
}
