//! The two LLM engines as stages of the service.

use super::stations::{stage_purpose, waits};
use super::{Event, Service, StageState};
use crate::attempts::Phase;
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, StageId};
use crate::llm::batching::{Job as BatchingJob, Progress};
use crate::llm::batching_stage::BatchingStage;
use crate::llm::slots::{Job, SlotsStage};
use crate::outcome::Failure;
use forebay_engine::{Calendar, Span, Time};

/// Purpose of the draw of a call's memory at a stage: beside the draws of service times.
fn memory_purpose(stage: StageId) -> u32 {
    purpose::STAGES + (1 << 16) + u32::from(stage.0)
}

impl Service {
    #[inline]
    pub(super) fn slots(&mut self, stage: StageId) -> &mut SlotsStage {
        match &mut self.stages[stage.index()] {
            StageState::Slots(slots) => slots,
            _ => unreachable!("a call's phase names the stage that serves it"),
        }
    }

    fn batching(&mut self, stage: StageId) -> &mut BatchingStage {
        match &mut self.stages[stage.index()] {
            StageState::Batching(batching) => batching,
            _ => unreachable!("a call's phase names the stage that serves it"),
        }
    }

    pub(super) fn enter_slots(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let step = self.attempts[id].step;
        let slots = self.slots(stage);
        if let Some(replica) = slots.router.pick() {
            self.start_slot(now, id, stage, replica, calendar);
        } else if slots.line.len() < slots.max_queue {
            slots.line.push(id, step);
            let waiting = u64::from(slots.line.len());
            self.measure.stages[stage.index()].queue.set(now, waiting);
        } else {
            self.turn_away(now, id, stage);
        }
    }

    /// A call takes a slot of a replica.
    fn start_slot(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        replica: u32,
        calendar: &mut Calendar<Event>,
    ) {
        self.attempts[id].replica = replica;
        self.begin_service(now, id, stage);
        let tokens_in = self.prompt_tokens(id);
        let attempt = &self.attempts[id];
        let (tokens_out, chance) = (attempt.request.tokens_out, attempt.luck);
        let StageState::Slots(slots) = &mut self.stages[stage.index()] else { return };
        let mut work = slots.work(tokens_in, tokens_out, &mut chance.draw(stage_purpose(stage)));
        work.stretch(self.faults.latency_factor(stage));
        slots.busy += 1;
        slots.router.add(replica);
        let busy = u64::from(slots.busy);
        let cold = slots.cold;
        let place = &mut slots.replicas[replica as usize];
        let device = place.device;
        let loading_s = place.loading(now, cold);
        let mut held = 0.0;
        if let Some(law) = &slots.per_call_gb {
            held = law.sample(&mut chance.draw(memory_purpose(stage))).max(0.0)
                + slots.per_token_gb * f64::from(tokens_in);
        }
        self.measure.stages[stage.index()].busy.set(now, busy);
        if let Some(memory) = device.map(|device| &self.devices[device.0 as usize])
            && memory.rerank_busy > 0
        {
            work.stretch(memory.interference);
        }
        work.delay(loading_s);
        let mut fits = true;
        let mut growth = 0.0;
        if let Some(device) = device {
            let memory = &mut self.devices[device.0 as usize];
            memory.llm_busy += 1;
            fits = memory.fits(now, held);
            if !fits {
                held = 0.0;
            } else if work.total_s > 0.0 {
                growth = slots.per_token_gb * f64::from(tokens_out) / work.total_s;
            }
        }
        let shares = slots.shares();
        let calls = slots.replicas[replica as usize].jobs.len();
        let (before, after) = (slots.factor(calls), slots.factor(calls + 1));
        let place = &mut slots.replicas[replica as usize];
        let old_pace = place.growth / before;
        place.advance(now, before);
        let start = place.virtual_s();
        place.growth += growth;
        let new_pace = place.growth / after;
        place.jobs.push(Job {
            id,
            start,
            first: start + work.first_s,
            last: start + work.total_s,
            first_seen: !shares,
        });
        let attempt = &mut self.attempts[id];
        (attempt.held_gb, attempt.growth_gb_per_s) = (held, growth);
        if let Some(device) = device {
            self.devices[device.0 as usize].take(now, held, new_pace - old_pace);
            if !fits {
                self.run_out(now, device, Some((stage, replica, id)), calendar);
                return;
            }
            self.watch_memory(now, device, calendar);
        }
        if shares {
            self.schedule_replica(now, stage, replica, calendar);
        } else {
            let attempt = &mut self.attempts[id];
            attempt.first_token = now + Span::from_secs_f64(work.first_s);
            attempt.done = Some(calendar.after(Span::from_secs_f64(work.total_s), Event::Done(id)));
        }
    }

