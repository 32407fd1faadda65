//! What must hold of what stands beside the run: prices, and the shadow; and of a queue that answers at
//! lower levels.

use super::{Found, list, nearest, of_policy};
use crate::document::Document;
use crate::scenario::{Scenario, Stage};
use forebay_policies::{Level, Queue};

/// What must hold of prices, the shadow and the levels of the queue.
pub(super) fn hold(document: &Document<Scenario>, found: &mut Found) {
    prices(document, found);
    levels_of_the_queue(document, found);
    if let Some(shadow) = &document.value.shadow
        && found.is_empty()
    {
        found.extend(of_policy(document, "shadow", shadow));
    }
}

fn prices(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    let Some(economics) = &scenario.economics else { return };
    for name in economics.tokens.keys() {
        let path = format!("economics.tokens.{name}");
        match scenario.stages.get(name) {
            None => found.push(document.problem(
                &path,
                format!("\"{name}\""),
                format!("an LLM stage of the scenario: {}", list(&scenario.stages)),
                nearest(name, scenario.stages.keys().map(String::as_str)),
            )),
            Some(Stage::LlmSlots(_) | Stage::LlmBatching(_)) => {}
            Some(_) => found.push(document.problem(
                &path,
                format!("\"{name}\", which uses no tokens"),
                "an LLM stage of the scenario",
                None,
            )),
        }
    }
}

/// A queue that answers some requests at a lower level needs a path there, as the ladder does.
fn levels_of_the_queue(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    let Some(Queue::Semantic(semantic)) = &scenario.policy.queue else { return };
    let level = semantic.degraded_level;
    if level < Level::L3 {
        return;
    }
    for (name, endpoint) in &scenario.endpoints {
        if !endpoint.written().any(|(written, _)| written == level.name()) {
            found.push(document.problem(
                &format!("endpoints.{name}"),
                format!("no path at `{}`, which `policy.queue.degraded_level` chooses", level.name()),
                "a path at this level, or `l2` or `l1` as the level of the queue",
                None,
            ));
        }
    }
}
