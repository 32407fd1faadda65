//! A scenario with everything it names: traces and calibrations come from the caller, because this
//! crate reads no files.

use super::{Scenario, Source, Stage, check};
use crate::document::{self, Problem, Setting};
use crate::llm::batching::BatchingConfig;
use crate::trace::{Columns, Trace};
use indexmap::IndexMap;
use std::sync::Arc;

/// What a scenario may name.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Traces, by the name that the scenario gives.
    pub traces: IndexMap<String, Arc<Trace>>,
    /// Engine calibrations, by name.
    pub calibrations: IndexMap<String, BatchingConfig>,
}

/// A scenario that has been read, checked and given what it names: ready to run.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The scenario, complete.
    pub scenario: Scenario,
    /// What it names.
    pub inputs: Inputs,
    /// The complete scenario as a TOML file.
    pub resolved: String,
    /// Hash of the complete scenario.
    pub hash: String,
}

/// Names of traces and calibrations that a scenario needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Trace names or paths, and which of their columns mean what.
    pub traces: Vec<(String, Columns)>,
    /// Calibration names.
    pub calibrations: Vec<String>,
}

impl Scenario {
    /// What it names and does not hold.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        for source in self.workload.sources.values() {
            if let Source::Trace { trace, columns, .. } = source {
                needs.traces.push((trace.clone(), columns.clone().unwrap_or_default()));
            }
        }
        for stage in self.stages.values() {
            if let Stage::LlmBatching(batching) = stage {
                needs.calibrations.extend(batching.calibration.clone());
            }
        }
        needs
    }
}

impl Loaded {
    /// Reads and checks a scenario; `fetch` brings what it names.
    ///
    /// # Errors
    /// Everything that is wrong, each with file, line and column, what was found and what is allowed.
    pub fn read(
        source: &document::Source,
        settings: &[Setting],
        fetch: impl FnOnce(&Needs) -> Result<Inputs, Vec<(String, String)>>,
    ) -> Result<Self, Vec<Problem>> {
        let document = document::read::<Scenario>(source, settings)?;
        let problems = check::check(&document);
        if !problems.is_empty() {
            return Err(problems);
        }
        let inputs = fetch(&document.value.needs()).map_err(|missing| {
            missing
                .into_iter()
                .map(|(name, why)| check::unknown_input(&document, &name, &why))
                .collect::<Vec<_>>()
        })?;
        let problems = check::check_inputs(&document, &inputs);
        if !problems.is_empty() {
            return Err(problems);
        }
        let resolved = document.resolved_toml();
        let hash = hash(&resolved);
        Ok(Self { scenario: document.value, inputs, resolved, hash })
    }
}

/// A fingerprint of a text: 128 bits, not cryptographic.
pub fn hash(text: &str) -> String {
    let mut digest = crate::outcome::Digest::EMPTY;
    for chunk in text.as_bytes().chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        digest.fold(u64::from_le_bytes(word));
    }
    digest.fold(text.len() as u64);
    digest.hex()
}
