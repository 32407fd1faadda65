//! Tables of results in Parquet: columns with units, compressed by zstd, written whole or not at all.
//!
//! A [`Table`] is the form in which the workbench hands over a timeline, trials or requests. Any reader of
//! Parquet opens the file; the unit of a column is in the file's key-value metadata, under
//! `forebay.unit.<column>`. Long tables are written in pieces by a [`TableWriter`], so that they need never
//! be in memory whole.
//!
//! Units in the metadata and not in the names: a name such as `wait_p99_s` carries its unit already where
//! it is short, and readers that plot want the unit apart from the name.

use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use polars::io::parquet::write::BatchedWriter;
use polars::prelude::{
    Column, DataFrame, DataType, KeyValueMetadata, NamedFrom, ParquetReader, ParquetWriter, PolarsError,
    SerReader, Series,
};

use crate::files::{FileError, WholeFile};

/// Where the unit of a column is found among a file's metadata.
const UNIT_KEY: &str = "forebay.unit.";

/// Columns of one length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// The columns; their names differ.
    pub columns: Vec<TableColumn>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its unit, such as `s` or `1/s`; empty for names, counts and shares.
    pub unit: String,
    /// Its values.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers.
    F64(Vec<f64>),
    /// Numbers, some of which could not be had: `None` becomes a null, never a 0.
    MaybeF64(Vec<Option<f64>>),
    /// Counts, and times in nanoseconds.
    U64(Vec<u64>),
    /// Whole numbers with a sign.
    I64(Vec<i64>),
    /// Texts.
    Str(Vec<String>),
    /// Flags.
    Bool(Vec<bool>),
}

/// Why a table was not written or read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file could not be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file could not be opened.
    #[error("{}: {cause}", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// A table without columns.
    #[error("{}: the table has no columns", .0.display())]
    NoColumns(PathBuf),
    /// Columns that no table can have: lengths or names that do not fit together, or pieces whose columns
    /// differ.
    #[error("{}: {reason}", .path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// A column whose type is not among [`Values`].
    #[error("{}: column `{column}` holds {found}, which is not read here", .path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
    /// The Parquet library refused.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
}

