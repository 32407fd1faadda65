//! `--set path=value`: changes to a document before it is checked.
//!
//! A setting changes the tree, so the same walk checks it and its values are reported as standing in
//! the setting. Where the document leaves a table out, the table starts from its default, so that
//! setting one entry does not change the others. Variants change the tree by the same steps, from values
//! that stand in the document itself.

use super::describe::keys;
use super::parameters::known_paths;
use super::parse::parse_setting;
use super::path::{Trail, join, quote, quote_text, split};
use super::problem::{Finding, Findings, Origin, Place, Problem, SETTING_FILE};
use super::schema::{Extra, Shape};
use super::select::{Selection, select};
use super::suggest::{nearest, nearest_path, question};
use super::tree::{Anchor, Content, Node};

/// The table of the scenario in which a path is looked for that its root does not know.
const POLICY: &str = "policy";

/// One value to set, or one entry to take out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted path, for example `fallback.l2.vram_above`.
    pub path: String,
    /// A TOML value; a bare word is a text.
    pub value: String,
    /// The entry is taken out, and `value` says nothing.
    takes_out: bool,
}

impl Setting {
    /// A setting of this path and value.
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into(), takes_out: false }
    }

    /// The entry at a path taken out, as if the document did not say it.
    pub fn without(path: impl Into<String>) -> Self {
        Self { path: path.into(), value: String::new(), takes_out: true }
    }

    /// Reads `path=value`; the first `=` outside quotes separates them.
    ///
    /// # Errors
    /// There is no `=`.
    pub fn parse(text: &str) -> Result<Self, Vec<Problem>> {
        let mut quote = None;
        for (offset, c) in text.char_indices() {
            match quote {
                Some(open) if open == c => quote = None,
                None if c == '"' || c == '\'' => quote = Some(c),
                None if c == '=' => return Ok(Self::new(&text[..offset], &text[offset + 1..])),
                _ => {}
            }
        }
        Err(vec![Problem {
            file: SETTING_FILE.to_owned(),
            line: 1,
            column: text.chars().count() + 1,
            path: String::new(),
            found: format!("{} without `=`", quote_text(text)),
            allowed: "path=value".to_owned(),
            hint: None,
        }])
    }

    /// The text whose offsets and columns problems count in.
    pub(super) fn text(&self) -> String {
        format!("{}={}", self.path, self.value)
    }
}

/// Changes the tree by settings, each with its index among all of the document.
pub(super) fn apply<'a>(
    settings: impl IntoIterator<Item = (usize, &'a Setting)>,
    root: &Shape<'_>,
    tree: &mut Node,
    findings: &mut Findings,
) {
    for (index, setting) in settings {
        apply_one(setting, Origin::Setting(index), root, tree, findings);
    }
}

fn apply_one(setting: &Setting, origin: Origin, root: &Shape<'_>, tree: &mut Node, findings: &mut Findings) {
    let start = Place { origin, offset: 0 };
    let Some(steps) = steps(&setting.path, start, findings) else { return };
    let Some(steps) = resolve(steps, &setting.path, root, tree, findings) else { return };
    if setting.takes_out {
        return take_out(&steps, &setting.path, root, tree, findings);
    }
    let anchor = Anchor { origin, shift: setting.path.len() + 1 };
    let full = join(steps.iter().map(|step| step.key.as_str()));
    if let Some(mut value) = parse_setting(&setting.value, anchor, &Trail::ROOT.whole(&full), findings) {
        value.key_place = start;
        assign(&steps, &setting.path, value, root, tree, findings);
    }
}

/// One part of a path, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) key: String,
    pub(super) place: Place,
}

