//! Opens a scenario by the name of a bundled one or by path, and brings what it names.
//!
//! A trace or a calibration is looked for among the bundled ones first. It may also be a file; its path
//! counts from the folder of the scenario, so that a scenario and what it names move together.

use forebay_datasets::fit::Calibration;
use forebay_datasets::{Columns, bundled, read_trace};
use forebay_model::document::{Problem, Setting, Source};
use forebay_model::llm::batching::BatchingConfig;
use forebay_model::scenario::load::{Measured, Needs};
use forebay_model::scenario::{Inputs, Loaded};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A scenario ready to run, which can be read again with other settings.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The scenario with all it names.
    pub loaded: Loaded,
    source: Source,
    settings: Vec<Setting>,
    /// Where paths of traces count from.
    folder: PathBuf,
}

/// Why a scenario could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Neither a bundled scenario nor a file.
    #[error("there is no bundled scenario and no file `{name}`{hint}\n  bundled: {}", .bundled.join(", "))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest name, as a question; may be empty.
        hint: String,
        /// The names there are.
        bundled: Vec<String>,
    },
    /// The file cannot be opened.
    #[error("{}: the scenario cannot be opened: {cause}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// The scenario is wrong.
    #[error("{}", lines(.0))]
    Problems(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n")
}

impl From<Vec<Problem>> for OpenError {
    fn from(problems: Vec<Problem>) -> Self {
        Self::Problems(problems)
    }
}

/// Opens a scenario by the name of a bundled one or by path. What ends in `.toml` or has a folder in it
/// is a path; any other text is first looked for among the bundled names.
///
/// # Errors
/// There is none, it cannot be read, or it is wrong: see [`OpenError`].
pub fn open(name_or_path: &str, settings: &[Setting]) -> Result<Opened, OpenError> {
    let path = Path::new(name_or_path);
    let looks_like_path =
        path.components().count() > 1 || path.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    if !looks_like_path && let Some(text) = bundled::scenario(name_or_path) {
        return Opened::read(Source::new(name_or_path, text), settings.to_vec(), PathBuf::from("."));
    }
    if !looks_like_path && !path.exists() {
        return Err(unknown(name_or_path));
    }
    let failed = |cause| OpenError::File { path: path.to_owned(), cause };
    // Asked before opening: to open a pipe would wait for its other end.
    irregular(path).map_err(|why| failed(std::io::Error::other(why)))?;
    let file = File::open(path).map_err(failed)?;
    let source = Source::from_reader(name_or_path, file)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Opened::read(source, settings.to_vec(), folder)
}

/// Opens a scenario from a text. Traces that it names are bundled ones, or files whose paths count from
/// the present folder.
///
/// # Errors
/// The scenario is wrong.
pub fn open_text(name: &str, text: &str, settings: &[Setting]) -> Result<Opened, OpenError> {
    Opened::read(Source::new(name, text), settings.to_vec(), PathBuf::from("."))
}

impl Opened {
    fn read(source: Source, settings: Vec<Setting>, folder: PathBuf) -> Result<Self, OpenError> {
        let loaded = Loaded::read(&source, &settings, |needs| fetch(needs, &folder, &Inputs::default()))?;
        Ok(Self { loaded, source, settings, folder })
    }

    /// The same scenario with more settings, which win over those it has. What it names is not read again.
    ///
    /// # Errors
    /// The settings are wrong, or make the scenario so.
    pub fn with(&self, more: &[Setting]) -> Result<Self, OpenError> {
        let mut settings = self.settings.clone();
        settings.extend_from_slice(more);
        let loaded =
            Loaded::read(&self.source, &settings, |needs| fetch(needs, &self.folder, &self.loaded.inputs))?;
        Ok(Self { loaded, source: self.source.clone(), settings, folder: self.folder.clone() })
    }

    /// What the scenario goes by: the bundled name, or the path.
    pub fn source_name(&self) -> &str {
        &self.source.name
    }
}

/// Brings what a scenario names; what `known` has is not read again.
fn fetch(needs: &Needs, folder: &Path, known: &Inputs) -> Result<Inputs, Vec<(String, String)>> {
    let mut inputs = Inputs::default();
    let mut missing = Vec::new();
    for (name, columns) in &needs.traces {
        if inputs.traces.contains_key(name) {
            continue;
        }
        let trace = match known.traces.get(name) {
            Some(trace) => Ok(Arc::clone(trace)),
            None => trace(name, columns, folder).map(Arc::new),
        };
        match trace {
            Ok(trace) => drop(inputs.traces.insert(name.clone(), trace)),
            Err(why) => missing.push((name.clone(), why)),
        }
    }
    for name in &needs.calibrations {
        let calibration = match (known.calibrations.get(name), known.measured.get(name)) {
            (Some(calibration), Some(measured)) => Ok((calibration.clone(), *measured)),
            _ => engine_calibration(name, folder),
        };
        match calibration {
            Ok((calibration, measured)) => {
                inputs.calibrations.insert(name.clone(), calibration);
                inputs.measured.insert(name.clone(), measured);
            }
            Err(why) => missing.push((name.clone(), why)),
        }
    }
    if missing.is_empty() { Ok(inputs) } else { Err(missing) }
}

/// A trace by its bundled name or by its path; the error says what is allowed.
fn trace(name: &str, columns: &Columns, folder: &Path) -> Result<forebay_model::Trace, String> {
    let allowed = || {
        let names: Vec<&str> = bundled::traces().map(|trace| trace.name).collect();
        format!("the name of a bundled trace ({}), or a file beside the scenario", names.join(", "))
    };
    if let Some(trace) = bundled::trace(name) {
        return trace.read().map_err(|error| error.to_string());
    }
    let path = folder.join(name);
    irregular(&path).map_err(|why| format!("{}; {}: {why}", allowed(), path.display()))?;
    read_trace(&path, columns).map_err(|error| format!("{}; {error}", allowed()))
}

