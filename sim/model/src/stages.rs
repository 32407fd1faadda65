//! Stages: what a call occupies. Each keeps its own queue and servers; the service moves attempts
//! between them.

pub(crate) mod cache;
pub(crate) mod desk;
pub(crate) mod knowledge_base;
pub(crate) mod pool;
pub(crate) mod reranker;
pub(crate) mod server;

use crate::ids::AttemptId;
use std::collections::VecDeque;

/// Calls waiting at a stage, first come first served. A call that leaves while it waits stays behind as
/// a dead entry until it reaches the head: leaving costs nothing, and the dead are bounded by the
/// arrivals of one queueing time.
#[derive(Clone, Debug, Default)]
pub(crate) struct WaitingLine {
    entries: VecDeque<(AttemptId, u8)>,
    alive: u32,
}

impl WaitingLine {
    /// Calls that wait.
    pub(crate) fn len(&self) -> u32 {
        self.alive
    }

    /// Puts a call at the end; `step` is its place in its path.
    #[inline]
    pub(crate) fn push(&mut self, id: AttemptId, step: u8) {
        self.entries.push_back((id, step));
        self.alive += 1;
    }

    /// A call that waited has left.
    pub(crate) fn leave(&mut self) {
        self.alive -= 1;
        if self.alive == 0 {
            self.entries.clear();
        }
    }

    /// The first call that still waits, according to `waits`.
    #[inline]
    pub(crate) fn front(&mut self, waits: impl Fn(AttemptId, u8) -> bool) -> Option<AttemptId> {
        while let Some(&(id, step)) = self.entries.front() {
            if waits(id, step) {
                return Some(id);
            }
            self.entries.pop_front();
        }
        None
    }

    /// Takes the first call that still waits.
    #[inline]
    pub(crate) fn pop(&mut self, waits: impl Fn(AttemptId, u8) -> bool) -> Option<AttemptId> {
        let id = self.front(waits)?;
        self.entries.pop_front();
        self.alive -= 1;
        Some(id)
    }
}
