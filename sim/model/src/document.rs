//! Scenario files: from TOML text to a typed value, with errors an engineer can act on.
//!
//! ```text
//! text -> parse -> tree -> settings -> check against the schema -> typed value
//! ```
//!
//! The schema is the one that schemars derives from the type, so ranges, names and meanings are written
//! once, at the field. All mistakes of a text are reported, not the first. Serde alone was the
//! alternative: it stops at the first mistake, loses positions inside tagged enums, and speaks of types
//! instead of ranges and keys.
//!
//! What a schema cannot say (a stage that names a model that is not there) is checked by the caller
//! after [`read`], with [`Document::problem`] for the position.

mod describe;
mod deserialize;
mod parameters;
mod parse;
mod path;
mod problem;
mod resolved;
mod schema;
mod select;
mod settings;
mod source;
mod suggest;
#[cfg(test)]
mod tests;
mod tree;
mod validate;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use parameters::{
    Parameter, ParameterKind, full_path, get_number, nearest_parameter, parameters, path_exists,
};
pub use problem::{Problem, SETTING_FILE};
pub use settings::Setting;
pub use source::{LARGEST_SOURCE, Source};

use path::Trail;
use problem::{Finding, Findings, Origin, Place};
use schema::Shape;
use tree::Node;

/// A value read from a text, which remembers where each part of it stands.
#[derive(Debug, Clone)]
pub struct Document<T> {
    /// What the text says, defaults filled in.
    pub value: T,
    /// The value again, as JSON, for access by path.
    json: Value,
    texts: Texts,
    schema: Arc<Value>,
    /// What was written, settings included, defaults not.
    tree: Node,
}

/// The texts that positions count in.
#[derive(Debug, Clone)]
struct Texts {
    source: Arc<Source>,
    settings: Vec<Setting>,
}

/// The JSON Schema of a type.
pub fn schema<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// Reads a value from a source, changed by settings.
///
/// # Errors
/// All that is wrong with the text and the settings, up to 20 problems in the order of the text: first
/// its syntax; then, if that is right, everything the schema refuses; then what the type refuses.
pub fn read<T>(source: &Source, settings: &[Setting]) -> Result<Document<T>, Vec<Problem>>
where
    T: DeserializeOwned + Serialize + JsonSchema,
{
    source.check()?;
    let texts = Texts { source: Arc::new(source.clone()), settings: settings.to_vec() };
    let mut findings = Findings::default();
    match parse::parse(source, &mut findings) {
        Some(tree) => build(Arc::new(schema::<T>()), texts, tree, 0),
        None => Err(texts.problems(findings)),
    }
}

/// Applies the settings from index `first` on, checks, and makes the typed value.
fn build<T>(
    schema: Arc<Value>,
    texts: Texts,
    mut tree: Node,
    first: usize,
) -> Result<Document<T>, Vec<Problem>>
where
    T: DeserializeOwned + Serialize,
{
    let mut findings = Findings::default();
    let root = Shape::root(&schema);
    settings::apply(&texts.settings[first..], first, &root, &mut tree, &mut findings);
    validate::validate(&root, &tree, &Trail::ROOT, &mut findings);
    if !findings.is_empty() {
        return Err(texts.problems(findings));
    }
    let refuse = |path: &[String], found: Option<String>, allowed: String| {
        let segments = || path.iter().map(String::as_str);
        let node = tree.nearest(segments());
        let found = found.unwrap_or_else(|| node.shown());
        vec![texts.problem(Finding {
            place: node.place,
            path: path::join(segments()),
            found,
            allowed,
            hint: None,
        })]
    };
    let value: T = deserialize::from_tree(&tree)
        .map_err(|failure| refuse(&failure.path, failure.found, failure.allowed))?;
    let json = serde_json::to_value(&value).map_err(|error| refuse(&[], None, error.to_string()))?;
    Ok(Document { value, json, texts, schema, tree })
}

impl<T> Document<T> {
    /// A problem found by a check of the caller's, at the position of `path`.
    ///
    /// Where the path itself is not written (a default was taken, a key is missing), the position is
    /// that of the nearest table around it; where a setting wrote it, the position is in the setting.
    pub fn problem(
        &self,
        path: &str,
        found: impl Into<String>,
        allowed: impl Into<String>,
        hint: Option<String>,
    ) -> Problem {
        let segments = path::split(path).unwrap_or_default();
        let node = self.tree.nearest(segments.iter().map(|segment| segment.key.as_str()));
        self.texts.problem(Finding {
            place: node.place,
            path: path.to_owned(),
            found: found.into(),
            allowed: allowed.into(),
            hint,
        })
    }

    /// The value as JSON, defaults filled in: what [`get_number`] and [`path_exists`] look into.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The JSON Schema of the value's type.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The source it was read from.
    pub fn source(&self) -> &Source {
        &self.texts.source
    }

    /// All that can be tuned in this document.
    pub fn parameters(&self) -> Vec<Parameter> {
        parameters(&self.schema, &self.json)
    }

    /// The complete document as TOML, defaults and settings included: reading it gives an equal value.
    ///
    /// Two things TOML cannot say are left out, and read back as the default: an optional entry that is
    /// empty although its default is not, and a number that is not finite.
    pub fn resolved_toml(&self) -> String {
        match Node::from_json(&self.json, Place::START) {
            Some(tree) => resolved::write(&Shape::root(&self.schema), &tree),
            None => String::new(),
        }
    }
}

impl<T: DeserializeOwned + Serialize> Document<T> {
    /// The same document with more settings, which win over those it has. The text is not parsed again.
    ///
    /// # Errors
    /// As [`read`].
    pub fn with(&self, settings: &[Setting]) -> Result<Self, Vec<Problem>> {
        let mut texts = self.texts.clone();
        let first = texts.settings.len();
        texts.settings.extend_from_slice(settings);
        build(Arc::clone(&self.schema), texts, self.tree.clone(), first)
    }
}

impl Texts {
    fn problems(&self, findings: Findings) -> Vec<Problem> {
        findings.into_problems(|finding| self.problem(finding))
    }

    fn problem(&self, finding: Finding) -> Problem {
        let Finding { place, path, found, allowed, hint } = finding;
        let (file, (line, column)) = match place.origin {
            Origin::File => (self.source.name.clone(), self.source.position(place.offset)),
            Origin::Setting(index) => {
                let text = self.settings.get(index).map(Setting::text).unwrap_or_default();
                (SETTING_FILE.to_owned(), source::position(&text, place.offset))
            }
        };
        Problem { file, line, column, path, found, allowed, hint }
    }
}
