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
    /// Faults that have taken it down: it runs while there is none.
    pub(crate) down: u32,
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
                down: 0,
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

    /// The shares of KV blocks in use of the replicas that run.
    pub(crate) fn kv_shares(&self, now: Time) -> impl Iterator<Item = f64> {
        let running = self.replicas.iter().filter(|replica| !replica.off && replica.down == 0);
        running.map(move |replica| replica.engine.kv_share(now.as_nanos()))
    }
}
