//! Weighted fair queueing: each flow (a class, a tier, a tenant or a user) has its share of the service
//! by weight while it has requests waiting, and what it does not use goes to the others.
//!
//! Start-time fair queueing: a request begins, in virtual time, when the one before it of the same flow
//! ends, or now if the flow was idle; it ends its cost divided by its weight later; the earliest
//! beginning is served first. Virtual time goes on with each service by its cost divided by the weights
//! of all flows that have somebody waiting, and is never before the beginning of the one served last; so
//! flows that are served up are forgotten, however many there are. A flow of any weight above 0 waits no
//! longer than the others' shares of its own backlog take: strict bands, whose low band waits without
//! bound while the high one fills the capacity, do not have this (incident N17).
//! Queues served in turns (deficit round robin) were rejected: they need a queue for each flow, and there
//! may be as many flows as users.

use super::ranked::{Ranked, rank_of};
use super::wait_limits::WaitLimits;
use super::{Discipline, Place, Popped};
use crate::admission::{Key, Refusal, keyed::Keyed};
use crate::governor::tickets::Tickets;
use crate::{Cost, Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Weights there are; a class or tier beyond the last shares the last.
const WEIGHTS: usize = 8;

/// What the flows are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// A flow per business class, with its weight.
    #[default]
    Class,
    /// A flow per tier, with its weight.
    Tier,
    /// A flow per tenant; all of equal weight.
    Tenant,
    /// A flow per user; all of equal weight.
    User,
}

/// Parameters of weighted fair queueing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WeightedFair {
    /// What the flows are.
    pub by: Flow,
    /// What a request costs its flow.
    pub cost: Cost,
    /// The flows' weights, by class or by tier.
    pub weights: Weights,
    /// Greatest number waiting, all flows together; absent: no limit.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length: Option<u32>,
    /// Greatest number waiting of one flow; absent: no limit. A flow that is full is turned away while
    /// the others still join.
    #[schemars(range(min = 0, max = 100_000_000))]
    pub max_length_of_flow: Option<u32>,
    /// Longest wait, in seconds, after which a request is turned away; absent: no limit.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub max_wait_s: Option<f64>,
}

/// Weights of the flows, by class or by tier: a flow of twice the weight has twice the service.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Weights {
    /// Class S0, or the highest tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q0: f64,
    /// Class S1, or the second tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q1: f64,
    /// Class S2, or the third tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q2: f64,
    /// Class S3, or the fourth tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q3: f64,
    /// Class S4, or the fifth tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q4: f64,
    /// The sixth tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q5: f64,
    /// The seventh tier.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q6: f64,
    /// The eighth tier and all below.
    #[schemars(range(min = 0.001, max = 1000.0))]
    pub q7: f64,
}

impl Default for Weights {
    fn default() -> Self {
        Self { q0: 1.0, q1: 1.0, q2: 1.0, q3: 1.0, q4: 1.0, q5: 1.0, q6: 1.0, q7: 1.0 }
    }
}

impl WeightedFair {
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "every discipline has this check")]
    pub(crate) fn check(&self, _path: &str) -> Result<(), PolicyError> {
        Ok(())
    }
}

/// What is remembered of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct FlowState {
    /// Virtual time at which its last request ends.
    finish: f64,
    /// Virtual time at which the last of those waiting begins.
    last_start: f64,
    waiting: u32,
}

/// What is remembered of one who waits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Waiting {
    flow: u64,
    /// Virtual time at which it begins.
    start: f64,
    /// Virtual time that it takes.
    span: f64,
}

/// Those who wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    by: Flow,
    cost: Cost,
    weights: [f64; WEIGHTS],
    limits: WaitLimits,
    limits_of_flow: WaitLimits,
    /// All in one queue, by the virtual time at which they begin.
    ranked: Ranked<Waiting>,
    flows: Keyed<FlowState>,
    virtual_time: f64,
    /// Flows that have somebody waiting; where flows have weights, they are looked at one by one.
    active: u32,
    /// Virtual time at which the last of all served so far ends.
    last_finish: f64,
}

impl State {
    #[inline]
    fn flow(&self, request: &RequestView) -> u64 {
        let shared = |class: u8| u64::from(class.min(WEIGHTS as u8 - 1));
        match self.by {
            Flow::Class => shared(request.class),
            Flow::Tier => shared(request.tier),
            Flow::Tenant => u64::from(request.tenant),
            Flow::User => request.user,
        }
    }

    #[inline]
    fn has_weights(&self) -> bool {
        matches!(self.by, Flow::Class | Flow::Tier)
    }

