//! What must hold of a fault beyond its schema.

use super::{Found, dist, list, nearest};
use crate::document::Document;
use crate::scenario::{Clock, Fault, Inputs, Scenario, Stage};
use indexmap::IndexMap;

/// More turns of a clock that jitters than this are refused: each is an event.
const MOST_TURNS: f64 = 1e7;

/// What must hold of all faults.
pub(super) fn hold(document: &Document<Scenario>, found: &mut Found) {
    for (name, fault) in &document.value.faults {
        let path = format!("faults.{name}");
        window(document, &path, fault, found);
        holds(document, &path, fault, found);
    }
}

fn window(document: &Document<Scenario>, path: &str, fault: &Fault, found: &mut Found) {
    if let Some(to_s) = fault.to_s()
        && to_s <= fault.from_s()
    {
        let allowed = format!("later than from_s, which is {}", fault.from_s());
        found.push(document.problem(&format!("{path}.to_s"), to_s.to_string(), allowed, None));
    }
}

fn holds(document: &Document<Scenario>, path: &str, fault: &Fault, found: &mut Found) {
    let scenario = &document.value;
    let at = |field: &str| format!("{path}.{field}");
    match fault {
        Fault::ProviderOutage { stage: name, provider, .. } => {
            let Some(stage) = stage(document, &at("stage"), name, found) else { return };
            let providers = stage.providers();
            if providers.is_empty() {
                let allowed = "a stage that calls external providers";
                found.push(document.problem(
                    &at("stage"),
                    format!("\"{name}\", which has none"),
                    allowed,
                    None,
                ));
            } else if !providers.contains(&provider.as_str()) {
                let names: Vec<_> = providers.iter().map(|name| format!("`{name}`")).collect();
                found.push(document.problem(
                    &at("provider"),
                    format!("\"{provider}\""),
                    format!("a provider of the stage: {}", names.join(", ")),
                    nearest(provider, providers.iter().copied()),
                ));
            }
        }
        Fault::LatencyFactor { stage: name, .. } => {
            stage(document, &at("stage"), name, found);
        }
        Fault::GpuLost { device, count, .. } => gpu_lost(document, path, device, *count, found),
        Fault::ReplicaCrash { stage: name, replica, to_s, .. } => {
            let Some(stage) = stage(document, &at("stage"), name, found) else { return };
            crash(document, path, (name, stage), *replica, to_s.is_some(), found);
        }
        Fault::ClockStep { from_s, to_s, by_s, every_s } => {
            if scenario.gateway.clock == Clock::Monotonic {
                found.push(document.problem(
                    path,
                    "a clock that is set, and a gateway with a monotonic clock",
                    "`gateway.clock = \"wall\"`: a monotonic clock cannot be set",
                    None,
                ));
            }
            if -by_s > *from_s {
                let allowed = format!("at least {}: a clock does not show less than 0", -from_s);
                found.push(document.problem(&at("by_s"), by_s.to_string(), allowed, None));
            }
            if let Some(every) = every_s
                && (to_s - from_s) / every > MOST_TURNS
            {
                let allowed = format!("a time that the window holds at most {MOST_TURNS:e} times");
                found.push(document.problem(&at("every_s"), every.to_string(), allowed, None));
            }
        }
        Fault::NetworkDelay { extra_s, .. } => dist(document, &at("extra_s"), extra_s, found),
        Fault::KnowledgeBaseStale { .. } => {
            if !scenario.endpoints.values().any(|endpoint| endpoint.l3.is_some()) {
                found.push(document.problem(
                    path,
                    "no endpoint with a path at `l3`",
                    "an endpoint that answers by rules, whose knowledge base can be stale",
                    None,
                ));
            }
        }
        Fault::StoreTimeout { .. }
        | Fault::LimiterNodesDown { .. }
        | Fault::RulesWiped { .. }
        | Fault::ForecastLost { .. }
        | Fault::MetricsFrozen { .. } => {}
    }
}

/// The stage of that name; a problem at `path` if there is none.
fn stage<'a>(
    document: &'a Document<Scenario>,
    path: &str,
    name: &str,
    found: &mut Found,
) -> Option<&'a Stage> {
    let stages = &document.value.stages;
    let stage = stages.get(name);
    if stage.is_none() {
        found.push(unknown(document, path, name, "stage", stages));
    }
    stage
}

fn unknown<T>(
    document: &Document<Scenario>,
    path: &str,
    name: &str,
    what: &str,
    known: &IndexMap<String, T>,
) -> crate::document::Problem {
    let allowed = format!("a {what} of the scenario: {}", list(known));
    document.problem(path, format!("\"{name}\""), allowed, nearest(name, known.keys().map(String::as_str)))
}

fn gpu_lost(document: &Document<Scenario>, path: &str, device: &str, count: u32, found: &mut Found) {
    let scenario = &document.value;
    let at = |field: &str| format!("{path}.{field}");
    let Some(group) = scenario.devices.get(device) else {
        found.push(unknown(document, &at("device"), device, "device group", &scenario.devices));
        return;
    };
    if count > group.count {
        let allowed = format!("at most the devices of the group, which are {}", group.count);
        found.push(document.problem(&at("count"), count.to_string(), allowed, None));
    }
    let used = scenario.stages.values().any(|stage| stage.device() == Some(device));
    if !used {
        found.push(document.problem(
            &at("device"),
            format!("\"{device}\", on which nothing runs"),
            "a device group that a stage names",
            None,
        ));
    }
}

fn crash(
    document: &Document<Scenario>,
    path: &str,
    (name, stage): (&str, &Stage),
    replica: Option<u32>,
    ends: bool,
    found: &mut Found,
) {
    let (places, restarts) = match stage {
        Stage::LlmSlots(slots) => (slots.places(), slots.memory.is_some()),
        Stage::LlmBatching(batching) => (batching.places(), false),
        _ => {
            found.push(document.problem(
                &format!("{path}.stage"),
                format!("\"{name}\", which has no replicas"),
                "a stage of kind `llm_slots` or `llm_batching`",
                None,
            ));
            return;
        }
    };
    if let Some(replica) = replica
        && replica >= places
    {
        let allowed = format!("below the stage's replicas, which are {places}");
        found.push(document.problem(&format!("{path}.replica"), replica.to_string(), allowed, None));
    }
    if !ends && !restarts {
        found.push(document.problem(
            path,
            "no `to_s`",
            format!("`to_s`, or `memory.restart_s` of stage `{name}`: how long the replica is down"),
            None,
        ));
    }
}

/// What must hold once the named inputs are there.
pub(super) fn hold_with(document: &Document<Scenario>, inputs: &Inputs, found: &mut Found) {
    for (name, fault) in &document.value.faults {
        if let Fault::LatencyFactor { stage, factor, .. } = fault
            && let Some(Stage::LlmBatching(batching)) = document.value.stages.get(stage)
            && let Ok(config) = batching.config(inputs)
            && !config.cost.may_take(*factor)
        {
            found.push(document.problem(
                &format!("faults.{name}.factor"),
                factor.to_string(),
                "a factor that leaves the engine's iteration cost within its range",
                None,
            ));
        }
    }
}
