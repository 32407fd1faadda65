//! Dotted paths: how a place in a document is named, `stages.llm.replicas`.
//!
//! Keys that are not plain words are quoted as TOML quotes them, `stages."llm v2".replicas`; elements
//! of a list are named by their index from 0, `sources.0.rate_per_s`.

use std::fmt;

/// Longest part of a key or value that is shown in a message, in characters.
const SHOWN_LENGTH: usize = 60;

/// Most segments a path may have: deeper than any scenario, and a bound for recursion over paths.
pub(super) const MOST_SEGMENTS: usize = 64;

/// A path under construction on the stack of a walk: writing it costs only when it is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trail<'a> {
    parent: Option<&'a Trail<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
    /// A path already written.
    Whole(&'a str),
}

impl<'a> Trail<'a> {
    /// The document itself; shown as an empty text.
    pub(super) const ROOT: Trail<'static> = Trail { parent: None, step: Step::Root };

    pub(super) fn key(&'a self, key: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Key(key) }
    }

    /// A path already written, from the root.
    pub(super) fn whole(&'a self, path: &'a str) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Whole(path) }
    }

    pub(super) fn index(&'a self, index: usize) -> Trail<'a> {
        Trail { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
            if parent.parent.is_some() {
                f.write_str(".")?;
            }
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(key) => f.write_str(&quote(key)),
            Step::Index(index) => write!(f, "{index}"),
            Step::Whole(path) => f.write_str(path),
        }
    }
}

/// Joins segments to a path.
pub(super) fn join<'a>(segments: impl IntoIterator<Item = &'a str>) -> String {
    segments.into_iter().map(quote).collect::<Vec<_>>().join(".")
}

/// A key as a path shows it.
pub(super) fn quote(key: &str) -> String {
    if is_bare(key) && key.len() <= SHOWN_LENGTH { key.to_owned() } else { quote_text(key) }
}

/// Whether a key needs no quotes in TOML.
pub(super) fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A text in quotes, shortened, and with nothing in it that a terminal would obey.
pub(super) fn quote_text(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_LENGTH).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", start.escape_debug())
}

/// One part of a path, and where it starts in the path's text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) key: String,
    pub(super) offset: usize,
}

/// Splits a path at its dots.
///
/// # Errors
/// Where the path cannot be read (byte offset), and what stands there.
pub(super) fn split(path: &str) -> Result<Vec<Segment>, (usize, &'static str)> {
    let mut segments = Vec::new();
    let mut at = 0;
    loop {
        if segments.len() == MOST_SEGMENTS {
            return Err((at, "a path of too many parts"));
        }
        let rest = &path[at..];
        let (key, length) = if let Some(quote @ ('"' | '\'')) = rest.chars().next() {
            let inner = &rest[1..];
            let end = inner.find(quote).ok_or((at, "a quote that is not closed"))?;
            (&inner[..end], end + 2)
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            (rest[..end].trim(), end)
        };
        if key.is_empty() {
            return Err((at, "an empty part of a path"));
        }
        segments.push(Segment { key: key.to_owned(), offset: at });
        at += length;
        match path[at..].chars().next() {
            None => return Ok(segments),
            Some('.') => at += 1,
            Some(_) => return Err((at, "text after a quote")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trails_read_as_toml_keys() {
        let stages = Trail::ROOT.key("stages");
        let stage = stages.key("llm v2");
        assert_eq!(stage.index(3).to_string(), "stages.\"llm v2\".3");
        assert_eq!(Trail::ROOT.to_string(), "");
        assert_eq!(quote("a\u{1b}[31m"), "\"a\\u{1b}[31m\"");
    }

    #[test]
    fn paths_split_and_join() {
        let keys = |path| split(path).map(|s| s.into_iter().map(|s| s.key).collect::<Vec<_>>());
        assert_eq!(keys("a.\"b.c\".0").unwrap(), ["a", "b.c", "0"]);
        assert_eq!(join(["a", "b.c", "0"]), "a.\"b.c\".0");
        assert_eq!(keys("a..b"), Err((2, "an empty part of a path")));
        assert_eq!(keys("a.'b"), Err((2, "a quote that is not closed")));
        assert_eq!(keys("a.'b'c"), Err((5, "text after a quote")));
        assert_eq!(keys(""), Err((0, "an empty part of a path")));
        assert!(keys(&"a.".repeat(100)).is_err());
    }
}
