//! Ranges of numbers, read from a JSON schema and held against a value.
//!
//! Only what the schemas of this project contain is understood: objects, maps, lists, references, tagged
//! choices and ranges of numbers. Types and unknown keys are serde's business. A general validator was
//! rejected: this crate is embedded in gateways and stays small.

use crate::PolicyError;
use serde_json::Value;
use std::fmt::Write;

/// The ranges of all numbers in a tree of parameters.
#[derive(Clone, Debug)]
pub struct Limits {
    root: Value,
}

impl Limits {
    /// Takes the ranges from a schema.
    pub fn of(schema: &Value) -> Self {
        Self { root: schema.clone() }
    }

    /// Holds a value against the ranges.
    ///
    /// # Errors
    /// The first number that is out of its range, or not a number at all, with its path.
    pub fn check(&self, value: &Value) -> Result<(), PolicyError> {
        self.walk(&self.root, value, &mut String::new())
    }

    fn walk(&self, schema: &Value, value: &Value, path: &mut String) -> Result<(), PolicyError> {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str).and_then(|name| self.resolve(name)) {
            self.walk(target, value, path)?;
        }
        for choices in ["anyOf", "oneOf"].iter().filter_map(|word| schema.get(word)?.as_array()) {
            for choice in choices.iter().filter(|choice| fits(choice, value)) {
                self.walk(choice, value, path)?;
            }
        }
        match value {
            Value::Number(_) => in_range(schema, value, path),
            // A float that is no number has no JSON form and arrives here as null.
            Value::Null if is_bounded(schema) && !allows_null(schema) => {
                Err(PolicyError::not_allowed(path.clone(), "not a number", range(schema)))
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let here = schema.get("properties").and_then(|properties| properties.get(name));
                    let Some(here) = here.or_else(|| schema.get("additionalProperties")) else { continue };
                    let length = path.len();
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    self.walk(here, member, path)?;
                    path.truncate(length);
                }
                Ok(())
            }
            Value::Array(items) => {
                let Some(each) = schema.get("items") else { return Ok(()) };
                for (index, item) in items.iter().enumerate() {
                    let length = path.len();
                    let _ = write!(path, ".{index}");
                    self.walk(each, item, path)?;
                    path.truncate(length);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn resolve(&self, reference: &str) -> Option<&Value> {
        self.root.pointer(reference.strip_prefix('#')?)
    }
}

/// Whether a choice is the one that the value's tag names; untagged choices always fit.
fn fits(choice: &Value, value: &Value) -> bool {
    match choice.pointer("/properties/kind/const") {
        Some(tag) => value.get("kind") == Some(tag),
        None => true,
    }
}

fn is_bounded(schema: &Value) -> bool {
    schema.get("minimum").is_some() || schema.get("maximum").is_some()
}

fn allows_null(schema: &Value) -> bool {
    schema["type"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "null"))
}

fn range(schema: &Value) -> String {
    let end = |word| schema.get(word).and_then(Value::as_f64);
    match (end("minimum"), end("maximum")) {
        (Some(least), Some(greatest)) => format!("{least} to {greatest}"),
        (Some(least), None) => format!("at least {least}"),
        (None, Some(greatest)) => format!("at most {greatest}"),
        (None, None) => "a number".to_owned(),
    }
}

fn in_range(schema: &Value, value: &Value, path: &str) -> Result<(), PolicyError> {
    let end = |word| schema.get(word).and_then(Value::as_f64);
    let Some(number) = value.as_f64() else { return Ok(()) };
    if end("minimum").is_none_or(|least| number >= least) && end("maximum").is_none_or(|most| number <= most)
    {
        return Ok(());
    }
    Err(PolicyError::not_allowed(path, value.to_string(), range(schema)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ranges_are_found_through_references_maps_and_choices() {
        let limits = Limits::of(&json!({
            "properties": {
                "by_name": { "additionalProperties": { "$ref": "#/$defs/Module" } },
                "list": { "items": { "$ref": "#/$defs/Module" } },
            },
            "$defs": { "Module": { "oneOf": [
                { "properties": { "kind": { "const": "a" }, "rate": { "type": "number", "minimum": 1 } } },
                { "properties": { "kind": { "const": "b" }, "rate": { "type": "number", "maximum": 0 } } },
            ] } },
        }));
        let check = |kind: &str, rate: Value| {
            limits.check(&json!({ "by_name": { "x": { "kind": kind, "rate": rate } } }))
        };
        check("a", json!(1)).unwrap();
        check("b", json!(-5.5)).unwrap();
        assert_eq!(
            check("a", json!(0.5)).unwrap_err().to_string(),
            "by_name.x.rate: found 0.5, allowed: at least 1"
        );
        assert_eq!(
            check("b", json!(2)).unwrap_err().to_string(),
            "by_name.x.rate: found 2, allowed: at most 0"
        );
        let listed = json!({ "list": [{ "kind": "b", "rate": -1 }, { "kind": "a", "rate": 0 }] });
        assert_eq!(limits.check(&listed).unwrap_err().path(), "list.1.rate");
        assert_eq!(check("a", Value::Null).unwrap_err().path(), "by_name.x.rate");
    }
}
