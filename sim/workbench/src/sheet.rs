//! A calibration for people: where it comes from, its numbers with units and standard errors, what was
//! measured, how far off it is, and the fit against data.
//!
//! The lines are made from the file as it stands, by the words of its keys, so that a calibration of a new kind
//! is shown without a line here; only a plot against data needs to know the kind.

mod plots;

use forebay_datasets::bundled;
use forebay_datasets::fit::Calibration;
use serde::Serialize;
use std::path::Path;
use toml::{Table, Value};

pub use plots::{Plot, against};

use crate::inputs::{irregular, nearest};
use crate::show::number;

/// A calibration as people read it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// Its bundled name, or its path.
    pub name: String,
    /// Its kind, as the file says.
    pub kind: String,
    /// What its file says at its head.
    pub head: Vec<String>,
    /// Origin: data, licence, date.
    pub source: Vec<Line>,
    /// Settings that were not fitted.
    pub settings: Vec<Line>,
    /// What was fitted, with standard errors.
    pub coefficients: Vec<Line>,
    /// The run that was measured.
    pub run: Vec<Line>,
    /// Smallest and largest of what was measured.
    pub range: Vec<Line>,
    /// Errors, on what the fit saw and on what it did not.
    pub errors: Vec<Line>,
    /// Curves that the file holds by their points.
    pub curves: Vec<Plot>,
}

/// A key and its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Line {
    /// The key, with the tables it stands in.
    pub key: String,
    /// The value.
    pub value: String,
    /// Its unit, as the key says; may be empty.
    pub unit: String,
    /// Its standard error, where the file gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<String>,
}

/// Why a calibration could not be shown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SheetError {
    /// Neither a bundled calibration nor a file.
    #[error("there is no bundled calibration and no file `{name}`{hint}\n  bundled: {}", .bundled.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, as a question; may be empty.
        hint: String,
        /// The names there are.
        bundled: Vec<String>,
    },
    /// The file cannot be read.
    #[error("{name}: the calibration cannot be read: {cause}")]
    File {
        /// The file.
        name: String,
        /// Why.
        cause: String,
    },
    /// It is no calibration.
    #[error("{name}: {place}this is no calibration: {what}")]
    Malformed {
        /// The file.
        name: String,
        /// The line, where it is known.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The data do not fit the calibration.
    #[error("{0}")]
    Data(String),
}

/// Reads a calibration by its bundled name or by its path.
///
/// # Errors
/// There is none, or it is malformed: see [`SheetError`].
pub fn open(name_or_path: &str) -> Result<(Calibration, Sheet), SheetError> {
    let path = Path::new(name_or_path);
    let text = match bundled::calibration(name_or_path) {
        Some(text) => text.to_owned(),
        None if !path.exists() && path.components().count() <= 1 && path.extension().is_none() => {
            return Err(unknown(name_or_path));
        }
        None => {
            let failed = |cause: String| SheetError::File { name: name_or_path.to_owned(), cause };
            irregular(path).map_err(|why| failed(why.to_owned()))?;
            std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?
        }
    };
    let malformed = |error: toml::de::Error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].split('\n').count());
        let place = line.map_or_else(String::new, |line| format!("line {line}: "));
        SheetError::Malformed { name: name_or_path.to_owned(), place, what: error.message().to_owned() }
    };
    let calibration = Calibration::parse(&text).map_err(malformed)?;
    let table: Table = toml::from_str(&text).map_err(malformed)?;
    Ok((calibration, Sheet::of(name_or_path, &text, &table)))
}

fn unknown(name: &str) -> SheetError {
    let bundled: Vec<String> = bundled::calibration_names().map(str::to_owned).collect();
    let hint =
        nearest(name, bundled.iter().map(String::as_str)).map(|near| format!("; did you mean `{near}`?"));
    SheetError::Unknown { name: name.to_owned(), hint: hint.unwrap_or_default(), bundled }
}

