//! How fast is the engine? M/M/1 and M/M/8 at load 0.9 through the public API, with full statistics,
//! side by side with a hand-written simulator that keeps only the mean wait.
//!
//! `cargo bench -p forebay-engine --bench mm1 [-- CUSTOMERS ROUNDS]`. Rounds alternate between the
//! two, so that a busy machine slows both; rates are per second of processor time, and the ratio is
//! that of the medians. Target: the engine reaches at least half of the hand-written rate.

#[path = "../shared/clock.rs"]
mod clock;
mod engine;
mod general_4ary;

use clock::timed;

/// Load of every server.
const LOAD: f64 = 0.9;

/// What a simulator reports.
struct Outcome {
    mean_wait_s: f64,
    events: u64,
}

fn main() {
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let customers = numbers.first().copied().unwrap_or(5_000_000);
    let rounds = numbers.get(1).copied().unwrap_or(7);
    println!("load {LOAD}, {customers} customers a round, median of {rounds} rounds, mean service 1 s");
    println!("{:<8}{:<14}{:>16}{:>16}{:>14}", "queue", "simulator", "customers/s", "events/s", "mean wait s");
    for servers in [1, 8] {
        compare(servers, customers, rounds);
    }
}

fn compare(servers: u32, customers: u64, rounds: u64) {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for seed in 0..rounds {
        theirs.push(timed(|| general_4ary::run(servers, customers, seed)));
        ours.push(timed(|| engine::run(servers, customers, seed)));
    }
    let name = format!("M/M/{servers}");
    let theirs = report(&name, "general_4ary", customers, &theirs);
    let ours = report(&name, "engine", customers, &ours);
    println!("{name:<8}ratio {:.2}", ours / theirs);
}

/// Prints a line and gives the median rate.
fn report(queue: &str, simulator: &str, customers: u64, rounds: &[(f64, Outcome)]) -> f64 {
    let mut seconds: Vec<f64> = rounds.iter().map(|(seconds, _)| *seconds).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = customers as f64 / seconds[seconds.len() / 2];
    let events = rounds[0].1.events as f64 / customers as f64;
    let wait = rounds.iter().map(|(_, outcome)| outcome.mean_wait_s).sum::<f64>() / rounds.len() as f64;
    println!("{queue:<8}{simulator:<14}{:>14.2} M{:>14.2} M{wait:>14.4}", rate / 1e6, rate * events / 1e6);
    rate
}
