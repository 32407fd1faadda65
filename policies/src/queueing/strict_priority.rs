//! A queue per business class or tier; a better one is always served first.
//!
//! With aging, a request counts one class better for every `aging_s` it has waited, so that none
//! starves. Within a queue all age alike and stand in order of arrival, so only the heads compete;
//! among equals the one that has waited longest is served.

use super::wait_limits::WaitLimits;
use super::{Discipline, Place, Popped, line::Line};
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::moment::nanos;
use crate::{Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Queues there are; a tier beyond the last shares the last.
pub const QUEUES: usize = 8;

/// What a request's queue follows from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The business class: S0 first.
    #[default]
    Class,
    /// The user's tier: the highest first.
    Tier,
}

/// Parameters of strict priority.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StrictPriority {
    /// What a request's queue follows from.
    pub by: By,
    /// Greatest number waiting in each queue; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
    /// After each so many seconds of waiting a request counts one class better; absent: never.
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub aging_s: Option<f64>,
}

impl StrictPriority {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every discipline has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    by: By,
    limits: WaitLimits,
    aging_ns: Option<u64>,
    lines: [Line; QUEUES],
    /// Bit i is set while somebody waits in queue i.
    occupied: u8,
    queued: usize,
}

impl State {
    fn note_taken(&mut self, class: usize) {
        self.queued -= 1;
        if self.lines[class].is_empty() {
            self.occupied &= !(1 << class);
        }
    }

    /// The queue whose head is served next.
    #[inline]
    fn best(&self, now: Moment) -> Option<usize> {
        let first = (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)?;
        let Some(aging_ns) = self.aging_ns else { return Some(first) };
        let rank = |class: usize| {
            let (_, since) = self.lines[class].first()?;
            let better = now.since(since) / aging_ns;
            Some(((class as u64).saturating_sub(better), since, class))
        };
        (first..QUEUES).filter_map(rank).min().map(|(_, _, class)| class)
    }

    /// A queue whose head has waited too long.
    #[inline]
    fn expired(&self, now: Moment) -> Option<(usize, Refusal)> {
        if !self.limits.limits_wait() {
            return None;
        }
        (0..QUEUES).find_map(|class| {
            let (_, since) = self.lines[class].first()?;
            Some((class, self.limits.expired(since, now)?))
        })
    }
}

impl Discipline for State {
    type Parameters = StrictPriority;

    fn new(parameters: &StrictPriority) -> Self {
        let mut state = Self {
            by: parameters.by,
            limits: WaitLimits::new(None, None),
            aging_ns: None,
            lines: Default::default(),
            occupied: 0,
            queued: 0,
        };
        state.adopt(parameters);
        state
    }

    fn adopt(&mut self, parameters: &StrictPriority) {
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
        self.aging_ns = parameters.aging_s.map(|seconds| nanos(seconds).max(1));
    }