impl Sheet {
    fn of(name: &str, text: &str, table: &Table) -> Self {
        let head = text.lines().take_while(|line| line.starts_with('#'));
        let head = head
            .map(|line| line.trim_start_matches('#').trim_end().strip_prefix(' ').unwrap_or("").to_owned());
        let kind = table.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut sheet = Self {
            name: name.to_owned(),
            kind,
            head: head.collect(),
            source: Vec::new(),
            settings: Vec::new(),
            coefficients: Vec::new(),
            run: Vec::new(),
            range: Vec::new(),
            errors: Vec::new(),
            curves: Vec::new(),
        };
        sheet.walk(&mut Vec::new(), table);
        let mut errors = Vec::new();
        standard_errors(table, &mut errors);
        for line in &mut sheet.coefficients {
            let own =
                errors.iter().find(|(key, _)| line.key == *key || line.key.ends_with(&format!(".{key}")));
            if let (None, Some((_, error))) = (&line.standard_error, own) {
                line.standard_error = Some(number(*error));
            }
        }
        sheet
    }

    fn walk(&mut self, path: &mut Vec<String>, table: &Table) {
        for (key, value) in table {
            if path.is_empty() && key == "kind" {
                continue;
            }
            path.push(key.clone());
            self.value(path, value);
            path.pop();
        }
    }

    fn value(&mut self, path: &mut Vec<String>, value: &Value) {
        let key = path.join(".");
        match value {
            Value::Table(_) if path.iter().any(|part| is_standard_errors(part)) => {}
            Value::Table(table) if table.get("value").is_some_and(is_number) => {
                let error = table.get("standard_error").and_then(float).map(number);
                let shown = table.get("value").map_or_else(String::new, shown);
                self.add(path, Line { unit: unit(path), key, value: shown, standard_error: error });
            }
            Value::Table(table) => {
                if let Some(plot) = plots::of_points(&key, table) {
                    self.curves.push(plot);
                }
                self.walk(path, table);
            }
            Value::Array(items) if items.iter().any(Value::is_table) => {
                for (index, item) in items.iter().enumerate() {
                    let Value::Table(table) = item else { continue };
                    let name = ["name", "parameter"].iter().find_map(|key| table.get(*key)?.as_str());
                    path.push(name.map_or_else(|| index.to_string(), str::to_owned));
                    self.value(path, item);
                    path.pop();
                }
            }
            // Points of curves are plotted.
            Value::Array(items) if items.iter().any(Value::is_array) => {}
            _ => {
                let line = Line { unit: unit(path), value: shown(value), key, standard_error: None };
                self.add(path, line);
            }
        }
    }

    fn add(&mut self, path: &[String], line: Line) {
        let within = |words: &[&str]| path.iter().any(|part| words.contains(&part.as_str()));
        let last = path.last().map_or("", String::as_str);
        let is_error =
            within(&["errors", "error"]) || ["_error", "_worst"].iter().any(|end| last.ends_with(end));
        let fitted = line.value.parse::<f64>().is_ok()
            && (within(&["cost", "fit", "coefficients"]) || path.len() == 1);
        let place = if within(&["source"]) {
            &mut self.source
        } else if is_error {
            &mut self.errors
        } else if within(&["range", "ranges"]) || line.value.contains(" to ") {
            &mut self.range
        } else if within(&["run"]) {
            &mut self.run
        } else if line.standard_error.is_some() || (fitted && last != "gpus") {
            &mut self.coefficients
        } else {
            &mut self.settings
        };
        place.push(line);
    }
}

/// The numbers of tables that hold standard errors, by the key they are of.
fn standard_errors(table: &Table, found: &mut Vec<(String, f64)>) {
    for (key, value) in table {
        match value {
            Value::Table(inner) if is_standard_errors(key) => {
                found.extend(inner.iter().filter_map(|(key, value)| Some((key.clone(), float(value)?))));
            }
            Value::Table(inner) => standard_errors(inner, found),
            _ => {}
        }
    }
}

fn is_standard_errors(key: &str) -> bool {
    matches!(key, "standard_errors" | "standard_error")
}

fn is_number(value: &Value) -> bool {
    matches!(value, Value::Integer(_) | Value::Float(_))
}

fn float(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Float(value) => compact(*value),
        Value::Array(items) => match items.as_slice() {
            [least, most] if is_number(least) && is_number(most) => {
                format!("{} to {}", shown(least), shown(most))
            }
            items => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        },
        other => other.to_string(),
    }
}

