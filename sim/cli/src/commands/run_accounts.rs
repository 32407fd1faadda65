//! What the screen of `forebay run` says beside outcomes and stages: satisfaction, value and cost, recovery,
//! told waits, the shadow, alerts, providers, caches and agents; each only where the scenario has it.

use crate::table::{row, write_indented};
use crate::units::{self, count, number, number_of, percent_of, seconds, seconds_of};
use forebay_model::accounts::alerts::Topic;
use forebay_model::metrics::missing;
use forebay_model::scenario::{Loaded, Stage};
use forebay_model::shadow::ShadowReport;
use forebay_workbench::Summary;
use forebay_workbench::summary::{AlertSummary, MetricSummaries, MetricSummary};
use std::fmt::Write;

/// Pairs of differing decisions that are shown.
const MOST_PAIRS: usize = 3;

/// Lines about the whole service.
pub(super) fn lines(out: &mut String, loaded: &Loaded, metrics: &MetricSummaries) {
    let asked = |name: &str| missing(&loaded.scenario, name).is_none();
    let mut worth = Vec::new();
    if asked("csat") {
        worth.push(format!("satisfaction {}", percent_of(metrics.get("csat"))));
    }
    if asked("value") {
        worth.push(format!("value {}", money_of(metrics.get("value"))));
    }
    if asked("cost") {
        worth.push(format!("cost {}{}", money_of(metrics.get("cost")), parts_of_cost(metrics)));
    }
    if !worth.is_empty() {
        let _ = writeln!(out, "{}", worth.join(", "));
    }
    if asked("recovery_s") {
        let _ = match metrics.get("recovery_s").and_then(|metric| metric.reason.as_ref()) {
            Some(why) => writeln!(out, "recovery: {why}"),
            None => writeln!(out, "recovery within {}", seconds_of(metrics.get("recovery_s"))),
        };
    }
    if asked("wait_notice_error_s") {
        let bias = metrics.get("wait_notice_bias_s").and_then(|metric| metric.value);
        let side = bias
            .map(|s| format!(", {} by {}", if s < 0.0 { "too short" } else { "too long" }, seconds(s.abs())));
        let error = seconds_of(metrics.get("wait_notice_error_s"));
        let _ = writeln!(out, "told waits are off by {error}{}", side.unwrap_or_default());
    }
}

/// An amount with its currency.
fn money_of(metric: Option<&MetricSummary>) -> String {
    let unit = metric.filter(|metric| metric.value.is_some()).map_or("", |metric| metric.unit.as_str());
    format!("{} {unit}", number_of(metric)).trim_end().to_owned()
}

/// What a cost is made of, where more than one thing costs something.
fn parts_of_cost(metrics: &MetricSummaries) -> String {
    let parts = [
        ("tokens", "cost_tokens"),
        ("agents", "cost_agents"),
        ("GPUs", "cost_gpus"),
        ("providers", "cost_providers"),
    ];
    let value = |name: &str| metrics.get(name).and_then(|metric| metric.value).filter(|value| *value > 0.0);
    let parts: Vec<String> = parts
        .into_iter()
        .filter_map(|(label, name)| Some(format!("{label} {}", number(value(name)?))))
        .collect();
    if parts.len() > 1 { format!(" ({})", parts.join(", ")) } else { String::new() }
}

/// Where the shadow and the live policy differ.
pub(super) fn shadow(out: &mut String, summary: &Summary) {
    let Some(report) = &summary.shadow else { return };
    let share = percent_of(summary.metrics.get("shadow_differs_share"));
    let _ = writeln!(out, "\nthe shadow differs on {share} of the attempts");
    let mut rows = vec![row(["live", "shadow", "attempts"])];
    rows.extend(differing(report).take(MOST_PAIRS));
    if rows.len() > 1 {
        write_indented(out, "  ", &rows);
    }
}

/// The pairs of decisions that are not the same to the one who asked, the most frequent first.
fn differing(report: &ShadowReport) -> impl Iterator<Item = Vec<String>> {
    // A level, "turned away" or "waiting" stands first; the reason behind it makes no difference.
    let what = |decision: &str| decision.split(' ').next().unwrap_or_default().to_owned();
    report
        .pairs
        .iter()
        .filter(move |pair| what(&pair.live) != what(&pair.shadow))
        .map(|pair| vec![pair.live.clone(), pair.shadow.clone(), count(pair.attempts)])
}

