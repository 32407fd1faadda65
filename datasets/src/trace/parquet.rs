//! Tables in Parquet: whole numbers, fractions or text, in any of its encodings and compressions.

use std::io::Cursor;

use polars::prelude::{
    ArrowDataType, ArrowSchema, DataFrame, FileMetadata, ParquetReader, PolarsResult, SerReader,
};

use super::layout::check_header;
use super::pages;
use super::problem::{Fault, MAX_ROWS, Place, Problem};
use super::rows::{Rows, Selection};
use super::table::{check_lengths, guarded};

const FORMAT: &str = "Parquet";
/// What a Parquet file begins and ends with.
const MAGIC: &[u8] = b"PAR1";

pub(super) fn read<S: Selection>(
    bytes: &[u8],
    select: impl FnOnce(&[String]) -> Result<S, Fault>,
) -> Result<Rows<'_, S>, Fault> {
    check_frame(bytes)?;
    let mut reader = ParquetReader::new(Cursor::new(bytes));
    let (schema, metadata) = guarded(FORMAT, || Ok((reader.schema()?, reader.get_metadata()?.clone())))?;
    let header: Vec<String> = schema.iter_names().map(ToString::to_string).collect();
    check_header(&header)?;
    let selection = select(&header)?;
    check_types(&schema, &selection)?;
    let rows = metadata.num_rows;
    if rows == 0 {
        return Err(Problem::NoRows.into());
    }
    if rows > MAX_ROWS {
        return Err(Problem::TooManyRows(rows).into());
    }
    guarded(FORMAT, || Ok(check_groups(bytes, &metadata, &selection.names())))??;
    let frame = guarded(FORMAT, || parse(reader, &selection))?;
    check_lengths(FORMAT, &frame, &selection.names(), rows)?;
    Ok(Rows { frame, selection, place: Box::new(|row| Place::Row(row + 1)) })
}

fn parse(reader: ParquetReader<Cursor<&[u8]>>, selection: &impl Selection) -> PolarsResult<DataFrame> {
    let wanted = selection.names().into_iter().map(str::to_owned).collect();
    let mut frame = reader.with_columns(Some(wanted)).finish()?;
    frame.rechunk_mut();
    Ok(frame)
}

/// Checks what can be seen without a reader: the marks at both ends, and that the footer fits between.
fn check_frame(bytes: &[u8]) -> Result<(), Problem> {
    if bytes.is_empty() {
        return Err(Problem::Empty);
    }
    if !bytes.starts_with(MAGIC) {
        return Err(unsound("it does not begin with the mark PAR1"));
    }
    let Some((_, [length @ .., b'P', b'A', b'R', b'1'])) = bytes.split_last_chunk::<8>() else {
        return Err(unsound("it does not end with the mark PAR1; it may have been cut off"));
    };
    let footer = u32::from_le_bytes(*length) as usize;
    if footer + 3 * MAGIC.len() > bytes.len() {
        return Err(unsound("its footer is longer than the file; it may have been cut off"));
    }
    Ok(())
}

/// Checks the counts that the file gives for its parts against each other.
fn check_groups(bytes: &[u8], metadata: &FileMetadata, names: &[&str]) -> Result<(), Problem> {
    let mut rows = 0_usize;
    for group in &metadata.row_groups {
        rows = rows.saturating_add(group.num_rows());
        for name in names {
            let mut chunks = group.columns_under_root_iter(name).into_iter().flatten();
            let (Some(chunk), None) = (chunks.next(), chunks.next()) else {
                return Err(unsound("a row group lacks a column"));
            };
            if usize::try_from(chunk.num_values()) != Ok(group.num_rows()) {
                return Err(unsound("a column is not as long as its row group"));
            }
            pages::check(bytes, chunk.byte_range(), chunk.num_values()).map_err(unsound)?;
        }
    }
    if rows == metadata.num_rows { Ok(()) } else { Err(unsound("its row groups do not add up to its rows")) }
}

fn unsound(reason: &str) -> Problem {
    Problem::Format { format: FORMAT, reason: reason.to_owned() }
}

fn check_types(schema: &ArrowSchema, selection: &impl Selection) -> Result<(), Fault> {
    for name in selection.names() {
        let Some(field) = schema.get(name) else { continue };
        if !is_readable(field.dtype()) {
            let wanted = "whole numbers (32 or 64 bits), fractions or text";
            let found = format!("{:?}", field.dtype());
            return Err(Fault::in_column(name, Problem::ColumnType { found, wanted }));
        }
    }
    Ok(())
}

/// Dates are not among these: polars reads them only with its temporal features, which lengthen the
/// build. They can be stored as nanoseconds or as text.
fn is_readable(dtype: &ArrowDataType) -> bool {
    if let ArrowDataType::Dictionary(_, values, _) = dtype {
        return matches!(**values, ArrowDataType::Utf8 | ArrowDataType::LargeUtf8 | ArrowDataType::Utf8View);
    }
    matches!(
        dtype,
        ArrowDataType::Int32
            | ArrowDataType::Int64
            | ArrowDataType::UInt32
            | ArrowDataType::UInt64
            | ArrowDataType::Float32
            | ArrowDataType::Float64
            | ArrowDataType::Utf8
            | ArrowDataType::LargeUtf8
            | ArrowDataType::Utf8View
    )
}