impl TableColumn {
    /// A column from its parts.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, values: Values) -> Self {
        Self { name: name.into(), unit: unit.into(), values }
    }

    fn to_polars(&self) -> Column {
        let name = self.name.as_str().into();
        let series = match &self.values {
            Values::F64(values) => Series::new(name, values.as_slice()),
            Values::MaybeF64(values) => Series::new(name, values.as_slice()),
            Values::U64(values) => Series::new(name, values.as_slice()),
            Values::I64(values) => Series::new(name, values.as_slice()),
            Values::Str(values) => Series::new(name, values.as_slice()),
            Values::Bool(values) => Series::new(name, values.as_slice()),
        };
        series.into()
    }
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F64(values) => values.len(),
            Self::MaybeF64(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::Str(values) => values.len(),
            Self::Bool(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn kind(&self) -> Kind {
        match self {
            Self::F64(_) | Self::MaybeF64(_) => Kind::F64,
            Self::U64(_) => Kind::U64,
            Self::I64(_) => Kind::I64,
            Self::Str(_) => Kind::Str,
            Self::Bool(_) => Kind::Bool,
        }
    }

    /// The values of a column of polars; `None` if they are of another type, or if some are missing
    /// that are not fractions.
    fn of(column: &Column) -> Option<Self> {
        let missing = column.null_count() > 0;
        let series = column.as_materialized_series();
        Some(match column.dtype() {
            DataType::Float64 if missing => Self::MaybeF64(series.f64().ok()?.iter().collect()),
            DataType::Float64 => Self::F64(series.f64().ok()?.iter().flatten().collect()),
            _ if missing => return None,
            DataType::UInt64 => Self::U64(series.u64().ok()?.iter().flatten().collect()),
            DataType::Int64 => Self::I64(series.i64().ok()?.iter().flatten().collect()),
            DataType::String => Self::Str(series.str().ok()?.iter().flatten().map(str::to_owned).collect()),
            DataType::Boolean => Self::Bool(series.bool().ok()?.iter().flatten().collect()),
            _ => return None,
        })
    }
}

/// Writes a table piece by piece; each piece becomes a row group of the file.
///
/// Dropped without [`TableWriter::finish`], it leaves nothing behind.
pub struct TableWriter {
    path: PathBuf,
    header: Vec<Heading>,
    parquet: BatchedWriter<File>,
    whole: WholeFile,
}

impl TableWriter {
    /// Begins a file whose columns are those of `first` and writes `first` as its first piece.
    ///
    /// # Errors
    /// [`TableError`]: the file exists and may not be overwritten, it cannot be written, or `first` has no
    /// columns or unfit ones.
    pub fn create(path: &Path, first: &Table, overwrite: bool) -> Result<Self, TableError> {
        if first.columns.is_empty() {
            return Err(TableError::NoColumns(path.to_owned()));
        }
        let frame = to_frame(path, first)?;
        let mut whole = WholeFile::create(path, overwrite)?;
        let file = whole.file().try_clone();
        let file = file.map_err(|cause| FileError::Io { path: path.to_owned(), cause })?;
        let units =
            first.columns.iter().map(|column| (format!("{UNIT_KEY}{}", column.name), column.unit.clone()));
        let writer = ParquetWriter::new(file)
            .with_key_value_metadata(Some(KeyValueMetadata::from_static(units.collect())))
            .batched(frame.schema())
            .map_err(|error| format_error(path, &error))?;
        let mut writer = Self { path: path.to_owned(), header: header(first), parquet: writer, whole };
        writer.write_frame(&frame)?;
        Ok(writer)
    }

    /// Writes another piece, with the same columns.
    ///
    /// # Errors
    /// [`TableError`]: its columns differ from the first piece's, or it cannot be written.
    pub fn write(&mut self, piece: &Table) -> Result<(), TableError> {
        if header(piece) != self.header {
            let reason = "the columns of the piece differ from those of the first one".into();
            return Err(TableError::Shape { path: self.path.clone(), reason });
        }
        let frame = to_frame(&self.path, piece)?;
        self.write_frame(&frame)
    }

    /// Completes the file and gives it its name. An empty table has its columns and no rows.
    ///
    /// # Errors
    /// [`TableError`], if it cannot be written; nothing is left behind then.
    pub fn finish(self) -> Result<(), TableError> {
        self.parquet.finish().map_err(|error| format_error(&self.path, &error))?;
        Ok(self.whole.commit()?)
    }

    fn write_frame(&mut self, frame: &DataFrame) -> Result<(), TableError> {
        self.parquet.write_batch(frame).map_err(|error| format_error(&self.path, &error))
    }
}

/// Writes a table whole or not at all.
///
/// # Errors
/// [`TableError`]: the file exists and may not be overwritten, it cannot be written, or the table is unfit.
pub fn write_parquet(path: &Path, table: &Table, overwrite: bool) -> Result<(), TableError> {
    TableWriter::create(path, table, overwrite)?.finish()
}

/// Reads a table that was written here. It is for our own files: a corrupt one is an error, but its
/// content is not checked as that of a trace is.
///
/// # Errors
/// [`TableError`]: there is no such file, it is no Parquet, or it has columns of other types.
pub fn read_parquet(path: &Path) -> Result<Table, TableError> {
    let content = std::fs::read(path).map_err(|cause| TableError::Open { path: path.to_owned(), cause })?;
    let failed = |error| format_error(path, &error);
    let mut reader = ParquetReader::new(Cursor::new(content.as_slice()));
    let metadata = reader.get_metadata().map_err(failed)?.clone();
    let frame = reader.finish().map_err(failed)?;
    let unit_of = |name: &str| {
        let pairs = metadata.key_value_metadata().iter().flatten();
        let mut units = pairs.filter(|pair| pair.key.strip_prefix(UNIT_KEY) == Some(name));
        units.find_map(|pair| pair.value.clone()).unwrap_or_default()
    };
    let columns = frame.columns().iter().map(|column| {
        let name = column.name().to_string();
        let values = Values::of(column).ok_or_else(|| {
            let kind = if column.null_count() > 0 { "missing values of type " } else { "" };
            let found = format!("{kind}{}", column.dtype());
            TableError::ColumnType { path: path.to_owned(), column: name.clone(), found }
        })?;
        Ok(TableColumn { unit: unit_of(&name), name, values })
    });
    let columns = columns.collect::<Result<_, TableError>>()?;
    Ok(Table { columns })
}

/// What pieces of one file must share of a column: its name, its unit and its kind of values.
type Heading = (String, String, Kind);

/// A kind of values, as a file tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    F64,
    U64,
    I64,
    Str,
    Bool,
}

fn header(table: &Table) -> Vec<Heading> {
    let heading = |column: &TableColumn| (column.name.clone(), column.unit.clone(), column.values.kind());
    table.columns.iter().map(heading).collect()
}

