//! Which alternative of a schema a value means to be.
//!
//! Checking a value against every alternative and reporting all failures gives a page of complaints
//! about things the author never meant. So the choice comes first, by the type of the value and by the
//! key that tells tables apart (serde's tag), and only then the check.

use super::describe::tag;
use super::schema::{Extra, Shape};
use super::tree::{Content, Node};

/// Which alternatives a value may be.
#[derive(Debug)]
pub(super) enum Selection<'a> {
    /// These; more than one only where nothing tells them apart.
    Fits(Vec<Shape<'a>>),
    /// None: the type of the value is wrong.
    WrongType,
    /// A table whose tag says nothing known.
    UnknownTag { key: &'a str, tags: Vec<&'a str> },
    /// A table without the tag.
    NoTag { key: &'a str, tags: Vec<&'a str> },
    /// A table that should have exactly one entry, with one of these names.
    OneKey { names: Vec<&'a str> },
    /// A text that is none of those allowed.
    NoChoice { choices: Vec<&'a str> },
}

/// The alternatives that a value may be.
pub(super) fn select<'a>(alternatives: &[Shape<'a>], node: &Node) -> Selection<'a> {
    let kind = match &node.content {
        Content::Text(_) => "string",
        Content::Whole(_) => "integer",
        Content::Float(_) => "number",
        Content::Switch(_) => "boolean",
        Content::List(_) => "array",
        Content::Table(_) => "object",
        Content::DateTime(_) => "a type that JSON does not have",
    };
    let fitting: Vec<Shape<'a>> = alternatives.iter().filter(|shape| shape.takes(kind)).cloned().collect();
    match &node.content {
        _ if fitting.is_empty() => Selection::WrongType,
        Content::Text(text) => select_text(fitting, text),
        Content::Table(_) => select_table(fitting, node),
        _ => Selection::Fits(fitting),
    }
}

fn select_text<'a>(fitting: Vec<Shape<'a>>, text: &str) -> Selection<'a> {
    let (free, fixed): (Vec<_>, Vec<_>) = fitting.into_iter().partition(|shape| shape.choices().is_empty());
    let chosen: Vec<Shape<'a>> =
        fixed.iter().filter(|shape| shape.choices().contains(&text)).cloned().collect();
    if !chosen.is_empty() {
        Selection::Fits(chosen)
    } else if !free.is_empty() {
        Selection::Fits(free)
    } else {
        Selection::NoChoice { choices: fixed.iter().flat_map(Shape::choices).collect() }
    }
}

fn select_table<'a>(mut fitting: Vec<Shape<'a>>, node: &Node) -> Selection<'a> {
    // Each round settles one tag; an enum within an enum has two.
    let mut settled: Vec<&str> = Vec::new();
    while fitting.len() > 1 {
        let unsettled = |shape: &Shape<'a>| tag(shape).filter(|(key, _)| !settled.contains(key));
        let Some((key, _)) = fitting.iter().find_map(unsettled) else { break };
        let values = |shape: &Shape<'a>| shape.property(key).map(|p| p.choices()).unwrap_or_default();
        let (tagged, plain): (Vec<_>, Vec<_>) =
            fitting.into_iter().partition(|shape| values(shape).len() == 1);
        let tags: Vec<&str> = tagged.iter().flat_map(values).collect();
        fitting = match node.child(key) {
            None if plain.is_empty() => return Selection::NoTag { key, tags },
            None => plain,
            Some(value) => {
                let said = match &value.content {
                    Content::Text(text) => text.as_str(),
                    _ => "",
                };
                let matching: Vec<_> =
                    tagged.into_iter().filter(|shape| values(shape).contains(&said)).collect();
                let other: Vec<_> = plain.into_iter().filter(|shape| shape.property(key).is_some()).collect();
                match (matching.is_empty(), other.is_empty()) {
                    (false, _) => matching,
                    (true, false) => other,
                    (true, true) => return Selection::UnknownTag { key, tags },
                }
            }
        };
        settled.push(key);
    }
    if fitting.len() > 1 { select_by_key(fitting, node) } else { Selection::Fits(fitting) }
}

/// Tells apart tables of one entry whose key says what they are (serde's external tagging).
fn select_by_key<'a>(fitting: Vec<Shape<'a>>, node: &Node) -> Selection<'a> {
    let only_key = |shape: &Shape<'a>| match (shape.properties().as_slice(), shape.extra()) {
        ([name], Extra::Refused) if shape.required() == [*name] => Some(*name),
        _ => None,
    };
    let Some(names) = fitting.iter().map(only_key).collect::<Option<Vec<&str>>>() else {
        return Selection::Fits(fitting);
    };
    let Content::Table(entries) = &node.content else { return Selection::Fits(fitting) };
    let key = entries.keys().next().filter(|_| entries.len() == 1);
    match key.and_then(|key| names.iter().position(|name| name == key)) {
        Some(index) => Selection::Fits(vec![fitting[index].clone()]),
        None => Selection::OneKey { names },
    }
}
