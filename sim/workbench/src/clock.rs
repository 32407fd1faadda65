//! The wall clock, in one place: how long work took. Nothing that is simulated reads it.

/// Started when made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    #[expect(clippy::disallowed_methods, reason = "the one place that times the program itself")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Seconds since the start.
    pub fn elapsed_s(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
