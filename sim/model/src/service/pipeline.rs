//! The way of an attempt: entry, queue, gates, stages, end of path.

use super::{Event, Service, StageState, Task};
use crate::attempts::Phase;
use crate::ids::{AttemptId, StageId};
use crate::outcome::{End, Failure};
use crate::scenario::OnTimeLimit;
use crate::spans::Place;
use forebay_engine::{Calendar, Span, Time};
use forebay_policies::{Arrival, Call, CallEnd, CallView, Level, Next, Site};

impl Service {
    /// An attempt reaches the gateway.
    pub(super) fn enter(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        let down = self.gateway_down();
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.arrived = now;
        attempt.entered = now;
        if down {
            attempt.phase = Phase::Between;
            self.tasks.push_back(Task::Finish(id, End::Failed(Failure::GatewayKilled)));
            return;
        }
        attempt.phase = Phase::Queued;
        if let Some(deadline) = self.plan.deadline {
            attempt.deadline = Some(calendar.after(deadline, Event::Deadline(id)));
        }
        let view = attempt.view;
        if self.counts(now) {
            self.executor.measure.offered += 1;
        }
        let answer = self.governor.arrived(self.moment(now), &view, &self.signals);
        self.spans.tell(|spans| spans.arrived(now, id, answer, &self.governor));
        if self.shadow.is_some() {
            self.shadow_arrived(now, id, answer);
        }
        match answer {
            Arrival::Admit => {
                let top_k = self.governor.top_k(self.moment(now), &self.signals);
                self.start(now, id, (Level::L1, top_k), true, calendar);
            }
            // Rules and hand-offs need no slot of the executor, nor does a light path without a queue.
            Arrival::Degrade { level, .. } => {
                let top_k = self.governor.top_k(self.moment(now), &self.signals);
                self.start(now, id, (level, top_k), level == Level::L2, calendar);
            }
            Arrival::Queue { .. } => {
                self.executor.measure.queue.set(now, self.governor.queued() as u64);
                self.pump = true;
                if self.accounts.notices.is_some() {
                    let told = self.governor.expected_wait(self.moment(now), id.ticket());
                    self.attempts[id].told = told.map(Span::from_nanos);
                }
            }
            Arrival::Reject { why, retry_after_ns } => {
                self.attempts[id].phase = Phase::Between;
                self.tasks.push_back(Task::Finish(id, End::RejectedBy(why, retry_after_ns)));
            }
        }
    }

    /// Hands queued attempts to free executor slots.
    pub(super) fn serve_queue(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        self.pump = false;
        while !self.gateway_down() && self.plan.executor_slots.is_none_or(|slots| self.executor.busy < slots)
        {
            let next = self.governor.next(self.moment(now), &self.signals);
            self.spans.tell(|spans| spans.turn(now, next, &self.governor));
            if self.shadow.is_some() {
                self.shadow_turn(now, next);
            }
            match next {
                Next::Serve(dispatch) => {
                    let id = AttemptId::of(dispatch.ticket);
                    self.notice_came_true(now, id);
                    self.left_queue(now, id);
                    self.start(now, id, (dispatch.level, dispatch.top_k), true, calendar);
                }
                Next::Drop { ticket, why } => {
                    let id = AttemptId::of(ticket);
                    self.left_queue(now, id);
                    self.tasks.push_back(Task::Finish(id, End::RejectedBy(why, None)));
                }
                Next::Idle => break,
            }
        }
    }

    /// Keeps the event at which the next queued attempt has waited too long.
    pub(super) fn watch_expiry(&mut self, calendar: &mut Calendar<Event>) {
        let Some(at) = self.governor.next_expiry() else { return };
        let at = self.faults.time_of(at);
        if self.expiry.is_some_and(|(pending, _)| pending <= at) {
            return;
        }
        if let Some((_, handle)) = self.expiry.take() {
            calendar.cancel(handle);
        }
        self.expiry = Some((at, calendar.schedule(at, Event::Expire)));
    }

    /// Queued attempts that have waited past their limit are turned away.
    pub(super) fn expire(&mut self, now: Time) {
        self.expiry = None;
        while let Some((ticket, why)) = self.governor.expire(self.moment(now)) {
            let id = AttemptId::of(ticket);
            self.spans.tell(|spans| spans.turn(now, Next::Drop { ticket, why }, &self.governor));
            if let Some(shadow) = &mut self.shadow {
                shadow.live(Next::Drop { ticket, why });
            }
            self.left_queue(now, id);
            self.tasks.push_back(Task::Finish(id, End::RejectedBy(why, None)));
        }
        self.pump = true;
    }