    #[inline]
    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        _: &Signals,
        tickets: &mut Tickets,
    ) -> Result<Place, Refusal> {
        let class = match self.by {
            By::Class => request.class,
            By::Tier => request.tier,
        };
        let class = class.min(QUEUES as u8 - 1);
        let line = &mut self.lines[usize::from(class)];
        self.limits.admit(line)?;
        let position = line.join(request.ticket, now, |ticket, to| tickets.moved(ticket, to));
        self.occupied |= 1 << class;
        self.queued += 1;
        Ok(Place { class, position })
    }

    #[inline]
    fn pop(&mut self, now: Moment, _: &Signals) -> Popped {
        let Some(best) = self.best(now) else { return Popped::Nothing };
        let Some((ticket, _)) = self.lines[best].pop() else { return Popped::Nothing };
        self.note_taken(best);
        Popped::Serve(ticket)
    }

    #[inline]
    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
        let (class, refusal) = self.expired(now)?;
        let (ticket, _) = self.lines[class].pop()?;
        self.note_taken(class);
        Some((ticket, refusal))
    }

    fn remove(&mut self, place: Place) {
        let class = usize::from(place.class);
        let before = self.lines[class].len();
        self.lines[class].remove(place.position);
        if self.lines[class].len() < before {
            self.note_taken(class);
        }
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

    fn ahead(&self, now: Moment, place: Place) -> Option<usize> {
        let own = usize::from(place.class);
        let (before, since) = self.lines.get(own)?.ahead(place.position)?;
        let rank = |class: usize, since: Moment| {
            let better = self.aging_ns.map_or(0, |aging_ns| now.since(since) / aging_ns);
            ((class as u64).saturating_sub(better), since, class)
        };
        let mine = rank(own, since);
        // Within a line both grow with the time of arrival, so those before stand at its front.
        let of_others = (0..QUEUES).filter(|&class| class != own).map(|class| {
            if self.aging_ns.is_none() {
                return if class < own { self.lines[class].len() } else { 0 };
            }
            self.lines[class].waits().take_while(|&since| rank(class, since) < mine).count()
        });
        Some(before + of_others.sum::<usize>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn push(state: &mut State, now: u64, ticket: u64, class: u8, tier: u8) -> Place {
        let request = RequestView { class, tier, ..RequestView::new(Ticket(ticket)) };
        state.push(Moment(now), &request, &Signals::default(), &mut Tickets::default()).unwrap()
    }

    fn drain(state: &mut State, now: u64) -> Vec<u64> {
        std::iter::from_fn(|| match state.pop(Moment(now), &Signals::default()) {
            Popped::Serve(Ticket(ticket)) => Some(ticket),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn a_better_class_is_served_first() {
        let mut state = State::new(&StrictPriority::default());
        for (ticket, class) in [(1, 4), (2, 0), (3, 2), (4, 0)] {
            push(&mut state, ticket, ticket, class, 0);
        }
        assert_eq!((state.len(0), state.len(2), state.len(9), state.queued()), (2, 1, 0, 4));
        assert_eq!(drain(&mut state, 5), [2, 4, 3, 1]);
    }

    #[test]
    fn tiers_may_rule_instead_and_the_last_queue_is_shared() {
        let mut state = State::new(&StrictPriority { by: By::Tier, ..StrictPriority::default() });
        push(&mut state, 0, 1, 0, 200);
        push(&mut state, 0, 2, 4, 1);
        push(&mut state, 0, 3, 0, 7);
        assert_eq!(drain(&mut state, 5), [2, 1, 3]);
    }

    #[test]
    fn aging_lifts_by_one_class_per_span() {
        let mut state = State::new(&StrictPriority { aging_s: Some(10.0), ..StrictPriority::default() });
        push(&mut state, 0, 1, 2, 0);
        push(&mut state, 11 * S, 2, 1, 0);
        push(&mut state, 20 * S, 3, 0, 0);
        // After 15 s: S2 counts as S1 and has waited longest of those; S1 is not lifted yet.
        assert_eq!(drain(&mut state.clone(), 15 * S), [3, 1, 2]);
        // After 20 s the S2 request counts as S0.
        assert_eq!(drain(&mut state, 20 * S), [1, 3, 2]);
    }

    #[test]
    fn expired_heads_are_taken_out_of_any_queue() {
        let mut state = State::new(&StrictPriority { max_wait_s: Some(1.0), ..StrictPriority::default() });
        push(&mut state, 0, 1, 4, 0);
        push(&mut state, 2 * S, 2, 0, 0);
        assert_eq!(state.next_expiry(), Some(Moment(S + 1)));
        assert!(matches!(state.pop_expired(Moment(2 * S)), Some((Ticket(1), _))));
        assert_eq!(state.pop_expired(Moment(2 * S)), None);
        assert_eq!(drain(&mut state, 2 * S), [2]);
    }

    #[test]
    fn leaving_twice_counts_once() {
        let mut state = State::new(&StrictPriority::default());
        let place = push(&mut state, 0, 1, 3, 0);
        state.remove(place);
        state.remove(place);
        assert_eq!((state.queued(), state.occupied), (0, 0));
    }
}