    /// Schedules the next first or last token of a replica whose calls slow each other.
    fn schedule_replica(&mut self, now: Time, stage: StageId, replica: u32, calendar: &mut Calendar<Event>) {
        let slots = self.slots(stage);
        let place = &slots.replicas[replica as usize];
        let factor = slots.factor(place.jobs.len());
        let next = place.next().map(|at| (at - place.virtual_s()).max(0.0) * factor);
        let place = &mut slots.replicas[replica as usize];
        if let Some(wake) = place.wake.take() {
            calendar.cancel(wake);
        }
        if let Some(seconds) = next.filter(|s| s.is_finite()) {
            let at = now + Span::from_secs_f64(seconds);
            place.wake = Some(calendar.schedule(at, Event::ReplicaWake(stage.0, replica)));
        }
    }

    /// A first or last token is due on a replica.
    pub(super) fn replica_wake(
        &mut self,
        now: Time,
        stage: StageId,
        replica: u32,
        calendar: &mut Calendar<Event>,
    ) {
        if matches!(self.stages[stage.index()], StageState::Batching(_)) {
            self.batching_wake(now, stage, replica, calendar);
            return;
        }
        let StageState::Slots(slots) = &mut self.stages[stage.index()] else { return };
        let factor = slots.factor(slots.replicas[replica as usize].jobs.len());
        let place = &mut slots.replicas[replica as usize];
        place.wake = None;
        place.advance(now, factor);
        // Event times are whole nanoseconds: what is due within one is due now.
        let reached = place.virtual_s() + 1e-9;
        for job in &mut place.jobs {
            if !job.first_seen && job.first <= reached {
                job.first_seen = true;
                if let Some(attempt) = self.attempts.get_mut(job.id) {
                    attempt.first_token = now;
                }
            }
        }
        let mut any = false;
        while let Some(id) = {
            let place = &self.slots(stage).replicas[replica as usize];
            place.jobs.iter().find(|job| job.last <= reached).map(|job| job.id)
        } {
            any = true;
            self.end_slot(now, id, stage, true, calendar);
            self.served(now, id, calendar);
        }
        if any {
            self.fill_slots(now, stage, calendar);
        }
        self.schedule_replica(now, stage, replica, calendar);
    }

    /// A call has its last token, on a replica without slow-down.
    pub(super) fn slot_done(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        self.end_slot(now, id, stage, true, calendar);
        self.served(now, id, calendar);
        self.fill_slots(now, stage, calendar);
    }

    /// A call gives its slot and its memory back. `wake_later`: the caller schedules the replica anew.
    pub(super) fn end_slot(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        wake_later: bool,
        calendar: &mut Calendar<Event>,
    ) {
        let attempt = &mut self.attempts[id];
        let (replica, growth) = (attempt.replica, attempt.growth_gb_per_s);
        if let Some(done) = attempt.done.take() {
            calendar.cancel(done);
        }
        let StageState::Slots(slots) = &mut self.stages[stage.index()] else { return };
        slots.busy -= 1;
        slots.router.remove(replica);
        let busy = u64::from(slots.busy);
        let calls = slots.replicas[replica as usize].jobs.len();
        let (before, after) = (slots.factor(calls), slots.factor(calls - 1));
        let shares = slots.shares();
        let place = &mut slots.replicas[replica as usize];
        place.advance(now, before);
        let old_pace = place.growth / before;
        let Some(position) = place.jobs.iter().position(|job| job.id == id) else { return };
        let job = place.jobs.remove(position);
        let at = place.virtual_s();
        place.growth -= growth;
        if place.jobs.is_empty() {
            place.rest();
        }
        let new_pace = place.growth / after;
        let device = place.device;
        let grown = growth * (at - job.start);
        self.measure.stages[stage.index()].busy.set(now, busy);
        if let Some(device) = device {
            let held = self.attempts[id].held_gb + grown;
            let memory = &mut self.devices[device.0 as usize];
            memory.llm_busy -= 1;
            memory.give_back(now, held, old_pace - new_pace);
            self.watch_memory(now, device, calendar);
        }
        if shares && !wake_later {
            self.schedule_replica(now, stage, replica, calendar);
        }
    }

