//! How many expected moments have come, and how many will have come by another moment: counts per tick on
//! a ring, and per 64 ticks above it, so that adding and taking out are two writes, and counting goes
//! over some hundred numbers at most, however many moments there are.
//!
//! Moments are told apart to a tick of 17 ms, and all that lie more than [`TICKS`] ticks ahead (69 s)
//! count as that far: what is counted here is estimated anyway. A sorted list was rejected: it finds its
//! place in a few steps and then moves half of itself.

use crate::Moment;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a tick, as a power of two.
const TICK_BITS: u32 = 24;
/// Ticks on the ring.
const TICKS: u64 = 4096;
/// Ticks of which one sum is kept.
const SUMMED: u64 = 64;

/// The tick that a moment was counted in: what takes it out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tick(u64);

/// Expected moments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ahead {
    /// The present tick. It and all before it have come.
    now: u64,
    come: u32,
    later: u32,
    ticks: Vec<u32>,
    sums: Vec<u32>,
}

impl Default for Ahead {
    fn default() -> Self {
        let [ticks, sums] = [TICKS, TICKS / SUMMED].map(|length| vec![0; length as usize]);
        Self { now: 0, come: 0, later: 0, ticks, sums }
    }
}

impl Ahead {
    /// Whether nothing is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.come == 0 && self.later == 0
    }

    /// Lets time pass up to `now`; a moment before the present one changes nothing.
    #[inline]
    pub(crate) fn pass(&mut self, now: Moment) {
        let now = now.0 >> TICK_BITS;
        while self.now < now {
            if self.later == 0 {
                self.now = now;
                return;
            }
            self.now += 1;
            let (tick, sum) = Self::places(self.now);
            let come = std::mem::take(&mut self.ticks[tick]);
            self.sums[sum] -= come;
            self.later -= come;
            self.come += come;
        }
    }

    /// Counts a moment.
    #[inline]
    pub(crate) fn add(&mut self, at: Moment) -> Tick {
        let at = (at.0 >> TICK_BITS).min(self.now + TICKS - 1);
        if at <= self.now {
            self.come += 1;
        } else {
            let (tick, sum) = Self::places(at);
            self.ticks[tick] += 1;
            self.sums[sum] += 1;
            self.later += 1;
        }
        Tick(at)
    }

    /// Takes a moment out that was counted.
    #[inline]
    pub(crate) fn take(&mut self, Tick(at): Tick) {
        if at <= self.now {
            self.come -= 1;
        } else {
            let (tick, sum) = Self::places(at);
            self.ticks[tick] -= 1;
            self.sums[sum] -= 1;
            self.later -= 1;
        }
    }

    /// How many have come.
    #[inline]
    pub(crate) fn come(&self) -> u32 {
        self.come
    }

    /// How many have not come and will have by `then`.
    #[inline]
    pub(crate) fn until(&self, then: Moment) -> u32 {
        let last = (then.0 >> TICK_BITS).min(self.now + TICKS - 1);
        let mut counted = 0;
        let mut at = self.now + 1;
        while at <= last {
            let (tick, sum) = Self::places(at);
            if at.is_multiple_of(SUMMED) && at + SUMMED - 1 <= last {
                counted += self.sums[sum];
                at += SUMMED;
            } else {
                counted += self.ticks[tick];
                at += 1;
            }
        }
        counted
    }

    /// Where a tick and its sum stand.
    #[inline]
    fn places(tick: u64) -> (usize, usize) {
        let place = tick % TICKS;
        (place as usize, (place / SUMMED) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tick(at: u64) -> u64 {
        at >> TICK_BITS
    }

    proptest! {
        #[test]
        fn counts_are_those_of_a_list(
            steps in prop::collection::vec((0..3_u8, 0..100_u64, 0..60_000_u64, any::<prop::sample::Index>()), 1..300),
        ) {
            const MS: u64 = 1_000_000;
            let mut ahead = Ahead::default();
            let mut list: Vec<(Tick, u64)> = Vec::new();
            let mut now = 0;
            for (step, gap_ms, until_ms, which) in steps {
                now += gap_ms * gap_ms * MS;
                ahead.pass(Moment(now));
                match step {
                    0 if !list.is_empty() => ahead.take(list.swap_remove(which.index(list.len())).0),
                    1 | 2 => {
                        let at = now + until_ms * MS;
                        list.push((ahead.add(Moment(at)), at));
                    }
                    _ => {}
                }
                let then = now + until_ms * MS;
                let come = list.iter().filter(|(_, at)| tick(*at) <= tick(now)).count();
                let until = list.iter().filter(|(_, at)| tick(*at) <= tick(then)).count() - come;
                prop_assert_eq!((ahead.come() as usize, ahead.until(Moment(then)) as usize), (come, until));
            }
            for (at, _) in list {
                ahead.take(at);
            }
            prop_assert!(ahead.is_empty());
        }
    }

    #[test]
    fn what_lies_too_far_ahead_counts_as_far_as_can_be_told_and_is_taken_out_again() {
        let mut ahead = Ahead::default();
        let far = ahead.add(Moment(u64::MAX));
        assert_eq!(
            (ahead.come(), ahead.until(Moment(60_000_000_000)), ahead.until(Moment(u64::MAX))),
            (0, 0, 1)
        );
        ahead.pass(Moment(100_000_000_000));
        assert_eq!(ahead.come(), 1);
        ahead.take(far);
        assert!(ahead.is_empty());
    }
}
