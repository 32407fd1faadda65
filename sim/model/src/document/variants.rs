//! Variants: the same document with some values changed, under names, in the document itself.
//!
//! ```text
//! variant = "wrong"
//! [variants.wrong]
//! title = "charged after the answer"
//! without = ["policy.admission.spare"]
//! set = { "policy.admission.tokens.charge" = "on_end" }
//! ```
//!
//! A document that has been read is one of its variants: the changes are made, and neither key is left in
//! it. The resolved text therefore says the same whoever reads it, and needs no choice. To keep both keys
//! there was the alternative; but then a value that the user set over the variant's would be lost when
//! the resolved text is read again. What is left of the choice is the title.
//!
//! Every variant is read whenever the document is, so that a mistake in one is found before somebody
//! chooses it.

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use super::describe::one_of;
use super::parameters::{Parameter, ParameterKind};
use super::path::{Trail, quote, quote_text, split};
use super::problem::{Finding, Findings, Place};
use super::schema::Shape;
use super::settings::{Setting, Step, assign, resolve, steps, take_out};
use super::suggest::{nearest, question};
use super::tree::{Content, Node};
use super::validate::validate;

/// The key that chooses.
const CHOICE: &str = "variant";

/// The table of the variants.
const TABLE: &str = "variants";

/// The name of the document as it is written.
pub const AS_WRITTEN: &str = "right";

/// Most variants of one document: all are checked whenever it is read.
const MOST: usize = 100;

/// Longest name of a variant, in bytes.
const LONGEST_NAME: usize = 200;

/// What variants a document has, and which of them it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Variants {
    /// The one in force; absent: the document as it is written.
    pub chosen: Option<String>,
    /// All that could be chosen, [`AS_WRITTEN`] first. Empty where the document has none.
    pub all: Vec<Variant>,
}

/// One variant, as a list shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What it shows; may be empty.
    pub title: String,
}

impl Variants {
    /// The choice as a parameter; absent where there is nothing to choose.
    pub fn parameter(&self) -> Option<Parameter> {
        let chosen = self.chosen.as_deref().unwrap_or(AS_WRITTEN);
        let shown = |variant: &Variant| match variant.title.as_str() {
            "" => variant.name.clone(),
            title => format!("{}: {title}", variant.name),
        };
        let lines: Vec<String> = self.all.iter().map(shown).collect();
        (!self.all.is_empty()).then(|| Parameter {
            path: CHOICE.to_owned(),
            unit: None,
            kind: ParameterKind::Choice(self.all.iter().map(|variant| variant.name.clone()).collect()),
            minimum: None,
            minimum_open: false,
            maximum: None,
            maximum_open: false,
            default: Some(Value::from(AS_WRITTEN)),
            value: Some(Value::from(chosen)),
            description: format!("Which variant of the scenario is in force. {}.", lines.join("; ")),
        })
    }
}

/// Whether a setting is about variants: these come before all others, for they say what the document is.
pub(super) fn is_about(setting: &Setting) -> bool {
    // A path that cannot be read is reported where it is applied.
    let segments = split(&setting.path).unwrap_or_default();
    segments.first().is_some_and(|first| first.key == CHOICE || first.key == TABLE)
}

/// The variants as they stand in the document.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) names: Variants,
    tables: IndexMap<String, Node>,
}

/// Takes both keys out of the tree, and checks them as far as that goes without applying a variant.
pub(super) fn take(root: &Shape<'_>, tree: &mut Node, findings: &mut Findings) -> Written {
    let mut written = Written::default();
    let Content::Table(entries) = &mut tree.content else { return written };
    let mut part = |key: &str| {
        let shape = root.property(key)?;
        let node = entries.shift_remove(key)?;
        validate(&shape, &node, &Trail::ROOT.key(key), findings);
        Some(node)
    };
    let choice = part(CHOICE);
    let table = part(TABLE);
    if !findings.is_empty() {
        return written;
    }
    let exists = table.is_some();
    if let Some(Node { content: Content::Table(tables), place, .. }) = table {
        check_names(&tables, place, findings);
        written.tables = tables;
    }
    if exists {
        let title = |name: &str| written.tables.get(name).map(title_of).unwrap_or_default();
        let named = written.tables.keys().map(String::as_str).filter(|name| *name != AS_WRITTEN);
        written.names.all = std::iter::once(AS_WRITTEN)
            .chain(named)
            .map(|name| Variant { name: name.to_owned(), title: title(name) })
            .collect();
    }
    if let Some(Node { content: Content::Text(name), place, .. }) = choice
        && !name.is_empty()
    {
        choose(&name, place, &mut written.names, findings);
    }
    written
}

fn title_of(table: &Node) -> String {
    match table.child("title").map(|title| &title.content) {
        Some(Content::Text(title)) => title.clone(),
        _ => String::new(),
    }
}

fn check_names(tables: &IndexMap<String, Node>, place: Place, findings: &mut Findings) {
    let mut refuse = |place, path: String, found: String, allowed: &str| {
        findings.push(Finding { place, path, found, allowed: allowed.to_owned(), hint: None });
    };
    if tables.len() > MOST {
        let found = format!("{} variants", tables.len());
        refuse(place, TABLE.to_owned(), found, &format!("at most {MOST}"));
    }
    for (name, table) in tables {
        let path = || format!("{TABLE}.{}", quote(name));
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            let allowed = "a name of 1 to 200 bytes without control characters";
            refuse(table.key_place, TABLE.to_owned(), quote_text(name), allowed);
        }
        let changes = ["set", "without"].iter().find_map(|key| Some((key, table.child(key)?)));
        if let Some((key, changes)) = changes.filter(|_| name == AS_WRITTEN) {
            let found = "changes to the scenario as it is written".to_owned();
            let allowed = "a title only: this is the name of the scenario as it is written";
            refuse(changes.key_place, format!("{}.{key}", path()), found, allowed);
        }
    }
}

