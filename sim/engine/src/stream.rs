//! Randomness by name. A [`Stream`] is a generator for one purpose of one entity in one replication;
//! a [`Chance`] is all of one request's luck in a single key.
//!
//! No two purposes share a generator, so using one more number here shifts nothing there: two
//! configurations face the same arrivals, the same lengths, the same patience, and their difference is
//! their own (common random numbers). Both are pure functions of their names; nothing depends on the
//! order in which they are made.
//!
//! The generators are spelled out (xoshiro256++, `SplitMix64`, FNV-1a) instead of taken from an alias
//! such as `SmallRng`, which may mean another one in the next release and would change every stored
//! result.

mod chance;

use std::convert::Infallible;

use rand::{SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

pub use chance::{Chance, Draw};

/// 2^64 divided by the golden ratio, odd: the step of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A named random stream: xoshiro256++ with a state derived from its name. Implements rand's
/// generator traits, so everything in `rand` and `rand_distr` works on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(Xoshiro256PlusPlus);

impl Stream {
    /// The stream of `purpose` (for example `"arrivals"`) of the entity with number `entity` in
    /// replication `replication` of the run with seed `seed`. The same four give the same stream on
    /// every machine and in every version; any other four give one that is independent of it.
    pub fn new(seed: u64, replication: u64, purpose: &str, entity: u64) -> Self {
        let mut key = GOLDEN;
        for part in [seed, replication, fnv1a(purpose.as_bytes()), entity] {
            // The step between two absorptions keeps a part of 0 from leaving the key as it was.
            key = mix((key ^ part).wrapping_add(GOLDEN));
        }
        let mut state = [0; 32];
        for word in state.chunks_exact_mut(8) {
            key = key.wrapping_add(GOLDEN);
            word.copy_from_slice(&mix(key).to_le_bytes());
        }
        Self(Xoshiro256PlusPlus::from_seed(state))
    }

    /// A number uniform in the open interval (0, 1); see [`Chance::uniform`].
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        let Ok(bits) = self.try_next_u64();
        unit(bits)
    }

    /// The luck of the next request.
    #[inline]
    pub fn chance(&mut self) -> Chance {
        let Ok(bits) = self.try_next_u64();
        Chance::new(bits)
    }
}

impl TryRng for Stream {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.0.try_next_u32()
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0.try_next_u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}

/// Maps 64 random bits to the open interval (0, 1): the odd multiples of 2^-53, all equally likely.
/// They lie symmetric about one half, and both `u` and `1 - u` are exact, never 0 and never 1.
#[inline]
pub(crate) fn unit(bits: u64) -> f64 {
    const STEP: f64 = 1.0 / 9_007_199_254_740_992.0;
    ((bits >> 11) | 1) as f64 * STEP
}

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014, constants of Stafford's variant 13): a
/// bijection in which every input bit moves every output bit.
#[inline]
const fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo): fixed for ever, unlike the standard library's hashers.
const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests;
