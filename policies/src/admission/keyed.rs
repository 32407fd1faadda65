//! One value per key: a plain array where keys are dense (global, endpoint), a hash map where they are
//! not (tenant, user). The map forgets values that say nothing any more (a full bucket, an idle gate),
//! so its size follows the keys in use, not the keys ever seen.
//!
//! The map keeps its keys in the order in which they came, whatever they hash to, so everything that
//! walks over it is deterministic; and it keeps its memory when it forgets, so that a population of
//! users that comes and goes costs no allocation. A tree was rejected: it allocates a node for every few
//! new keys, and finding one among many thousands takes several cache misses.

use super::Key;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::hash::{BuildHasherDefault, Hasher};

/// The map is swept when it has grown to this size, and then to twice what the last sweep left.
pub(super) const LEAST_SWEEP: usize = 1024;

/// A map from keys of requests, in order of arrival.
pub(crate) type KeyMap<T> = IndexMap<u64, T, BuildHasherDefault<Spread>>;

/// A value of `T` for each value of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Keyed<T> {
    Dense(Vec<T>),
    Sparse { map: KeyMap<T>, sweep_at: usize },
}

impl<T> Keyed<T> {
    pub(crate) fn new(key: Key) -> Self {
        match key {
            Key::Global | Key::Endpoint => Self::Dense(Vec::new()),
            Key::Tenant | Key::User => Self::Sparse { map: KeyMap::default(), sweep_at: LEAST_SWEEP },
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
    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        match self {
            Self::Dense(values) => values.get(key as usize),
            Self::Sparse { map, .. } => map.get(&key),
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
            Self::Sparse { map, .. } => {
                let mut keys: Vec<u64> = map.keys().copied().collect();
                keys.sort_unstable();
                keys
            }
        }
    }

    /// All values, in the order in which their keys came.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        let (dense, sparse) = match self {
            Self::Dense(values) => (Some(values.iter()), None),
            Self::Sparse { map, .. } => (None, Some(map.values())),
        };
        dense.into_iter().flatten().chain(sparse.into_iter().flatten())
    }
}

/// A hash of one number that is the same in every process: the number's bits, mixed until each depends
/// on all. It does not guard against keys that were chosen to collide; a gateway that takes users' names
/// from outside numbers them first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Spread {
    /// The mixed bits of one number.
    #[inline]
    pub(crate) fn of(number: u64) -> u64 {
        let mixed = (number ^ (number >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 32)
    }
}

impl Hasher for Spread {
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = Self::of(self.0 ^ number);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
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

    #[test]
    fn a_saved_map_keeps_its_order_and_finds_its_keys() {
        let mut keyed: Keyed<u64> = Keyed::new(Key::Tenant);
        let keys = [7, u64::MAX, 0, 1 << 40, 3];
        for key in keys {
            *keyed.entry(key, || key, |_| false) ^= 1;
        }
        let saved = serde_json::to_string(&keyed).unwrap();
        let mut restored: Keyed<u64> = serde_json::from_str(&saved).unwrap();
        assert_eq!(serde_json::to_string(&restored).unwrap(), saved);
        assert!(restored.values().copied().eq(keys.map(|key| key ^ 1)));
        assert!(keys.iter().all(|&key| restored.get_mut(key).is_some_and(|value| *value == key ^ 1)));
        assert_eq!(restored.get(4), None);
        assert_eq!(restored.keys(), [0, 3, 7, 1 << 40, u64::MAX]);
    }

    #[test]
    fn close_numbers_are_spread_over_all_bits() {
        // The map takes its place from the low bits and a tag from the high ones.
        for shift in [0, 57] {
            let mut seen = [0_u32; 128];
            (0..12_800_u64).for_each(|n| seen[(Spread::of(n) >> shift) as usize % 128] += 1);
            assert!(seen.iter().all(|&count| (50..200).contains(&count)), "{seen:?}");
        }
    }
}
