//! The store: state that a limiter shares over several gateway nodes, and what the nodes do without it
//! (published cases H7, G9).
//!
//! The rate of one admission module is kept in the store. Each node holds a copy of its share of that
//! rate, refreshed every `sync_period_s`: a change of the rate, by a loop or by hand, is in force from the
//! next refresh. While the store times out, the nodes go on with the last rate they were told, for at most
//! `keep_last_s`; then, or as soon as all limiter nodes are down, with a fixed rate. Loops may go on setting
//! the rate meanwhile: it arrives with the first refresh that succeeds.
//!
//! One governor sees all requests, so it stands for all nodes at once: it keeps a limiter per node and
//! spreads the requests over them by a hash of the ticket, as a balancer without memory would. Hence a
//! divided rate is used unevenly: one node refuses while another has room. With `divided = false` every
//! node counts alone with the whole rate, and together they let in up to `nodes` times as much. What nodes
//! tell each other between refreshes is not modelled.
//!
//! Rejected: a shared count that nodes copy and settle later. It lets in up to `nodes` times the rate
//! within one period and owes it the next; but it would need each limiter to tell what it spent, and the
//! two settings above bound it from both sides.

use crate::admission::{self, Admission, Refusal, keyed::Spread};
use crate::moment::nanos;
use crate::{Moment, Policy, PolicyError, Reason, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The shared state of a limiter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// Name of the admission module whose rate is shared: a fixed rate, a token bucket or a weighted bucket.
    pub module: String,
    /// Gateway nodes that share it.
    #[serde(default = "one_node")]
    #[schemars(range(min = 1, max = 1_024))]
    pub nodes: u32,
    /// Each node has its part of the rate; off: each has the whole rate, and counts alone.
    #[serde(default = "yes")]
    pub divided: bool,
    /// How often the nodes ask the store, in seconds.
    #[serde(default = "one_second")]
    #[schemars(range(min = 0.001, max = 3_600.0))]
    pub sync_period_s: f64,
    /// How long they wait for its answer, in seconds; they ask again only when that is over.
    #[serde(default = "fifty_ms")]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub timeout_s: f64,
    /// How long the last rate is used while the store times out, in seconds.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub keep_last_s: f64,
    /// Rate of all nodes together when no rate can be had, per second.
    #[serde(default = "five_hundred")]
    #[schemars(range(min = 0.001, max = 1e9))]
    pub fixed_rate_per_s: f64,
    /// An empty set of rules from the remote source replaces the local ones: the limiters at the front
    /// are then not asked. Off: the local rules stay.
    #[serde(default)]
    pub accept_empty_rules: bool,
}

fn one_node() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn one_second() -> f64 {
    1.0
}

fn fifty_ms() -> f64 {
    0.05
}

fn five_minutes() -> f64 {
    300.0
}

fn five_hundred() -> f64 {
    500.0
}

/// How often a stand-in was used because something around the governor was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FallbackUses {
    /// Refreshes that the store did not answer in time: the last rate, or after `keep_last_s` the fixed
    /// one, stood in.
    pub store_timeouts: u64,
    /// Refreshes that found all limiter nodes down: the fixed rate stood in.
    pub nodes_down: u64,
    /// Runs of the forecast's loop without a forecast: the timetable stood in, if there is one.
    pub forecast_lost: u64,
    /// Requests that came in without any limiter at the front being asked: the rules were wiped.
    pub rules_wiped: u64,
    /// Empty sets of rules that were not accepted: the local rules stood in.
    pub rules_kept: u64,
}

impl Store {
    pub(crate) fn check(&self, path: &str, policy: &Policy) -> Result<(), PolicyError> {
        let wrong = |allowed: String| {
            Err(PolicyError::not_allowed(format!("{path}.module"), format!("`{}`", self.module), allowed))
        };
        let names = || policy.admission.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        match policy.admission.get(&self.module) {
            None => wrong(format!("a module of admission, which has: {}", names())),
            Some(module) if rate_per_s(module).is_none() => wrong(
                "a module of kind fixed_rate (with one limit for all), token_bucket or weighted_bucket"
                    .to_owned(),
            ),
            Some(module) if module.place() != crate::Site::Front => wrong("a module at the front".to_owned()),
            Some(_) => Ok(()),
        }
    }
}

/// The rate of a module, per second; `None`: it has none that could be shared.
fn rate_per_s(module: &Admission) -> Option<f64> {
    match module {
        Admission::FixedRate(fixed) if fixed.limits.is_empty() => {
            Some(f64::from(fixed.limit) / fixed.window_s)
        }
        Admission::TokenBucket(bucket) => Some(bucket.rate_per_s),
        Admission::WeightedBucket(bucket) => Some(bucket.base_rate_per_s),
        _ => None,
    }
}

/// The same module with another rate, for the node with this index, which has one of `parts` equal parts of
/// it and of what is kept for a burst. Of a limit in whole requests, what does not divide is dealt out to the
/// first nodes, one each, so that the parts add up to it.
fn for_node(module: &Admission, rate_per_s: f64, (index, parts): (u32, u32)) -> Admission {
    let mut module = module.clone();
    let share = 1.0 / f64::from(parts);
    match &mut module {
        Admission::FixedRate(fixed) => {
            let limit = (rate_per_s * fixed.window_s).round() as u32;
            fixed.limit = limit / parts + u32::from(index < limit % parts);
        }
        Admission::TokenBucket(bucket) => {
            bucket.rate_per_s = rate_per_s * share;
            bucket.burst = (bucket.burst * share).max(1.0);
        }
        Admission::WeightedBucket(bucket) => bucket.base_rate_per_s = (rate_per_s * share).max(0.001),
        _ => {}
    }
    module
}

