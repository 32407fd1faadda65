//! Reading a JSON Schema: what a place in a document may hold.
//!
//! Covers what schemars generates for serde types. A [`Shape`] is a schema with its references
//! followed: a stack of schema objects that all hold at once, the outermost first, so that a field's
//! own description and range come before those of its type. A general validator would do the checking
//! as well, but its messages speak of schemas, not of keys and units.

use serde_json::{Map, Value};

/// Most schema objects in one shape: a bound for references that lead back to themselves.
const MOST_LAYERS: usize = 64;

/// What a place may hold.
#[derive(Debug, Clone)]
pub(super) struct Shape<'a> {
    document: &'a Value,
    layers: Vec<&'a Map<String, Value>>,
    /// Lists of alternatives, of each of which one must hold besides the layers.
    unions: Vec<&'a Vec<Value>>,
    /// The schema `false`: nothing may stand here.
    never: bool,
}

/// What a table may hold besides its named properties.
#[derive(Debug)]
pub(super) enum Extra<'a> {
    /// Nothing. Also where the schema does not say: a mistyped key must not pass unseen.
    Refused,
    /// Entries under names of the author's choice.
    Each(Shape<'a>),
}

/// A limit of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    pub(super) value: f64,
    /// The value itself is not allowed.
    pub(super) open: bool,
}

impl<'a> Shape<'a> {
    /// The shape of the whole document.
    pub(super) fn root(document: &'a Value) -> Self {
        Self::of(document, [document])
    }

    /// The shape of schemas that all hold at once.
    fn of(document: &'a Value, schemas: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut shape = Self { document, layers: Vec::new(), unions: Vec::new(), never: false };
        for schema in schemas {
            shape.add(schema);
        }
        shape
    }

