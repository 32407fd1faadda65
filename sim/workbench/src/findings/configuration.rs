//! Findings from the scenario alone.

use super::Finding;
use super::calibration::outside_range;
use super::inert::inert;
use super::reach;
use super::replay::replay;
use super::thresholds::thresholds;
use crate::capacity::Capacity;
use crate::show::seconds;
use forebay_model::scenario::{Allocator, Loaded, Scenario, Source, Stage};
use forebay_policies::admission::weighted_bucket::Refill;
use forebay_policies::{Admission, SignalKind};

/// Everything that the scenario alone tells.
pub fn of_scenario(loaded: &Loaded) -> Vec<Finding> {
    let scenario = &loaded.scenario;
    let mut found = Vec::new();
    preallocated(scenario, &mut found);
    time_limits(scenario, &mut found);
    hysteresis(scenario, &mut found);
    // A trace is one recorded crowd: more replications would hardly differ.
    let recorded = scenario.workload.sources.values().all(|source| matches!(source, Source::Trace { .. }));
    if scenario.run.replications == 1 && !recorded {
        found.push(Finding::new(
            "run.single_replication",
            "run.replications",
            "one replication gives no interval",
            "Ask for at least 2; 8 or more give intervals one can rely on",
        ));
    }
    inert(loaded, &mut found);
    replay(loaded, &mut found);
    outside_range(loaded, &mut found);
    overload(loaded, &mut found);
    found
}

/// NVML memory as a signal where an engine holds it constant.
fn preallocated(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut constant = Vec::new();
    let mut moving = false;
    for (name, stage) in &scenario.stages {
        let Some(device) = reach::llm_device(stage) else { continue };
        let allocator = scenario.devices.get(device).map_or(Allocator::Exact, |device| device.allocator);
        if matches!(stage, Stage::LlmBatching(_)) || allocator == Allocator::Preallocated {
            constant.push(name.as_str());
        } else {
            moving = true;
        }
    }
    if constant.is_empty() || moving {
        return;
    }
    let evidence = format!(
        "the signal is memory as NVML shows it, and {} takes its memory at the start and keeps it: the \
         signal is constant, and the rule always or never acts",
        constant.join(", ")
    );
    let advice = "Follow the share of KV blocks (`kv_above`) or of busy slots (`llm_busy_above`) instead";
    let code = "signal.vram_preallocated";
    for threshold in thresholds(&scenario.policy) {
        if matches!(threshold.signal, SignalKind::Vram | SignalKind::VramMax) {
            found.push(Finding::new(code, format!("policy.{}", threshold.path), evidence.as_str(), advice));
        }
    }
    for (name, module) in &scenario.policy.admission {
        if let Admission::WeightedBucket(bucket) = module
            && (bucket.refill == Refill::Vram || bucket.capacity_per_free > 0.0)
        {
            let field = if bucket.refill == Refill::Vram { "refill" } else { "capacity_per_free" };
            let path = format!("policy.admission.{name}.{field}");
            found.push(Finding::new(code, path, evidence.as_str(), advice));
        }
    }
}

/// Time limits of stages against the deadline of the request.
fn time_limits(scenario: &Scenario, found: &mut Vec<Finding>) {
    let Some(deadline_s) = scenario.gateway.deadline_s else { return };
    for (name, stage) in &scenario.stages {
        if let Some(limit_s) = time_limit_s(stage).filter(|limit_s| *limit_s >= deadline_s) {
            found.push(Finding::new(
                "time_limit.not_inside_deadline",
                format!("stages.{name}.time_limit_s"),
                format!(
                    "the limit of {} is not shorter than the request's {}, so that it can never act first \
                     and no fallback on it is ever taken",
                    seconds(limit_s),
                    seconds(deadline_s)
                ),
                "Make it shorter than gateway.deadline_s by the time that the fallback needs",
            ));
        }
    }
    for (name, endpoint) in &scenario.endpoints {
        let budget_s: f64 = endpoint
            .l1
            .iter()
            .filter_map(|stage| scenario.stages.get(stage))
            .filter_map(time_limit_s)
            .filter(|limit_s| *limit_s < deadline_s)
            .sum();
        if budget_s > deadline_s {
            found.push(Finding::new(
                "time_limit.budgets_exceed_deadline",
                format!("endpoints.{name}.l1"),
                format!(
                    "the limits of its stages add up to {}, the request's is {}",
                    seconds(budget_s),
                    seconds(deadline_s)
                ),
                "Shorten the stages' limits, or accept that the last stage is cut off",
            ));
        }
    }
}

