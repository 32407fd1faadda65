//! Checks a tree against its schema and says of everything wrong where it stands and what is allowed.

use indexmap::IndexMap;

use super::describe::{allowed, any_of, in_quotes, keys, list_of, number, one_of, text};
use super::path::{Trail, quote, quote_text};
use super::problem::{Finding, Findings, Place};
use super::schema::{Extra, Shape};
use super::select::{Selection, select};
use super::suggest::{nearest, question};
use super::tree::{Content, Node};

/// Checks a value and all within it.
pub(super) fn validate(shape: &Shape<'_>, node: &Node, trail: &Trail<'_>, findings: &mut Findings) {
    if findings.is_full() {
        return;
    }
    let alternatives = shape.alternatives();
    let report = |place: Place, trail: &Trail<'_>, found: String, allowed: String, hint: Option<String>| {
        Finding { place, path: trail.to_string(), found, allowed, hint }
    };
    let finding = match select(&alternatives, node) {
        Selection::Fits(shapes) => return validate_any(&shapes, node, trail, findings),
        Selection::WrongType => {
            let hint = type_hint(&alternatives, node);
            report(node.place, trail, node.shown(), any_of(&alternatives), hint)
        }
        Selection::NoChoice { choices } => {
            let hint = choice_hint(node, &choices);
            report(node.place, trail, node.shown(), one_of(&choices), hint)
        }
        Selection::UnknownTag { key, tags } => {
            let value = node.child(key).unwrap_or(node);
            let hint = choice_hint(value, &tags);
            report(value.place, &trail.key(key), value.shown(), one_of(&tags), hint)
        }
        Selection::NoTag { key, tags } => {
            let hint = likely_tag(&alternatives, node, key);
            report(node.place, &trail.key(key), "nothing".to_owned(), required(&one_of(&tags)), hint)
        }
        Selection::OneKey { names } => {
            let found = match &node.content {
                Content::Table(entries) if !entries.is_empty() => {
                    let given: Vec<&str> = entries.keys().map(String::as_str).take(8).collect();
                    format!("a table with {}", keys(&given))
                }
                _ => node.shown(),
            };
            let said = match &node.content {
                Content::Table(entries) => entries.keys().next(),
                _ => None,
            };
            let hint = said.and_then(|word| nearest(word, names.iter().copied())).map(question);
            report(node.place, trail, found, format!("a table with exactly one of {}", keys(&names)), hint)
        }
    };
    findings.push(finding);
}

/// Checks against the alternative with the fewest complaints.
fn validate_any(shapes: &[Shape<'_>], node: &Node, trail: &Trail<'_>, findings: &mut Findings) {
    if let [shape] = shapes {
        return check(shape, node, trail, findings);
    }
    let mut best: Option<Findings> = None;
    for shape in shapes {
        let mut tried = Findings::default();
        check(shape, node, trail, &mut tried);
        if best.as_ref().is_none_or(|best| tried.len() < best.len()) {
            best = Some(tried);
        }
    }
    findings.append(best.unwrap_or_default());
}

/// Checks a value of the right type.
fn check(shape: &Shape<'_>, node: &Node, trail: &Trail<'_>, findings: &mut Findings) {
    let allowed = match &node.content {
        Content::Table(entries) => return check_table(shape, node, entries, trail, findings),
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                if findings.is_full() {
                    return;
                }
                if let Some(shape) = shape.item(index) {
                    validate(&shape, item, &trail.index(index), findings);
                }
            }
            let right = length_fits(shape, items.len(), "minItems", "maxItems");
            (!right).then(|| list_of(shape))
        }
        Content::Text(content) => {
            let right = length_fits(shape, content.chars().count(), "minLength", "maxLength");
            (!right).then(|| text(shape))
        }
        Content::Whole(whole) => match shape.storage() {
            _ if !in_range(shape, *whole as f64) => Some(number(shape)),
            Some((low, high)) if !(low..=high).contains(whole) => {
                Some(format!("a whole number from {low} to {high}"))
            }
            _ => None,
        },
        Content::Float(float) => {
            let right = float.is_finite() && in_range(shape, *float);
            (!right).then(|| number(shape))
        }
        Content::Switch(_) | Content::DateTime(_) => None,
    };
    if let Some(allowed) = allowed {
        let found = node.shown();
        findings.push(Finding { place: node.place, path: trail.to_string(), found, allowed, hint: None });
    }
}

