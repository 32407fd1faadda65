//! One queue, first come first served, with limits of length and of waiting.

use super::{Discipline, Place, Popped, line::Line};
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::moment::{nanos, seconds};
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Ticket};
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

/// The limits of one queue, as the disciplines share them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Limits {
    max_length: usize,
    max_wait_ns: u64,
}

impl Limits {
    pub(crate) fn new(max_length: Option<u32>, max_wait_s: Option<f64>) -> Self {
        Self {
            max_length: max_length.map_or(usize::MAX, |length| length as usize),
            max_wait_ns: max_wait_s.map_or(u64::MAX, nanos),
        }
    }

    /// Whether one more may join a line.
    #[inline]
    pub(crate) fn admit(&self, line: &Line) -> Result<(), Refusal> {
        self.admit_beside(line.len())
    }

    /// Whether one more may join so many.
    #[inline]
    pub(crate) fn admit_beside(&self, length: usize) -> Result<(), Refusal> {
        if length < self.max_length {
            return Ok(());
        }
        Err(Refusal::new(Reason::QueueFull, length as f64, self.max_length as f64))
    }

    /// How many more may join so many.
    pub(crate) fn room(&self, length: usize) -> usize {
        self.max_length.saturating_sub(length)
    }

    /// Whether waiting is limited at all.
    #[inline]
    pub(crate) fn limits_wait(&self) -> bool {
        self.max_wait_ns < u64::MAX
    }

    /// The refusal of one that has stood since `since`, if that is too long.
    #[inline]
    pub(crate) fn expired(&self, since: Moment, now: Moment) -> Option<Refusal> {
        let waited_ns = now.since(since);
        (waited_ns > self.max_wait_ns)
            .then(|| Refusal::new(Reason::QueueExpired, seconds(waited_ns), seconds(self.max_wait_ns)))
    }

    /// The first moment at which the head of `line` has waited too long.
    pub(crate) fn next_expiry(&self, line: &Line) -> Option<Moment> {
        let (_, since) = line.first()?;
        self.expiry(since)
    }

    /// The first moment at which one that has stood since `since` has waited too long.
    pub(crate) fn expiry(&self, since: Moment) -> Option<Moment> {
        self.limits_wait().then(|| since.after(self.max_wait_ns).after(1))
    }
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limits: Limits,
    line: Line,
}

impl Discipline for State {
    type Parameters = Fifo;

    fn new(parameters: &Fifo) -> Self {
        Self { limits: Limits::new(parameters.max_length, parameters.max_wait_s), line: Line::default() }
    }

    fn adopt(&mut self, parameters: &Fifo) {
        self.limits = Limits::new(parameters.max_length, parameters.max_wait_s);
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
        let (ticket, since) = self.line.first()?;
        let refusal = self.limits.expired(since, now)?;
        self.line.pop();
        Some((ticket, refusal))
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
