//! One value per key: a plain array where keys are dense (global, endpoint), an ordered map where they
//! are not (tenant, user). The map forgets values that say nothing any more (a full bucket, an idle
//! gate), so its size follows the keys in use, not the keys ever seen.

use super::Key;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The map is swept when it has grown to this size, and then to twice what the last sweep left.
const LEAST_SWEEP: usize = 1024;

/// A value of `T` for each value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Keyed<T> {
    Dense(Vec<T>),
    Sparse { map: BTreeMap<u64, T>, sweep_at: usize },
}

impl<T> Keyed<T> {
    pub(crate) fn new(key: Key) -> Self {
        match key {
            Key::Global | Key::Endpoint => Self::Dense(Vec::new()),
            Key::Tenant | Key::User => Self::Sparse { map: BTreeMap::new(), sweep_at: LEAST_SWEEP },
        }
    }

    /// The value of `key`. A key that is new gets `fresh()`; values for which `idle` holds are worth no
    /// more than a fresh one and may be forgotten.
    #[inline]
    pub(crate) fn entry(
        &mut self,
        key: u64,
        fresh: impl FnMut() -> T,
        mut idle: impl FnMut(&T) -> bool,
    ) -> &mut T {
        match self {
            Self::Dense(values) => {
                let index = key as usize;
                if index >= values.len() {
                    values.resize_with(index + 1, fresh);
                }
                &mut values[index]
            }
            Self::Sparse { map, sweep_at } => {
                if map.len() >= *sweep_at && !map.contains_key(&key) {
                    map.retain(|_, value| !idle(value));
                    *sweep_at = (2 * map.len()).max(LEAST_SWEEP);
                }
                map.entry(key).or_insert_with(fresh)
            }
        }
    }

    /// The value of `key`, if there is one.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        match self {
            Self::Dense(values) => values.get_mut(key as usize),
            Self::Sparse { map, .. } => map.get_mut(&key),
        }
    }

    /// All keys with a value, in order.
    pub(crate) fn keys(&self) -> Vec<u64> {
        match self {
            Self::Dense(values) => (0..values.len() as u64).collect(),
            Self::Sparse { map, .. } => map.keys().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_map_forgets_the_idle() {
        let mut keyed: Keyed<bool> = Keyed::new(Key::User);
        for user in 0..100_000 {
            *keyed.entry(user, || true, |&idle| idle) = user % 1000 != 0;
        }
        let kept = keyed.keys();
        assert!(kept.len() < 2 * LEAST_SWEEP, "{} kept", kept.len());
        assert!((0..100_000).step_by(1000).all(|user| kept.contains(&user)));
    }

    #[test]
    fn dense_keys_are_an_array() {
        let mut keyed: Keyed<u32> = Keyed::new(Key::Endpoint);
        *keyed.entry(3, || 7, |_| false) += 1;
        assert_eq!(keyed, Keyed::Dense(vec![7, 7, 7, 8]));
        assert_eq!(keyed.get_mut(4), None);
    }
}