fn time_limit_s(stage: &Stage) -> Option<f64> {
    match stage {
        Stage::Server(s) | Stage::Embedder(s) => s.time_limit_s,
        Stage::Rules(s) => s.time_limit_s,
        Stage::SemanticCache(s) => s.time_limit_s,
        // The limits of providers are each one's own: after one comes the next provider.
        Stage::Providers(_) | Stage::Agents(_) => None,
        Stage::VectorStore(s) => s.time_limit_s,
        Stage::Reranker(s) => s.time_limit_s,
        Stage::LlmSlots(s) => s.time_limit_s,
        Stage::LlmBatching(s) => s.time_limit_s,
    }
}

/// Bands of hysteresis against the noise of the memory signals.
fn hysteresis(scenario: &Scenario, found: &mut Vec<Finding>) {
    let noise = scenario.telemetry.noise;
    for threshold in thresholds(&scenario.policy) {
        // The noise is that of the memory's meters.
        if !matches!(threshold.signal, SignalKind::Vram | SignalKind::VramMax) {
            continue;
        }
        // As the policy fills it in: 0.02 below, at most a fifth of the threshold.
        let below = threshold.below.unwrap_or((threshold.above - 0.02).max(threshold.above * 0.8));
        let band = threshold.above - below;
        // Two standard deviations: noise alone crosses a narrower band at every 20th sample or more.
        if noise > 0.0 && band < 2.0 * noise {
            found.push(Finding::new(
                "hysteresis.within_noise",
                format!("policy.{}", threshold.path),
                format!(
                    "the band between taking and leaving the level is {band:.3} wide, and the signal's noise \
                     has a standard deviation of {noise:.3}: noise alone will flip the level"
                ),
                "Widen the band (`…_below`) to twice the noise or more, smooth the signal with a filter, or \
                 set least_dwell_s",
            ));
        }
    }
}

/// Stages that cannot carry the load on average.
fn overload(loaded: &Loaded, found: &mut Vec<Finding>) {
    // A scenario whose distributions cannot be built was refused when it was read.
    let Ok(capacity) = Capacity::of(loaded) else { return };
    for stage in capacity.stages.iter().filter(|stage| stage.load.is_some_and(|load| load > 1.0)) {
        let (Some(load), Some(ceiling)) = (stage.load, stage.ceiling_per_s) else { continue };
        let path = if stage.name == "executor" {
            "gateway.executor_slots".to_owned()
        } else {
            format!("stages.{}", stage.name)
        };
        found.push(Finding::new(
            "load.above_capacity",
            path,
            format!(
                "at L1 it can carry {ceiling:.2} requests/s, and {:.2} requests/s are offered on average \
                 ({:.0} %)",
                capacity.offered_per_s,
                load * 100.0
            ),
            "Add capacity, or see that the policy turns away or degrades the rest (`forebay capacity`)",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    #[test]
    fn noise_is_that_of_the_memory_meters_alone() {
        let text = format!(
            "{}[telemetry]\nnoise = 0.03\n[policy.fallback.l2]\nvram_above = 0.9\nkv_above = 0.9\n\
             error_rate_above = 0.1\n[policy.fallback.l3]\nvram_max_above = 0.95\nvram_max_below = 0.8\n",
            MM1.replace("l1 = [\"desk\"]", "l1 = [\"desk\"]\nl3 = []")
        );
        let found = of_scenario(&open_text("mm1", &text, &[]).unwrap().loaded);
        let narrow: Vec<&str> = found
            .iter()
            .filter(|finding| finding.code == "hysteresis.within_noise")
            .map(|finding| finding.parameter.as_str())
            .collect();
        assert_eq!(narrow, ["policy.fallback.l2.vram_above"]);
    }
}
