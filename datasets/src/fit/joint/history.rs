//! What a server was doing at any time, as first and last tokens show it: how many sequences decoded, what
//! they held, and whose prompts were computed.
//!
//! It serves twice: on a log, for a first idea of a cost, and on a simulated run, for how its latencies
//! change with the cost as long as the schedule stays as it is.

use super::sketch::PARTS;

/// A request as far as a history needs it: tokens in and out, first and last token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub(super) tokens_in: u32,
    pub(super) tokens_out: u32,
    pub(super) first_token_s: f64,
    pub(super) last_token_s: f64,
}

/// What was going on at any time.
pub(super) struct History {
    /// When sequences began and ended to decode, with the integrals up to then.
    changes: Vec<Change>,
    /// First tokens by time, with sums over the prompts so far: tokens, and half their squares.
    firsts: Vec<(f64, f64, f64)>,
}

#[derive(Clone, Copy)]
struct Change {
    at_s: f64,
    decoding: f64,
    resident: f64,
    growth: f64,
    /// Integrals of the first two up to this change.
    decoding_s: f64,
    resident_s: f64,
}

/// What went on between two times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    /// Decoding sequences, mean over time.
    pub(super) decoding: f64,
    /// Tokens they held, mean over time.
    pub(super) resident: f64,
    /// Tokens of the prompts whose first token came.
    pub(super) prefill: f64,
    /// Half the squares of their lengths.
    pub(super) area: f64,
}

impl Stretch {
    /// How the length of a stretch of so many iterations depends on each part of the cost.
    pub(super) fn slopes(&self, iterations: f64) -> [f64; PARTS] {
        [iterations, self.prefill, self.area, iterations * self.decoding, iterations * self.resident]
    }
}

impl History {
    pub(super) fn new(served: impl Iterator<Item = Served>) -> Self {
        let mut events: Vec<(f64, f64, f64, f64)> = Vec::new();
        let mut firsts: Vec<(f64, f64, f64)> = Vec::new();
        for request in served {
            let (tokens_in, tokens_out) = (f64::from(request.tokens_in), f64::from(request.tokens_out));
            firsts.push((request.first_token_s, tokens_in, tokens_in * tokens_in / 2.0));
            let stretch_s = request.last_token_s - request.first_token_s;
            if stretch_s > 0.0 {
                let rate = tokens_out / stretch_s;
                events.push((request.first_token_s, 1.0, tokens_in, rate));
                events.push((request.last_token_s, -1.0, -tokens_in - tokens_out, -rate));
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut now =
            Change { at_s: 0.0, decoding: 0.0, resident: 0.0, growth: 0.0, decoding_s: 0.0, resident_s: 0.0 };
        let mut changes = Vec::with_capacity(events.len());
        for (at_s, decoding, resident, growth) in events {
            let passed_s = if changes.is_empty() { 0.0 } else { at_s - now.at_s };
            now = Change {
                at_s,
                decoding: now.decoding + decoding,
                resident: now.resident + now.growth * passed_s + resident,
                growth: now.growth + growth,
                decoding_s: now.decoding_s + now.decoding * passed_s,
                resident_s: now.resident_s + (now.resident + now.growth * passed_s / 2.0) * passed_s,
            };
            changes.push(now);
        }
        firsts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = (0.0, 0.0);
        for first in &mut firsts {
            sum = (sum.0 + first.1, sum.1 + first.2);
            (first.1, first.2) = sum;
        }
        Self { changes, firsts }
    }

    /// What went on after one time and up to another.
    pub(super) fn stretch(&self, after_s: f64, up_to_s: f64) -> Stretch {
        let ([decoding, resident], [before_d, before_r]) = (self.integrals(up_to_s), self.integrals(after_s));
        let ([prefill, area], [before_p, before_a]) = (self.prefilled(up_to_s), self.prefilled(after_s));
        let over = if up_to_s > after_s { 1.0 / (up_to_s - after_s) } else { 0.0 };
        Stretch {
            decoding: (decoding - before_d).max(0.0) * over,
            resident: (resident - before_r).max(0.0) * over,
            prefill: prefill - before_p,
            area: area - before_a,
        }
    }

    /// Integrals of decoding sequences and of their tokens from the beginning to a time.
    fn integrals(&self, at_s: f64) -> [f64; 2] {
        let after = self.changes.partition_point(|change| change.at_s <= at_s);
        let Some(last) = after.checked_sub(1).map(|index| self.changes[index]) else { return [0.0; 2] };
        let passed_s = at_s - last.at_s;
        let resident_s = last.resident_s + (last.resident + last.growth * passed_s / 2.0) * passed_s;
        [last.decoding_s + last.decoding * passed_s, resident_s]
    }

    /// Sums over the prompts whose first token came up to a time.
    fn prefilled(&self, up_to_s: f64) -> [f64; 2] {
        let count = self.firsts.partition_point(|first| first.0 <= up_to_s);
        count.checked_sub(1).map_or([0.0; 2], |index| [self.firsts[index].1, self.firsts[index].2])
    }
}