fn length_fits(shape: &Shape<'_>, length: usize, least: &str, most: &str) -> bool {
    let length = length as u64;
    shape.count(least).is_none_or(|least| length >= least)
        && shape.count(most).is_none_or(|most| length <= most)
}

fn in_range(shape: &Shape<'_>, value: f64) -> bool {
    shape.minimum().is_none_or(|low| value > low.value || (value == low.value && !low.open))
        && shape.maximum().is_none_or(|high| value < high.value || (value == high.value && !high.open))
}

fn check_table(
    shape: &Shape<'_>,
    node: &Node,
    entries: &IndexMap<String, Node>,
    trail: &Trail<'_>,
    findings: &mut Findings,
) {
    for (key, value) in entries {
        if findings.is_full() {
            return;
        }
        let trail = trail.key(key);
        if let Some(shape) = shape.property(key) {
            validate(&shape, value, &trail, findings);
            continue;
        }
        match shape.extra() {
            Extra::Each(shape) => validate(&shape, value, &trail, findings),
            Extra::Refused => findings.push(unknown_key(shape, entries, key, value, &trail)),
        }
    }
    for name in shape.required() {
        if !entries.contains_key(name) {
            let wanted = shape.property(name).map_or_else(|| "a value".to_owned(), |shape| allowed(&shape));
            findings.push(Finding {
                place: node.place,
                path: trail.key(name).to_string(),
                found: "nothing".to_owned(),
                allowed: required(&wanted),
                hint: None,
            });
        }
    }
}

fn required(wanted: &str) -> String {
    format!("{wanted} (this key is required)")
}

fn unknown_key(
    shape: &Shape<'_>,
    entries: &IndexMap<String, Node>,
    key: &str,
    value: &Node,
    trail: &Trail<'_>,
) -> Finding {
    let names = shape.properties();
    // A key that is there already is not what was meant.
    let absent = names.iter().copied().filter(|name| !entries.contains_key(*name));
    Finding {
        place: value.key_place,
        path: trail.to_string(),
        found: format!("the unknown key {}", quote(key)),
        allowed: keys(&names),
        hint: nearest(key, absent).map(question),
    }
}

/// A way out for values whose type is nearly right.
fn type_hint(alternatives: &[Shape<'_>], node: &Node) -> Option<String> {
    let takes = |kind: &str| alternatives.iter().any(|shape| shape.takes(kind));
    let in_text = |text: &str| takes("string").then(|| format!("write it in quotes: {}", in_quotes(text)));
    match &node.content {
        Content::Text(text) => {
            let text = text.trim();
            let number = text.parse::<i64>().is_ok() && takes("integer")
                || text.parse::<f64>().is_ok_and(f64::is_finite) && takes("number");
            let switch = matches!(text, "true" | "false") && takes("boolean");
            (number || switch).then(|| format!("write it without quotes: {text}"))
        }
        Content::Float(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
            takes("integer").then(|| format!("write it without a fraction: {float}"))
        }
        Content::DateTime(moment) => in_text(moment),
        Content::Whole(number) => in_text(&number.to_string()),
        Content::Switch(on) => in_text(&on.to_string()),
        _ => None,
    }
}

fn choice_hint(node: &Node, choices: &[&str]) -> Option<String> {
    match &node.content {
        Content::Text(text) => nearest(text, choices.iter().copied()).map(question),
        _ => None,
    }
}

/// The tag whose alternative knows all the keys that are there, if only one does.
fn likely_tag(alternatives: &[Shape<'_>], node: &Node, key: &str) -> Option<String> {
    let Content::Table(entries) = &node.content else { return None };
    if entries.is_empty() {
        return None;
    }
    let knows = |shape: &&Shape<'_>| entries.keys().all(|name| shape.property(name).is_some());
    let mut fitting = alternatives.iter().filter(knows);
    let only = fitting.next().filter(|_| fitting.next().is_none())?;
    let choices = only.property(key)?.choices();
    let tag = choices.first()?;
    Some(format!("its keys are those of {key} = {}", quote_text(tag)))
}
