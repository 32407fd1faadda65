//! Those who wait in the semantic queue.

use super::Semantic;
use super::decay::Decay;
use super::score::{DEGRADED, HIGH, STANDARD};
use super::shares::Shares;
use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::moment::nanos;
use crate::queueing::ranked::{Ranked, rank_of};
use crate::queueing::wait_limits::WaitLimits;
use crate::queueing::{Discipline, Place, Popped};
use crate::{Level, Moment, Reason, RequestView, SignalKind, Signals, Ticket};
use serde::{Deserialize, Serialize};

/// What is remembered of one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Waiting {
    score: f64,
    /// The score with the user's decay: orders those of one queue.
    priority: f64,
    expedited: bool,
}

/// Those who wait, and what the rules need.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: Semantic,
    limits: WaitLimits,
    ranked: Ranked<Waiting>,
    shares: Shares,
    decay: Decay,
    /// GPU memory was above `move_above` when it was last read.
    pressed: bool,
    /// Low scores may stand in the second queue although it is pressed: the third was full.
    unmoved: bool,
}

impl State {
    /// The rank of one that waits: the highest priority is served first. Priority and waiting grow side
    /// by side, so their sum orders as `since / aging_s - priority` does, which never changes.
    fn rank(&self, since: Moment, waiting: &Waiting) -> u64 {
        let aged = self.parameters.aging_s.map_or(0.0, |aging_s| since.seconds_since(Moment::ZERO) / aging_s);
        rank_of(aged - waiting.priority)
    }

    fn is_low(&self, waiting: &Waiting) -> bool {
        waiting.score < self.parameters.low_below && !waiting.expedited
    }

    /// Follows the signal, and moves low scores out of the second queue while it is above the threshold.
    #[inline]
    fn follow(&mut self, signals: &Signals, tickets: &mut Tickets) {
        let above = signals.get(SignalKind::Vram).is_some_and(|share| share > self.parameters.move_above);
        self.unmoved |= above && !self.pressed;
        self.pressed = above;
        if above && self.unmoved {
            self.move_low(tickets);
        }
    }

    fn move_low(&mut self, tickets: &mut Tickets) {
        let room = self.limits.room(self.ranked.len(DEGRADED));
        let (low_below, way) = (self.parameters.low_below, (STANDARD, DEGRADED));
        let low = |waiting: &Waiting| waiting.score < low_below && !waiting.expedited;
        let all = self.ranked.transfer(way, room, low, |ticket| tickets.moved_to_queue(ticket, DEGRADED));
        self.unmoved = !all;
    }
}

impl Discipline for State {
    type Parameters = Semantic;

    fn new(parameters: &Semantic) -> Self {
        let mut state = Self {
            parameters: parameters.clone(),
            limits: WaitLimits::new(None, None),
            ranked: Ranked::new(3),
            shares: Shares::new(),
            decay: Decay::new(),
            pressed: false,
            unmoved: false,
        };
        state.adopt(parameters);
        state
    }

    /// Those who wait keep their scores and their queues; changed shares, levels and aging hold at once.
    fn adopt(&mut self, parameters: &Semantic) {
        let aging = self.parameters.aging_s;
        self.parameters = parameters.clone();
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
        self.shares.adopt(&parameters.weights);
        self.decay.adopt(nanos(parameters.decay_window_s), parameters.decay_factor);
        self.unmoved |= self.pressed;
        if aging != parameters.aging_s {
            let mut ranked = std::mem::replace(&mut self.ranked, Ranked::new(0));
            ranked.rerank(|since, waiting| self.rank(since, waiting));
            self.ranked = ranked;
        }
    }

    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        signals: &Signals,
        tickets: &mut Tickets,
    ) -> Result<Place, Refusal> {
        self.follow(signals, tickets);
        let score = self.parameters.score(request);
        let priority = score * self.decay.count(now, request.user);
        let expedited = self.parameters.is_expedited(request);
        let waiting = Waiting { score, priority, expedited };
        let mut queue = self.parameters.queue(request, score);
        if queue == STANDARD && self.pressed && self.is_low(&waiting) {
            queue = DEGRADED;
        }
        self.limits.admit_beside(self.ranked.len(queue))?;
        let rank = self.rank(now, &waiting);
        Ok(Place { class: queue, position: self.ranked.join(queue, request.ticket, now, rank, waiting) })
    }

    fn pop(&mut self, _: Moment, _: &Signals) -> Popped {
        let waits = [HIGH, STANDARD, DEGRADED].map(|queue| self.ranked.len(queue) > 0);
        let popped = self.shares.next(waits).and_then(|queue| self.ranked.pop(queue));
        let Some(entry) = popped else { return Popped::Nothing };
        let Waiting { score, expedited, .. } = entry.data;
        let Semantic { degraded_level, l1_score_at_least, standard_at_least, low_below, .. } =
            self.parameters;
        if entry.queue == DEGRADED && degraded_level > Level::L1 {
            // One that was moved has a score that would have kept it in the second queue.
            let threshold = if score < standard_at_least { standard_at_least } else { low_below };
            let why = Refusal::new(Reason::SemanticDegraded, score, threshold);
            return Popped::ServeAt(entry.ticket, degraded_level, why);
        }
        if score < l1_score_at_least && !expedited {
            let why = Refusal::new(Reason::SemanticBelowL1, score, l1_score_at_least);
            return Popped::ServeAt(entry.ticket, Level::L2, why);
        }
        Popped::Serve(entry.ticket)
    }

    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
        let (entry, refusal) = self.limits.pop_expired_of(&mut self.ranked, now)?;
        Some((entry.ticket, refusal))
    }

    fn remove(&mut self, place: Place) {
        self.ranked.take(place.position);
    }

    fn len(&self, class: u8) -> usize {
        self.ranked.len(class)
    }

    fn queued(&self) -> usize {
        self.ranked.waiting()
    }

    fn next_expiry(&self) -> Option<Moment> {
        self.limits.next_expiry_of(&self.ranked)
    }

    /// An estimate: exact within the queue, and by the shares of service between the queues.
    fn ahead(&self, _: Moment, place: Place) -> Option<usize> {
        let queue = self.ranked.get(place.position)?.queue;
        let ahead = self.ranked.ahead(place.position)?;
        let waiting = [HIGH, STANDARD, DEGRADED].map(|queue| self.ranked.len(queue));
        Some(self.shares.before(usize::from(queue), ahead, waiting).round() as usize)
    }

    fn reads_signals(&self) -> bool {
        true
    }

    fn tick(&mut self, _: Moment, signals: &Signals, tickets: &mut Tickets) {
        self.follow(signals, tickets);
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
