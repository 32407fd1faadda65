//! Which future-event list? The hold model: take the next event, schedule one a random increment
//! later, with a constant number pending.
//!
//! `cargo bench -p forebay-engine --bench calendar [-- HOLDS ROUNDS]`. Nanoseconds of processor time
//! a hold, median of rounds that alternate between the structures. All but the first row move bare
//! `u128` keys; the first is the crate's `Calendar` with payloads and handles. Every structure must
//! give the same order, which a checksum verifies.
//!
//! Increments: `exp` is exponential with mean 1 s; `mix` is nine in ten exponential with mean 1 ms
//! (token steps) and one in ten lognormal with median 3.6 s (requests, timeouts, thinking).

#[path = "../shared/clock.rs"]
mod clock;
mod four_ary;
mod wheel;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use forebay_engine::{Calendar, Dist, Part, Sampler, Span, Stream, Time};

use clock::timed;
use four_ary::{Fused, Plain};
use wheel::Wheel;

const PENDING: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

/// A future-event list of bare numbers.
trait List: Default {
    /// Schedules `mark` at `at` (nanoseconds).
    fn push(&mut self, at: u64, mark: u32);
    /// Takes the next mark and schedules it again, `increment` nanoseconds later.
    fn hold(&mut self, increment: u64) -> (u64, u32);
}

type Run = fn(&[u64], usize, usize) -> (f64, u64);

fn main() {
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let holds = numbers.first().copied().unwrap_or(4_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(5);
    let structures: [(&str, Run); 6] = [
        ("Calendar of this crate", run::<Calendar<u32>>),
        ("4-ary heap, replace-top", run::<Fused>),
        ("4-ary heap, pop and push", run::<Plain>),
        ("std BinaryHeap, PeekMut", run::<Peeked>),
        ("std BinaryHeap, pop and push", run::<Popped>),
        ("hierarchical 64-way wheel", run::<Wheel>),
    ];
    println!("hold model, {holds} holds, median of {rounds} rounds, ns a hold; columns: pending events");
    for (name, increments) in [("exp", increments(&exponential())), ("mix", increments(&mix()))] {
        print_row(name, PENDING.iter().map(usize::to_string));
        let table: Vec<Vec<f64>> =
            PENDING.iter().map(|&pending| column(&structures, &increments, pending, holds, rounds)).collect();
        for (row, (structure, _)) in structures.iter().enumerate() {
            print_row(structure, table.iter().map(|column| format!("{:.0}", column[row])));
        }
    }
}

fn print_row(name: &str, cells: impl Iterator<Item = String>) {
    print!("{name:<30}");
    cells.for_each(|cell| print!("{cell:>8}"));
    println!();
}

fn column(
    structures: &[(&str, Run)],
    increments: &[u64],
    pending: usize,
    holds: usize,
    rounds: usize,
) -> Vec<f64> {
    let mut times = vec![Vec::new(); structures.len()];
    for _ in 0..rounds {
        let mut order = None;
        for ((name, run), times) in structures.iter().zip(&mut times) {
            let (nanos, checksum) = run(increments, pending, holds);
            times.push(nanos);
            assert_eq!(*order.get_or_insert(checksum), checksum, "{name} gives another order");
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    times.iter_mut().map(median).collect()
}

fn exponential() -> Sampler {
    Dist::exponential(1.0).sampler().expect("the mean is above 0")
}

fn mix() -> Sampler {
    let parts = vec![
        Part { weight: 0.9, dist: Dist::exponential(0.001) },
        Part { weight: 0.1, dist: Dist::lognormal_median(3.6, 18.0) },
    ];
    Dist::Mixture { parts }.sampler().expect("the weights add up to 1 and the parts are in range")
}

/// Drawn beforehand, so that drawing is not measured.
fn increments(sampler: &Sampler) -> Vec<u64> {
    let mut stream = Stream::new(1, 0, "increments", 0);
    (0..1 << 17).map(|_| Span::from_secs_f64(sampler.sample(&mut stream)).as_nanos()).collect()
}

/// Nanoseconds a hold, and a checksum over the order.
fn run<L: List>(increments: &[u64], pending: usize, holds: usize) -> (f64, u64) {
    let mut list = L::default();
    let mut next = increments.iter().copied().cycle();
    let mut draw = || next.next().unwrap_or_default();
    for mark in 0..pending {
        list.push(draw(), mark as u32);
    }
    let mut checksum = 0_u64;
    let mut hold = |list: &mut L| {
        let (at, mark) = list.hold(draw());
        checksum = checksum.rotate_left(5) ^ at ^ u64::from(mark) << 40;
    };
    // Towards the stationary mixture of near and far events.
    for _ in 0..2 * pending {
        hold(&mut list);
    }
    let (seconds, ()) = timed(|| {
        for _ in 0..holds {
            hold(&mut list);
        }
    });
    (seconds * 1e9 / holds as f64, checksum)
}

impl List for Calendar<u32> {
    fn push(&mut self, at: u64, mark: u32) {
        self.schedule(Time::from_nanos(at), mark);
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let (at, mark) = self.pop().expect("the hold model never runs dry");
        self.after(Span::from_nanos(increment), mark);
        (at.as_nanos(), mark)
    }
}

/// Numbers keys in the order of scheduling.
#[derive(Default)]
struct Numbering(u64);

impl Numbering {
    /// Time, then number, then mark (20 bits).
    fn key(&mut self, at: u64, mark: u32) -> u128 {
        self.0 += 1;
        u128::from(at) << 64 | u128::from(self.0 << 20 | u64::from(mark))
    }
}

fn unpack(key: u128) -> (u64, u32) {
    ((key >> 64) as u64, key as u32 & 0xf_ffff)
}

#[derive(Default)]
struct Popped {
    heap: BinaryHeap<Reverse<u128>>,
    numbering: Numbering,
}

impl List for Popped {
    fn push(&mut self, at: u64, mark: u32) {
        self.heap.push(Reverse(self.numbering.key(at, mark)));
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let Reverse(key) = self.heap.pop().expect("the hold model never runs dry");
        let (at, mark) = unpack(key);
        self.push(at + increment, mark);
        (at, mark)
    }
}

#[derive(Default)]
struct Peeked(Popped);

impl List for Peeked {
    fn push(&mut self, at: u64, mark: u32) {
        self.0.push(at, mark);
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let mut top: PeekMut<'_, _> = self.0.heap.peek_mut().expect("the hold model never runs dry");
        let (at, mark) = unpack(top.0);
        *top = Reverse(self.0.numbering.key(at + increment, mark));
        (at, mark)
    }
}
