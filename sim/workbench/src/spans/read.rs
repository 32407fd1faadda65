//! Reads `spans.json` back: the records are in the arguments of the events, in the order in which they
//! were written.

use super::chrome::{ATTEMPT, DECISION, NOTE, REQUEST, SPAN};
use super::{FILE, Followed, Origin};
use crate::inputs::irregular;
use forebay_model::spans::{AttemptSpans, RequestSpans};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Why a request's spans cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpansError {
    /// There is no such folder.
    #[error("{}: there is no such folder; a run folder is what `forebay run SCENARIO --out DIR` writes", .0.display())]
    NoFolder(PathBuf),
    /// The folder holds no spans.
    #[error(
        "{}: the folder holds no {FILE}; `forebay run SCENARIO --trace-requests N --out DIR` writes it",
        .0.display()
    )]
    NoSpans(PathBuf),
    /// The file cannot be read.
    #[error("{}: the spans cannot be read: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The request was not followed.
    #[error(
        "request {request} is not among the {followed} that were traced, of {offered}{}; without \
         --request they are listed, and a larger --trace-requests traces more",
        nearest(.near)
    )]
    NotFollowed {
        /// Its number.
        request: u64,
        /// How many were followed.
        followed: usize,
        /// How many there were.
        offered: u64,
        /// The nearest of those that were.
        near: Vec<u64>,
    },
}

fn nearest(near: &[u64]) -> String {
    let near: Vec<String> = near.iter().map(u64::to_string).collect();
    if near.is_empty() { String::new() } else { format!(": the nearest are {}", near.join(", ")) }
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "otherData")]
    origin: Origin,
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: String,
    #[serde(default)]
    args: Value,
}

/// Reads the spans of a run folder.
///
/// # Errors
/// See [`SpansError`].
pub fn read(folder: &Path) -> Result<Followed, SpansError> {
    if !folder.is_dir() {
        return Err(SpansError::NoFolder(folder.to_owned()));
    }
    let path = folder.join(FILE);
    if path.symlink_metadata().is_err() {
        return Err(SpansError::NoSpans(folder.to_owned()));
    }
    let unreadable = |why: String| SpansError::Unreadable { path: path.clone(), why };
    irregular(&path).map_err(|why| unreadable(why.to_owned()))?;
    let text = std::fs::read_to_string(&path).map_err(|cause| unreadable(cause.to_string()))?;
    parse(&text).map_err(unreadable)
}

/// Requests from the text of `spans.json`; the error says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Followed, String> {
    let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut requests: Vec<RequestSpans> = Vec::new();
    for (index, Event { cat, args }) in file.events.into_iter().enumerate() {
        place(&mut requests, &cat, args).map_err(|why| format!("event {index}: {why}"))?;
    }
    if !requests.is_sorted_by(|a, b| a.request < b.request) {
        return Err("the requests are not in order of birth".to_owned());
    }
    Ok(Followed { origin: file.origin, requests })
}

/// Puts the record of an event where it belongs: to the last request, or to its last attempt.
fn place(requests: &mut Vec<RequestSpans>, cat: &str, args: Value) -> Result<(), String> {
    match cat {
        REQUEST => requests.push(record(args)?),
        ATTEMPT => requests.last_mut().ok_or("it belongs to no request")?.attempts.push(record(args)?),
        SPAN => attempt(requests)?.spans.push(record(args)?),
        DECISION => attempt(requests)?.decisions.push(record(args)?),
        NOTE => attempt(requests)?.notes.push(record(args)?),
        // Names of tracks, and what other programs may have added.
        _ => {}
    }
    Ok(())
}

fn attempt(requests: &mut [RequestSpans]) -> Result<&mut AttemptSpans, String> {
    let attempt = requests.last_mut().and_then(|request| request.attempts.last_mut());
    attempt.ok_or_else(|| "it belongs to no attempt".to_owned())
}

fn record<T: DeserializeOwned>(args: Value) -> Result<T, String> {
    serde_json::from_value(args).map_err(|error| error.to_string())
}
