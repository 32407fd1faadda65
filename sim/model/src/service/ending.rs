//! Ends: what an attempt gives back, whether its request is tried again, and what is recorded.

use super::{Event, Service};
use crate::attempts::{Attempt, Phase, Question, Request};
use crate::clients::birth::purpose;
use crate::ids::AttemptId;
use crate::measure::Ended;
use crate::outcome::End;
use crate::service::StageState;
use forebay_engine::{Calendar, Span, Time};
use forebay_policies::{self as policies, Level, Outcome, RequestView};

/// The last of a request: what is recorded of it.
pub(super) struct Last {
    pub(super) request: Request,
    pub(super) view: RequestView,
    pub(super) level: Level,
    pub(super) end: End,
    /// Of an answer: what is known of it besides its end.
    pub(super) answer: Option<Answer>,
}

#[derive(Clone, Copy)]
pub(super) struct Answer {
    first_token: Time,
    waited: Span,
    /// It should have been reranked, and was not.
    rerank_skipped: bool,
    /// Share of the level's right answers that stayed right on this one's way.
    kept: f32,
    /// It came from a cache: whether rightly.
    cached: Option<bool>,
}

impl Service {
    /// A call ends at a server or slot.
    #[inline]
    pub(super) fn done(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        let Phase::Serving(stage) = attempt.phase else { return };
        attempt.done = None;
        match self.stages[stage.index()] {
            StageState::Server(_) => self.server_done(now, id, stage, calendar),
            StageState::Slots(_) => self.slot_done(now, id, stage, calendar),
            StageState::Providers(_) => self.provider_done(now, id, stage, calendar),
            StageState::Reranker(_) | StageState::Batching(_) => {}
        }
    }

    /// An attempt has used up its time.
    pub(super) fn deadline(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.deadline = None;
        self.tasks.push_back(super::Task::Finish(id, End::TimedOut));
    }

    /// An attempt ends: it gives back what it holds; its request is tried again, or ends with it.
    pub(super) fn finish(&mut self, now: Time, id: AttemptId, end: End, calendar: &mut Calendar<Event>) {
        if self.attempts.get(id).is_none() {
            return;
        }
        self.detach(now, id, calendar);
        let attempt = &mut self.attempts[id];
        for handle in
            [attempt.done.take(), attempt.timer.take(), attempt.patience.take(), attempt.deadline.take()]
                .into_iter()
                .flatten()
        {
            calendar.cancel(handle);
        }
        if end == End::Answered {
            self.remember(now, id);
        }
        let answer = (end == End::Answered).then(|| self.answer(id, now));
        let attempt = &self.attempts[id];
        let (level, orphan) = (attempt.level, attempt.orphan);
        let last = Last { request: attempt.request, view: attempt.view, level, end, answer };
        self.spans.tell(|spans| spans.ended(now, id, end, level));
        if attempt.holds_slot {
            self.executor.busy -= 1;
            self.executor.measure.busy.set(now, u64::from(self.executor.busy));
            self.pump = true;
        }
        if self.attempts[id].has_thread
            && let Some(host) = &mut self.host
        {
            host.threads -= 1;
        }
        let known = self.as_the_gateway_knows(now, id, end);
        self.governor.left(self.moment(now), id.ticket(), &known);
        let moment = self.moment(now);
        if let Some(shadow) = &mut self.shadow {
            shadow.over(moment, id.ticket(), &known);
        }
        self.attempts.remove(id);
        self.wake_held(now, calendar);
        if orphan {
            return;
        }
        let again = match end {
            End::Answered => None,
            End::Abandoned => self.ask_again(now, &last, calendar),
            _ => self.retry(now, &last, calendar),
        };
        if again.is_none() {
            self.record(now, &last, calendar);
        }
    }

