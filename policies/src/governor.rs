//! The governor: the composition of all policy modules that a gateway drives.
//!
//! # Order of decisions
//! On arrival, the admission modules at the front are asked first, in the order of the file: a request
//! that they turn away is turned away at every level. Then the level is read. L3 and L4 need no slot of
//! the model, so they start at once; L1 and L2 join the queue, and their level is read again when they
//! leave it. Without a queue they start at once too.
//!
//! # What a driver owes
//! - Moments never go back. A ticket arrives once; its slot index is small (see [`Ticket`]).
//! - Every attempt that was not rejected ends with one [`Governor::left`], whatever ended it; rejected
//!   and dropped ones need none, and it does no harm.
//! - Every call that proceeds ends with one [`Governor::ended`], or with the attempt's `left`.
//! - A held call ([`crate::Call::Wait`]) either is named by [`Governor::woken`] or, when its time is up, is asked
//!   about with [`Governor::waited`].
//! - [`Governor::tick`] is called as often as [`Governor::tick_period_ns`] says.
//!
//! The state is plain data: a governor that is saved and restored goes on as if nothing had happened.

mod calls;
mod expected_wait;
mod explain;
mod loops;
mod routes;
pub(crate) mod tickets;

pub use explain::Explanation;

use crate::admission::{self, Gate, Key, Refusal, Verdict};
use crate::fallback::floor::Floors;
use crate::fallback::{levels::Ladder, providers, rerank_guard};
use crate::notice::Lost;
use crate::queueing::{self, Popped};
use crate::store::{self, FallbackUses};
use crate::{
    Arrival, Dispatch, End, Level, Moment, Next, Policy, PolicyError, Reason, RequestView, Signals, Site,
    Ticket,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use tickets::{Slot, Standing, Tickets};

/// Most admission modules: a bit each in an attempt's set of permits, and a few for other gates.
pub const MOST_ADMISSION_MODULES: usize = 32;
/// The number of documents, where modules are told apart by a number.
const UNIT_TOP_K: u8 = 58;
/// The cache as last resort, likewise.
const UNIT_CACHE: u8 = 59;
/// Fail-over between providers, likewise.
const UNIT_PROVIDERS: u8 = 60;
/// The queue, where modules are told apart by a number.
const UNIT_QUEUE: u8 = 61;
/// The ladder, likewise.
const UNIT_LADDER: u8 = 62;
/// The reranker's guard, likewise.
const UNIT_RERANK: u8 = 63;

/// The store, likewise.
const UNIT_STORE: u8 = 50;

/// How often the ladder is read when nothing arrives: the published limiter loop, 100 ms.
const TICK_NS: u64 = 100_000_000;

/// An admission module in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Unit {
    key: Key,
    state: admission::State,
}

/// What stands at one site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct SiteUnits {
    /// Modules that answer at once, in the order of the file: at the front all, elsewhere all but gates.
    prompt: Vec<u8>,
    /// Gates, at which a call may wait, in the order of the file.
    gates: Vec<u8>,
    /// One bit per module that stands here.
    mask: u64,
}

/// All policy modules, and their state.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Governor {
    policy: Policy,
    units: Vec<Unit>,
    /// By [`Site::index`].
    sites: [SiteUnits; 4],
    queue: Option<queueing::State>,
    ladder: Ladder,
    floors: Floors,
    rerank: Option<rerank_guard::State>,
    providers: providers::State,
    tickets: Tickets,
    /// Held calls that were given their permits and have not been named yet.
    woken: VecDeque<(Ticket, Site)>,
    /// The newest comparison by [`Reason::index`].
    evidence: Vec<Option<explain::Evidence>>,
    lost: Lost,
    loops: loops::Loops,
    store: Option<store::State>,
    uses: FallbackUses,
    pace: expected_wait::Pace,
}

