//! What must hold of autoscaling, of replicas that begin cold, and of the gateway's host.

use super::Found;
use crate::document::Document;
use crate::scenario::autoscale::DAY_S;
use crate::scenario::{Autoscale, Host, ScaleBy, Scenario, Stage};

/// More checks than this in one replication are refused: each is an event.
const MOST_CHECKS: f64 = 1e8;

/// What must hold of all stages and of the host.
pub(super) fn hold(document: &Document<Scenario>, found: &mut Found) {
    for (name, stage) in &document.value.stages {
        let path = format!("stages.{name}");
        let (scale, replicas) = match stage {
            Stage::LlmSlots(slots) => {
                if let Some(scale) = &slots.autoscale
                    && slots.warmed
                    && scale.start_s < slots.cold_first_call_s
                {
                    found.push(document.problem(
                        &format!("{path}.autoscale.start_s"),
                        scale.start_s.to_string(),
                        format!("at least cold_first_call_s, which is {}: a start that warms the replica takes that long", slots.cold_first_call_s),
                        None,
                    ));
                }
                (&slots.autoscale, slots.replicas)
            }
            Stage::LlmBatching(batching) => (&batching.autoscale, batching.replicas),
            _ => continue,
        };
        if let Some(scale) = scale {
            holds(document, &path, scale, replicas, found);
        }
    }
    if let Some(host) = &document.value.gateway.host {
        host_holds(document, host, found);
    }
}

fn holds(document: &Document<Scenario>, path: &str, scale: &Autoscale, replicas: u32, found: &mut Found) {
    let at = |field: &str| format!("{path}.autoscale.{field}");
    if scale.least > scale.most {
        let allowed = format!("at least `least`, which is {}", scale.least);
        found.push(document.problem(&at("most"), scale.most.to_string(), allowed, None));
    } else if !(scale.least..=scale.most).contains(&replicas) {
        let allowed = format!("{} to {}, as `autoscale` says", scale.least, scale.most);
        found.push(document.problem(&format!("{path}.replicas"), replicas.to_string(), allowed, None));
    }
    let by = match scale.by {
        ScaleBy::Demand => None,
        ScaleBy::Schedule => Some("`by = \"schedule\"`"),
        ScaleBy::Forecast => Some("`by = \"forecast\"`, for when there is no forecast"),
    };
    if let Some(by) = by
        && scale.schedule.is_empty()
    {
        found.push(document.problem(
            &at("schedule"),
            "nothing",
            format!("a timetable: needed by {by}"),
            None,
        ));
    }
    if scale.by == ScaleBy::Forecast && scale.seconds_per_arrival.is_none() {
        let allowed = "the slot time that an arrival takes: needed by `by = \"forecast\"`";
        found.push(document.problem(&at("seconds_per_arrival"), "nothing", allowed, None));
    }
    for (index, (second, replicas)) in scale.schedule.iter().enumerate() {
        let path = at(&format!("schedule.{index}"));
        if !(0.0..DAY_S).contains(second) {
            let allowed = format!("a second of the day, from 0 to below {DAY_S}");
            found.push(document.problem(&path, format!("second {second}"), allowed, None));
        }
        if index > 0 && *second <= scale.schedule[index - 1].0 {
            let was = format!("second {second} after second {}", scale.schedule[index - 1].0);
            found.push(document.problem(&path, was, "entries in order of time", None));
        }
        if !(scale.least..=scale.most).contains(replicas) {
            let allowed = format!("{} to {}, as `least` and `most` say", scale.least, scale.most);
            found.push(document.problem(&path, format!("{replicas} replicas"), allowed, None));
        }
    }
    if document.value.run.duration_s / scale.check_every_s > MOST_CHECKS {
        let allowed = format!("a time that the run holds at most {MOST_CHECKS:e} times");
        found.push(document.problem(&at("check_every_s"), scale.check_every_s.to_string(), allowed, None));
    }
}

fn host_holds(document: &Document<Scenario>, host: &Host, found: &mut Found) {
    let path = "gateway.host";
    let mut others = 0.0;
    for (name, mb) in &host.others_mb {
        if !(0.0..=1e9).contains(mb) {
            let path = format!("{path}.others_mb.{name}");
            found.push(document.problem(&path, mb.to_string(), "0 to 1e9", None));
        }
        others += mb;
    }
    // One attempt must fit, or the gateway dies of its first one, time and again.
    let least = host.at_rest_mb() + host.stack_mb;
    if let Some(limit) = host.container_limit_mb
        && least > limit
    {
        found.push(document.problem(
            &format!("{path}.container_limit_mb"),
            format!("{limit} MB, of which a gateway that serves one attempt takes {least} MB"),
            "a limit that holds it",
            None,
        ));
    }
    if least + others > host.host_mb {
        found.push(document.problem(
            &format!("{path}.host_mb"),
            format!(
                "{} MB, of which a gateway that serves one attempt and its neighbours take {} MB",
                host.host_mb,
                least + others
            ),
            "more memory than that",
            None,
        ));
    }
}