/// As the file has it, but small numbers by their exponent.
fn compact(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 { format!("{value:e}") } else { value.to_string() }
}

/// How keys end that name a unit.
const ENDS: [(&str, &str); 9] = [
    ("_s", "s"),
    ("_ms", "ms"),
    ("_w", "W"),
    ("_j", "J"),
    ("_gb", "GB"),
    ("_bytes", "B"),
    ("_blocks", "blocks"),
    ("_tokens", "tokens"),
    ("_share", "share"),
];

/// The unit that a key names.
fn unit(path: &[String]) -> String {
    let last = path.last().map_or("", String::as_str);
    let within = |word: &str| path.iter().any(|part| part == word);
    let by_end = ENDS.iter().find(|(end, _)| last.ends_with(end)).map(|(_, unit)| *unit);
    let is_error = within("errors") || last.ends_with("_error") || last.ends_with("_worst");
    let unit = if is_error {
        "%"
    } else {
        by_end.unwrap_or(if last.starts_with("tokens_") { "tokens" } else { "" })
    };
    unit.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.key.as_str()).collect()
    }

    #[test]
    fn a_bundled_engine_is_shown_with_all_that_is_known_of_it() {
        let (_, sheet) = open("vllm-rtx4090-llama-3.1-8b").unwrap();
        assert_eq!(sheet.kind, "batching");
        assert!(sheet.head[0].contains("RTX 4090"));
        assert_eq!(keys(&sheet.source), ["source.data", "source.license", "source.fitted"]);
        let c0 = &sheet.coefficients[0];
        assert_eq!(
            (c0.key.as_str(), c0.value.as_str(), c0.unit.as_str()),
            ("engine.cost.c0_s", "0.01927", "s")
        );
        assert!(keys(&sheet.settings).contains(&"engine.kv_blocks"));
        assert!(keys(&sheet.range).contains(&"range.running"));
        assert!(sheet.range.iter().any(|line| line.value == "262 to 3998" && line.unit == "tokens"));
        assert!(sheet.errors.iter().any(|line| line.key == "errors.held_out.ttft_mean" && line.unit == "%"));
    }

    #[test]
    fn every_bundled_calibration_is_shown() {
        for name in bundled::calibration_names() {
            let (_, sheet) = open(name).unwrap();
            // Facts of devices were not fitted.
            let has_errors = !sheet.errors.is_empty() || sheet.kind == "devices";
            assert!(!sheet.source.is_empty() && has_errors, "{name}: {sheet:?}");
        }
    }

    #[test]
    fn standard_errors_are_found_in_either_form() {
        let text = "kind = \"x\"\n[cost]\nc0_s = 0.5\n[cost.standard_errors]\nc0_s = 0.01\n\
                    [power]\nidle_w = { value = 80.0, standard_error = 1.5 }\n\
                    [curve]\npoints = [[1.0, 2.0], [2.0, 3.0]]\n";
        let sheet = Sheet::of("x", text, &toml::from_str(text).unwrap());
        let found: Vec<_> = sheet
            .coefficients
            .iter()
            .map(|l| (l.key.as_str(), l.standard_error.as_deref(), l.unit.as_str()))
            .collect();
        assert_eq!(found, [("cost.c0_s", Some("0.01"), "s"), ("power.idle_w", Some("1.5"), "W")]);
        assert_eq!(sheet.curves[0].points.len(), 2);
    }

    #[test]
    fn what_is_no_calibration_is_refused() {
        let error = open("vllm-rtx4090").unwrap_err().to_string();
        assert!(error.contains("did you mean `vllm-rtx4090-llama-3.1-8b`?"), "{error}");
        let scratch = crate::output::tests::Scratch::new("sheet");
        let path = scratch.join("x.toml");
        std::fs::write(&path, "kind = \"batching\"\n[engine]\nspeed = 3\n").unwrap();
        let error = open(&path.display().to_string()).unwrap_err().to_string();
        assert!(error.contains("no calibration"), "{error}");
        assert!(open("no/such.toml").unwrap_err().to_string().contains("cannot be read"));
    }
}
