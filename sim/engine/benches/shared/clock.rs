//! How long a piece of a benchmark kept this thread's processor busy: on Linux the scheduler's own
//! account, which does not count the time when others had the processor; elsewhere the wall clock.
//! The account moves in steps of some milliseconds: measure tenths of a second at least.

use std::time::Instant;

/// Runs `work`, and gives the seconds that it took with its result.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let (wall, busy) = (Instant::now(), busy_nanos());
    let result = work();
    let seconds = match (busy, busy_nanos()) {
        (Some(before), Some(after)) => (after - before) as f64 / 1e9,
        _ => wall.elapsed().as_secs_f64(),
    };
    (seconds, result)
}

/// Nanoseconds that this thread has run; `None` where the system does not tell.
fn busy_nanos() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
}
