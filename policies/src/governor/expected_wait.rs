//! How long a queued attempt will probably still wait (published case H11: "your answer comes in about
//! X minutes").
//!
//! Those who are served before it, times the mean time from one hand-out to the next while somebody
//! waits. The mean is exponential over the last hand-outs, and a hand-out that is overdue counts with
//! what it has taken so far: when service stalls, the estimate grows. Who is served before it is known
//! as things stand: later arrivals that overtake it, and others that give up, are not foreseen.

use super::Governor;
use crate::{Moment, Ticket};
use serde::{Deserialize, Serialize};

/// Hand-outs that the mean goes back over.
const MEMORY: f64 = 32.0;

/// How fast the queue is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Pace {
    /// Mean nanoseconds from one hand-out to the next while somebody waits.
    gap_ns: Option<f64>,
    /// When the last hand-out was, if somebody has been waiting since.
    since: Option<Moment>,
}

impl Pace {
    /// One was handed out, and so many wait on.
    #[inline]
    pub(super) fn served(&mut self, now: Moment, waiting: usize) {
        if let Some(since) = self.since {
            let gap_ns = now.since(since) as f64;
            self.gap_ns = Some(self.gap_ns.map_or(gap_ns, |mean| mean + (gap_ns - mean) / MEMORY));
        }
        self.since = (waiting > 0).then_some(now);
    }

    /// The mean with the present gap, if that is the longer one.
    fn gap_ns(&self, now: Moment) -> Option<f64> {
        let open_ns = self.since.map_or(0.0, |since| now.since(since) as f64);
        let mean = self.gap_ns?;
        Some(if open_ns > mean { mean + (open_ns - mean) / MEMORY } else { mean })
    }
}

impl Governor {
    /// How long a queued attempt will probably still wait, in nanoseconds; `None`: it does not stand in
    /// the queue, or the queue has not been served yet. This looks at everybody who waits: ask for the
    /// few who are told, not for all.
    pub fn expected_wait(&self, now: Moment, ticket: Ticket) -> Option<u64> {
        let place = self.tickets.queued_at(ticket)?;
        let ahead = self.queue.as_ref()?.ahead(now, place)?;
        Some((self.pace.gap_ns(now)? * (ahead + 1) as f64).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RequestView, Signals};

    const S: u64 = 1_000_000_000;

    #[test]
    fn idle_time_does_not_count() {
        let mut pace = Pace::default();
        assert_eq!(pace.gap_ns(Moment(0)), None);
        pace.served(Moment(0), 0);
        pace.served(Moment(100 * S), 1);
        assert_eq!(pace.gap_ns(Moment(100 * S)), None);
        pace.served(Moment(102 * S), 1);
        assert_eq!(pace.gap_ns(Moment(102 * S)), Some(2e9));
        pace.served(Moment(102 * S), 0);
        assert!(pace.gap_ns(Moment(500 * S)).is_some_and(|gap_ns| gap_ns < 2e9));
    }

    #[test]
    fn a_stall_lengthens_the_estimate() {
        let mut pace = Pace::default();
        pace.served(Moment(0), 1);
        pace.served(Moment(S), 1);
        assert_eq!(pace.gap_ns(Moment(2 * S)), Some(1e9));
        assert_eq!(pace.gap_ns(Moment(34 * S)), Some(2e9));
    }

    #[test]
    fn the_estimate_is_those_before_times_the_mean_gap() {
        let policy = toml::from_str("[queue]\nkind = 'strict_priority'").expect("the test's own file");
        let mut governor = Governor::new(&policy).expect("the test's own values");
        let signals = Signals::default();
        for slot in 0..20 {
            let class = if slot < 10 { 3 } else { 1 };
            let request = RequestView { class, ..RequestView::new(Ticket::of(slot, 0)) };
            governor.arrived(Moment(0), &request, &signals);
        }
        let wait =
            |governor: &Governor, slot, at_s| governor.expected_wait(Moment(at_s * S), Ticket::of(slot, 0));
        assert_eq!(wait(&governor, 0, 0), None);
        for at_s in [2, 4, 6] {
            governor.next(Moment(at_s * S), &signals);
        }
        // Of the better class 7 still wait: the next of them, the last of them, the first of the other.
        assert_eq!([13, 19, 0].map(|slot| wait(&governor, slot, 6)), [2, 14, 16].map(|s| Some(s * S)));
        assert_eq!(wait(&governor, 10, 6), None);
        governor.left(Moment(6 * S), Ticket::of(13, 0), &crate::End::GONE);
        assert_eq!(wait(&governor, 0, 6), Some(14 * S));
    }
}
