//! What an import did: what was kept, what was dropped and why, and where there are gaps.

use serde::Serialize;

use super::options::Kind;

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The file, as it was named.
    pub file: String,
    /// Its kind.
    pub kind: Kind,
    /// Rows that it became.
    pub rows: u64,
    /// Of a request log: rows of requests that were served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<u64>,
    /// Devices or engines in it; empty of a request log.
    pub sources: Vec<String>,
    /// From the first row to the last, s.
    pub span_s: f64,
    /// Median time between two rows of a device or engine, s.
    pub period_s: Option<f64>,
    /// Columns of the file that are kept beside those of the form that it became.
    pub kept: Vec<String>,
    /// What was dropped, by reason: lines, values and columns.
    pub dropped: Vec<Note>,
    /// What was read in a way that should be known.
    pub remarks: Vec<Note>,
    /// Longer than three periods without a row.
    pub gaps: Option<Gaps>,
}

/// Something that happened on the way, how often, and where first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Note {
    /// What.
    pub what: String,
    /// How often.
    pub count: u64,
    /// Where first, such as `line 12`.
    pub first: String,
}

/// Times without rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// All of them together, s.
    pub total_s: f64,
    /// The longest, s.
    pub longest_s: f64,
    /// Where it ends, such as `line 12`.
    pub longest_before: String,
}

impl Report {
    /// With these notes.
    pub(super) fn with(self, notes: Notes) -> Self {
        Self { dropped: notes.dropped, remarks: notes.remarks, ..self }
    }
}

/// Where something stands: lines of text, rows of Parquet, series of Prometheus' answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum At {
    Line(usize),
    Row(usize),
    Series(usize),
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
            Self::Series(number) => write!(f, "series {number}"),
        }
    }
}

/// More different notes of a sort are summed up: a file of rubbish must not make a report of its own size.
const MOST: usize = 60;

/// Notes, while an import goes on.
#[derive(Debug, Default)]
pub(super) struct Notes {
    dropped: Vec<Note>,
    remarks: Vec<Note>,
}

impl Notes {
    /// Something was dropped.
    pub(super) fn dropped(&mut self, what: &str, at: At) {
        note(&mut self.dropped, what, at, 1);
    }

    /// The same, so many times.
    pub(super) fn dropped_times(&mut self, what: &str, count: u64, at: At) {
        note(&mut self.dropped, what, at, count);
    }

    /// Why something was dropped first, and where.
    pub(super) fn first_dropped(&self) -> Option<&Note> {
        self.dropped.first()
    }

    /// Something should be known.
    pub(super) fn remark(&mut self, what: &str, at: At) {
        note(&mut self.remarks, what, at, 1);
    }
}

fn note(notes: &mut Vec<Note>, what: &str, at: At, count: u64) {
    let known = notes.iter().position(|note| note.what == what);
    let what = if known.is_none() && notes.len() >= MOST { "other reasons" } else { what };
    match notes.iter_mut().find(|note| note.what == what) {
        Some(note) => note.count += count,
        None => notes.push(Note { what: what.to_owned(), count, first: at.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_counted_and_remember_their_first_place() {
        let mut notes = Notes::default();
        for line in 3..8 {
            notes.dropped("not told", At::Line(line));
        }
        notes.dropped("blank", At::Row(2));
        let report = Report::default().with(notes);
        let told: Vec<_> =
            report.dropped.iter().map(|n| (n.what.as_str(), n.count, n.first.as_str())).collect();
        assert_eq!(told, [("not told", 5, "line 3"), ("blank", 1, "row 2")]);
    }

    #[test]
    fn a_flood_of_reasons_is_summed_up() {
        let mut notes = Notes::default();
        for line in 0..1000 {
            notes.dropped(&format!("reason {line}"), At::Line(line));
        }
        assert_eq!(notes.dropped.len(), MOST + 1);
        assert_eq!((notes.dropped[MOST].what.as_str(), notes.dropped[MOST].count), ("other reasons", 940));
    }
}