/// What the nodes hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: Store,
    /// The shared module as it stands in the policy, that is in the store.
    shared: Admission,
    /// Index of the module.
    unit: u8,
    /// The limiters of the nodes.
    nodes: Vec<admission::State>,
    /// The rate that the nodes work with.
    rate_per_s: f64,
    /// The rate that the store last told.
    told_per_s: f64,
    /// When the store last answered.
    answered: Moment,
    /// When the nodes last asked; `None`: they never did.
    asked: Option<Moment>,
    /// Whether they waited in vain then.
    in_vain: bool,
}

impl State {
    /// `None`: the module is not there, which [`Store::check`] refuses.
    pub(crate) fn new(policy: &Policy) -> Option<Self> {
        let parameters = policy.store.clone()?;
        let (index, _, shared) = policy.admission.get_full(&parameters.module)?;
        let rate_per_s = rate_per_s(shared)?;
        let mut state = Self {
            nodes: Vec::with_capacity(parameters.nodes as usize),
            shared: shared.clone(),
            unit: index as u8,
            rate_per_s,
            told_per_s: rate_per_s,
            answered: Moment::ZERO,
            asked: None,
            in_vain: false,
            parameters,
        };
        state.deal(Moment::ZERO);
        Some(state)
    }

    /// Takes changed parameters over. The nodes hear of a changed rate at their next refresh.
    pub(crate) fn adopt(&mut self, now: Moment, policy: &Policy) {
        let Some(parameters) = &policy.store else { return };
        let Some(shared) = policy.admission.get(&parameters.module) else { return };
        let redeal = self.parameters.nodes != parameters.nodes
            || self.parameters.divided != parameters.divided
            || for_node(&self.shared, 1.0, (0, 1)) != for_node(shared, 1.0, (0, 1));
        self.parameters = parameters.clone();
        self.shared = shared.clone();
        if redeal {
            self.deal(now);
        }
    }

    /// Hands the rate out to the nodes.
    fn deal(&mut self, now: Moment) {
        let Store { nodes, divided, .. } = self.parameters;
        self.nodes.truncate(nodes as usize);
        for index in 0..nodes {
            let part = if divided { (index, nodes) } else { (0, 1) };
            let local = for_node(&self.shared, self.rate_per_s, part);
            match self.nodes.get_mut(index as usize) {
                Some(node) => node.adopt(now, &local),
                None => self.nodes.push(admission::State::new(&local)),
            }
        }
    }

    fn use_rate(&mut self, now: Moment, rate_per_s: f64) {
        if self.rate_per_s != rate_per_s {
            self.rate_per_s = rate_per_s;
            self.deal(now);
        }
    }

    pub(crate) fn period_ns(&self) -> u64 {
        nanos(self.parameters.sync_period_s)
    }

    /// Whether the nodes ask now: after the period, or when they have waited in vain for longer.
    fn is_due(&self, now: Moment) -> bool {
        let timeout_ns = if self.in_vain { nanos(self.parameters.timeout_s) } else { 0 };
        self.asked.is_none_or(|asked| now >= asked.after(self.period_ns().max(timeout_ns)))
    }

    /// The limiter of the node that this request comes to, if the module with this index is the shared one.
    #[inline]
    pub(crate) fn node(&mut self, unit: u8, ticket: Ticket) -> Option<&mut admission::State> {
        if unit != self.unit {
            return None;
        }
        let index = Spread::of(ticket.0) % self.nodes.len() as u64;
        self.nodes.get_mut(index as usize)
    }

    /// The limiters of all nodes, if the module with this index is the shared one.
    pub(crate) fn nodes(&self, unit: u8) -> Option<&[admission::State]> {
        (unit == self.unit).then_some(&self.nodes)
    }

    /// The nodes ask the store, if it is time. `timed_out`: it does not answer; `down`: all limiter nodes
    /// are down. What the nodes use in place of an answer, if they had none.
    pub(crate) fn refresh(&mut self, now: Moment, timed_out: bool, down: bool) -> Option<Refusal> {
        if !self.is_due(now) {
            return None;
        }
        let Store { keep_last_s, fixed_rate_per_s, .. } = self.parameters;
        let age_s = now.seconds_since(self.answered);
        (self.asked, self.in_vain) = (Some(now), timed_out && !down);
        if down {
            self.use_rate(now, fixed_rate_per_s);
            return Some(Refusal::new(Reason::StoreFixedRate, age_s, 0.0));
        }
        if timed_out {
            let (why, rate) = if age_s <= keep_last_s {
                (Reason::StoreTimedOut, self.told_per_s)
            } else {
                (Reason::StoreFixedRate, fixed_rate_per_s)
            };
            self.use_rate(now, rate);
            return Some(Refusal::new(why, age_s, keep_last_s));
        }
        self.answered = now;
        if let Some(rate) = rate_per_s(&self.shared) {
            self.told_per_s = rate;
            self.use_rate(now, rate);
        }
        None
    }

    /// Whether an empty set of rules would be taken for the rules.
    pub(crate) fn accepts_empty_rules(&self) -> bool {
        self.parameters.accept_empty_rules
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
