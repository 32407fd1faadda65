//! From text to tree: the syntax of TOML, with every mistake of a text in one go.

use toml::de::{DeTable, DeValue};

use super::path::{Trail, quote, quote_text};
use super::problem::{Finding, Findings, Origin, Place};
use super::source::{Source, too_deep};
use super::tree::{Anchor, Node};

/// A text larger than this is read up to its first mistake only: the parser keeps all of them, and a
/// large text that is not TOML has millions.
const LARGEST_RECOVERED: usize = 1 << 20;

/// The tree of a source. `None` when it is not TOML; `findings` then says why.
pub(super) fn parse(source: &Source, findings: &mut Findings) -> Option<Node> {
    let (table, errors) = if source.text.len() > LARGEST_RECOVERED {
        match DeTable::parse(&source.text) {
            Ok(table) => (table, Vec::new()),
            Err(error) => {
                findings.push(syntax(&error, &source.text));
                return None;
            }
        }
    } else {
        DeTable::parse_recoverable(&source.text)
    };
    let mut last_line = None;
    for error in &errors {
        let finding = syntax(error, &source.text);
        // A mistake often drags others behind it; the first of a line is the one to mend.
        let line = source.text[..finding.place.offset].rfind('\n');
        if last_line != Some(line) {
            findings.push(finding);
        }
        last_line = Some(line);
    }
    if !findings.is_empty() {
        return None;
    }
    let tree = Node::from_toml(table, findings);
    findings.is_empty().then_some(tree)
}

/// The value of a setting: a TOML value, or a bare word, which is a text.
///
/// `None` when it is neither; `findings` then says why.
pub(super) fn parse_setting(
    text: &str,
    anchor: Anchor,
    trail: &Trail<'_>,
    findings: &mut Findings,
) -> Option<Node> {
    let lead = text.len() - text.trim_start().len();
    let anchor = Anchor { shift: anchor.shift + lead, ..anchor };
    let text = text.trim();
    let place = |offset: usize| Place { origin: anchor.origin, offset: anchor.shift + offset };
    let mut refuse = |offset, found: String, allowed: &str| {
        let (path, allowed) = (trail.to_string(), allowed.to_owned());
        findings.push(Finding { place: place(offset), path, found, allowed, hint: None });
        None
    };
    if text.is_empty() {
        return refuse(0, "nothing".to_owned(), "a value after `=`");
    }
    if let Some(offset) = too_deep(text) {
        return refuse(offset, "brackets nested too deep".to_owned(), "a flatter value");
    }
    match DeValue::parse(text) {
        Ok(value) => {
            let before = findings.len();
            let node = Node::from_value(value, anchor, trail, findings);
            (findings.len() == before).then_some(node)
        }
        Err(error) if text.starts_with(['"', '\'', '[', '{']) => {
            let finding = syntax(&error, text);
            refuse(finding.place.offset, finding.found, &finding.allowed)
        }
        Err(_) => Node::from_json(&serde_json::Value::String(text.to_owned()), place(0)),
    }
}

/// The parser's complaint in this project's words. Its place is an offset in `text`.
fn syntax(error: &toml::de::Error, text: &str) -> Finding {
    let span = error.span().unwrap_or(0..0);
    let mut offset = span.start.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let there = text.get(span).unwrap_or_default().trim();
    let (message, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
    let (found, allowed) = match message {
        "duplicate key" => {
            (format!("{} a second time", quote_text(there)), "each key once in a table".to_owned())
        }
        "string values must be quoted" if there.starts_with(char::is_alphabetic) => {
            (format!("the bare word {}", quote(there)), format!("text in quotes: {}", quote_text(there)))
        }
        "string values must be quoted" => {
            let allowed = "a number, a date, true, false, or text in quotes";
            (quote_text(there), allowed.to_owned())
        }
        _ => {
            let allowed = if expected.is_empty() { "valid TOML" } else { expected };
            (format!("a syntax error, {message}"), allowed.to_owned())
        }
    };
    Finding { place: Place { origin: Origin::File, offset }, path: String::new(), found, allowed, hint: None }
}
