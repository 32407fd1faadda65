//! The work that a request brings to each stage at L1, and what the stage can carry of it.

use super::demand::{Demand, Flow};
use super::engine::{self, Prompt};
use super::providers;
use super::queueing::waiting;
use super::{Moments, StageCapacity};
use forebay_engine::{Dist, DistError};
use forebay_model::scenario::{Agents, Class, LlmSlots, Loaded, Reranker, Scenario, Stage};
use forebay_policies::Level;

/// A flow's call of a stage.
#[derive(Clone, Copy, Debug)]
struct Visit<'a> {
    flow: &'a Flow,
    class: &'a Class,
    /// Documents that the call is about.
    documents: f64,
    /// Tokens that they add to a prompt.
    document_tokens: f64,
}

impl Visit<'_> {
    fn prompt(&self) -> Moments {
        self.flow.tokens_in.plus(Moments::constant(self.document_tokens))
    }
}

/// What visits bring to one stage, summed by rate.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    rate_per_s: f64,
    mean: f64,
    square: f64,
}

impl Work {
    fn add(&mut self, rate_per_s: f64, service: Moments) {
        self.rate_per_s += rate_per_s;
        self.mean += rate_per_s * service.mean;
        self.square += rate_per_s * service.square;
    }

    fn moments(&self) -> Option<Moments> {
        (self.rate_per_s > 0.0)
            .then(|| Moments { mean: self.mean / self.rate_per_s, square: self.square / self.rate_per_s })
    }
}

/// Capacities of the executor, if it has a bound, and of all stages.
pub(super) fn capacities(loaded: &Loaded, demand: &Demand) -> Result<Vec<StageCapacity>, DistError> {
    let scenario = &loaded.scenario;
    let visits: Vec<Vec<Visit<'_>>> = visits(scenario, demand);
    let mut stages = Vec::new();
    // Time that a request holds its executor slot: the sum over its stages, waiting left out.
    let mut held = 0.0;
    for ((name, stage), visits) in scenario.stages.iter().zip(&visits) {
        let mut capacity = match stage {
            Stage::LlmBatching(batching) => engine::capacity(name, batching, &loaded.inputs, prompt(visits)),
            Stage::Providers(list) => {
                let fails_over = scenario.policy.fallback.providers.is_some();
                providers::capacity(name, list, fails_over, prompt(visits))?
            }
            _ => plain(name, stage, visits, demand)?,
        };
        let rate = visits.iter().map(|visit| visit.flow.rate_per_s).fold(0.0, |sum, rate| sum + rate);
        let offered = demand.offered_per_s();
        capacity.visited_share = if offered > 0.0 { rate / offered } else { 0.0 };
        if let Some(of_visitors) = capacity.ceiling_per_s {
            // Of the whole service: those who do not come here cost nothing.
            capacity.ceiling_per_s = (rate > 0.0).then(|| of_visitors * offered / rate);
        }
        held += rate * capacity.service_s.unwrap_or(0.0);
        stages.push(capacity);
    }
    if let Some(slots) = scenario.gateway.executor_slots {
        let offered = demand.offered_per_s();
        let service_s = (offered > 0.0 && held > 0.0).then(|| held / offered);
        stages.insert(
            0,
            StageCapacity {
                name: "executor".to_owned(),
                kind: "executor".to_owned(),
                servers: Some(f64::from(slots)),
                service_s,
                visited_share: 1.0,
                ceiling_per_s: service_s.map(|service_s| f64::from(slots) / service_s),
                load: None,
                peak_load: None,
                waiting: None,
                note: Some("held for the whole path; waiting for the stages comes on top".to_owned()),
            },
        );
    }
    for stage in &mut stages {
        stage.load = stage.ceiling_per_s.map(|ceiling| demand.offered_per_s() / ceiling);
        stage.peak_load = stage.ceiling_per_s.map(|ceiling| demand.peak_per_s() / ceiling);
    }
    Ok(stages)
}

