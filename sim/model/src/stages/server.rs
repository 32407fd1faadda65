//! Parallel servers with one queue: executor-like stations, embedders, rules, and the vector store
//! behind its connection pool.

use super::WaitingLine;
use crate::scenario::{Scenario, Server, VectorStore};
use forebay_engine::{DistError, Sampler, Span};

#[derive(Clone, Debug)]
pub(crate) struct ServerStage {
    pub(crate) servers: u32,
    pub(crate) busy: u32,
    pub(crate) line: WaitingLine,
    pub(crate) max_queue: u32,
    pub(crate) time_limit: Option<Span>,
    service: Sampler,
    /// Service of classes that have their own.
    by_class: Vec<Option<Sampler>>,
    per_document_s: f64,
    cores: Option<f64>,
    /// It is a vector store: what it returns is a list of documents.
    pub(crate) retrieves: bool,
}

impl ServerStage {
    pub(crate) fn server(stage: &Server, scenario: &Scenario) -> Result<Self, DistError> {
        let by_class = scenario
            .workload
            .classes
            .values()
            .map(|class| class.service_s.as_ref().map(forebay_engine::Dist::sampler).transpose())
            .collect::<Result<_, _>>()?;
        Ok(Self {
            servers: stage.servers,
            busy: 0,
            line: WaitingLine::default(),
            max_queue: stage.max_queue.unwrap_or(u32::MAX),
            time_limit: stage.time_limit_s.map(Span::from_secs_f64),
            service: stage.service_s.sampler()?,
            by_class,
            per_document_s: 0.0,
            cores: None,
            retrieves: false,
        })
    }

    pub(crate) fn vector_store(stage: &VectorStore) -> Result<Self, DistError> {
        Ok(Self {
            servers: stage.connections,
            busy: 0,
            line: WaitingLine::default(),
            max_queue: stage.max_queue.unwrap_or(u32::MAX),
            time_limit: stage.time_limit_s.map(Span::from_secs_f64),
            service: stage.base_s.sampler()?,
            by_class: Vec::new(),
            per_document_s: stage.per_document_s,
            cores: stage.cores,
            retrieves: true,
        })
    }

    /// Service time of a call that starts now, this one counted in `busy`.
    #[inline]
    pub(crate) fn service_time(&self, class: u16, docs: u16, draw: &mut forebay_engine::Draw) -> Span {
        let law = self.by_class.get(usize::from(class)).and_then(Option::as_ref).unwrap_or(&self.service);
        let mut seconds = law.sample(draw) + self.per_document_s * f64::from(docs);
        if let Some(cores) = self.cores {
            seconds *= (f64::from(self.busy) / cores).max(1.0);
        }
        Span::from_secs_f64(seconds)
    }
}
