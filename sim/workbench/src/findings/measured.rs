//! Findings from a run.

use super::Finding;
use super::configuration::of_scenario;
use super::thresholds::{Threshold, thresholds};
use crate::show::seconds;
use crate::summary::Summary;
use crate::verdict::{Bottleneck, Verdict};
use forebay_engine::mser5;
use forebay_model::scenario::{Loaded, Scenario, Source};
use forebay_model::timeline::Point;
use forebay_policies::Admission;

/// Half-width of the mean latency's interval that is too wide, as a share of the mean.
const WIDE: f64 = 0.1;
/// A threshold that is reached in so large a share of the samples is always on.
const ALWAYS: f64 = 0.995;
/// A gate that was never fuller than this share of its bound is far from acting.
const FAR_FROM_FULL: f64 = 0.5;
/// A warm-up that ends so much later than the configured one matters, as a share of the run.
const LATE: f64 = 0.05;

/// What is watched while replications come in: constant memory however many there are.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Requests in system at each point, summed over the replications.
    in_system: Vec<f64>,
}

impl Watch {
    pub(crate) fn add(&mut self, timeline: &[Point]) {
        self.in_system.resize(self.in_system.len().max(timeline.len()), 0.0);
        for (sum, point) in self.in_system.iter_mut().zip(timeline) {
            *sum += point.in_system as f64;
        }
    }
}

/// Everything that a run tells, after what its scenario alone tells.
pub(crate) fn of_run(
    loaded: &Loaded,
    summary: &Summary,
    bottleneck: Option<&Bottleneck>,
    watch: &Watch,
) -> Vec<Finding> {
    let mut found = of_scenario(loaded);
    too_short(summary, &mut found);
    warmup(loaded, watch, &mut found);
    for threshold in thresholds(&loaded.scenario.policy) {
        inert(&threshold, summary, &mut found);
    }
    idle_gates(&loaded.scenario, summary, &mut found);
    wiped_rules(summary, &mut found);
    if let Some(bottleneck) = bottleneck.filter(|b| b.utilisation >= 0.9 && !b.batches)
        && summary.verdict != Verdict::Overloaded
    {
        let parameter = match bottleneck.stage.as_str() {
            "executor" => "gateway.executor_slots".to_owned(),
            stage => format!("stages.{stage}"),
        };
        found.push(Finding::new(
            "bottleneck.near_saturation",
            parameter,
            format!("{}: a small error of its capacity is a large one of the latencies", bottleneck.sentence),
            "Trust comparisons more than absolute latencies here, and measure this stage first",
        ));
    }
    found
}

/// All replications were the same: a trace with nothing random about it.
pub(crate) fn nothing_random(replications: u32) -> Finding {
    Finding::new(
        "run.nothing_random",
        "run.replications",
        format!(
            "all {replications} replications were the same: nothing in the scenario is random, and no interval \
             can be given"
        ),
        "One replication says as much; other recordings, or sources with random arrivals, show other crowds",
    )
}

fn too_short(summary: &Summary, found: &mut Vec<Finding>) {
    let Some(latency) = summary.metrics.get("latency_mean_s") else { return };
    let (Some(mean), Some(half)) = (latency.value, latency.half_width()) else { return };
    if half <= WIDE * mean {
        return;
    }
    // The width falls with the square root of what is simulated.
    let times = (half / (WIDE * mean)) * (half / (WIDE * mean));
    let wanted = (f64::from(summary.replications) * times).ceil();
    found.push(Finding::new(
        "run.too_short",
        "run.replications",
        format!(
            "the mean latency is {} +- {} ({:.0} %), wider than 10 %",
            seconds(mean),
            seconds(half),
            100.0 * half / mean
        ),
        format!("About {wanted:.0} replications, or runs {times:.1} times as long, would narrow it to 10 %"),
    ));
}

/// Only of loads that are the same all the time: elsewhere there is no steady state to warm up to.
fn warmup(loaded: &Loaded, watch: &Watch, found: &mut Vec<Finding>) {
    let plan = &loaded.scenario.run;
    let steady = loaded.scenario.workload.sources.values().all(|source| match source {
        Source::Poisson { from_s, to_s, .. } => *from_s == 0.0 && to_s.is_none(),
        Source::Renewal { .. } | Source::ClosedLoop { .. } => true,
        _ => false,
    });
    let arrivals = watch.in_system.len().min(plan.timeline_points as usize);
    let cut = mser5(&watch.in_system[..arrivals]);
    let step_s = plan.duration_s / f64::from(plan.timeline_points);
    let settled_s = cut as f64 * step_s;
    if !steady || settled_s <= plan.warmup_s + LATE * plan.duration_s {
        return;
    }
    let advice = if settled_s > plan.duration_s / 2.0 {
        "The run is too short to settle, or the service is overloaded: make run.duration_s several times as \
         long, or look at the verdict"
            .to_owned()
    } else {
        format!("Set run.warmup_s to {settled_s:.0} or more")
    };
    found.push(Finding::new(
        "run.warmup",
        "run.warmup_s",
        format!(
            "the number of requests in the system settles after {} (MSER-5), and measuring begins after {}",
            seconds(settled_s),
            seconds(plan.warmup_s)
        ),
        advice,
    ));
}

