//! The limits of length and of waiting, as the disciplines share them.

use super::line::Line;
use super::ranked::{Entry, Ranked};
use crate::admission::Refusal;
use crate::moment::{nanos, seconds};
use crate::{Moment, Reason, Ticket};
use serde::{Deserialize, Serialize};

/// The limits of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WaitLimits {
    max_length: usize,
    max_wait_ns: u64,
}

impl WaitLimits {
    pub(crate) fn new(max_length: Option<u32>, max_wait_s: Option<f64>) -> Self {
        Self {
            max_length: max_length.map_or(usize::MAX, |length| length as usize),
            max_wait_ns: max_wait_s.map_or(u64::MAX, nanos),
        }
    }

    /// Whether one more may join a line.
    #[inline]
    pub(crate) fn admit(&self, line: &Line) -> Result<(), Refusal> {
        self.admit_beside(line.len())
    }

    /// Whether one more may join so many.
    #[inline]
    pub(crate) fn admit_beside(&self, length: usize) -> Result<(), Refusal> {
        if length < self.max_length {
            return Ok(());
        }
        Err(Refusal::new(Reason::QueueFull, length as f64, self.max_length as f64))
    }

    /// How many more may join so many.
    pub(crate) fn room(&self, length: usize) -> usize {
        self.max_length.saturating_sub(length)
    }

    /// Whether waiting is limited at all.
    #[inline]
    pub(crate) fn limits_wait(&self) -> bool {
        self.max_wait_ns < u64::MAX
    }

    /// The refusal of one that has stood since `since`, if that is too long.
    #[inline]
    pub(crate) fn expired(&self, since: Moment, now: Moment) -> Option<Refusal> {
        let waited_ns = now.since(since);
        (waited_ns > self.max_wait_ns)
            .then(|| Refusal::new(Reason::QueueExpired, seconds(waited_ns), seconds(self.max_wait_ns)))
    }

    /// Takes the head of `line` out if it has waited too long.
    #[inline]
    pub(crate) fn pop_expired(&self, line: &mut Line, now: Moment) -> Option<(Ticket, Refusal)> {
        let (ticket, since) = line.first()?;
        let refusal = self.expired(since, now)?;
        line.pop();
        Some((ticket, refusal))
    }

    /// Takes the one who has waited longest in all queues out, if that is too long.
    pub(crate) fn pop_expired_of<T: Copy>(
        &self,
        ranked: &mut Ranked<T>,
        now: Moment,
    ) -> Option<(Entry<T>, Refusal)> {
        if !self.limits_wait() {
            return None;
        }
        let (position, since) = ranked.oldest()?;
        let refusal = self.expired(since, now)?;
        Some((ranked.take(position)?, refusal))
    }

    /// The first moment at which one of `ranked` has waited too long.
    pub(crate) fn next_expiry_of<T: Copy>(&self, ranked: &Ranked<T>) -> Option<Moment> {
        let (_, since) = ranked.oldest()?;
        self.expiry(since)
    }

    /// The first moment at which the head of `line` has waited too long.
    pub(crate) fn next_expiry(&self, line: &Line) -> Option<Moment> {
        let (_, since) = line.first()?;
        self.expiry(since)
    }

    /// The first moment at which one that has stood since `since` has waited too long.
    fn expiry(&self, since: Moment) -> Option<Moment> {
        self.limits_wait().then(|| since.after(self.max_wait_ns).after(1))
    }
}
