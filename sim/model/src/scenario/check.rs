//! What must hold of a scenario beyond the schema: names that exist, shares that add up, call graphs
//! that end, memory that fits, expressions that can be read.

mod beside;
mod faults;
mod providers;
mod roles;
mod scaling;
mod sources;

use super::objective::{Constraint, METRICS};
use super::{Inputs, Scenario, Source, Stage};
use crate::document::{Document, Problem, get_number, nearest_parameter};
use forebay_engine::{Dist, DistError};
use forebay_policies::fallback::levels::LevelRule;
use forebay_policies::{Governor, Policy, PolicyError};
use indexmap::IndexMap;
use strsim::jaro_winkler;

type Found = Vec<Problem>;

/// Everything that is wrong with a scenario that its schema accepts.
pub(crate) fn check(document: &Document<Scenario>) -> Found {
    let mut found = Found::new();
    names(document, &mut found);
    run(document, &mut found);
    workload(document, &mut found);
    endpoints(document, &mut found);
    stages(document, &mut found);
    scaling::hold(document, &mut found);
    faults::hold(document, &mut found);
    roles::recall(document, &mut found);
    roles::last_resort(document, &mut found);
    objective(document, &mut found);
    if found.is_empty() {
        found.extend(of_policy(document, "policy", &document.value.policy));
    }
    beside::hold(document, &mut found);
    found
}

/// What is wrong with the policy at a path.
fn of_policy(document: &Document<Scenario>, place: &str, policy: &Policy) -> Option<Problem> {
    let error = Governor::new(policy).err()?;
    let path = format!("{place}.{}", error.path());
    let (was, allowed) = match &error {
        PolicyError::NotAllowed { found, allowed, .. } => (found.clone(), allowed.clone()),
        other => (other.to_string(), "a policy that can be built".to_owned()),
    };
    Some(document.problem(&path, was, allowed, None))
}

/// A name that a scenario gives and nobody knows.
pub(crate) fn unknown_input(document: &Document<Scenario>, name: &str, why: &str) -> Problem {
    let mut path = String::new();
    for (key, source) in &document.value.workload.sources {
        if matches!(source, Source::Trace { trace, .. } if trace == name) {
            path = format!("workload.sources.{key}.trace");
        }
    }
    for (key, stage) in &document.value.stages {
        if matches!(stage, Stage::LlmBatching(b) if b.calibration.as_deref() == Some(name)) {
            path = format!("stages.{key}.calibration");
        }
    }
    document.problem(&path, format!("\"{name}\""), why, None)
}

/// What must hold once the named inputs are there.
pub(crate) fn check_inputs(document: &Document<Scenario>, inputs: &Inputs) -> Found {
    let mut found = Found::new();
    for (name, stage) in &document.value.stages {
        if let Stage::LlmBatching(batching) = stage {
            let why = match batching.config(inputs) {
                Err(why) => Some(why),
                Ok(config) => crate::llm::batching::BatchingEngine::new(config).err().map(|e| e.to_string()),
            };
            if let Some(why) = why {
                found.push(document.problem(&format!("stages.{name}"), why, "an engine that can run", None));
            }
        }
    }
    faults::hold_with(document, inputs, &mut found);
    for (name, source) in &document.value.workload.sources {
        if let Source::Trace { trace, .. } = source
            && let Some(trace) = inputs.traces.get(trace)
        {
            for class in trace.classes() {
                if !document.value.workload.classes.contains_key(class) {
                    found.push(document.problem(
                        &format!("workload.sources.{name}.trace"),
                        format!("a trace whose rows are of class `{class}`"),
                        format!("the scenario's classes: {}", list(&document.value.workload.classes)),
                        None,
                    ));
                }
            }
        }
    }
    found
}