/// Gates that were never near their bound (incident N15).
fn idle_gates(scenario: &Scenario, summary: &Summary, found: &mut Vec<Finding>) {
    for (name, metrics) in summary.by.get("gate").into_iter().flatten() {
        let most = metrics.get("inside_max").and_then(|metric| metric.value);
        let (bound, field) = match scenario.policy.admission.get(name) {
            Some(Admission::ConcurrencyGate(gate)) => (gate.max_at_once, "max_at_once"),
            Some(Admission::AdaptiveConcurrency(gate)) => (gate.least, "least"),
            _ => continue,
        };
        let Some(most) = most.filter(|most| *most < FAR_FROM_FULL * f64::from(bound)) else { continue };
        found.push(Finding::new(
            "gate.never_acts",
            format!("policy.admission.{name}.{field}"),
            format!("at most {most} of {bound} were inside at once: the gate never acts"),
            "Lower it to what the service behind it can carry, or remove it",
        ));
    }
}

/// A limiter that an empty rule set switched off (published case G9).
fn wiped_rules(summary: &Summary, found: &mut Vec<Finding>) {
    for (name, metrics) in summary.by.get("limiter").into_iter().flatten() {
        let Some(passed) = metrics.get("rules_wiped").and_then(|metric| metric.value).filter(|n| *n > 0.0)
        else {
            continue;
        };
        found.push(Finding::new(
            "limiter.rules_wiped",
            "policy.store.accept_empty_rules",
            format!(
                "{passed} requests passed {name} unasked, because an empty rule set replaced the local rules"
            ),
            "Set it to false: the local rules then stay until the source has rules again",
        ));
    }
}

/// A threshold that its signal never reached, or never left.
fn inert(threshold: &Threshold, summary: &Summary, found: &mut Vec<Finding>) {
    let value = |name: &str| summary.metrics.get(name).and_then(|metric| metric.value);
    let Some(reached) = value(&threshold.time) else { return };
    let taken = value(&format!("share_{}", threshold.level));
    let (path, above) = (format!("policy.{}", threshold.path), threshold.above);
    if reached == 0.0 && taken.is_none_or(|share| share == 0.0) {
        found.push(Finding::new(
            "threshold.never_reached",
            path,
            format!("the signal was below {above} whenever it was measured: the rule is inert"),
            "Lower it to where the signal goes, or remove it",
        ));
    } else if reached >= ALWAYS {
        found.push(Finding::new(
            "threshold.always_on",
            path,
            format!(
                "the signal was at {above} or above {:.1} % of the times it was measured: the rule is always on",
                100.0 * reached
            ),
            "Raise it above what the signal shows at rest, or make the level the normal one",
        ));
    }
}

#[cfg(test)]
mod tests {
    use crate::inputs::open_text;
    use crate::run::{run, tests::MM1};
    use crate::workers::Workers;

    #[test]
    fn thresholds_on_any_signal_are_held_against_what_was_measured() {
        let text = format!(
            "{}[gateway]\nexecutor_slots = 1\n[policy.queue]\nkind = \"fifo\"\n[policy.fallback.l2]\n\
             error_rate_above = 0.9\narrivals_above_per_s = 0.0\n[policy.fallback.l3]\nqueue_above = 5\n",
            MM1.replace("l1 = [\"desk\"]", "l1 = [\"desk\"]\nl3 = []")
        );
        let opened = open_text("mm1", &text, &[]).unwrap();
        let run = run(&opened.loaded, &Workers::new(Some(1)).unwrap(), false, &|_, _| ()).unwrap();
        let found =
            run.summary.findings.iter().map(|finding| (finding.code.as_str(), finding.parameter.as_str()));
        let found: Vec<_> = found.filter(|(code, _)| code.starts_with("threshold.")).collect();
        assert_eq!(
            found,
            [
                ("threshold.never_reached", "policy.fallback.l2.error_rate_above"),
                ("threshold.always_on", "policy.fallback.l2.arrivals_above_per_s"),
            ]
        );
    }
}
