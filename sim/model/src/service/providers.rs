//! External providers as a stage: an attempt asks the governor where its call goes, calls, and asks again
//! after a refusal, an error or a time-out, until an answer is there or the governor ends the walk.
//!
//! One that is told to wait keeps its place and asks again when its time is up, or when the governor has
//! news of a provider that can be asked again; those that wait longest ask first.

use super::{Event, Service, StageState, Task};
use crate::attempts::Phase;
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, StageId};
use crate::llm::providers::{Answer, ProviderCall, ProvidersStage};
use crate::outcome::End;
use crate::spans::Place;
use forebay_engine::{Calendar, Span, Time};
use forebay_policies::{ProviderEnd, Route};

/// An attempt's stay at a stage of providers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderVisit {
    /// The provider that it called last, and how many calls it has made.
    provider: u8,
    calls: u32,
    /// What becomes of its present call.
    answer: Option<Answer>,
    /// When the present call was made.
    called: Time,
    /// Its place among those that wait.
    place: Option<u64>,
    waits_since: Time,
    waited: Span,
}

/// Purpose of the draws of a call: apart for each provider and each call of an attempt.
fn provider_purpose(stage: StageId, provider: u8, call: u32) -> u32 {
    // 14 bits are a stage's, 6 a provider's, 11 a call's.
    purpose::PROVIDERS + u32::from(stage.0) + (u32::from(provider) << 14) + (call.min(2047) << 20)
}

impl Service {
    fn providers(&mut self, stage: StageId) -> &mut ProvidersStage {
        match &mut self.stages[stage.index()] {
            StageState::Providers(providers) => providers,
            _ => unreachable!("a call's phase names the stage that serves it"),
        }
    }

    fn visit(&mut self, id: AttemptId) -> &mut ProviderVisit {
        self.attempts[id].visit.as_mut().expect("an attempt at a stage of providers has a visit")
    }

    pub(super) fn enter_providers(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        self.attempts[id].visit = Some(Box::new(ProviderVisit {
            provider: 0,
            calls: 0,
            answer: None,
            called: now,
            place: None,
            waits_since: now,
            waited: Span::ZERO,
        }));
        self.route(now, id, stage, calendar);
    }

    /// Asks the governor where the call goes, and acts on its answer.
    fn route(&mut self, now: Time, id: AttemptId, stage: StageId, calendar: &mut Calendar<Event>) {
        let count = self.providers(stage).list.len() as u8;
        let route = self.governor.route(self.moment(now), id.ticket(), count);
        if let Some(timer) = self.attempts[id].timer.take() {
            calendar.cancel(timer);
        }
        match route {
            Route::Use { provider, .. } => {
                self.stop_waiting(now, id, stage);
                self.call_provider(now, id, stage, provider, calendar);
            }
            Route::Wait { at_most_ns } => {
                self.wait_for_provider(now, id, stage);
                let wait = Span::from_nanos(at_most_ns);
                self.attempts[id].timer = Some(calendar.after(wait, Event::Timer(id)));
            }
            Route::Fail { why, retry_after_ns } => {
                self.leave_providers(now, id, stage, calendar);
                self.tasks.push_back(Task::Finish(id, End::RejectedBy(why, retry_after_ns)));
            }
            Route::LastResort { why, retry_after_ns } => {
                self.leave_providers(now, id, stage, calendar);
                self.end_at(now, id, stage, End::RejectedBy(why, retry_after_ns));
            }
        }
    }

