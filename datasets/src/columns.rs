//! Named columns out of CSV, JSON lines and Parquet: what the fits take from a user's table.
//!
//! Only the columns that are asked for are kept, so that a log of a million lines with thirty columns
//! costs what its two columns cost. The reading itself is that of traces: [`crate::trace`].

use std::path::Path;

use crate::trace::problem::{Fault, Place};
use crate::trace::rows::{Selection, rows};
use crate::trace::table::{Cell, cells};
use crate::trace::{Format, ReadError, bytes_of};

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
    /// The file cannot be read as a table.
    #[error(transparent)]
    Read(#[from] ReadError),
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
    /// There are no rows.
    #[error("there are no rows")]
    Empty,
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

/// The wanted columns that a header has; where it has none of them its first one, so that rows are counted.
struct Wanted {
    header: Vec<String>,
    names: Vec<String>,
}

impl Wanted {
    fn of(header: &[String], wanted: &[(&str, Kind)]) -> Self {
        let is_wanted = |name: &&String| wanted.iter().any(|(wanted, _)| wanted == name);
        let mut names: Vec<String> = header.iter().filter(is_wanted).cloned().collect();
        if names.is_empty() {
            names.extend(header.first().cloned());
        }
        Self { header: header.to_vec(), names }
    }
}

impl Selection for Wanted {
    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

impl Columns {
    /// Reads a file, by its extension, and one without a known extension as CSV. `wanted` are the columns kept
    /// where they are there; the bytes of the file come along, for their hash.
    ///
    /// # Errors
    /// The file cannot be read, or holds a cell that is not what its column needs.
    pub fn read(path: &Path, wanted: &[(&str, Kind)]) -> Result<(Self, Vec<u8>), ColumnsError> {
        let file = path.display().to_string();
        let format =
            path.extension().and_then(|extension| Format::of_extension(&extension.to_string_lossy()));
        let bytes = bytes_of(path).map_err(|problem| Fault::from(problem).named(&file))?;
        Ok((Self::of(&file, format.unwrap_or(Format::Csv), &bytes, wanted)?, bytes))
    }

    /// Reads CSV with commas, a header, and quotes where need be.
    ///
    /// # Errors
    /// A line with too few or too many cells, or a cell that is no number where one is needed.
    pub fn of_csv(text: &str, wanted: &[(&str, Kind)]) -> Result<Self, ColumnsError> {
        Self::of("the table", Format::Csv, text.as_bytes(), wanted)
    }

    fn of(file: &str, format: Format, bytes: &[u8], wanted: &[(&str, Kind)]) -> Result<Self, ColumnsError> {
        let named = |fault: Fault| ColumnsError::Read(fault.named(file));
        let table = rows(format, bytes, |header| Ok(Wanted::of(header, wanted))).map_err(named)?;
        let line = |row: usize| match (table.place)(row) {
            Place::Line(number) | Place::Row(number) => number,
        };
        let Wanted { header, names } = &table.selection;
        let mut kept = Vec::new();
        for &(name, kind) in wanted.iter().filter(|(name, _)| names.iter().any(|there| there == name)) {
            let cells = cells(&table.frame, name).map_err(|problem| named(problem.into()))?;
            let column = match kind {
                Kind::Text => {
                    Column::Texts(cells.map(|cell| cell.text().unwrap_or_default().into_owned()).collect())
                }
                Kind::Number => {
                    let number = |(row, cell): (usize, Cell<'_>)| match cell.text() {
                        None => Ok(None),
                        Some(text) => {
                            let parsed = text.parse::<f64>().ok().filter(|value| value.is_finite());
                            parsed.map(Some).ok_or_else(|| ColumnsError::Cell {
                                line: line(row),
                                column: name.to_owned(),
                                found: text.into_owned(),
                            })
                        }
                    };
                    Column::Numbers(cells.enumerate().map(number).collect::<Result<_, _>>()?)
                }
            };
            kept.push((name.to_owned(), column));
        }
        Ok(Self { names: header.clone(), kept, rows: table.frame.height(), first_line: line(0) })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Table, TableColumn, Values, write_parquet};
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
        assert!(wrong("a,b\n1\n").starts_with("the table: line 2: "), "{}", wrong("a,b\n1\n"));
        for nothing in ["", "a,b\n"] {
            assert!(wrong(nothing).starts_with("the table: "), "{}", wrong(nothing));
        }
        assert!(wrong("a,b\nNaN,x\n").contains("NaN"));
        let empty = Columns::of_csv("a,b\n1,x\n,y\n", &WANTED).unwrap();
        assert!(empty.numbers("a").unwrap_err().to_string().starts_with("line 3"));
        assert!(
            Columns::read(Path::new("no/such.csv"), &WANTED)
                .unwrap_err()
                .to_string()
                .starts_with("no/such.csv")
        );
        let others = Columns::of_csv("c,d\n1,x\n", &WANTED).unwrap();
        assert_eq!(others.numbers("a").unwrap_err().to_string(), "there is no column `a`; there are: c, d");
    }

    #[test]
    fn numbers_of_a_parquet_file_may_be_missing_whatever_their_type() {
        let folder = Folder::new("gaps");
        let path = folder.path("t.parquet");
        let values = Values::MaybeF64(vec![Some(1.0), None]);
        let table = Table { columns: vec![TableColumn::new("a", "", values)] };
        write_parquet(&path, &table, false).unwrap();
        let (columns, _) = Columns::read(&path, &WANTED).unwrap();
        assert_eq!(columns.maybe_numbers("a").unwrap(), [Some(1.0), None]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".{0,200}") {
            for format in [Format::Csv, Format::JsonLines, Format::Parquet] {
                let _ = Columns::of("the table", format, text.as_bytes(), &WANTED);
            }
        }
    }
}
