//! Clients in the running service: births, people who lose patience and ask again, and retries by
//! client code.

use super::ending::Last;
use super::{Event, Service, Task};
use crate::attempts::{Phase, Request};
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, SourceId};
use crate::outcome::End;
use crate::scenario::PatienceUntil;
use forebay_engine::{Calendar, Chance, Span, Stream, Time};
use forebay_policies::RequestView;
use std::sync::Arc;

/// Closed-loop users have streams of their own, apart from those of the open sources.
const USER_PURPOSE: &str = "closed-loop user";

impl Service {
    /// The next request of an open source is born.
    pub(super) fn arrive(&mut self, now: Time, source: SourceId, calendar: &mut Calendar<Event>) {
        let index = usize::from(source.0);
        let due = self.due[index];
        let chance = self.luck[index].chance();
        let row = due.and_then(|due| due.row);
        self.due[index] = self.sources[index].next(now);
        if let Some(next) = self.due[index] {
            calendar.schedule(next.at, Event::Arrive(source.0));
        }
        self.bear(now, source, chance, row, None, calendar);
    }

    /// A closed-loop user asks.
    pub(super) fn ask(
        &mut self,
        now: Time,
        source: SourceId,
        user: u32,
        count: u32,
        calendar: &mut Calendar<Event>,
    ) {
        if now >= self.plan.end {
            return;
        }
        let chance = self.user_chance(source, user, count);
        self.bear(now, source, chance, None, Some((user, count)), calendar);
    }

    fn user_chance(&self, source: SourceId, user: u32, count: u32) -> Chance {
        let entity = u64::from(source.0) << 48 | u64::from(user);
        let (seed, replication) = self.plan.key;
        Stream::new(seed, replication, USER_PURPOSE, entity).chance().attempt(count)
    }

    /// A closed-loop user has had an answer, or none, and thinks of the next question.
    pub(super) fn think(&mut self, now: Time, source: u16, user: (u32, u32), calendar: &mut Calendar<Event>) {
        let (user, count) = user;
        let chance = self.user_chance(SourceId(source), user, count);
        let pause = self.sources[usize::from(source)].think(&mut chance.draw(purpose::THINK));
        calendar.schedule(now + pause, Event::Ask(source, user, count.wrapping_add(1)));
    }

    fn bear(
        &mut self,
        now: Time,
        source: SourceId,
        chance: Chance,
        row: Option<u32>,
        asker: Option<(u32, u32)>,
        calendar: &mut Calendar<Event>,
    ) {
        let trace_row = row.and_then(|row| {
            self.sources[usize::from(source.0)].trace().and_then(|trace| trace.rows().get(row as usize))
        });
        let (mut request, view) = self.nursery.bear(self.born, now, source.0, chance, trace_row);
        self.born += 1;
        self.present += 1;
        self.measure.tally.offered += 1;
        self.measure.in_system.set(now, self.present);
        self.meter.now.arrived += 1;
        self.timeline.now.offered += 1;
        request.asker = asker;
        self.spans.tell(|spans| spans.born(&request, &view));
        self.send(now, request, view, Span::ZERO, calendar);
    }

    /// Sends an attempt on its way to the gateway, after a delay of the client's own.
    fn send(
        &mut self,
        now: Time,
        request: Request,
        view: RequestView,
        delay: Span,
        calendar: &mut Calendar<Event>,
    ) {
        let chance = attempt_chance(&request);
        let id = self.attempts.insert(request, view, chance, now);
        self.measure.attempts += 1;
        self.spans.tell(|spans| spans.sent(now, id, request.index, delay));
        let ingress =
            self.plan.ingress.as_ref().map_or(Span::ZERO, |law| {
                Span::from_secs_f64(law.sample(&mut chance.draw(purpose::INGRESS)))
            });
        let ingress = ingress + self.faults.network_delay(now + delay, chance);
        if let Some(patience) = &self.plan.patience {
            let wait = Span::from_secs_f64(
                patience.give_up.sample(&mut chance_of_wait(&request).draw(purpose::PATIENCE)),
            );
            let at = (request.asked + wait).max(now);
            self.attempts[id].patience = Some(calendar.schedule(at, Event::Patience(id)));
        }
        if delay + ingress == Span::ZERO {
            self.enter(now, id, calendar);
        } else {
            if delay > Span::ZERO {
                self.attempts[id].phase = Phase::Backoff;
            }
            calendar.after(delay + ingress, Event::Enter(id));
        }
    }

