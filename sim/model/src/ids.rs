//! Names of things inside a run, as small typed numbers, so that a stage is never taken for a class.

use forebay_policies::Ticket;

/// An attempt in flight: its place in the table of attempts, and the generation of that place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl AttemptId {
    /// As the governor and the LLM engines know it: the generation above, the slot below.
    #[inline]
    pub(crate) fn key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    #[inline]
    pub(crate) fn from_key(key: u64) -> Self {
        Self { slot: key as u32, generation: (key >> 32) as u32 }
    }

    #[inline]
    pub(crate) fn ticket(self) -> Ticket {
        Ticket(self.key())
    }

    #[inline]
    pub(crate) fn of(ticket: Ticket) -> Self {
        Self::from_key(ticket.0)
    }
}

/// Index of a stage in the scenario's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StageId(pub(crate) u16);

impl StageId {
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Index of a source in the scenario's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(pub(crate) u16);

/// Index of a device: groups one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceId(pub(crate) u32);
