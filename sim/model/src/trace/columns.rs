//! The column map of a trace file: which column means what, and in which unit its times are.
//!
//! It is part of a scenario, so it lives beside the trace and not with the file readers that follow it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which columns of a file mean what, for files whose header is not recognised by itself. Everything is
/// optional: what is not given is taken from the recognised layout, if there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Columns {
    /// The column with the time of arrival.
    pub time: Option<String>,
    /// The unit of that column.
    pub time_unit: Option<TimeUnit>,
    /// The column with the prompt's token count.
    pub tokens_in: Option<String>,
    /// The column with the answer's token count.
    pub tokens_out: Option<String>,
    /// The column with the class's name.
    pub class: Option<String>,
    /// The column that says who sent the request: whole numbers, or any text.
    pub user: Option<String>,
    /// The column that says which conversation it belongs to: whole numbers, or any text.
    pub session: Option<String>,
    /// Sort the rows by time (rows of equal time keep their order). Without it, time going backwards
    /// is an error, for it is more often a wrong column than a shuffled file.
    pub sort: bool,
}

/// The unit of a column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Seconds, whole or decimal.
    S,
    /// Milliseconds, whole or decimal.
    Ms,
    /// Microseconds, whole or decimal.
    Us,
    /// Nanoseconds.
    Ns,
    /// A date and a time of day, `YYYY-MM-DD HH:MM:SS`, with up to nine decimals of a second and
    /// optionally `Z` or an offset such as `+02:00`.
    Datetime,
}
