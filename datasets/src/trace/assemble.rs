//! From columns of cells to a trace: units, counts, names and order.

use std::collections::BTreeMap;

use forebay_model::trace::{MAX_DURATION_NS, TimeUnit, Trace, TraceError, TraceRow};
use polars::prelude::DataFrame;

use super::datetime;
use super::decimal::Decimal;
use super::layout::{Plan, shortened};
use super::problem::{Fault, Place, Problem};
use super::table::{Cell, cells};

/// Makes the trace. `place` tells where a row, counted from 0, is to be found in the file; it may be
/// slow, for it is asked only for the row of an error.
pub(super) fn trace(
    name: &str,
    frame: &DataFrame,
    plan: &Plan,
    place: impl Fn(usize) -> Place,
) -> Result<Trace, Fault> {
    let reader = Reader { frame, place: &place };
    let times = reader.times(&plan.time, plan.unit)?;
    let tokens_in = reader.tokens(&plan.tokens_in)?;
    let tokens_out = reader.tokens(&plan.tokens_out)?;
    let (class, classes) = reader.classes(plan.class.as_deref())?;
    let user = reader.identities(plan.user.as_deref())?;
    let session = reader.identities(plan.session.as_deref())?;

    let rows = relative(&times)?.into_iter().enumerate().map(|(row, at_ns)| TraceRow {
        at_ns,
        tokens_in: tokens_in[row],
        tokens_out: tokens_out[row],
        class: class.get(row).copied().flatten(),
        user: user.get(row).copied().flatten(),
        session: session.get(row).copied().flatten(),
    });
    let mut rows: Vec<TraceRow> = rows.collect();
    if plan.sort {
        rows.sort_by_key(|row| row.at_ns);
    }
    Trace::with_classes(name, classes, rows).map_err(|error| match error {
        TraceError::Backwards { row, .. } => {
            Fault { place: Some(place(row - 1)), ..Fault::in_column(&plan.time, error.into()) }
        }
        other => Problem::from(other).into(),
    })
}

/// Times after the earliest one. Which row that is does not matter here: if it is not the first, the
/// trace's constructor finds the row that goes backwards.
fn relative(times: &[i128]) -> Result<Vec<u64>, Problem> {
    let earliest = times.iter().copied().min().unwrap_or(0);
    let span = times.iter().map(|time| u64::try_from(time - earliest).unwrap_or(u64::MAX));
    let span: Vec<u64> = span.collect();
    match span.iter().copied().max() {
        Some(duration_ns) if duration_ns > MAX_DURATION_NS => Err(TraceError::TooLong { duration_ns }.into()),
        _ => Ok(span),
    }
}

struct Reader<'a, P> {
    frame: &'a DataFrame,
    place: &'a P,
}

impl<P: Fn(usize) -> Place> Reader<'_, P> {
    /// The times of a column, in nanoseconds after some moment that they share.
    fn times(&self, name: &str, unit: TimeUnit) -> Result<Vec<i128>, Fault> {
        let (places, wanted) = match unit {
            TimeUnit::S => (Some(9), "a time in seconds, at least 0,"),
            TimeUnit::Ms => (Some(6), "a time in milliseconds, at least 0,"),
            TimeUnit::Us => (Some(3), "a time in microseconds, at least 0,"),
            TimeUnit::Ns => (Some(0), "a time in nanoseconds, at least 0,"),
            TimeUnit::Datetime => {
                (None, "a date and time such as 2023-11-16 18:15:46.6805900, from the years 1970 to 9999,")
            }
        };
        self.column(name, wanted, |cell| {
            let text = cell.text()?;
            match places {
                Some(places) => Some(Decimal::parse(&text)?.scaled(places)?.0).filter(|time| *time >= 0),
                None => datetime::parse(&text),
            }
        })
    }

    fn tokens(&self, name: &str) -> Result<Vec<u32>, Fault> {
        self.column(name, "a whole number from 1 to 4294967295", |cell| {
            let number = match cell {
                Cell::Whole(number) => *number,
                // Tables that went through a spreadsheet or pandas write 374.0.
                other => match Decimal::parse(&other.text()?)?.scaled(0)? {
                    (number, true) => number,
                    (_, false) => return None,
                },
            };
            u32::try_from(number).ok().filter(|count| *count > 0)
        })
    }

    /// The values of a column; none may be missing.
    fn column<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl Fn(&Cell<'_>) -> Option<T>,
    ) -> Result<Vec<T>, Fault> {
        let mut values = Vec::with_capacity(self.frame.height());
        for (row, cell) in cells(self.frame, name)?.enumerate() {
            let value = read(&cell).ok_or_else(|| {
                let wanted = wanted.to_owned();
                let problem = match cell.text() {
                    None => Problem::NoValue(wanted),
                    Some(text) => Problem::BadCell { found: format!("\"{}\"", shortened(&text)), wanted },
                };
                Fault { place: Some((self.place)(row)), ..Fault::in_column(name, problem) }
            })?;
            values.push(value);
        }
        Ok(values)
    }

    /// The class of each row and the names of the classes, in the order of their first rows.
    fn classes(&self, name: Option<&str>) -> Result<(Vec<Option<u16>>, Vec<String>), Fault> {
        let Some(name) = name else { return Ok((Vec::new(), Vec::new())) };
        let (numbers, names) = self.numbered(name)?;
        if names.len() > usize::from(u16::MAX) + 1 {
            return Err(Fault::in_column(name, Problem::TooManyClasses));
        }
        Ok((numbers.into_iter().map(|number| number.map(|number| number as u16)).collect(), names))
    }

    /// Who each row belongs to: the numbers of the column if all are whole numbers, otherwise a number
    /// for each different text, in the order of their first rows.
    fn identities(&self, name: Option<&str>) -> Result<Vec<Option<u64>>, Fault> {
        let Some(name) = name else { return Ok(Vec::new()) };
        let numbers = cells(self.frame, name)?.map(|cell| match cell.text() {
            None => Some(None),
            Some(text) => Decimal::parse(&text)
                .and_then(|number| number.scaled(0))
                .filter(|(_, exact)| *exact)
                .and_then(|(number, _)| u64::try_from(number).ok())
                .map(Some),
        });
        match numbers.collect::<Option<Vec<_>>>() {
            Some(numbers) => Ok(numbers),
            None => Ok(self.numbered(name)?.0),
        }
    }

    /// Numbers the different texts of a column in the order of their first rows.
    fn numbered(&self, name: &str) -> Result<(Vec<Option<u64>>, Vec<String>), Fault> {
        let mut known: BTreeMap<String, u64> = BTreeMap::new();
        let mut names = Vec::new();
        let mut numbers = Vec::with_capacity(self.frame.height());
        for cell in cells(self.frame, name)? {
            numbers.push(cell.text().map(|text| {
                *known.entry(text.into_owned()).or_insert_with_key(|text| {
                    names.push(text.clone());
                    names.len() as u64 - 1
                })
            }));
        }
        Ok((numbers, names))
    }
}
