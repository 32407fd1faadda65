//! Where a fit starts: a cost of iterations read off the log without any simulation.
//!
//! The stretch between a request's first and last token is a sum over its iterations, and what each of
//! those computed can be read off the other requests: how many decoded at the time, what they held, and
//! whose prompts were computed meanwhile (those whose first token falls into the stretch). That is a linear
//! model of the stretch; the time to first token of requests that did not wait long is another. Both
//! together, fitted by least absolute deviations, are rough where requests are preempted and good elsewhere.
//! Only requests that the fit may see are used, as batch mates too.

use super::super::observed::ObservedRequest;
use super::history::{History, Served, Stretch};
use super::linear::{Row, least_deviations};

/// The parts of a cost: constant, per prefill token, per prefill token and context, per decoding sequence,
/// per resident token.
pub(super) const PARTS: usize = 5;
/// A request whose way to its first token saw more prefill than so many budgets has waited.
const WAITED: f64 = 3.0;
/// Iterations between an arrival and the first that can take it in: half of the running one, and the one
/// that was composed meanwhile.
const ENTRY: f64 = 1.5;

/// A first idea of a cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sketch {
    /// The coefficients, s.
    pub(super) cost: [f64; PARTS],
    /// For each, the coefficient with which it alone would make an iteration as long as it is, s.
    pub(super) scales: [f64; PARTS],
}

/// Reads a cost off the requests that a fit may see, for so many engines that they were spread over.
pub(super) fn sketch(groups: &[&[ObservedRequest]], engines: usize, budget: u32) -> Sketch {
    let mut rows = Vec::new();
    let mut sums = [0.0; PARTS];
    for seen in groups {
        let history = History::new(seen.iter().map(served));
        let engines = engines as f64;
        for request in *seen {
            if let Some(row) = decode_row(&history, request, engines) {
                (0..PARTS).for_each(|part| sums[part] += row.slopes[part]);
                rows.push(row);
            }
            rows.extend(prefill_row(&history, request, engines, f64::from(budget)));
        }
    }
    let observed: f64 = -rows.iter().map(|row| row.value).sum::<f64>();
    let mean_s = (observed / sums[0].max(1.0)).max(1e-9);
    // A part that the stretches hardly hold is scaled by the prompts themselves.
    let n = groups.iter().map(|seen| seen.len()).sum::<usize>().max(1) as f64;
    let mean = |of: fn(f64) -> f64| {
        let all = groups.iter().flat_map(|seen| seen.iter());
        all.map(|request| of(f64::from(request.tokens_in))).sum::<f64>() / n
    };
    let prompt =
        [1.0, mean(|tokens| tokens), mean(|tokens| tokens * tokens / 2.0), 0.5, mean(|tokens| tokens) / 2.0];
    let scales: [f64; PARTS] = std::array::from_fn(|part| {
        mean_s / (sums[part] / sums[0].max(1.0)).max(0.02 * prompt[part]).max(1e-12)
    });
    for row in &mut rows {
        (0..PARTS).for_each(|part| row.slopes[part] *= scales[part]);
        // As a share of what was observed, so that short stretches say as much as long ones.
        row.weight = 1.0 / (-row.value).max(mean_s);
    }
    let found = least_deviations(&rows, &[0.0; PARTS], &[20.0; PARTS]);
    let mut cost: [f64; PARTS] = std::array::from_fn(|part| found[part] * scales[part]);
    // Iterations without any constant part do not exist, and a search cannot leave 0 easily.
    cost[0] = cost[0].max(0.05 * mean_s);
    Sketch { cost, scales }
}

fn served(request: &ObservedRequest) -> Served {
    Served {
        tokens_in: request.tokens_in,
        tokens_out: request.tokens_out,
        first_token_s: request.first_token_s,
        last_token_s: request.last_token_s,
    }
}

/// What a request sees of a stretch in one of so many engines: all of itself, and its share of the others.
fn shared(all: Stretch, own: Stretch, engines: f64) -> Stretch {
    let share = |all: f64, own: f64| own + (all - own).max(0.0) / engines;
    Stretch {
        decoding: share(all.decoding, own.decoding),
        resident: share(all.resident, own.resident),
        prefill: share(all.prefill, own.prefill),
        area: share(all.area, own.area),
    }
}

/// The stretch from first to last token; none for an answer of one token.
fn decode_row(history: &History, request: &ObservedRequest, engines: f64) -> Option<Row> {
    let (from_s, to_s) = (request.first_token_s, request.last_token_s);
    if request.tokens_out < 2 || to_s <= from_s {
        return None;
    }
    let held = f64::from(request.tokens_in) + f64::from(request.tokens_out) / 2.0;
    let own = Stretch { decoding: 1.0, resident: held, ..Stretch::default() };
    let seen = shared(history.stretch(from_s, to_s), own, engines);
    let slopes = seen.slopes(f64::from(request.tokens_out - 1)).to_vec();
    Some(Row { value: from_s - to_s, slopes, weight: 1.0 })
}

/// The stretch from arrival to first token; none for a request that waited for a seat or for room.
fn prefill_row(history: &History, request: &ObservedRequest, engines: f64, budget: f64) -> Option<Row> {
    let (from_s, to_s) = (request.arrival_s, request.first_token_s);
    let prompt = f64::from(request.tokens_in);
    let own = Stretch { prefill: prompt, area: prompt * prompt / 2.0, ..Stretch::default() };
    let seen = shared(history.stretch(from_s, to_s), own, engines);
    if to_s <= from_s || seen.prefill > prompt + WAITED * budget {
        return None;
    }
    // An idle engine begins at once.
    let iterations = (seen.prefill / budget).ceil() + ENTRY * seen.decoding.min(1.0);
    Some(Row { value: from_s - to_s, slopes: seen.slopes(iterations).to_vec(), weight: 1.0 })
}