    /// By how much virtual time the request lengthens its flow.
    #[inline]
    fn span(&self, flow: u64, request: &RequestView) -> f64 {
        let cost = self.cost.of(request).max(1) as f64;
        if self.has_weights() { cost / self.weights[flow as usize] } else { cost }
    }

    /// The weights of the flows that have somebody waiting, together.
    #[inline]
    fn active_weight(&mut self) -> f64 {
        if !self.has_weights() {
            return f64::from(self.active);
        }
        let mut sum = 0.0;
        for (flow, weight) in self.weights.into_iter().enumerate() {
            let waits = self.flows.get_mut(flow as u64).is_some_and(|flow| flow.waiting > 0);
            sum += if waits { weight } else { 0.0 };
        }
        sum
    }

    /// One has left its flow. If it was not served, the flow has not had its service either: the next to
    /// arrive begins so much earlier, though never before those of its flow who wait.
    #[inline]
    fn note_taken(&mut self, waiting: Waiting, served: bool) {
        let Some(flow) = self.flows.get_mut(waiting.flow) else { return };
        flow.waiting -= 1;
        if !served {
            flow.finish -= waiting.span;
        }
        if flow.waiting == 0 {
            flow.last_start = 0.0;
            self.active -= 1;
        }
    }
}

impl Discipline for State {
    type Parameters = WeightedFair;

    fn new(parameters: &WeightedFair) -> Self {
        let few = matches!(parameters.by, Flow::Class | Flow::Tier);
        let mut state = Self {
            by: parameters.by,
            cost: parameters.cost,
            weights: [1.0; WEIGHTS],
            limits: WaitLimits::new(None, None),
            limits_of_flow: WaitLimits::new(None, None),
            ranked: Ranked::new(1),
            flows: Keyed::new(if few { Key::Endpoint } else { Key::User }),
            virtual_time: 0.0,
            active: 0,
            last_finish: 0.0,
        };
        state.adopt(parameters);
        state
    }

    /// Changed weights hold for those who arrive from now on.
    fn adopt(&mut self, parameters: &WeightedFair) {
        let Weights { q0, q1, q2, q3, q4, q5, q6, q7 } = parameters.weights;
        self.weights = [q0, q1, q2, q3, q4, q5, q6, q7];
        self.limits = WaitLimits::new(parameters.max_length, parameters.max_wait_s);
        self.limits_of_flow = WaitLimits::new(parameters.max_length_of_flow, None);
    }

