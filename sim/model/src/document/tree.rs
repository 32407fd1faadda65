//! The document as a tree of values that know where they stand.
//!
//! One tree serves all steps: settings change it, the schema is checked against it, the typed value is
//! read from it, and later checks look positions up in it. The parser's own tree borrows the text and
//! cannot hold values of another origin, hence this one.

use indexmap::IndexMap;
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::path::{Trail, quote_text};
use super::problem::{Finding, Findings, Origin, Place};

/// A value, where it stands, and where its key stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) content: Content,
    /// The value; of a table with a header, the header.
    pub(super) place: Place,
    /// The key; of an element of a list and of the root, the value.
    pub(super) key_place: Place,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(super) enum Content {
    Text(String),
    /// Between the least 64-bit signed and the largest 64-bit unsigned number.
    Whole(i128),
    /// May be `nan` or `inf`, which the check against the schema refuses.
    Float(f64),
    Switch(bool),
    /// As written: no schema wants one, and the message shows it.
    DateTime(String),
    List(Vec<Node>),
    Table(IndexMap<String, Node>),
}

/// Turns offsets of one parsed text into places.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchor {
    pub(super) origin: Origin,
    /// Bytes before the parsed text: the `path=` of a setting.
    pub(super) shift: usize,
}

impl Anchor {
    pub(super) const FILE: Self = Self { origin: Origin::File, shift: 0 };

    fn place(self, offset: usize) -> Place {
        Place { origin: self.origin, offset: self.shift + offset }
    }
}

impl Node {
    /// An empty table.
    pub(super) fn table(place: Place) -> Self {
        Self { content: Content::Table(IndexMap::new()), place, key_place: place }
    }

    /// The tree of a parsed document. Its recursion is bounded: the source's nesting is.
    pub(super) fn from_toml(table: Spanned<DeTable<'_>>, findings: &mut Findings) -> Self {
        let anchor = Anchor::FILE;
        let content = table_content(table.into_inner(), anchor, &Trail::ROOT, findings);
        Self { content, place: Place::START, key_place: Place::START }
    }

    /// The tree of a parsed value.
    pub(super) fn from_value(
        value: Spanned<DeValue<'_>>,
        anchor: Anchor,
        trail: &Trail<'_>,
        findings: &mut Findings,
    ) -> Self {
        let place = anchor.place(value.span().start);
        let content = match value.into_inner() {
            DeValue::String(text) => Content::Text(text.into_owned()),
            DeValue::Integer(number) => Content::Whole(whole(&number, place, trail, findings)),
            DeValue::Float(number) => Content::Float(float(&number, place, trail, findings)),
            DeValue::Boolean(on) => Content::Switch(on),
            DeValue::Datetime(moment) => Content::DateTime(moment.to_string()),
            DeValue::Array(items) => Content::List(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(index, item)| Self::from_value(item, anchor, &trail.index(index), findings))
                    .collect(),
            ),
            DeValue::Table(table) => table_content(table, anchor, trail, findings),
        };
        Self { content, place, key_place: place }
    }

    /// The tree of a JSON value, all of it at one place. Nulls are left out, as TOML has none.
    pub(super) fn from_json(value: &Value, place: Place) -> Option<Self> {
        let content = match value {
            Value::Null => return None,
            Value::Bool(on) => Content::Switch(*on),
            Value::Number(number) => match number.as_i128() {
                Some(whole) => Content::Whole(whole),
                // Arbitrary precision is off, so every other number is a float.
                None => Content::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Content::Text(text.clone()),
            Value::Array(items) => {
                Content::List(items.iter().filter_map(|item| Self::from_json(item, place)).collect())
            }
            Value::Object(entries) => {
                let node =
                    |(key, value): (&String, &Value)| Some((key.clone(), Self::from_json(value, place)?));
                Content::Table(entries.iter().filter_map(node).collect())
            }
        };
        Some(Self { content, place, key_place: place })
    }

    /// The value alone. Numbers JSON does not know become null.
    pub(super) fn to_json(&self) -> Value {
        match &self.content {
            Content::Text(text) | Content::DateTime(text) => Value::String(text.clone()),
            Content::Whole(number) => Number::from_i128(*number).map_or(Value::Null, Value::Number),
            Content::Float(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
            Content::Switch(on) => Value::Bool(*on),
            Content::List(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Content::Table(entries) => {
                let pair = |(key, node): (&String, &Self)| (key.clone(), node.to_json());
                Value::Object(entries.iter().map(pair).collect::<Map<_, _>>())
            }
        }
    }

    /// The entry of a table or element of a list that a path's segment names.
    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        match &self.content {
            Content::Table(entries) => entries.get(key),
            Content::List(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// The entries of a table.
    pub(super) fn entries_mut(&mut self) -> Option<&mut IndexMap<String, Self>> {
        match &mut self.content {
            Content::Table(entries) => Some(entries),
            _ => None,
        }
    }

    /// The node at a path, or the nearest that encloses it.
    pub(super) fn nearest<'a>(&'a self, segments: impl IntoIterator<Item = &'a str>) -> &'a Self {
        let mut node = self;
        for key in segments {
            match node.child(key) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }

    /// The value as a message shows it.
    pub(super) fn shown(&self) -> String {
        match &self.content {
            Content::Text(text) => quote_text(text),
            Content::Whole(number) => number.to_string(),
            Content::Float(number) if number.is_nan() => "nan".to_owned(),
            Content::Float(number) => format!("{number:?}"),
            Content::Switch(on) => on.to_string(),
            Content::DateTime(moment) => format!("the date or time {moment}"),
            Content::List(items) if items.is_empty() => "an empty list".to_owned(),
            Content::List(items) => format!("a list of {}", items.len()),
            Content::Table(entries) if entries.is_empty() => "an empty table".to_owned(),
            Content::Table(_) => "a table".to_owned(),
        }
    }
}

fn table_content(table: DeTable<'_>, anchor: Anchor, trail: &Trail<'_>, findings: &mut Findings) -> Content {
    let mut entries = IndexMap::with_capacity(table.len());
    for (key, value) in table {
        let key_place = anchor.place(key.span().start);
        let key = key.into_inner().into_owned();
        let mut node = Node::from_value(value, anchor, &trail.key(&key), findings);
        node.key_place = key_place;
        entries.insert(key, node);
    }
    Content::Table(entries)
}

fn whole(number: &DeInteger<'_>, place: Place, trail: &Trail<'_>, findings: &mut Findings) -> i128 {
    let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(value) if range.contains(&value) => value,
        _ => {
            findings.push(Finding {
                place,
                path: trail.to_string(),
                found: format!("the number {}", quote_text(number.as_str())),
                allowed: "a whole number of at most 64 bits".to_owned(),
                hint: None,
            });
            0
        }
    }
}

fn float(number: &DeFloat<'_>, place: Place, trail: &Trail<'_>, findings: &mut Findings) -> f64 {
    let text = number.as_str();
    let value = text.parse::<f64>().unwrap_or(f64::NAN);
    if value.is_finite() || text.contains("inf") || text.contains("nan") {
        return value;
    }
    findings.push(Finding {
        place,
        path: trail.to_string(),
        found: format!("the number {}", quote_text(text)),
        allowed: "a number of at most 1.8e308".to_owned(),
        hint: None,
    });
    0.0
}