    /// A person's patience is at its end.
    pub(super) fn lose_patience(&mut self, now: Time, id: AttemptId, calendar: &mut Calendar<Event>) {
        let Some(attempt) = self.attempts.get_mut(id) else { return };
        attempt.patience = None;
        let Some(patience) = &self.plan.patience else { return };
        let satisfied = match patience.until {
            PatienceUntil::Service => attempt.served,
            PatienceUntil::FirstToken => attempt.first_token <= now,
            PatienceUntil::LastToken => false,
        };
        if satisfied || attempt.orphan {
            return;
        }
        if patience.noticed {
            self.tasks.push_back(Task::Finish(id, End::Abandoned));
            return;
        }
        // Nobody tells the gateway: the attempt lives on for nobody, and the person is free to ask again.
        attempt.orphan = true;
        self.spans.tell(|spans| spans.left(now, id));
        let (request, view, level) = (attempt.request, attempt.view, attempt.level);
        let last = Last { request, view, level, end: End::Abandoned, answer: None };
        if self.ask_again(now, &last, calendar).is_none() {
            self.record(now, &last, calendar);
        }
    }

    /// One who gave up asks again, perhaps: a further attempt of the same request.
    pub(super) fn ask_again(&mut self, now: Time, last: &Last, calendar: &mut Calendar<Event>) -> Option<()> {
        let plan = Arc::clone(&self.plan);
        let resend = plan.resend.as_ref()?;
        let mut request = last.request;
        let chance = attempt_chance(&request);
        if request.resends >= resend.at_most || chance.uniform(purpose::RESEND) >= resend.probability {
            return None;
        }
        let delay = Span::from_secs_f64(resend.after.sample(&mut chance.draw(purpose::RESEND_AFTER)));
        request.resends += 1;
        request.retries = 0;
        request.asked = now + delay;
        self.send(now, request, last.view, delay, calendar);
        Some(())
    }

    /// Client code tries again after a refusal or a failure, perhaps.
    pub(super) fn retry(&mut self, now: Time, last: &Last, calendar: &mut Calendar<Event>) -> Option<()> {
        let retries = self.plan.retries.as_ref()?;
        let (mut request, view, end) = (last.request, last.view, last.end);
        let worth_it = match end {
            End::RejectedBy(..) | End::StageFull(_) => true,
            End::TimedOut | End::Failed(_) => retries.after_failures,
            End::Answered | End::Abandoned => false,
        };
        if !worth_it || view.write || request.retries >= retries.at_most {
            return None;
        }
        let chance = attempt_chance(&request);
        let mut seconds = retries.base_s * power(retries.factor, request.retries);
        let retry_after_s = match end {
            End::RejectedBy(_, Some(retry_after_ns)) => Some(retry_after_ns as f64 * 1e-9),
            End::RejectedBy(_, None) | End::StageFull(_) => retries.retry_after_default_s,
            _ => None,
        };
        if let Some(retry_after_s) = retry_after_s
            && retries.honour_retry_after
        {
            seconds = seconds.max(retry_after_s);
        }
        if retries.jitter_share > 0.0 {
            seconds *= 1.0 + retries.jitter_share * chance.uniform(purpose::JITTER);
        }
        request.retries += 1;
        self.send(now, request, view, Span::from_secs_f64(seconds), calendar);
        Some(())
    }
}

/// The luck of the present attempt of a request.
pub(super) fn attempt_chance(request: &Request) -> Chance {
    let n = u32::from(request.retries) + u32::from(request.resends) * 1000;
    if n == 0 { request.chance } else { request.chance.attempt(n) }
}

/// Patience lasts over the retries of client code: it belongs to the asking, not to the attempt.
fn chance_of_wait(request: &Request) -> Chance {
    if request.resends == 0 {
        request.chance
    } else {
        request.chance.attempt(u32::from(request.resends) * 1000)
    }
}

fn power(base: f64, exponent: u8) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}
