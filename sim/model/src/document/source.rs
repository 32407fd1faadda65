//! The text of a scenario and the name it goes by.
//!
//! What a parser should not have to survive is refused here, each with one clear problem: files too
//! large, text that is not UTF-8, control characters, brackets nested without end.

use std::io::Read;

use super::problem::Problem;

/// Largest text that is read, in bytes. Scenarios are a few kilobytes; bulk data (traces, recordings)
/// stands in files of its own.
pub const LARGEST_SOURCE: usize = 16 << 20;

/// Deepest nesting of brackets and braces that is read.
const DEEPEST: usize = 64;

/// A text with the name that problems show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// File name, or name of the bundled scenario.
    pub name: String,
    /// The TOML text.
    pub text: String,
}

impl Source {
    /// A source from a text already in memory.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }

    /// A source from bytes.
    ///
    /// # Errors
    /// The text is larger than [`LARGEST_SOURCE`], or is not UTF-8; the problem names the first bad byte.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, Vec<Problem>> {
        let name = name.into();
        if bytes.len() > LARGEST_SOURCE {
            return Err(vec![too_large(&name)]);
        }
        let error = match String::from_utf8(bytes) {
            Ok(text) => return Ok(Self { name, text }),
            Err(error) => error,
        };
        let good = error.utf8_error().valid_up_to();
        let bytes = error.as_bytes();
        let (line, column) = position(&String::from_utf8_lossy(&bytes[..good]), good);
        // Files saved as UTF-16 start with one of these marks.
        let wide = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        Err(vec![Problem {
            file: name,
            line,
            column,
            path: String::new(),
            found: format!("the byte 0x{:02x}, which is not UTF-8", bytes[good]),
            allowed: "text in UTF-8".to_owned(),
            hint: wide.then(|| "the file looks like UTF-16: save it as UTF-8".to_owned()),
        }])
    }

    /// A source from a reader, of which no more than [`LARGEST_SOURCE`] bytes are taken.
    ///
    /// # Errors
    /// As [`Source::from_bytes`], or the reader failed.
    pub fn from_reader(name: impl Into<String>, reader: impl Read) -> Result<Self, Vec<Problem>> {
        let name = name.into();
        let mut bytes = Vec::new();
        match reader.take(LARGEST_SOURCE as u64 + 1).read_to_end(&mut bytes) {
            Ok(_) => Self::from_bytes(name, bytes),
            Err(error) => {
                let found = format!("a file that cannot be read: {error}");
                Err(vec![whole(&name, found, "a readable TOML file")])
            }
        }
    }

    /// Line and column, from 1, of a byte offset.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        position(&self.text, offset)
    }

    /// Refuses what the parser should not be given.
    pub(super) fn check(&self) -> Result<(), Vec<Problem>> {
        if self.text.len() > LARGEST_SOURCE {
            return Err(vec![too_large(&self.name)]);
        }
        // Tabs and line ends are the control characters of TOML; the parser judges lone carriage
        // returns. One of the others means binary data, which would fill pages with complaints.
        let control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
        if let Some((offset, c)) = self.text.char_indices().find(|(_, c)| control(*c)) {
            let found = match c {
                '\0' => "a NUL byte".to_owned(),
                c => format!("the control character U+{:04X}", c as u32),
            };
            return Err(vec![self.at(offset, found, "printable text, tabs and line ends")]);
        }
        match too_deep(&self.text) {
            Some(offset) => {
                let found = format!("brackets nested more than {DEEPEST} deep");
                Err(vec![self.at(offset, found, "flatter tables and lists")])
            }
            None => Ok(()),
        }
    }

    fn at(&self, offset: usize, found: String, allowed: &str) -> Problem {
        let (line, column) = self.position(offset);
        Problem { line, column, ..whole(&self.name, found, allowed) }
    }
}

fn whole(name: &str, found: String, allowed: &str) -> Problem {
    Problem {
        file: name.to_owned(),
        line: 1,
        column: 1,
        path: String::new(),
        found,
        allowed: allowed.to_owned(),
        hint: None,
    }
}

fn too_large(name: &str) -> Problem {
    let limit = LARGEST_SOURCE >> 20;
    let found = format!("more than {limit} MiB of text");
    let mut problem = whole(name, found, &format!("a scenario of at most {limit} MiB"));
    problem.hint = Some("keep bulk data in files of its own and name them in the scenario".to_owned());
    problem
}

/// Line and column in characters, both from 1, of a byte offset; past the end, of the end.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    // A byte order mark is not seen in an editor, so it counts for no column.
    let column = before[line_start..].trim_start_matches('\u{feff}').chars().count() + 1;
    (line, column)
}

/// The first bracket that nests deeper than [`DEEPEST`].
///
/// Counts brackets outside comments and strings. A string that is never closed ends with its line, so
/// that the count stays right enough; its own mistake is the parser's to report.
pub(super) fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'#' => at += bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len() - at),
            b'"' | b'\'' => {
                at = string_end(bytes, at);
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                if depth > DEEPEST {
                    return Some(at);
                }
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the string that opens at `start` is over.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let triple = bytes[start..].starts_with(&[quote; 3]);
    let width = if triple { 3 } else { 1 };
    let mut at = start + width;
    while let Some(byte) = bytes.get(at) {
        if bytes[at..].starts_with(&[quote; 3][..width]) {
            return at + width;
        }
        match byte {
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !triple => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_not_the_byte_order_mark() {
        assert_eq!(position("é = 1\nñü = x", 11), (2, 3));
        assert_eq!(position("\u{feff}a = 1", 3), (1, 1));
        assert_eq!(position("a", 99), (1, 2));
    }

    #[test]
    fn text_that_is_not_utf8_is_placed() {
        let problem = Source::from_bytes("s.toml", b"a = 1\nb = \"\xff\"".to_vec()).unwrap_err().remove(0);
        let expected = "s.toml:2:6: found the byte 0xff, which is not UTF-8, allowed: text in UTF-8";
        assert_eq!(problem.to_string(), expected);
        let problem = Source::from_bytes("s.toml", vec![0xff, 0xfe, b'a', 0]).unwrap_err().remove(0);
        assert_eq!(problem.hint.unwrap(), "the file looks like UTF-16: save it as UTF-8");
    }

    #[test]
    fn binary_data_and_endless_files_are_one_problem() {
        let problem = Source::new("s.toml", "a = 1\n\0\0\0").check().unwrap_err().remove(0);
        assert_eq!((problem.line, problem.column, problem.found.as_str()), (2, 1, "a NUL byte"));
        let problem = Source::from_reader("s.toml", std::io::repeat(b'[')).unwrap_err().remove(0);
        assert_eq!(
            problem.to_string(),
            "s.toml:1:1: found more than 16 MiB of text, allowed: a scenario of at most 16 MiB\n  \
             keep bulk data in files of its own and name them in the scenario"
        );
    }

    #[test]
    fn nesting_counts_outside_strings_and_comments() {
        let deep = "[".repeat(DEEPEST + 1);
        assert_eq!(too_deep(&deep), Some(DEEPEST));
        assert_eq!(too_deep(&format!("a = '{deep}' # {deep}\nb = \"\\\"{deep}\"")), None);
        assert_eq!(too_deep(&format!("a = \"\"\"\n\"{deep}\n\"\"\"\nb = [1]")), None);
        assert_eq!(too_deep(&format!("a = \"open\nb = {deep}")), Some(14 + DEEPEST));
    }
}
