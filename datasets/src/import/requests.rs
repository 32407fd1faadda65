//! Request logs in CSV, JSON lines and Parquet, by a map of their columns.
//!
//! | layout | arrival | tokens | first and last token | status |
//! | --- | --- | --- | --- | --- |
//! | request log | `arrival_s` | `tokens_in`, `tokens_out` | `first_token_s`, `last_token_s` | `status` |
//! | load recorder | `sent_ns`, `sent_wall_ns` | `tokens_in`, `tokens_out` | `first_token_ns`, `last_token_ns` | `status` |
//! | vLLM run | `arrival_time`, epoch seconds | `input_toks`, `output_toks` | `first_token_ts`, `last_token_ts` by another clock, on which `queued_ts` is the arrival | |
//!
//! Every other file is read by naming its columns. The reading itself is that of traces: [`crate::trace`].

mod columns;
mod rows;

use polars::prelude::DataFrame;

use super::clock::{UtcOffset, has_zone};
use super::error::Fault;
use super::options::{LogColumns, LogUnit};
use super::report::{At, Notes};
use crate::request_log::RequestLog;
use crate::trace::decimal::Decimal;
use crate::trace::layout::{listed, shortened};
use crate::trace::problem::{self, Place, Problem};
use crate::trace::rows::rows;
use crate::trace::table::cells;
use crate::trace::{Format, datetime};
use columns::{Plan, Stamp};
use rows::{Columns, assemble};

pub(super) fn read(
    format: Format,
    bytes: &[u8],
    columns: &LogColumns,
    utc_offset: Option<UtcOffset>,
    notes: &mut Notes,
) -> Result<RequestLog, Fault> {
    let table = rows(format, bytes, |header| Plan::of(header, columns))?;
    let place = |row: usize| match (table.place)(row) {
        Place::Line(number) => At::Line(number),
        Place::Row(number) => At::Row(number),
    };
    if !table.selection.left.is_empty() {
        let first = if format == Format::Parquet { At::Row(1) } else { At::Line(1) };
        notes.remark(&format!("columns left out: {}", listed(&table.selection.left)), first);
    }
    let reader = Reader { frame: &table.frame, place: &table.place, utc_offset };
    let read = reader.columns(&table.selection)?;
    if reader.local(&table.selection)? {
        notes.remark("local times, taken as UTC (--utc-offset says otherwise)", place(0));
    }
    assemble(&read, &columns.ok, &place, notes)
}

struct Reader<'a, P> {
    frame: &'a DataFrame,
    place: &'a P,
    utc_offset: Option<UtcOffset>,
}

impl<P: Fn(usize) -> Place> Reader<'_, P> {
    fn columns(&self, plan: &Plan) -> Result<Columns, Fault> {
        let stamps = |stamp: &Option<Stamp>| match stamp {
            None => Ok(None),
            Some(Stamp::Moment(name)) => self.times(name, plan.token_unit).map(Some),
            Some(Stamp::After(name)) => self.times(name, plan.duration_unit).map(Some),
        };
        let is_after = |stamp: &Option<Stamp>| matches!(stamp, Some(Stamp::After(_)));
        let queued = plan.queued.as_ref().map(|name| self.times(name, plan.token_unit)).transpose()?;
        Ok(Columns {
            arrival: self.times(&plan.arrival, plan.arrival_unit)?,
            dated: plan.arrival_unit == LogUnit::Datetime,
            tokens_in: self.tokens(&plan.tokens_in)?,
            tokens_out: self.tokens(&plan.tokens_out)?,
            queued,
            first: stamps(&plan.first)?,
            first_after_arrival: is_after(&plan.first),
            last: stamps(&plan.last)?,
            last_after_arrival: is_after(&plan.last),
            wall: plan.wall.as_ref().map(|name| self.times(name, LogUnit::Ns)).transpose()?,
            status: plan.status.as_ref().map(|name| self.texts(name)).transpose()?,
        })
    }

    /// Whether times of day are read without a zone or an offset.
    fn local(&self, plan: &Plan) -> Result<bool, Fault> {
        if self.utc_offset.is_some() || plan.arrival_unit != LogUnit::Datetime {
            return Ok(false);
        }
        let first =
            cells(self.frame, &plan.arrival)?.find_map(|cell| cell.text().map(|text| has_zone(&text)));
        Ok(first == Some(false))
    }

    /// Times or durations, in nanoseconds; none where there is no value.
    fn times(&self, name: &str, unit: LogUnit) -> Result<Vec<Option<i64>>, Fault> {
        let (places, wanted) = match unit {
            LogUnit::S => (9, "a time in seconds"),
            LogUnit::Ms => (6, "a time in milliseconds"),
            LogUnit::Us => (3, "a time in microseconds"),
            LogUnit::Ns => (0, "a time in nanoseconds"),
            LogUnit::Datetime => (0, "a date and time such as 2026-07-23 18:15:46.68"),
        };
        self.column(name, wanted, |text| {
            let ns = if unit == LogUnit::Datetime {
                let ns = datetime::parse(text)?;
                if has_zone(text) { ns } else { self.utc_offset.unwrap_or_default().to_utc(ns) }
            } else {
                Decimal::parse(text)?.scaled(places)?.0
            };
            i64::try_from(ns).ok()
        })
    }

    fn tokens(&self, name: &str) -> Result<Vec<Option<u32>>, Fault> {
        self.column(name, "a whole number from 0 to 4294967295", |text| {
            let (number, exact) = Decimal::parse(text)?.scaled(0)?;
            u32::try_from(number).ok().filter(|_| exact)
        })
    }

    fn texts(&self, name: &str) -> Result<Vec<Option<String>>, Fault> {
        Ok(cells(self.frame, name)?.map(|cell| cell.text().map(std::borrow::Cow::into_owned)).collect())
    }

    fn column<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<Option<T>>, Fault> {
        let mut values = Vec::with_capacity(self.frame.height());
        for (row, cell) in cells(self.frame, name)?.enumerate() {
            let Some(text) = cell.text().filter(|text| !is_none(text)) else {
                values.push(None);
                continue;
            };
            let Some(value) = read(&text) else {
                let found = format!("\"{}\"", shortened(&text));
                let problem = Problem::BadCell { found, wanted: format!("{wanted}, or nothing,") };
                let fault = problem::Fault::in_column(name, problem);
                return Err(Fault::from(problem::Fault { place: Some((self.place)(row)), ..fault }));
            };
            values.push(Some(value));
        }
        Ok(values)
    }
}

/// Words that programs write where they have no value.
fn is_none(text: &str) -> bool {
    matches!(text, "NaN" | "nan" | "None" | "none" | "NULL" | "N/A" | "-")
}
