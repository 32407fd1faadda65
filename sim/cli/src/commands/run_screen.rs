//! The one screen that `forebay run` prints.

use super::run::Judged;
use super::run_accounts;
use crate::table::{row, write, write_indented};
use crate::units::{self, count, number_of, percent, percent_of, seconds, seconds_of};
use forebay_model::Ledger;
use forebay_model::scenario::Loaded;
use forebay_workbench::capacity::Capacity;
use forebay_workbench::summary::{MetricSummaries, Summary};
use forebay_workbench::{Finding, Run};
use std::fmt::Write;

/// Share of the requests without an answer that belongs into the headline.
const UNANSWERED: f64 = 0.05;

pub(crate) fn screen(loaded: &Loaded, run: &Run, judged: &[Judged]) -> String {
    let mut out = String::new();
    header(&mut out, loaded, run);
    let warmup_s = loaded.scenario.run.warmup_s;
    if warmup_s > 0.0 {
        let _ = writeln!(out, "all requests, those of the warm-up of {} included", seconds(warmup_s));
    }
    outcomes(&mut out, &run.summary.ledger);
    out.push('\n');
    if warmup_s > 0.0 {
        let _ = writeln!(out, "after the warm-up");
    }
    latencies(&mut out, &run.summary.metrics);
    out.push('\n');
    service(&mut out, &run.summary.metrics);
    run_accounts::lines(&mut out, loaded, &run.summary.metrics);
    stages(&mut out, loaded, &run.summary);
    run_accounts::parts(&mut out, loaded, &run.summary);
    run_accounts::shadow(&mut out, &run.summary);
    run_accounts::alerts(&mut out, loaded, &run.summary);
    if !judged.is_empty() {
        out.push_str("\nconstraints\n");
        for judged in judged {
            let _ = writeln!(out, "  {}", judged.text);
        }
    }
    findings(&mut out, &run.summary.findings);
    out
}

fn header(out: &mut String, loaded: &Loaded, run: &Run) {
    let (summary, plan) = (&run.summary, &loaded.scenario.run);
    let _ = write!(out, "{}: {}", summary.scenario, summary.verdict);
    if let Some(bottleneck) = &run.bottleneck {
        let _ = write!(out, "; {}", bottleneck.sentence);
    }
    if let Some(share) = unanswered(&summary.ledger).filter(|share| *share > UNANSWERED) {
        let _ = write!(out, "; {} of the requests got no answer", percent(share));
    }
    // The metric is a mean over the replications.
    let each = summary.metrics.get("out_of_memory").and_then(|metric| metric.value).unwrap_or(0.0);
    let times = (each * f64::from(summary.replications)).round() as u64;
    if times > 0 {
        let plural = if times == 1 { "" } else { "s" };
        let _ = write!(out, "; GPU memory ran out {} time{plural}", count(times));
    }
    let plural = if summary.replications == 1 { "" } else { "s" };
    let _ = writeln!(
        out,
        "\nseed {}, {} replication{plural} of {}, {} requests, digest {}\n",
        summary.seed,
        summary.replications,
        seconds(plan.duration_s),
        count(summary.requests),
        summary.digest
    );
}

/// Share of the requests that ended without an answer; those in flight have not ended.
fn unanswered(ledger: &Ledger) -> Option<f64> {
    let rejected: u64 = ledger.rejected.values().sum();
    let failed: u64 = ledger.failed.values().sum();
    let without = rejected + failed + ledger.timed_out + ledger.abandoned;
    (ledger.offered > 0).then(|| without as f64 / ledger.offered as f64)
}

fn outcomes(out: &mut String, ledger: &Ledger) {
    let share = |n: u64| {
        if ledger.offered == 0 { units::NONE.to_owned() } else { percent(n as f64 / ledger.offered as f64) }
    };
    let parts = |parts: &mut dyn Iterator<Item = (&str, u64)>| {
        let parts: Vec<String> =
            parts.filter(|(_, n)| *n > 0).map(|(name, n)| format!("{name} {}", share(n))).collect();
        parts.join(", ")
    };
    let answered = ledger.answered;
    let levels = [
        ("L1", answered.l1),
        ("L2", answered.l2),
        ("L3", answered.l3),
        ("L4", answered.l4),
        ("cache", answered.cache),
    ];
    let lines = [
        ("answered", answered.total(), parts(&mut levels.into_iter())),
        (
            "rejected",
            ledger.rejected.values().sum(),
            parts(&mut ledger.rejected.iter().map(|(name, n)| (name.as_str(), *n))),
        ),
        ("timed out", ledger.timed_out, String::new()),
        ("abandoned", ledger.abandoned, String::new()),
        (
            "failed",
            ledger.failed.values().sum(),
            parts(&mut ledger.failed.iter().map(|(n, c)| (n.as_str(), *c))),
        ),
        ("in flight at the end", ledger.in_flight_at_end, String::new()),
    ];
    for (name, n, parts) in lines {
        if n > 0 || name == "answered" {
            let _ = writeln!(out, "{}", format!("{name:<20}  {:>8}  {parts}", share(n)).trim_end());
        }
    }
}

