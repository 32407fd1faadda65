//! Files as tools write them, and files as nobody does.

mod engines;
mod logs;
mod malformed;
mod telemetry;

use super::*;
use crate::recording::Sample;

/// Imports a text; the kind is told by its content unless the options say it.
#[track_caller]
fn imported(text: &str, options: &Options) -> (Imported, Report) {
    import_bytes("file", None, text.as_bytes(), options).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn samples(text: &str, options: &Options) -> (Vec<Sample>, Report) {
    match imported(text, options) {
        (Imported::Recording(telemetry), report) => (telemetry.samples().collect(), report),
        other => panic!("no recording: {other:?}"),
    }
}

#[track_caller]
fn engines(text: &str, options: &Options) -> (Vec<EngineSample>, Report) {
    match imported(text, options) {
        (Imported::Engines(samples), report) => (samples, report),
        other => panic!("no engine series: {other:?}"),
    }
}

#[track_caller]
fn log(text: &str, options: &Options) -> (RequestLog, Report) {
    match imported(text, options) {
        (Imported::Requests(log), report) => (log, report),
        other => panic!("no request log: {other:?}"),
    }
}

#[track_caller]
fn refused(text: &str, options: &Options) -> String {
    match import_bytes("file", None, text.as_bytes(), options) {
        Err(error) => error.to_string(),
        Ok((imported, _)) => panic!("it was read: {imported:?}"),
    }
}

/// What was dropped: reason, count and first place.
fn dropped(report: &Report) -> Vec<(&str, u64, &str)> {
    report.dropped.iter().map(|note| (note.what.as_str(), note.count, note.first.as_str())).collect()
}

fn remarks(report: &Report) -> String {
    let told = report.remarks.iter().map(|note| format!("{} ({})", note.what, note.first));
    told.collect::<Vec<_>>().join("\n")
}