    /// The end of an attempt as the gateway knows it: with the tokens that the model counted.
    fn as_the_gateway_knows(&self, now: Time, id: AttemptId, end: End) -> policies::End {
        let attempt = &self.attempts[id];
        let outcome = match end {
            End::Answered => Outcome::Answered,
            End::RejectedBy(..) | End::StageFull(_) => Outcome::Refused,
            End::TimedOut => Outcome::TimedOut,
            End::Abandoned => Outcome::Gone,
            End::Failed(_) => Outcome::Failed,
        };
        let by_model = outcome == Outcome::Answered
            && attempt.cached.is_none()
            && matches!(attempt.level, Level::L1 | Level::L2);
        let tokens = by_model.then(|| self.prompt_tokens(id).saturating_add(attempt.request.tokens_out));
        policies::End { outcome, tokens, latency_ns: now.since(attempt.arrived).as_nanos() }
    }

    fn answer(&self, id: AttemptId, now: Time) -> Answer {
        let attempt = &self.attempts[id];
        Answer {
            first_token: attempt.first_token.min(now),
            waited: attempt.waited,
            kept: attempt.kept,
            cached: attempt.cached,
            rerank_skipped: self.rerank_was_skipped(attempt),
        }
    }

    /// It should have been reranked, and was not.
    pub(super) fn rerank_was_skipped(&self, attempt: &Attempt) -> bool {
        let endpoint = &self.plan.endpoints[usize::from(attempt.view.endpoint)];
        attempt.level == Level::L1 && !attempt.reranked && attempt.cached.is_none() && endpoint.reranks
    }

    /// Takes an attempt out of wherever it is.
    fn detach(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        match self.attempts[id].phase {
            Phase::Ingress | Phase::Between | Phase::Backoff | Phase::Held(_) => {}
            Phase::Queued => {
                self.governor.left(self.moment(now), id.ticket(), &policies::End::GONE);
                self.left_queue(now, id);
            }
            Phase::Waiting(stage) | Phase::Serving(stage)
                if matches!(self.stages[stage.index()], StageState::Providers(_)) =>
            {
                self.leave_providers(now, id, stage, calendar);
            }
            Phase::Waiting(stage) => {
                let attempt = &self.attempts[id];
                let (wait, docs) = (now.since(attempt.entered), attempt.docs);
                let counts = attempt.arrived >= self.plan.warm;
                // It may be answered yet, from the cache as the last resort.
                self.attempts[id].waited += wait;
                self.attempts[id].phase = Phase::Between;
                let measure = &mut self.measure.stages[stage.index()];
                if counts {
                    measure.waited(wait);
                }
                match &mut self.stages[stage.index()] {
                    StageState::Server(server) => {
                        server.line.leave();
                        measure.queue.set(now, u64::from(server.line.len()));
                    }
                    StageState::Slots(slots) => {
                        slots.line.leave();
                        measure.queue.set(now, u64::from(slots.line.len()));
                    }
                    StageState::Reranker(_) => self.leave_reranker(now, stage, docs),
                    StageState::Batching(_) => self.abort_batching(now, id, stage, calendar),
                    StageState::Providers(_) => {}
                }
                self.call_ended(now, id, false, false, calendar);
            }
            Phase::Serving(stage) => {
                match self.stages[stage.index()] {
                    StageState::Server(_) => {
                        if let Some(done) = self.attempts[id].done.take() {
                            calendar.cancel(done);
                        }
                        self.free_server(now, stage, calendar);
                    }
                    StageState::Slots(_) => {
                        self.end_slot(now, id, stage, false, calendar);
                        self.fill_slots(now, stage, calendar);
                    }
                    // A batch that has begun runs to its end.
                    StageState::Reranker(_) | StageState::Providers(_) => {}
                    StageState::Batching(_) => self.abort_batching(now, id, stage, calendar),
                }
                self.call_ended(now, id, false, false, calendar);
                self.attempts[id].phase = Phase::Between;
            }
        }
    }

