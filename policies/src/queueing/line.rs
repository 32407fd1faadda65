//! A line of waiting tickets, first come first served, that anybody may leave from any place in it.
//!
//! Each entry has a position that never changes while it stands (except when gaps are closed), so
//! leaving is one write: the entry becomes a gap. Gaps at the two ends are dropped at once, gaps within
//! are skipped when the head reaches them, and all are closed when they outnumber the waiting.
//! A linked list was rejected: it costs two more random writes on the path that every request takes,
//! to speed up the one that only those who give up take.

use crate::{Moment, Ticket};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Gaps that are tolerated beside as many as there are waiting entries.
const FEW_GAPS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Entry {
    /// `None`: a gap.
    ticket: Option<Ticket>,
    since: Moment,
}

/// Tickets in order of arrival.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Line {
    entries: VecDeque<Entry>,
    /// Position of the first entry.
    head: u64,
    waiting: usize,
}

impl Line {
    /// How many wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Joins at the end; returns the position. Closes the gaps first when there are many, and then
    /// tells `moved` everybody's new position.
    #[inline]
    pub(crate) fn join(&mut self, ticket: Ticket, now: Moment, moved: impl FnMut(Ticket, u64)) -> u64 {
        if self.entries.len() > 2 * self.waiting + FEW_GAPS {
            self.close_gaps(moved);
        }
        let position = self.head + self.entries.len() as u64;
        self.entries.push_back(Entry { ticket: Some(ticket), since: now });
        self.waiting += 1;
        position
    }

    /// Who stands first, and since when.
    #[inline]
    pub(crate) fn first(&self) -> Option<(Ticket, Moment)> {
        // The first entry is never a gap: `pop` and `remove` see to it.
        self.entries.front().and_then(|entry| entry.ticket.map(|ticket| (ticket, entry.since)))
    }

    /// Takes the first out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(Ticket, Moment)> {
        let entry = self.entries.pop_front()?;
        self.head += 1;
        self.waiting -= 1;
        self.drop_gaps_in_front();
        entry.ticket.map(|ticket| (ticket, entry.since))
    }

    /// Takes the last out: the one that came latest.
    #[inline]
    pub(crate) fn pop_last(&mut self) -> Option<(Ticket, Moment)> {
        let entry = self.entries.pop_back()?;
        self.waiting -= 1;
        self.drop_gaps_at_the_back();
        entry.ticket.map(|ticket| (ticket, entry.since))
    }

    /// Since when each waits, in order of arrival.
    pub(crate) fn waits(&self) -> impl DoubleEndedIterator<Item = Moment> {
        self.entries.iter().filter(|entry| entry.ticket.is_some()).map(|entry| entry.since)
    }

    /// How many stand before `position`, and since when the one at `position` stands there.
    pub(crate) fn ahead(&self, position: u64) -> Option<(usize, Moment)> {
        let index = position.checked_sub(self.head)? as usize;
        let since = self.entries.get(index)?.since;
        if self.entries.len() == self.waiting {
            return Some((index, since));
        }
        let before = self.entries.iter().take(index);
        Some((before.filter(|entry| entry.ticket.is_some()).count(), since))
    }

    /// Leaves from `position`.
    pub(crate) fn remove(&mut self, position: u64) {
        let Some(index) = position.checked_sub(self.head) else { return };
        let Some(entry) = self.entries.get_mut(index as usize) else { return };
        if entry.ticket.take().is_none() {
            return;
        }
        self.waiting -= 1;
        self.drop_gaps_in_front();
        self.drop_gaps_at_the_back();
    }

    #[inline]
    fn drop_gaps_at_the_back(&mut self) {
        while self.entries.back().is_some_and(|entry| entry.ticket.is_none()) {
            self.entries.pop_back();
        }
    }

    #[inline]
    fn drop_gaps_in_front(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.ticket.is_none()) {
            self.entries.pop_front();
            self.head += 1;
        }
    }

    /// A constant per entry that ever left, since it is done only when gaps outnumber the waiting.
    #[cold]
    fn close_gaps(&mut self, mut moved: impl FnMut(Ticket, u64)) {
        self.entries.retain(|entry| entry.ticket.is_some());
        for (index, entry) in self.entries.iter().enumerate() {
            if let Some(ticket) = entry.ticket {
                moved(ticket, self.head + index as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a plain vector would do.
    #[derive(Default)]
    struct Naive(Vec<Ticket>);

    #[derive(Clone, Debug)]
    enum Step {
        Push,
        Pop,
        PopLast,
        Leave(prop::sample::Index),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Push),
            1 => Just(Step::Pop),
            1 => Just(Step::PopLast),
            3 => any::<prop::sample::Index>().prop_map(Step::Leave),
        ];
        prop::collection::vec(step, 0..600)
    }

    proptest! {
        #[test]
        fn a_line_does_what_a_vector_does(steps in steps()) {
            let (mut line, mut naive) = (Line::default(), Naive::default());
            let mut places = std::collections::BTreeMap::new();
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push => {
                        let ticket = Ticket(i as u64);
                        let mut moves = Vec::new();
                        let place = line.join(ticket, Moment(i as u64), |ticket, to| moves.push((ticket, to)));
                        places.extend(moves);
                        places.insert(ticket, place);
                        naive.0.push(ticket);
                    }
                    Step::Pop => {
                        let expected = (!naive.0.is_empty()).then(|| naive.0.remove(0));
                        prop_assert_eq!(line.pop().map(|(ticket, _)| ticket), expected);
                    }
                    Step::PopLast => {
                        prop_assert_eq!(line.pop_last().map(|(ticket, _)| ticket), naive.0.pop());
                    }
                    Step::Leave(which) if !naive.0.is_empty() => {
                        let ticket = naive.0.remove(which.index(naive.0.len()));
                        line.remove(places[&ticket]);
                        line.remove(places[&ticket]); // The second time it must do nothing.
                    }
                    Step::Leave(_) => {}
                }
                prop_assert_eq!(line.len(), naive.0.len());
                prop_assert_eq!(line.first().map(|(ticket, _)| ticket), naive.0.first().copied());
                prop_assert_eq!(line.waits().count(), naive.0.len());
                for (before, ticket) in naive.0.iter().enumerate() {
                    prop_assert_eq!(line.ahead(places[ticket]).map(|(ahead, _)| ahead), Some(before));
                }
                prop_assert!(line.entries.len() <= 2 * line.len() + FEW_GAPS + 1);
            }
        }
    }
}