    /// An attempt's wait in the governor's queue has ended.
    pub(super) fn left_queue(&mut self, now: Time, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let wait = now.since(attempt.entered);
        attempt.waited += wait;
        attempt.phase = Phase::Between;
        let counts = attempt.arrived >= self.plan.warm;
        let measure = &mut self.executor.measure;
        measure.queue.set(now, self.governor.queued() as u64);
        if counts {
            measure.waited(wait);
        }
    }

    /// An attempt begins to be served at a level.
    fn start(
        &mut self,
        now: Time,
        id: AttemptId,
        (level, top_k): (Level, Option<u16>),
        takes_slot: bool,
        calendar: &mut Calendar<Event>,
    ) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let endpoint = &self.plan.endpoints[usize::from(attempt.view.endpoint)];
        attempt.level = endpoint.taken[level.index()];
        attempt.step = 0;
        attempt.phase = Phase::Between;
        // A path without documents stays without.
        let top_k = top_k.filter(|_| endpoint.documents > 0);
        attempt.docs = match attempt.level {
            Level::L1 => top_k.unwrap_or(endpoint.documents),
            Level::L2 => top_k.map_or(endpoint.documents_l2, |k| k.min(endpoint.documents_l2)),
            Level::L3 | Level::L4 => 0,
        };
        // An answer that needs no documents misses none.
        if attempt.level == Level::L1 && endpoint.documents > 0 && !self.plan.recall.is_empty() {
            attempt.kept *= recall(&self.plan.recall, attempt.docs);
        }
        self.spans.tell(|spans| spans.started(id, attempt));
        if takes_slot {
            attempt.holds_slot = true;
            self.executor.busy += 1;
            self.executor.measure.busy.set(now, u64::from(self.executor.busy));
        }
        self.take_thread(now, id, calendar);
        self.tasks.push_back(Task::Proceed(id));
    }

    /// An attempt goes on: through the gates of its next stage, into the stage, or to its end.
    pub(super) fn proceed(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        if self.attempts.get(id).is_none() {
            return;
        }
        let Some(stage) = self.stage_at(id) else {
            self.finish(now, id, End::Answered, calendar);
            return;
        };
        if let Some(site) = self.site_of(stage)
            && !self.pass_gates(now, id, site, calendar)
        {
            return;
        }
        self.enter_stage(now, id, stage, calendar);
    }

    /// Asks the governor at the gates in front of a call. False: the attempt does not enter the stage
    /// now, and all that follows has been arranged.
    fn pass_gates(&mut self, now: Time, id: AttemptId, call: Site, calendar: &mut Calendar<Event>) -> bool {
        for gate in [Site::AfterRetrieval, call] {
            let attempt = &self.attempts[id];
            let stands_here = self.plan.gated[gate as usize]
                && if gate == Site::AfterRetrieval {
                    attempt.retrieved && !attempt.passed_retrieval_gate
                } else {
                    attempt.at_gate.is_none()
                };
            if !stands_here {
                continue;
            }
            let view = CallView {
                ticket: id.ticket(),
                site: gate,
                endpoint: attempt.view.endpoint,
                class: attempt.view.class,
                tenant: attempt.view.tenant,
                level: attempt.level,
                size: if gate == Site::RerankCall { u32::from(attempt.docs) } else { self.prompt_tokens(id) },
            };
            let answer = self.governor.call(self.moment(now), &view, &self.signals);
            if !self.answered_at_gate(now, id, gate, answer, calendar) {
                return false;
            }
        }
        true
    }

    /// Acts on a gate's answer. True: the gate is passed.
    fn answered_at_gate(
        &mut self,
        now: Time,
        id: AttemptId,
        gate: Site,
        answer: Call,
        calendar: &mut Calendar<Event>,
    ) -> bool {
        let clock = self.moment(now);
        let attempt = &mut self.attempts[id];
        self.spans.tell(|spans| spans.called((now, clock), id, attempt, gate, answer, &mut self.governor));
        attempt.phase = Phase::Between;
        match answer {
            Call::Proceed => {
                attempt.pass(gate);
                return true;
            }
            Call::Wait { at_most_ns } => {
                attempt.phase = Phase::Held(gate);
                attempt.entered = now;
                attempt.timer = Some(calendar.after(Span::from_nanos(at_most_ns), Event::Timer(id)));
            }
            Call::Skip { keep, .. } => {
                attempt.docs = attempt.docs.min(keep);
                self.next_step(id);
                self.wake_held(now, calendar);
            }
            Call::Busy { why, retry_after_ns } => {
                self.tasks.push_back(Task::Finish(id, End::RejectedBy(why, retry_after_ns)));
                self.wake_held(now, calendar);
            }
        }
        false
    }

    /// The attempt has done with its present stage.
    pub(super) fn next_step(&mut self, id: AttemptId) {
        self.attempts[id].step += 1;
        self.tasks.push_back(Task::Proceed(id));
    }

    /// Lets calls go on that a gate has released since it was last asked.
    pub(super) fn wake_held(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        while let Some((ticket, site)) = self.governor.woken() {
            let id = AttemptId::of(ticket);
            let Some(attempt) = self.attempts.get_mut(id) else { continue };
            if attempt.phase != Phase::Held(site) {
                continue;
            }
            if let Some(timer) = attempt.timer.take() {
                calendar.cancel(timer);
            }
            attempt.waited += now.since(attempt.entered);
            self.spans.tell(|spans| spans.woken(now, id, attempt, site, &self.governor));
            attempt.phase = Phase::Between;
            attempt.pass(site);
            self.tasks.push_back(Task::Proceed(id));
        }
    }

    /// A wait at a gate is over, or a call has used up its stage's time.
    pub(super) fn timer(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.timer = None;
        match attempt.phase {
            Phase::Held(site) => {
                attempt.waited += now.since(attempt.entered);
                let answer = self.governor.waited(self.moment(now), id.ticket(), site);
                if self.answered_at_gate(now, id, site, answer, calendar) {
                    self.tasks.push_back(Task::Proceed(id));
                }
            }
            Phase::Waiting(stage) | Phase::Serving(stage)
                if matches!(self.stages[stage.index()], StageState::Providers(_)) =>
            {
                self.provider_timer(now, id, stage, calendar);
            }
            Phase::Waiting(stage) | Phase::Serving(stage) => {
                if self.site_of(stage) == Some(Site::LlmCall) {
                    self.meter.now.llm_timeouts += 1;
                }
                self.call_ended(now, id, false, true, calendar);
                if !self.goes_on_without_rerank(now, id, stage) {
                    self.end_at(now, id, stage, End::TimedOut);
                }
            }
            Phase::Ingress | Phase::Queued | Phase::Between | Phase::Backoff => {}
        }
    }

    /// A rerank call has used up its time: where the scenario says so, the attempt goes on with the first
    /// documents as the retrieval ordered them. A batch that has begun runs to its end without it.
    fn goes_on_without_rerank(&mut self, now: Time, id: AttemptId, stage: StageId) -> bool {
        let StageState::Reranker(reranker) = &self.stages[stage.index()] else { return false };
        if reranker.on_time_limit == OnTimeLimit::Fail {
            return false;
        }
        let attempt = &mut self.attempts[id];
        let (waits, docs, wait) =
            (attempt.phase == Phase::Waiting(stage), attempt.docs, now.since(attempt.entered));
        attempt.phase = Phase::Between;
        let kept = self.plan.endpoints[usize::from(attempt.view.endpoint)].documents_kept;
        attempt.docs = docs.min(kept);
        let counts = attempt.arrived >= self.plan.warm;
        if waits {
            attempt.waited += wait;
            self.leave_reranker(now, stage, docs);
            if counts {
                self.measure.stages[stage.index()].waited(wait);
            }
        }
        self.next_step(id);
        true
    }

    /// Tells the governor how a gated call ended, and wakes those that waited for its permit.
    pub(super) fn call_ended(
        &mut self,
        now: Time,
        id: AttemptId,
        ok: bool,
        timed_out: bool,
        calendar: &mut Calendar<Event>,
    ) {
        let attempt = &mut self.attempts[id];
        let Some(site) = attempt.at_gate.take() else { return };
        let latency_ns = now.since(attempt.entered).as_nanos();
        let used = ok && site == Site::LlmCall;
        let tokens =
            used.then(|| self.prompt_tokens(id).saturating_add(self.attempts[id].request.tokens_out));
        let end = CallEnd { ticket: id.ticket(), site, latency_ns, ok, timed_out, tokens };
        self.governor.ended(self.moment(now), &end);
        self.wake_held(now, calendar);
    }

    /// An attempt enters a stage: it is served, waits, or is turned away.
    fn enter_stage(&mut self, now: Time, id: AttemptId, stage: StageId, calendar: &mut Calendar<Event>) {
        let asks_model = self.site_of(stage) == Some(Site::LlmCall);
        let attempt = &mut self.attempts[id];
        attempt.entered = now;
        if self.host.as_ref().is_some_and(|host| host.is_down(stage)) {
            attempt.phase = Phase::Between;
            self.end_at(now, id, stage, End::Failed(Failure::NeighbourKilled));
            return;
        }
        attempt.phase = Phase::Waiting(stage);
        self.spans.tell(|spans| spans.moved(now, id, Place::Waiting(stage)));
        if attempt.arrived >= self.plan.warm {
            self.measure.stages[stage.index()].offered += 1;
        }
        if asks_model {
            // Of several model calls the last one speaks to the user: its first token counts.
            attempt.first_token = Time::MAX;
        }
        let limit = match &self.stages[stage.index()] {
            StageState::Server(s) => s.time_limit,
            StageState::Reranker(s) => s.time_limit,
            StageState::Slots(s) => s.time_limit,
            StageState::Batching(s) => s.time_limit,
            StageState::Providers(_) => None,
        };
        if let Some(limit) = limit {
            attempt.timer = Some(calendar.after(limit, Event::Timer(id)));
        }
        match &self.stages[stage.index()] {
            StageState::Server(_) => self.enter_server(now, id, stage, calendar),
            StageState::Reranker(_) => self.enter_reranker(now, id, stage, calendar),
            StageState::Slots(_) => self.enter_slots(now, id, stage, calendar),
            StageState::Batching(_) => self.enter_batching(now, id, stage, calendar),
            StageState::Providers(_) => self.enter_providers(now, id, stage, calendar),
        }
    }

    /// A stage has no room for the call.
    pub(super) fn turn_away(&mut self, now: Time, id: AttemptId, stage: StageId) {
        let attempt = &mut self.attempts[id];
        attempt.phase = Phase::Between;
        if attempt.arrived >= self.plan.warm {
            self.measure.stages[stage.index()].turned_away += 1;
        }
        self.end_at(now, id, stage, End::StageFull(stage.0));
    }

    /// The call's wait at a stage is over and its service begins.
    #[inline]
    pub(super) fn begin_service(&mut self, now: Time, id: AttemptId, stage: StageId) {
        let attempt = &mut self.attempts[id];
        let wait = now.since(attempt.entered);
        attempt.waited += wait;
        attempt.phase = Phase::Serving(stage);
        let by = &self.stages[stage.index()];
        self.spans.tell(|spans| spans.moved(now, id, Place::Serving(stage, by.replica(attempt))));
        attempt.served = true;
        attempt.started = now;
        if attempt.arrived >= self.plan.warm {
            self.measure.stages[stage.index()].waited(wait);
        }
    }

    /// A call has been served: the attempt goes on.
    #[inline]
    pub(super) fn served(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        self.account_call(id);
        let attempt = &mut self.attempts[id];
        attempt.done = None;
        attempt.phase = Phase::Between;
        if let Some(timer) = attempt.timer.take() {
            calendar.cancel(timer);
        }
        self.call_ended(now, id, true, false, calendar);
        self.next_step(id);
    }

    /// Tokens of the prompt: the question's own, and those of its documents.
    pub(super) fn prompt_tokens(&self, id: AttemptId) -> u32 {
        let attempt = &self.attempts[id];
        let endpoint = &self.plan.endpoints[usize::from(attempt.view.endpoint)];
        let of_documents = endpoint.tokens_per_document.saturating_mul(u32::from(attempt.docs));
        attempt.view.tokens_in.saturating_add(of_documents)
    }
}

/// Share of right answers that stay right with so many documents.
fn recall(points: &[(f64, f64)], documents: u16) -> f32 {
    let documents = f64::from(documents);
    let after = points.iter().position(|point| point.0 >= documents);
    let share = match after {
        None => points[points.len() - 1].1,
        Some(0) => points[0].1,
        Some(index) => {
            let ((from, low), (to, high)) = (points[index - 1], points[index]);
            low + (high - low) * (documents - from) / (to - from)
        }
    };
    share as f32
}
