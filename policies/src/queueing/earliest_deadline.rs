//! The request whose answer is due first is served first: due is its arrival plus the target of its
//! business class.
//!
//! All of one class have one target and therefore stand in order of arrival, so a line per class is
//! enough and only the heads compete; a heap over all would order what is in order already. No class
//! starves: whoever waits comes nearer to the front, however much of the others arrives later.

use super::wait_limits::WaitLimits;
use super::{Discipline, Place, Popped, line::Line};
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::moment::nanos;
use crate::{CLASSES, Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of earliest deadline first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EarliestDeadline {
    /// Per business class, how soon its requests are to be served.
    pub target_s: Targets,
    /// Greatest number waiting, all classes together; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
}

/// How soon requests of each business class are to be served, in seconds after they arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Targets {
    /// Class S0, the most important, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub s0: f64,
    /// Class S1, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub s1: f64,
    /// Class S2, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub s2: f64,
    /// Class S3, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub s3: f64,
    /// Class S4, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub s4: f64,
}

impl Default for Targets {
    fn default() -> Self {
        Self { s0: 1.0, s1: 2.0, s2: 5.0, s3: 15.0, s4: 60.0 }
    }
}

impl EarliestDeadline {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every discipline has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limits: WaitLimits,
    target_ns: [u64; CLASSES],
    lines: [Line; CLASSES],
    queued: usize,
}

impl State {
    /// The class whose head is due first; among equals the better class.
    #[inline]
    fn first(&self) -> Option<usize> {
        let due = |class: usize| {
            let (_, since) = self.lines[class].first()?;
            Some((since.after(self.target_ns[class]), class))
        };
        (0..CLASSES).filter_map(due).min().map(|(_, class)| class)
    }
}

impl Discipline for State {
    type Parameters = EarliestDeadline;

    fn new(parameters: &EarliestDeadline) -> Self {
        let mut state = Self {
            limits: WaitLimits::new(None, None),
            target_ns: [0; CLASSES],
            lines: Default::default(),
            queued: 0,
        };
        state.adopt(parameters);
        state
    }

    fn adopt(&mut self, parameters: &EarliestDeadline) {
        let Targets { s0, s1, s2, s3, s4 } = parameters.target_s;
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
        self.target_ns = [s0, s1, s2, s3, s4].map(nanos);
    }

    #[inline]
    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        _: &Signals,
        tickets: &mut Tickets,
    ) -> Result<Place, Refusal> {
        self.limits.admit_beside(self.queued)?;
        let class = request.class.min(CLASSES as u8 - 1);
        let line = &mut self.lines[usize::from(class)];
        let position = line.join(request.ticket, now, |ticket, to| tickets.moved(ticket, to));
        self.queued += 1;
        Ok(Place { class, position })
    }

    #[inline]
    fn pop(&mut self, _: Moment, _: &Signals) -> Popped {
        let popped = self.first().and_then(|class| self.lines[class].pop());
        let Some((ticket, _)) = popped else { return Popped::Nothing };
        self.queued -= 1;
        Popped::Serve(ticket)
    }

    #[inline]
    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
        if !self.limits.limits_wait() {
            return None;
        }
        let expired = self.lines.iter_mut().find_map(|line| self.limits.pop_expired(line, now))?;
        self.queued -= 1;
        Some(expired)
    }

    fn remove(&mut self, place: Place) {
        let line = &mut self.lines[usize::from(place.class)];
        let before = line.len();
        line.remove(place.position);
        self.queued -= before - line.len();
    }

    fn len(&self, class: u8) -> usize {
        self.lines.get(usize::from(class)).map_or(0, Line::len)
    }

    fn queued(&self) -> usize {
        self.queued
    }

    fn next_expiry(&self) -> Option<Moment> {
        self.lines.iter().filter_map(|line| self.limits.next_expiry(line)).min()
    }

    fn ahead(&self, _: Moment, place: Place) -> Option<usize> {
        let own = usize::from(place.class);
        let (before, since) = self.lines.get(own)?.ahead(place.position)?;
        let due = (since.after(self.target_ns[own]), own);
        let of_others = (0..CLASSES).filter(|&class| class != own).map(|class| {
            let target_ns = self.target_ns[class];
            self.lines[class].waits().take_while(|since| (since.after(target_ns), class) < due).count()
        });
        Some(before + of_others.sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn push(state: &mut State, at_s: u64, ticket: u64, class: u8) -> Result<Place, Refusal> {
        let request = RequestView { class, ..RequestView::new(Ticket(ticket)) };
        state.push(Moment(at_s * S), &request, &Signals::default(), &mut Tickets::default())
    }

    fn drain(state: &mut State) -> Vec<u64> {
        std::iter::from_fn(|| match state.pop(Moment(100 * S), &Signals::default()) {
            Popped::Serve(Ticket(ticket)) => Some(ticket),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn what_is_due_first_is_served_first() {
        // Targets 1, 2, 5, 15, 60 s: due at 60, 15, 11, 12 and, of a class beyond the last, 64 s.
        let mut state = State::new(&EarliestDeadline::default());
        let places = [(0, 1, 4), (0, 2, 3), (10, 3, 0), (10, 4, 1), (4, 5, 9)]
            .map(|(at_s, ticket, class)| push(&mut state, at_s, ticket, class).unwrap());
        assert_eq!(places.map(|place| state.ahead(Moment(0), place).unwrap()), [3, 2, 0, 1, 4]);
        assert_eq!(drain(&mut state), [3, 4, 2, 1, 5]);
    }

    #[test]
    fn changed_targets_hold_for_those_who_wait_too() {
        let mut state = State::new(&EarliestDeadline::default());
        push(&mut state, 0, 1, 4).unwrap();
        push(&mut state, 0, 2, 0).unwrap();
        let target_s = Targets { s4: 0.5, ..Targets::default() };
        state.adopt(&EarliestDeadline { target_s, ..EarliestDeadline::default() });
        assert_eq!(drain(&mut state), [1, 2]);
    }

    #[test]
    fn the_length_counts_all_classes() {
        let mut state = State::new(&EarliestDeadline { max_length: Some(2), ..EarliestDeadline::default() });
        push(&mut state, 0, 1, 0).unwrap();
        push(&mut state, 0, 2, 4).unwrap();
        assert_eq!(push(&mut state, 0, 3, 2).unwrap_err().found, 2.0);
    }
}
