//! Calls: limiters and gates at the point where a resource is used.
//!
//! A call passes the guard of the reranker, then the limiters of rates, which may hold it back until its
//! turn, then the gates, each in the order of the file. While it waits at a gate it keeps the permits it has;
//! all calls take gates in one order, so none waits in a circle. An attempt makes one call at a time.
//!
//! A call that comes to a full gate out of the line of an earlier one stands there for as long as a newcomer
//! would, or for what is left of its wait at the earlier one if that is longer: the driver was told that
//! bound, and asks when it is reached. So it may stand for a while also at a gate at which no newcomer
//! waits. Turning it away at once was rejected: it has waited already, and others behind it have not.

use super::tickets::Standing;
use super::{Governor, UNIT_RERANK};
use crate::admission::{Refusal, Verdict};
use crate::{Call, CallEnd, CallView, End, Moment, Reason, Signals, Site, Ticket};

impl Governor {
    /// Whether anything stands at this site. Where nothing does, a driver need not ask.
    #[inline]
    pub fn site_is_gated(&self, site: Site) -> bool {
        let here = &self.sites[site.index()];
        !here.prompt.is_empty() || !here.gates.is_empty()
    }

    /// Asks whether a call may be made. After [`Call::Skip`] and [`Call::Busy`], [`Governor::woken`] may
    /// have calls to name.
    pub fn call(&mut self, now: Moment, call: &CallView, signals: &Signals) -> Call {
        if !self.site_is_gated(call.site) {
            return Call::Proceed;
        }
        let CallView { ticket, site, .. } = *call;
        // A call of an attempt that is long over is none of the governor's business.
        let Some(request) = self.tickets.of_call(call) else { return Call::Proceed };
        if let Some(answer) = self.already_asked(now, ticket) {
            return answer;
        }
        if site == Site::RerankCall
            && let Some(guard) = &mut self.rerank
            && let Some(refusal) = guard.closed(now, ticket)
        {
            self.note(now, UNIT_RERANK, &refusal);
            return answer(&refusal);
        }
        let mut turn_ns = 0;
        for index in 0..self.sites[site.index()].prompt.len() {
            let unit = self.sites[site.index()].prompt[index];
            let module = &mut self.units[usize::from(unit)];
            match module.state.ask(now, module.key.of(&request), &request, signals) {
                Verdict::Pass => {}
                Verdict::Wait(ns) => turn_ns = ns.max(turn_ns),
                Verdict::Hold => {
                    if let Some(slot) = self.tickets.get_mut(ticket) {
                        slot.held |= 1 << unit;
                    }
                }
                Verdict::Refuse(refusal) => return self.refuse(now, ticket, site, unit, &refusal),
            }
        }
        if turn_ns > 0
            && let Some(slot) = self.tickets.get_mut(ticket)
        {
            let deadline = now.after(turn_ns);
            slot.standing = Standing::Turn { site, deadline };
            return Call::Wait { at_most_ns: turn_ns };
        }
        self.go_on(now, ticket, site)
    }

    /// What a call is told that has only the gates before it.
    fn go_on(&mut self, now: Moment, ticket: Ticket, site: Site) -> Call {
        match self.pass_gates(now, ticket, site, 0, now) {
            // A gate that lets nobody wait answers at once.
            Call::Wait { at_most_ns: 0 } => self.waited(now, ticket, site),
            answer => answer,
        }
    }

    /// The answer to an attempt that asks again while its call is held.
    fn already_asked(&mut self, now: Moment, ticket: Ticket) -> Option<Call> {
        let slot = self.tickets.get_mut(ticket)?;
        match slot.standing {
            Standing::Free => None,
            Standing::Turn { deadline, .. } | Standing::Waiting { deadline, .. } => {
                Some(Call::Wait { at_most_ns: deadline.since(now) })
            }
            Standing::Granted { .. } => {
                slot.standing = Standing::Free;
                Some(Call::Proceed)
            }
            Standing::Queued(_) => Some(Call::Proceed),
        }
    }

