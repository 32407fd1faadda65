//! Finds the replica for a call: the least loaded one with room, or one after the other.
//!
//! Replicas stand in lines by their number of calls, so that finding and moving cost O(1) however many
//! replicas there are. A line is first in, first out: of equally loaded replicas the one that has been so
//! longest is next. A stack would do for speed, but it sends call after call to the replica that was
//! freed last, whose device is the fullest, and leaves others unused: the more so the larger the fleet.

use crate::scenario::Routing;

/// No replica: the end of a line.
const NONE: u32 = u32::MAX;

/// A replica, and its neighbours in the line of its load.
#[derive(Clone, Copy, Debug)]
struct Place {
    load: u32,
    before: u32,
    after: u32,
    /// By how many it is kept from service: it is up while it is nobody.
    holds: u16,
}

/// The ends of a line.
#[derive(Clone, Copy, Debug)]
struct Line {
    first: u32,
    last: u32,
}

const EMPTY: Line = Line { first: NONE, last: NONE };

#[derive(Clone, Debug)]
pub(crate) struct Router {
    routing: Routing,
    /// Calls per replica at most.
    room: u32,
    places: Vec<Place>,
    /// By load.
    lines: Vec<Line>,
    /// No line below this one has a replica.
    lowest: usize,
    turn: u32,
}

impl Router {
    pub(crate) fn new(routing: Routing, replicas: u32, room: u32) -> Self {
        let alone = Place { load: 0, before: NONE, after: NONE, holds: 0 };
        let mut router = Self {
            routing,
            room,
            places: vec![alone; replicas as usize],
            lines: vec![EMPTY],
            lowest: 0,
            turn: 0,
        };
        (0..replicas).for_each(|replica| router.insert(replica));
        router
    }

    /// The replica that takes the next call, if one has room.
    #[inline]
    pub(crate) fn pick(&mut self) -> Option<u32> {
        match self.routing {
            Routing::LeastLoaded => {
                while self.lines.get(self.lowest)?.first == NONE {
                    self.lowest += 1;
                }
                (self.lowest < self.room as usize).then_some(self.lines[self.lowest].first)
            }
            Routing::RoundRobin => {
                let n = self.places.len() as u32;
                let found = (0..n).map(|i| (self.turn + i) % n).find(|&r| {
                    let place = self.places[r as usize];
                    place.holds == 0 && place.load < self.room
                })?;
                self.turn = (found + 1) % n;
                Some(found)
            }
        }
    }

    #[inline]
    pub(crate) fn add(&mut self, replica: u32) {
        self.shift(replica, self.places[replica as usize].load + 1);
    }

    #[inline]
    pub(crate) fn remove(&mut self, replica: u32) {
        self.shift(replica, self.places[replica as usize].load - 1);
    }

    /// Takes a replica out of service, or back into it. It is back when all who took it out put it back:
    /// a replica that restarts on a GPU that is lost waits for both.
    pub(crate) fn set_up(&mut self, replica: u32, up: bool) {
        let holds = self.places[replica as usize].holds;
        if up && holds == 1 {
            self.places[replica as usize].holds = 0;
            self.insert(replica);
        } else if up {
            self.places[replica as usize].holds = holds.saturating_sub(1);
        } else {
            self.take(replica);
            self.places[replica as usize].holds = holds + 1;
        }
    }

    /// Calls on a replica.
    pub(crate) fn load(&self, replica: u32) -> u32 {
        self.places[replica as usize].load
    }

    /// The replica with most calls; of equals the first.
    pub(crate) fn fullest(&self) -> u32 {
        let most = self.places.iter().enumerate().rev().max_by_key(|(_, place)| place.load);
        most.map_or(0, |(replica, _)| replica as u32)
    }

    #[inline]
    fn shift(&mut self, replica: u32, load: u32) {
        self.take(replica);
        self.places[replica as usize].load = load;
        self.insert(replica);
    }

