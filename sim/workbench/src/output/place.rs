//! The place of a result folder: its plain path, and whether what is there is a result of ours.
//!
//! The manifest alone was not enough: browser extensions and web pages have a `manifest.json` too. A folder is
//! ours when its manifest is, and when it holds nothing that we do not write.

use super::OutputError;
use std::path::{Path, PathBuf};

/// The file by which a folder is known as one of ours.
pub(super) const MANIFEST: &str = "manifest.json";
/// All that we write into result folders. A folder with anything else in it is not ours to delete.
const FILES: &[&str] = &[
    MANIFEST,
    "scenario.toml",
    "summary.json",
    "findings.json",
    "timeline.parquet",
    "marks.parquet",
    super::REQUESTS,
    "ablation.json",
    "capacity.json",
    "check.json",
    "params.json",
    "evidence.json",
    "trials.parquet",
    "tuned.toml",
    "tuned-scenario.toml",
    "spans.json",
];

/// The path without a `.` or a slash at its end, which renaming could not follow.
pub(super) fn named(target: &Path) -> Result<PathBuf, OutputError> {
    match (target.file_name(), target.parent()) {
        (Some(name), Some(above)) => Ok(above.join(name)),
        _ => Err(OutputError::NoName(target.to_owned())),
    }
}

/// The empty path is the present folder.
pub(super) fn or_present(path: &Path) -> PathBuf {
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path.to_owned() }
}

/// Whether what is at the target, if anything, may be replaced.
pub(super) fn replaceable(target: &Path, force: bool) -> Result<(), OutputError> {
    let Ok(there) = target.symlink_metadata() else { return Ok(()) };
    if !force {
        return Err(OutputError::Exists(target.to_owned()));
    }
    let foreign = if there.is_symlink() {
        Some("is a symbolic link".to_owned())
    } else if there.is_dir() {
        foreign(target)
    } else {
        Some("is no folder".to_owned())
    };
    foreign.map_or(Ok(()), |why| Err(OutputError::NotOurs { path: target.to_owned(), why }))
}

/// By what a folder is known not to be a result of ours; an empty one is nobody's.
fn foreign(folder: &Path) -> Option<String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Some("cannot be read".to_owned()) };
    let mut empty = true;
    for entry in entries {
        let Ok(entry) = entry else { return Some("cannot be read".to_owned()) };
        empty = false;
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|name| FILES.contains(&name));
        if !ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Some(format!("holds `{}`, which is no result", name.to_string_lossy()));
        }
    }
    if empty {
        return None;
    }
    let text = std::fs::read_to_string(folder.join(MANIFEST)).unwrap_or_default();
    let manifest: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let ours = manifest.is_some_and(|manifest| manifest.get("forebay").is_some());
    (!ours).then(|| format!("holds no {MANIFEST} of ours"))
}

/// Removes a result folder: our files by their names, and then the folder, which must be empty.
pub(super) fn remove(folder: &Path) -> std::io::Result<()> {
    for name in FILES {
        match std::fs::remove_file(folder.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => (),
        }
    }
    std::fs::remove_dir(folder)
}
