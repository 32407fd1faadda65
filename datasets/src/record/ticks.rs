//! The schedule: ticks at multiples of the period, whatever happens at each of them.

use hdrhistogram::Histogram;

/// Longest gap that is told apart, nanoseconds: a day.
const LONGEST_GAP_NS: u64 = 86_400_000_000_000;

/// The ticks of one device, and how well they were kept.
#[derive(Debug)]
pub(super) struct Ticks {
    period_ns: u64,
    /// The next tick, counted from 0.
    next: u64,
    last_ns: Option<u64>,
    missed: u64,
    gaps_ns: Histogram<u64>,
}

impl Ticks {
    pub(super) fn new(period_ns: u64) -> Self {
        // Three digits, as a period that is kept to a thousandth is kept.
        let gaps_ns = Histogram::new_with_bounds(1, LONGEST_GAP_NS, 3).expect("the bounds are in order");
        Self { period_ns: period_ns.max(1), next: 0, last_ns: None, missed: 0, gaps_ns }
    }

    /// When the next tick is due.
    pub(super) fn due_ns(&self) -> u64 {
        self.next.saturating_mul(self.period_ns)
    }

    /// The tick was made at this time.
    pub(super) fn made(&mut self, at_ns: u64) {
        if let Some(last_ns) = self.last_ns {
            self.gaps_ns.saturating_record(at_ns.saturating_sub(last_ns).max(1));
        }
        self.last_ns = Some(at_ns);
        self.next += 1;
    }

    /// The work of the tick has taken until now: ticks that are due for more than half a period are missed,
    /// a later one is made late. So two samples are never closer than half a period.
    pub(super) fn worked_until(&mut self, now_ns: u64) {
        let nearest = now_ns.saturating_add(self.period_ns / 2) / self.period_ns;
        self.missed += nearest.saturating_sub(self.next);
        self.next = self.next.max(nearest);
    }

    /// Ticks that were not made because the work of one before took too long.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Real times between samples, nanoseconds.
    pub(super) fn gaps_ns(&self) -> &Histogram<u64> {
        &self.gaps_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_work_misses_ticks_and_moves_none() {
        let mut ticks = Ticks::new(100);
        ticks.made(0);
        ticks.worked_until(10);
        assert_eq!((ticks.due_ns(), ticks.missed()), (100, 0));
        // A little late: the tick is made at once.
        ticks.made(100);
        ticks.worked_until(240);
        assert_eq!((ticks.due_ns(), ticks.missed()), (200, 0));
        // Far too late: the ticks at 300 and 400 are gone, and the next one stands where it stood.
        ticks.made(240);
        ticks.worked_until(460);
        assert_eq!((ticks.due_ns(), ticks.missed()), (500, 2));
        ticks.made(500);
        assert_eq!(ticks.gaps_ns().len(), 3);
        assert_eq!(ticks.gaps_ns().max(), 260);
    }
}
