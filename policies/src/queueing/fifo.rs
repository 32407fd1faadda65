//! One queue, first come first served, with limits of length and of waiting.

use super::wait_limits::WaitLimits;
use super::{Discipline, Place, Popped, line::Line};
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::{Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of the plain queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Fifo {
    /// Greatest number waiting; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
}

impl Fifo {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every discipline has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limits: WaitLimits,
    line: Line,
}

impl Discipline for State {
    type Parameters = Fifo;

    fn new(parameters: &Fifo) -> Self {
        Self { limits: WaitLimits::new(parameters.max_length, parameters.max_wait_s), line: Line::default() }
    }

    fn adopt(&mut self, parameters: &Fifo) {
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
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
        Ok(Place {
            class: 0,
            position: self.line.join(request.ticket, now, |ticket, to| tickets.moved(ticket, to)),
        })
    }

    #[inline]
    fn pop(&mut self, _: Moment, _: &Signals) -> Popped {
        self.line.pop().map_or(Popped::Nothing, |(ticket, _)| Popped::Serve(ticket))
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

    fn ahead(&self, _: Moment, place: Place) -> Option<usize> {
        self.line.ahead(place.position).map(|(ahead, _)| ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reason;

    const S: u64 = 1_000_000_000;

    fn push(state: &mut State, now: u64, ticket: u64) -> Result<Place, Refusal> {
        state.push(
            Moment(now),
            &RequestView::new(Ticket(ticket)),
            &Signals::default(),
            &mut Tickets::default(),
        )
    }

    fn pop(state: &mut State, now: u64) -> Popped {
        state.pop(Moment(now), &Signals::default())
    }

    #[test]
    fn first_come_first_served_up_to_the_length() {
        let mut state = State::new(&Fifo { max_length: Some(2), max_wait_s: None });
        push(&mut state, 0, 1).unwrap();
        push(&mut state, 0, 2).unwrap();
        let refusal = push(&mut state, 0, 3).unwrap_err();
        assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::QueueFull, 2.0, 2.0));
        assert_eq!(pop(&mut state, 1), Popped::Serve(Ticket(1)));
        assert_eq!(pop(&mut state, 1), Popped::Serve(Ticket(2)));
        assert_eq!(pop(&mut state, 1), Popped::Nothing);
    }

    #[test]
    fn who_waited_too_long_is_taken_out() {
        let mut state = State::new(&Fifo { max_length: None, max_wait_s: Some(2.0) });
        push(&mut state, 0, 1).unwrap();
        push(&mut state, S, 2).unwrap();
        assert_eq!(state.next_expiry(), Some(Moment(2 * S + 1)));
        assert_eq!(state.pop_expired(Moment(2 * S)), None);
        let (ticket, refusal) = state.pop_expired(Moment(2 * S + 1)).unwrap();
        assert_eq!((ticket, refusal.why), (Ticket(1), Reason::QueueExpired));
        assert_eq!(state.pop_expired(Moment(2 * S + 1)), None);
        assert_eq!(pop(&mut state, 2 * S + 1), Popped::Serve(Ticket(2)));
    }
}