/// Alerts by rule; that none was raised, where there are rules.
pub(super) fn alerts(out: &mut String, loaded: &Loaded, summary: &Summary) {
    if loaded.scenario.policy.feedback.alert_rules().is_empty() {
        return;
    }
    if summary.alerts.is_empty() {
        out.push_str("\nno alert was raised\n");
        return;
    }
    out.push('\n');
    let mut rows =
        vec![row(["alert", "severity", "raised", "replications", "first at", "found", "threshold", "cause"])];
    rows.extend(summary.alerts.iter().map(|alert| alert_row(alert, summary.replications)));
    write_indented(out, "", &rows);
}

fn alert_row(alert: &AlertSummary, replications: u32) -> Vec<String> {
    let first = &alert.first;
    let topic = |topic: &Topic| format!("{} {}", topic.class, count(topic.requests));
    vec![
        alert.rule.clone(),
        format!("{:?}", alert.severity),
        count(alert.raised),
        format!("{} of {replications}", alert.in_replications),
        seconds(first.at_s),
        number(first.found),
        number(first.threshold),
        first.unmatched.iter().map(topic).collect::<Vec<_>>().join(", "),
    ]
}

/// Tables of the stages that measure more than waiting: providers, caches and agents.
pub(super) fn parts(out: &mut String, loaded: &Loaded, summary: &Summary) {
    let Some(of_stages) = summary.by.get("stage") else { return };
    let of_kind = |kind: fn(&Stage) -> bool| {
        let stages = loaded.scenario.stages.iter().filter(move |(_, stage)| kind(stage));
        stages.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let parts_of = |stage: &str| {
        let start = format!("{stage}.");
        of_stages.iter().filter(move |(name, _)| name.starts_with(&start)).collect::<Vec<_>>()
    };
    let mut providers =
        vec![row(["provider", "calls", "answered", "refused", "failed", "timed out", "cost"])];
    for (name, metrics) in
        of_kind(|stage| matches!(stage, Stage::Providers(_))).into_iter().flat_map(parts_of)
    {
        let share = |name: &str| percent_of(metrics.get(name));
        providers.push(vec![
            name.clone(),
            counted(metrics.get("calls")),
            share("answered_share"),
            share("refused_share"),
            share("failed_share"),
            share("timed_out_share"),
            money_of(metrics.get("cost")),
        ]);
    }
    let mut caches = vec![row(["cache", "lookups", "hits", "wrong hits", "evictions", "last resorts"])];
    for (name, metrics) in
        of_kind(|stage| matches!(stage, Stage::SemanticCache(_))).into_iter().flat_map(parts_of)
    {
        caches.push(vec![
            name.clone(),
            counted(metrics.get("lookups")),
            percent_of(metrics.get("hit_rate")),
            percent_of(metrics.get("wrong_rate")),
            counted(metrics.get("evictions")),
            counted(metrics.get("last_resorts")),
        ]);
    }
    let mut agents = vec![row(["agents", "busy", "wait mean", "wait p95", "waiting", "gave up"])];
    let desks = of_kind(|stage| matches!(stage, Stage::Agents(_)));
    for (name, metrics) in desks.into_iter().filter_map(|name| of_stages.get_key_value(name)) {
        agents.push(vec![
            name.clone(),
            percent_of(metrics.get("agent_utilisation")),
            seconds_of(metrics.get("agent_wait_mean_s")),
            seconds_of(metrics.get("agent_wait_p95_s")),
            number_of(metrics.get("agent_queue_mean")),
            percent_of(metrics.get("gave_up_share")),
        ]);
    }
    for table in [providers, caches, agents] {
        if table.len() > 1 {
            out.push('\n');
            write_indented(out, "", &table);
        }
    }
}

/// The mean of a count, which over several replications need not be whole.
fn counted(metric: Option<&MetricSummary>) -> String {
    match metric.and_then(|metric| metric.value) {
        Some(value) => count(value.round() as u64),
        None => units::NONE.to_owned(),
    }
}