impl Governor {
    /// The governor of this policy.
    ///
    /// # Errors
    /// A parameter is out of its range, or two contradict each other; the error names its path.
    pub fn new(policy: &Policy) -> Result<Self, PolicyError> {
        policy.check()?;
        let mut sites: [SiteUnits; 4] = Default::default();
        let mut units = Vec::with_capacity(policy.admission.len());
        for (index, parameters) in policy.admission.values().enumerate() {
            let mut state = admission::State::new(parameters);
            // At the front nobody waits, so gates answer like all others, in the order of the file.
            let is_gate = parameters.place() != Site::Front && state.gate().is_some();
            let here = &mut sites[parameters.place().index()];
            here.mask |= 1 << index;
            if is_gate { &mut here.gates } else { &mut here.prompt }.push(index as u8);
            units.push(Unit { key: parameters.key(), state });
        }
        let rerank = policy.fallback.rerank.as_ref().map(rerank_guard::State::new);
        if rerank.is_some() {
            let here = &mut sites[Site::RerankCall.index()];
            here.gates.push(UNIT_RERANK);
            here.mask |= 1 << UNIT_RERANK;
        }
        Ok(Self {
            units,
            sites,
            queue: policy.queue.as_ref().map(queueing::State::new),
            ladder: Ladder::new(&policy.fallback),
            floors: policy.fallback.class,
            rerank,
            providers: providers::State::new(policy.fallback.providers.as_ref()),
            tickets: Tickets::default(),
            woken: VecDeque::new(),
            evidence: vec![None; Reason::COUNT],
            lost: Lost::default(),
            loops: loops::Loops::new(policy),
            store: store::State::new(policy),
            uses: FallbackUses::default(),
            pace: expected_wait::Pace::default(),
            policy: policy.clone(),
        })
    }

    /// The policy as it stands, with what [`Governor::set`] changed.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides on an arriving attempt.
    pub fn arrived(&mut self, now: Moment, request: &RequestView, signals: &Signals) -> Arrival {
        if let Some(before) = self.tickets.occupant(request.ticket) {
            // The driver uses the slot again and has not said that the last attempt is over.
            self.left(now, before, &End::GONE);
        }
        let mut held = 0_u64;
        let limiters = if self.wiped(now) { 0 } else { self.sites[Site::Front.index()].prompt.len() };
        for index in 0..limiters {
            let unit = self.sites[Site::Front.index()].prompt[index];
            let module = &mut self.units[usize::from(unit)];
            let node = self.store.as_mut().and_then(|store| store.node(unit, request.ticket));
            match node.unwrap_or(&mut module.state).ask(now, module.key.of(request), request, signals) {
                // No module at the front asks to wait: their checks see to it.
                Verdict::Pass | Verdict::Wait(_) => {}
                Verdict::Hold => held |= 1 << unit,
                Verdict::Refuse(refusal) => return self.turn_away(now, held, request, unit, &refusal),
            }
        }
        let (mut level, mut why) = self.read_ladder(now, signals);
        // A queued request's level is read again when it is served; until then only L3 and L4 decide.
        if level >= Level::L3 || self.queue.is_none() {
            match self.floors.settle(request.class, level, why) {
                Ok(settled) => {
                    self.note_floor(now, request.class, level, settled.1);
                    (level, why) = settled;
                }
                Err(refusal) => return self.turn_away(now, held, request, UNIT_LADDER, &refusal),
            }
        }
        let slot = self.tickets.enter(request);
        slot.held = held;
        if level >= Level::L3 {
            return Arrival::Degrade { level, why };
        }
        let Some(queue) = &mut self.queue else {
            return if level == Level::L1 { Arrival::Admit } else { Arrival::Degrade { level, why } };
        };
        match queue.push(now, request, signals, &mut self.tickets) {
            Ok(place) => {
                if let Some(slot) = self.tickets.get_mut(request.ticket) {
                    slot.standing = Standing::Queued(place);
                }
                Arrival::Queue { class: place.class }
            }
            Err(refusal) => {
                self.tickets.leave(request.ticket);
                self.turn_away(now, held, request, UNIT_QUEUE, &refusal)
            }
        }
    }