    /// Waiting calls take the free slots.
    pub(super) fn fill_slots(&mut self, now: Time, stage: StageId, calendar: &mut Calendar<Event>) {
        loop {
            let attempts = &self.attempts;
            let StageState::Slots(slots) = &mut self.stages[stage.index()] else { return };
            if slots.line.len() == 0 {
                return;
            }
            let Some(replica) = slots.router.pick() else { return };
            let Some(id) = slots.line.pop(|id, step| waits(attempts, id, step, stage)) else { return };
            let waiting = u64::from(slots.line.len());
            self.measure.stages[stage.index()].queue.set(now, waiting);
            self.start_slot(now, id, stage, replica, calendar);
        }
    }

    pub(super) fn enter_batching(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let tokens_in = self.prompt_tokens(id);
        let attempt = &self.attempts[id];
        let (tokens_out, class) = (attempt.request.tokens_out, attempt.view.class);
        let batching = self.batching(stage);
        if batching.calls >= batching.max_calls {
            self.turn_away(now, id, stage);
            return;
        }
        let Some(replica) = batching.router.pick() else {
            self.break_call(now, id, stage, Failure::NoReplica, calendar);
            return;
        };
        batching.calls += 1;
        batching.router.add(replica);
        let job = BatchingJob { id: id.key(), tokens_in, tokens_out, priority: class };
        batching.replicas[replica as usize].engine.submit(now.as_nanos(), job);
        batching.look_at(replica);
        let waiting = batching.waiting;
        self.measure.stages[stage.index()].queue.set(now, waiting);
        self.attempts[id].replica = replica;
        self.schedule_batching(stage, replica, calendar);
    }

    /// Keeps a replica's pending event in step with its engine.
    pub(super) fn schedule_batching(&mut self, stage: StageId, replica: u32, calendar: &mut Calendar<Event>) {
        let place = &mut self.batching(stage).replicas[replica as usize];
        let next = place.engine.next_event().map(Time::from_nanos);
        if place.wake.map(|(at, _)| at) == next {
            return;
        }
        if let Some((_, handle)) = place.wake.take() {
            calendar.cancel(handle);
        }
        place.wake = next.map(|at| (at, calendar.schedule(at, Event::ReplicaWake(stage.0, replica))));
    }

    fn batching_wake(&mut self, now: Time, stage: StageId, replica: u32, calendar: &mut Calendar<Event>) {
        let batching = self.batching(stage);
        let mut progress = std::mem::take(&mut batching.progress);
        let place = &mut batching.replicas[replica as usize];
        place.wake = None;
        place.engine.advance(now.as_nanos(), &mut progress);
        for step in progress.drain(..) {
            match step {
                Progress::Started { id, .. } => {
                    let id = AttemptId::from_key(id);
                    if self.attempts.get(id).is_some_and(|a| a.phase == Phase::Waiting(stage)) {
                        self.begin_service(now, id, stage);
                    }
                }
                Progress::FirstToken { id, at } => {
                    if let Some(attempt) = self.attempts.get_mut(AttemptId::from_key(id)) {
                        attempt.first_token = attempt.first_token.min(Time::from_nanos(at));
                    }
                }
                Progress::Finished { id, .. } => {
                    let id = AttemptId::from_key(id);
                    if self.attempts.get(id).is_some() {
                        self.end_batching(id, stage);
                        self.served(now, id, calendar);
                    }
                }
                Progress::Preempted { id, at } => {
                    self.spans.tell(|spans| spans.noted(at, AttemptId::from_key(id), "preempted"));
                }
                Progress::Refused { id, .. } => {
                    let id = AttemptId::from_key(id);
                    if self.attempts.get(id).is_some() {
                        self.end_batching(id, stage);
                        self.break_call(now, id, stage, Failure::TooLong, calendar);
                    }
                }
            }
        }
        let batching = self.batching(stage);
        batching.progress = progress;
        batching.look_at(replica);
        let (busy, waiting) = (batching.running, batching.waiting);
        let measure = &mut self.measure.stages[stage.index()];
        measure.busy.set(now, busy);
        measure.queue.set(now, waiting);
        self.schedule_batching(stage, replica, calendar);
    }

    fn end_batching(&mut self, id: AttemptId, stage: StageId) {
        let replica = self.attempts[id].replica;
        let batching = self.batching(stage);
        batching.calls -= 1;
        batching.router.remove(replica);
    }

    /// A call leaves a batching engine before its end.
    pub(super) fn abort_batching(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let replica = self.attempts[id].replica;
        self.end_batching(id, stage);
        let batching = self.batching(stage);
        batching.replicas[replica as usize].engine.cancel(now.as_nanos(), id.key());
        batching.look_at(replica);
        let waiting = batching.waiting;
        self.measure.stages[stage.index()].queue.set(now, waiting);
        self.schedule_batching(stage, replica, calendar);
    }
}
