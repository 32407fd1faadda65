//! `forebay explain`

use crate::arguments::{ExplainArguments, Format};
use crate::failure::Failure;
use crate::table::{row, write, write_indented};
use crate::terminal::print;
use crate::units::{count, percent, seconds};
use forebay_model::spans::RequestSpans;
use forebay_workbench::output::json;
use forebay_workbench::spans::{Followed, Origin, Told, read, tell};
use serde::Serialize;

/// The requests that were traced, for programs.
#[derive(Serialize)]
struct Listed<'a> {
    origin: &'a Origin,
    requests: Vec<Line>,
}

/// One of them.
#[derive(Serialize)]
struct Line {
    request: u64,
    born_s: f64,
    class: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<String>,
    attempts: usize,
    latency_s: f64,
    outcome: String,
}

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), Failure> {
    let followed = read(&arguments.run)?;
    let Some(request) = arguments.request else {
        let listed = Listed { origin: &followed.origin, requests: lines(&followed) };
        return match arguments.format {
            Format::Json => print(&json(&listed)),
            Format::Text => print(&list(&listed)),
        };
    };
    let told = tell(&followed, followed.request(request)?);
    match arguments.format {
        Format::Json => print(&json(&told)),
        Format::Text => print(&story(&told)),
    }
}

fn lines(followed: &Followed) -> Vec<Line> {
    let line = |spans: &RequestSpans| Line {
        request: spans.request,
        born_s: spans.born_ns as f64 * 1e-9,
        class: spans.class.clone(),
        tier: spans.tier.clone(),
        attempts: spans.attempts.len(),
        latency_s: (spans.end_ns - spans.born_ns) as f64 * 1e-9,
        outcome: spans.outcome.to_string(),
    };
    followed.requests.iter().map(line).collect()
}

fn header(origin: &Origin) -> String {
    format!("{}, seed {}, replication {}", origin.scenario, origin.seed, origin.replication)
}

fn list(listed: &Listed<'_>) -> String {
    let (traced, offered) = (listed.requests.len() as u64, listed.origin.offered);
    let mut out =
        format!("{}: {} of {} requests traced\n\n", header(listed.origin), count(traced), count(offered));
    let mut rows = vec![row(["request", "asked at", "class", "tier", "attempts", "latency", "outcome"])];
    rows.extend(listed.requests.iter().map(|line| {
        vec![
            line.request.to_string(),
            format!("{:.3} s", line.born_s),
            line.class.clone(),
            line.tier.clone().unwrap_or_default(),
            line.attempts.to_string(),
            seconds(line.latency_s),
            line.outcome.clone(),
        ]
    }));
    write(&mut out, &rows);
    out
}

fn story(told: &Told) -> String {
    let mut out = format!("{}\n", header(&told.origin));
    for line in &told.story {
        out.push_str(line);
        out.push('\n');
    }
    if !told.time.is_empty() {
        out.push_str("\nwhere the time went\n");
        let rows: Vec<Vec<String>> = told
            .time
            .iter()
            .map(|spent| {
                vec![spent.place.clone(), seconds(spent.s), spent.share.map(percent).unwrap_or_default()]
            })
            .collect();
        write_indented(&mut out, "  ", &rows);
    }
    out
}
