//! The calendar: the future-event list and the clock that it drives.
//!
//! Events leave in the total order (time, order of scheduling): at one instant, first scheduled is
//! first served, always. Cancelling is by handle and costs `O(1)`: the event is dropped at once, its
//! key stays in the heap until it surfaces or until dead keys outnumber live ones and are swept out.
//!
//! An entry is one `u128`: time (60 bits), sequence (40 bits), slot of the payload (28 bits). One
//! comparison orders two entries, and a heap of them needs no indirection.
//! - 60 bits of nanoseconds are 36.5 years; later times are clamped to [`Calendar::HORIZON`].
//! - After 2^40 events the pending ones are renumbered in their order: a sort every few hours.
//! - 28 bits allow 268 million pending events.
//!
//! Chosen by measurement: nanoseconds of processor time to take the next event and schedule another,
//! with this many pending, on a 2-core x86-64 (`cargo bench -p forebay-engine --bench calendar`).
//! `exp`: increments exponential with mean 1 s; `mix`: nine in ten exponential with mean 1 ms, one in
//! ten lognormal with median 3.6 s. The first row is this module with payloads and handles; the
//! others move bare keys.
//!
//! | structure | exp 10 | 100 | 1e3 | 1e4 | 1e5 | mix 10 | 100 | 1e3 | 1e4 | 1e5 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | this calendar | 17 | 19 | 25 | 39 | 56 | 10 | 11 | 16 | 24 | 36 |
//! | 4-ary heap, replace-top | 15 | 16 | 22 | 34 | 47 | 6 | 7 | 12 | 20 | 31 |
//! | 4-ary heap, pop and push | 18 | 22 | 27 | 38 | 51 | 10 | 21 | 29 | 39 | 45 |
//! | std `BinaryHeap`, `PeekMut` | 17 | 24 | 25 | 42 | 68 | 5 | 7 | 14 | 26 | 38 |
//! | std `BinaryHeap`, pop and push | 21 | 32 | 35 | 51 | 79 | 12 | 23 | 38 | 54 | 79 |
//! | hierarchical 64-way wheel | 45 | 44 | 31 | 34 | 44 | 27 | 28 | 39 | 28 | 33 |
//!
//! Replacing the top instead of removing and inserting gains up to a factor of three where the
//! successor is near, so `pop` leaves the removal to whatever is scheduled next. The wheel wins only
//! from about 1e4 pending events up, more than a gateway has, and is twice as slow below 100.

mod heap;
mod slab;

use crate::time::{Span, Time};
use heap::Heap;
use slab::{SLOT_BITS, Slab};

const SEQUENCE_BITS: u32 = 40;
const TIME_BITS: u32 = 60;
const SEQUENCE_LIMIT: u64 = 1 << SEQUENCE_BITS;
const SLOT_MASK: u64 = (1 << SLOT_BITS) - 1;
/// Below this many keys sweeping dead ones out is not worth the call.
const SWEEP_FLOOR: usize = 64;

/// Names one scheduled event, for [`Calendar::cancel`]. It stays valid for that event alone: once the
/// event has fired or was cancelled, the handle names nothing. (A slot's count of uses has 36 bits, so
/// a handle kept over 2^36 uses of its slot could name a stranger.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(u64);

impl Handle {
    const GENERATION_MASK: u64 = u64::MAX >> SLOT_BITS;

    #[inline]
    const fn new(slot: u32, generation: u64) -> Self {
        Self((generation << SLOT_BITS) | slot as u64)
    }

    #[inline]
    const fn slot(self) -> u32 {
        (self.0 & SLOT_MASK) as u32
    }

    #[inline]
    const fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    #[inline]
    const fn next_generation(generation: u64) -> u64 {
        (generation + 1) & Self::GENERATION_MASK
    }
}

/// The future-event list of a run, and its clock.
#[derive(Clone, Debug)]
pub struct Calendar<E> {
    heap: Heap,
    slab: Slab<E>,
    now: Time,
    /// The number of the next event scheduled.
    sequence: u64,
    sequence_limit: u64,
    fired: u64,
    /// Cancelled events whose keys are still in the heap.
    dead: usize,
    /// The first key's event has been popped, but the key is still in place: whatever is scheduled
    /// next takes its place, and its slot, in one walk down the heap instead of a removal and an
    /// insertion.
    vacant: bool,
}

impl<E> Calendar<E> {
    /// The latest instant at which an event can stand: 2^60 - 1 ns, 36.5 years. Later ones are
    /// brought forward to it.
    pub const HORIZON: Time = Time::from_nanos((1 << TIME_BITS) - 1);

    /// An empty calendar at [`Time::ZERO`].
    pub const fn new() -> Self {
        Self {
            heap: Heap::new(),
            slab: Slab::new(),
            now: Time::ZERO,
            sequence: 0,
            sequence_limit: SEQUENCE_LIMIT,
            fired: 0,
            dead: 0,
            vacant: false,
        }
    }

