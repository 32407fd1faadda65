//! One request's luck: a key drawn at its birth, from which every later random quantity follows.
//!
//! The alternative, drawing every quantity at birth and storing it, needs a field per quantity of
//! every stage that the request may never visit. A key of eight bytes gives the same numbers on
//! demand, in any order, and the n-th retry has its own without anyone having counted.

use std::convert::Infallible;

use rand::TryRng;

use super::{GOLDEN, mix, unit};

/// Keeps the keys of attempts apart from those of purposes.
const ATTEMPT: u64 = 0x6a09_e667_f3bc_c909;

/// All of one request's luck in one key. What it gives depends on the key and the purpose alone, not
/// on when or how often it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance(u64);

impl Chance {
    /// The luck that `key` stands for. Keys come from a [`Stream`](super::Stream)
    /// ([`Stream::chance`](super::Stream::chance)); neighbouring keys are as independent as distant
    /// ones.
    pub const fn new(key: u64) -> Self {
        Self(key)
    }

    /// A generator for one purpose, always starting at the same place.
    #[inline]
    pub const fn draw(self, purpose: u32) -> Draw {
        let purpose = mix((purpose as u64).wrapping_add(GOLDEN));
        Draw { state: mix(self.0 ^ purpose) }
    }

    /// The first number of that purpose's generator: uniform in the open interval (0, 1) on the odd
    /// multiples of 2^-53, never 0 and never 1.
    #[inline]
    pub fn uniform(self, purpose: u32) -> f64 {
        self.draw(purpose).uniform()
    }

    /// The luck of the `n`-th attempt, independent of the request's own and of every other attempt's.
    #[must_use]
    pub const fn attempt(self, n: u32) -> Self {
        Self(mix(mix(self.0 ^ ATTEMPT).wrapping_add(n as u64)))
    }
}

/// A small generator (`SplitMix64`) for one purpose of one request; implements rand's generator
/// traits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    state: u64,
}

impl Draw {
    /// A number uniform in the open interval (0, 1); see [`Chance::uniform`].
    #[inline]
    pub fn uniform(&mut self) -> f64 {
        unit(self.next())
    }

    #[inline]
    const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }
}

impl TryRng for Draw {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}
