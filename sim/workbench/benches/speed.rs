//! How fast whole bundled scenarios run on one core: requests per second of processor time, against the
//! speed that the project asks of itself, and simulated time against processor time.
//!
//! `cargo bench -p forebay-workbench`. Rounds of all scenarios take turns, so that a machine that slows
//! down slows all of them; the median counts.

#[path = "../../engine/benches/shared/clock.rs"]
mod clock;

use forebay_model::document::Setting;
use forebay_model::{Loaded, simulate};
use forebay_workbench::open;

const ROUNDS: usize = 7;

struct Case {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Requests per second of one core that are asked for.
    asked: f64,
    /// Replications of one round: enough to keep the processor busy for tenths of a second.
    replications: u64,
}

const CASES: &[Case] = &[
    Case {
        name: "theory-mmc",
        settings: &[("run.duration_s", "200000")],
        asked: 1_000_000.0,
        replications: 1,
    },
    Case { name: "shop-peak", settings: &[], asked: 300_000.0, replications: 1 },
    Case { name: "shop-peak-mini", settings: &[], asked: 300_000.0, replications: 6 },
    Case { name: "azure-conversations", settings: &[], asked: 100_000.0, replications: 6 },
];

fn main() {
    let loaded: Vec<Loaded> = CASES
        .iter()
        .map(|case| {
            let settings: Vec<_> =
                case.settings.iter().map(|(path, value)| Setting::new(*path, *value)).collect();
            match open(case.name, &settings) {
                Ok(opened) => opened.loaded,
                Err(error) => panic!("{}: {error}", case.name),
            }
        })
        .collect();
    let mut rates = vec![Vec::new(); CASES.len()];
    let mut paces = vec![Vec::new(); CASES.len()];
    for _ in 0..ROUNDS {
        for (index, case) in CASES.iter().enumerate() {
            let (seconds, (requests, simulated_s)) =
                clock::timed(|| round(&loaded[index], case.replications));
            rates[index].push(requests as f64 / seconds);
            paces[index].push(simulated_s / seconds);
        }
    }
    println!(
        "{:<22} {:>14} {:>14} {:>8} {:>14}",
        "scenario", "requests/s", "asked for", "ratio", "x real time"
    );
    for (index, case) in CASES.iter().enumerate() {
        let (rate, pace) = (median(&mut rates[index]), median(&mut paces[index]));
        let ratio = rate / case.asked;
        println!("{:<22} {rate:>14.0} {:>14.0} {ratio:>8.2} {pace:>14.0}", case.name, case.asked);
    }
}

fn round(loaded: &Loaded, replications: u64) -> (u64, f64) {
    let mut totals = (0, 0.0);
    for replication in 0..replications {
        let run = simulate(loaded, loaded.scenario.run.seed, replication).expect("a bundled scenario runs");
        totals = (totals.0 + run.ledger.offered, totals.1 + run.simulated_s);
    }
    totals
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
