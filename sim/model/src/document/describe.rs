//! What may stand at a place, in words.

use super::path::{is_bare, quote, quote_text};
use super::schema::{Bound, Extra, Shape};

/// What a place allows, for example `a whole number from 1 to 8, or a table with kind = "auto"`.
pub(super) fn allowed(shape: &Shape<'_>) -> String {
    any_of(&shape.alternatives())
}

/// What a place allows of which these are the alternatives.
pub(super) fn any_of(alternatives: &[Shape<'_>]) -> String {
    let mut words: Vec<String> = Vec::new();
    let choices: Vec<&str> = alternatives.iter().flat_map(Shape::choices).collect();
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut tables: Vec<String> = Vec::new();
    for shape in alternatives {
        if let Some((key, tags)) = tag(shape).filter(|_| shape.takes("object")) {
            match kinds.iter_mut().find(|(other, _)| *other == key) {
                Some((_, all)) => all.extend(tags),
                None => kinds.push((key, tags)),
            }
        } else if shape.takes("object") && !shape.is_any() {
            tables.push(table(shape));
        } else if shape.choices().is_empty() {
            words.push(plain(shape));
        }
    }
    if !choices.is_empty() {
        words.push(one_of(&choices));
    }
    for (key, tags) in kinds {
        words.push(format!("a table with {key} = {}", one_of(&tags)));
    }
    words.extend(tables);
    words.dedup();
    if words.is_empty() { "nothing".to_owned() } else { words.join(", or ") }
}

/// Texts of which one is meant: `"a", "b" or "c"`.
pub(super) fn one_of(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote_text(text)).collect();
    list(&quoted)
}

/// The keys a table may have.
pub(super) fn keys(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quote(name)).collect();
    match quoted.as_slice() {
        [] => "no keys at all".to_owned(),
        [one] => format!("the key {one}"),
        _ => format!("the keys {}", list(&quoted)),
    }
}

fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// The key of a table that says which alternative it is, and the values it may have.
pub(super) fn tag<'a>(shape: &Shape<'a>) -> Option<(&'a str, Vec<&'a str>)> {
    let required = shape.required();
    shape.properties().into_iter().filter(|name| required.contains(name)).find_map(|name| {
        let choices = shape.property(name)?.choices();
        // More than one: an ordinary choice that happens to be required.
        (choices.len() == 1).then_some((name, choices))
    })
}

fn table(shape: &Shape<'_>) -> String {
    let names = shape.properties();
    match shape.extra() {
        Extra::Each(each) if names.is_empty() && each.is_any() => "a table".to_owned(),
        Extra::Each(each) if names.is_empty() => format!("a table of names, each with {}", allowed(&each)),
        _ => format!("a table with {}", keys(&names)),
    }
}

/// An alternative that is neither a table nor a choice.
fn plain(shape: &Shape<'_>) -> String {
    if shape.is_any() {
        "any value".to_owned()
    } else if shape.takes("array") {
        list_of(shape)
    } else if shape.takes("string") {
        text(shape)
    } else if shape.takes("boolean") {
        "true or false".to_owned()
    } else {
        number(shape)
    }
}

/// A number and its range.
pub(super) fn number(shape: &Shape<'_>) -> String {
    let noun = if shape.is_whole() { "a whole number" } else { "a finite number" };
    match (shape.minimum(), shape.maximum()) {
        (None, None) => noun.to_owned(),
        (Some(low), None) if low.open => format!("{noun} above {}", low.value),
        (Some(low), None) => format!("{noun}, {} or more", low.value),
        (None, Some(high)) if high.open => format!("{noun} below {}", high.value),
        (None, Some(high)) => format!("{noun}, {} or less", high.value),
        (Some(low), Some(high)) => format!("{noun} {}", range(low, high)),
    }
}

fn range(low: Bound, high: Bound) -> String {
    let (start, end) = (low.value, high.value);
    match (low.open, high.open) {
        (false, false) => format!("from {start} to {end}"),
        (true, false) => format!("above {start} and at most {end}"),
        (false, true) => format!("from {start} to below {end}"),
        (true, true) => format!("above {start} and below {end}"),
    }
}

/// A text and its length.
pub(super) fn text(shape: &Shape<'_>) -> String {
    match (shape.count("minLength"), shape.count("maxLength")) {
        (None | Some(0), None) => "a text".to_owned(),
        (Some(1), None) => "a text that is not empty".to_owned(),
        (low, high) => format!("a text of {}", count(low, high, "character")),
    }
}

/// A list, its length, and what its elements are.
pub(super) fn list_of(shape: &Shape<'_>) -> String {
    let (low, high) = (shape.count("minItems"), shape.count("maxItems"));
    let length = match (low, high) {
        (None | Some(0), None) => String::new(),
        _ => format!(" of {}", count(low, high, "element")),
    };
    match shape.item(0) {
        Some(item) if !item.is_any() => format!("a list{length}, each {}", short(&item)),
        _ => format!("a list{length}"),
    }
}

/// An element of a list, without going into tables.
fn short(shape: &Shape<'_>) -> String {
    let alternatives = shape.alternatives();
    let all_tables = alternatives.iter().all(|shape| shape.takes("object") && tag(shape).is_none());
    if all_tables { "a table".to_owned() } else { any_of(&alternatives) }
}

fn count(low: Option<u64>, high: Option<u64>, noun: &str) -> String {
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    match (low.unwrap_or(0), high) {
        (low, None) => format!("at least {low} {noun}{}", plural(low)),
        (low, Some(high)) if low == high => format!("{low} {noun}{}", plural(low)),
        (0, Some(high)) => format!("at most {high} {noun}{}", plural(high)),
        (low, Some(high)) => format!("{low} to {high} {noun}s"),
    }
}

/// A text as it would be written for a key's value, for hints.
pub(super) fn in_quotes(text: &str) -> String {
    if is_bare(text) { format!("\"{text}\"") } else { quote_text(text) }
}
