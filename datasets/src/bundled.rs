//! What is built into the crate: the bundled scenarios, calibrations and traces.
//!
//! They are in the program itself, so that the command works wherever it is installed. The lists are made
//! by the build script from the folders, sorted by name: a file dropped into a folder is bundled.

use forebay_model::trace::{Columns, Trace};

use crate::trace::{Format, ReadError, read_trace_bytes};

include!(concat!(env!("OUT_DIR"), "/bundled_files.rs"));

/// A trace that is built in.
#[derive(Clone, Copy, Debug)]
pub struct BundledTrace {
    /// What it is called in scenarios.
    pub name: &'static str,
    /// How its content is written.
    pub format: Format,
    /// The content of the file.
    pub bytes: &'static [u8],
    /// Where the data comes from, and under which licence it is passed on.
    pub notice: &'static str,
}

impl BundledTrace {
    /// Reads it.
    ///
    /// # Errors
    /// None for the files of this crate, which its tests read; the type is that of all readers.
    pub fn read(&self) -> Result<Trace, ReadError> {
        read_trace_bytes(self.name, self.format, self.bytes, &Columns::default())
    }
}

/// The text of a bundled scenario.
pub fn scenario(name: &str) -> Option<&'static str> {
    text(SCENARIOS, name)
}

/// The names of the bundled scenarios, sorted.
pub fn scenario_names() -> impl Iterator<Item = &'static str> {
    SCENARIOS.iter().map(|(name, _)| *name)
}

/// The text of a bundled calibration.
pub fn calibration(name: &str) -> Option<&'static str> {
    text(CALIBRATIONS, name)
}

/// The names of the bundled calibrations, sorted.
pub fn calibration_names() -> impl Iterator<Item = &'static str> {
    CALIBRATIONS.iter().map(|(name, _)| *name)
}

/// A bundled trace.
pub fn trace(name: &str) -> Option<BundledTrace> {
    TRACES.iter().find(|trace| trace.name == name).copied()
}

/// The bundled traces, sorted by name.
pub fn traces() -> impl Iterator<Item = BundledTrace> {
    TRACES.iter().copied()
}

fn text(list: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    list.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_trace_reads_and_names_its_licence() {
        let names: Vec<&str> = traces().map(|trace| trace.name).collect();
        assert_eq!(names, ["azure-conversations", "mooncake-conversations"]);
        for trace in traces() {
            assert_eq!(trace.read().unwrap().name(), trace.name);
            assert!(trace.notice.contains("Licence"), "{}", trace.name);
        }
    }

    #[test]
    fn the_azure_trace_is_the_published_one() {
        let summary = trace("azure-conversations").unwrap().read().unwrap().summary();
        assert_eq!(summary.requests, 19_366);
        assert_eq!(summary.duration_s, 3_501.721_937);
        // The published medians: 1020 tokens in and 129 out.
        assert_eq!((summary.tokens_in.p50, summary.tokens_out.p50), (1020, 129));
    }

    #[test]
    fn the_mooncake_trace_has_all_rows() {
        let summary = trace("mooncake-conversations").unwrap().read().unwrap().summary();
        assert_eq!((summary.requests, summary.duration_s), (12_031, 3_536.999));
    }

    #[test]
    fn lists_are_sorted_and_found_by_name() {
        assert!(scenario_names().is_sorted() && calibration_names().is_sorted());
        assert!(scenario_names().all(|name| scenario(name).is_some()));
        assert!(calibration_names().all(|name| calibration(name).is_some()));
        assert!(
            scenario("no such").is_none() && calibration("no such").is_none() && trace("no such").is_none()
        );
    }
}
