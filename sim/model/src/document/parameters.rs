//! Every number, switch and choice that a scenario lets one tune: the one list behind
//! `forebay params`, the tuner's search space and the dashboard's sliders.

use serde::Serialize;
use serde_json::Value;

use super::path::{Trail, split};
use super::problem::Place;
use super::schema::{Extra, Shape};
use super::select::{Selection, select};
use super::suggest;
use super::tree::{Content, Node};

/// A list of more plain numbers than this is data (a quantile table), not a set of thresholds.
const LONGEST_LIST: usize = 32;

/// What kind of value a parameter takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterKind {
    /// A whole number.
    Whole,
    /// Any finite number.
    Number,
    /// True or false.
    Switch,
    /// One of these texts.
    Choice(Vec<String>),
}

/// One value that can be tuned, by the path that `--set` takes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameter {
    /// Dotted path, for example `policy.fallback.l2.vram_above`.
    pub path: String,
    /// Unit by the name's ending, for example `s`, `GB`, `1/s`, `tokens/s`, `share`.
    pub unit: Option<String>,
    /// What kind of value it takes.
    pub kind: ParameterKind,
    /// Least value allowed.
    pub minimum: Option<f64>,
    /// The least value itself is not allowed.
    pub minimum_open: bool,
    /// Largest value allowed.
    pub maximum: Option<f64>,
    /// The largest value itself is not allowed.
    pub maximum_open: bool,
    /// Value when the scenario does not say.
    pub default: Option<Value>,
    /// Value in this scenario; `None` for an optional one that is not set.
    pub value: Option<Value>,
    /// What it means: the field's documentation.
    pub description: String,
}

/// The parameters of a scenario, in the order of its fields; maps and lists by their own entries.
///
/// `schema` is the JSON Schema of the scenario's type, `value` the scenario (defaults may be missing).
/// Free texts, the tags that say which kind a table is, and long lists of plain numbers are left out.
pub fn parameters(schema: &Value, value: &Value) -> Vec<Parameter> {
    let mut found = Vec::new();
    if let Some(tree) = Node::from_json(value, Place::START) {
        walk(&Shape::root(schema), Some(&tree), None, Name::default(), &mut found);
    }
    found
}

/// The paths alone, of a tree that need not be valid.
pub(super) fn known_paths(root: &Shape<'_>, tree: &Node) -> Vec<String> {
    let mut found = Vec::new();
    walk(root, Some(tree), None, Name::default(), &mut found);
    found.into_iter().map(|parameter| parameter.path).collect()
}

/// The path among `parameters` that was most likely meant by `path`, if one is like it.
pub fn nearest_parameter<'a>(path: &str, parameters: &'a [Parameter]) -> Option<&'a str> {
    let paths: Vec<&str> = parameters.iter().map(|parameter| parameter.path.as_str()).collect();
    suggest::nearest_path(path, &paths)
}

/// Whether a value stands at the path.
pub fn path_exists(value: &Value, path: &str) -> bool {
    at(value, path).is_some()
}

/// The number at the path; `None` when there is none.
pub fn get_number(value: &Value, path: &str) -> Option<f64> {
    at(value, path)?.as_f64()
}

/// The path from the root for a path that may also count from the policy, as `--set` takes it.
pub fn full_path(value: &Value, path: &str) -> Option<String> {
    let in_policy = || Some(format!("policy.{path}")).filter(|path| path_exists(value, path));
    if path_exists(value, path) { Some(path.to_owned()) } else { in_policy() }
}

fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    split(path).ok()?.iter().try_fold(value, |value, segment| match value {
        Value::Object(entries) => entries.get(&segment.key),
        Value::Array(items) => items.get(segment.key.parse::<usize>().ok()?),
        _ => None,
    })
}

/// What is known of a place by those that enclose it.
#[derive(Debug, Clone, Copy)]
struct Name<'a> {
    trail: &'a Trail<'a>,
    /// The field's name, which ends with the unit; elements of a list share it.
    field: &'a str,
    /// The documentation of the nearest field that has one.
    about: &'a str,
}

impl Default for Name<'_> {
    fn default() -> Self {
        Self { trail: &Trail::ROOT, field: "", about: "" }
    }
}