    /// A held call's longest wait is over. Answers what to do with it: [`Call::Proceed`] when it was given
    /// its permit at this very moment, was held back until its turn, or does not wait at all;
    /// [`Call::Wait`] when it stands at a later gate whose wait is not over. After [`Call::Skip`] and
    /// [`Call::Busy`], [`Governor::woken`] may have calls to name.
    pub fn waited(&mut self, now: Moment, ticket: Ticket, site: Site) -> Call {
        let Some(slot) = self.tickets.get_mut(ticket) else { return Call::Proceed };
        match slot.standing {
            Standing::Turn { site: at, deadline } | Standing::Waiting { site: at, deadline, .. }
                if at == site && now < deadline =>
            {
                Call::Wait { at_most_ns: deadline.since(now) }
            }
            Standing::Turn { site: at, .. } if at == site => {
                slot.standing = Standing::Free;
                self.go_on(now, ticket, site)
            }
            Standing::Waiting { gate, site: at, position, .. } if at == site => {
                slot.standing = Standing::Free;
                let request = slot.request;
                let key = self.key_at(gate, &request);
                let Some(found) = self.gate(gate) else { return Call::Proceed };
                found.permits.leave(key, position);
                let refusal = found.turned_away(key);
                if gate == UNIT_RERANK
                    && let Some(guard) = &mut self.rerank
                {
                    guard.expired(now, ticket);
                }
                self.refuse(now, ticket, site, gate, &refusal)
            }
            Standing::Granted { site: at } if at == site => {
                slot.standing = Standing::Free;
                Call::Proceed
            }
            _ => Call::Proceed,
        }
    }

    /// Names a held call that was given its permit and proceeds now; ask until there is none. It has news
    /// after [`Governor::ended`], [`Governor::left`], [`Governor::set`], and after a refusal by
    /// [`Governor::call`] or [`Governor::waited`].
    #[inline]
    pub fn woken(&mut self) -> Option<(Ticket, Site)> {
        while let Some((ticket, site)) = self.woken.pop_front() {
            // It may have left, or have been told by `waited`.
            if let Some(slot) = self.tickets.get_mut(ticket)
                && slot.standing == (Standing::Granted { site })
            {
                slot.standing = Standing::Free;
                return Some((ticket, site));
            }
        }
        None
    }

    /// A call ended: its permits come back, and what it showed is counted.
    pub fn ended(&mut self, now: Moment, end: &CallEnd) {
        match end.site {
            Site::LlmCall if end.timed_out => self.ladder.timed_out(now),
            Site::RerankCall => {
                if let Some(guard) = &mut self.rerank {
                    guard.ended(now, end.ticket, end.latency_ns, end.ok);
                }
            }
            Site::LlmCall => {}
            // What stands there is held until the attempt is over.
            Site::Front | Site::AfterRetrieval => return,
        }
        self.release(now, end.ticket, end.site, &end.into());
    }

    /// Takes the gates of a site from the one at index `from`; waits at the first that is full, to
    /// `at_least_until` in any case.
    fn pass_gates(
        &mut self,
        now: Moment,
        ticket: Ticket,
        site: Site,
        from: usize,
        at_least_until: Moment,
    ) -> Call {
        for index in from..self.sites[site.index()].gates.len() {
            let unit = self.sites[site.index()].gates[index];
            let Some(slot) = self.tickets.get_mut(ticket) else { return Call::Proceed };
            if slot.held & (1 << unit) != 0 {
                // It has not given this permit back, so it goes on with it.
                continue;
            }
            let request = slot.request;
            let key = self.key_at(unit, &request);
            let Some(gate) = self.gate(unit) else { continue };
            if gate.permits.take(key, gate.limit).is_ok() {
                if let Some(slot) = self.tickets.get_mut(ticket) {
                    slot.held |= 1 << unit;
                }
                continue;
            }
            let deadline = now.after(gate.wait_ns).max(at_least_until);
            let position = self.join(now, unit, key, ticket);
            if let Some(slot) = self.tickets.get_mut(ticket) {
                slot.standing = Standing::Waiting { gate: unit, site, position, deadline };
            }
            return Call::Wait { at_most_ns: deadline.since(now) };
        }
        Call::Proceed
    }

