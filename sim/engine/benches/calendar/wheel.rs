//! A hierarchical timing wheel on nanosecond ticks: eleven levels of 64 slots cover a `u64`. An event
//! waits in the level of the highest digit in which its time differs from now, and moves down as that
//! digit is reached. First in, first out at one instant without a sequence number.

use super::List;

const DIGIT_BITS: u32 = 6;
const SLOTS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = 11;
const NONE: u32 = u32::MAX;

/// A list of nodes, in order of arrival.
#[derive(Clone, Copy)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot { head: NONE, tail: NONE };

#[derive(Clone, Copy)]
struct Node {
    at: u64,
    mark: u32,
    next: u32,
}

pub(crate) struct Wheel {
    now: u64,
    /// One bit for each slot that is not empty.
    occupied: [u64; LEVELS],
    slots: Vec<[Slot; SLOTS]>,
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl Default for Wheel {
    fn default() -> Self {
        Self {
            now: 0,
            occupied: [0; LEVELS],
            slots: vec![[EMPTY; SLOTS]; LEVELS],
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Wheel {
    fn link(&mut self, node: u32) {
        let at = self.nodes[node as usize].at;
        let differing = (at ^ self.now) | 1;
        let level = (differing.ilog2() / DIGIT_BITS) as usize;
        let digit = (at >> (level as u32 * DIGIT_BITS)) as usize % SLOTS;
        self.nodes[node as usize].next = NONE;
        let slot = &mut self.slots[level][digit];
        if slot.head == NONE {
            slot.head = node;
        } else {
            self.nodes[slot.tail as usize].next = node;
        }
        slot.tail = node;
        self.occupied[level] |= 1 << digit;
    }

    fn pop(&mut self) -> Option<(u64, u32)> {
        loop {
            let level = self.occupied.iter().position(|&slots| slots != 0)?;
            let digit = self.occupied[level].trailing_zeros() as usize;
            let slot = self.slots[level][digit];
            if level == 0 {
                return Some(self.pop_front(digit, slot));
            }
            // The clock enters this slot's span: its events differ from now in lower digits only.
            self.slots[level][digit] = EMPTY;
            self.occupied[level] &= !(1 << digit);
            let span = level as u32 * DIGIT_BITS;
            self.now = self.nodes[slot.head as usize].at >> span << span;
            let mut node = slot.head;
            while node != NONE {
                let next = self.nodes[node as usize].next;
                self.link(node);
                node = next;
            }
        }
    }

    fn pop_front(&mut self, digit: usize, slot: Slot) -> (u64, u32) {
        let Node { at, mark, next } = self.nodes[slot.head as usize];
        self.slots[0][digit].head = next;
        if next == NONE {
            self.occupied[0] &= !(1 << digit);
        }
        self.free.push(slot.head);
        self.now = at;
        (at, mark)
    }
}

impl List for Wheel {
    fn push(&mut self, at: u64, mark: u32) {
        let node = Node { at, mark, next: NONE };
        let place = if let Some(place) = self.free.pop() {
            self.nodes[place as usize] = node;
            place
        } else {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        };
        self.link(place);
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let (at, mark) = self.pop().expect("the hold model never runs dry");
        self.push(at + increment, mark);
        (at, mark)
    }
}
