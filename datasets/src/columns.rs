//! Named columns out of CSV, JSON lines and Parquet: what the fits take from a user's table.
//!
//! Only the columns that are asked for are kept, so that a log of a million lines with thirty columns
//! costs what its two columns cost.

use std::path::{Path, PathBuf};

use crate::frames::{TableError, Values, read_parquet};

/// Largest file read, bytes.
const BYTES_MAX: u64 = 1 << 30;

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Numbers; an empty cell is none.
    Numbers(Vec<Option<f64>>),
    /// Text.
    Texts(Vec<String>),
}

/// What is asked of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers.
    Number,
    /// Text.
    Text,
}

/// Why a table cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// The file cannot be read.
    #[error("{}: {reason}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A column that is needed is missing.
    #[error("there is no column `{name}`; there are: {found}")]
    Missing {
        /// Its name.
        name: String,
        /// Those there are.
        found: String,
    },
    /// A cell is not what its column needs.
    #[error("line {line}, column `{column}`: found `{found}`, allowed: a number")]
    Cell {
        /// Line of the file, or row of a Parquet file, from 1.
        line: usize,
        /// The column.
        column: String,
        /// What stands there.
        found: String,
    },
    /// A line is not as the format says.
    #[error("line {line}: {reason}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// There are no rows.
    #[error("there are no rows")]
    Empty,
    /// Parquet.
    #[error(transparent)]
    Parquet(#[from] TableError),
}

/// Columns of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    names: Vec<String>,
    kept: Vec<(String, Column)>,
    rows: usize,
    /// Line of the first row.
    first_line: usize,
}

impl Columns {
    /// Reads a file, by its ending: `.parquet`, `.jsonl`, `.ndjson` or `.json`, else CSV. `wanted` are the
    /// columns kept where they are there; the bytes of the file come along, for their hash.
    ///
    /// # Errors
    /// The file cannot be read, or holds a cell that is not what its column needs.
    pub fn read(path: &Path, wanted: &[(&str, Kind)]) -> Result<(Self, Vec<u8>), ColumnsError> {
        let failed = |reason: String| ColumnsError::File { path: path.to_owned(), reason };
        let there = path.metadata().map_err(|error| failed(error.to_string()))?;
        if !there.is_file() {
            return Err(failed("it is no regular file".to_owned()));
        }
        if there.len() > BYTES_MAX {
            return Err(failed("it is larger than 1 GiB".to_owned()));
        }
        let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
        let ending = path.extension().map(std::ffi::OsStr::to_ascii_lowercase);
        let ending = ending.as_deref().and_then(|ending| ending.to_str()).unwrap_or_default().to_owned();
        if ending == "parquet" {
            return Ok((Self::of_parquet(path, wanted)?, bytes));
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| failed("it is no text in UTF-8".to_owned()))?;
        let columns = match ending.as_str() {
            "jsonl" | "ndjson" | "json" => Self::of_json_lines(text, wanted)?,
            _ => Self::of_csv(text, wanted)?,
        };
        Ok((columns, bytes))
    }