    fn call_provider(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        provider: u8,
        calendar: &mut Calendar<Event>,
    ) {
        let call = self.provider_call(id);
        let out = self.faults.provider_out(stage, usize::from(provider));
        let slowness = self.faults.latency_factor(stage);
        let visit = self.visit(id);
        visit.provider = provider;
        visit.calls += 1;
        visit.called = now;
        let calls = visit.calls;
        let attempt = &mut self.attempts[id];
        attempt.phase = Phase::Serving(stage);
        attempt.served = true;
        attempt.started = now;
        let draw = &mut attempt.luck.draw(provider_purpose(stage, provider, calls));
        let counts = attempt.request.born >= self.plan.warm;
        let providers = self.providers(stage);
        let asked = &mut providers.list[usize::from(provider)];
        asked.counts.calls += u64::from(counts);
        let mut answer = asked.call(now, &call, out, draw);
        let limit = asked.time_limit;
        let ends_in = match &mut answer {
            Answer::Comes { first_s, total_s } => {
                *first_s *= slowness;
                *total_s *= slowness;
                Span::from_secs_f64(*total_s)
            }
            Answer::Refused { .. } | Answer::Breaks => asked.error_after,
        };
        let busy = providers.busy();
        self.spans.tell(|spans| spans.moved(now, id, Place::Serving(stage, Some(u32::from(provider)))));
        self.measure.stages[stage.index()].busy.set(now, busy);
        self.visit(id).answer = Some(answer);
        let attempt = &mut self.attempts[id];
        if let Answer::Comes { first_s, .. } = answer {
            attempt.first_token = now + Span::from_secs_f64(first_s);
        }
        attempt.done = Some(calendar.after(ends_in, Event::Done(id)));
        attempt.timer = limit.map(|limit| calendar.after(limit, Event::Timer(id)));
    }

    fn provider_call(&self, id: AttemptId) -> ProviderCall {
        let attempt = &self.attempts[id];
        ProviderCall {
            prompt: self.prompt_tokens(id),
            answer: attempt.request.tokens_out,
            bound: attempt.view.tokens_out_estimate,
        }
    }

    /// A provider has answered, refused, or failed.
    pub(super) fn provider_done(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        let end = match self.visit(id).answer {
            Some(Answer::Comes { .. }) => ProviderEnd::Ok,
            Some(Answer::Refused { retry_after }) => {
                ProviderEnd::RateLimited { retry_after_ns: retry_after.map(Span::as_nanos) }
            }
            Some(Answer::Breaks) | None => ProviderEnd::Failed,
        };
        self.end_call(now, id, stage, end, calendar);
        if end != ProviderEnd::Ok {
            self.route(now, id, stage, calendar);
            return;
        }
        let provider = self.visit(id).provider;
        let quality = self.providers(stage).list[usize::from(provider)].quality;
        self.attempts[id].kept *= quality;
        self.end_visit(id, stage);
        self.served(now, id, calendar);
    }

    /// A wait for a provider is over, or a call has used up its time.
    pub(super) fn provider_timer(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        if self.attempts[id].phase == Phase::Serving(stage) {
            self.meter.now.llm_timeouts += 1;
            self.end_call(now, id, stage, ProviderEnd::TimedOut, calendar);
        }
        self.route(now, id, stage, calendar);
    }

    /// The present call is over: the provider's place is free, the call is billed, the governor hears of it.
    fn end_call(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        end: ProviderEnd,
        calendar: &mut Calendar<Event>,
    ) {
        let call = self.provider_call(id);
        let attempt = &mut self.attempts[id];
        for handle in [attempt.done.take(), attempt.timer.take()].into_iter().flatten() {
            calendar.cancel(handle);
        }
        let what = match end {
            ProviderEnd::Ok | ProviderEnd::Gone => None,
            ProviderEnd::RateLimited { .. } => Some("refused by the provider"),
            ProviderEnd::Failed => Some("failed at the provider"),
            ProviderEnd::TimedOut => Some("too slow at the provider"),
        };
        if let Some(what) = what {
            self.spans.tell(|spans| spans.noted(now.as_nanos(), id, what));
        }
        if end != ProviderEnd::Ok {
            attempt.first_token = Time::MAX;
        }
        let counts = attempt.request.born >= self.plan.warm;
        let visit = self.visit(id);
        let (provider, took) = (visit.provider, now.since(visit.called));
        let answer = visit.answer.take();
        let providers = self.providers(stage);
        let asked = &mut providers.list[usize::from(provider)];
        let mut cost = 0.0;
        if let Some(Answer::Comes { first_s, total_s }) = answer {
            let tokens_out = tokens_by(took.as_secs_f64(), first_s, total_s, call.answer);
            asked.leave(now, &call, tokens_out);
            if tokens_out > 0.0 {
                cost = asked.price_in * f64::from(call.prompt) + asked.price_out * tokens_out;
            }
        }
        if counts {
            let tally = &mut asked.counts;
            tally.cost += cost;
            match end {
                ProviderEnd::Ok => tally.answered += 1,
                ProviderEnd::RateLimited { .. } => tally.refused += 1,
                ProviderEnd::Failed => tally.failed += 1,
                ProviderEnd::TimedOut => tally.timed_out += 1,
                ProviderEnd::Gone => {}
            }
        }
        let busy = self.providers(stage).busy();
        self.measure.stages[stage.index()].busy.set(now, busy);
        let news =
            self.governor.provider_ended(self.moment(now), id.ticket(), provider, end, took.as_nanos());
        if news {
            // An attempt that leaves for good asks no more.
            let asks_again = end != ProviderEnd::Gone && end != ProviderEnd::Ok;
            self.wake_waiting(now, stage, asks_again.then_some(id), calendar);
        }
    }

