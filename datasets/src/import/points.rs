//! Values of metrics as they come out of scrapes and of Prometheus' answers.

use super::error::Fault;
use super::options::Options;
use super::report::{At, Notes};
use super::{exposition, query_range};

/// A value of a metric at a moment.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) at: At,
    /// Nanoseconds: since 1970 if the file is dated, else since its start.
    pub(super) at_ns: u64,
    pub(super) name: &'a str,
    pub(super) labels: &'a [(String, String)],
    /// NaN: not told.
    pub(super) value: f64,
}

impl Point<'_> {
    /// The value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }
}

/// Told every value of a file.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&Point<'_>, &mut Notes) -> Result<(), Fault>;

/// Reads all values of a file. The answer says whether its times are moments, or only count from its start.
pub(super) fn read(text: &str, options: &Options, notes: &mut Notes, sink: Sink<'_>) -> Result<bool, Fault> {
    if text.trim_start().starts_with('{') {
        query_range::read(text, notes, sink).map(|()| true)
    } else {
        exposition::read(text, options, notes, sink)
    }
}
