//! Tables in CSV: comma-separated, with a header, quoted where need be.

use std::io::Cursor;
use std::sync::Arc;

use polars::prelude::{CsvReadOptions, DataFrame, SerReader};

use super::layout::check_header;
use super::problem::{Fault, MAX_ROWS, Place, Problem};
use super::records;
use super::rows::{Rows, Selection};
use super::table::{check_lengths, guarded, text_schema};

const FORMAT: &str = "CSV";

pub(super) fn read<S: Selection>(
    text: &str,
    select: impl FnOnce(&[String]) -> Result<S, Fault>,
) -> Result<Rows<'_, S>, Fault> {
    // Blank lines at the end are an editor's doing; between rows they are refused.
    let text = text.trim_end();
    if text.is_empty() {
        return Err(Problem::Empty.into());
    }
    let header = records::header(text)?;
    check_separator(&header.names)?;
    check_header(&header.names).map_err(|problem| Fault::at_line(1, problem))?;
    let selection = select(&header.names)?;
    let rows = records::check(header.below, header.names.len(), header.lines)?;
    if rows == 0 {
        return Err(Problem::NoRows.into());
    }
    if rows > MAX_ROWS {
        return Err(Problem::TooManyRows(rows).into());
    }
    let frame = guarded(FORMAT, || parse(header.below, &header.names, &selection))?;
    check_lengths(FORMAT, &frame, &selection.names(), rows)?;
    let place = Box::new(|row| Place::Line(records::line_of(text, row)));
    Ok(Rows { frame, selection, place })
}

fn parse(
    below: &str,
    header: &[String],
    selection: &impl Selection,
) -> polars::prelude::PolarsResult<DataFrame> {
    let names: Vec<&str> = header.iter().map(String::as_str).collect();
    let wanted = selection.names();
    let projection = (0..names.len()).filter(|&index| wanted.contains(&names[index]));
    let mut frame = CsvReadOptions::default()
        .with_has_header(false)
        .with_schema(Some(text_schema(&names)))
        .with_projection(Some(Arc::new(projection.collect())))
        .with_rechunk(true)
        .into_reader_with_file_handle(Cursor::new(below.as_bytes()))
        .finish()?;
    frame.rechunk_mut();
    Ok(frame)
}

/// A single column whose name holds another separator is a file of another kind.
fn check_separator(header: &[String]) -> Result<(), Fault> {
    let [only] = header else { return Ok(()) };
    for (separator, word) in [(';', "semicolons"), ('\t', "tabs"), ('|', "bars")] {
        if only.contains(separator) {
            return Err(Fault::at_line(1, Problem::OtherSeparator(word)));
        }
    }
    Ok(())
}
