//! How right the queue's notices are ("your answer comes in about X minutes", published case H11): what
//! was told on joining the queue against the wait that came true, of those who were served.

use forebay_engine::{Span, Welford};

/// The account of the notices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notices {
    /// Told less true, seconds: above 0 where too long a wait was told.
    pub(crate) bias: Welford,
    /// The same without its sign.
    pub(crate) error: Welford,
    /// Waits of those who were told, seconds.
    pub(crate) wait: Welford,
}

impl Notices {
    /// One who was told a wait is served now.
    pub(crate) fn came_true(&mut self, told: Span, waited: Span) {
        let error_s = told.as_secs_f64() - waited.as_secs_f64();
        self.bias.add(error_s);
        self.error.add(error_s.abs());
        self.wait.add(waited.as_secs_f64());
    }
}