    /// A provider can be asked again: those that wait ask.
    fn wake_waiting(
        &mut self,
        now: Time,
        stage: StageId,
        but: Option<AttemptId>,
        calendar: &mut Calendar<Event>,
    ) {
        let waiting: Vec<_> = self.providers(stage).waiting.values().copied().collect();
        for id in waiting {
            let waits = self.attempts.get(id).is_some_and(|attempt| attempt.phase == Phase::Waiting(stage));
            if waits && but != Some(id) {
                self.route(now, id, stage, calendar);
            }
        }
    }

    fn wait_for_provider(&mut self, now: Time, id: AttemptId, stage: StageId) {
        self.attempts[id].phase = Phase::Waiting(stage);
        let providers = self.providers(stage);
        let next = providers.next_place;
        let visit = self.visit(id);
        if visit.place.is_some() {
            return;
        }
        self.spans.tell(|spans| spans.moved(now, id, Place::Waiting(stage)));
        let visit = self.visit(id);
        visit.place = Some(next);
        visit.waits_since = now;
        let providers = self.providers(stage);
        providers.next_place += 1;
        providers.waiting.insert(next, id);
        let waiting = providers.waiting.len() as u64;
        self.measure.stages[stage.index()].queue.set(now, waiting);
    }

    fn stop_waiting(&mut self, now: Time, id: AttemptId, stage: StageId) {
        let visit = self.visit(id);
        let Some(place) = visit.place.take() else { return };
        let wait = now.since(visit.waits_since);
        visit.waited += wait;
        self.attempts[id].waited += wait;
        let providers = self.providers(stage);
        providers.waiting.remove(&place);
        let waiting = providers.waiting.len() as u64;
        self.measure.stages[stage.index()].queue.set(now, waiting);
    }

    /// An attempt has done with the stage.
    fn end_visit(&mut self, id: AttemptId, stage: StageId) {
        let attempt = &mut self.attempts[id];
        let counts = attempt.arrived >= self.plan.warm;
        if let Some(visit) = attempt.visit.take()
            && counts
        {
            self.measure.stages[stage.index()].waited(visit.waited);
        }
    }

    /// An attempt leaves the stage without an answer, from wherever it is in it.
    pub(super) fn leave_providers(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        calendar: &mut Calendar<Event>,
    ) {
        if self.attempts[id].phase == Phase::Serving(stage) && self.visit(id).answer.is_some() {
            self.end_call(now, id, stage, ProviderEnd::Gone, calendar);
        }
        self.stop_waiting(now, id, stage);
        self.end_visit(id, stage);
        self.call_ended(now, id, false, false, calendar);
        self.attempts[id].phase = Phase::Between;
    }
}

/// Tokens of an answer that have come after so many seconds.
fn tokens_by(seconds: f64, first_s: f64, total_s: f64, tokens_out: u32) -> f64 {
    // Event times are whole nanoseconds.
    if seconds + 1e-9 >= total_s {
        return f64::from(tokens_out);
    }
    if seconds < first_s {
        return 0.0;
    }
    let further = f64::from(tokens_out.saturating_sub(1));
    1.0 + (further * (seconds - first_s) / (total_s - first_s)).floor()
}