fn walk(
    shape: &Shape<'_>,
    node: Option<&Node>,
    default: Option<&Value>,
    name: Name<'_>,
    found: &mut Vec<Parameter>,
) {
    let default = shape.default().or(default);
    let from_default = match node {
        None => default.and_then(|value| Node::from_json(value, Place::START)),
        Some(_) => None,
    };
    let alternatives = shape.alternatives();
    let Some(node) = node.or(from_default.as_ref()) else {
        return found.extend(leaf(&alternatives, None, default, name));
    };
    let Selection::Fits(fitting) = select(&alternatives, node) else { return };
    let Some(shape) = fitting.first() else { return };
    let own = shape.description();
    let about = if own.is_empty() { name.about } else { &own };
    // A table where a number could stand is a distribution of that number.
    let or_number = alternatives.iter().any(|shape| shape.takes("number") && !shape.is_any());
    match &node.content {
        Content::Table(entries) => {
            for property in shape.properties() {
                let Some(inner) = shape.property(property) else { continue };
                // The tag that says which kind this table is.
                if inner.choices().len() == 1 {
                    continue;
                }
                let trail = name.trail.key(property);
                let held = or_number && OF_THE_HOLDER.contains(&property);
                let field = if held { name.field } else { property };
                let name = Name { trail: &trail, field, about: "" };
                let default = default.and_then(|value| value.get(property));
                walk(&inner, entries.get(property), default, name, found);
            }
            let Extra::Each(each) = shape.extra() else { return };
            for (key, entry) in entries.iter().filter(|(key, _)| shape.property(key).is_none()) {
                let trail = name.trail.key(key);
                walk(&each, Some(entry), None, Name { trail: &trail, field: name.field, about }, found);
            }
        }
        Content::List(items) => {
            let plain = |item: &Node| !matches!(item.content, Content::Table(_) | Content::List(_));
            if items.len() > LONGEST_LIST && items.iter().all(plain) {
                return;
            }
            for (index, item) in items.iter().enumerate() {
                let Some(shape) = shape.item(index) else { continue };
                let trail = name.trail.index(index);
                walk(&shape, Some(item), None, Name { trail: &trail, field: name.field, about }, found);
            }
        }
        // Beside the text that is chosen, all the others that could be.
        Content::Text(_) if !shape.choices().is_empty() => {
            let texts: Vec<Shape<'_>> =
                alternatives.iter().filter(|shape| !shape.choices().is_empty()).cloned().collect();
            found.extend(leaf(&texts, Some(node), default, Name { about, ..name }));
        }
        _ => found.extend(leaf(&fitting, Some(node), default, Name { about, ..name })),
    }
}

