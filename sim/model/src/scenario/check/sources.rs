//! What must hold of a source of arrivals beyond its schema.

use super::{Found, dist, list, nearest};
use crate::document::Document;
use crate::scenario::{Scenario, Source};

/// More requests than this in one replication are refused: counts and times stay exact below it.
const MOST_REQUESTS: f64 = 1e12;

/// What must hold of the mixes that sources have of their own.
pub(super) fn mixes(document: &Document<Scenario>, found: &mut Found) {
    let workload = &document.value.workload;
    for (source, mix) in &workload.mix {
        let path = format!("workload.mix.{source}");
        if !workload.sources.contains_key(source) {
            found.push(document.problem(
                &path,
                format!("\"{source}\""),
                format!("a source of the scenario: {}", list(&workload.sources)),
                nearest(source, workload.sources.keys().map(String::as_str)),
            ));
        }
        for class in mix.keys().filter(|class| !workload.classes.contains_key(*class)) {
            found.push(document.problem(
                &format!("{path}.{class}"),
                format!("\"{class}\""),
                format!("a class of the scenario: {}", list(&workload.classes)),
                nearest(class, workload.classes.keys().map(String::as_str)),
            ));
        }
        let sum: f64 = mix.values().sum();
        if mix.values().any(|weight| *weight < 0.0) || !(sum > 0.0 && sum.is_finite()) {
            let was = format!("weights that add up to {sum}, the least of them {}", least(mix.values()));
            found.push(document.problem(&path, was, "weights from 0 with a finite sum above 0", None));
        }
    }
}

fn least<'a>(weights: impl Iterator<Item = &'a f64>) -> f64 {
    weights.copied().fold(f64::INFINITY, f64::min)
}

/// What must hold of one source, at `path`.
pub(super) fn holds(document: &Document<Scenario>, path: &str, source: &Source, found: &mut Found) {
    let duration_s = document.value.run.duration_s;
    let mut requests = 0.0;
    match source {
        Source::Poisson { rate_per_s, from_s, to_s } => {
            requests = rate_per_s * duration_s;
            if to_s.is_some_and(|to| to < *from_s) {
                found.push(document.problem(
                    &format!("{path}.to_s"),
                    to_s.unwrap_or(0.0).to_string(),
                    format!("not before from_s, which is {from_s}"),
                    None,
                ));
            }
        }
        Source::Renewal { gap_s } => {
            dist(document, &format!("{path}.gap_s"), gap_s, found);
            if let Ok(sampler) = gap_s.sampler() {
                requests = duration_s / sampler.mean();
                if sampler.mean() <= 0.0 {
                    found.push(document.problem(
                        &format!("{path}.gap_s"),
                        "a mean of 0",
                        "a mean above 0: gaps of no length never end",
                        None,
                    ));
                    requests = 0.0;
                }
            }
        }
        Source::Profile { points, repeat_s, scale } => {
            requests = points.iter().map(|p| p.1).fold(0.0, f64::max) * scale * duration_s;
            for (index, window) in points.windows(2).enumerate() {
                if window[1].0 < window[0].0 {
                    found.push(document.problem(
                        &format!("{path}.points.{}", index + 1),
                        format!("second {} after second {}", window[1].0, window[0].0),
                        "points in order of time",
                        None,
                    ));
                }
            }
            for (index, (at, rate)) in points.iter().enumerate() {
                if !(at.is_finite() && *at >= 0.0 && rate.is_finite() && *rate >= 0.0) {
                    found.push(document.problem(
                        &format!("{path}.points.{index}"),
                        format!("[{at}, {rate}]"),
                        "a second and a rate, both from 0",
                        None,
                    ));
                }
            }
            if let (Some(period), Some(last)) = (repeat_s, points.last())
                && last.0 > *period
            {
                found.push(document.problem(
                    &format!("{path}.repeat_s"),
                    period.to_string(),
                    format!("not less than the last point's second, {}", last.0),
                    None,
                ));
            }
        }
        Source::Microburst { count, every_s, within_s, .. } => {
            if every_s.is_some_and(|every| every < *within_s) {
                found.push(document.problem(
                    &format!("{path}.within_s"),
                    within_s.to_string(),
                    format!("at most every_s, which is {}: bursts do not overlap", every_s.unwrap_or(0.0)),
                    None,
                ));
            }
            requests = *count as f64 * every_s.map_or(1.0, |every| (duration_s / every).max(1.0));
        }
        Source::ClosedLoop { think_s, .. } => dist(document, &format!("{path}.think_s"), think_s, found),
        Source::Trace { .. } => {}
    }
    if requests > MOST_REQUESTS {
        found.push(document.problem(
            path,
            format!("about {requests:e} requests in one replication"),
            format!("at most {MOST_REQUESTS:e}"),
            None,
        ));
    }
}
