//! One queue: first come first served, but the newest first while it is overloaded.
//!
//! When a queue is longer than people's patience, serving it in order serves everybody late. Serving
//! the newest answers those in time who can still be answered in time, at the price of those who have
//! waited longest: without `max_wait_s` they wait until the overload is over. The queue is overloaded
//! while its oldest has waited longer than `overload_wait_s`, or more than `overload_length` wait.

use super::wait_limits::WaitLimits;
use super::{Discipline, Place, Popped, line::Line};
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::moment::nanos;
use crate::{Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the queue that turns round under overload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LifoUnderOverload {
    /// The newest is served first while the oldest has waited for longer than this, in seconds; absent:
    /// waiting does not decide.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub overload_wait_s: Option<f64>,
    /// The newest is served first while more than this many wait; absent: the length does not decide.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub overload_length: Option<u32>,
    /// Greatest number waiting; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
}

impl LifoUnderOverload {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.overload_wait_s.is_some() || self.overload_length.is_some() {
            return Ok(());
        }
        Err(PolicyError::not_allowed(
            format!("{path}.overload_wait_s"),
            "nothing that says when the queue is overloaded",
            "overload_wait_s, overload_length, or both",
        ))
    }
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limits: WaitLimits,
    overload_wait_ns: u64,
    overload_length: usize,
    line: Line,
}

impl State {
    #[inline]
    fn is_overloaded(&self, now: Moment) -> bool {
        self.line.len() > self.overload_length
            || self.line.first().is_some_and(|(_, since)| now.since(since) > self.overload_wait_ns)
    }
}

impl Discipline for State {
    type Parameters = LifoUnderOverload;

    fn new(parameters: &LifoUnderOverload) -> Self {
        let mut state = Self {
            limits: WaitLimits::new(None, None),
            overload_wait_ns: 0,
            overload_length: 0,
            line: Line::default(),
        };
        state.adopt(parameters);
        state
    }

    fn adopt(&mut self, parameters: &LifoUnderOverload) {
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
        self.overload_wait_ns = parameters.overload_wait_s.map_or(u64::MAX, nanos);
        self.overload_length = parameters.overload_length.map_or(usize::MAX, |length| length as usize);
    }

    #[inline]
    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        _: &Signals,
        tickets: &mut Tickets,
    ) -> Result<Place, Refusal> {
        self.limits.admit(&self.line)?;
        let position = self.line.join(request.ticket, now, |ticket, to| tickets.moved(ticket, to));
        Ok(Place { class: 0, position })
    }

    #[inline]
    fn pop(&mut self, now: Moment, _: &Signals) -> Popped {
        let popped = if self.is_overloaded(now) { self.line.pop_last() } else { self.line.pop() };
        popped.map_or(Popped::Nothing, |(ticket, _)| Popped::Serve(ticket))
    }

    #[inline]
    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
        self.limits.pop_expired(&mut self.line, now)
    }

    fn remove(&mut self, place: Place) {
        self.line.remove(place.position);
    }

    fn len(&self, class: u8) -> usize {
        if class == 0 { self.line.len() } else { 0 }
    }

    fn queued(&self) -> usize {
        self.line.len()
    }

    fn next_expiry(&self) -> Option<Moment> {
        self.limits.next_expiry(&self.line)
    }

    /// As the queue is served at this moment: it may turn round again.
    fn ahead(&self, now: Moment, place: Place) -> Option<usize> {
        let (before, _) = self.line.ahead(place.position)?;
        Some(if self.is_overloaded(now) { self.line.len() - 1 - before } else { before })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn state(overload_wait_s: Option<f64>, overload_length: Option<u32>, waiting: u64) -> State {
        let parameters =
            LifoUnderOverload { overload_wait_s, overload_length, ..LifoUnderOverload::default() };
        parameters.check("queue").unwrap();
        let mut state = State::new(&parameters);
        for ticket in 1..=waiting {
            let request = RequestView::new(Ticket(ticket));
            state
                .push(Moment(ticket * S), &request, &Signals::default(), &mut Tickets::default())
                .expect("there is no limit");
        }
        state
    }

    fn drain(state: &mut State, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| match state.pop(Moment(now), &Signals::default()) {
            Popped::Serve(Ticket(ticket)) => Some(ticket),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn in_order_until_the_oldest_has_waited_too_long() {
        assert_eq!(drain(&mut state(Some(4.0), None, 4), 5 * S), [1, 2, 3, 4]);
        // At 6 s the first has waited 5 s, and goes on waiting while the newer ones are served.
        assert_eq!(drain(&mut state(Some(4.0), None, 4), 6 * S), [4, 3, 2, 1]);
    }

    #[test]
    fn a_queue_turns_round_when_it_is_long_and_back_when_it_is_short() {
        assert_eq!(drain(&mut state(None, Some(3), 5), 5 * S), [5, 4, 1, 2, 3]);
    }

    #[test]
    fn who_is_ahead_follows_the_order_of_service() {
        let state = state(Some(4.0), None, 4);
        let place = Place { class: 0, position: 1 };
        assert_eq!(state.ahead(Moment(5 * S), place), Some(1));
        assert_eq!(state.ahead(Moment(6 * S), place), Some(2));
    }

    #[test]
    fn a_rule_without_a_threshold_is_refused() {
        let error = LifoUnderOverload::default().check("queue").unwrap_err();
        assert_eq!(error.path(), "queue.overload_wait_s");
    }
}