    fn add(&mut self, schema: &'a Value) {
        let layer = match schema {
            Value::Object(layer) if self.layers.len() < MOST_LAYERS => layer,
            Value::Bool(false) => {
                self.never = true;
                return;
            }
            _ => return,
        };
        self.layers.push(layer);
        if let Some(target) = layer.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'))
            && let Some(schema) = self.document.pointer(target)
        {
            self.add(schema);
        }
        for schema in layer.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.add(schema);
        }
        self.unions.extend(["anyOf", "oneOf"].iter().filter_map(|key| layer.get(*key)?.as_array()));
    }

    /// The first value of a keyword, outermost first.
    fn get(&self, keyword: &str) -> Option<&'a Value> {
        self.layers.iter().find_map(|layer| layer.get(keyword))
    }

    /// The shapes without alternatives of which one must fit; a null alternative is left out, because
    /// TOML says it by leaving the key out.
    pub(super) fn alternatives(&self) -> Vec<Self> {
        let mut found = Vec::new();
        self.collect_alternatives(&mut found);
        found
    }

    fn collect_alternatives(&self, found: &mut Vec<Self>) {
        let Some((union, rest)) = self.unions.split_first() else {
            if !self.never {
                found.push(self.clone());
            }
            return;
        };
        for schema in *union {
            if schema.get("type").is_some_and(|kind| kind == "null") {
                continue;
            }
            let mut shape = Self { unions: rest.to_vec(), ..self.clone() };
            // A reference that leads back here would go on for ever.
            if shape.layers.len() < MOST_LAYERS {
                shape.add(schema);
                shape.collect_alternatives(found);
            }
        }
    }

    /// Whether a value of this JSON type may stand here.
    pub(super) fn takes(&self, kind: &str) -> bool {
        let same = |name: &str| name == kind || (name == "number" && kind == "integer");
        match self.get("type") {
            Some(Value::String(name)) => same(name),
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).any(same),
            _ if self.get("properties").is_some() || self.get("additionalProperties").is_some() => {
                kind == "object"
            }
            _ if !self.choices().is_empty() => kind == "string",
            _ if self.get("items").is_some() || self.get("prefixItems").is_some() => kind == "array",
            _ => true,
        }
    }

    /// Whether the number here must be whole.
    pub(super) fn is_whole(&self) -> bool {
        self.takes("integer") && !self.takes("number")
    }

    /// Whether anything may stand here.
    pub(super) fn is_any(&self) -> bool {
        self.unions.is_empty() && ["object", "array", "string", "boolean"].iter().all(|kind| self.takes(kind))
    }

    /// The texts allowed here, if only certain ones are.
    pub(super) fn choices(&self) -> Vec<&'a str> {
        if let Some(text) = self.get("const").and_then(Value::as_str) {
            return vec![text];
        }
        let listed = self.get("enum").and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The named entries of a table, in the order of the fields.
    pub(super) fn properties(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.tables().flat_map(Map::keys) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn tables(&self) -> impl Iterator<Item = &'a Map<String, Value>> {
        self.layers.iter().filter_map(|layer| layer.get("properties")?.as_object())
    }

    /// The shape of a named entry.
    pub(super) fn property(&self, name: &str) -> Option<Self> {
        let mut schemas = self.tables().filter_map(|table| table.get(name)).peekable();
        schemas.peek()?;
        Some(Self::of(self.document, schemas))
    }

    /// The entries a table must have.
    pub(super) fn required(&self) -> Vec<&'a str> {
        let lists = self.layers.iter().filter_map(|layer| layer.get("required")?.as_array());
        lists.flatten().filter_map(Value::as_str).collect()
    }

    /// What else a table may hold.
    pub(super) fn extra(&self) -> Extra<'a> {
        match self.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => Extra::Each(Self::of(self.document, [schema])),
            Some(Value::Bool(true)) => Extra::Each(Self::of(self.document, [])),
            None if self.is_any() => Extra::Each(Self::of(self.document, [])),
            _ => Extra::Refused,
        }
    }

    /// The shape of an entry of a table, named or not.
    pub(super) fn entry(&self, name: &str) -> Option<Self> {
        self.property(name).or_else(|| match self.extra() {
            Extra::Each(shape) => Some(shape),
            Extra::Refused => None,
        })
    }

    /// The shape of an element of a list.
    pub(super) fn item(&self, index: usize) -> Option<Self> {
        let first = self.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        match first.get(index).or_else(|| self.get("items")) {
            Some(schema) => Some(Self::of(self.document, [schema])),
            None if first.is_empty() => Some(Self::of(self.document, [])),
            None => None,
        }
    }

    /// A count, such as `minItems`.
    pub(super) fn count(&self, keyword: &str) -> Option<u64> {
        self.get(keyword).and_then(Value::as_u64)
    }

    /// The least number allowed, of all layers.
    pub(super) fn minimum(&self) -> Option<Bound> {
        self.bounds("minimum", "exclusiveMinimum").reduce(|a, b| {
            let higher = b.value > a.value || (b.value == a.value && b.open);
            if higher { b } else { a }
        })
    }

    /// The largest number allowed, of all layers.
    pub(super) fn maximum(&self) -> Option<Bound> {
        self.bounds("maximum", "exclusiveMaximum").reduce(|a, b| {
            let lower = b.value < a.value || (b.value == a.value && b.open);
            if lower { b } else { a }
        })
    }

    fn bounds(&self, closed: &str, open: &str) -> impl Iterator<Item = Bound> {
        self.layers.iter().flat_map(move |layer| {
            let bound = |keyword: &str, open| Some(Bound { value: layer.get(keyword)?.as_f64()?, open });
            [bound(closed, false), bound(open, true)].into_iter().flatten()
        })
    }

    /// The range of the integer type behind the number, for those types that have one.
    pub(super) fn storage(&self) -> Option<(i128, i128)> {
        let signed = |bits: u32| (-(1 << (bits - 1)), (1 << (bits - 1)) - 1);
        let unsigned = |bits: u32| (0, (1 << bits) - 1);
        Some(match self.get("format")?.as_str()? {
            "int8" => signed(8),
            "int16" => signed(16),
            "int32" => signed(32),
            "int64" | "int" => signed(64),
            "uint8" => unsigned(8),
            "uint16" => unsigned(16),
            "uint32" => unsigned(32),
            "uint64" | "uint" => unsigned(64),
            _ => return None,
        })
    }

    /// The value an absent entry takes.
    pub(super) fn default(&self) -> Option<&'a Value> {
        self.get("default").filter(|value| !value.is_null())
    }

    /// What the entry means, empty if the schema does not say: a paragraph on a line, however the comment
    /// it comes from was wrapped.
    pub(super) fn description(&self) -> String {
        let text = self.get("description").and_then(Value::as_str).unwrap_or_default();
        text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n")
    }
}
