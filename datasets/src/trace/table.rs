//! The columns of a trace as polars read them, and the guard around every call of polars.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use polars::prelude::{AnyValue, DataFrame, DataType, Field, PolarsResult, Schema, SchemaRef};

use super::problem::Problem;

/// The value of a cell, whatever its column's type.
#[derive(Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// No value: a null, nothing but blanks, or the word `null`.
    Empty,
    /// Text, without the blanks around it.
    Text(&'a str),
    /// A whole number.
    Whole(i128),
    /// A number with a fraction, or something of another type: as text.
    Other(String),
}

impl<'a> Cell<'a> {
    fn of(value: AnyValue<'a>) -> Self {
        match value {
            AnyValue::Null => Self::Empty,
            AnyValue::String(text) => match text.trim() {
                // Polars spells the null of JSON like this in a column of text.
                "" | "null" => Self::Empty,
                text => Self::Text(text),
            },
            AnyValue::Int32(number) => Self::Whole(number.into()),
            AnyValue::Int64(number) => Self::Whole(number.into()),
            AnyValue::UInt32(number) => Self::Whole(number.into()),
            AnyValue::UInt64(number) => Self::Whole(number.into()),
            // The shortest text that reads back as the same number, without an exponent: a time then
            // is the same whether a file holds it as text or in binary.
            AnyValue::Float32(number) => Self::Other(number.to_string()),
            AnyValue::Float64(number) => Self::Other(number.to_string()),
            // Categories of pandas come as text that is not borrowed from the column.
            other => Self::Other(other.get_str().map_or_else(|| format!("{other:?}"), str::to_owned)),
        }
    }

    /// As text, for readers of text.
    pub(crate) fn text(&self) -> Option<std::borrow::Cow<'_, str>> {
        match self {
            Self::Empty => None,
            Self::Text(text) => Some((*text).into()),
            Self::Whole(number) => Some(number.to_string().into()),
            Self::Other(text) => Some(text.as_str().into()),
        }
    }
}

/// The cells of a column from the first row to the last. The frame must hold the column in one piece.
pub(crate) fn cells<'a>(frame: &'a DataFrame, name: &str) -> Result<impl Iterator<Item = Cell<'a>>, Problem> {
    let column = frame.column(name).map_err(|error| format_problem("column", &error))?;
    Ok(column.as_materialized_series().iter().map(Cell::of))
}

/// Refuses a table whose columns are not as long as the file said. Of some corrupt files polars makes
/// columns of different lengths.
pub(super) fn check_lengths(
    format: &'static str,
    frame: &DataFrame,
    names: &[&str],
    rows: usize,
) -> Result<(), Problem> {
    for name in names {
        let found = frame.column(name).map_err(|error| format_problem(format, &error))?.len();
        if found != rows {
            let reason = format!("its reader found {found} values in column `{name}`, and {rows} rows");
            return Err(Problem::Format { format, reason });
        }
    }
    Ok(())
}

/// A schema in which all columns are text. Text is what the readers of CSV and JSON lines ask for, so
/// that every cell that is no number can be shown as it stands in the file: with numeric types polars
/// guesses from the first rows, and then refuses without a line or turns the cell into a null.
pub(super) fn text_schema(names: &[&str]) -> SchemaRef {
    let fields = names.iter().map(|name| Field::new((*name).into(), DataType::String));
    std::sync::Arc::new(fields.collect::<Schema>())
}

/// Runs a call of polars and turns what it has to say into a [`Problem`].
///
/// Polars panics on some corrupt Parquet files where it should return an error. A file of a user must
/// not bring the program down, so that a panic is caught here, as the last resort behind the checks
/// that come before. Nothing is shared with the closure but the bytes of the file, which it only reads.
pub(super) fn guarded<T>(format: &'static str, call: impl FnOnce() -> PolarsResult<T>) -> Result<T, Problem> {
    quieten_polars();
    GUARDED.fetch_add(1, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    GUARDED.fetch_sub(1, Ordering::Relaxed);
    match outcome {
        Ok(result) => result.map_err(|error| format_problem(format, &error)),
        Err(_) => Err(Problem::Format { format, reason: "its reader gave up on the content".into() }),
    }
}

/// How many guarded calls are running.
static GUARDED: AtomicUsize = AtomicUsize::new(0);

/// Keeps a panic of polars during a guarded call from being printed: it is answered by an error, and a
/// trace of calls on the screen would say that the program is broken where only the file is. Polars
/// panics in threads of its own, so that the place in its source tells them, and not the thread. All
/// other panics go on to the hook that was there before.
fn quieten_polars() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let in_polars = info.location().is_some_and(|place| place.file().contains("polars"));
            if !in_polars || GUARDED.load(Ordering::Relaxed) == 0 {
                before(info);
            }
        }));
    });
}

fn format_problem(format: &'static str, error: &polars::prelude::PolarsError) -> Problem {
    let reason = error.to_string();
    // The first line is the reason; advice for users of polars follows.
    Problem::Format { format, reason: reason.lines().next().unwrap_or_default().to_owned() }
}
