//! A four-ary min-heap of `u128` keys: the order of the future-event list, and nothing else.
//!
//! Four children to a node halve the depth of a binary heap, and the four lie side by side in one or
//! two cache lines. Keys are unique, so the order in which equal keys would leave never matters.

const ARITY: usize = 4;

/// Keys in heap order: `keys[0]` is the least.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    keys: Vec<u128>,
}

impl Heap {
    pub(super) const fn new() -> Self {
        Self { keys: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    #[inline]
    pub(super) fn first(&self) -> Option<u128> {
        self.keys.first().copied()
    }

    #[inline]
    pub(super) fn push(&mut self, key: u128) {
        let at = self.keys.len();
        self.keys.push(key);
        self.rise(at, key);
    }

    /// Puts `key` in the place of the least key: one walk down where removing and pushing are two.
    /// The heap must not be empty.
    #[inline]
    pub(super) fn replace_first(&mut self, key: u128) {
        let len = self.keys.len();
        let keys = &mut self.keys[..];
        let mut hole = 0;
        while let Some((child, least)) = least_child(keys, hole, len) {
            if least > key {
                break;
            }
            keys[hole] = least;
            hole = child;
        }
        keys[hole] = key;
    }

    /// Removes the least key.
    pub(super) fn remove_first(&mut self) {
        let Some(last) = self.keys.pop() else { return };
        let len = self.keys.len();
        if len == 0 {
            return;
        }
        // The last key nearly always belongs near the bottom again: walk the hole all the way down
        // without comparing against it, then let it rise the step or two it must.
        let mut hole = 0;
        while let Some((child, least)) = least_child(&self.keys, hole, len) {
            self.keys[hole] = least;
            hole = child;
        }
        self.rise(hole, last);
    }

    /// Keeps the keys that `keep` accepts, in `O(n)`.
    pub(super) fn retain(&mut self, keep: impl FnMut(&u128) -> bool) {
        let mut keep = keep;
        self.keys.retain(|key| keep(key));
        // Sorting is a heap too, and simpler than heapify; compaction is amortised over as many
        // cancellations as there are keys left.
        self.keys.sort_unstable();
    }

    /// Rewrites every key in ascending order; `rewrite` must keep that order.
    pub(super) fn rewrite_sorted(&mut self, mut rewrite: impl FnMut(u128) -> u128) {
        self.keys.sort_unstable();
        for key in &mut self.keys {
            *key = rewrite(*key);
        }
    }

    #[inline]
    fn rise(&mut self, from: usize, key: u128) {
        let keys = &mut self.keys[..];
        let mut at = from;
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if keys[parent] <= key {
                break;
            }
            keys[at] = keys[parent];
            at = parent;
        }
        keys[at] = key;
    }
}

/// The least of the children of `node` and its place, among the first `len` keys.
#[inline]
fn least_child(keys: &[u128], node: usize, len: usize) -> Option<(usize, u128)> {
    let first = node * ARITY + 1;
    if let Some(&[a, b, c, d]) = keys.get(first..first + ARITY) {
        let (ab, low) = if b < a { (1, b) } else { (0, a) };
        let (cd, high) = if d < c { (3, d) } else { (2, c) };
        return Some(if high < low { (first + cd, high) } else { (first + ab, low) });
    }
    let tail = keys.get(first..len)?;
    let mut best = (first, *tail.first()?);
    for (offset, &key) in tail.iter().enumerate().skip(1) {
        if key < best.1 {
            best = (first + offset, key);
        }
    }
    Some(best)
}
