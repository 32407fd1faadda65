//! Waiting tickets in order of a rank, in one or more queues, that anybody may leave from any place.
//!
//! Entries stand in one table and keep their index for as long as they wait; each queue is a binary heap
//! of such indices, and each entry knows where in its heap it is. Leaving is therefore a logarithm and
//! needs no search, and those who are shifted in a heap need not be told. A list through the entries
//! keeps the order of arrival over all queues, so that the oldest is at hand for the time limit. Places
//! are used again: once the queues have been at their longest, nothing is allocated.
//!
//! Lines by quantised rank were rejected: they need no logarithm, but ties and aging would be served in
//! an order that depends on the width of a step, and a published rule is to be followed to the last bit.

use crate::{Moment, Ticket};
use serde::{Deserialize, Serialize};

/// No entry: the end of a list.
const NONE: u32 = u32::MAX;
/// The queue of an entry that is free.
const FREE: u8 = u8::MAX;

/// One who waits, or a free place.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry<T> {
    pub(crate) ticket: Ticket,
    pub(crate) since: Moment,
    /// The least is served first.
    rank: u64,
    /// Count of arrivals: among equal ranks the earlier is served first.
    arrival: u64,
    pub(crate) queue: u8,
    /// Index in its heap.
    at: u32,
    older: u32,
    newer: u32,
    /// Tells the uses of the place apart.
    generation: u32,
    pub(crate) data: T,
}

/// Those who wait, by queue and rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ranked<T> {
    entries: Vec<Entry<T>>,
    free: Vec<u32>,
    heaps: Vec<Vec<u32>>,
    oldest: u32,
    newest: u32,
    arrivals: u64,
}

