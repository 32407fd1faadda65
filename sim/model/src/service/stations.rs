//! Server stations and the reranker, as stages of the service.

use super::roles::Follows;
use super::{Event, Service, StageState, Task};
use crate::attempts::{Attempt, Attempts, Phase};
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, StageId};
use crate::outcome::{End, Failure};
use crate::stages::reranker::RerankStage;
use crate::stages::server::ServerStage;
use forebay_engine::{Calendar, Time};
use forebay_policies::Level;

/// Whether a waiting line's entry still waits there.
#[inline]
pub(super) fn waits(attempts: &Attempts, id: AttemptId, step: u8, stage: StageId) -> bool {
    attempts.get(id).is_some_and(|a| a.step == step && a.phase == Phase::Waiting(stage))
}

/// Purpose of the draw that decides a call's time at a stage.
#[inline]
pub(super) fn stage_purpose(stage: StageId) -> u32 {
    purpose::STAGES + u32::from(stage.0)
}

impl Service {
    #[inline]
    fn server(&mut self, stage: StageId) -> &mut ServerStage {
        match &mut self.stages[stage.index()] {
            StageState::Server(server) => server,
            _ => unreachable!("a call's phase names the stage that serves it"),
        }
    }

    fn reranker(&mut self, stage: StageId) -> &mut RerankStage {
        match &mut self.stages[stage.index()] {
            StageState::Reranker(reranker) => reranker,
            _ => unreachable!("a call's phase names the stage that serves it"),
        }
    }

    #[inline]
    pub(super) fn enter_server(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let step = self.attempts[id].step;
        let server = self.server(stage);
        if server.busy < server.servers {
            self.start_server(now, id, stage, calendar);
        } else if server.line.len() < server.max_queue {
            server.line.push(id, step);
            let waiting = u64::from(server.line.len());
            self.measure.stages[stage.index()].queue.set(now, waiting);
        } else {
            self.turn_away(now, id, stage);
        }
    }

    #[inline]
    fn start_server(&mut self, now: Time, id: AttemptId, stage: StageId, calendar: &mut Calendar<Event>) {
        self.begin_service(now, id, stage);
        let attempt = &self.attempts[id];
        let (class, docs, chance) = (attempt.request.class, attempt.docs, attempt.luck);
        let server = self.server(stage);
        server.busy += 1;
        let busy = u64::from(server.busy);
        let time = server.service_time(class, docs, &mut chance.draw(stage_purpose(stage)));
        let time = self.faults.stretched(stage, time);
        self.measure.stages[stage.index()].busy.set(now, busy);
        self.attempts[id].done = Some(calendar.after(time, Event::Done(id)));
    }

    /// A server has fallen free: the next call takes it.
    #[inline]
    pub(super) fn free_server(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        let StageState::Server(server) = &mut self.stages[stage.index()] else { return };
        server.busy -= 1;
        let attempts = &self.attempts;
        let next = server.line.pop(|id, step| waits(attempts, id, step, stage));
        let (busy, waiting) = (server.busy, server.line.len());
        let measure = &mut self.measure.stages[stage.index()];
        if let Some(id) = next {
            measure.queue.set(now, u64::from(waiting));
            self.start_server(now, id, stage, calendar);
        } else {
            measure.busy.set(now, u64::from(busy));
        }
    }

    /// A call ends at a server.
    #[inline]
    pub(super) fn server_done(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        if self.server(stage).is_plain() {
            self.served(now, id, calendar);
            self.free_server(now, stage, calendar);
            return;
        }
        match self.play_role(now, id, stage) {
            Follows::NextStage => self.served(now, id, calendar),
            Follows::AnotherPath => {
                self.served(now, id, calendar);
                self.attempts[id].step = 0;
            }
            Follows::Nothing => {}
        }
        self.free_server(now, stage, calendar);
    }

    pub(super) fn enter_reranker(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let (step, docs) = (self.attempts[id].step, self.attempts[id].docs.max(1));
        let reranker = self.reranker(stage);
        if reranker.line.len() >= reranker.max_queue && reranker.idle.is_empty() {
            self.turn_away(now, id, stage);
            return;
        }
        reranker.line.push(id, step);
        reranker.waiting_docs += u64::from(docs);
        let waiting = u64::from(reranker.line.len());
        self.measure.stages[stage.index()].queue.set(now, waiting);
        self.start_batches(now, stage, calendar);
    }

    /// A call that waited for the reranker has left.
    pub(super) fn leave_reranker(&mut self, now: Time, stage: StageId, docs: u16) {
        let reranker = self.reranker(stage);
        reranker.line.leave();
        reranker.waiting_docs -= u64::from(docs.max(1));
        let waiting = u64::from(reranker.line.len());
        self.measure.stages[stage.index()].queue.set(now, waiting);
    }

    pub(super) fn batch_due(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        self.reranker(stage).due = None;
        self.start_batches(now, stage, calendar);
    }

    /// Starts batches while a GPU is idle and a batch is full or its time has come.
    fn start_batches(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        loop {
            let StageState::Reranker(reranker) = &mut self.stages[stage.index()] else { return };
            if reranker.idle.is_empty() || reranker.line.len() == 0 {
                return;
            }
            let attempts = &self.attempts;
            let Some(head) = reranker.line.front(|id, step| waits(attempts, id, step, stage)) else { return };
            let due = attempts[head].entered + reranker.max_wait;
            if reranker.waiting_docs < u64::from(reranker.max_docs) && now < due {
                let scheduled = reranker.due.is_some_and(|(at, _)| at <= due);
                if !scheduled {
                    if let Some((_, handle)) = reranker.due.take() {
                        calendar.cancel(handle);
                    }
                    reranker.due = Some((due, calendar.schedule(due, Event::BatchDue(stage.0))));
                }
                return;
            }
            self.start_batch(now, stage, calendar);
        }
    }

