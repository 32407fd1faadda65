//! Reads recorded workloads: CSV, Parquet and JSON lines, by polars.
//!
//! The columns are found by the header, if it is that of a known recording:
//!
//! | layout | time | tokens in | tokens out | others |
//! | --- | --- | --- | --- | --- |
//! | forebay | `at_s`, seconds | `tokens_in` | `tokens_out` | `class`, `user`, `session`, where there |
//! | Azure | `TIMESTAMP`, date and time | `ContextTokens` | `GeneratedTokens` | |
//! | Mooncake | `timestamp`, milliseconds | `input_length` | `output_length` | |
//! | request log | `arrival_s`, seconds | `tokens_in` | `tokens_out` | `class`, where there |
//! | vLLM run | `arrival_time`, epoch seconds | `input_toks` | `output_toks` | |
//!
//! Any other file is read by naming its columns in a [`Columns`]. Columns that are not needed are not
//! read. A required value must be there; in the optional columns an empty cell (or the word `null`)
//! stands for none.
//!
//! Whatever the file holds, the answer is a trace or a [`ReadError`]: what can be checked is checked
//! before polars sees the bytes (size, kind, header, fields of each line, nesting), because polars
//! neither names the line of a fault nor promises not to panic. Alternatives rejected: reading CSV and
//! JSON lines by hand, which would leave Parquet as a second way with its own types and messages; and
//! polars' own type inference, which turns a bad cell into a null or an error without a line.

mod assemble;
mod csv;
pub(crate) mod datetime;
pub(crate) mod decimal;
mod json_lines;
pub(crate) mod layout;
#[cfg(test)]
mod malformed_tests;
mod pages;
mod parquet;
pub(crate) mod problem;
mod records;
pub(crate) mod rows;
pub(crate) mod table;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use forebay_model::trace::{Columns, Trace};

use layout::Plan;
use problem::Fault;
pub use problem::{MAX_BYTES, MAX_COLUMNS, MAX_NESTING, MAX_ROWS, Place, Problem, ReadError};

/// The kinds of file that a trace can come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated, with a header.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// The format that a file's extension promises, in upper or lower case; `None` if it is not known.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::Csv => "CSV text",
            Self::JsonLines => "JSON lines",
            Self::Parquet => "Parquet",
        }
    }
}

/// Reads a trace from a file. Its extension says the format; the trace is named after the file.
///
/// # Errors
/// [`ReadError`], whatever is wrong with the file or with its rows as a trace.
pub fn read_trace(path: &Path, columns: &Columns) -> Result<Trace, ReadError> {
    let file = path.display().to_string();
    let read = || {
        let format = format_of(path)?;
        let bytes = bytes_of(path)?;
        read_content(&name_of(path), format, &bytes, columns)
    };
    read().map_err(|fault| fault.named(&file))
}

/// Reads a trace from the content of a file. `name` becomes the trace's, and stands for the file in
/// errors.
///
/// # Errors
/// [`ReadError`], whatever is wrong with the content or with its rows as a trace.
pub fn read_trace_bytes(
    name: &str,
    format: Format,
    bytes: &[u8],
    columns: &Columns,
) -> Result<Trace, ReadError> {
    read_content(name, format, bytes, columns).map_err(|fault| fault.named(name))
}

fn read_content(name: &str, format: Format, bytes: &[u8], columns: &Columns) -> Result<Trace, Fault> {
    let rows = rows::rows(format, bytes, |header| Plan::of(header, columns))?;
    assemble::trace(name, &rows.frame, &rows.selection, rows.place)
}

fn format_of(path: &Path) -> Result<Format, Problem> {
    let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
    match extension {
        None => Err(Problem::UnknownExtension("(none)".into())),
        Some(extension) => {
            Format::of_extension(&extension).ok_or_else(|| Problem::UnknownExtension(format!(".{extension}")))
        }
    }
}

/// The file's name without its extension, and without `.trace` before it.
fn name_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    stem.strip_suffix(".trace").map(str::to_owned).unwrap_or(stem)
}

pub(crate) fn bytes_of(path: &Path) -> Result<Vec<u8>, Problem> {
    let unreadable = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Problem::NoFile,
        _ => Problem::Unreadable(error.to_string()),
    };
    // Asked before opening: to open a pipe would wait for its other end.
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(Problem::NotAFile("a folder"));
    }
    if !metadata.is_file() {
        return Err(Problem::NotAFile("a device or a pipe"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(Problem::TooLarge(metadata.len()));
    }
    let mut bytes = Vec::new();
    // The limit again, for a file that grows meanwhile.
    let limited = File::open(path).map_err(unreadable)?.take(MAX_BYTES + 1);
    { limited }.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Problem::TooLarge(bytes.len() as u64));
    }
    Ok(bytes)
}

/// Refuses content that says by its first bytes that it is something else.
pub(crate) fn check_kind(format: Format, bytes: &[u8]) -> Result<(), Problem> {
    const KINDS: [(&[u8], &str); 8] = [
        (b"PAR1", "a Parquet file"),
        (b"\x1f\x8b", "compressed by gzip (decompress it first)"),
        (b"\x28\xb5\x2f\xfd", "compressed by zstd (decompress it first)"),
        (b"BZh", "compressed by bzip2 (decompress it first)"),
        (b"\xfd7zXZ", "compressed by xz (decompress it first)"),
        (b"PK\x03\x04", "a ZIP archive or a spreadsheet"),
        (b"\xff\xfe", "UTF-16 text (save it as UTF-8)"),
        (b"\xfe\xff", "UTF-16 text (save it as UTF-8)"),
    ];
    let kind = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| *kind);
    let found = match (format, kind) {
        (Format::Parquet, Some("a Parquet file")) => return Ok(()),
        (_, Some(kind)) => kind,
        (Format::Csv | Format::JsonLines, None) if bytes.contains(&0) => "binary",
        _ => return Ok(()),
    };
    Err(Problem::OtherContent { found, wanted: format.wanted() })
}

/// The bytes as text, without the mark that some editors put before UTF-8.
pub(crate) fn text_of(bytes: &[u8]) -> Result<&str, Fault> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let (sound, rest) = bytes.split_at(error.valid_up_to());
        let line = sound.split(|&byte| byte == b'\n').count();
        Fault::at_line(line, Problem::NotUtf8 { byte: rest.first().copied().unwrap_or_default() })
    })
}
