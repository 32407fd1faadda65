//! The wanted columns of a file that holds a table, in any of its formats, all checked.

use polars::prelude::DataFrame;

use super::problem::{Fault, Place};
use super::{Format, check_kind, csv, json_lines, parquet, text_of};

/// The columns that are wanted of a table.
pub(crate) trait Selection {
    /// Their names, each once, in a fixed order.
    fn names(&self) -> Vec<&str>;
}

/// The rows of a table, with the wanted columns alone.
pub(crate) struct Rows<'a, S> {
    pub(crate) frame: DataFrame,
    /// What was wanted.
    pub(crate) selection: S,
    /// Where a row, counted from 0, is to be found in the file; it may be slow, and is for errors.
    pub(crate) place: Box<dyn Fn(usize) -> Place + 'a>,
}

/// Reads the content of a file. `select` is given the header, and says which of its columns are wanted.
pub(crate) fn rows<S: Selection>(
    format: Format,
    bytes: &[u8],
    select: impl FnOnce(&[String]) -> Result<S, Fault>,
) -> Result<Rows<'_, S>, Fault> {
    check_kind(format, bytes)?;
    match format {
        Format::Csv => csv::read(text_of(bytes)?, select),
        Format::JsonLines => json_lines::read(text_of(bytes)?, select),
        Format::Parquet => parquet::read(bytes, select),
    }
}