/// The parameter at a leaf; `None` for what is not tunable.
fn leaf(
    shapes: &[Shape<'_>],
    node: Option<&Node>,
    default: Option<&Value>,
    name: Name<'_>,
) -> Option<Parameter> {
    let number = |shape: &&Shape<'_>| shape.takes("integer") && !shape.is_any();
    let switch = |shape: &&Shape<'_>| shape.takes("boolean") && !shape.is_any();
    let choices: Vec<&str> = shapes.iter().flat_map(Shape::choices).collect();
    let (shape, kind) = if let Some(shape) = shapes.iter().find(number) {
        (shape, if shape.is_whole() { ParameterKind::Whole } else { ParameterKind::Number })
    } else if let Some(shape) = shapes.iter().find(switch) {
        (shape, ParameterKind::Switch)
    } else {
        let shape = shapes.iter().find(|shape| !shape.choices().is_empty())?;
        (shape, ParameterKind::Choice(choices.iter().map(|&choice| choice.to_owned()).collect()))
    };
    let ranged = matches!(kind, ParameterKind::Whole | ParameterKind::Number);
    let minimum = shape.minimum().filter(|_| ranged);
    let maximum = shape.maximum().filter(|_| ranged);
    let own = shape.description();
    let description = if own.is_empty() { name.about.to_owned() } else { own };
    Some(Parameter {
        path: name.trail.to_string(),
        unit: if ranged { unit(name.field) } else { None },
        kind,
        minimum: minimum.map(|bound| bound.value),
        minimum_open: minimum.is_some_and(|bound| bound.open),
        maximum: maximum.map(|bound| bound.value),
        maximum_open: maximum.is_some_and(|bound| bound.open),
        default: default.cloned(),
        value: node.map(Node::to_json),
        description,
    })
}

/// Endings of names, the units they stand for, and whether these measure (or count). `_min` is not among
/// them: it says least as often as minutes.
const UNITS: [(&str, &str, bool); 23] = [
    ("ns", "ns", true),
    ("us", "µs", true),
    ("ms", "ms", true),
    ("s", "s", true),
    ("minutes", "min", true),
    ("hours", "h", true),
    ("h", "h", true),
    ("days", "d", true),
    ("bytes", "B", true),
    ("kb", "KB", true),
    ("mb", "MB", true),
    ("gb", "GB", true),
    ("gbps", "Gbit/s", true),
    ("hz", "1/s", true),
    ("percent", "%", true),
    ("share", "share", true),
    ("fraction", "share", true),
    ("tokens", "tokens", false),
    ("docs", "docs", false),
    ("blocks", "blocks", false),
    ("chars", "characters", false),
    ("requests", "requests", false),
    ("cores", "cores", false),
];

/// The unit a field's name ends with: `_ms` is `ms`, `_per_s` is `1/s`, `tokens_per_s` is `tokens/s`,
/// `per_document_gb` is `GB/document`.
fn unit(field: &str) -> Option<String> {
    let known = |word: &str| UNITS.iter().find(|(ending, ..)| *ending == word);
    let last = field.rsplit('_').next().and_then(known);
    let (before, after) = match field.strip_prefix("per_") {
        Some(after) => ("", after),
        None => match field.rsplit_once("_per_") {
            Some(parts) => parts,
            None => return last.map(|(_, unit, _)| (*unit).to_owned()),
        },
    };
    if let (Some((_, unit, true)), Some((rest, _))) = (last, after.rsplit_once('_'))
        && !rest.bytes().all(|byte| byte.is_ascii_digit())
    {
        return Some(format!("{unit}/{}", rest.replace('_', " ")));
    }
    let above = before.rsplit('_').next().and_then(known).map_or("1", |(_, unit, _)| unit);
    let below = known(after).map_or_else(|| after.replace('_', " "), |(_, unit, _)| (*unit).to_owned());
    Some(format!("{above}/{below}"))
}

/// Parameters of a distribution that are in the unit of the field which holds the distribution.
const OF_THE_HOLDER: [&str; 8] = ["mean", "median", "p95", "value", "min", "max", "low", "high"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_from_the_ending() {
        let unit = |field| unit(field).unwrap_or_default();
        assert_eq!(unit("max_wait_ms"), "ms");
        assert_eq!(unit("rate_per_s"), "1/s");
        assert_eq!(unit("tokens_per_s"), "tokens/s");
        assert_eq!(unit("price_per_million_tokens"), "1/million tokens");
        assert_eq!(unit("s_per_token"), "s/token");
        assert_eq!(unit("write_share"), "share");
        assert_eq!(unit("replicas"), "");
        assert_eq!(unit("tokens"), "tokens");
        assert_eq!(unit("class"), "");
        assert_eq!(unit("workspace_per_document_gb"), "GB/document");
        assert_eq!(unit("per_prefill_token_s"), "s/prefill token");
        assert_eq!(unit("requests_per_10_s"), "requests/10 s");
    }

    #[test]
    fn paths_reach_into_values() {
        let value = serde_json::json!({"a": [{"b": 2}], "policy": {"c": 0.5}, "x.y": true});
        assert_eq!(get_number(&value, "a.0.b"), Some(2.0));
        assert_eq!(get_number(&value, "a.1.b"), None);
        assert!(path_exists(&value, "\"x.y\""));
        assert_eq!(full_path(&value, "c").as_deref(), Some("policy.c"));
        assert_eq!(full_path(&value, "a.0").as_deref(), Some("a.0"));
        assert_eq!(full_path(&value, "d"), None);
    }
}
