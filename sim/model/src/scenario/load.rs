//! A scenario with everything it names: traces and calibrations come from the caller, because this
//! crate reads no files.

use super::{Scenario, Source, Stage, check};
use crate::document::{self, Document, Problem, Setting, Variants};
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
    /// In which range each of these was measured, by the same name; the simulation itself has no use for it.
    pub measured: IndexMap<String, Measured>,
}

/// Smallest and largest of what a calibration was measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Sequences in the batch.
    pub running: [u32; 2],
    /// Prompt length, tokens.
    pub tokens_in: [u32; 2],
    /// Answer length, tokens.
    pub tokens_out: [u32; 2],
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
    /// Which variants the file has, and which of them this is.
    pub variants: Variants,
}

/// Names of traces and calibrations that a scenario needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Trace names or paths, and which of their columns mean what.
    pub traces: Vec<(String, Columns)>,
    /// Calibration names.
    pub calibrations: Vec<String>,
}

impl Needs {
    fn add(&mut self, more: Self) {
        for trace in more.traces {
            if !self.traces.contains(&trace) {
                self.traces.push(trace);
            }
        }
        for calibration in more.calibrations {
            if !self.calibrations.contains(&calibration) {
                self.calibrations.push(calibration);
            }
        }
    }

    fn names(&self, name: &str) -> bool {
        self.traces.iter().any(|(trace, _)| trace == name) || self.calibrations.iter().any(|c| c == name)
    }
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
        nothing(check::check(&document))?;
        let all: Vec<&Document<Scenario>> = std::iter::once(&document).chain(others(&document)?).collect();
        let mut needs = Needs::default();
        for document in &all {
            needs.add(document.value.needs());
        }
        let inputs = fetch(&needs).map_err(|missing| {
            let problem = |(name, why): (String, String)| {
                let needed = |document: &&&Document<Scenario>| document.value.needs().names(&name);
                check::unknown_input(all.iter().find(needed).unwrap_or(&&document), &name, &why)
            };
            missing.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        all.iter().try_for_each(|document| nothing(check::check_inputs(document, &inputs)))?;
        let resolved = document.resolved_toml();
        let hash = hash(&resolved);
        let variants = document.variants().clone();
        Ok(Self { scenario: document.value, inputs, resolved, hash, variants })
    }
}

/// The variants that were not chosen and have been checked; none where the file as written is right only
/// with the user's settings.
fn others(document: &Document<Scenario>) -> Result<&[Document<Scenario>], Vec<Problem>> {
    let others = document.others();
    let mut found = Vec::new();
    for other in others {
        let problems = check::check(other);
        if other.variants().chosen.is_none() && !problems.is_empty() {
            return Ok(&[]);
        }
        found.extend(problems);
    }
    nothing(found).map(|()| others)
}

fn nothing(problems: Vec<Problem>) -> Result<(), Vec<Problem>> {
    if problems.is_empty() { Ok(()) } else { Err(problems) }
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

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "small"
[run]
duration_s = 100
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 0.5
[workload.classes.question]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = 1.0
[variants.crowded.set]
workload.sources.crowd.rate_per_s = 2
"#;

    fn read(text: &str, settings: &[&str]) -> Result<Loaded, Vec<Problem>> {
        let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
        Loaded::read(&document::Source::new("small.toml", text), &settings, |needs| {
            let missing: Vec<_> =
                needs.traces.iter().map(|(name, _)| (name.clone(), "no traces here".to_owned())).collect();
            if missing.is_empty() { Ok(Inputs::default()) } else { Err(missing) }
        })
    }

    #[test]
    fn a_variant_resolves_to_a_scenario_without_variants() {
        let crowded = read(TEXT, &["variant=crowded", "run.seed=5"]).unwrap();
        assert_eq!(crowded.variants.chosen.as_deref(), Some("crowded"));
        let again = read(&crowded.resolved, &[]).unwrap();
        assert_eq!((&again.hash, &again.scenario), (&crowded.hash, &crowded.scenario));
        assert_eq!(again.variants, Variants::default());
        let [once, twice] = [&crowded, &again].map(|l| crate::simulate(l, 5, 0).unwrap().digest);
        assert_eq!(once, twice);
        assert_ne!(once, crate::simulate(&read(TEXT, &[]).unwrap(), 5, 0).unwrap().digest);
    }

    #[test]
    fn all_variants_are_held_to_all_that_must_hold() {
        for (set, path, found) in [
            ("workload.classes.question.endpoint = §\"aks\"", "workload.classes.question.endpoint", "aks"),
            ("run.warmup_s = §100", "run.warmup_s", "100"),
            ("\"endpoints.ask.l1\" = §[\"desk\", \"ask\"]", "endpoints.ask.l1", "cycle"),
            (
                "workload.sources.past = { kind = \"trace\", trace = §\"log\" }",
                "workload.sources.past.trace",
                "log",
            ),
        ] {
            // The mark says where the problem stands.
            let column = set.chars().position(|c| c == '§').unwrap() + 1;
            let set = &set.replace('§', "");
            let text = TEXT.replace("workload.sources.crowd.rate_per_s = 2", set);
            for settings in [&[][..], &["run.seed=2"]] {
                let problems = read(&text, settings).unwrap_err();
                let [problem] = &problems[..] else { panic!("{set}: {problems:?}") };
                assert_eq!((problem.line, problem.column, problem.path.as_str()), (16, column, path));
                assert!(problem.found.contains(found), "{problem}");
                assert!(
                    problem.hint.as_deref().unwrap_or("").ends_with("in the variant crowded"),
                    "{problem}"
                );
            }
        }
    }

    #[test]
    fn a_file_that_is_right_with_a_setting_only_is_read() {
        let text = TEXT.replace("l1 = [\"desk\"]", "l1 = [\"dsek\"]");
        let problems = read(&text, &["variant=crowded"]).unwrap_err();
        assert_eq!((problems.len(), problems[0].path.as_str()), (1, "endpoints.ask.l1"));
        assert!(read(&text, &["endpoints.ask.l1=[\"desk\"]", "variant=crowded"]).is_ok());
    }
}
