//! A pool of cached answers: one for each level and cluster of questions, with a bound, the least recently
//! used leaving first, and an age at which they are forgotten.
//!
//! A table from key to place, and the places linked in order of use: finding, using and putting in take the
//! same time however many there are. An ordered map was rejected: a lookup is on the way of every request.

use forebay_engine::{Span, Time};
use forebay_policies::Level;
use std::collections::VecDeque;

/// No place.
const NONE: u32 = u32::MAX;

/// A cached answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    key: u32,
    before: u32,
    after: u32,
    /// Tells its uses of one place apart.
    stamp: u32,
    pub(crate) level: Level,
    /// The request whose answer it is.
    pub(crate) request: u64,
    /// From then on it says what is no longer true.
    pub(crate) stale_at: Time,
    /// It was right when it was given.
    pub(crate) right: bool,
}

/// What is put in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    pub(crate) level: Level,
    pub(crate) request: u64,
    pub(crate) stale_at: Time,
    pub(crate) right: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    clusters: u32,
    capacity: usize,
    ttl: Option<Span>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// By key: level and cluster.
    places: Vec<u32>,
    /// Most and least recently used.
    first: u32,
    last: u32,
    /// When each was put in, oldest first; a stamp that is not its place's any more is of the past.
    ages: VecDeque<(Time, u32, u32)>,
    /// Answers of each level.
    held: [u32; 4],
}

impl Pool {
    pub(crate) fn new(clusters: u32, capacity: Option<u32>, ttl: Option<Span>) -> Self {
        Self {
            clusters,
            capacity: capacity.map_or(usize::MAX, |n| n as usize),
            ttl,
            entries: Vec::new(),
            free: Vec::new(),
            places: vec![NONE; clusters as usize * Level::ALL.len()],
            first: NONE,
            last: NONE,
            ages: VecDeque::new(),
            held: [0; 4],
        }
    }

    fn key(&self, level: Level, cluster: u32) -> u32 {
        level.index() as u32 * self.clusters + cluster
    }

    /// Forgets what is too old.
    pub(crate) fn age(&mut self, now: Time) {
        let Some(ttl) = self.ttl else { return };
        while let Some(&(at, place, stamp)) = self.ages.front() {
            if now.since(at) <= ttl {
                return;
            }
            self.ages.pop_front();
            if self.entries[place as usize].stamp == stamp {
                self.remove(place);
            }
        }
    }

    /// The answer of a level to a cluster.
    pub(crate) fn get(&self, level: Level, cluster: u32) -> Option<&Entry> {
        let place = self.places[self.key(level, cluster) as usize];
        self.entries.get(place as usize)
    }

    /// Whether it holds an answer of this level to another cluster than this one.
    pub(crate) fn has_other(&self, level: Level, cluster: u32) -> bool {
        self.held[level.index()] > u32::from(self.get(level, cluster).is_some())
    }

    /// The answer is used.
    pub(crate) fn touch(&mut self, level: Level, cluster: u32) {
        let place = self.places[self.key(level, cluster) as usize];
        if place != NONE && place != self.first {
            self.unlink(place);
            self.link(place);
        }
    }

    /// Puts an answer in, in place of an older one to the same question. The level whose answer had to make
    /// room, if one had.
    pub(crate) fn put(&mut self, now: Time, cluster: u32, fresh: Fresh) -> Option<Level> {
        let key = self.key(fresh.level, cluster);
        let known = self.places[key as usize];
        let mut evicted = None;
        if known != NONE {
            self.remove(known);
        } else if self.entries.len() - self.free.len() >= self.capacity {
            evicted = Some(self.entries[self.last as usize].level);
            self.remove(self.last);
        }
        let Fresh { level, request, stale_at, right } = fresh;
        let entry = |stamp| Entry { key, before: NONE, after: NONE, stamp, level, request, stale_at, right };
        let place = if let Some(place) = self.free.pop() {
            let old = &mut self.entries[place as usize];
            *old = entry(old.stamp);
            place
        } else {
            self.entries.push(entry(0));
            self.entries.len() as u32 - 1
        };
        self.places[key as usize] = place;
        self.held[level.index()] += 1;
        self.link(place);
        if self.ttl.is_some() {
            self.ages.push_back((now, place, self.entries[place as usize].stamp));
        }
        evicted
    }

