//! The waiting queue: a heap of places, from which those who left are dropped when they surface.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::sequence::{Sequence, Stage};

/// The queue.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    heap: BinaryHeap<Reverse<((u8, i64), u32)>>,
    live: usize,
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
        self.live
    }

    pub(super) fn push(&mut self, place: (u8, i64), slot: u32) {
        self.heap.push(Reverse((place, slot)));
        self.live += 1;
    }

    /// The next in line.
    pub(super) fn head(&mut self, sequences: &[Sequence]) -> Option<u32> {
        if self.live == 0 {
            self.heap.clear();
            return None;
        }
        while let Some(&Reverse((place, slot))) = self.heap.peek() {
            if is_live(sequences, place, slot) {
                return Some(slot);
            }
            self.heap.pop();
        }
        None
    }

    /// Takes out the head that [`Waiting::head`] returned.
    pub(super) fn pop(&mut self) {
        self.heap.pop();
        self.live -= 1;
    }

    /// One that waited has left; its entry stays until it surfaces, or until such entries are many.
    pub(super) fn left(&mut self, sequences: &[Sequence]) {
        self.live -= 1;
        if self.heap.len() > 2 * self.live + 64 {
            self.heap.retain(|&Reverse((place, slot))| is_live(sequences, place, slot));
        }
    }
}

fn is_live(sequences: &[Sequence], place: (u8, i64), slot: u32) -> bool {
    let sequence = &sequences[slot as usize];
    sequence.stage == Stage::Waiting && sequence.place == place
}
