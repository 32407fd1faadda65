//! Which of a preempted job's blocks are still there when it returns.
//!
//! Free blocks form a queue: a freed sequence is appended last block first, and blocks are taken from
//! the front. Blocks need no identity for that: give every block ever appended a running position;
//! then the free blocks are the latest positions, less the holes left by blocks taken back out of
//! turn. A preempted sequence's surviving blocks follow from counts alone.

/// Blocks of one preempted job in the queue.
#[derive(Clone, Debug)]
struct Remains {
    /// The job's slot.
    slot: u32,
    /// Position after its last appended block, which is its first in the sequence.
    end: u64,
    /// Blocks appended.
    count: u64,
    /// Of these, the leading ones that are full and can be found again.
    full: u64,
    /// Blocks behind it that were taken back out of turn.
    holes_behind: u64,
}

impl Remains {
    /// Leading blocks of the sequence still in the queue.
    fn surviving(&self, free: u64, appended: u64) -> u64 {
        let behind = appended - self.end - self.holes_behind;
        free.saturating_sub(behind).min(self.count).min(self.full)
    }
}

/// The queue of free blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeList {
    /// Blocks appended since the start.
    appended: u64,
    remains: Vec<Remains>,
}

impl FreeList {
    /// Appends blocks that nobody will ask for again.
    pub(super) fn append(&mut self, count: u64) {
        self.appended += count;
    }

    /// Appends the blocks of a preempted job. `free` is the number of free blocks afterwards.
    pub(super) fn append_preempted(&mut self, slot: u32, count: u64, full: u64, free: u64) {
        self.appended += count;
        let appended = self.appended;
        self.remains.retain(|remains| remains.surviving(free, appended) > 0);
        if full > 0 {
            self.remains.push(Remains { slot, end: appended, count, full, holes_behind: 0 });
        }
    }

    /// Leading blocks of the job that are still there.
    pub(super) fn surviving(&self, slot: u32, free: u64) -> u64 {
        let remains = self.remains.iter().find(|remains| remains.slot == slot);
        remains.map_or(0, |remains| remains.surviving(free, self.appended))
    }

    /// Takes the first `count` blocks of the job back out of the queue; the rest are forgotten.
    pub(super) fn take_back(&mut self, slot: u32, count: u64) {
        let Some(index) = self.remains.iter().position(|remains| remains.slot == slot) else { return };
        let taken = self.remains.remove(index);
        for other in &mut self.remains {
            if other.end < taken.end {
                other.holes_behind += count;
            }
        }
    }

    /// Forgets a job that will not return.
    pub(super) fn forget(&mut self, slot: u32) {
        self.remains.retain(|remains| remains.slot != slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Take(u64),
        Append(u64),
        Preempt { count: u64, full: u64 },
        Return(usize),
        Forget(usize),
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            (1_u64..12).prop_map(Act::Take),
            (1_u64..12).prop_map(Act::Append),
            (1_u64..12, 0_u64..12).prop_map(|(count, full)| Act::Preempt { count, full: full.min(count) }),
            (0_usize..8).prop_map(Act::Return),
            (0_usize..8).prop_map(Act::Forget),
        ]
    }

    proptest! {
        /// Against a queue of (slot, place in its sequence); anonymous blocks are (u32::MAX, 0).
        #[test]
        fn counts_match_a_real_queue(acts in prop::collection::vec(act(), 1..80)) {
            let mut list = FreeList::default();
            let mut queue: VecDeque<(u32, u64)> = VecDeque::new();
            let mut away: Vec<(u32, u64)> = Vec::new();
            for (slot, act) in (0_u32..).zip(acts) {
                match act {
                    Act::Take(count) => drop(queue.drain(..(count as usize).min(queue.len()))),
                    Act::Append(count) => {
                        list.append(count);
                        queue.extend((0..count).map(|_| (u32::MAX, 0)));
                    }
                    Act::Preempt { count, full } => {
                        queue.extend((0..count).rev().map(|place| (slot, place)));
                        list.append_preempted(slot, count, full, queue.len() as u64);
                        away.push((slot, full));
                    }
                    Act::Return(nth) if nth < away.len() => {
                        let (slot, full) = away.remove(nth);
                        let there = (0..full).take_while(|&place| queue.contains(&(slot, place))).count() as u64;
                        prop_assert_eq!(list.surviving(slot, queue.len() as u64), there);
                        let taken = there.saturating_sub(u64::from(slot % 3));
                        list.take_back(slot, taken);
                        queue.retain(|&(other, place)| other != slot || place >= taken);
                    }
                    Act::Forget(nth) if nth < away.len() => list.forget(away.remove(nth).0),
                    Act::Return(_) | Act::Forget(_) => {}
                }
            }
        }
    }
}