    /// Reads CSV with commas, a header, and quotes where need be.
    ///
    /// # Errors
    /// A line with too few or too many cells, or a cell that is no number where one is needed.
    pub fn of_csv(text: &str, wanted: &[(&str, Kind)]) -> Result<Self, ColumnsError> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let Some((header_line, header)) = lines.next() else { return Err(ColumnsError::Empty) };
        let mut cells = Vec::new();
        split(header.trim_start_matches('\u{feff}').trim_end_matches('\r'), &mut cells);
        let names: Vec<String> = cells.iter().map(|cell| cell.trim().to_owned()).collect();
        let mut table = Self::new(&names, wanted, header_line + 2);
        let places: Vec<usize> = table
            .kept
            .iter()
            .map(|(name, _)| names.iter().position(|there| there == name).unwrap_or(0))
            .collect();
        for (index, line) in lines {
            split(line.trim_end_matches('\r'), &mut cells);
            if cells.len() != names.len() {
                let reason = format!("{} cells, and {} columns", cells.len(), names.len());
                return Err(ColumnsError::Line { line: index + 1, reason });
            }
            for ((name, column), &place) in table.kept.iter_mut().zip(&places) {
                push(column, name, index + 1, &cells[place])?;
            }
            table.rows += 1;
        }
        table.checked()
    }

    /// Reads one JSON object per line.
    ///
    /// # Errors
    /// A line that is no object, or a value that is no number where one is needed.
    pub fn of_json_lines(text: &str, wanted: &[(&str, Kind)]) -> Result<Self, ColumnsError> {
        let mut table: Option<Self> = None;
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line)
                .map_err(|error| ColumnsError::Line { line: index + 1, reason: error.to_string() })?;
            let table = table.get_or_insert_with(|| {
                let names: Vec<String> = object.keys().cloned().collect();
                Self::new(&names, wanted, index + 1)
            });
            for (name, column) in &mut table.kept {
                let cell = match object.get(name.as_str()) {
                    None | Some(serde_json::Value::Null) => String::new(),
                    Some(serde_json::Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                };
                push(column, name, index + 1, &cell)?;
            }
            table.rows += 1;
        }
        table.ok_or(ColumnsError::Empty)?.checked()
    }

    fn of_parquet(path: &Path, wanted: &[(&str, Kind)]) -> Result<Self, ColumnsError> {
        let read = read_parquet(path)?;
        let names: Vec<String> = read.columns.iter().map(|column| column.name.clone()).collect();
        let mut table = Self::new(&names, wanted, 1);
        for (name, column) in &mut table.kept {
            let Some(values) = read.columns.iter().find(|there| there.name == *name) else { continue };
            table.rows = values.values.len();
            let refuse =
                |found: &str| ColumnsError::Cell { line: 1, column: name.clone(), found: found.to_owned() };
            match column {
                Column::Numbers(numbers) => {
                    *numbers = as_numbers(&values.values).ok_or_else(|| refuse("text"))?;
                }
                Column::Texts(texts) => *texts = as_texts(&values.values),
            }
        }
        table.checked()
    }

    fn new(names: &[String], wanted: &[(&str, Kind)], first_line: usize) -> Self {
        let kept = wanted
            .iter()
            .filter(|(name, _)| names.iter().any(|there| there == name))
            .map(|(name, kind)| {
                let empty = match kind {
                    Kind::Number => Column::Numbers(Vec::new()),
                    Kind::Text => Column::Texts(Vec::new()),
                };
                ((*name).to_owned(), empty)
            })
            .collect();
        Self { names: names.to_vec(), kept, rows: 0, first_line }
    }

    fn checked(self) -> Result<Self, ColumnsError> {
        // Without any wanted column no row was counted in a Parquet file; what is missing says so later.
        if self.rows == 0 && !self.kept.is_empty() { Err(ColumnsError::Empty) } else { Ok(self) }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether a column is there.
    pub fn has(&self, name: &str) -> bool {
        self.kept.iter().any(|(there, _)| there == name)
    }

    /// A column of numbers without gaps.
    ///
    /// # Errors
    /// It is missing, or a cell of it is empty.
    pub fn numbers(&self, name: &str) -> Result<Vec<f64>, ColumnsError> {
        let values = self.maybe_numbers(name)?.iter().enumerate();
        let number = |(row, value): (usize, &Option<f64>)| {
            value.ok_or_else(|| ColumnsError::Cell {
                line: self.first_line + row,
                column: name.to_owned(),
                found: String::new(),
            })
        };
        values.map(number).collect()
    }

    /// A column of numbers, some of which may be missing.
    ///
    /// # Errors
    /// It is missing.
    pub fn maybe_numbers(&self, name: &str) -> Result<&[Option<f64>], ColumnsError> {
        let numbers =
            self.kept.iter().filter(|(there, _)| there == name).find_map(|(_, column)| match column {
                Column::Numbers(numbers) => Some(numbers.as_slice()),
                Column::Texts(_) => None,
            });
        numbers.ok_or_else(|| self.missing(name))
    }

    /// A column of text.
    ///
    /// # Errors
    /// It is missing.
    pub fn texts(&self, name: &str) -> Result<&[String], ColumnsError> {
        let texts =
            self.kept.iter().filter(|(there, _)| there == name).find_map(|(_, column)| match column {
                Column::Texts(texts) => Some(texts.as_slice()),
                Column::Numbers(_) => None,
            });
        texts.ok_or_else(|| self.missing(name))
    }

    /// Keeps the rows whose text columns hold the given values. A column may be wanted as text beside being
    /// wanted as numbers.
    ///
    /// # Errors
    /// A column is missing, or no row is left.
    pub fn keep(&mut self, only: &[(String, String)]) -> Result<(), ColumnsError> {
        let mut kept = vec![true; self.rows];
        for (name, value) in only {
            let texts = self.texts(name)?;
            kept.iter_mut().zip(texts).for_each(|(kept, text)| *kept &= text == value);
        }
        for (_, column) in &mut self.kept {
            let mut row = kept.iter().copied();
            let mut next = || row.next().unwrap_or(false);
            match column {
                Column::Numbers(numbers) => numbers.retain(|_| next()),
                Column::Texts(texts) => texts.retain(|_| next()),
            }
        }
        // Lines can no longer be told from rows once some are gone; errors then name rows.
        if kept.iter().any(|kept| !kept) {
            self.first_line = 1;
        }
        self.rows = kept.iter().filter(|kept| **kept).count();
        if self.rows == 0 { Err(ColumnsError::Empty) } else { Ok(()) }
    }

    /// The error of a number that its column does not allow.
    pub fn refused(&self, row: usize, name: &str, found: f64) -> ColumnsError {
        let found = found.to_string();
        ColumnsError::Cell { line: self.first_line + row, column: name.to_owned(), found }
    }

    fn missing(&self, name: &str) -> ColumnsError {
        ColumnsError::Missing { name: name.to_owned(), found: self.names.join(", ") }
    }
}