    /// A slot is free: which queued attempt is served next, and at which level. After [`Next::Drop`],
    /// ask again.
    pub fn next(&mut self, now: Moment, signals: &Signals) -> Next {
        loop {
            let Some(queue) = &mut self.queue else { return Next::Idle };
            if let Some((ticket, refusal)) = queue.pop_expired(now) {
                return self.drop_queued(now, ticket, UNIT_QUEUE, &refusal);
            }
            let (ticket, at_best) = match queue.pop(now, signals) {
                Popped::Serve(ticket) => (ticket, None),
                Popped::ServeAt(ticket, level, why) => (ticket, Some((level, why))),
                Popped::Nothing => return Next::Idle,
            };
            self.pace.served(now, queue.queued());
            let (mut level, mut why) = self.read_ladder(now, signals);
            if let Some((at_best, compared)) = at_best
                && at_best > level
            {
                (level, why) = (at_best, compared.why);
                self.note(now, UNIT_QUEUE, &compared);
            }
            let Some(slot) = self.tickets.get_mut(ticket) else { continue };
            slot.standing = Standing::Free;
            let class = slot.request.class;
            return match self.floors.settle(class, level, why) {
                Ok((settled, why)) => {
                    self.note_floor(now, class, level, why);
                    let top_k = self.top_k(now, signals);
                    Next::Serve(Dispatch { ticket, level: settled, why, top_k })
                }
                Err(refusal) => self.drop_queued(now, ticket, UNIT_LADDER, &refusal),
            };
        }
    }

    /// Turns one away that was taken out of the queue.
    fn drop_queued(&mut self, now: Moment, ticket: Ticket, unit: u8, refusal: &Refusal) -> Next {
        self.note(now, unit, refusal);
        self.left(now, ticket, &End::REFUSED);
        Next::Drop { ticket, why: refusal.why }
    }

    /// The attempt is over, or its user gave up: it leaves the queue or the line it stands in, and what
    /// it holds is given back. Then [`Governor::woken`] may have calls to name. A ticket that is not
    /// known costs one read.
    pub fn left(&mut self, now: Moment, ticket: Ticket, end: &End) {
        let Some(Slot { standing, held, request, .. }) = self.tickets.leave(ticket) else { return };
        match standing {
            Standing::Free | Standing::Turn { .. } | Standing::Granted { .. } => {}
            Standing::Queued(place) => {
                if let Some(queue) = &mut self.queue {
                    queue.remove(place);
                }
            }
            Standing::Waiting { gate: unit, position, .. } => {
                let key = self.key_at(unit, &request);
                if let Some(gate) = self.gate(unit) {
                    gate.permits.leave(key, position);
                }
            }
        }
        if let Some(guard) = &mut self.rerank {
            guard.gone(now, ticket);
        }
        self.providers.left(ticket);
        if held != 0 {
            self.give_back(now, held, &request, end);
        }
    }

    /// How many wait in the queue with this index.
    pub fn queue_len(&self, class: u8) -> usize {
        self.queue.as_ref().map_or(0, |queue| queue.len(class))
    }

