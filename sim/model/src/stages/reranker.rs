//! The reranker: GPUs that each serve one batch at a time.
//!
//! A batch takes the waiting calls in order while their documents fit. It starts when it is full, or
//! when its first call has waited `max_wait_ms`; with no wait allowed, at once with whatever is there.
//! A batch that finds no memory fails; its GPU is busy with it for the time of a batch without documents.

use super::WaitingLine;
use crate::ids::{AttemptId, DeviceId};
use crate::scenario::{OnTimeLimit, Reranker};
use forebay_engine::{DistError, Handle, Sampler, Span, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) device: Option<DeviceId>,
    pub(crate) batch: Vec<(AttemptId, u8)>,
    pub(crate) held_gb: f64,
    /// The pending end of its batch.
    pub(crate) done: Option<Handle>,
    /// Faults that have taken it away: it serves while there is none.
    pub(crate) lost: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct RerankStage {
    pub(crate) gpus: Vec<Gpu>,
    /// GPUs without a batch; the one that has been idle longest is taken first, so that a GPU whose
    /// device is full and whose batches fail at once does not draw all the others.
    pub(crate) idle: VecDeque<u32>,
    /// GPUs that are lost.
    pub(crate) down: u64,
    pub(crate) line: WaitingLine,
    /// Documents of the calls that wait.
    pub(crate) waiting_docs: u64,
    pub(crate) max_docs: u32,
    pub(crate) max_wait: Span,
    pub(crate) max_queue: u32,
    pub(crate) time_limit: Option<Span>,
    pub(crate) on_time_limit: OnTimeLimit,
    pub(crate) workspace_per_document_gb: f64,
    /// The pending event at which an unfilled batch must start.
    pub(crate) due: Option<(Time, Handle)>,
    base_s: f64,
    per_document_s: f64,
    residual: Sampler,
}

impl RerankStage {
    pub(crate) fn new(stage: &Reranker, devices: &[DeviceId]) -> Result<Self, DistError> {
        let gpus = (0..stage.gpus)
            .map(|i| Gpu {
                device: (!devices.is_empty()).then(|| devices[i as usize % devices.len()]),
                batch: Vec::new(),
                held_gb: 0.0,
                done: None,
                lost: 0,
            })
            .collect();
        Ok(Self {
            gpus,
            idle: (0..stage.gpus).collect(),
            down: 0,
            line: WaitingLine::default(),
            waiting_docs: 0,
            max_docs: stage.max_docs,
            max_wait: Span::from_secs_f64(stage.max_wait_ms * 1e-3),
            max_queue: stage.max_queue.unwrap_or(u32::MAX),
            time_limit: stage.time_limit_s.map(Span::from_secs_f64),
            on_time_limit: stage.on_time_limit,
            workspace_per_document_gb: stage.workspace_per_document_gb,
            due: None,
            base_s: stage.base_s,
            per_document_s: stage.per_document_s,
            residual: stage.residual.sampler()?,
        })
    }

    /// GPUs that serve a batch.
    pub(crate) fn busy(&self) -> u64 {
        self.gpus.len() as u64 - self.idle.len() as u64 - self.down
    }

    /// Time of a batch of so many documents.
    pub(crate) fn batch_time(&self, docs: u64, slowdown: f64, draw: &mut forebay_engine::Draw) -> Span {
        let seconds = (self.base_s + self.per_document_s * docs as f64) * self.residual.sample(draw);
        Span::from_secs_f64(seconds * slowdown)
    }
}
