//! How a [`Dist`] is written: a bare number for a constant, else a table with `kind`.
//!
//! The derived code (serde's `remote = "Self"` turns it into plain functions) handles tables; what is
//! here tells the two forms apart. An untagged enum would do so too, but answers every mistake with
//! "data did not match any variant".

use std::fmt;

use schemars::Schema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Dist;

impl Serialize for Dist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant { value } => serializer.serialize_f64(*value),
            // The inherent function that serde derived, not this method.
            table => Dist::serialize(table, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Dist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrTable)
    }
}

struct NumberOrTable;

impl<'de> Visitor<'de> for NumberOrTable {
    type Value = Dist;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or a table with `kind`")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Dist, E> {
        Ok(Dist::constant(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Dist, E> {
        Ok(Dist::constant(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Dist, E> {
        Ok(Dist::constant(value as f64))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Dist, A::Error> {
        Dist::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Turns the derived schema of the tables into "a number, or one of these tables".
pub(super) fn allow_bare_number(schema: &mut Schema) {
    let object = schema.ensure_object();
    let description = object.remove("description");
    let number = number_schema();
    let tables = Schema::from(std::mem::take(object));
    if let Some(description) = description {
        schema.insert("description".into(), description);
    }
    schema.insert("anyOf".into(), vec![number.to_value(), tables.to_value()].into());
}

/// The schema of a constant written as a number.
fn number_schema() -> Schema {
    schemars::json_schema!({
        "description": "Always this value.",
        "type": "number",
        "minimum": 0.0
    })
}
