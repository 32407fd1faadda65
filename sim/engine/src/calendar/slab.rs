//! The payloads of pending events, in reusable slots. The heap moves 16-byte keys only; what an event
//! carries is written once and read once.

use super::Handle;

/// Bits of a handle that name the slot; the rest count how often the slot has been used.
pub(super) const SLOT_BITS: u32 = 28;
const SLOTS: usize = 1 << SLOT_BITS;

#[derive(Clone, Debug)]
struct Slot<E> {
    /// Raised whenever the slot is freed, so that an old handle no longer fits.
    generation: u64,
    /// `None` when the event was cancelled and its key still waits in the heap, or the slot is free.
    event: Option<E>,
}

#[derive(Clone, Debug)]
pub(super) struct Slab<E> {
    slots: Vec<Slot<E>>,
    free: Vec<u32>,
}

impl<E> Slab<E> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Stores an event.
    ///
    /// # Panics
    /// With more than 2^28 slots in use: at that point the model leaks events, and tens of gigabytes
    /// are gone already.
    #[inline]
    pub(super) fn insert(&mut self, event: E) -> Handle {
        if let Some(slot) = self.free.pop() {
            let entry = &mut self.slots[slot as usize];
            entry.event = Some(event);
            return Handle::new(slot, entry.generation);
        }
        self.insert_new(event)
    }

    #[cold]
    fn insert_new(&mut self, event: E) -> Handle {
        let slot = self.slots.len();
        assert!(slot < SLOTS, "more than 2^28 events pending: the model schedules without end");
        self.slots.push(Slot { generation: 0, event: Some(event) });
        Handle::new(slot as u32, 0)
    }

    /// Takes a live event out and leaves its slot reserved, because its key is still in the heap.
    pub(super) fn cancel(&mut self, handle: Handle) -> Option<E> {
        let entry = self.slots.get_mut(handle.slot() as usize)?;
        if entry.generation == handle.generation() { entry.event.take() } else { None }
    }

    pub(super) fn is_live(&self, handle: Handle) -> bool {
        self.slots
            .get(handle.slot() as usize)
            .is_some_and(|entry| entry.generation == handle.generation() && entry.event.is_some())
    }

    #[inline]
    pub(super) fn is_live_slot(&self, slot: u32) -> bool {
        self.slots[slot as usize].event.is_some()
    }

    /// Takes the event out of a slot whose key has come first, unless it was cancelled, and leaves the
    /// slot reserved: it is either refilled or freed next.
    #[inline]
    pub(super) fn take(&mut self, slot: u32) -> Option<E> {
        let entry = &mut self.slots[slot as usize];
        entry.generation = Handle::next_generation(entry.generation);
        entry.event.take()
    }

    /// Puts an event in a slot that was taken.
    #[inline]
    pub(super) fn refill(&mut self, slot: u32, event: E) -> Handle {
        let entry = &mut self.slots[slot as usize];
        entry.event = Some(event);
        Handle::new(slot, entry.generation)
    }

    /// Frees a slot that was taken.
    #[inline]
    pub(super) fn free(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// How many slots were ever needed at once.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }
}
