//! A row of cells for each value of a key, all rows in one array: the counts of a window's parts, the
//! moments of a user's last requests. A key that is new takes the place of one that was forgotten, so
//! users who come and go cost no allocation; a vector in each value of a map would cost one each.

use super::keyed::{KeyMap, LEAST_SWEEP};
use serde::{Deserialize, Serialize};

/// A head and `stride` cells for each value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rows<H, C> {
    stride: usize,
    heads: KeyMap<H>,
    /// The rows, in the order of the heads.
    cells: Vec<C>,
    /// The rows are swept when there are so many, and then at twice what the last sweep left.
    sweep_at: usize,
}

impl<H: Default, C: Copy + Default> Rows<H, C> {
    pub(crate) fn new(stride: usize) -> Self {
        Self { stride: stride.max(1), heads: KeyMap::default(), cells: Vec::new(), sweep_at: LEAST_SWEEP }
    }

    /// The row of `key`; a new one is all defaults. Rows for which `idle` holds are worth no more than a
    /// new one and may be forgotten.
    #[inline]
    pub(crate) fn row(&mut self, key: u64, idle: impl FnMut(&H, &[C]) -> bool) -> (&mut H, &mut [C]) {
        if self.heads.len() >= self.sweep_at && !self.heads.contains_key(&key) {
            self.sweep(idle);
        }
        let entry = self.heads.entry(key);
        let start = entry.index() * self.stride;
        let head = entry.or_default();
        if start == self.cells.len() {
            self.cells.resize(start + self.stride, C::default());
        }
        (head, &mut self.cells[start..start + self.stride])
    }

    /// Gives all rows another length; `carry` fills the new row (all defaults) from the old one.
    pub(crate) fn restride(&mut self, stride: usize, mut carry: impl FnMut(&mut H, &mut [C], &mut [C])) {
        let stride = stride.max(1);
        let mut old = std::mem::take(&mut self.cells);
        self.cells.resize(self.heads.len() * stride, C::default());
        let rows = old.chunks_exact_mut(self.stride).zip(self.cells.chunks_exact_mut(stride));
        for (head, (old, new)) in self.heads.values_mut().zip(rows) {
            carry(head, old, new);
        }
        self.stride = stride;
    }

    fn sweep(&mut self, mut idle: impl FnMut(&H, &[C]) -> bool) {
        let (stride, cells) = (self.stride, &mut self.cells);
        let (mut from, mut to) = (0, 0);
        self.heads.retain(|_, head| {
            let row = from..from + stride;
            from += stride;
            if idle(head, &cells[row.clone()]) {
                return false;
            }
            cells.copy_within(row, to);
            to += stride;
            true
        });
        self.cells.truncate(to);
        self.sweep_at = (2 * self.heads.len()).max(LEAST_SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_cells_when_others_are_forgotten() {
        let mut rows: Rows<u64, u64> = Rows::new(3);
        let idle = |head: &u64, _: &[u64]| !head.is_multiple_of(100);
        for key in 0..20_000 {
            let (head, cells) = rows.row(key, idle);
            assert_eq!((*head, &*cells), (0, [0; 3].as_slice()), "a new row is clean");
            *head = key;
            cells.copy_from_slice(&[key, key + 1, key + 2]);
        }
        assert!(rows.heads.len() < 2 * LEAST_SWEEP && rows.cells.len() == 3 * rows.heads.len());
        for key in (0..20_000).step_by(100) {
            let (head, cells) = rows.row(key, idle);
            assert_eq!((*head, &*cells), (key, [key, key + 1, key + 2].as_slice()));
        }
        rows.restride(2, |_, old, new| new.copy_from_slice(&old[1..]));
        assert_eq!(rows.row(700, idle).1, [701, 702]);
    }
}