    #[inline]
    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        _: &Signals,
        _: &mut Tickets,
    ) -> Result<Place, Refusal> {
        self.limits.admit_beside(self.ranked.waiting())?;
        let key = self.flow(request);
        let span = self.span(key, request);
        let present = self.virtual_time;
        let idle = |flow: &FlowState| flow.waiting == 0 && flow.finish <= present;
        let flow = self.flows.entry(key, FlowState::default, idle);
        self.limits_of_flow.admit_beside(flow.waiting as usize)?;
        let start = flow.finish.max(present).max(flow.last_start);
        flow.finish = flow.finish.max(present) + span;
        flow.last_start = start;
        flow.waiting += 1;
        self.active += u32::from(flow.waiting == 1);
        let waiting = Waiting { flow: key, start, span };
        Ok(Place { class: 0, position: self.ranked.join(0, request.ticket, now, rank_of(start), waiting) })
    }

    #[inline]
    fn pop(&mut self, _: Moment, _: &Signals) -> Popped {
        let active = self.active_weight();
        let Some(entry) = self.ranked.pop(0) else { return Popped::Nothing };
        let Waiting { flow, start, span } = entry.data;
        let weight = if self.has_weights() { self.weights[flow as usize] } else { 1.0 };
        self.virtual_time = (self.virtual_time + span * weight / active.max(weight)).max(start);
        self.last_finish = self.last_finish.max(start + span);
        self.note_taken(entry.data, true);
        if self.active == 0 {
            // Whoever comes next finds nobody: nothing of the past is to be made up for.
            self.virtual_time = self.virtual_time.max(self.last_finish);
        }
        Popped::Serve(entry.ticket)
    }

    #[inline]
    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
        let (entry, refusal) = self.limits.pop_expired_of(&mut self.ranked, now)?;
        self.note_taken(entry.data, false);
        Some((entry.ticket, refusal))
    }

    fn remove(&mut self, place: Place) {
        if let Some(entry) = self.ranked.take(place.position) {
            self.note_taken(entry.data, false);
        }
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

    fn ahead(&self, _: Moment, place: Place) -> Option<usize> {
        self.ranked.ahead(place.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(file: &str) -> State {
        State::new(&toml::from_str(file).expect("the test's own file"))
    }

    fn push(state: &mut State, ticket: u64, view: RequestView) -> Result<Place, Refusal> {
        let request = RequestView { ticket: Ticket(ticket), ..view };
        state.push(Moment(ticket), &request, &Signals::default(), &mut Tickets::default())
    }

    fn of_class(class: u8) -> RequestView {
        RequestView { class, ..RequestView::new(Ticket(0)) }
    }

    fn pop(state: &mut State) -> Option<u64> {
        match state.pop(Moment(0), &Signals::default()) {
            Popped::Serve(Ticket(ticket)) => Some(ticket),
            _ => None,
        }
    }

    #[test]
    fn service_is_shared_by_weight() {
        let mut state = state("weights = { q0 = 3.0, q4 = 1.0 }");
        for n in 0..400 {
            push(&mut state, n, of_class(if n < 200 { 0 } else { 4 })).unwrap();
        }
        let served: Vec<_> = (0..100).filter_map(|_| pop(&mut state)).collect();
        let of_the_first = served.iter().filter(|&&ticket| ticket < 200).count();
        assert!((74..=76).contains(&of_the_first), "{of_the_first} of 100");
        // Within a flow the order is that of arrival.
        assert!(served.iter().filter(|&&t| t < 200).is_sorted());
    }

    #[test]
    fn an_idle_flow_saves_nothing_up() {
        let mut state = state("by = 'tenant'");
        for n in 0..50 {
            push(&mut state, n, RequestView { tenant: 1, ..of_class(2) }).unwrap();
            pop(&mut state);
        }
        for n in 50..54 {
            push(&mut state, n, RequestView { tenant: if n < 52 { 1 } else { 2 }, ..of_class(2) }).unwrap();
        }
        // The one that was idle so far has nothing to catch up on: they take turns.
        assert_eq!(std::iter::from_fn(|| pop(&mut state)).collect::<Vec<_>>(), [50, 52, 51, 53]);
    }

    #[test]
    fn the_low_band_waits_no_longer_than_its_share_takes() {
        // Incident N17: the high band alone fills the capacity.
        let mut state = state("weights = { q0 = 9.0, q4 = 1.0 }");
        for n in 0..20 {
            push(&mut state, n, of_class(0)).unwrap();
        }
        push(&mut state, 1000, of_class(4)).unwrap();
        let mut waited = 0;
        for n in 1001.. {
            push(&mut state, n, of_class(0)).unwrap();
            if pop(&mut state) == Some(1000) {
                break;
            }
            waited += 1;
            assert!(waited <= 20, "the low band starves");
        }
    }

    #[test]
    fn a_flow_does_not_pay_for_those_who_gave_up() {
        let mut state = state("");
        for n in 0..100 {
            let place = push(&mut state, n, of_class(0)).unwrap();
            if n > 0 {
                state.remove(place);
            }
        }
        push(&mut state, 100, of_class(0)).unwrap();
        for n in 101..104 {
            push(&mut state, n, of_class(1)).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| pop(&mut state)).collect::<Vec<_>>(), [0, 101, 100, 102, 103]);
    }

    #[test]
    fn flows_that_were_served_up_are_forgotten() {
        let mut state = state("by = 'user'");
        for n in 0..20_000 {
            push(&mut state, n, RequestView { user: n, ..of_class(2) }).unwrap();
            if n >= 50 {
                pop(&mut state);
            }
        }
        let mut kept = 0;
        while pop(&mut state).is_some() {
            kept += 1;
        }
        assert_eq!(kept, 50);
        let known = (0..20_000).filter(|&user| state.flows.get_mut(user).is_some()).count();
        assert!(known < 3000, "{known} flows are remembered");
    }

    #[test]
    fn tokens_may_be_the_cost() {
        let mut state = state("by = 'user'\ncost = 'tokens'");
        for n in 0..4 {
            let user = n % 2;
            let tokens_in = if user == 0 { 1000 } else { 100 };
            push(&mut state, n, RequestView { user, tokens_in, ..of_class(2) }).unwrap();
        }
        assert_eq!(std::iter::from_fn(|| pop(&mut state)).collect::<Vec<_>>(), [0, 1, 3, 2]);
    }

    #[test]
    fn a_flow_that_is_full_does_not_close_the_others() {
        let mut state = state("max_length_of_flow = 2\nmax_length = 3");
        push(&mut state, 0, of_class(0)).unwrap();
        push(&mut state, 1, of_class(0)).unwrap();
        assert!(push(&mut state, 2, of_class(0)).is_err());
        push(&mut state, 3, of_class(1)).unwrap();
        assert!(push(&mut state, 4, of_class(2)).is_err());
    }
}
