//! What a module noted about each attempt that it deals with, to settle when the attempt or the call ends:
//! an array indexed by the low 32 bits of the ticket, as the governor's own.

use crate::Ticket;
use serde::{Deserialize, Serialize};

/// A note of `T` on each attempt that is inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noted<T> {
    slots: Vec<Option<(Ticket, T)>>,
}

impl<T> Default for Noted<T> {
    fn default() -> Self {
        Self { slots: Vec::new() }
    }
}

impl<T: Copy> Noted<T> {
    /// Notes something about an attempt; what its slot held before is handed back.
    #[inline]
    pub(crate) fn put(&mut self, ticket: Ticket, note: T) -> Option<T> {
        let index = ticket.slot();
        if index >= self.slots.len() {
            self.slots.resize(index + 1, None);
        }
        self.slots[index].replace((ticket, note)).map(|(_, note)| note)
    }

    /// The note in the slot of an attempt, whosever it is, which is then forgotten.
    #[inline]
    pub(crate) fn evict(&mut self, ticket: Ticket) -> Option<(Ticket, T)> {
        self.slots.get_mut(ticket.slot())?.take()
    }

    /// The note on an attempt.
    #[inline]
    pub(crate) fn get(&self, ticket: Ticket) -> Option<T> {
        self.slots.get(ticket.slot())?.filter(|(of, _)| *of == ticket).map(|(_, note)| note)
    }

    /// The note on an attempt, which is then forgotten.
    #[inline]
    pub(crate) fn take(&mut self, ticket: Ticket) -> Option<T> {
        self.slots.get_mut(ticket.slot())?.take_if(|(of, _)| *of == ticket).map(|(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_once_and_only_by_its_own_ticket() {
        let mut noted = Noted::default();
        assert_eq!(noted.put(Ticket::of(5, 1), 'a'), None);
        assert_eq!(noted.take(Ticket::of(5, 2)), None);
        assert_eq!(noted.take(Ticket::of(9, 1)), None);
        assert_eq!(noted.take(Ticket::of(5, 1)), Some('a'));
        assert_eq!(noted.take(Ticket::of(5, 1)), None);
        noted.put(Ticket::of(5, 1), 'b');
        assert_eq!(noted.evict(Ticket::of(5, 2)), Some((Ticket::of(5, 1), 'b')));
        assert_eq!(noted.evict(Ticket::of(5, 1)), None);
    }
}