/// The parts of a path whose text starts at a place. `None` when it cannot be read; `findings` says why.
pub(super) fn steps(path: &str, start: Place, findings: &mut Findings) -> Option<Vec<Step>> {
    let at = |offset: usize| Place { offset: start.offset + offset, ..start };
    match split(path) {
        Ok(segments) => {
            let step = |segment: super::path::Segment| Step { key: segment.key, place: at(segment.offset) };
            Some(segments.into_iter().map(step).collect())
        }
        Err((offset, found)) => {
            findings.push(Finding {
                place: at(offset),
                path: path.to_owned(),
                found: found.to_owned(),
                allowed: "a dotted path, such as stages.llm.replicas".to_owned(),
                hint: None,
            });
            None
        }
    }
}

/// The path from the root: as given if the root knows its first part, else within the policy. `None` when
/// neither knows it; `findings` says so.
pub(super) fn resolve(
    steps: Vec<Step>,
    path: &str,
    root: &Shape<'_>,
    tree: &Node,
    findings: &mut Findings,
) -> Option<Vec<Step>> {
    let knows = |shape: &Shape<'_>, key: &str| shape.alternatives().iter().any(|s| s.entry(key).is_some());
    let first = steps.first()?;
    if knows(root, &first.key) {
        return Some(steps);
    }
    let place = first.place;
    if root.property(POLICY).is_some_and(|policy| knows(&policy, &first.key)) {
        let head = Step { key: POLICY.to_owned(), place };
        return Some(std::iter::once(head).chain(steps).collect());
    }
    findings.push(Finding {
        place,
        path: path.to_owned(),
        found: "a path that neither the scenario nor its policy has".to_owned(),
        allowed: "the path of a parameter (`forebay params` lists them)".to_owned(),
        hint: path_hint(path, root, tree),
    });
    None
}

/// Puts a value at a path from the root, which was written as `path`.
pub(super) fn assign(
    steps: &[Step],
    path: &str,
    value: Node,
    root: &Shape<'_>,
    tree: &mut Node,
    findings: &mut Findings,
) {
    let keys: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
    if let Err(miss) = put(std::slice::from_ref(root), tree, &keys, value) {
        let depth = keys.len() - miss.left;
        let corrected = nearest(keys[depth], miss.names.iter().map(String::as_str))
            .map(|name| question(&join(with_name(&keys, depth, name))));
        findings.push(Finding {
            place: steps[depth].place,
            path: join(keys[..=depth].iter().copied()),
            found: miss.found,
            allowed: miss.allowed,
            hint: corrected.or_else(|| path_hint(path, root, tree)),
        });
    }
}

/// Takes the entry at a path from the root, which was written as `path`, out of its table.
pub(super) fn take_out(
    steps: &[Step],
    path: &str,
    root: &Shape<'_>,
    tree: &mut Node,
    findings: &mut Findings,
) {
    let Some((last, above)) = steps.split_last() else { return };
    let mut node = &*tree;
    let mut depth = 0;
    while let (Content::Table(entries), Some(step)) = (&node.content, steps.get(depth)) {
        let Some(child) = entries.get(&step.key) else { break };
        node = child;
        depth += 1;
    }
    if depth == steps.len() {
        let mut parent = Some(tree);
        for step in above {
            parent = parent.and_then(|node| node.entries_mut()?.get_mut(&step.key));
        }
        if let Some(entries) = parent.and_then(Node::entries_mut) {
            entries.shift_remove(&last.key);
        }
        return;
    }
    let names: Vec<String> = match &node.content {
        Content::Table(entries) => entries.keys().cloned().collect(),
        _ => Vec::new(),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let parts: Vec<&str> = steps.iter().map(|step| step.key.as_str()).collect();
    let full = join(parts.iter().copied());
    let corrected = nearest(parts[depth], names.iter().copied())
        .map(|name| question(&join(with_name(&parts, depth, name))))
        .or_else(|| path_hint(path, root, tree));
    findings.push(Finding {
        place: steps[depth].place,
        path: join(parts[..=depth].iter().copied()),
        found: "nothing that could be taken out".to_owned(),
        allowed: format!("an entry that is written there: {}", keys(&names)),
        // A default is known by its path, and is not written.
        hint: corrected.filter(|hint| *hint != question(&full)),
    });
}

/// The parts of a path, of which one is put right.
fn with_name<'a>(parts: &[&'a str], depth: usize, name: &'a str) -> Vec<&'a str> {
    let mut parts = parts.to_vec();
    parts[depth] = name;
    parts
}