    /// Turns a call away: what it took at this site comes back.
    fn refuse(&mut self, now: Moment, ticket: Ticket, site: Site, unit: u8, refusal: &Refusal) -> Call {
        self.note(now, unit, refusal);
        if site == Site::RerankCall
            && let Some(guard) = &mut self.rerank
        {
            guard.gone(now, ticket);
        }
        self.release(now, ticket, site, &End::REFUSED);
        answer(refusal)
    }

    /// Gives back what an attempt holds at a site.
    fn release(&mut self, now: Moment, ticket: Ticket, site: Site, end: &End) {
        let here = self.sites[site.index()].mask;
        let Some(slot) = self.tickets.get_mut(ticket) else { return };
        let held = slot.held & here;
        if held == 0 {
            return;
        }
        slot.held &= !here;
        let request = slot.request;
        self.give_back(now, held, &request, end);
    }

    /// Tells these modules how it ended, and gives their permits back, each to the first that waits for it.
    pub(super) fn give_back(&mut self, now: Moment, mut held: u64, request: &crate::RequestView, end: &End) {
        while held != 0 {
            let unit = held.trailing_zeros() as u8;
            held &= held - 1;
            let key = self.key_at(unit, request);
            if let Some(unit) = self.units.get_mut(usize::from(unit)) {
                unit.state.ended(now, key, request, end);
            }
            if let Some(gate) = self.gate(unit) {
                gate.permits.give_back(key);
                self.grant(now, unit, key);
            }
        }
    }

    /// Hands free permits of a gate to those waiting, and takes them on to the next gates.
    pub(super) fn grant(&mut self, now: Moment, unit: u8, key: u64) {
        while let Some(gate) = self.gate(unit) {
            let Some(ticket) = gate.permits.grant(key, gate.limit) else { return };
            let waiting = self.tickets.get_mut(ticket).and_then(|slot| match slot.standing {
                Standing::Waiting { site, deadline, .. } => Some((slot, site, deadline)),
                _ => None,
            });
            let Some((slot, site, deadline)) = waiting else {
                debug_assert!(false, "one that left still stood in the line");
                if let Some(gate) = self.gate(unit) {
                    gate.permits.give_back(key);
                }
                return;
            };
            slot.held |= 1 << unit;
            slot.standing = Standing::Free;
            let next = self.sites[site.index()].gates.iter().position(|&gate| gate == unit);
            let next = next.map_or(0, |index| index + 1);
            if self.pass_gates(now, ticket, site, next, deadline) == Call::Proceed {
                if let Some(slot) = self.tickets.get_mut(ticket) {
                    slot.standing = Standing::Granted { site };
                }
                self.woken.push_back((ticket, site));
            }
        }
    }

    /// Joins the line of a gate; returns the position.
    fn join(&mut self, now: Moment, unit: u8, key: u64, ticket: Ticket) -> u64 {
        // The gates' owners and the tickets are borrowed apart, so `Self::gate` does not serve here.
        let permits = match unit {
            UNIT_RERANK => self.rerank.as_mut().map(|guard| guard.gate().permits),
            _ => self
                .units
                .get_mut(usize::from(unit))
                .and_then(|unit| unit.state.gate())
                .map(|gate| gate.permits),
        };
        let tickets = &mut self.tickets;
        permits.map_or(0, |permits| {
            permits.join(key, ticket, now, |ticket, position| tickets.moved(ticket, position))
        })
    }
}

/// What a refused call is told.
fn answer(refusal: &Refusal) -> Call {
    let why: Reason = refusal.why;
    match refusal.keep {
        Some(keep) => Call::Skip { why, keep },
        None => Call::Busy { why, retry_after_ns: refusal.retry_after_ns },
    }
}
