//! What the governor remembers of each attempt in flight: an array indexed by the low 32 bits of the
//! ticket, which the driver keeps small and dense. Finding an attempt is one read; one that is over
//! costs nothing.

use crate::queueing::Place;
use crate::{CallView, Moment, RequestView, Site, Ticket};
use serde::{Deserialize, Serialize};

/// Where an attempt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    /// It does not wait for the governor.
    Free,
    /// In the queue.
    Queued(Place),
    /// In the line of a gate.
    Waiting { gate: u8, site: Site, position: u64, deadline: Moment },
    /// Its call is held back until its turn.
    Turn { site: Site, deadline: Moment },
    /// It waited and was given its permits; the driver has not been told yet.
    Granted { site: Site },
}

/// What is remembered of one attempt.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Slot {
    live: bool,
    pub(crate) standing: Standing,
    /// Bit i is set while module i holds something for it until its end: a permit, or an estimate.
    pub(crate) held: u64,
    pub(crate) request: RequestView,
}

impl Slot {
    fn new(request: RequestView) -> Self {
        Self { live: true, standing: Standing::Free, held: 0, request }
    }
}

/// All attempts in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tickets {
    slots: Vec<Slot>,
}

impl Tickets {
    /// Starts to remember an attempt; what its slot held before is over.
    #[inline]
    pub(crate) fn enter(&mut self, request: &RequestView) -> &mut Slot {
        let index = request.ticket.slot();
        if index >= self.slots.len() {
            let mut empty = Slot::new(RequestView::new(Ticket(u64::MAX)));
            empty.live = false;
            self.slots.resize(index + 1, empty);
        }
        let slot = &mut self.slots[index];
        *slot = Slot::new(*request);
        // A broken number from the classifier must not spoil a saved state.
        if !request.intent_complexity.is_finite() {
            slot.request.intent_complexity = 0.0;
        }
        slot
    }

    /// The attempt, if it is remembered.
    #[inline]
    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Slot> {
        self.slots.get_mut(ticket.slot()).filter(|slot| slot.live && slot.request.ticket == ticket)
    }

    /// The attempt that is remembered in the slot of this ticket, whichever it is.
    #[inline]
    pub(crate) fn occupant(&self, ticket: Ticket) -> Option<Ticket> {
        self.slots.get(ticket.slot()).filter(|slot| slot.live).map(|slot| slot.request.ticket)
    }

    /// What is known of the attempt that makes a call. One that never arrived is remembered as far as
    /// the call tells; `None`: its slot is another's by now.
    #[inline]
    pub(crate) fn of_call(&mut self, call: &CallView) -> Option<RequestView> {
        match self.occupant(call.ticket) {
            Some(ticket) if ticket == call.ticket => Some(self.slots[ticket.slot()].request),
            Some(_) => None,
            None => {
                let CallView { ticket, endpoint, class, tenant, .. } = *call;
                let request = RequestView { endpoint, class, tenant, ..RequestView::new(ticket) };
                self.enter(&request);
                Some(request)
            }
        }
    }

    /// Forgets an attempt and says where it stood and what it held.
    #[inline]
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Slot> {
        let slot = self.get_mut(ticket)?;
        slot.live = false;
        Some(*slot)
    }

    /// Who stands in a line was moved to another position.
    pub(crate) fn moved(&mut self, ticket: Ticket, to: u64) {
        let Some(slot) = self.get_mut(ticket) else { return };
        match &mut slot.standing {
            Standing::Queued(Place { position, .. }) | Standing::Waiting { position, .. } => *position = to,
            Standing::Free | Standing::Turn { .. } | Standing::Granted { .. } => {}
        }
    }

    /// Who stands in the queue was moved to the one with this index.
    pub(crate) fn moved_to_queue(&mut self, ticket: Ticket, queue: u8) {
        if let Some(Slot { standing: Standing::Queued(place), .. }) = self.get_mut(ticket) {
            place.class = queue;
        }
    }

    /// Where in the queue an attempt stands, if it does.
    pub(crate) fn queued_at(&self, ticket: Ticket) -> Option<Place> {
        let slot = self.slots.get(ticket.slot())?;
        match slot.standing {
            Standing::Queued(place) if slot.live && slot.request.ticket == ticket => Some(place),
            _ => None,
        }
    }
}
