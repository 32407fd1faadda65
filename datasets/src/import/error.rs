//! Why a file was not imported.

use std::fmt;

use crate::trace::problem::{self, Problem};

/// Why a file was not imported: what is wrong, where, and what is allowed there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The file, as it was named.
    pub file: String,
    /// Where in the file, such as `line 12`; if in one place.
    pub place: Option<String>,
    /// In which column, if in one.
    pub column: Option<String>,
    /// What is wrong, in words.
    pub what: String,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match (&self.place, &self.column) {
            (Some(place), Some(column)) => write!(f, "{place}, column `{column}`: ")?,
            (Some(place), None) => write!(f, "{place}: ")?,
            (None, Some(column)) => write!(f, "column `{column}`: ")?,
            (None, None) => {}
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for ImportError {}

/// An error on its way, which does not know its file yet.
#[derive(Debug)]
pub(super) struct Fault {
    place: Option<String>,
    column: Option<String>,
    what: String,
}

/// A fault of the file as a whole.
pub(super) fn fault(what: impl Into<String>) -> Fault {
    Fault { place: None, column: None, what: what.into() }
}

impl Fault {
    /// On a line, counted from 1.
    pub(super) fn line(self, line: usize) -> Self {
        self.at(format!("line {line}"))
    }

    /// In a place.
    pub(super) fn at(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    /// In a column.
    pub(super) fn column(self, column: &str) -> Self {
        Self { column: Some(column.to_owned()), ..self }
    }

    pub(super) fn named(self, file: &str) -> ImportError {
        ImportError { file: file.to_owned(), place: self.place, column: self.column, what: self.what }
    }
}

impl From<problem::Fault> for Fault {
    fn from(fault: problem::Fault) -> Self {
        let place = fault.place.map(|place| place.to_string());
        Self { place, column: fault.column, what: fault.problem.to_string() }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        fault(problem.to_string())
    }
}