fn choose(name: &str, place: Place, names: &mut Variants, findings: &mut Findings) {
    let known: Vec<&str> = names.all.iter().map(|variant| variant.name.as_str()).collect();
    if known.contains(&name) {
        names.chosen = (name != AS_WRITTEN).then(|| name.to_owned());
        return;
    }
    let allowed = match known.as_slice() {
        [] => "no choice: this scenario has no variants".to_owned(),
        known => format!("the name of a variant of this scenario: {}", one_of(known)),
    };
    findings.push(Finding {
        place,
        path: CHOICE.to_owned(),
        found: quote_text(name),
        allowed,
        hint: nearest(name, known.iter().copied()).map(question),
    });
}

impl Written {
    /// The names of those that change something.
    pub(super) fn changing(&self) -> impl Iterator<Item = &str> {
        self.tables.keys().map(String::as_str).filter(|name| *name != AS_WRITTEN)
    }

    /// Makes the changes of a variant: first what it takes out, then what it sets.
    pub(super) fn apply(&self, name: &str, root: &Shape<'_>, tree: &mut Node, findings: &mut Findings) {
        let Some(table) = self.tables.get(name) else { return };
        if let Some(Node { content: Content::List(paths), .. }) = table.child("without") {
            for node in paths {
                let Content::Text(path) = &node.content else { continue };
                // A path in quotes starts after the first of them.
                let start = Place { offset: node.place.offset + 1, ..node.place };
                if let Some(steps) = path_of(path, start, root, tree, findings) {
                    take_out(&steps, path, root, tree, findings);
                }
            }
        }
        let mut changes = Vec::new();
        if let Some(Node { content: Content::Table(entries), .. }) = table.child("set") {
            collect(entries, &[], &mut changes, findings);
        }
        for (steps, value) in changes {
            let path = super::path::join(steps.iter().map(|step| step.key.as_str()));
            if let Some(steps) = of_scenario(steps, &path, root, tree, findings) {
                assign(&steps, &path, value.clone(), root, tree, findings);
            }
        }
        retitle(name, &title_of(table), root, tree);
    }
}

/// The title says which variant it is: of the choice, nothing else is left in the resolved document.
fn retitle(name: &str, title: &str, root: &Shape<'_>, tree: &mut Node) {
    let place = tree.place;
    let Content::Table(entries) = &mut tree.content else { return };
    if root.property("title").is_none() {
        return;
    }
    let before = match entries.get("title").map(|title| &title.content) {
        Some(Content::Text(before)) if !before.is_empty() => format!("{before}; "),
        _ => String::new(),
    };
    let what = if title.is_empty() { String::new() } else { format!(": {title}") };
    let content = Content::Text(format!("{before}variant {name}{what}"));
    entries.insert("title".to_owned(), Node { content, place, key_place: place });
}

/// The changes that a table says, each with its path.
///
/// A key with a dot in it is a path as `--set` takes it, and its value is put whole. Any other key is one
/// part of a path, so that `run.seed = 7` means the same with quotes and without, where TOML makes nested
/// tables of it; such a table is a value only when it is empty or says its `kind`.
fn collect<'a>(
    entries: &'a IndexMap<String, Node>,
    above: &[Step],
    changes: &mut Vec<(Vec<Step>, &'a Node)>,
    findings: &mut Findings,
) {
    for (key, node) in entries {
        // A key that cannot be read as a path stands in quotes, and starts after the first of them.
        let start = Place { offset: node.key_place.offset + 1, ..node.key_place };
        let Some(own) = steps(key, start, findings) else { continue };
        let own: Vec<Step> = own.into_iter().map(|step| Step { place: node.key_place, ..step }).collect();
        let is_path = own.len() > 1;
        let path: Vec<Step> = above.iter().cloned().chain(own).collect();
        match &node.content {
            Content::Table(inner) if !is_path && !inner.is_empty() && !inner.contains_key("kind") => {
                collect(inner, &path, changes, findings);
            }
            _ => changes.push((path, node)),
        }
    }
}

fn path_of(
    path: &str,
    start: Place,
    root: &Shape<'_>,
    tree: &Node,
    findings: &mut Findings,
) -> Option<Vec<Step>> {
    let steps = steps(path, start, findings)?;
    of_scenario(steps, path, root, tree, findings)
}

/// The path from the root, if it is not about variants itself.
fn of_scenario(
    steps: Vec<Step>,
    path: &str,
    root: &Shape<'_>,
    tree: &Node,
    findings: &mut Findings,
) -> Option<Vec<Step>> {
    let first = steps.first()?;
    if first.key == CHOICE || first.key == TABLE {
        findings.push(Finding {
            place: first.place,
            path: path.to_owned(),
            found: "a variant that changes variants".to_owned(),
            allowed: "any other path of the scenario".to_owned(),
            hint: None,
        });
        return None;
    }
    resolve(steps, path, root, tree, findings)
}