fn list<T>(map: &IndexMap<String, T>) -> String {
    let names: Vec<_> = map.keys().map(|k| format!("`{k}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The nearest of some names, if one is near.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    names
        .map(|candidate| (jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// Most entries of a table of sources, classes, endpoints or stages.
const MOST_ENTRIES: usize = 10_000;

/// Names that can be shown, and not more of them than the service can tell apart.
fn names(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    let workload = &scenario.workload;
    let tables: [(&str, Vec<&String>); 8] = [
        ("workload.sources", workload.sources.keys().collect()),
        ("workload.classes", workload.classes.keys().collect()),
        ("workload.population.tiers", workload.population.tiers.keys().collect()),
        ("endpoints", scenario.endpoints.keys().collect()),
        ("stages", scenario.stages.keys().collect()),
        ("devices", scenario.devices.keys().collect()),
        ("faults", scenario.faults.keys().collect()),
        ("name", vec![&scenario.name]),
    ];
    for (path, keys) in tables {
        if keys.len() > MOST_ENTRIES {
            let many = format!("{} entries", keys.len());
            found.push(document.problem(path, many, format!("at most {MOST_ENTRIES}"), None));
        }
        for key in keys {
            if key.is_empty() || key.len() > 200 || key.chars().any(char::is_control) {
                found.push(document.problem(
                    path,
                    format!("{key:?}"),
                    "a name of 1 to 200 bytes without control characters",
                    None,
                ));
            }
        }
    }
}

fn run(document: &Document<Scenario>, found: &mut Found) {
    let run = &document.value.run;
    if run.warmup_s >= run.duration_s {
        found.push(document.problem(
            "run.warmup_s",
            run.warmup_s.to_string(),
            format!("less than run.duration_s, which is {}", run.duration_s),
            None,
        ));
    }
}

fn dist(document: &Document<Scenario>, path: &str, law: &Dist, found: &mut Found) {
    if let Err(error) = law.sampler() {
        let path = match &error {
            DistError::OutOfRange { field, .. } if !field.is_empty() => format!("{path}.{field}"),
            _ => path.to_owned(),
        };
        found.push(document.problem(&path, error.to_string(), "a distribution that can be drawn from", None));
    }
}

fn workload(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    let workload = &scenario.workload;
    if workload.sources.is_empty() {
        found.push(document.problem("workload.sources", "no source", "at least one", None));
    }
    if workload.classes.is_empty() {
        found.push(document.problem("workload.classes", "no class", "at least one", None));
    }
    let weights: f64 = workload.classes.values().map(|c| c.weight).sum();
    if !(workload.classes.is_empty() || weights > 0.0 && weights.is_finite()) {
        found.push(document.problem(
            "workload.classes",
            format!("weights that add up to {weights}"),
            "weights with a finite sum above 0",
            None,
        ));
    }
    for (name, source) in &workload.sources {
        sources::holds(document, &format!("workload.sources.{name}"), source, found);
    }
    sources::mixes(document, found);
    for (name, class) in &workload.classes {
        let path = format!("workload.classes.{name}");
        match &class.endpoint {
            Some(endpoint) if !scenario.endpoints.contains_key(endpoint) => found.push(document.problem(
                &format!("{path}.endpoint"),
                format!("\"{endpoint}\""),
                format!("an endpoint of the scenario: {}", list(&scenario.endpoints)),
                nearest(endpoint, scenario.endpoints.keys().map(String::as_str)),
            )),
            None if scenario.endpoints.len() > 1 => found.push(document.problem(
                &path,
                "no `endpoint`",
                format!("one of the scenario's endpoints: {}", list(&scenario.endpoints)),
                None,
            )),
            _ => {}
        }
        if class.faq_share + class.new_share > 1.0 + 1e-9 {
            found.push(document.problem(
                &path,
                format!("faq_share + new_share = {}", class.faq_share + class.new_share),
                "at most 1",
                None,
            ));
        }
        for (field, law) in [
            ("chars", &class.chars),
            ("tokens_in", &class.tokens_in),
            ("tokens_out", &class.tokens_out),
            ("history_turns", &class.history_turns),
            ("intent_complexity", &class.intent_complexity),
        ] {
            dist(document, &format!("{path}.{field}"), law, found);
        }
        if let Some(law) = &class.service_s {
            dist(document, &format!("{path}.service_s"), law, found);
        }
    }
    people(document, found);
}

fn people(document: &Document<Scenario>, found: &mut Found) {
    let workload = &document.value.workload;
    let tiers = &workload.population.tiers;
    let sum: f64 = tiers.values().sum();
    if !tiers.is_empty() && ((sum - 1.0).abs() > 1e-9 || tiers.values().any(|share| *share < 0.0)) {
        found.push(document.problem(
            "workload.population.tiers",
            if tiers.values().any(|share| *share < 0.0) {
                "a share below 0".to_owned()
            } else {
                format!("shares that add up to {sum}")
            },
            "shares from 0 that add up to 1",
            None,
        ));
    }
    let channels = workload.population.channels;
    let sum = channels.app + channels.mini_program + channels.h5;
    if (sum - 1.0).abs() > 1e-9 {
        found.push(document.problem(
            "workload.population.channels",
            format!("shares that add up to {sum}"),
            "shares that add up to 1 (`mini_program` is 1 unless stated)",
            None,
        ));
    }
    if tiers.len() > 255 {
        found.push(document.problem(
            "workload.population.tiers",
            format!("{} tiers", tiers.len()),
            "at most 255",
            None,
        ));
    }
    if let Some(patience) = &workload.people.patience {
        dist(document, "workload.people.patience.give_up_after_s", &patience.give_up_after_s, found);
    }
    if let Some(resend) = &workload.people.resend {
        dist(document, "workload.people.resend.after_s", &resend.after_s, found);
        if workload.people.patience.is_none() {
            found.push(document.problem(
                "workload.people.resend",
                "people who ask again, and no patience",
                "`workload.people.patience` beside it: only those who give up ask again",
                None,
            ));
        }
    }
}

fn endpoints(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    if scenario.endpoints.is_empty() {
        found.push(document.problem("endpoints", "no endpoint", "at least one", None));
    }
    let fallback = &scenario.policy.fallback;
    for (level, rule) in [("l3", &fallback.l3), ("l4", &fallback.l4)] {
        if *rule == LevelRule::default() {
            continue;
        }
        for (name, endpoint) in &scenario.endpoints {
            if !endpoint.written().any(|(written, _)| written == level) {
                found.push(document.problem(
                    &format!("endpoints.{name}"),
                    format!("no path at `{level}`, which `policy.fallback.{level}` may choose"),
                    format!("a path at `{level}`: it is taken at once, without a slot of the executor"),
                    None,
                ));
            }
        }
    }
    for (name, endpoint) in &scenario.endpoints {
        for (level, path) in endpoint.written() {
            let place = format!("endpoints.{name}.{level}");
            match scenario.expand(name, level, path) {
                Ok(stages) if stages.len() > 200 => found.push(document.problem(
                    &place,
                    format!("{} stages", stages.len()),
                    "at most 200",
                    None,
                )),
                Ok(_) => {}
                Err(wrong) => found.push(document.problem(&place, wrong.found, wrong.allowed, wrong.hint)),
            }
        }
    }
}

fn stages(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    if scenario.stages.is_empty() {
        found.push(document.problem("stages", "no stage", "at least one", None));
    }
    let mut resident: IndexMap<&str, f64> = IndexMap::new();
    let mut on_device = |path: String, device: &Option<String>, gb: f64, found: &mut Found| {
        let Some(name) = device else { return };
        if let Some((key, _)) = scenario.devices.get_key_value(name) {
            *resident.entry(key).or_insert(0.0) += gb;
        } else {
            found.push(document.problem(
                &path,
                format!("\"{name}\""),
                format!("a device group of the scenario: {}", list(&scenario.devices)),
                nearest(name, scenario.devices.keys().map(String::as_str)),
            ));
        }
    };
    for (name, stage) in &scenario.stages {
        let path = format!("stages.{name}");
        let at = |field: &str| format!("{path}.{field}");
        match stage {
            Stage::Server(s) | Stage::Embedder(s) => {
                dist(document, &at("service_s"), &s.service_s, found);
            }
            Stage::Rules(_) | Stage::SemanticCache(_) | Stage::Agents(_) => {
                roles::holds(document, &path, stage, found);
            }
            Stage::VectorStore(s) => dist(document, &at("base_s"), &s.base_s, found),
            Stage::Reranker(s) => {
                dist(document, &at("residual"), &s.residual, found);
                on_device(at("device"), &s.device, s.weights_gb, found);
            }
            Stage::LlmSlots(s) => {
                dist(document, &at("first_token_s"), &s.first_token_s, found);
                dist(document, &at("per_token_s"), &s.per_token_s, found);
                if let Some(memory) = &s.memory {
                    dist(document, &at("memory.per_call_gb"), &memory.per_call_gb, found);
                    let device = Some(memory.device.clone());
                    let gb = memory.weights_gb * replicas_each(scenario, device.as_deref(), s.places());
                    on_device(at("memory.device"), &device, gb, found);
                }
            }
            Stage::Providers(s) => providers::holds(document, &at("providers"), s, found),
            Stage::LlmBatching(s) => {
                let gb = s.device.as_ref().and_then(|d| scenario.devices.get(d)).map_or(0.0, |d| d.memory_gb);
                let gb = gb * s.memory_share * replicas_each(scenario, s.device.as_deref(), s.places());
                on_device(at("device"), &s.device, gb, found);
            }
        }
    }
    for (name, device) in &scenario.devices {
        let gb = device.other_tenants_gb + resident.get(name.as_str()).copied().unwrap_or(0.0);
        if gb > device.memory_gb {
            found.push(document.problem(
                &format!("devices.{name}.memory_gb"),
                format!("{} GB, of which {gb} GB are taken by models and other tenants", device.memory_gb),
                "more memory than what stays resident",
                None,
            ));
        }
    }
}

/// Most replicas of a stage that share one device of a group.
fn replicas_each(scenario: &Scenario, device: Option<&str>, places: u32) -> f64 {
    let count = device.and_then(|name| scenario.devices.get(name)).map_or(1, |group| group.count);
    f64::from(places.div_ceil(count.max(1)))
}

fn objective(document: &Document<Scenario>, found: &mut Found) {
    let scenario = &document.value;
    if let Some(objective) = &scenario.objective {
        let metric = |field: &str, name: &str, found: &mut Found| {
            if !METRICS.contains(&name) {
                found.push(document.problem(
                    field,
                    format!("\"{name}\""),
                    format!("the name of a metric: {}", METRICS.join(", ")),
                    nearest(name, METRICS.iter().copied()),
                ));
            }
        };
        match (&objective.maximize, &objective.minimize) {
            (Some(name), None) => metric("objective.maximize", name, found),
            (None, Some(name)) => metric("objective.minimize", name, found),
            (both, _) => found.push(document.problem(
                "objective",
                if both.is_some() { "both `maximize` and `minimize`" } else { "neither" },
                "exactly one of `maximize` and `minimize`",
                None,
            )),
        }
        for (index, text) in objective.constraints.iter().enumerate() {
            match Constraint::parse(text) {
                Ok(constraint) => {
                    metric(&format!("objective.constraints.{index}"), &constraint.metric, found);
                }
                Err(allowed) => found.push(document.problem(
                    &format!("objective.constraints.{index}"),
                    format!("\"{text}\""),
                    allowed,
                    None,
                )),
            }
        }
    }
    let Some(tune) = &scenario.tune else { return };
    if tune.from >= tune.to || !(tune.from.is_finite() && tune.to.is_finite()) {
        found.push(document.problem(
            "tune",
            format!("from {} to {}", tune.from, tune.to),
            "a range from a smaller to a larger value",
            None,
        ));
    }
    let known = crate::document::full_path(document.json(), &tune.parameter)
        .and_then(|path| get_number(document.json(), &path));
    if known.is_none() {
        let parameters = document.parameters();
        let hint = nearest_parameter(&tune.parameter, &parameters).map(|p| format!("did you mean `{p}`?"));
        found.push(document.problem(
            "tune.parameter",
            format!("\"{}\"", tune.parameter),
            "the path of a number that this scenario sets; `forebay params` lists them",
            hint,
        ));
    }
}
