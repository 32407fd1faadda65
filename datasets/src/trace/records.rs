//! The records of a CSV text: found, counted and checked before polars reads them.
//!
//! Polars is fast on sound files, but on unsound ones it names no line, and it fills short lines with
//! nulls in silence. This pass costs a fraction of the reading and leaves polars nothing to refuse: every
//! record has as many fields as the header, all quotes match, and no line between them is blank.

use super::problem::{Fault, Problem};

/// Where a record ends and what it holds.
#[derive(Debug, PartialEq)]
struct Record {
    /// Fields in the record.
    fields: usize,
    /// Bytes up to and with the newline.
    length: usize,
    /// Newlines in it: more than one if a quoted field has some.
    lines: usize,
}

/// The first record, which names the columns.
#[derive(Debug)]
pub(super) struct Header<'a> {
    /// The names, without quotes and the blanks around them.
    pub(super) names: Vec<String>,
    /// The text below.
    pub(super) below: &'a str,
    /// The lines that the header takes: more than one if a quoted name has a newline.
    pub(super) lines: usize,
}

/// Splits the header from the records below it.
pub(super) fn header(text: &str) -> Result<Header<'_>, Fault> {
    let record = record(text.as_bytes()).map_err(|problem| Fault::at_line(1, problem))?;
    let (line, below) = text.split_at(record.length);
    let names = split(line.trim_end_matches(['\n', '\r'])).collect();
    Ok(Header { names, below, lines: record.lines })
}

/// Checks the records below the header, which ended `lines_above` lines after the beginning of the
/// file, and returns how many there are.
pub(super) fn check(below: &str, columns: usize, lines_above: usize) -> Result<usize, Fault> {
    let mut line = lines_above + 1;
    let mut rows = 0;
    let mut rest = below.as_bytes();
    while !rest.is_empty() {
        let fault = |problem| Fault::at_line(line, problem);
        let found = record(rest).map_err(fault)?;
        if is_blank(&rest[..found.length]) {
            return Err(fault(Problem::BlankLine));
        }
        if found.fields != columns {
            return Err(fault(Problem::FieldCount { found: found.fields, wanted: columns }));
        }
        rows += 1;
        line += found.lines;
        rest = &rest[found.length..];
    }
    Ok(rows)
}

/// The line on which a row of the file begins; rows are counted from 0, and the header is not one.
pub(super) fn line_of(text: &str, row: usize) -> usize {
    let mut line = 1;
    let mut rest = text.as_bytes();
    // The header and the rows before this one.
    for _ in 0..=row {
        let Ok(found) = record(rest) else { break };
        line += found.lines;
        rest = &rest[found.length..];
    }
    line
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

/// Measures the record at the beginning of the text.
fn record(text: &[u8]) -> Result<Record, Problem> {
    let (mut at, mut fields, mut lines) = (0, 1, 0);
    loop {
        at += if text.get(at) == Some(&b'"') {
            let quoted = quoted_length(&text[at..])?;
            lines += text[at..at + quoted].split(|&byte| byte == b'\n').count() - 1;
            quoted
        } else {
            plain_length(&text[at..])?
        };
        match text.get(at) {
            Some(b',') => fields += 1,
            Some(b'\n') => return Ok(Record { fields, length: at + 1, lines: lines + 1 }),
            Some(b'\r') if matches!(text.get(at + 1), Some(b'\n') | None) => {}
            None => return Ok(Record { fields, length: at, lines: lines + 1 }),
            Some(_) => return Err(Problem::Quoting("text follows a closing quote; a comma is wanted")),
        }
        at += 1;
    }
}

/// The length of a field without quotes, up to the comma or the end of the line.
fn plain_length(text: &[u8]) -> Result<usize, Problem> {
    let end = text.iter().position(|byte| matches!(byte, b',' | b'\n' | b'"')).unwrap_or(text.len());
    if text.get(end) == Some(&b'"') {
        return Err(Problem::Quoting("a quote stands inside a field; a quoted field begins with its quote"));
    }
    Ok(end)
}

/// The length of a field in quotes, up to and with the closing one. Two quotes inside stand for one.
fn quoted_length(text: &[u8]) -> Result<usize, Problem> {
    let mut at = 1;
    loop {
        let quote = text[at..].iter().position(|&byte| byte == b'"');
        at += 1 + quote.ok_or(Problem::Quoting("a quote is opened and never closed"))?;
        if text.get(at) != Some(&b'"') {
            return Ok(at);
        }
        at += 1;
    }
}

/// The fields of a checked line, without their quotes and the blanks around them.
fn split(line: &str) -> impl Iterator<Item = String> {
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        // The line has been measured, so that both lengths exist.
        let length = if text.starts_with('"') {
            quoted_length(text.as_bytes())
        } else {
            plain_length(text.as_bytes())
        };
        let (field, after) = text.split_at(length.unwrap_or(text.len()));
        rest = after.strip_prefix(',');
        let inner = field.strip_prefix('"').and_then(|field| field.strip_suffix('"'));
        Some(inner.map_or_else(|| field.to_owned(), |field| field.replace("\"\"", "\"")).trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_are_split() {
        let header = header("a, b ,\"c,\"\"d\ne\",\r\n1,2,3,4\n").unwrap();
        assert_eq!(header.names, ["a", "b", "c,\"d\ne", ""]);
        assert_eq!((header.below, header.lines), ("1,2,3,4\n", 2));
    }

    #[test]
    fn unsound_records_are_refused_with_their_line() {
        let refused = |below: &str| {
            let fault = check(below, 2, 1).unwrap_err();
            format!("{}: {}", fault.place.unwrap(), fault.problem)
        };
        assert_eq!(refused("1,2\n1,2,3\n"), "line 3: found 3 fields, and the header has 2");
        assert_eq!(refused("1,\"\n\n\"\n1\n"), "line 5: found 1 fields, and the header has 2");
        assert_eq!(refused("1,2\n\n1,2\n"), "line 3: the line is blank");
        assert_eq!(refused("1,\"2\n"), "line 2: a quote is opened and never closed");
        assert!(refused("1,\"2\"3\n").starts_with("line 2: text follows a closing quote"));
        assert!(refused("1,2\"3\"\n").starts_with("line 2: a quote stands inside a field"));
    }

    #[test]
    fn lines_count_newlines_in_quotes() {
        let text = "a,b\n1,\"x\ny\"\n2,z\r\n3,\n";
        assert_eq!(check(&text[4..], 2, 1).unwrap(), 3);
        assert_eq!([0, 1, 2].map(|row| line_of(text, row)), [2, 4, 5]);
    }

    proptest! {
        #[test]
        fn any_text_is_measured_to_its_end(text in "[a,\"\r\n ]{0,30}") {
            if let Ok(rows) = check(&text, 2, 0) {
                prop_assert_eq!(rows == 0, text.is_empty());
            }
            let _ = header(&text);
            let _ = line_of(&text, 5);
        }
    }
}
