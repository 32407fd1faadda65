//! The four-ary heap of bare keys, with and without the fusion of pop and push: what the crate's
//! `Calendar` would be without payloads, handles and cancellation.

use super::{List, Numbering, unpack};

const ARITY: usize = 4;

#[derive(Default)]
struct Heap {
    keys: Vec<u128>,
    numbering: Numbering,
}

impl Heap {
    fn push(&mut self, key: u128) {
        let mut hole = self.keys.len();
        self.keys.push(key);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[hole] = self.keys[parent];
            hole = parent;
        }
        self.keys[hole] = key;
    }

    /// Walks a hole down from the top until `key` fits.
    fn replace_first(&mut self, key: u128) {
        let mut hole = 0;
        while let Some((child, least)) = least_child(&self.keys, hole) {
            if least > key {
                break;
            }
            self.keys[hole] = least;
            hole = child;
        }
        self.keys[hole] = key;
    }
}

/// The least of the children of `node`: by two comparisons and one, without branches, where all four
/// are there.
fn least_child(keys: &[u128], node: usize) -> Option<(usize, u128)> {
    let first = node * ARITY + 1;
    if let Some(&[a, b, c, d]) = keys.get(first..first + ARITY) {
        let (ab, low) = if b < a { (1, b) } else { (0, a) };
        let (cd, high) = if d < c { (3, d) } else { (2, c) };
        return Some(if high < low { (first + cd, high) } else { (first + ab, low) });
    }
    (first..keys.len()).map(|child| (child, keys[child])).min_by_key(|(_, key)| *key)
}

#[derive(Default)]
pub(crate) struct Fused(Heap);

impl List for Fused {
    fn push(&mut self, at: u64, mark: u32) {
        let key = self.0.numbering.key(at, mark);
        self.0.push(key);
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let (at, mark) = unpack(self.0.keys[0]);
        let key = self.0.numbering.key(at + increment, mark);
        self.0.replace_first(key);
        (at, mark)
    }
}

#[derive(Default)]
pub(crate) struct Plain(Heap);

impl List for Plain {
    fn push(&mut self, at: u64, mark: u32) {
        let key = self.0.numbering.key(at, mark);
        self.0.push(key);
    }

    fn hold(&mut self, increment: u64) -> (u64, u32) {
        let (at, mark) = unpack(self.0.keys[0]);
        let last = self.0.keys.pop().expect("the hold model never runs dry");
        if !self.0.keys.is_empty() {
            self.0.replace_first(last);
        }
        self.push(at + increment, mark);
        (at, mark)
    }
}