    /// A request has its end.
    pub(super) fn record(&mut self, now: Time, last: &Last, calendar: &mut Calendar<Event>) {
        let Last { request, view, level, end, answer } = last;
        let latency = now.since(request.born);
        self.present -= 1;
        let measure = &mut self.measure;
        measure.in_system.set(now, self.present);
        measure.sojourn_ns += u128::from(latency.as_nanos());
        let cached = answer.and_then(|answer| answer.cached);
        measure.tally.count(*end, *level, cached.is_some());
        measure.digest.fold_end(request.index, *end, *level, cached.is_some(), now.as_nanos());
        let answered = *end == End::Answered;
        let (first_token, waited, skipped) =
            answer.map_or((now, Span::ZERO, false), |a| (a.first_token, a.waited, a.rerank_skipped));
        let kept = answer.map_or(1.0, |a| a.kept);
        let ended = Ended {
            end: *end,
            level: *level,
            cached: cached.is_some(),
            right: answered && cached.unwrap_or_else(|| self.is_right(request, *level, skipped, kept)),
            in_time: self.plan.in_time.is_none_or(|limit| latency <= limit),
            counts: self.counts(request.born),
            in_window: self.in_window(now),
            latency,
            ttft: first_token.since(request.born),
            waited,
        };
        let csat = self.accounts.ended(now, request, view, &ended);
        if self.plan.samples {
            self.meter.ended(&ended, self.plan.reads, csat);
        }
        self.timeline.record(&ended);
        let seen = answer.map(|answer| answer.first_token);
        self.spans.tell(|spans| spans.recorded(now, request.index, &ended, seen));
        self.log.ended(now, request, view, &ended, seen);
        if ended.counts && ended.answered_at() == Some(Level::L1) {
            let reranks = self.plan.endpoints[usize::from(view.endpoint)].reranks;
            self.measure.rerank_wanted += u64::from(reranks);
            self.measure.rerank_skipped += u64::from(skipped);
        }
        if ended.counts || ended.in_window {
            self.record_in_groups(now, request, view, &ended, first_token);
        }
        if let Some(asker) = request.asker {
            self.think(now, request.source, asker, calendar);
        }
    }

    fn record_in_groups(
        &mut self,
        now: Time,
        request: &Request,
        view: &RequestView,
        ended: &Ended,
        first_token: Time,
    ) {
        let measure = &mut self.measure;
        measure.total.record(ended);
        let by = &mut measure.by;
        for (groups, key) in [
            (&mut by.class, usize::from(request.class)),
            (&mut by.tier, usize::from(view.tier)),
            (&mut by.endpoint, usize::from(view.endpoint)),
            (&mut by.tenant, view.tenant as usize),
        ] {
            if let Some(group) = groups.get_mut(key) {
                group.record(ended);
            }
        }
        if ended.end != End::Answered {
            return;
        }
        let level = ended.answered_at();
        if let Some(group) = level.and_then(|level| by.level.get_mut(level.index())) {
            group.record(ended);
        }
        if !ended.counts {
            return;
        }
        measure.latency_s.add(ended.latency.as_secs_f64());
        if matches!(level, Some(Level::L1 | Level::L2)) {
            measure.tokens_in += u64::from(view.tokens_in);
            measure.tokens_out += u64::from(request.tokens_out);
            if request.tokens_out > 1 && first_token < now {
                let tail = now.since(first_token).as_secs_f64();
                measure.tpot_s.add(tail / f64::from(request.tokens_out - 1));
            }
        }
    }

    /// Whether an answer at this level is right: the request's luck against the level's quality.
    pub(super) fn is_right(&self, request: &Request, level: Level, rerank_skipped: bool, kept: f32) -> bool {
        let quality = &self.plan.quality[level.index()];
        let mut share = match request.question {
            Question::Faq => quality.faq,
            Question::Generative => quality.generative,
            Question::New => quality.new,
        };
        if rerank_skipped {
            share *= self.plan.kept_without_rerank;
        }
        if kept < 1.0 {
            share *= f64::from(kept);
        }
        share >= 1.0 || request.chance.uniform(purpose::RIGHT) < share
    }
}