fn push(column: &mut Column, name: &str, line: usize, cell: &str) -> Result<(), ColumnsError> {
    match column {
        Column::Texts(texts) => texts.push(cell.trim().to_owned()),
        Column::Numbers(numbers) => numbers.push(match cell.trim() {
            "" => None,
            text => {
                let parsed = text.parse::<f64>().ok().filter(|value| value.is_finite());
                let wrong = || ColumnsError::Cell { line, column: name.to_owned(), found: text.to_owned() };
                Some(parsed.ok_or_else(wrong)?)
            }
        }),
    }
    Ok(())
}

fn as_numbers(values: &Values) -> Option<Vec<Option<f64>>> {
    Some(match values {
        Values::F64(values) => values.iter().map(|value| Some(*value)).collect(),
        Values::MaybeF64(values) => values.clone(),
        Values::U64(values) => values.iter().map(|value| Some(*value as f64)).collect(),
        Values::I64(values) => values.iter().map(|value| Some(*value as f64)).collect(),
        Values::Bool(values) => values.iter().map(|value| Some(f64::from(u8::from(*value)))).collect(),
        Values::Str(_) => return None,
    })
}

fn as_texts(values: &Values) -> Vec<String> {
    match values {
        Values::F64(values) => values.iter().map(f64::to_string).collect(),
        Values::MaybeF64(values) => {
            values.iter().map(|value| value.map(|value| value.to_string()).unwrap_or_default()).collect()
        }
        Values::U64(values) => values.iter().map(u64::to_string).collect(),
        Values::I64(values) => values.iter().map(i64::to_string).collect(),
        Values::Bool(values) => values.iter().map(bool::to_string).collect(),
        Values::Str(values) => values.clone(),
    }
}

