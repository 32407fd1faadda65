//! The recorder: is told where attempts go and what is decided about them, and keeps it for the requests
//! that are followed.
//!
//! An attempt is always in exactly one place. Moving on closes the span of the place it leaves at the
//! instant at which the next begins, so there are no gaps by construction, and a new kind of stage is
//! followed without a line here.

use super::stride::Stride;
use super::{
    Answer, Asked, AttemptSpans, Decision, How, Names, Note, Outcome, PlaceKind, PlaceSpan, RequestSpans,
};
use crate::attempts::{Attempt, Request};
use crate::ids::{AttemptId, StageId};
use crate::measure::Ended;
use crate::outcome::End;
use forebay_engine::{Span, Time};
use forebay_policies::{Arrival, Call, Governor, Level, Moment, Next, Reason, RequestView, Site};
use std::collections::BTreeMap;

/// What a service holds: a recorder, if it was asked for one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans(Option<Box<Recorder>>);

impl Spans {
    /// Begins to record.
    pub(crate) fn begin(&mut self, recorder: Recorder) {
        self.0 = Some(Box::new(recorder));
    }

    /// Tells the recorder; nothing but one branch where there is none.
    #[inline]
    pub(crate) fn tell(&mut self, what: impl FnOnce(&mut Recorder)) {
        if let Some(recorder) = &mut self.0 {
            what(recorder);
        }
    }

    /// What was recorded until now, which is the end.
    pub(crate) fn take(&mut self, now: Time) -> Vec<RequestSpans> {
        self.0.take().map(|recorder| recorder.finish(now)).unwrap_or_default()
    }
}

/// Where an attempt is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// The client pauses until this instant; then it is on the way to the gateway.
    Way(Time),
    /// In this queue of the governor.
    Queue(u8),
    /// Held at a gate by a module.
    Gate(Site, Option<String>),
    /// In the stage's own queue.
    Waiting(StageId),
    /// Served at the stage, by one of its replicas.
    Serving(StageId, Option<u32>),
    /// Between two places, within one instant.
    Between,
}

/// An attempt that is followed.
#[derive(Clone, Debug)]
struct Followed {
    request: u64,
    /// Its index among the attempts of its request.
    index: usize,
    place: Place,
    since: Time,
}

/// Records the spans of some of a run's requests.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    names: Names,
    warm: Time,
    stride: Stride,
    requests: BTreeMap<u64, RequestSpans>,
    /// Attempts in flight, by [`AttemptId::key`].
    attempts: BTreeMap<u64, Followed>,
}

impl Recorder {
    /// Follows so many requests; those born from `warm` on count in the metrics.
    pub(crate) fn new(names: Names, warm: Time, requests: u32) -> Self {
        let stride = Stride::new(requests);
        Self { names, warm, stride, requests: BTreeMap::new(), attempts: BTreeMap::new() }
    }

    /// A request is born.
    #[cold]
    pub(crate) fn born(&mut self, request: &Request, view: &RequestView) {
        if !self.stride.takes(request.index) {
            return;
        }
        let name = |names: &[String], index: usize| names.get(index).cloned();
        let names = &self.names;
        let born_ns = request.born.as_nanos();
        let spans = RequestSpans {
            request: request.index,
            born_ns,
            end_ns: born_ns,
            outcome: in_flight(),
            first_token_ns: None,
            right: None,
            in_time: None,
            in_warm_up: request.born < self.warm,
            class: name(&names.classes, usize::from(request.class)).unwrap_or_default(),
            business_class: view.class,
            tier: name(&names.tiers, usize::from(view.tier)),
            endpoint: name(&names.endpoints, usize::from(view.endpoint)).unwrap_or_default(),
            tenant: view.tenant,
            user: view.user,
            tokens_in: view.tokens_in,
            tokens_out: request.tokens_out,
            attempts: Vec::new(),
        };
        self.requests.insert(request.index, spans);
        if self.stride.thin(&mut self.requests) {
            let requests = &self.requests;
            self.attempts.retain(|_, attempt| requests.contains_key(&attempt.request));
        }
    }

    /// An attempt is sent, after a pause of the client.
    #[cold]
    pub(crate) fn sent(&mut self, now: Time, id: AttemptId, request: u64, pause: Span) {
        let Some(spans) = self.requests.get_mut(&request) else { return };
        let index = spans.attempts.len();
        spans.attempts.push(AttemptSpans {
            attempt: index as u32 + 1,
            sent_ns: now.as_nanos(),
            end_ns: now.as_nanos(),
            outcome: in_flight(),
            level: None,
            left_ns: None,
            spans: Vec::new(),
            decisions: Vec::new(),
            notes: Vec::new(),
        });
        let followed = Followed { request, index, place: Place::Way(now + pause), since: now };
        self.attempts.insert(id.key(), followed);
    }