    /// The present: the time of the event popped last.
    #[inline]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Schedules `event` at `at`. A time in the past counts as now; one beyond
    /// [`Calendar::HORIZON`] as the horizon. Events at one instant fire in the order of these calls.
    ///
    /// # Panics
    /// With more than 2^28 events pending.
    #[inline]
    pub fn schedule(&mut self, at: Time, event: E) -> Handle {
        let at = at.as_nanos().max(self.now.as_nanos()).min(Self::HORIZON.as_nanos());
        if self.sequence == self.sequence_limit {
            self.renumber();
        }
        let sequence = self.sequence;
        self.sequence += 1;
        match self.heap.first() {
            Some(first) if self.vacant => {
                self.vacant = false;
                self.heap.replace_first(pack(at, sequence, slot_of(first)));
                self.slab.refill(slot_of(first), event)
            }
            _ => {
                let handle = self.slab.insert(event);
                self.heap.push(pack(at, sequence, handle.slot()));
                handle
            }
        }
    }

    /// Schedules `event` when `delay` has passed from now; see [`Calendar::schedule`].
    #[inline]
    pub fn after(&mut self, delay: Span, event: E) -> Handle {
        self.schedule(self.now + delay, event)
    }

    /// Takes a pending event back. `None` when it has fired or was cancelled before.
    pub fn cancel(&mut self, handle: Handle) -> Option<E> {
        let event = self.slab.cancel(handle)?;
        self.dead += 1;
        if self.heap.len() > SWEEP_FLOOR && self.dead * 2 > self.heap.len() {
            self.sweep();
        }
        Some(event)
    }

    /// Whether the event is still to come.
    pub fn is_pending(&self, handle: Handle) -> bool {
        self.slab.is_live(handle)
    }

    /// When the next event is due.
    #[inline]
    pub fn peek(&mut self) -> Option<Time> {
        self.front().map(|key| Time::from_nanos(time_of(key)))
    }

    /// Takes the next event and moves the clock to it.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        self.pop_until(Self::HORIZON)
    }

    /// Takes the next event, if it is due at or before `limit`, and moves the clock to it.
    #[inline]
    pub fn pop_until(&mut self, limit: Time) -> Option<(Time, E)> {
        loop {
            self.fill_vacancy();
            let key = self.heap.first()?;
            let at = Time::from_nanos(time_of(key));
            if at > limit {
                return None;
            }
            self.vacant = true;
            if let Some(event) = self.slab.take(slot_of(key)) {
                self.now = at;
                self.fired += 1;
                return Some((at, event));
            }
            self.dead -= 1;
        }
    }

    /// How many events are pending; cancelled ones do not count.
    pub fn len(&self) -> usize {
        self.heap.len() - self.dead - usize::from(self.vacant)
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many events have been popped.
    #[inline]
    pub const fn fired(&self) -> u64 {
        self.fired
    }

    /// Moves the clock forward to `to` without an event. The caller has made sure that none is due
    /// before; the clock never goes back.
    pub(crate) fn idle_until(&mut self, to: Time) {
        self.now = self.now.max(to.min(Self::HORIZON));
    }

    /// The key of the next live event; dead keys before it are removed.
    #[inline]
    fn front(&mut self) -> Option<u128> {
        loop {
            self.fill_vacancy();
            let key = self.heap.first()?;
            if self.slab.is_live_slot(slot_of(key)) {
                return Some(key);
            }
            self.slab.take(slot_of(key));
            self.dead -= 1;
            self.vacant = true;
        }
    }

    #[inline]
    fn fill_vacancy(&mut self) {
        if self.vacant {
            self.vacant = false;
            if let Some(first) = self.heap.first() {
                self.slab.free(slot_of(first));
                self.heap.remove_first();
            }
        }
    }

    /// Removes the keys of cancelled events.
    #[cold]
    fn sweep(&mut self) {
        self.fill_vacancy();
        let slab = &mut self.slab;
        self.heap.retain(|&key| {
            let live = slab.is_live_slot(slot_of(key));
            if !live {
                slab.take(slot_of(key));
                slab.free(slot_of(key));
            }
            live
        });
        self.dead = 0;
    }

    /// Numbers the pending events anew from 0, in their order.
    #[cold]
    fn renumber(&mut self) {
        self.sweep();
        let mut next = 0;
        self.heap.rewrite_sorted(|key| {
            next += 1;
            pack(time_of(key), next - 1, slot_of(key))
        });
        self.sequence = next;
    }
}

impl<E> Default for Calendar<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
const fn pack(time: u64, sequence: u64, slot: u32) -> u128 {
    ((time as u128) << (SEQUENCE_BITS + SLOT_BITS)) | ((sequence as u128) << SLOT_BITS) | slot as u128
}

#[inline]
const fn time_of(key: u128) -> u64 {
    (key >> (SEQUENCE_BITS + SLOT_BITS)) as u64
}

#[inline]
const fn slot_of(key: u128) -> u32 {
    (key as u64 & SLOT_MASK) as u32
}

#[cfg(test)]
mod tests;