    fn remove(&mut self, place: u32) {
        self.unlink(place);
        let entry = &mut self.entries[place as usize];
        entry.stamp = entry.stamp.wrapping_add(1);
        self.places[entry.key as usize] = NONE;
        self.held[entry.level.index()] -= 1;
        self.free.push(place);
    }

    /// Puts a place at the head of the order of use.
    fn link(&mut self, place: u32) {
        let head = std::mem::replace(&mut self.first, place);
        let entry = &mut self.entries[place as usize];
        (entry.before, entry.after) = (NONE, head);
        match self.entries.get_mut(head as usize) {
            Some(next) => next.before = place,
            None => self.last = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Entry { before, after, .. } = self.entries[place as usize];
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.after = after,
            None => self.first = after,
        }
        match self.entries.get_mut(after as usize) {
            Some(entry) => entry.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn put(pool: &mut Pool, now: u64, level: Level, cluster: u32) -> Option<Level> {
        let fresh = Fresh { level, request: now, stale_at: Time::MAX, right: true };
        pool.put(at(now), cluster, fresh)
    }

    fn held(pool: &Pool, level: Level) -> Vec<u32> {
        (0..pool.clusters).filter(|&cluster| pool.get(level, cluster).is_some()).collect()
    }

    #[test]
    fn the_least_recently_used_makes_room() {
        let mut pool = Pool::new(10, Some(3), None);
        for cluster in 0..3 {
            assert_eq!(put(&mut pool, 0, Level::L1, cluster), None);
        }
        pool.touch(Level::L1, 0);
        assert_eq!(put(&mut pool, 1, Level::L1, 7), Some(Level::L1));
        assert_eq!(held(&pool, Level::L1), [0, 2, 7]);
        // A new answer to a known question needs no room.
        assert_eq!(put(&mut pool, 2, Level::L1, 2), None);
        assert_eq!(pool.get(Level::L1, 2).unwrap().request, 2);
        assert_eq!(put(&mut pool, 3, Level::L3, 2), Some(Level::L1));
        assert_eq!(held(&pool, Level::L1), [2, 7]);
        assert!(pool.has_other(Level::L1, 2) && !pool.has_other(Level::L3, 2));
        assert!(pool.has_other(Level::L3, 5) && !pool.has_other(Level::L2, 5));
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut pool = Pool::new(10, Some(5), Some(Span::from_secs_f64(10.0)));
        put(&mut pool, 0, Level::L1, 0);
        put(&mut pool, 1, Level::L1, 1);
        put(&mut pool, 9, Level::L1, 0);
        pool.age(at(10));
        assert_eq!(held(&pool, Level::L1), [0, 1]);
        pool.age(at(12));
        assert_eq!(held(&pool, Level::L1), [0]);
        pool.age(at(19));
        assert_eq!(held(&pool, Level::L1), [0]);
        pool.age(at(20));
        assert_eq!(held(&pool, Level::L1), [0; 0]);
        assert!(pool.ages.is_empty());
    }

    /// Against a plain list.
    #[test]
    fn it_does_what_a_list_would_do() {
        let mut chance = forebay_engine::Stream::new(1, 0, "pool", 0);
        let mut pool = Pool::new(50, Some(8), Some(Span::from_secs_f64(60.0)));
        let mut list: Vec<(Level, u32, u64)> = Vec::new();
        for now in 0..5000 {
            let level = Level::ALL[(chance.uniform() * 4.0) as usize];
            let cluster = (chance.uniform() * 50.0) as u32;
            pool.age(at(now));
            list.retain(|entry| now - entry.2 <= 60);
            let known = list.iter().position(|entry| (entry.0, entry.1) == (level, cluster));
            assert_eq!(pool.get(level, cluster).is_some(), known.is_some());
            let others = list.iter().filter(|entry| entry.0 == level && entry.1 != cluster).count();
            assert_eq!(pool.has_other(level, cluster), others > 0);
            if chance.uniform() < 0.5 {
                pool.touch(level, cluster);
                if let Some(place) = known {
                    let entry = list.remove(place);
                    list.insert(0, entry);
                }
                continue;
            }
            let evicted = put(&mut pool, now, level, cluster);
            if let Some(place) = known {
                list.remove(place);
            } else if list.len() == 8 {
                assert_eq!(evicted, list.pop().map(|entry| entry.0));
            } else {
                assert_eq!(evicted, None);
            }
            list.insert(0, (level, cluster, now));
        }
    }
}
