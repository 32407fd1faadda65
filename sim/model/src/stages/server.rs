//! Parallel servers with one queue: executor-like stations, embedders, rules, and the vector store
//! behind its connection pool.

use super::WaitingLine;
use super::cache::Cache;
use super::desk::Desk;
use super::knowledge_base::Knowledge;
use crate::scenario::{Scenario, Server, VectorStore};
use forebay_engine::{Dist, DistError, Sampler, Span};

/// What a server does beside taking time.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Nothing.
    Plain,
    /// It returns a list of documents.
    Retrieval,
    /// It looks for a cached answer.
    Cache(Box<Cache>),
    /// It matches questions with a knowledge base.
    Rules(Box<Knowledge>),
    /// It puts hand-offs on the agents' desk.
    Desk(Box<Desk>),
}

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
    pub(crate) role: Role,
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
            role: Role::Plain,
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
            role: Role::Retrieval,
        })
    }

    /// A station that every call passes at once, with a role.
    pub(crate) fn playing(role: Role, at_once: Option<u32>, time: &Dist) -> Result<Self, DistError> {
        Ok(Self {
            servers: at_once.unwrap_or(u32::MAX),
            busy: 0,
            line: WaitingLine::default(),
            max_queue: u32::MAX,
            time_limit: None,
            service: time.sampler()?,
            by_class: Vec::new(),
            per_document_s: 0.0,
            cores: None,
            role,
        })
    }

    /// It takes time and does nothing else.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.role, Role::Plain)
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
