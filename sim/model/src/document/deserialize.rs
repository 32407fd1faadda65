//! Reads a typed value from a tree, and says at which path it failed.
//!
//! The schema has been checked before, so what fails here are rules that only the type knows, such as
//! `#[serde(try_from)]`. Going through JSON would lose where that was.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::tree::{Content, Node};

/// Why a value could not be read, and where.
#[derive(Debug)]
pub(super) struct Failure {
    /// Segments from the innermost outwards while it travels up; see [`from_tree`].
    pub(super) path: Vec<String>,
    /// What stands there, if serde says.
    pub(super) found: Option<String>,
    pub(super) allowed: String,
}

/// The typed value of a tree.
///
/// # Errors
/// The first thing serde refuses, with its path from the outside in.
pub(super) fn from_tree<T: DeserializeOwned>(node: &Node) -> Result<T, Failure> {
    T::deserialize(node).map_err(|mut failure| {
        failure.path.reverse();
        failure
    })
}

impl Failure {
    fn within(mut self, segment: String) -> Self {
        self.path.push(segment);
        self
    }
}

impl Error for Failure {
    /// Types that check themselves say "`field` is 3, allowed is 1 to 2" or "this, allowed is that": then
    /// the parts go where they belong. Any other message is taken for what is allowed.
    fn custom<M: fmt::Display>(message: M) -> Self {
        let message = message.to_string();
        let Some((found, allowed)) = message.split_once(", allowed is ") else {
            return Self { path: Vec::new(), found: None, allowed: message };
        };
        let field = found.strip_prefix('`').and_then(|rest| rest.split_once("` is "));
        let (path, found) = match field {
            Some((field, found)) => (field.rsplit('.').map(str::to_owned).collect(), found),
            None => (Vec::new(), found),
        };
        Self { path, found: Some(found.to_owned()), allowed: allowed.to_owned() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self { path: Vec::new(), found: Some(found.to_string()), allowed: expected.to_string() }
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.allowed)
    }
}

impl std::error::Error for Failure {}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match &self.content {
            Content::Text(text) | Content::DateTime(text) => visitor.visit_borrowed_str(text),
            Content::Whole(number) => match (i64::try_from(*number), u64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_i64(number),
                (_, Ok(number)) => visitor.visit_u64(number),
                _ => Err(Failure::custom("a whole number of at most 64 bits")),
            },
            Content::Float(number) => visitor.visit_f64(*number),
            Content::Switch(on) => visitor.visit_bool(*on),
            Content::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Content::Table(entries) => visitor.visit_map(Entries { entries: entries.iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        match &self.content {
            Content::Table(entries) => {
                let entries = Entries { entries: entries.iter(), value: None };
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            Content::Text(text) => {
                let text: StrDeserializer<'_, Failure> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            _ => Err(Failure::custom("a text or a table")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'de> {
    items: &'de [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Failure;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let index = self.next;
        let Some(item) = self.items.get(index) else { return Ok(None) };
        self.next += 1;
        seed.deserialize(item).map(Some).map_err(|failure| failure.within(index.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Entries<'de> {
    entries: indexmap::map::Iter<'de, String, Node>,
    value: Option<(&'de str, &'de Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Failure;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Failure> {
        let Some((key, node)) = self.entries.next() else { return Ok(None) };
        self.value = Some((key, node));
        let text: StrDeserializer<'_, Failure> = key.as_str().into_deserializer();
        seed.deserialize(text).map(Some).map_err(|failure| failure.within(key.clone()))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let Some((key, node)) = self.value.take() else {
            return Err(Failure::custom("a key before its value"));
        };
        seed.deserialize(node).map_err(|failure| failure.within(key.to_owned()))
    }
}
