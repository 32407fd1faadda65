//! The recorder's time: one that does not jump, from the start of the recording, and the wall's beside it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest sleep before the order to stop is looked at again.
const NAP: Duration = Duration::from_millis(20);

/// Started when made; copies go on together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

/// A moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// Nanoseconds from the start.
    pub(super) t_ns: u64,
    /// Nanoseconds since 1970.
    pub(super) wall_ns: u64,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "a recorder records at real times")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds from the start.
    pub(super) fn now_ns(self) -> u64 {
        nanoseconds(self.0.elapsed())
    }

    /// Now, by both clocks.
    #[expect(clippy::disallowed_methods, reason = "a recorder records at real times")]
    pub(super) fn moment(self) -> Moment {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { t_ns: self.now_ns(), wall_ns: nanoseconds(wall) }
    }

    /// Sleeps until a time of this clock; false if it was told to halt before.
    pub(super) fn sleep_until(self, due_ns: u64, halt: &AtomicBool) -> bool {
        while !halt.load(Ordering::Relaxed) {
            let left = Duration::from_nanos(due_ns.saturating_sub(self.now_ns()));
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(NAP));
        }
        false
    }
}

/// A duration as nanoseconds: a `u64` of them is 584 years.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
