//! Scenario files: from TOML text to a typed value, with errors an engineer can act on.
//!
//! ```text
//! text -> parse -> tree -> variant -> settings -> check against the schema -> typed value
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
mod variants;

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
pub use variants::{AS_WRITTEN, Variant, Variants};

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
    /// What was written, variant and settings included, defaults not.
    tree: Node,
    /// What was written, before any change.
    written: Arc<Node>,
    variants: Variants,
    /// The variants that were not chosen, the document as written before them.
    others: Vec<Self>,
    /// What every problem says besides.
    note: Option<String>,
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
        Some(tree) => build(&Arc::new(schema::<T>()), &texts, &Arc::new(tree)),
        None => Err(texts.problems(findings, None)),
    }
}

/// Makes the document of what was written: the variant in force with all settings, and, as they stand in
/// the text, the others.
fn build<T>(schema: &Arc<Value>, texts: &Texts, written: &Arc<Node>) -> Result<Document<T>, Vec<Problem>>
where
    T: DeserializeOwned + Serialize,
{
    let root = Shape::root(schema);
    let mut findings = Findings::default();
    let mut base = Node::clone(written);
    let numbered = || texts.settings.iter().enumerate();
    let choosing =
        |(_, setting): &(usize, &Setting)| root.property("variants").is_some() && variants::is_about(setting);
    settings::apply(numbered().filter(choosing), &root, &mut base, &mut findings);
    let variants = variants::take(&root, &mut base, &mut findings);
    if !findings.is_empty() {
        return Err(texts.problems(findings, None));
    }
    let rest: Vec<(usize, &Setting)> = numbered().filter(|setting| !choosing(setting)).collect();
    let one = |chosen: Option<&str>, settings: &[(usize, &Setting)], note: Option<String>| {
        let part = Part { schema, texts, written, base: &base, note };
        part.document(&variants, chosen, settings)
    };
    let mut document = one(variants.names.chosen.as_deref(), &rest, None)?;
    if variants.changing().next().is_none() {
        return Ok(document);
    }
    // Settings of the user's are for the variant that was chosen: another need not stand them. And where
    // the text is right only with them, nothing can be said of the others.
    let Ok(as_written) = one(None, &[], None) else { return Ok(document) };
    document.others.push(as_written);
    let mut problems = Vec::new();
    for name in variants.changing() {
        if rest.is_empty() && variants.names.chosen.as_deref() == Some(name) {
            continue;
        }
        let note = format!("this is so in the variant {}", path::quote(name));
        match one(Some(name), &[], Some(note)) {
            Ok(other) => document.others.push(other),
            Err(more) => problems.extend(more),
        }
    }
    problems.truncate(problem::SHOWN);
    if problems.is_empty() { Ok(document) } else { Err(problems) }
}

/// What all variants of a document share.
struct Part<'a> {
    schema: &'a Arc<Value>,
    texts: &'a Texts,
    written: &'a Arc<Node>,
    /// What was written, without what it says of variants.
    base: &'a Node,
    note: Option<String>,
}

impl Part<'_> {
    /// Makes the changes, checks, and makes the typed value.
    fn document<T>(
        self,
        variants: &variants::Written,
        chosen: Option<&str>,
        settings: &[(usize, &Setting)],
    ) -> Result<Document<T>, Vec<Problem>>
    where
        T: DeserializeOwned + Serialize,
    {
        let Self { schema, texts, note, .. } = self;
        let mut findings = Findings::default();
        let mut tree = self.base.clone();
        let root = Shape::root(schema);
        if let Some(name) = chosen {
            variants.apply(name, &root, &mut tree, &mut findings);
        }
        settings::apply(settings.iter().copied(), &root, &mut tree, &mut findings);
        validate::validate(&root, &tree, &Trail::ROOT, &mut findings);
        if !findings.is_empty() {
            return Err(texts.problems(findings, note.as_deref()));
        }
        let refuse = |path: &[String], found: Option<String>, allowed: String| {
            let segments = || path.iter().map(String::as_str);
            let node = tree.nearest(segments());
            let found = found.unwrap_or_else(|| node.shown());
            let finding =
                Finding { place: node.place, path: path::join(segments()), found, allowed, hint: None };
            vec![texts.problem(finding, note.as_deref())]
        };
        let value: T = deserialize::from_tree(&tree)
            .map_err(|failure| refuse(&failure.path, failure.found, failure.allowed))?;
        let json = serde_json::to_value(&value).map_err(|error| refuse(&[], None, error.to_string()))?;
        Ok(Document {
            value,
            json,
            texts: texts.clone(),
            schema: Arc::clone(schema),
            tree,
            written: Arc::clone(self.written),
            variants: Variants { chosen: chosen.map(str::to_owned), all: variants.names.all.clone() },
            others: Vec::new(),
            note,
        })
    }
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
        let (found, allowed) = (found.into(), allowed.into());
        let finding = Finding { place: node.place, path: path.to_owned(), found, allowed, hint };
        self.texts.problem(finding, self.note.as_deref())
    }

    /// Which variants there are, and which of them this is.
    pub fn variants(&self) -> &Variants {
        &self.variants
    }

    /// The variants that were not chosen, without the user's settings; before them, the document as
    /// written. Empty where there are none, and where the text is right only with the user's settings.
    pub fn others(&self) -> &[Self] {
        &self.others
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

    /// All that can be tuned in this document, the choice of its variant before all.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.variants.parameter().into_iter().chain(parameters(&self.schema, &self.json)).collect()
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
        texts.settings.extend_from_slice(settings);
        build(&self.schema, &texts, &self.written)
    }
}

impl Texts {
    fn problems(&self, findings: Findings, note: Option<&str>) -> Vec<Problem> {
        findings.into_problems(|finding| self.problem(finding, note))
    }

    fn problem(&self, finding: Finding, note: Option<&str>) -> Problem {
        let Finding { place, path, found, allowed, hint } = finding;
        let hint = match (hint, note) {
            (Some(hint), Some(note)) => Some(format!("{hint}\n  {note}")),
            (hint, note) => hint.or_else(|| note.map(str::to_owned)),
        };
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