    /// How many wait in all queues.
    pub fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, queueing::State::queued)
    }

    /// When the next queued attempt will have waited past its limit. A driver that wants it turned away
    /// then, and not only when a slot is free, calls [`Governor::expire`] at that moment.
    pub fn next_expiry(&self) -> Option<Moment> {
        self.queue.as_ref().and_then(queueing::State::next_expiry)
    }

    /// Turns away one queued attempt that has waited past its limit, if there is one; ask again until
    /// there is none.
    pub fn expire(&mut self, now: Moment) -> Option<(Ticket, Reason)> {
        let (ticket, refusal) = self.queue.as_mut()?.pop_expired(now)?;
        self.drop_queued(now, ticket, UNIT_QUEUE, &refusal);
        Some((ticket, refusal.why))
    }

    /// The level at which the ladder stood when it was last read.
    pub fn levels_now(&self) -> Level {
        self.ladder.last()
    }

    /// The share of its capacity, 0 to 1, that the emptiest bucket at the front holds now, over all nodes
    /// where they share one; `None`: there is no bucket. Reading it changes nothing.
    pub fn token_balance(&self, now: Moment, signals: &Signals) -> Option<f64> {
        let front = &self.sites[Site::Front.index()];
        let here = |&unit: &u8| match self.store.as_ref().and_then(|store| store.nodes(unit)) {
            Some(nodes) => nodes.iter().filter_map(|node| node.balance(now, signals)).reduce(f64::min),
            None => self.units.get(usize::from(unit))?.state.balance(now, signals),
        };
        front.prompt.iter().filter_map(here).reduce(f64::min)
    }

    /// How many permits a gate of `admission` has out for one value of its key (0 for a global gate);
    /// `None`: there is no such gate.
    pub fn permits_out(&mut self, module: &str, key: u64) -> Option<u32> {
        let index = self.policy.admission.get_index_of(module)?;
        self.units[index].state.gate().map(|gate| gate.permits.taken(key))
    }

    /// The gates of `admission` by name, each with the most that were inside at once for one value of its
    /// key.
    pub fn gate_peaks(&self) -> impl Iterator<Item = (&str, u32)> {
        let units = self.policy.admission.keys().zip(&self.units);
        units.filter_map(|(name, unit)| Some((name.as_str(), unit.state.most_inside()?)))
    }

    /// Sets the numeric parameter at `path`, such as `admission.entry.rate_per_s`, and goes on with what
    /// was counted so far. Then [`Governor::woken`] may have calls to name. This takes some
    /// microseconds, which is nothing beside the cooldown of a control loop.
    ///
    /// # Errors
    /// There is no such number, or the value is out of its range; nothing is changed then. The filters
    /// of `signals` belong to [`Signals`] and are not set here.
    pub fn set(&mut self, now: Moment, path: &str, value: f64) -> Result<(), PolicyError> {
        if path.split('.').next() == Some("signals") {
            return Err(PolicyError::Unknown { path: path.to_owned() });
        }
        let policy = self.policy.with(path, value)?;
        if path.split('.').next() == Some("feedback") {
            policy.check()?;
            self.loops.adopt(now, &policy);
        } else {
            policy.check_values()?;
        }
        self.adopt(now, policy);
        Ok(())
    }

    fn adopt(&mut self, now: Moment, policy: Policy) {
        for (unit, parameters) in self.units.iter_mut().zip(policy.admission.values()) {
            unit.state.adopt(now, parameters);
        }
        if let (Some(queue), Some(parameters)) = (&mut self.queue, &policy.queue) {
            queue.adopt(parameters);
        }
        if let (Some(guard), Some(parameters)) = (&mut self.rerank, &policy.fallback.rerank) {
            guard.adopt(parameters);
        }
        self.providers.adopt(policy.fallback.providers.as_ref());
        self.ladder.adopt(&policy.fallback);
        self.floors = policy.fallback.class;
        if let Some(store) = &mut self.store {
            store.adopt(now, &policy);
        }
        self.loops.changed(now, &policy);
        self.policy = policy;
        // A gate that was widened has room for those who wait.
        for unit in (0..self.units.len() as u8).chain([UNIT_RERANK]) {
            let keys = self.gate(unit).map(|gate| gate.permits.keys()).unwrap_or_default();
            for key in keys {
                self.grant(now, unit, key);
            }
        }
    }

    #[inline]
    fn read_ladder(&mut self, now: Moment, signals: &Signals) -> (Level, Reason) {
        let (level, why) = self.ladder.read(now, signals);
        if level > Level::L1
            && let Some(compared) = self.ladder.compared()
        {
            self.note(now, UNIT_LADDER, &compared);
        }
        (level, why)
    }

    #[inline]
    fn note_floor(&mut self, now: Moment, class: u8, level: Level, why: Reason) {
        if why == Reason::ClassMinLevel {
            let compared = Floors::compared(why, level, self.floors.of(class));
            self.note(now, UNIT_LADDER, &compared);
        }
    }

    fn turn_away(
        &mut self,
        now: Moment,
        held: u64,
        request: &RequestView,
        unit: u8,
        why: &Refusal,
    ) -> Arrival {
        self.note(now, unit, why);
        self.give_back(now, held, request, &End::REFUSED);
        Arrival::Reject { why: why.why, retry_after_ns: why.retry_after_ns }
    }

    #[inline]
    fn gate(&mut self, unit: u8) -> Option<Gate<'_>> {
        match unit {
            UNIT_RERANK => self.rerank.as_mut().map(rerank_guard::State::gate),
            _ => self.units.get_mut(usize::from(unit))?.state.gate(),
        }
    }

    #[inline]
    fn key_at(&self, unit: u8, request: &RequestView) -> u64 {
        self.units.get(usize::from(unit)).map_or(0, |unit| unit.key.of(request))
    }
}

#[cfg(test)]
mod tests;