/// Most bytes of a calibration file; a real one has a few thousand.
const CALIBRATION_MAX: u64 = 1 << 20;

/// An engine's calibration by its bundled name or by its path, and what it was measured on; the error says
/// what is allowed.
fn engine_calibration(name: &str, folder: &Path) -> Result<(BatchingConfig, Measured), String> {
    let text = match bundled::calibration(name) {
        Some(text) => text.to_owned(),
        None => calibration_file(name, folder)?,
    };
    let calibration = Calibration::parse(&text)
        .map_err(|error| format!("a calibration that can be read: {}", error.message()))?;
    let other = || {
        let kind = calibration.kind();
        format!("a calibration of the kind `batching` or `phases`: this one is of the kind `{kind}`")
    };
    let engine = calibration.engine().cloned().ok_or_else(&other)?;
    let range = calibration.engine_range().ok_or_else(other)?;
    engine.check().map_err(|error| format!("a calibration within its ranges: {error}"))?;
    let measured =
        Measured { running: range.running, tokens_in: range.tokens_in, tokens_out: range.tokens_out };
    Ok((engine, measured))
}

/// A calibration file, by a path that counts from the folder of the scenario.
fn calibration_file(name: &str, folder: &Path) -> Result<String, String> {
    let names: Vec<&str> = bundled::calibration_names().collect();
    let allowed =
        format!("the name of a bundled calibration ({}), or a file beside the scenario", names.join(", "));
    let path = folder.join(name);
    let failed = |why: &dyn std::fmt::Display| format!("{allowed}; {}: {why}", path.display());
    irregular(&path).map_err(|why| failed(&why))?;
    let file = File::open(&path).map_err(|cause| failed(&cause))?;
    let mut text = String::new();
    let read = file.take(CALIBRATION_MAX + 1).read_to_string(&mut text).map_err(|cause| failed(&cause))?;
    if read as u64 > CALIBRATION_MAX {
        return Err(failed(&"it is too large for a calibration"));
    }
    Ok(text)
}

/// Refuses what is there and is no file: a folder, a pipe, a device. Opening or reading those could wait for
/// ever. What is not there is left to the opening to report.
///
/// # Errors
/// What it is.
pub fn irregular(path: &Path) -> Result<(), &'static str> {
    match path.metadata() {
        Ok(there) if there.is_dir() => Err("it is a folder"),
        Ok(there) if !there.is_file() => Err("it is no regular file"),
        _ => Ok(()),
    }
}

fn unknown(name: &str) -> OpenError {
    let bundled: Vec<String> = bundled::scenario_names().map(str::to_owned).collect();
    let hint = nearest(name, bundled.iter().map(String::as_str));
    OpenError::Unknown {
        name: name.to_owned(),
        hint: hint.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default(),
        bundled,
    }
}

/// The name that was most likely meant, if one is like it.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::MM1;

    #[test]
    fn a_text_opens_and_can_be_set_again() {
        let opened = open_text("mm1", MM1, &[]).unwrap();
        assert_eq!(opened.loaded.scenario.run.seed, 7);
        let changed = opened.with(&[Setting::new("run.seed", "9")]).unwrap();
        assert_eq!(changed.loaded.scenario.run.seed, 9);
        let again = changed.with(&[Setting::new("run.seed", "11")]).unwrap();
        assert_eq!(again.loaded.scenario.run.seed, 11);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = open("no-such-scenario", &[]).unwrap_err();
        assert!(matches!(error, OpenError::Unknown { .. }), "{error}");
        let error = open("no/such.toml", &[]).unwrap_err();
        assert!(matches!(error, OpenError::File { .. }), "{error}");
        let error = open(".", &[]).unwrap_err();
        assert!(!error.to_string().is_empty());
        if Path::new("/dev/null").exists() {
            let error = open("/dev/null", &[]).unwrap_err();
            assert!(error.to_string().contains("no regular file"), "{error}");
        }
    }

    #[test]
    fn a_trace_that_is_not_there_is_a_problem_at_its_line() {
        let text =
            MM1.replace("kind = \"poisson\"\nrate_per_s = 8.0", "kind = \"trace\"\ntrace = \"no-such.csv\"");
        let OpenError::Problems(problems) = open_text("mm1", &text, &[]).unwrap_err() else {
            panic!("the trace is not there");
        };
        assert_eq!(problems[0].path, "workload.sources.all.trace");
        assert!(problems[0].allowed.contains("azure-conversations"), "{}", problems[0]);
    }

    #[test]
    fn a_calibration_may_be_a_file() {
        let folder = std::env::temp_dir().join(format!("forebay-inputs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = bundled::calibration("vllm-rtx4090-llama-3.1-8b").unwrap();
        std::fs::write(folder.join("own.toml"), text).unwrap();
        std::fs::write(folder.join("broken.toml"), text.replace("max_seqs = 256", "max_seqs = 0")).unwrap();
        assert_eq!(engine_calibration("own.toml", &folder).unwrap().0.kv_blocks, 2588);
        let error = engine_calibration("broken.toml", &folder).unwrap_err();
        assert!(error.contains("max_seqs is 0"), "{error}");
        let error = engine_calibration("none.toml", &folder).unwrap_err();
        assert!(error.contains("bundled") && error.contains("none.toml"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_nearest_name_is_like_it() {
        let names = ["shop-peak", "rag-burst"];
        assert_eq!(nearest("shop-pek", names.into_iter()), Some("shop-peak"));
        assert_eq!(nearest("zzz", names.into_iter()), None);
    }
}
