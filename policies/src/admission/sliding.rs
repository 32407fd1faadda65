//! A sliding window made of sub-windows: what was used in each is kept, and forgotten when the
//! sub-window has left the window.
//!
//! The sub-windows follow one another from the driver's start, and the present one counts among them.
//! So what is held against a quota is the use of the last n - 1 whole sub-windows and of the present
//! one. The sum is kept beside them in whole numbers, so it never drifts.

use super::rows::Rows;
use crate::Moment;
use serde::{Deserialize, Serialize};

/// What was used: tokens and requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Use {
    pub(crate) tokens: u64,
    pub(crate) requests: u64,
}

impl Use {
    fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            requests: self.requests.saturating_add(other.requests),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            requests: self.requests.saturating_sub(other.requests),
        }
    }

    fn at_most(self, other: Self) -> Self {
        Self { tokens: self.tokens.min(other.tokens), requests: self.requests.min(other.requests) }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Head {
    /// Number of the newest sub-window, counted from the driver's start.
    newest: u64,
    /// What was used in all live sub-windows.
    sum: Use,
}

/// The windows, one for each value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sliding {
    sub_ns: u64,
    subs: u64,
    /// A sub-window's cell is its number modulo their count.
    rows: Rows<Head, Use>,
}

impl Sliding {
    /// Windows of `window_ns`, each cut into `subs` parts.
    pub(crate) fn new(window_ns: u64, subs: u32) -> Self {
        let subs = subs.max(1);
        let sub_ns = (window_ns / u64::from(subs)).max(1);
        Self { sub_ns, subs: u64::from(subs), rows: Rows::new(subs as usize) }
    }

    /// The window of `key` at `now`.
    #[inline]
    pub(crate) fn window(&mut self, now: Moment, key: u64) -> Window<'_> {
        let (sub_ns, subs) = (self.sub_ns, self.subs);
        let (head, cells) = self.rows.row(key, |head, _| head.newest + subs <= now.0 / sub_ns);
        let mut window = Window { head, cells, now, sub_ns };
        window.advance();
        window
    }

    /// Takes another length or another cut over. What was used and is still live counts as used now.
    pub(crate) fn adopt(&mut self, now: Moment, window_ns: u64, subs: u32) {
        let changed = Self::new(window_ns, subs);
        if (changed.sub_ns, changed.subs) == (self.sub_ns, self.subs) {
            return;
        }
        let sub_ns = self.sub_ns;
        self.rows.restride(subs as usize, |head, old, new| {
            Window { head: &mut *head, cells: old, now, sub_ns }.advance();
            head.newest = now.0 / changed.sub_ns;
            new[(head.newest % changed.subs) as usize] = head.sum;
        });
        (self.sub_ns, self.subs) = (changed.sub_ns, changed.subs);
    }
}

/// One window, as it stands now.
pub(crate) struct Window<'a> {
    head: &'a mut Head,
    cells: &'a mut [Use],
    now: Moment,
    sub_ns: u64,
}