    /// Takes a replica out of its line; one that is down stands in none.
    #[inline]
    fn take(&mut self, replica: u32) {
        let Place { load, before, after, holds } = self.places[replica as usize];
        if holds > 0 {
            return;
        }
        let line = &mut self.lines[load as usize];
        if before == NONE {
            line.first = after;
        } else {
            self.places[before as usize].after = after;
        }
        if after == NONE {
            line.last = before;
        } else {
            self.places[after as usize].before = before;
        }
    }

    /// Puts a replica at the end of the line of its load.
    #[inline]
    fn insert(&mut self, replica: u32) {
        let Place { load, holds, .. } = self.places[replica as usize];
        if holds > 0 {
            return;
        }
        let load = load as usize;
        while self.lines.len() <= load {
            self.lines.push(EMPTY);
        }
        let line = &mut self.lines[load];
        let before = std::mem::replace(&mut line.last, replica);
        if before == NONE {
            line.first = replica;
        } else {
            self.places[before as usize].after = replica;
        }
        let place = &mut self.places[replica as usize];
        (place.before, place.after) = (before, NONE);
        self.lowest = self.lowest.min(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn loads(router: &Router) -> Vec<u32> {
        router.places.iter().map(|place| place.load).collect()
    }

    #[test]
    fn least_loaded_fills_evenly_and_respects_room() {
        let mut router = Router::new(Routing::LeastLoaded, 3, 2);
        for _ in 0..6 {
            let r = router.pick().expect("room");
            router.add(r);
        }
        assert_eq!(loads(&router), [2, 2, 2]);
        assert_eq!(router.pick(), None);
        router.remove(1);
        assert_eq!(router.pick(), Some(1));
        router.set_up(1, false);
        assert_eq!(router.pick(), None);
        router.set_up(1, true);
        assert_eq!(router.pick(), Some(1));
    }

    #[test]
    fn equally_loaded_replicas_take_turns() {
        let mut router = Router::new(Routing::LeastLoaded, 4, 2);
        // One call at a time, over before the next one comes: no replica is preferred.
        let mut seen = Vec::new();
        for _ in 0..8 {
            let r = router.pick().expect("room");
            router.add(r);
            router.remove(r);
            seen.push(r);
        }
        assert_eq!(seen, [0, 1, 2, 3, 0, 1, 2, 3]);
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

    /// The same by looking at all replicas: the least load, and of those the one that has it longest.
    struct Slow {
        room: u32,
        /// Load, in service, since when.
        replicas: Vec<(u32, bool, usize)>,
    }

    impl Slow {
        fn pick(&self) -> Option<u32> {
            let replicas = self.replicas.iter().enumerate();
            let up = replicas.filter(|(_, (load, up, _))| *up && *load < self.room);
            up.min_by_key(|(_, (load, _, since))| (*load, *since)).map(|(index, _)| index as u32)
        }
    }

    proptest! {
        #[test]
        fn the_lines_answer_as_a_search_does(steps in prop::collection::vec((0..4_u8, 0..5_usize), 1..200)) {
            let (n, room) = (5, 3);
            let mut router = Router::new(Routing::LeastLoaded, n, room);
            let mut slow = Slow { room, replicas: (0..n as usize).map(|i| (0, true, i)).collect() };
            for (now, (step, which)) in (n as usize..).zip(steps) {
                let (load, up, since) = &mut slow.replicas[which];
                match step {
                    0 if *up => {
                        *up = false;
                        router.set_up(which as u32, false);
                    }
                    1 if !*up => {
                        (*up, *since) = (true, now);
                        router.set_up(which as u32, true);
                    }
                    2 if *load > 0 => {
                        (*load, *since) = (*load - 1, now);
                        router.remove(which as u32);
                    }
                    3 => {
                        let found = router.pick();
                        prop_assert_eq!(found, slow.pick());
                        if let Some(found) = found {
                            let place = &mut slow.replicas[found as usize];
                            (place.0, place.2) = (place.0 + 1, now);
                            router.add(found);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
