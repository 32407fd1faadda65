//! Finds the replica for a call: the least loaded one with room, or one after the other.
//!
//! Replicas stand in buckets by their number of calls, so that finding and moving cost O(1) however
//! many replicas there are. Within a bucket the order is that of a stack: fixed, and the same on every
//! machine.

use crate::scenario::Routing;

#[derive(Clone, Debug)]
pub(crate) struct Router {
    routing: Routing,
    /// Calls per replica at most.
    room: u32,
    load: Vec<u32>,
    up: Vec<bool>,
    buckets: Vec<Vec<u32>>,
    place: Vec<u32>,
    /// No bucket below this one has a replica.
    lowest: usize,
    turn: u32,
}

impl Router {
    pub(crate) fn new(routing: Routing, replicas: u32, room: u32) -> Self {
        Self {
            routing,
            room,
            load: vec![0; replicas as usize],
            up: vec![true; replicas as usize],
            buckets: vec![(0..replicas).rev().collect()],
            place: (0..replicas).rev().collect(),
            lowest: 0,
            turn: 0,
        }
    }

    /// The replica that takes the next call, if one has room.
    #[inline]
    pub(crate) fn pick(&mut self) -> Option<u32> {
        match self.routing {
            Routing::LeastLoaded => {
                while self.lowest < self.buckets.len() && self.buckets[self.lowest].is_empty() {
                    self.lowest += 1;
                }
                let found = self.buckets.get(self.lowest)?.last().copied()?;
                (self.lowest < self.room as usize).then_some(found)
            }
            Routing::RoundRobin => {
                let n = self.load.len() as u32;
                let found = (0..n)
                    .map(|i| (self.turn + i) % n)
                    .find(|&r| self.up[r as usize] && self.load[r as usize] < self.room)?;
                self.turn = (found + 1) % n;
                Some(found)
            }
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, replica: u32) {
        self.shift(replica, self.load[replica as usize] + 1);
    }

    #[inline]
    pub(crate) fn remove(&mut self, replica: u32) {
        self.shift(replica, self.load[replica as usize] - 1);
    }

    /// Takes a replica out of service, or back into it.
    pub(crate) fn set_up(&mut self, replica: u32, up: bool) {
        if self.up[replica as usize] == up {
            return;
        }
        if up {
            self.up[replica as usize] = true;
            self.insert(replica);
        } else {
            self.take(replica);
            self.up[replica as usize] = false;
        }
    }

    #[inline]
    fn shift(&mut self, replica: u32, load: u32) {
        self.take(replica);
        self.load[replica as usize] = load;
        self.insert(replica);
    }

    #[inline]
    fn take(&mut self, replica: u32) {
        if !self.up[replica as usize] {
            return;
        }
        let bucket = &mut self.buckets[self.load[replica as usize] as usize];
        let place = self.place[replica as usize] as usize;
        bucket.swap_remove(place);
        if let Some(&moved) = bucket.get(place) {
            self.place[moved as usize] = place as u32;
        }
    }

    #[inline]
    fn insert(&mut self, replica: u32) {
        if !self.up[replica as usize] {
            return;
        }
        let load = self.load[replica as usize] as usize;
        while self.buckets.len() <= load {
            self.buckets.push(Vec::new());
        }
        self.place[replica as usize] = self.buckets[load].len() as u32;
        self.buckets[load].push(replica);
        self.lowest = self.lowest.min(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_loaded_fills_evenly_and_respects_room() {
        let mut router = Router::new(Routing::LeastLoaded, 3, 2);
        for _ in 0..6 {
            let r = router.pick().expect("room");
            router.add(r);
        }
        assert_eq!(router.load, [2, 2, 2]);
        assert_eq!(router.pick(), None);
        router.remove(1);
        assert_eq!(router.pick(), Some(1));
        router.set_up(1, false);
        assert_eq!(router.pick(), None);
        router.set_up(1, true);
        assert_eq!(router.pick(), Some(1));
    }

    #[test]
    fn round_robin_takes_turns_and_passes_over_the_full() {
        let mut router = Router::new(Routing::RoundRobin, 3, 1);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let r = router.pick().expect("room");
            router.add(r);
            seen.push(r);
        }
        assert_eq!(seen, [0, 1, 2]);
        router.remove(2);
        assert_eq!(router.pick(), Some(2));
    }
}
