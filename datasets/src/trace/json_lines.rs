//! Tables in JSON lines: one object a line. A key that a line lacks is an empty cell.
//!
//! Every line is checked with serde before polars reads it: polars names no line when one is broken, and
//! its parser follows nested brackets by recursion without a limit.

use std::fmt;

use polars::prelude::{DataFrame, parse_ndjson};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::layout::check_header;
use super::problem::{Fault, MAX_NESTING, MAX_ROWS, Place, Problem};
use super::rows::{Rows, Selection};
use super::table::{check_lengths, guarded, text_schema};

const FORMAT: &str = "JSON lines";

pub(super) fn read<S: Selection>(
    text: &str,
    select: impl FnOnce(&[String]) -> Result<S, Fault>,
) -> Result<Rows<'_, S>, Fault> {
    let (_, line) = lines(text).next().ok_or(Problem::Empty)?;
    if line.trim_start().starts_with('[') {
        let wanted = "one JSON object a line";
        return Err(Problem::OtherContent { found: "a JSON array", wanted }.into());
    }
    // A key may be missing on some lines, such as those of requests that failed.
    let mut header: Vec<String> = Vec::new();
    let mut before: Vec<String> = Vec::new();
    let mut rows = 0;
    for (number, line) in lines(text) {
        let keys = keys(number, line)?;
        if keys != before {
            header.extend(keys.iter().filter(|key| !header.contains(key)).cloned().collect::<Vec<_>>());
            check_header(&header).map_err(|problem| Fault::at_line(number, problem))?;
            before = keys;
        }
        rows += 1;
    }
    let selection = select(&header)?;
    if rows > MAX_ROWS {
        return Err(Problem::TooManyRows(rows).into());
    }
    let parsed = guarded(FORMAT, || parse(text, &selection));
    let frame = parsed.map_err(|problem| located(text, &selection, problem))?;
    check_lengths(FORMAT, &frame, &selection.names(), rows)?;
    let place = Box::new(|row| Place::Line(lines(text).nth(row).map_or(row + 1, |line| line.0)));
    Ok(Rows { frame, selection, place })
}

fn parse(text: &str, selection: &impl Selection) -> polars::prelude::PolarsResult<DataFrame> {
    // The inner function of polars' reader. The reader around it guesses the number of rows from a
    // sample of lines, and does so past the end of small files.
    let mut frame = parse_ndjson(text.as_bytes(), None, &text_schema(&selection.names()), false)?;
    frame.rechunk_mut();
    Ok(frame)
}

/// Finds the line that polars refused, by handing it one at a time.
fn located(text: &str, selection: &impl Selection, problem: Problem) -> Fault {
    for (number, line) in lines(text) {
        if let Err(problem) = guarded(FORMAT, || parse(line, selection)) {
            return Fault::at_line(number, problem);
        }
    }
    problem.into()
}

/// The lines that hold something, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.split('\n').enumerate().map(|(index, line)| (index + 1, line));
    lines.filter(|(_, line)| !line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')))
}

/// The keys of the object on a line.
fn keys(number: usize, line: &str) -> Result<Vec<String>, Fault> {
    check_nesting(line).map_err(|problem| Fault::at_line(number, problem))?;
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let keys = deserializer.deserialize_map(Keys).and_then(|keys| deserializer.end().map(|()| keys));
    let keys = keys.map_err(|error| {
        let text = error.to_string();
        // Serde counts lines from the beginning of this one.
        let reason = text.split(" at line ").next().unwrap_or_default();
        Fault::at_line(number, Problem::BrokenJson(format!("{reason} (character {})", error.column())))
    })?;
    check_header(&keys).map_err(|problem| Fault::at_line(number, problem))?;
    Ok(keys)
}

fn check_nesting(line: &str) -> Result<(), Problem> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in line.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Err(Problem::TooDeep);
        }
    }
    Ok(())
}

/// Collects the keys of an object and passes over its values.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut keys = Vec::new();
        while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
            keys.push(key);
        }
        Ok(keys)
    }
}
