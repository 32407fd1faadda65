//! Scenarios for tests: a text, some settings, and nothing to fetch.

use forebay_model::document::{Problem, Setting, Source};
use forebay_model::scenario::load::Needs;
use forebay_model::{Inputs, Loaded};

/// The bundled theory scenarios, by name.
pub const THEORY: [(&str, &str); 6] = [
    ("theory-mm1", include_str!("../datasets/scenarios/theory-mm1.toml")),
    ("theory-mmc", include_str!("../datasets/scenarios/theory-mmc.toml")),
    ("theory-mg1", include_str!("../datasets/scenarios/theory-mg1.toml")),
    ("theory-batch", include_str!("../datasets/scenarios/theory-batch.toml")),
    ("theory-priority", include_str!("../datasets/scenarios/theory-priority.toml")),
    ("theory-abandon", include_str!("../datasets/scenarios/theory-abandon.toml")),
];

/// The text of a bundled theory scenario.
///
/// # Panics
/// There is none of that name.
pub fn theory(name: &str) -> &'static str {
    THEORY.iter().find(|(known, _)| *known == name).expect("the name of a theory scenario").1
}

/// Reads a scenario from a text and settings `path=value`, with nothing to fetch.
///
/// # Errors
/// What is wrong with it.
///
/// # Panics
/// A setting has no `=`.
pub fn read<S: AsRef<str>>(name: &str, text: &str, settings: &[S]) -> Result<Loaded, Vec<Problem>> {
    let settings: Vec<Setting> =
        settings.iter().map(|s| Setting::parse(s.as_ref()).expect("path=value")).collect();
    Loaded::read(&Source::new(name, text), &settings, nothing)
}

/// Fetches nothing: a scenario that names a trace or a calibration is refused.
///
/// # Errors
/// Every name that is asked for.
pub fn nothing(needs: &Needs) -> Result<Inputs, Vec<(String, String)>> {
    let named: Vec<_> = needs.traces.iter().map(|(name, _)| name).chain(&needs.calibrations).collect();
    if named.is_empty() {
        return Ok(Inputs::default());
    }
    Err(named
        .into_iter()
        .map(|name| (name.clone(), "nothing is bundled with this test".to_owned()))
        .collect())
}

/// Problems as the command prints them, one after the other.
pub fn shown(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
