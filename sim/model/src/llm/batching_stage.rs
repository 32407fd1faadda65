//! The `batching` engine as a stage: replicas behind a router.

use super::batching::{BatchingConfig, BatchingEngine, Progress};
use super::router::Router;
use crate::ids::DeviceId;
use crate::scenario::LlmBatching;
use forebay_engine::{Handle, Span, Time};

#[derive(Clone, Debug)]
pub(crate) struct BatchingReplica {
    pub(crate) device: Option<DeviceId>,
    pub(crate) engine: BatchingEngine,
    /// Autoscaling has stopped it.
    pub(crate) off: bool,
    pub(crate) wake: Option<(Time, Handle)>,
    /// Sequences that ran and waited when last looked at.
    running: u64,
    waiting: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct BatchingStage {
    pub(crate) replicas: Vec<BatchingReplica>,
    pub(crate) router: Router,
    pub(crate) calls: u32,
    pub(crate) max_calls: u32,
    /// Sequences of each replica at most.
    pub(crate) max_seqs: u32,
    pub(crate) time_limit: Option<Span>,
    /// Over all replicas, as last looked at.
    pub(crate) running: u64,
    pub(crate) waiting: u64,
    /// Reused between wakes.
    pub(crate) progress: Vec<Progress>,
}

impl BatchingStage {
    /// A stage of engines with this configuration; `Err` says what is wrong with it.
    pub(crate) fn new(
        stage: &LlmBatching,
        config: &BatchingConfig,
        devices: &[DeviceId],
    ) -> Result<Self, String> {
        let engine = BatchingEngine::new(config.clone()).map_err(|e| e.to_string())?;
        let replicas = (0..stage.places())
            .map(|i| BatchingReplica {
                device: (!devices.is_empty()).then(|| devices[i as usize % devices.len()]),
                engine: engine.clone(),
                off: false,
                wake: None,
                running: 0,
                waiting: 0,
            })
            .collect();
        Ok(Self {
            replicas,
            router: Router::new(stage.routing, stage.places(), u32::MAX),
            calls: 0,
            max_calls: stage.max_calls.unwrap_or(u32::MAX),
            max_seqs: config.max_seqs,
            time_limit: stage.time_limit_s.map(Span::from_secs_f64),
            running: 0,
            waiting: 0,
            progress: Vec::new(),
        })
    }

    /// Brings the sums over all replicas up to date after one of them has changed.
    pub(crate) fn look_at(&mut self, replica: u32) {
        let place = &mut self.replicas[replica as usize];
        let (running, waiting) = (u64::from(place.engine.running()), place.engine.waiting() as u64);
        self.running = self.running + running - place.running;
        self.waiting = self.waiting + waiting - place.waiting;
        (place.running, place.waiting) = (running, waiting);
    }

    /// Share of KV blocks in use, mean over the replicas that run.
    pub(crate) fn kv_share(&self, now: Time) -> f64 {
        let on = || self.replicas.iter().filter(|replica| !replica.off);
        let sum: f64 = on().map(|replica| replica.engine.kv_share(now.as_nanos())).sum();
        sum / self.running_replicas() as f64
    }

    /// Replicas that run; at least one.
    pub(crate) fn running_replicas(&self) -> usize {
        self.replicas.iter().filter(|replica| !replica.off).count().max(1)
    }
}