fn latencies(out: &mut String, metrics: &MetricSummaries) {
    let mut rows = vec![row(["", "mean", "p50", "p90", "p95", "p99", "p99.9", "max"])];
    for (label, name) in [("latency", "latency"), ("first token", "ttft")] {
        let mut cells = vec![label.to_owned()];
        for suffix in ["mean", "p50", "p90", "p95", "p99", "p999", "max"] {
            cells.push(seconds_of(metrics.get(&format!("{name}_{suffix}_s"))));
        }
        rows.push(cells);
    }
    write(out, &rows);
    if has(metrics, "tpot_mean_s") {
        let _ = writeln!(out, "time per further token {}", seconds_of(metrics.get("tpot_mean_s")));
    }
}

fn has(metrics: &MetricSummaries, name: &str) -> bool {
    metrics.get(name).is_some_and(|metric| metric.value.is_some())
}

fn service(out: &mut String, metrics: &MetricSummaries) {
    let mut parts = vec![
        format!("goodput {} /s", number_of(metrics.get("goodput_per_s"))),
        format!("throughput {} /s", number_of(metrics.get("throughput_per_s"))),
        format!("error rate {}", percent_of(metrics.get("error_rate"))),
    ];
    if metrics.get("attempts_per_request").and_then(|m| m.value).is_some_and(|n| n > 1.0) {
        parts.push(format!("{} attempts per request", number_of(metrics.get("attempts_per_request"))));
    }
    let _ = writeln!(out, "{}", parts.join(", "));
    if has(metrics, "right_share") {
        let _ = writeln!(out, "right answers {}", percent_of(metrics.get("right_share")));
    }
    if metrics.get("rerank_skipped_share").and_then(|m| m.value).is_some_and(|share| share > 0.0) {
        let _ = writeln!(out, "rerank skipped {}", percent_of(metrics.get("rerank_skipped_share")));
    }
    let levels: Vec<String> = (1..=4)
        .map(|level| (level, metrics.get(&format!("share_l{level}"))))
        .filter(|(_, share)| share.and_then(|share| share.value).is_some_and(|share| share > 0.0))
        .map(|(level, share)| format!("L{level} {}", percent_of(share)))
        .collect();
    if levels.len() > 1 {
        let _ = writeln!(out, "of the answers: {}", levels.join(", "));
    }
    let mut memory = Vec::new();
    if has(metrics, "vram_mean") {
        memory.push(format!(
            "VRAM mean {}, deviation {}, peak {}",
            percent_of(metrics.get("vram_mean")),
            percent_of(metrics.get("vram_sd")),
            percent_of(metrics.get("vram_max"))
        ));
    }
    if has(metrics, "kv_mean") {
        memory.push(format!(
            "KV mean {}, peak {}, {} preemptions",
            percent_of(metrics.get("kv_mean")),
            percent_of(metrics.get("kv_max")),
            number_of(metrics.get("preemptions"))
        ));
    }
    for line in memory {
        let _ = writeln!(out, "{line}");
    }
}

/// Measured beside the closed form.
fn stages(out: &mut String, loaded: &Loaded, summary: &Summary) {
    let Some(stages) = summary.by.get("stage") else { return };
    let capacity = Capacity::of(loaded).ok();
    let mut rows =
        vec![row(["stage", "busy", "calls", "wait mean", "estimate", "wait p99", "queue mean", "ceiling"])];
    for (name, metrics) in stages {
        // The parts of a stage, its providers and the levels of its cache, have tables of their own.
        if name != "executor" && !loaded.scenario.stages.contains_key(name) {
            continue;
        }
        // An executor without a bound is never waited for.
        if name == "executor" && !has(metrics, "utilisation") {
            continue;
        }
        if metrics.get("calls").and_then(|calls| calls.value).is_none_or(|calls| calls == 0.0) {
            continue;
        }
        let form = capacity.as_ref().and_then(|c| c.stages.iter().find(|stage| stage.name == *name));
        let estimate = form.and_then(|stage| stage.waiting).map(|waiting| seconds(waiting.mean_s));
        let ceiling = form.and_then(|stage| stage.ceiling_per_s).map(|c| format!("{} /s", units::number(c)));
        let calls = metrics.get("calls").and_then(|calls| calls.value).unwrap_or(0.0);
        rows.push(vec![
            name.clone(),
            percent_of(metrics.get("utilisation")),
            count(calls.round() as u64),
            seconds_of(metrics.get("wait_mean_s")),
            estimate.unwrap_or_else(|| units::NONE.to_owned()),
            seconds_of(metrics.get("wait_p99_s")),
            number_of(metrics.get("queue_mean")),
            ceiling.unwrap_or_else(|| units::NONE.to_owned()),
        ]);
    }
    if rows.len() > 1 {
        out.push('\n');
        write_indented(out, "", &rows);
    }
}

/// The findings as a list; nothing without any.
pub(crate) fn findings(out: &mut String, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    out.push_str("\nfindings\n");
    for finding in findings {
        let _ = writeln!(out, "  {} [{}]", finding.parameter, finding.code);
        let _ = writeln!(out, "    {}.", finding.evidence);
        let _ = writeln!(out, "    {}.", finding.advice);
    }
}