impl Window<'_> {
    /// Forgets the sub-windows that have left the window.
    #[inline]
    fn advance(&mut self) {
        let newest = self.now.0 / self.sub_ns;
        let steps = newest.saturating_sub(self.head.newest).min(self.cells.len() as u64);
        for step in 1..=steps {
            let cell = self.cell(self.head.newest + step);
            self.head.sum = self.head.sum.minus(std::mem::take(&mut self.cells[cell]));
        }
        self.head.newest = self.head.newest.max(newest);
    }

    #[inline]
    fn cell(&self, sub: u64) -> usize {
        (sub % self.cells.len() as u64) as usize
    }

    /// Numbers of the live sub-windows, oldest first.
    fn live(&self) -> std::ops::RangeInclusive<u64> {
        (self.head.newest + 1).saturating_sub(self.cells.len() as u64)..=self.head.newest
    }

    /// What is used in the live sub-windows.
    #[inline]
    pub(crate) fn used(&self) -> Use {
        self.head.sum
    }

    /// Adds to the present sub-window.
    #[inline]
    pub(crate) fn add(&mut self, more: Use) {
        self.add_at(self.head.newest, more);
    }

    fn add_at(&mut self, sub: u64, more: Use) {
        let cell = self.cell(sub);
        self.cells[cell] = self.cells[cell].plus(more);
        self.head.sum = self.head.sum.plus(more);
    }

    /// Puts what was really used in the place of what was reserved at `at`, if that sub-window is still
    /// live; what has left the window is nobody's business any more.
    pub(crate) fn settle(&mut self, at: Moment, reserved: Use, really: Use) {
        let sub = at.0 / self.sub_ns;
        if !self.live().contains(&sub) {
            return;
        }
        // It stands where it was reserved, or later when the window was cut anew since.
        let mut left = reserved;
        for sub in sub..=self.head.newest {
            let cell = self.cell(sub);
            let here = self.cells[cell].at_most(left);
            self.cells[cell] = self.cells[cell].minus(here);
            self.head.sum = self.head.sum.minus(here);
            left = left.minus(here);
            if left == Use::default() {
                break;
            }
        }
        self.add_at(sub, really);
    }

    /// Nanoseconds until so many sub-windows have left that `fits` holds for what is still used; `None`:
    /// it does not hold for an empty window.
    pub(crate) fn until(&self, fits: impl Fn(Use) -> bool) -> Option<u64> {
        let mut rest = self.head.sum;
        for sub in self.live() {
            rest = rest.minus(self.cells[self.cell(sub)]);
            if fits(rest) {
                let leaves = (sub + self.cells.len() as u64).saturating_mul(self.sub_ns);
                return Some(Moment(leaves).since(self.now));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    fn tokens(tokens: u64) -> Use {
        Use { tokens, requests: 1 }
    }

    #[test]
    fn sub_windows_leave_one_by_one() {
        let mut sliding = Sliding::new(60 * S, 6);
        sliding.window(Moment(5 * S), 0).add(tokens(10));
        sliding.window(Moment(15 * S), 0).add(tokens(20));
        let window = sliding.window(Moment(59 * S), 0);
        assert_eq!(window.used(), Use { tokens: 30, requests: 2 });
        assert_eq!(window.until(|used| used.tokens <= 20), Some(S));
        assert_eq!(window.until(|used| used.tokens <= 19), Some(11 * S));
        assert_eq!(window.until(|_| false), None);
        assert_eq!(sliding.window(Moment(60 * S), 0).used(), tokens(20));
        assert_eq!(sliding.window(Moment(1000 * S), 0).used(), Use::default());
    }

    #[test]
    fn a_reservation_is_settled_where_it_stands_or_not_at_all() {
        let mut sliding = Sliding::new(60 * S, 6);
        sliding.window(Moment(5 * S), 0).add(tokens(10));
        sliding.window(Moment(59 * S), 0).settle(Moment(5 * S), tokens(10), tokens(40));
        assert_eq!(sliding.window(Moment(59 * S), 0).used(), tokens(40));
        assert_eq!(sliding.window(Moment(60 * S), 0).used(), Use::default());
        sliding.window(Moment(61 * S), 0).settle(Moment(5 * S), tokens(40), tokens(50));
        assert_eq!(sliding.window(Moment(61 * S), 0).used(), Use::default());
    }

    #[test]
    fn another_cut_keeps_what_is_live() {
        let mut sliding = Sliding::new(60 * S, 6);
        sliding.window(Moment(5 * S), 0).add(tokens(10));
        sliding.window(Moment(25 * S), 0).add(tokens(20));
        sliding.adopt(Moment(62 * S), 30 * S, 10);
        assert_eq!(sliding.window(Moment(62 * S), 0).used(), tokens(20));
        sliding.window(Moment(63 * S), 0).settle(Moment(55 * S), tokens(20), tokens(5));
        assert_eq!(sliding.window(Moment(83 * S), 0).used(), tokens(5));
        assert_eq!(sliding.window(Moment(84 * S), 0).used(), Use::default());
    }

    proptest! {
        /// The sum is that of the live sub-windows, whatever is added and settled.
        #[test]
        fn the_sum_is_the_sum(steps in prop::collection::vec((0..20 * S, 0..100_u64, any::<bool>()), 0..100)) {
            let mut sliding = Sliding::new(60 * S, 6);
            let (mut now, mut last) = (Moment(0), (Moment(0), Use::default()));
            for (gap, n, settle) in steps {
                now = now.after(gap);
                let mut window = sliding.window(now, 3);
                if settle {
                    window.settle(last.0, last.1, tokens(n));
                    last.1 = Use::default();
                } else {
                    window.add(tokens(n));
                    last = (now, tokens(n));
                }
                let sum = window.cells.iter().fold(Use::default(), |sum, &cell| sum.plus(cell));
                prop_assert_eq!(window.used(), sum);
            }
        }
    }
}
