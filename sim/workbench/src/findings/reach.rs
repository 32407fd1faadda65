//! Which requests come to a stage, and with how many tokens; and other questions that several findings ask.

use forebay_engine::DistError;
use forebay_model::Trace;
use forebay_model::scenario::{Class, Endpoint, Loaded, Scenario, Source, Stage};
use forebay_policies::{Level, Policy};

/// By class: whether a path of it, at any level, passes the stage of that index.
pub(super) fn classes(scenario: &Scenario, stage: usize) -> Vec<bool> {
    let reaches = |class: &Class| {
        let name = class.endpoint.as_ref().or_else(|| scenario.endpoints.keys().next());
        name.is_some_and(|name| {
            Level::ALL.iter().any(|level| scenario.stages_at(name, *level).contains(&stage))
        })
    };
    scenario.workload.classes.values().map(reaches).collect()
}

/// Whether a stage of that kind is on a path of any class.
pub(super) fn any(scenario: &Scenario, kind: impl Fn(&Stage) -> bool) -> bool {
    let stages = scenario.stages.values().enumerate();
    stages.filter(|(_, stage)| kind(stage)).any(|(index, _)| classes(scenario, index).contains(&true))
}

/// The endpoints with a path, at any level, that passes the stage of that index.
pub(super) fn endpoints(scenario: &Scenario, stage: usize) -> Vec<&Endpoint> {
    let passes =
        |name: &str| Level::ALL.iter().any(|level| scenario.stages_at(name, *level).contains(&stage));
    scenario.endpoints.iter().filter(|(name, _)| passes(name)).map(|(_, endpoint)| endpoint).collect()
}

/// The policies of a scenario, each with its table: the live one, and its shadow.
pub(super) fn policies(scenario: &Scenario) -> impl Iterator<Item = (&'static str, &Policy)> {
    std::iter::once(("policy", &scenario.policy))
        .chain(scenario.shadow.iter().map(|shadow| ("shadow", shadow)))
}

/// The device group of a model engine, whose memory is a signal.
pub(super) fn llm_device(stage: &Stage) -> Option<&String> {
    match stage {
        Stage::LlmSlots(slots) => slots.memory.as_ref().map(|memory| &memory.device),
        Stage::LlmBatching(batching) => batching.device.as_ref(),
        _ => None,
    }
}

/// The trace of a source, if it is one.
pub(super) fn trace<'a>(loaded: &'a Loaded, source: &Source) -> Option<&'a Trace> {
    match source {
        Source::Trace { trace, .. } => loaded.inputs.traces.get(trace).map(AsRef::as_ref),
        _ => None,
    }
}

/// Whether a row of a trace is of a class that is in `reaching`; rows without a class may be of any.
pub(super) fn row(scenario: &Scenario, trace: &Trace, class: Option<u16>, reaching: &[bool]) -> bool {
    let named = class.and_then(|class| trace.classes().get(usize::from(class)));
    match named.and_then(|name| scenario.workload.classes.get_index_of(name)) {
        Some(index) => reaching.get(index).copied().unwrap_or(false),
        None => reaching.contains(&true),
    }
}

/// Tokens that documents add to a class's prompts at L1.
pub(super) fn document_tokens(scenario: &Scenario, class: &Class) -> f64 {
    let endpoint: Option<&Endpoint> = match &class.endpoint {
        Some(name) => scenario.endpoints.get(name),
        None => scenario.endpoints.first().map(|(_, endpoint)| endpoint),
    };
    endpoint.map_or(0.0, |endpoint| {
        let reranks =
            endpoint.l1.iter().any(|stage| matches!(scenario.stages.get(stage), Some(Stage::Reranker(_))));
        let documents =
            if reranks { endpoint.documents.min(endpoint.documents_kept) } else { endpoint.documents };
        f64::from(documents) * f64::from(endpoint.tokens_per_document)
    })
}

/// Mean tokens of prompt, documents and answer of a class.
pub(super) fn mean_tokens(scenario: &Scenario, class: &Class) -> Result<f64, DistError> {
    let (prompt, answer) = (class.tokens_in.sampler()?.mean(), class.tokens_out.sampler()?.mean());
    Ok(prompt + document_tokens(scenario, class) + answer)
}