fn path_hint(path: &str, root: &Shape<'_>, tree: &Node) -> Option<String> {
    let paths = known_paths(root, tree);
    let short = paths.iter().filter_map(|path| path.strip_prefix("policy."));
    let all: Vec<&str> = paths.iter().map(String::as_str).chain(short).collect();
    nearest_path(path, &all).map(question)
}

/// Where a path left what the schema knows.
struct Miss {
    /// Segments left, the unknown one included.
    left: usize,
    found: String,
    allowed: String,
    /// What could stand there instead.
    names: Vec<String>,
}

/// Puts a value at a path below a node. On a miss the node is as it was.
fn put(shapes: &[Shape<'_>], node: &mut Node, keys: &[&str], value: Node) -> Result<(), Miss> {
    let Some((key, rest)) = keys.split_first() else {
        *node = value;
        return Ok(());
    };
    let alternatives: Vec<Shape<'_>> = shapes.iter().flat_map(Shape::alternatives).collect();
    let shapes = match select(&alternatives, node) {
        Selection::Fits(shapes) => shapes,
        // The check against the schema will say what is wrong with it.
        _ => alternatives,
    };
    let shown = node.shown();
    let place = value.key_place;
    match &mut node.content {
        Content::Table(entries) => {
            let fixed: Vec<Shape<'_>> = shapes.iter().filter_map(|shape| shape.property(key)).collect();
            let own_names = fixed.is_empty();
            let children = if own_names { extras(&shapes) } else { fixed };
            let unknown = |names: Vec<String>| {
                let listed: Vec<&str> = names.iter().map(String::as_str).collect();
                let found = format!("the unknown key {}", quote(key));
                Miss { left: keys.len(), found, allowed: self::keys(&listed), names }
            };
            if children.is_empty() {
                let names = shapes.iter().flat_map(Shape::properties).map(str::to_owned);
                return Err(unknown(names.collect()));
            }
            if let Some(child) = entries.get_mut(*key) {
                return put(&children, child, rest, value);
            }
            if rest.is_empty() {
                entries.insert((*key).to_owned(), value);
                return Ok(());
            }
            if own_names {
                return Err(unknown(entries.keys().cloned().collect()));
            }
            let mut child = absent(&children, place);
            put(&children, &mut child, rest, value)?;
            entries.insert((*key).to_owned(), child);
            Ok(())
        }
        Content::List(items) => {
            let index = key.parse::<usize>().ok().filter(|index| *index < items.len());
            let Some(index) = index else {
                let allowed = match items.len() {
                    0 => "no index, for the list is empty".to_owned(),
                    length => format!("an index from 0 to {}", length - 1),
                };
                let found = format!("the index {}", quote(key));
                return Err(Miss { left: keys.len(), found, allowed, names: Vec::new() });
            };
            let children: Vec<_> = shapes.iter().filter_map(|shape| shape.item(index)).collect();
            put(&children, &mut items[index], rest, value)
        }
        _ => Err(Miss {
            left: keys.len(),
            found: format!("the key {} below {shown}", quote(key)),
            allowed: "keys below a table only".to_owned(),
            names: Vec::new(),
        }),
    }
}

fn extras<'a>(shapes: &[Shape<'a>]) -> Vec<Shape<'a>> {
    let extra = |shape: &Shape<'a>| match shape.extra() {
        Extra::Each(each) => Some(each),
        Extra::Refused => None,
    };
    shapes.iter().filter_map(extra).collect()
}

/// What stands for an entry that the document leaves out, and that has entries or elements itself.
fn absent(shapes: &[Shape<'_>], place: Place) -> Node {
    let default = shapes.iter().find_map(|shape| Node::from_json(shape.default()?, place));
    default.unwrap_or_else(|| Node::table(place))
}
