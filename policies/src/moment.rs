//! The time a policy is handed: nanoseconds since the driver's own start, never going backwards.
//!
//! A driver in production takes it from a monotonic clock, the simulator from its own. A wall clock
//! would mis-fill every bucket when it is stepped (published case N1).

use serde::{Deserialize, Serialize};

/// A point in time, in nanoseconds since the driver started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Moment(pub u64);

impl Moment {
    /// The driver's start.
    pub const ZERO: Self = Self(0);

    /// Nanoseconds from `earlier` to this moment; 0 when `earlier` is later.
    #[inline]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Seconds from `earlier` to this moment; 0 when `earlier` is later.
    #[inline]
    pub fn seconds_since(self, earlier: Self) -> f64 {
        self.since(earlier) as f64 * 1e-9
    }

    /// This moment, `nanos` later; the latest representable moment on overflow.
    #[inline]
    #[must_use]
    pub fn after(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

/// Whole nanoseconds in `seconds`, rounded; 0 for negative or NaN, the largest span on overflow.
#[inline]
pub fn nanos(seconds: f64) -> u64 {
    // A float-to-integer cast saturates and maps NaN to 0, which is the documented rule.
    (seconds * 1e9).round() as u64
}

/// Seconds in `nanos`, to the nearest number: 350 ms is 0.35, as it is written in files and messages.
#[inline]
pub fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
