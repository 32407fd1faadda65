//! The yardstick: what a careful hand writes for this one model. A `u64` nanosecond clock, a four-ary
//! heap of `u128` keys (time above sequence), payloads in a slab, exponential draws by the ziggurat
//! from xoshiro256++, and the mean wait from time stamps. No cancellation, no guard, no other
//! statistics.

use std::collections::VecDeque;

use rand::SeedableRng;
use rand::distr::Distribution;
use rand_distr::Exp1;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{LOAD, Outcome};

#[derive(Clone, Copy)]
enum Event {
    Arrival,
    Departure,
}

/// Bits of the key's lower half that name the payload's slot.
const SLOT_BITS: u32 = 24;

#[derive(Default)]
struct Queue {
    keys: Vec<u128>,
    slab: Vec<Event>,
    free: Vec<u32>,
    sequence: u64,
}

impl Queue {
    fn push(&mut self, at: u64, event: Event) {
        let slot = if let Some(slot) = self.free.pop() {
            self.slab[slot as usize] = event;
            slot
        } else {
            self.slab.push(event);
            self.slab.len() as u32 - 1
        };
        let key = (u128::from(at) << 64) | u128::from(self.sequence << SLOT_BITS | u64::from(slot));
        self.sequence += 1;
        let mut hole = self.keys.len();
        self.keys.push(key);
        while hole > 0 {
            let parent = (hole - 1) / 4;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[hole] = self.keys[parent];
            hole = parent;
        }
        self.keys[hole] = key;
    }

    fn pop(&mut self) -> Option<(u64, Event)> {
        let top = *self.keys.first()?;
        let last = self.keys.pop()?;
        let len = self.keys.len();
        if len > 0 {
            let mut hole = 0;
            loop {
                let first = hole * 4 + 1;
                if first >= len {
                    break;
                }
                let mut child = first;
                for other in first + 1..(first + 4).min(len) {
                    if self.keys[other] < self.keys[child] {
                        child = other;
                    }
                }
                if self.keys[child] >= last {
                    break;
                }
                self.keys[hole] = self.keys[child];
                hole = child;
            }
            self.keys[hole] = last;
        }
        let slot = top as u32 & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        Some(((top >> 64) as u64, self.slab[slot as usize]))
    }
}

pub(crate) fn run(servers: u32, customers: u64, seed: u64) -> Outcome {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let gap_ns = 1e9 / (LOAD * f64::from(servers));
    let service_ns = 1e9;
    let mut queue = Queue::default();
    let mut waiting: VecDeque<u64> = VecDeque::new();
    let (mut busy, mut arrived, mut events, mut wait_ns) = (0, 0, 0, 0_u128);
    let mut draw = |mean: f64| -> u64 {
        let exponential: f64 = Exp1.sample(&mut random);
        (exponential * mean) as u64
    };
    queue.push(draw(gap_ns), Event::Arrival);
    while let Some((now, event)) = queue.pop() {
        events += 1;
        match event {
            Event::Arrival => {
                arrived += 1;
                if arrived < customers {
                    queue.push(now + draw(gap_ns), Event::Arrival);
                }
                if busy < servers {
                    busy += 1;
                    queue.push(now + draw(service_ns), Event::Departure);
                } else {
                    waiting.push_back(now);
                }
            }
            Event::Departure => {
                if let Some(since) = waiting.pop_front() {
                    wait_ns += u128::from(now - since);
                    queue.push(now + draw(service_ns), Event::Departure);
                } else {
                    busy -= 1;
                }
            }
        }
    }
    Outcome { mean_wait_s: wait_ns as f64 / 1e9 / customers as f64, events }
}
