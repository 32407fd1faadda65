//! What must hold of the semantic cache, of rules with a knowledge base, and of agents beyond their schema.

use super::{Found, dist};
use crate::document::Document;
use crate::scenario::{Scenario, Stage};

/// What must hold of the stage at `path`.
pub(super) fn holds(document: &Document<Scenario>, path: &str, stage: &Stage, found: &mut Found) {
    let at = |field: &str| format!("{path}.{field}");
    let mut laws = Vec::new();
    match stage {
        Stage::Rules(rules) => {
            laws.push(("service_s", &rules.service_s));
            let base = rules.knowledge_base.as_ref();
            if base.is_some_and(|base| base.loses_per_day == 0.0 && base.updated_every_s.is_some()) {
                found.push(document.problem(
                    &at("knowledge_base.updated_every_s"),
                    "updates of a knowledge base that loses nothing",
                    "`loses_per_day` above 0 beside it",
                    Some("give `loses_per_day`, or leave `updated_every_s` out".to_owned()),
                ));
            }
        }
        Stage::SemanticCache(cache) => {
            laws.extend([
                ("lookup_s", &cache.lookup_s),
                ("own_distance", &cache.own_distance),
                ("foreign_distance", &cache.foreign_distance),
            ]);
            laws.extend(cache.stale_after_s.as_ref().map(|law| ("stale_after_s", law)));
        }
        Stage::Agents(agents) => {
            laws.extend([("handling_s", &agents.handling_s), ("hand_off_s", &agents.hand_off_s)]);
            laws.extend(agents.give_up_after_s.as_ref().map(|law| ("give_up_after_s", law)));
        }
        _ => {}
    }
    for (field, law) in laws {
        dist(document, &at(field), law, found);
    }
}

/// The table of recall: in order, its shares within 0 and 1.
pub(super) fn recall(document: &Document<Scenario>, found: &mut Found) {
    let points = &document.value.quality.recall_points;
    for (index, (documents, share)) in points.iter().enumerate() {
        let path = format!("quality.recall_points.{index}");
        if !(documents.is_finite() && *documents >= 0.0 && (0.0..=1.0).contains(share)) {
            let allowed = "a number of documents from 0 and a share from 0 to 1";
            found.push(document.problem(&path, format!("[{documents}, {share}]"), allowed, None));
        } else if index > 0 && *documents <= points[index - 1].0 {
            let was = format!("{documents} documents after {}", points[index - 1].0);
            found.push(document.problem(&path, was, "points in rising order of documents", None));
        }
    }
}

/// A last resort needs a cache.
pub(super) fn last_resort(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    if scenario.policy.fallback.cache_last_resort.is_some()
        && !scenario.stages.values().any(|stage| matches!(stage, Stage::SemanticCache(_)))
    {
        found.push(document.problem(
            "policy.fallback.cache_last_resort",
            "no stage that caches answers",
            "a stage of kind `semantic_cache`",
            Some("add one, and put it on a path: what it never sees it cannot serve".to_owned()),
        ));
    }
}
