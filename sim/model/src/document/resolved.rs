//! Writes a document out whole, as TOML that a person can read.
//!
//! The `toml` crate's writer would do, but for two things: entries of a map must keep their order, of
//! which a scenario's random streams may depend, even where short and long entries alternate; and a
//! distribution reads better on one line than as a section of its own.

use std::fmt::Write;

use indexmap::IndexMap;

use super::path::is_bare;
use super::schema::{Extra, Shape};
use super::select::{Selection, select};
use super::tree::{Content, Node};

/// Widest table that is written on one line, in bytes.
const WIDEST_TABLE: usize = 90;

/// Widest line of a list.
const WIDEST_LINE: usize = 100;

/// The document as TOML.
pub(super) fn write(root: &Shape<'_>, tree: &Node) -> String {
    let mut out = String::new();
    if let Content::Table(entries) = &tree.content {
        let shape = shape_of(Some(root), tree);
        let keeps_order = shape.as_ref().is_none_or(has_own_names);
        section(&mut out, shape.as_ref(), entries, keeps_order, Header { path: "", brackets: [""; 2] });
    }
    out
}

/// The alternative of a shape that the node is.
fn shape_of<'a>(shape: Option<&Shape<'a>>, node: &Node) -> Option<Shape<'a>> {
    match select(&shape?.alternatives(), node) {
        Selection::Fits(shapes) => shapes.into_iter().next(),
        _ => None,
    }
}

fn has_own_names(shape: &Shape<'_>) -> bool {
    matches!(shape.extra(), Extra::Each(_))
}

/// The header of a table: its path, and the brackets around it.
#[derive(Debug, Clone, Copy)]
struct Header<'a> {
    path: &'a str,
    brackets: [&'a str; 2],
}

/// The entries of one table: first those on a line of their own, then those with a header.
fn section(
    out: &mut String,
    shape: Option<&Shape<'_>>,
    entries: &IndexMap<String, Node>,
    keeps_order: bool,
    header: Header<'_>,
) {
    let wants_header = |node: &Node| is_section(node, header.path.is_empty());
    // Lines come before headers in TOML. Where order counts, all that precedes a value that can only
    // be a line is a line too, and what follows it is all of one form.
    let lines = entries.values().rposition(|node| !is_tables(node)).map_or(0, |last| last + 1);
    let headers_follow = entries.values().skip(lines).any(wants_header);
    let as_line = |index: usize, node: &Node| {
        if keeps_order { index < lines || !headers_follow } else { !wants_header(node) }
    };
    // A table that only holds tables is said by their headers; an element of a list is not.
    let has_lines = entries.iter().enumerate().any(|(index, (_, node))| as_line(index, node));
    let [open, close] = header.brackets;
    if !header.path.is_empty() && (has_lines || entries.is_empty() || open == "[[") {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{open}{}{close}", header.path);
    }
    for (index, (key, node)) in entries.iter().enumerate() {
        if as_line(index, node) {
            line(out, key, node);
        }
    }
    for (index, (key, node)) in entries.iter().enumerate() {
        if as_line(index, node) {
            continue;
        }
        let inner = shape.and_then(|shape| shape.entry(key));
        let mut path = header.path.to_owned();
        if !path.is_empty() {
            path.push('.');
        }
        push_key(&mut path, key);
        match &node.content {
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    let inner = inner.as_ref().and_then(|shape| shape_of(Some(shape), node)?.item(index));
                    headed(out, inner.as_ref(), item, Header { path: &path, brackets: ["[[", "]]"] });
                }
            }
            _ => headed(out, inner.as_ref(), node, Header { path: &path, brackets: ["[", "]"] }),
        }
    }
}

fn headed(out: &mut String, shape: Option<&Shape<'_>>, node: &Node, header: Header<'_>) {
    let Content::Table(entries) = &node.content else { return };
    let shape = shape_of(shape, node);
    let keeps_order = shape.as_ref().is_none_or(has_own_names);
    section(out, shape.as_ref(), entries, keeps_order, header);
}

/// Whether a value stands under a header of its own.
fn is_section(node: &Node, at_root: bool) -> bool {
    match &node.content {
        Content::Table(_) => at_root || !is_flat(node),
        Content::List(items) => is_tables(node) && !items.iter().all(is_flat),
        _ => false,
    }
}

/// Whether a value could stand under a header.
fn is_tables(node: &Node) -> bool {
    let table = |node: &Node| matches!(node.content, Content::Table(_));
    match &node.content {
        Content::List(items) => !items.is_empty() && items.iter().all(table),
        _ => table(node),
    }
}

/// Whether a table reads well on one line: it is short and holds no tables itself.
fn is_flat(node: &Node) -> bool {
    let table = |node: &Node| matches!(node.content, Content::Table(_));
    let holds_tables = matches!(&node.content, Content::Table(entries) if entries.values().any(table));
    !holds_tables && inline(node).len() <= WIDEST_TABLE
}

fn line(out: &mut String, key: &str, node: &Node) {
    push_key(out, key);
    out.push_str(" = ");
    let whole = inline(node);
    let Content::List(items) = &node.content else {
        let _ = writeln!(out, "{whole}");
        return;
    };
    if whole.len() <= WIDEST_LINE {
        let _ = writeln!(out, "{whole}");
        return;
    }
    out.push_str("[\n");
    let mut row = String::new();
    for item in items {
        let text = inline(item);
        if !row.is_empty() && row.len() + text.len() + 2 > WIDEST_LINE {
            let _ = writeln!(out, " {row}");
            row.clear();
        }
        let _ = write!(row, " {text},");
    }
    let _ = writeln!(out, " {row}\n]");
}

/// A value on one line.
fn inline(node: &Node) -> String {
    match &node.content {
        Content::Text(text) | Content::DateTime(text) => quoted(text),
        Content::Whole(number) => number.to_string(),
        Content::Float(number) => format!("{number:?}"),
        Content::Switch(on) => on.to_string(),
        Content::List(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Content::Table(entries) if entries.is_empty() => "{}".to_owned(),
        Content::Table(entries) => {
            let entry = |(key, node): (&String, &Node)| {
                let mut text = String::new();
                push_key(&mut text, key);
                format!("{text} = {}", inline(node))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{ {} }}", entries.join(", "))
        }
    }
}

fn push_key(out: &mut String, key: &str) {
    if is_bare(key) {
        out.push_str(key);
    } else {
        out.push_str(&quoted(key));
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