    /// The attempt goes to another place.
    #[cold]
    pub(crate) fn moved(&mut self, now: Time, id: AttemptId, to: Place) {
        let Some(followed) = self.attempts.get_mut(&id.key()) else { return };
        let from = std::mem::replace(&mut followed.place, to);
        let since = std::mem::replace(&mut followed.since, now);
        let (request, index) = (followed.request, followed.index);
        let Some(attempt) = self.requests.get_mut(&request).and_then(|r| r.attempts.get_mut(index)) else {
            return;
        };
        push(&mut attempt.spans, &self.names, from, since, now);
    }

    /// The governor has answered an arriving attempt.
    #[cold]
    pub(crate) fn arrived(&mut self, now: Time, id: AttemptId, answer: Arrival, governor: &Governor) {
        if !self.follows(id) {
            return;
        }
        let place = if let Arrival::Queue { class } = answer { Place::Queue(class) } else { Place::Between };
        self.moved(now, id, place);
        let of = |answer, reason| Decision::new(now, Asked::Arrival, answer, reason);
        let decision = match answer {
            Arrival::Admit => Decision { level: Some(Level::L1), ..of(Answer::Serve, Reason::Normal) },
            Arrival::Degrade { level, why } => Decision { level: Some(level), ..of(Answer::Serve, why) },
            Arrival::Queue { class } => {
                Decision { queue: Some(self.names.queue(class)), ..of(Answer::Queue, Reason::Normal) }
            }
            Arrival::Reject { why, retry_after_ns } => Decision { retry_after_ns, ..of(Answer::Reject, why) },
        };
        self.decided(id, decision.explained(governor));
    }

    /// The governor has named a queued attempt whose turn it is, or that has waited too long.
    #[cold]
    pub(crate) fn turn(&mut self, now: Time, next: Next, governor: &Governor) {
        let of = |answer, reason| Decision::new(now, Asked::Turn, answer, reason);
        let (ticket, decision) = match next {
            Next::Serve(dispatch) => {
                let level = Some(dispatch.level);
                (dispatch.ticket, Decision { level, ..of(Answer::Serve, dispatch.why) })
            }
            Next::Drop { ticket, why } => (ticket, of(Answer::Reject, why)),
            Next::Idle => return,
        };
        let id = AttemptId::of(ticket);
        if !self.follows(id) {
            return;
        }
        self.moved(now, id, Place::Between);
        self.decided(id, decision.explained(governor));
    }

    /// The attempt begins to be served: its level and its documents are settled.
    #[cold]
    pub(crate) fn started(&mut self, id: AttemptId, attempt: &Attempt) {
        let tokens = self.tokens(attempt, attempt.docs);
        let Some(spans) = self.spans(id) else { return };
        spans.level = Some(attempt.level);
        if let Some(decision) = spans.decisions.last_mut() {
            (decision.documents, decision.tokens) = (Some(attempt.docs), Some(tokens));
        }
    }

    /// The governor, by whose clock it is `clock`, has answered a call.
    #[cold]
    pub(crate) fn called(
        &mut self,
        (now, clock): (Time, Moment),
        id: AttemptId,
        attempt: &Attempt,
        site: Site,
        answer: Call,
        governor: &mut Governor,
    ) {
        if !self.follows(id) {
            return;
        }
        self.moved(now, id, Place::Between);
        let of = |answer, reason| Decision::new(now, Asked::at(site), answer, reason);
        let mut documents = attempt.docs;
        let decision = match answer {
            Call::Proceed => of(Answer::Proceed, Reason::Normal).explained(governor),
            Call::Wait { at_most_ns } => {
                let explanation = governor.explain_wait(clock, id.ticket());
                let reason = explanation.as_ref().map_or(Reason::GateFull, |found| found.reason);
                let module = explanation.as_ref().map(|found| found.module.clone());
                self.moved(now, id, Place::Gate(site, module));
                let wait_at_most_ns = Some(at_most_ns);
                Decision { explanation, wait_at_most_ns, ..of(Answer::Wait, reason) }
            }
            Call::Skip { why, keep } => {
                documents = documents.min(keep);
                of(Answer::Skip, why).explained(governor)
            }
            Call::Busy { why, retry_after_ns } => {
                Decision { retry_after_ns, ..of(Answer::Busy, why) }.explained(governor)
            }
        };
        let tokens = Some(self.tokens(attempt, documents));
        let (level, documents) = (Some(attempt.level), Some(documents));
        self.decided(id, Decision { level, documents, tokens, ..decision });
    }

    /// A held call was given its permit.
    #[cold]
    pub(crate) fn woken(
        &mut self,
        now: Time,
        id: AttemptId,
        attempt: &Attempt,
        site: Site,
        governor: &Governor,
    ) {
        if !self.follows(id) {
            return;
        }
        self.moved(now, id, Place::Between);
        let (level, documents) = (Some(attempt.level), Some(attempt.docs));
        let tokens = Some(self.tokens(attempt, attempt.docs));
        let decision = Decision::new(now, Asked::at(site), Answer::Proceed, Reason::Normal);
        self.decided(id, Decision { level, documents, tokens, ..decision.explained(governor) });
    }

    /// Something else happened to the attempt.
    #[cold]
    pub(crate) fn noted(&mut self, at_ns: u64, id: AttemptId, what: &str) {
        let Some(spans) = self.spans(id) else { return };
        spans.notes.push(Note { at_ns, what: what.to_owned() });
    }