/// The visits of each stage at L1.
fn visits<'a>(scenario: &'a Scenario, demand: &'a Demand) -> Vec<Vec<Visit<'a>>> {
    let mut visits = vec![Vec::new(); scenario.stages.len()];
    for flow in &demand.flows {
        let class = &scenario.workload.classes[flow.class];
        let endpoint = match &class.endpoint {
            Some(name) => scenario.endpoints.get_key_value(name),
            None => scenario.endpoints.first(),
        };
        let Some((endpoint_name, endpoint)) = endpoint else { continue };
        let mut documents = endpoint.documents;
        for index in scenario.stages_at(endpoint_name, Level::L1) {
            let document_tokens = f64::from(endpoint.tokens_per_document) * f64::from(documents);
            visits[index].push(Visit { flow, class, documents: f64::from(documents), document_tokens });
            if matches!(scenario.stages[index], Stage::Reranker(_)) {
                documents = documents.min(endpoint.documents_kept);
            }
        }
    }
    visits
}

/// A stage of servers that each serve one call, or one batch, at a time. Its ceiling is in calls.
fn plain(
    name: &str,
    stage: &Stage,
    visits: &[Visit<'_>],
    demand: &Demand,
) -> Result<StageCapacity, DistError> {
    let mut work = Work::default();
    let (kind, servers) = match stage {
        Stage::Server(s) => ("server", Some(s.servers)),
        Stage::Embedder(s) => ("embedder", Some(s.servers)),
        Stage::Rules(s) => ("rules", Some(s.servers)),
        Stage::VectorStore(s) => ("vector_store", Some(s.connections)),
        Stage::Reranker(s) => ("reranker", Some(s.gpus)),
        Stage::LlmSlots(s) => ("llm_slots", Some(s.places().saturating_mul(s.slots))),
        Stage::LlmBatching(s) => ("llm_batching", Some(s.places())),
        Stage::Providers(_) => ("providers", None),
        Stage::SemanticCache(s) => ("semantic_cache", s.lookups_at_once),
        Stage::Agents(s) => ("agents", Some(s.agents)),
    };
    for visit in visits {
        let service = match stage {
            Stage::Server(s) | Stage::Embedder(s) => {
                Moments::of(visit.class.service_s.as_ref().unwrap_or(&s.service_s))?
            }
            Stage::Rules(s) => Moments::of(visit.class.service_s.as_ref().unwrap_or(&s.service_s))?,
            Stage::SemanticCache(s) => Moments::of(&s.lookup_s)?,
            Stage::Agents(s) => handling(s)?,
            Stage::VectorStore(s) => {
                Moments::of(&s.base_s)?.plus(Moments::constant(s.per_document_s * visit.documents))
            }
            Stage::Reranker(s) => Moments::constant(share_of_batch_s(s, visit.documents)?),
            Stage::LlmSlots(s) => of_slots(s, visit)?,
            Stage::LlmBatching(_) | Stage::Providers(_) => continue,
        };
        work.add(visit.flow.rate_per_s, service);
    }
    let service = work.moments();
    let mut at_once = servers.map(f64::from);
    let mut note = None;
    if let Stage::VectorStore(store) = stage
        && let Some(cores) = store.cores.filter(|cores| *cores < f64::from(store.connections))
    {
        // With more searches than cores each takes longer in proportion: the cores are the servers.
        at_once = Some(cores);
        note = Some(format!("bound by {cores} cores"));
    }
    if let Stage::LlmSlots(slots) = stage {
        note = at_most(slots.autoscale.is_some(), slots.places());
    }
    if let Stage::SemanticCache(_) = stage {
        note = Some("its hits are left out: what comes after it is taken to get all".to_owned());
    }
    let estimate = match stage {
        Stage::Reranker(_) => {
            note = Some("full batches; no closed form for the wait of batches".to_owned());
            None
        }
        _ if note.is_some() => None,
        _ => service.zip(servers).and_then(|(service, servers)| {
            let scv = service.scv();
            waiting(u64::from(servers), work.rate_per_s, service.mean, scv, demand.arrival_scv)
        }),
    };
    if visits.is_empty() {
        note = Some("not on any path at L1".to_owned());
    }
    Ok(StageCapacity {
        name: name.to_owned(),
        kind: kind.to_owned(),
        servers: servers.map(f64::from),
        service_s: match stage {
            // A call is in its batch to the batch's end.
            Stage::Reranker(s) => full_batch_s(s, visits)?,
            _ => service.map(|service| service.mean),
        },
        visited_share: 0.0,
        ceiling_per_s: service
            .filter(|service| service.mean > 0.0)
            .zip(at_once)
            .map(|(service, at_once)| at_once / service.mean),
        load: None,
        peak_load: None,
        waiting: estimate,
        note,
    })
}

/// What a ceiling of replicas that come and go is a ceiling of.
pub(super) fn at_most(autoscaled: bool, places: u32) -> Option<String> {
    autoscaled.then(|| format!("with all {places} replicas that autoscaling may start"))
}

/// Time of an agent per hand-off, with its summary.
fn handling(stage: &Agents) -> Result<Moments, DistError> {
    let law = Moments::of(&stage.handling_s)?;
    let mean = (law.mean - stage.summary.map_or(0.0, |summary| summary.saves_s)).max(0.0);
    Ok(Moments { mean, square: law.variance() + mean * mean })
}

/// Time of a GPU per call, when batches are full of calls like it. Calls are not split: a batch holds as
/// many as fit whole, and one that is larger than a batch is served alone.
fn share_of_batch_s(stage: &Reranker, documents: f64) -> Result<f64, DistError> {
    let documents = documents.max(1.0);
    let calls = (f64::from(stage.max_docs) / documents).floor().max(1.0);
    Ok(batch_s(stage, calls * documents)? / calls)
}

fn batch_s(stage: &Reranker, documents: f64) -> Result<f64, DistError> {
    let residual: &Dist = &stage.residual;
    Ok((stage.base_s + stage.per_document_s * documents) * residual.sampler()?.mean())
}

/// Time of a full batch, by the documents of the mean call.
fn full_batch_s(stage: &Reranker, visits: &[Visit<'_>]) -> Result<Option<f64>, DistError> {
    let rate: f64 = visits.iter().map(|visit| visit.flow.rate_per_s).sum();
    if rate <= 0.0 {
        return Ok(None);
    }
    let documents = visits.iter().map(|visit| visit.flow.rate_per_s * visit.documents).sum::<f64>() / rate;
    let documents = documents.max(1.0);
    let calls = (f64::from(stage.max_docs) / documents).floor().max(1.0);
    batch_s(stage, calls * documents).map(Some)
}

/// Service of a call in a slot while all slots of its replica are busy.
fn of_slots(stage: &LlmSlots, visit: &Visit<'_>) -> Result<Moments, DistError> {
    let out = visit.flow.tokens_out;
    // The first token is in `first_token_s`.
    let further =
        Moments { mean: out.mean - 1.0, square: out.variance() + (out.mean - 1.0) * (out.mean - 1.0) };
    let alone = Moments::of(&stage.first_token_s)?
        .plus(visit.prompt().times(stage.per_prompt_token_s))
        .plus(Moments::of(&stage.per_token_s)?.product(further));
    Ok(alone.times(1.0 + stage.slowdown_per_busy * f64::from(stage.slots - 1)))
}

/// The mean prompt and answer of the calls of an engine.
fn prompt(visits: &[Visit<'_>]) -> Option<Prompt> {
    let rate: f64 = visits.iter().map(|visit| visit.flow.rate_per_s).sum();
    if rate <= 0.0 {
        return None;
    }
    let mean = |of: &dyn Fn(&Visit<'_>) -> f64| {
        visits.iter().map(|visit| visit.flow.rate_per_s * of(visit)).sum::<f64>() / rate
    };
    Some(Prompt {
        tokens: mean(&|visit| visit.prompt().mean).max(1.0),
        square: mean(&|visit| visit.prompt().square).max(1.0),
        out: mean(&|visit| visit.flow.tokens_out.mean).max(1.0),
        out_square: mean(&|visit| visit.flow.tokens_out.square).max(1.0),
    })
}
