//! Which of the queues is served next: the first that is not empty, unless one of them has a share of
//! the service that is due.
//!
//! With each service every queue in which somebody waits is credited with its share; a queue whose credit
//! is a whole service is served before the others, and pays. So a queue with the share w is served at
//! least once in about 1 / w services, and when the shares make up the whole, service is divided by them
//! alone. Credits are whole millionths: they neither drift nor depend on the order of additions. An empty
//! queue saves nothing up.

use super::Weights;
use serde::{Deserialize, Serialize};

const QUEUES: usize = 3;
/// A whole service, in millionths.
const WHOLE: u64 = 1_000_000;

/// Shares and what is due of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Shares {
    /// Millionths of the service.
    shares: [u64; QUEUES],
    credits: [u64; QUEUES],
}

impl Shares {
    pub(super) fn new() -> Self {
        Self { shares: [0; QUEUES], credits: [0; QUEUES] }
    }

    pub(super) fn adopt(&mut self, weights: &Weights) {
        let Weights { high, standard, degraded } = *weights;
        self.shares = [high, standard, degraded].map(|share| (share * WHOLE as f64).round() as u64);
    }

    /// Which queue is served next, of those in which somebody waits.
    #[inline]
    pub(super) fn next(&mut self, waiting: [bool; QUEUES]) -> Option<u8> {
        let first = waiting.iter().position(|&waits| waits)?;
        let mut whole = 0;
        for ((credit, share), waits) in self.credits.iter_mut().zip(self.shares).zip(waiting) {
            whole += if waits { share } else { 0 };
            *credit = if waits { *credit + share } else { 0 };
        }
        let whole = whole.max(WHOLE);
        let due = (0..QUEUES).filter(|&queue| self.credits[queue] >= whole);
        // Of several that are due the one with the most credit; among equals the better queue.
        let due = due.max_by_key(|&queue| (self.credits[queue], QUEUES - queue));
        let served = due.unwrap_or(first);
        self.credits[served] = self.credits[served].saturating_sub(whole);
        Some(served as u8)
    }

    /// About how many services pass before the one that has `ahead` before it in this queue, and with so
    /// many waiting in each.
    pub(super) fn before(&self, queue: usize, ahead: usize, waiting: [usize; QUEUES]) -> f64 {
        let of = |range: std::ops::Range<usize>| -> f64 {
            let waits = |&queue: &usize| waiting[queue] > 0;
            range.filter(waits).map(|queue| self.shares[queue]).sum::<u64>() as f64 / WHOLE as f64
        };
        let (all, own, worse) = (of(0..QUEUES), of(queue..queue + 1), of(queue + 1..QUEUES));
        let scale = all.max(1.0);
        // By the order of the queues: all better ones first, and what is due to the worse ones meanwhile.
        let better: usize = waiting[..queue].iter().sum();
        let left = 1.0 - worse / scale;
        let by_order =
            if left > 0.0 { (better + ahead) as f64 / left } else { waiting.iter().sum::<usize>() as f64 };
        // By its own share.
        let by_share = if own > 0.0 { (ahead + 1) as f64 * scale / own - 1.0 } else { f64::INFINITY };
        by_order.min(by_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(high: f64, standard: f64, degraded: f64) -> Shares {
        let mut shares = Shares::new();
        shares.adopt(&Weights { high, standard, degraded });
        shares
    }

    /// How often each queue is served in a thousand services while all have somebody waiting.
    fn served(mut shares: Shares) -> [usize; QUEUES] {
        let mut served = [0; QUEUES];
        for _ in 0..1000 {
            served[usize::from(shares.next([true; QUEUES]).unwrap())] += 1;
        }
        served
    }

    #[test]
    fn the_first_queue_comes_first_and_the_others_have_their_shares() {
        // What is due to two at once is paid in turn: each share is kept to within one service.
        for (found, expected) in served(shares(0.0, 0.2, 0.1)).into_iter().zip([700_usize, 200, 100]) {
            assert!(found.abs_diff(expected) <= 1, "{found} instead of {expected}");
        }
        assert_eq!(served(shares(0.0, 0.0, 0.0)), [1000, 0, 0]);
    }

    #[test]
    fn shares_above_the_whole_are_scaled_down() {
        // 0.9, 0.3 and 0.6 of 1.8.
        let served = served(shares(0.9, 0.3, 0.6));
        for (found, expected) in served.into_iter().zip([500_usize, 167, 333]) {
            assert!(found.abs_diff(expected) <= 2, "{served:?}");
        }
    }

    #[test]
    fn an_empty_queue_saves_nothing_up() {
        let mut shares = shares(0.0, 0.0, 0.1);
        for _ in 0..1000 {
            assert_eq!(shares.next([true, false, false]), Some(0));
        }
        for _ in 0..9 {
            assert_eq!(shares.next([true, false, true]), Some(0));
        }
        assert_eq!(shares.next([true, false, true]), Some(2));
        assert_eq!(shares.next([false, true, false]), Some(1));
        assert_eq!(shares.next([false; QUEUES]), None);
    }

    #[test]
    fn the_estimate_is_the_lesser_of_order_and_share() {
        let shares = shares(0.0, 0.2, 0.1);
        // First queue: 7 in 10 services are its own.
        assert!((shares.before(0, 7, [10, 10, 10]) - 10.0).abs() < 1e-9);
        // Second: 100 before it, of which a tenth goes to the third; or its fifth of the service.
        assert!((shares.before(1, 1, [100, 10, 10]) - 9.0).abs() < 1e-9);
        assert!((shares.before(1, 8, [10, 10, 10]) - 20.0).abs() < 1e-9);
        // Alone, a queue is a plain one.
        assert!((shares.before(2, 3, [0, 0, 4]) - 3.0).abs() < 1e-9);
    }
}