/// The cells of a line. A quote inside quotes is written twice; a line break inside them is not read.
fn split(line: &str, cells: &mut Vec<String>) {
    let mut count = 0;
    let mut next = |cells: &mut Vec<String>| {
        match cells.get_mut(count) {
            Some(cell) => cell.clear(),
            None => cells.push(String::new()),
        }
        count += 1;
        count - 1
    };
    let mut at = next(cells);
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cells[at].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => at = next(cells),
            c => cells[at].push(c),
        }
    }
    cells.truncate(count);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Table, TableColumn, write_parquet};
    use crate::scratch::Folder;

    const WANTED: [(&str, Kind); 2] = [("a", Kind::Number), ("b", Kind::Text)];

    fn expect(columns: &Columns) {
        assert_eq!(columns.numbers("a").unwrap(), [1.0, 2.5]);
        assert_eq!(columns.texts("b").unwrap(), ["x, \"y\"", "z"]);
        assert!(columns.rows() == 2 && columns.has("a") && !columns.has("c"));
        let error = columns.numbers("c").unwrap_err().to_string();
        assert!(error.contains("`c`") && error.contains("a, b"), "{error}");
    }

    #[test]
    fn three_formats_give_the_same_columns() {
        let folder = Folder::new("columns");
        let csv = folder.file("t.csv", "a,b\n1,\"x, \"\"y\"\"\"\n2.5,z\n");
        expect(&Columns::read(&csv, &WANTED).unwrap().0);
        let json = folder.file("t.jsonl", "{\"a\":1,\"b\":\"x, \\\"y\\\"\"}\n{\"a\":2.5,\"b\":\"z\"}\n");
        expect(&Columns::read(&json, &WANTED).unwrap().0);
        let parquet = folder.path("t.parquet");
        let table = Table {
            columns: vec![
                TableColumn::new("a", "s", Values::F64(vec![1.0, 2.5])),
                TableColumn::new("b", "", Values::Str(vec!["x, \"y\"".to_owned(), "z".to_owned()])),
            ],
        };
        write_parquet(&parquet, &table, false).unwrap();
        expect(&Columns::read(&parquet, &WANTED).unwrap().0);
    }

    #[test]
    fn rows_are_kept_by_their_text() {
        let wanted = [("a", Kind::Number), ("a", Kind::Text), ("b", Kind::Text)];
        let mut columns = Columns::of_csv("a,b\n1,x\n2,y\n3,x\n", &wanted).unwrap();
        columns.keep(&[("b".to_owned(), "x".to_owned())]).unwrap();
        assert_eq!((columns.rows(), columns.numbers("a").unwrap()), (2, vec![1.0, 3.0]));
        columns.keep(&[("a".to_owned(), "3".to_owned())]).unwrap();
        assert_eq!(columns.numbers("a").unwrap(), [3.0]);
        assert!(columns.keep(&[("b".to_owned(), "z".to_owned())]).is_err());
    }

    #[test]
    fn errors_name_the_place() {
        let wrong = |text: &str| Columns::of_csv(text, &WANTED).unwrap_err().to_string();
        assert_eq!(wrong("a,b\n1,x\nq,y\n"), "line 3, column `a`: found `q`, allowed: a number");
        assert_eq!(wrong("a,b\n1\n"), "line 2: 1 cells, and 2 columns");
        assert_eq!(wrong(""), "there are no rows");
        assert_eq!(wrong("a,b\n"), "there are no rows");
        assert!(wrong("a,b\nNaN,x\n").contains("NaN"));
        let empty = Columns::of_csv("a,b\n1,x\n,y\n", &WANTED).unwrap();
        assert!(empty.numbers("a").unwrap_err().to_string().starts_with("line 3"));
        assert!(Columns::read(Path::new("no/such.csv"), &WANTED).is_err());
        assert!(Columns::of_json_lines("[1]\n", &WANTED).unwrap_err().to_string().starts_with("line 1"));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            let _ = Columns::of_csv(&text, &WANTED);
            let _ = Columns::of_json_lines(&text, &WANTED);
        }
    }
}
