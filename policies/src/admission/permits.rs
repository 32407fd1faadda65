//! Permits that are taken and come back, with a line of those that wait for one.
//!
//! A permit that comes back goes to the head of the line. A newcomer takes a free permit only when
//! nobody waits, so that nobody is overtaken.

use super::{Key, Limit, keyed::Keyed};
use crate::queueing::line::Line;
use crate::{Moment, Ticket};
use serde::{Deserialize, Serialize};

/// The permits of one gate, per key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Permits {
    by_key: Keyed<Held>,
    /// Most that were out at once for one key.
    most: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Held {
    taken: u32,
    line: Line,
}

impl Held {
    fn idle(&self) -> bool {
        self.taken == 0 && self.line.is_empty()
    }
}

impl Permits {
    pub(crate) fn new(key: Key) -> Self {
        Self { by_key: Keyed::new(key), most: 0 }
    }

    /// Takes a permit if one of `limit` is free and nobody waits; else says how many are out.
    #[inline]
    pub(crate) fn take(&mut self, key: u64, limit: Limit<'_>) -> Result<(), u32> {
        let held = self.by_key.entry(key, Held::default, Held::idle);
        if held.taken < limit.of(key) && held.line.is_empty() {
            held.taken += 1;
            self.most = self.most.max(held.taken);
            Ok(())
        } else {
            Err(held.taken)
        }
    }

    /// Joins the line; the position is for [`Permits::leave`]. When gaps are closed, `moved` hears of
    /// the new positions of the others.
    pub(crate) fn join(
        &mut self,
        key: u64,
        ticket: Ticket,
        now: Moment,
        moved: impl FnMut(Ticket, u64),
    ) -> u64 {
        self.by_key.entry(key, Held::default, Held::idle).line.join(ticket, now, moved)
    }

    /// Leaves the line without a permit.
    pub(crate) fn leave(&mut self, key: u64, position: u64) {
        if let Some(held) = self.by_key.get_mut(key) {
            held.line.remove(position);
        }
    }

    /// Gives a permit back.
    #[inline]
    pub(crate) fn give_back(&mut self, key: u64) {
        if let Some(held) = self.by_key.get_mut(key) {
            debug_assert!(held.taken > 0, "a permit came back twice");
            held.taken = held.taken.saturating_sub(1);
        }
    }

    /// Hands a free permit to the head of the line.
    #[inline]
    pub(crate) fn grant(&mut self, key: u64, limit: Limit<'_>) -> Option<Ticket> {
        let held = self.by_key.get_mut(key)?;
        if held.taken >= limit.of(key) {
            return None;
        }
        let (ticket, _) = held.line.pop()?;
        held.taken += 1;
        self.most = self.most.max(held.taken);
        Some(ticket)
    }

    /// How many permits of `key` are out.
    pub(crate) fn taken(&self, key: u64) -> u32 {
        self.by_key.get(key).map_or(0, |held| held.taken)
    }

    /// Most permits that were out at once for one key.
    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    /// All keys that are known.
    pub(crate) fn keys(&self) -> Vec<u64> {
        self.by_key.keys()
    }
}