    fn start_batch(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        let StageState::Reranker(reranker) = &mut self.stages[stage.index()] else { return };
        let Some(gpu) = reranker.idle.pop_front() else { return };
        let attempts = &self.attempts;
        let mut batch = std::mem::take(&mut reranker.gpus[gpu as usize].batch);
        let mut docs = 0_u64;
        while let Some(next) = reranker.line.front(|id, step| waits(attempts, id, step, stage)) {
            let more = u64::from(attempts[next].docs.max(1));
            if !batch.is_empty() && docs + more > u64::from(reranker.max_docs) {
                break;
            }
            let Some(id) = reranker.line.pop(|id, step| waits(attempts, id, step, stage)) else { break };
            reranker.waiting_docs -= more;
            docs += more;
            batch.push((id, attempts[id].step));
        }
        let waiting = u64::from(reranker.line.len());
        let workspace = reranker.workspace_per_document_gb * docs as f64;
        let device = reranker.gpus[gpu as usize].device;
        let first_chance = attempts[batch[0].0].luck;
        let busy = reranker.busy();
        let measure = &mut self.measure.stages[stage.index()];
        measure.queue.set(now, waiting);
        measure.batches += 1;
        measure.batched_calls += batch.len() as u64;
        measure.busy.set(now, busy);
        for &(id, _) in &batch {
            self.attempts[id].replica = gpu;
            self.begin_service(now, id, stage);
        }
        let mut slowdown = self.faults.latency_factor(stage);
        let mut held = 0.0;
        if let Some(device) = device {
            let memory = &mut self.devices[device.0 as usize];
            if memory.fits(now, workspace) {
                held = workspace;
            } else {
                self.measure.out_of_memory += u64::from(self.in_window(now));
                // The GPU is busy with the attempt: were it idle at once, one full device would draw the
                // whole line and fail it.
                docs = 0;
                for (id, _) in batch.drain(..) {
                    self.break_call(now, id, stage, Failure::OutOfMemory, calendar);
                }
            }
            let memory = &mut self.devices[device.0 as usize];
            if memory.llm_busy > 0 {
                slowdown *= memory.interference;
            }
            memory.rerank_busy += 1;
            memory.take(now, held, 0.0);
            self.watch_memory(now, device, calendar);
        }
        let reranker = self.reranker(stage);
        let time = reranker.batch_time(docs, slowdown, &mut first_chance.draw(stage_purpose(stage)));
        reranker.gpus[gpu as usize].batch = batch;
        reranker.gpus[gpu as usize].held_gb = held;
        let done = calendar.after(time, Event::BatchDone(stage.0, gpu));
        reranker.gpus[gpu as usize].done = Some(done);
    }

    /// A rerank GPU is lost, and its batch with it; or it is back.
    pub(super) fn rerank_gpu_down(
        &mut self,
        now: Time,
        stage: StageId,
        gpu: u32,
        lost: bool,
        calendar: &mut Calendar<Event>,
    ) {
        let reranker = self.reranker(stage);
        let place = &mut reranker.gpus[gpu as usize];
        if !lost {
            place.lost -= 1;
            if place.lost == 0 {
                reranker.down -= 1;
                reranker.idle.push_back(gpu);
                self.start_batches(now, stage, calendar);
            }
            return;
        }
        place.lost += 1;
        if place.lost > 1 {
            return;
        }
        let batch = std::mem::take(&mut place.batch);
        let (device, held, done) = (place.device, place.held_gb, place.done.take());
        reranker.down += 1;
        reranker.idle.retain(|&other| other != gpu);
        let busy = reranker.busy();
        self.measure.stages[stage.index()].busy.set(now, busy);
        let Some(done) = done else { return };
        calendar.cancel(done);
        if let Some(device) = device {
            let memory = &mut self.devices[device.0 as usize];
            memory.rerank_busy -= 1;
            memory.give_back(now, held, 0.0);
        }
        for (id, step) in batch {
            let serving = |a: &Attempt| a.step == step && a.phase == Phase::Serving(stage);
            if self.attempts.get(id).is_some_and(serving) {
                self.tasks.push_back(Task::Finish(id, End::Failed(Failure::GpuLost)));
            }
        }
    }

    /// A rerank GPU has done its batch.
    pub(super) fn batch_done(&mut self, now: Time, stage: StageId, gpu: u32, calendar: &mut Calendar<Event>) {
        let reranker = self.reranker(stage);
        let place = &mut reranker.gpus[gpu as usize];
        place.done = None;
        let mut batch = std::mem::take(&mut place.batch);
        let (device, held) = (place.device, place.held_gb);
        reranker.idle.push_back(gpu);
        let busy = reranker.busy();
        self.measure.stages[stage.index()].busy.set(now, busy);
        if let Some(device) = device {
            let memory = &mut self.devices[device.0 as usize];
            memory.rerank_busy -= 1;
            memory.give_back(now, held, 0.0);
        }
        for &(id, step) in &batch {
            let Some(attempt) = self.attempts.get_mut(id) else { continue };
            if attempt.step != step || attempt.phase != Phase::Serving(stage) {
                continue;
            }
            attempt.reranked = true;
            let endpoint = &self.plan.endpoints[usize::from(attempt.view.endpoint)];
            if attempt.level == Level::L1 {
                attempt.docs = attempt.docs.min(endpoint.documents_kept);
            }
            self.served(now, id, calendar);
        }
        batch.clear();
        self.reranker(stage).gpus[gpu as usize].batch = batch;
        self.start_batches(now, stage, calendar);
    }
}