/// A number as a rank: the order of numbers, negative ones included, is the order of ranks.
#[inline]
pub(crate) fn rank_of(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

impl<T: Copy> Ranked<T> {
    pub(crate) fn new(queues: usize) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            heaps: vec![Vec::new(); queues],
            oldest: NONE,
            newest: NONE,
            arrivals: 0,
        }
    }

    /// How many wait in a queue; 0 for one that there is not.
    #[inline]
    pub(crate) fn len(&self, queue: u8) -> usize {
        self.heaps.get(usize::from(queue)).map_or(0, Vec::len)
    }

    /// How many wait in all queues.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Joins a queue; returns the position, which it keeps.
    pub(crate) fn join(&mut self, queue: u8, ticket: Ticket, since: Moment, rank: u64, data: T) -> u64 {
        let heap = &mut self.heaps[usize::from(queue)];
        let mut entry = Entry {
            ticket,
            since,
            rank,
            arrival: self.arrivals,
            queue,
            at: heap.len() as u32,
            older: self.newest,
            newer: NONE,
            generation: 0,
            data,
        };
        self.arrivals += 1;
        let index = if let Some(index) = self.free.pop() {
            let place = &mut self.entries[index as usize];
            entry.generation = place.generation.wrapping_add(1);
            *place = entry;
            index
        } else {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        };
        heap.push(index);
        match self.newest {
            NONE => self.oldest = index,
            newest => self.entries[newest as usize].newer = index,
        }
        self.newest = index;
        self.rise(queue, entry.at as usize);
        self.position(index)
    }

    /// Takes the one who is served next out.
    #[inline]
    pub(crate) fn pop(&mut self, queue: u8) -> Option<Entry<T>> {
        let index = *self.heaps.get(usize::from(queue))?.first()?;
        Some(self.take_index(index))
    }

    /// Who has waited longest in all queues: the position and since when.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<(u64, Moment)> {
        let entry = self.entries.get(self.oldest as usize)?;
        Some((self.position(self.oldest), entry.since))
    }

    /// Takes the one at `position` out, if it still stands there.
    pub(crate) fn take(&mut self, position: u64) -> Option<Entry<T>> {
        let index = self.index(position)?;
        Some(self.take_index(index))
    }

    /// The one at `position`, if it still stands there.
    pub(crate) fn get(&self, position: u64) -> Option<&Entry<T>> {
        self.index(position).map(|index| &self.entries[index as usize])
    }

    /// How many of its own queue are served before the one at `position`.
    pub(crate) fn ahead(&self, position: u64) -> Option<usize> {
        let mine = self.get(position)?;
        let heap = &self.heaps[usize::from(mine.queue)];
        let before = |index: &&u32| {
            let other = &self.entries[**index as usize];
            (other.rank, other.arrival) < (mine.rank, mine.arrival)
        };
        Some(heap.iter().filter(before).count())
    }

    /// Moves those who are `wanted` from one queue to another, longest waiting first, until `room`
    /// are moved; tells `moved` who they are. Positions stay. Says whether all were moved.
    pub(crate) fn transfer(
        &mut self,
        (from, to): (u8, u8),
        mut room: usize,
        wanted: impl Fn(&T) -> bool,
        mut moved: impl FnMut(Ticket),
    ) -> bool {
        let mut next = self.oldest;
        while next != NONE {
            let entry = self.entries[next as usize];
            if entry.queue == from && wanted(&entry.data) {
                if room == 0 {
                    return false;
                }
                room -= 1;
                self.leave_heap(next);
                let heap = &mut self.heaps[usize::from(to)];
                let at = heap.len();
                heap.push(next);
                (self.entries[next as usize].queue, self.entries[next as usize].at) = (to, at as u32);
                self.rise(to, at);
                moved(entry.ticket);
            }
            next = entry.newer;
        }
        true
    }

    /// Gives everybody a new rank.
    pub(crate) fn rerank(&mut self, rank: impl Fn(Moment, &T) -> u64) {
        for queue in 0..self.heaps.len() {
            for &index in &self.heaps[queue] {
                let entry = &mut self.entries[index as usize];
                entry.rank = rank(entry.since, &entry.data);
            }
            for at in (0..self.heaps[queue].len() / 2).rev() {
                self.sink(queue as u8, at);
            }
        }
    }

    #[inline]
    fn position(&self, index: u32) -> u64 {
        u64::from(self.entries[index as usize].generation) << 32 | u64::from(index)
    }

    #[inline]
    fn index(&self, position: u64) -> Option<u32> {
        let index = position as u32;
        let entry = self.entries.get(index as usize)?;
        (entry.queue != FREE && u64::from(entry.generation) == position >> 32).then_some(index)
    }

    fn take_index(&mut self, index: u32) -> Entry<T> {
        let entry = self.entries[index as usize];
        self.leave_heap(index);
        match entry.older {
            NONE => self.oldest = entry.newer,
            older => self.entries[older as usize].newer = entry.newer,
        }
        match entry.newer {
            NONE => self.newest = entry.older,
            newer => self.entries[newer as usize].older = entry.older,
        }
        self.entries[index as usize].queue = FREE;
        self.free.push(index);
        entry
    }

    /// Closes the gap that an entry leaves in its heap with the last one.
    fn leave_heap(&mut self, index: u32) {
        let Entry { queue, at, .. } = self.entries[index as usize];
        let at = at as usize;
        self.heaps[usize::from(queue)].swap_remove(at);
        if at < self.heaps[usize::from(queue)].len() {
            // The last may come from another branch: it can belong further up or further down.
            self.rise(queue, at);
            self.sink(queue, at);
        }
    }

    #[inline]
    fn key(&self, heap: &[u32], at: usize) -> (u64, u64) {
        let entry = &self.entries[heap[at] as usize];
        (entry.rank, entry.arrival)
    }

    /// Lets the one at `at` rise to its place, and notes where those on its way are now.
    fn rise(&mut self, queue: u8, mut at: usize) {
        let mut heap = std::mem::take(&mut self.heaps[usize::from(queue)]);
        while at > 0 {
            let above = (at - 1) / 2;
            if self.key(&heap, above) <= self.key(&heap, at) {
                break;
            }
            heap.swap(above, at);
            self.entries[heap[at] as usize].at = at as u32;
            at = above;
        }
        self.entries[heap[at] as usize].at = at as u32;
        self.heaps[usize::from(queue)] = heap;
    }

    /// Lets the one at `at` sink to its place.
    fn sink(&mut self, queue: u8, mut at: usize) {
        let mut heap = std::mem::take(&mut self.heaps[usize::from(queue)]);
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= heap.len() {
                break;
            }
            let less = right < heap.len() && self.key(&heap, right) < self.key(&heap, left);
            let below = if less { right } else { left };
            if self.key(&heap, at) <= self.key(&heap, below) {
                break;
            }
            heap.swap(below, at);
            self.entries[heap[at] as usize].at = at as u32;
            at = below;
        }
        self.entries[heap[at] as usize].at = at as u32;
        self.heaps[usize::from(queue)] = heap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Join { queue: u8, rank: u8 },
        Pop(u8),
        Leave(prop::sample::Index),
        Transfer { room: usize, data: u8 },
        Rerank(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            8 => (0..2_u8, 0..8_u8).prop_map(|(queue, rank)| Step::Join { queue, rank }),
            3 => (0..3_u8).prop_map(Step::Pop),
            3 => any::<prop::sample::Index>().prop_map(Step::Leave),
            1 => (0..4_usize, 0..8_u8).prop_map(|(room, data)| Step::Transfer { room, data }),
            1 => any::<u64>().prop_map(Step::Rerank),
        ];
        prop::collection::vec(step, 0..300)
    }

    /// What a plain vector would do.
    #[derive(Clone, Copy)]
    struct Plain {
        queue: u8,
        rank: u64,
        arrival: u64,
        data: u8,
        position: u64,
    }

    proptest! {
            #[test]
            fn the_heaps_do_what_a_vector_does(steps in steps()) {
                let mut ranked = Ranked::<u8>::new(2);
                let mut plain: Vec<Plain> = Vec::new();
                for (i, step) in steps.into_iter().enumerate() {
                    let arrival = i as u64;
                    match step {
                        Step::Join { queue, rank: data } => {
                            let rank = u64::from(data);
                            let position = ranked.join(queue, Ticket(arrival), Moment(arrival), rank, data);
                            plain.push(Plain { queue, rank, arrival, data, position });
                        }
                        Step::Pop(queue) => {
                            let first = (0..plain.len()).filter(|&i| plain[i].queue == queue)
                                .min_by_key(|&i| (plain[i].rank, plain[i].arrival));
                            let expected = first.map(|i| plain.remove(i).arrival);
                            prop_assert_eq!(ranked.pop(queue).map(|entry| entry.ticket.0), expected);
                        }
                        Step::Leave(which) if !plain.is_empty() => {
                            let gone = plain.remove(which.index(plain.len()));
                            prop_assert_eq!(ranked.take(gone.position).map(|e| e.ticket.0), Some(gone.arrival));
                            prop_assert_eq!(ranked.take(gone.position), None);
                        }
                        Step::Leave(_) => {}
                        Step::Transfer { room, data } => {
                            let who: Vec<_> =
                                (0..plain.len()).filter(|&i| plain[i].queue == 0 && plain[i].data < data).collect();
                            let mut moved = Vec::new();
                            let all = ranked.transfer((0, 1), room, |&d| d < data, |ticket| moved.push(ticket.0));
                            prop_assert_eq!(all, who.len() <= room);
                            let expected: Vec<_> = who.iter().take(room).map(|&i| plain[i].arrival).collect();
                            prop_assert_eq!(moved, expected);
                            who.iter().take(room).for_each(|&i| plain[i].queue = 1);
                        }
                        Step::Rerank(factor) => {
                            let rank = |data: u8| u64::from(data).wrapping_mul(factor) % 5;
                            ranked.rerank(|_, &data| rank(data));
                            for p in &mut plain {
     p.rank = rank(p.data);
    }
                        }
                    }
                    prop_assert_eq!(ranked.waiting(), plain.len());
                    prop_assert_eq!(ranked.oldest().map(|(at, _)| at), plain.first().map(|p| p.position));
                    for p in &plain {
                        let before = |q: &&Plain| q.queue == p.queue && (q.rank, q.arrival) < (p.rank, p.arrival);
                        prop_assert_eq!(ranked.ahead(p.position), Some(plain.iter().filter(before).count()));
                    }
                }
            }

            #[test]
            fn ranks_are_in_the_order_of_numbers(a in any::<f64>(), b in any::<f64>()) {
                if a < b {
                    prop_assert!(rank_of(a) < rank_of(b), "{a} {b}");
                }
            }
        }
}