fn to_frame(path: &Path, table: &Table) -> Result<DataFrame, TableError> {
    let columns = table.columns.iter().map(TableColumn::to_polars).collect();
    // Polars refuses columns of different lengths and equal names.
    DataFrame::new_infer_height(columns)
        .map_err(|error| TableError::Shape { path: path.to_owned(), reason: first_line(&error) })
}

fn format_error(path: &Path, error: &PolarsError) -> TableError {
    TableError::Format { path: path.to_owned(), reason: first_line(error) }
}

fn first_line(error: &PolarsError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    fn table(rows: u64) -> Table {
        let numbers = || 0..rows;
        Table {
            columns: vec![
                TableColumn::new("at_s", "s", Values::F64(numbers().map(|i| i as f64 / 4.0).collect())),
                TableColumn::new(
                    "wait_s",
                    "s",
                    Values::MaybeF64(numbers().map(|i| (i % 3 > 0).then_some(i as f64)).collect()),
                ),
                TableColumn::new("requests", "", Values::U64(numbers().map(|i| u64::MAX - i).collect())),
                TableColumn::new("change", "", Values::I64(numbers().map(|i| -(i as i64)).collect())),
                TableColumn::new("level", "", Values::Str(numbers().map(|i| format!("l{i} é")).collect())),
                TableColumn::new("alert", "", Values::Bool(numbers().map(|i| i % 2 == 0).collect())),
            ],
        }
    }

    #[test]
    fn tables_come_back_as_written() {
        let folder = Folder::new("tables");
        let path = folder.path("timeline.parquet");
        write_parquet(&path, &table(100), false).unwrap();
        assert_eq!(read_parquet(&path).unwrap(), table(100));
        assert_eq!(folder.entries(), ["timeline.parquet"]);
    }

    #[test]
    fn a_table_without_rows_keeps_its_columns() {
        let folder = Folder::new("no-rows");
        let path = folder.path("empty.parquet");
        let empty = Table { columns: vec![TableColumn::new("a", "s", Values::F64(vec![]))] };
        write_parquet(&path, &empty, false).unwrap();
        assert_eq!(read_parquet(&path).unwrap(), empty);
    }

    #[test]
    fn pieces_are_appended_in_order() {
        let folder = Folder::new("pieces");
        let path = folder.path("requests.parquet");
        let piece = |from: u64| Table {
            columns: vec![TableColumn::new("id", "", Values::U64((from..from + 10).collect()))],
        };
        let mut writer = TableWriter::create(&path, &piece(0), false).unwrap();
        writer.write(&piece(10)).unwrap();
        assert!(matches!(writer.write(&table(1)), Err(TableError::Shape { .. })));
        let retyped = Table { columns: vec![TableColumn::new("id", "", Values::F64(vec![1.0]))] };
        assert!(matches!(writer.write(&retyped), Err(TableError::Shape { .. })));
        writer.write(&piece(20)).unwrap();
        writer.finish().unwrap();
        let columns = vec![TableColumn::new("id", "", Values::U64((0..30).collect()))];
        assert_eq!(read_parquet(&path).unwrap(), Table { columns });
    }

    #[test]
    fn unfit_tables_leave_no_file() {
        let folder = Folder::new("unfit");
        let path = folder.path("a.parquet");
        let uneven = Table {
            columns: vec![
                TableColumn::new("a", "", Values::U64(vec![1])),
                TableColumn::new("b", "", Values::U64(vec![1, 2])),
            ],
        };
        assert!(matches!(write_parquet(&path, &uneven, false), Err(TableError::Shape { .. })));
        let twice = Table { columns: vec![TableColumn::new("a", "", Values::U64(vec![1])); 2] };
        assert!(matches!(write_parquet(&path, &twice, false), Err(TableError::Shape { .. })));
        assert!(matches!(write_parquet(&path, &Table::default(), false), Err(TableError::NoColumns(_))));
        drop(TableWriter::create(&path, &table(5), false).unwrap());
        assert_eq!(folder.entries(), [""; 0]);
    }

    #[test]
    fn what_is_no_table_is_refused() {
        let folder = Folder::new("no-table");
        assert!(matches!(read_parquet(&folder.path("none.parquet")), Err(TableError::Open { .. })));
        let text = folder.file("text.parquet", "at_s,tokens\n");
        assert!(matches!(read_parquet(&text), Err(TableError::Format { .. })));
        let existing = folder.file("there.parquet", "");
        let error = write_parquet(&existing, &table(1), false).unwrap_err();
        assert!(error.to_string().ends_with("the file exists already; --force overwrites it"));
    }
}
