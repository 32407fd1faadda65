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
    /// By how many each replica is kept from service: it is up while it is nobody.
    holds: Vec<u16>,
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
            holds: vec![0; replicas as usize],
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
                    .find(|&r| self.is_up(r) && self.load[r as usize] < self.room)?;
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

    /// Takes a replica out of service, or back into it. It is back when all who took it out put it back:
    /// a replica that restarts on a GPU that is lost waits for both.
    pub(crate) fn set_up(&mut self, replica: u32, up: bool) {
        let holds = self.holds[replica as usize];
        if up && holds == 1 {
            self.holds[replica as usize] = 0;
            self.insert(replica);
        } else if up {
            self.holds[replica as usize] = holds.saturating_sub(1);
        } else {
            self.take(replica);
            self.holds[replica as usize] = holds + 1;
        }
    }

    /// Whether a replica takes calls.
    #[inline]
    pub(crate) fn is_up(&self, replica: u32) -> bool {
        self.holds[replica as usize] == 0
    }

    /// Calls on a replica.
    pub(crate) fn load(&self, replica: u32) -> u32 {
        self.load[replica as usize]
    }

    /// The replica with most calls; of equals the first.
    pub(crate) fn fullest(&self) -> u32 {
        let most = self.load.iter().enumerate().rev().max_by_key(|(_, load)| **load);
        most.map_or(0, |(replica, _)| replica as u32)
    }

    #[inline]
    fn shift(&mut self, replica: u32, load: u32) {
        self.take(replica);
        self.load[replica as usize] = load;
        self.insert(replica);
    }

    #[inline]
    fn take(&mut self, replica: u32) {
        if !self.is_up(replica) {
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
        if !self.is_up(replica) {
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
    fn a_replica_is_back_when_all_who_took_it_out_put_it_back() {
        let mut router = Router::new(Routing::LeastLoaded, 2, 1);
        router.add(0);
        assert_eq!(router.fullest(), 0);
        router.set_up(1, false);
        router.set_up(1, false);
        router.set_up(1, true);
        assert_eq!(router.pick(), None);
        router.set_up(1, true);
        assert_eq!(router.pick(), Some(1));
        // Putting back what nobody took out changes nothing.
        router.set_up(1, true);
        router.add(1);
        assert_eq!((router.pick(), router.fullest()), (None, 0));
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
