//! What can be wrong with a trace file, and the error that says so.
//!
//! A [`ReadError`] always names the file; where the fault sits in one place it names the line (the row,
//! in Parquet, which has no lines) and the column as well; and it says what was found and what is
//! allowed. The texts are complete sentences for the person who has to mend the file.

use std::fmt;

use forebay_model::trace::TraceError;

/// The largest file that is read, in bytes: 1 GiB. Files are held in memory while they are read.
pub const MAX_BYTES: u64 = 1 << 30;
/// The most rows that are read, which bounds the memory that a small compressed file can claim.
pub const MAX_ROWS: usize = 50_000_000;
/// The most columns a file may have: more is a transposed table or no table at all.
pub const MAX_COLUMNS: usize = 1000;
/// The deepest nesting in a line of JSON.
pub const MAX_NESTING: usize = 64;

/// Why a trace could not be read.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadError {
    /// The file, as it was named.
    pub file: String,
    /// Where in the file, if in one place.
    pub place: Option<Place>,
    /// In which column, if in one.
    pub column: Option<String>,
    /// What is wrong. Boxed, because some problems carry much.
    pub problem: Box<Problem>,
}

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text file; the header of a CSV file is line 1.
    Line(usize),
    /// A row of a Parquet file.
    Row(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Row(number) => write!(f, "row {number}"),
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        match (&self.place, &self.column) {
            (Some(place), Some(column)) => write!(f, "{place}, column `{column}`: ")?,
            (Some(place), None) => write!(f, "{place}: ")?,
            (None, Some(column)) => write!(f, "column `{column}`: ")?,
            (None, None) => {}
        }
        write!(f, "{}", self.problem)
    }
}

impl std::error::Error for ReadError {}

/// What is wrong with a trace file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Problem {
    /// Nothing has this name.
    #[error("there is no such file")]
    NoFile,
    /// The path leads to something else than a file.
    #[error("this is {0}, not a file")]
    NotAFile(&'static str),
    /// The operating system refused.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// More than [`MAX_BYTES`].
    #[error("the file has {0} bytes; at most {MAX_BYTES} (1 GiB) are read")]
    TooLarge(u64),
    /// More than [`MAX_ROWS`].
    #[error("the file has {0} rows; at most {MAX_ROWS} are read")]
    TooManyRows(usize),
    /// More than [`MAX_COLUMNS`].
    #[error("the file has {0} columns; at most {MAX_COLUMNS} are read")]
    TooManyColumns(usize),
    /// The extension does not say what the file is.
    #[error(
        "the extension {0} is not known; known are .csv, .parquet, .jsonl, .ndjson and .json (one object a line)"
    )]
    UnknownExtension(String),
    /// The content is something else than the extension says.
    #[error("the content is {found}, where {wanted} is wanted")]
    OtherContent {
        /// What it looks like.
        found: &'static str,
        /// What the extension promises.
        wanted: &'static str,
    },
    /// Bytes that are not UTF-8.
    #[error("the byte 0x{byte:02X} is not part of UTF-8 text")]
    NotUtf8 {
        /// The first such byte.
        byte: u8,
    },
    /// No bytes, or nothing but blank lines.
    #[error("the file is empty")]
    Empty,
    /// A header, and nothing below it.
    #[error("the file has a header but no rows; at least one request is wanted")]
    NoRows,
    /// Two columns share a name.
    #[error("two columns have the name `{0}`; names must differ")]
    DuplicateColumn(String),
    /// A column has no name.
    #[error("column {0} of the header has no name")]
    NamelessColumn(usize),
    /// The header looks as if another separator than the comma was used.
    #[error("the header is separated by {0}; columns are separated by commas here")]
    OtherSeparator(&'static str),
    /// No known layout, and no column map that says what is what.
    #[error(
        "no column is named for {role}, and the header ({header}) is none of the known layouts ({known}); \
             say which columns are meant with `columns = {{ time = …, time_unit = …, tokens_in = …, tokens_out = … }}`"
    )]
    Unrecognised {
        /// What is missing.
        role: &'static str,
        /// The columns found.
        header: String,
        /// The layouts that are recognised.
        known: String,
    },
    /// The header does not tell what an import needs to know.
    #[error("{0}")]
    Header(String),
    /// A wanted column is not there.
    #[error("there is no column `{wanted}` for {role}{}; the columns are {header}", hint(.nearest.as_ref()))]
    NoColumn {
        /// The name looked for.
        wanted: String,
        /// What it is to hold.
        role: &'static str,
        /// The most similar name in the header.
        nearest: Option<String>,
        /// The columns found.
        header: String,
    },
    /// A time column was named without its unit.
    #[error(
        "the unit of the time column `{0}` is not given; add `time_unit = \"s\"`, \"ms\", \"us\", \"ns\" or \"datetime\""
    )]
    NoUnit(String),
    /// One column was named for two things.
    #[error("the column is named both for {0} and for {1}")]
    SharedColumn(&'static str, &'static str),
    /// A column of a type that cannot hold what it should.
    #[error("the column's type is {found}; {wanted} is wanted")]
    ColumnType {
        /// The type.
        found: String,
        /// What is allowed.
        wanted: &'static str,
    },
    /// A line with another number of fields than the header.
    #[error("found {found} fields, and the header has {wanted}")]
    FieldCount {
        /// Fields of the line.
        found: usize,
        /// Columns of the header.
        wanted: usize,
    },
    /// Quotes that do not match.
    #[error("{0}")]
    Quoting(&'static str),
    /// A blank line between others.
    #[error("the line is blank")]
    BlankLine,
    /// A line that is no JSON object.
    #[error("not a JSON object: {0}")]
    BrokenJson(String),
    /// Arrays within arrays within arrays.
    #[error("the JSON is nested deeper than {MAX_NESTING}")]
    TooDeep,
    /// A cell without a value.
    #[error("there is no value; {0} is wanted")]
    NoValue(String),
    /// A cell with something else.
    #[error("found {found}; {wanted} is wanted")]
    BadCell {
        /// The cell's text.
        found: String,
        /// What is allowed.
        wanted: String,
    },
    /// More classes than an index can name.
    #[error("more than {} different classes", u32::from(u16::MAX) + 1)]
    TooManyClasses,
    /// The format's reader refused the file.
    #[error("not a sound {format} file: {reason}")]
    Format {
        /// `CSV`, `JSON lines` or `Parquet`.
        format: &'static str,
        /// What it said.
        reason: String,
    },
    /// The rows were read, and are no trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
}

fn hint(nearest: Option<&String>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// A problem with its place, on its way to becoming a [`ReadError`].
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) place: Option<Place>,
    pub(crate) column: Option<String>,
    pub(crate) problem: Box<Problem>,
}

impl Fault {
    pub(crate) fn at_line(line: usize, problem: Problem) -> Self {
        Self { place: Some(Place::Line(line)), ..problem.into() }
    }

    pub(crate) fn in_column(column: &str, problem: Problem) -> Self {
        Self { column: Some(column.to_owned()), ..problem.into() }
    }

    pub(crate) fn named(self, file: &str) -> ReadError {
        ReadError { file: file.to_owned(), place: self.place, column: self.column, problem: self.problem }
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Self {
        Self { place: None, column: None, problem: Box::new(problem) }
    }
}
