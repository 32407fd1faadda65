//! The modules of a policy, and how each is switched off.
//!
//! They are read from the policy itself, as what differs from a policy that does nothing. A list of them was
//! the alternative; it would have to be kept in step with the policies.

use forebay_model::document::Setting;
use forebay_policies::Policy;
use serde_json::{Map, Value};

/// A way to switch a module off.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Switch {
    pub(super) path: String,
    /// What takes its place; absent: nothing.
    pub(super) replacement: Option<String>,
    /// How it is switched off, in words.
    pub(super) how: &'static str,
}

/// Nothing takes its place.
pub(super) const TAKEN_OUT: &str = "taken out";

impl Switch {
    pub(super) fn setting(&self) -> Setting {
        match &self.replacement {
            Some(value) => Setting::new(&self.path, value),
            None => Setting::without(&self.path),
        }
    }
}

/// All modules of a policy, in its order.
pub(super) fn switches(policy: &Policy) -> Vec<Switch> {
    let json = |policy: &Policy| serde_json::to_value(policy).unwrap_or(Value::Null);
    let (here, nothing) = (json(policy), json(&Policy::default()));
    let mut switches = Vec::new();
    walk(&here, &nothing, "policy", &mut switches);
    for switch in &mut switches {
        if switch.path == QUEUE
            && let Some(plain) = here.get("queue").and_then(plain_queue)
        {
            (switch.replacement, switch.how) = (Some(plain), "first come, first served");
        }
    }
    switches
}

/// The module that is replaced.
const QUEUE: &str = "policy.queue";

/// Collects the tables in which a policy differs from one that does nothing: each is a module, unless what
/// differs in it are tables again, which then are the modules. A single value that differs beside such
/// tables is a setting of theirs.
fn walk(here: &Value, nothing: &Value, path: &str, switches: &mut Vec<Switch>) {
    if here == nothing {
        return;
    }
    let how = if is_off(nothing) { TAKEN_OUT } else { "at its defaults" };
    let module = Switch { path: path.to_owned(), replacement: None, how };
    let (Value::Object(entries), Value::Object(defaults)) = (here, nothing) else {
        return switches.push(module);
    };
    let differs = |(key, value): &(&String, &Value)| defaults.get(*key) != Some(value);
    let inner: Vec<(&String, &Value)> =
        entries.iter().filter(differs).filter(|(_, v)| is_module(v)).collect();
    if inner.is_empty() {
        return switches.push(module);
    }
    for (key, value) in inner {
        let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let key_in_path = if plain { key.clone() } else { format!("\"{key}\"") };
        walk(value, defaults.get(key).unwrap_or(&Value::Null), &format!("{path}.{key_in_path}"), switches);
    }
}

/// A table, or a list: of rules, or of the names of rules.
fn is_module(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

/// Whether a default does nothing: it has no value but 0 and `false`.
fn is_off(default: &Value) -> bool {
    match default {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.values().all(is_off),
    }
}

/// The queue that takes the place of one that sorts: first come first served within the same limits. `None`
/// for one that does not sort: it is taken out.
fn plain_queue(queue: &Value) -> Option<String> {
    const LIMITS: [&str; 2] = ["max_length", "max_wait_s"];
    let entries: &Map<String, Value> = queue.as_object()?;
    if entries.get("kind")?.as_str()? == "fifo" {
        return None;
    }
    let limit =
        |name: &&str| entries.get(*name).filter(|value| value.is_number()).map(|v| format!(", {name} = {v}"));
    let limits: String = LIMITS.iter().filter_map(limit).collect();
    Some(format!("{{ kind = \"fifo\"{limits} }}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(file: &str) -> Policy {
        toml::from_str(file).unwrap()
    }

    #[test]
    fn the_modules_are_those_of_the_policy() {
        assert_eq!(switches(&Policy::default()), []);
        let file = "
            admission.a = { kind = 'fixed_rate', limit = 1 }
            admission.b = { kind = 'fixed_rate', limit = 2 }
            queue = { kind = 'fifo' }
            [fallback]
            least_dwell_s = 3
            l2.vram_above = 0.8
            rerank = {}
            cache_last_resort = {}
            class.s0 = { min_level = 'l2' }
            [signals.vram]
            filter = { kind = 'sliding_mean', window_s = 30 }
            [feedback]
            presets = ['c1']
            guard = { cooldown_s = 3 }
            [feedback.setpoints.vram]
            signal = 'vram'
            target = 0.8
            parameter = 'admission.a.limit'
            least = 1
            most = 9
            kp = 1
        ";
        let found = switches(&policy(file));
        let found: Vec<(&str, &str)> =
            found.iter().map(|switch| (switch.path.as_str(), switch.how)).collect();
        assert_eq!(
            found,
            [
                ("policy.admission.a", TAKEN_OUT),
                ("policy.admission.b", TAKEN_OUT),
                ("policy.queue", TAKEN_OUT),
                ("policy.fallback.l2", TAKEN_OUT),
                ("policy.fallback.class.s0", "at its defaults"),
                ("policy.fallback.rerank", TAKEN_OUT),
                ("policy.fallback.cache_last_resort", TAKEN_OUT),
                ("policy.signals.vram.filter", "at its defaults"),
                ("policy.feedback.guard", "at its defaults"),
                ("policy.feedback.presets", TAKEN_OUT),
                ("policy.feedback.setpoints.vram", TAKEN_OUT),
            ]
        );
    }

    #[test]
    fn a_queue_that_sorts_becomes_one_that_does_not() {
        let queue = |file: &str| switches(&policy(file)).remove(0).replacement;
        assert_eq!(queue("queue = { kind = 'fifo', max_length = 3 }"), None);
        assert_eq!(
            queue("queue = { kind = 'strict_priority', max_length = 3, aging_s = 2 }").as_deref(),
            Some("{ kind = \"fifo\", max_length = 3 }")
        );
    }
}
