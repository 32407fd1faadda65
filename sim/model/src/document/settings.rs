//! `--set path=value`: changes to a document before it is checked.
//!
//! A setting changes the tree, so the same walk checks it and its values are reported as standing in
//! the setting. Where the document leaves a table out, the table starts from its default, so that
//! setting one entry does not change the others.

use super::describe::keys;
use super::parameters::known_paths;
use super::parse::parse_setting;
use super::path::{Segment, Trail, join, quote, quote_text, split};
use super::problem::{Finding, Findings, Origin, Place, Problem, SETTING_FILE};
use super::schema::{Extra, Shape};
use super::select::{Selection, select};
use super::suggest::{nearest, nearest_path, question};
use super::tree::{Anchor, Content, Node};

/// The table of the scenario in which a path is looked for that its root does not know.
const POLICY: &str = "policy";

/// One value to set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Dotted path, for example `fallback.l2.vram_above`.
    pub path: String,
    /// A TOML value; a bare word is a text.
    pub value: String,
}

impl Setting {
    /// A setting of this path and value.
    pub fn new(path: impl Into<String>, value: impl Into<String>) -> Self {
        Self { path: path.into(), value: value.into() }
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

/// Changes the tree by settings, of which the first has the index `first` among all of the document.
pub(super) fn apply(
    settings: &[Setting],
    first: usize,
    root: &Shape<'_>,
    tree: &mut Node,
    findings: &mut Findings,
) {
    for (index, setting) in settings.iter().enumerate() {
        apply_one(setting, Origin::Setting(first + index), root, tree, findings);
    }
}

fn apply_one(setting: &Setting, origin: Origin, root: &Shape<'_>, tree: &mut Node, findings: &mut Findings) {
    let place = |offset| Place { origin, offset };
    let segments = match split(&setting.path) {
        Ok(segments) => segments,
        Err((offset, found)) => {
            return findings.push(Finding {
                place: place(offset),
                path: setting.path.clone(),
                found: found.to_owned(),
                allowed: "a dotted path, such as stages.llm.replicas".to_owned(),
                hint: None,
            });
        }
    };
    let Some(segments) = resolve(root, segments) else {
        let hint = path_hint(&setting.path, root, tree);
        return findings.push(Finding {
            place: place(0),
            path: setting.path.clone(),
            found: "a path that neither the scenario nor its policy has".to_owned(),
            allowed: "the path of a parameter (`forebay params` lists them)".to_owned(),
            hint,
        });
    };
    let anchor = Anchor { origin, shift: setting.path.len() + 1 };
    let full = join(segments.iter().map(|segment| segment.key.as_str()));
    let Some(mut value) = parse_setting(&setting.value, anchor, &Trail::ROOT.whole(&full), findings) else {
        return;
    };
    value.key_place = place(0);
    let keys: Vec<&str> = segments.iter().map(|segment| segment.key.as_str()).collect();
    if let Err(miss) = put(std::slice::from_ref(root), tree, &keys, value) {
        let depth = keys.len() - miss.left;
        let corrected = nearest(keys[depth], miss.names.iter().map(String::as_str)).map(|name| {
            let parts = keys[..depth].iter().copied().chain([name]).chain(keys[depth + 1..].iter().copied());
            question(&join(parts))
        });
        findings.push(Finding {
            place: place(segments[depth].offset),
            path: join(keys[..=depth].iter().copied()),
            found: miss.found,
            allowed: miss.allowed,
            hint: corrected.or_else(|| path_hint(&setting.path, root, tree)),
        });
    }
}

/// The path from the root: as given if the root knows its first segment, else within the policy.
fn resolve(root: &Shape<'_>, segments: Vec<Segment>) -> Option<Vec<Segment>> {
    let knows = |shape: &Shape<'_>, key: &str| shape.alternatives().iter().any(|s| s.entry(key).is_some());
    let first = segments.first()?.key.as_str();
    if knows(root, first) {
        return Some(segments);
    }
    let policy = root.property(POLICY)?;
    knows(&policy, first).then(|| {
        let head = Segment { key: POLICY.to_owned(), offset: 0 };
        std::iter::once(head).chain(segments).collect()
    })
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