    /// The person has gone, and the attempt goes on for nobody.
    #[cold]
    pub(crate) fn left(&mut self, now: Time, id: AttemptId) {
        if let Some(spans) = self.spans(id) {
            spans.left_ns = Some(now.as_nanos());
        }
    }

    /// The attempt is over.
    #[cold]
    pub(crate) fn ended(&mut self, now: Time, id: AttemptId, end: End, level: Level) {
        self.moved(now, id, Place::Between);
        let outcome = self.names.outcome(end, level);
        if let Some(spans) = self.spans(id) {
            spans.end_ns = now.as_nanos();
            spans.outcome = outcome;
        }
        self.attempts.remove(&id.key());
    }

    /// The request has its end.
    #[cold]
    pub(crate) fn recorded(&mut self, now: Time, request: u64, ended: &Ended, first_token: Option<Time>) {
        let Some(spans) = self.requests.get_mut(&request) else { return };
        spans.end_ns = now.as_nanos();
        spans.outcome = self.names.outcome(ended.end, ended.level);
        let answered = ended.end == End::Answered;
        spans.first_token_ns = first_token.map(Time::as_nanos);
        (spans.right, spans.in_time) = (answered.then_some(ended.right), answered.then_some(ended.in_time));
    }

    /// The run is over: what is in flight ends here.
    fn finish(mut self, now: Time) -> Vec<RequestSpans> {
        for (key, Followed { request, index, .. }) in self.attempts.clone() {
            self.moved(now, AttemptId::from_key(key), Place::Between);
            if let Some(spans) = self.requests.get_mut(&request).and_then(|r| r.attempts.get_mut(index)) {
                spans.end_ns = now.as_nanos();
            }
        }
        for spans in self.requests.values_mut().filter(|spans| spans.outcome.how == How::InFlight) {
            spans.end_ns = now.as_nanos();
        }
        self.stride.choose(self.requests)
    }

    fn follows(&self, id: AttemptId) -> bool {
        self.attempts.contains_key(&id.key())
    }

    fn spans(&mut self, id: AttemptId) -> Option<&mut AttemptSpans> {
        let Followed { request, index, .. } = *self.attempts.get(&id.key())?;
        self.requests.get_mut(&request)?.attempts.get_mut(index)
    }

    fn decided(&mut self, id: AttemptId, decision: Decision) {
        if let Some(spans) = self.spans(id) {
            spans.decisions.push(decision);
        }
    }

    /// Tokens of the prompt with so many documents.
    fn tokens(&self, attempt: &Attempt, documents: u16) -> u32 {
        let per_document = self.names.tokens_per_document.get(usize::from(attempt.view.endpoint));
        let of_documents = per_document.copied().unwrap_or(0).saturating_mul(u32::from(documents));
        attempt.view.tokens_in.saturating_add(of_documents)
    }
}

impl Decision {
    fn new(now: Time, asked: Asked, answer: Answer, reason: Reason) -> Self {
        Self {
            at_ns: now.as_nanos(),
            asked,
            answer,
            reason,
            explanation: None,
            level: None,
            documents: None,
            tokens: None,
            queue: None,
            wait_at_most_ns: None,
            retry_after_ns: None,
        }
    }

    /// With the newest comparison behind its reason: to be asked at once.
    fn explained(self, governor: &Governor) -> Self {
        Self { explanation: governor.explain(self.reason), ..self }
    }
}

fn in_flight() -> Outcome {
    Outcome { how: How::InFlight, level: None, why: None }
}

/// Closes the span of a place.
fn push(spans: &mut Vec<PlaceSpan>, names: &Names, place: Place, from: Time, to: Time) {
    let of = |kind, place, from: Time, to: Time| {
        let (from_ns, to_ns) = (from.as_nanos(), to.as_nanos());
        PlaceSpan { kind, place, module: None, replica: None, from_ns, to_ns }
    };
    let mut keep = |span: PlaceSpan| {
        // What took no time would only clutter the picture; that a stage was there is worth knowing.
        if span.length_ns() > 0 || span.kind == PlaceKind::Serving {
            spans.push(span);
        }
    };
    match place {
        Place::Way(leaves) => {
            let leaves = leaves.min(to);
            keep(of(PlaceKind::Backoff, String::new(), from, leaves));
            keep(of(PlaceKind::Ingress, String::new(), leaves, to));
        }
        Place::Queue(index) => keep(of(PlaceKind::Queue, names.queue(index), from, to)),
        Place::Gate(site, module) => {
            let site = Asked::at(site).code().to_owned();
            keep(PlaceSpan { module, ..of(PlaceKind::Gate, site, from, to) });
        }
        Place::Waiting(stage) => keep(of(PlaceKind::Waiting, names.stage(stage), from, to)),
        Place::Serving(stage, replica) => {
            keep(PlaceSpan { replica, ..of(PlaceKind::Serving, names.stage(stage), from, to) });
        }
        Place::Between => debug_assert_eq!(from, to, "an attempt was nowhere for a while"),
    }
}
