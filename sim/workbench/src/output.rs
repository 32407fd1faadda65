//! Result folders: written whole or not at all, and never over another one unasked.
//!
//! The files go into a hidden folder beside the target, which takes the target's name when all are there.

mod place;
mod tables;

use crate::VERSION;
use crate::run::Run;
use crate::spans;
use crate::summary::{ScenarioId, Summary};
use forebay_datasets::files::{FileError, write_whole};
use forebay_datasets::frames::{Table, TableError, write_parquet};
use forebay_model::scenario::Loaded;
use place::{MANIFEST, named, or_present, remove, replaceable};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tables::{marks, requests, timeline};

/// The file of a run folder with the run's requests, if they were asked for.
pub const REQUESTS: &str = "requests.parquet";

/// Why results were not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// There is something of this name already.
    #[error("{}: it exists already; --force replaces it, another --out leaves it", .0.display())]
    Exists(PathBuf),
    /// What is there is no result folder, and is not replaced.
    #[error("{}: --force replaces result folders only, and this {why}", .path.display())]
    NotOurs {
        /// What is there.
        path: PathBuf,
        /// By what it is known to be something else.
        why: String,
    },
    /// No folder can be made there.
    #[error("{}: no results can be written there: {cause}", .path.display())]
    NotWritable {
        /// The folder that was asked for.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// The path names no folder.
    #[error("{}: this names no folder", .0.display())]
    NoName(PathBuf),
    /// The operating system refused.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// What was to be written.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// A file was not written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A table was not written.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl OutputError {
    /// Whether the path that was asked for is at fault.
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Exists(_) | Self::NotOurs { .. } | Self::NoName(_) | Self::NotWritable { .. })
    }
}

/// A result folder on its way. Dropped without [`Folder::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct Folder {
    target: PathBuf,
    temporary: PathBuf,
    force: bool,
    committed: bool,
}

impl Folder {
    /// Whether a folder of this name could be written: to be asked before hours of simulation. A folder
    /// is made and removed again beside the target, or in the nearest folder above it that exists: only
    /// the operating system knows what it allows.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn check(target: &Path, force: bool) -> Result<(), OutputError> {
        let target = named(target)?;
        replaceable(&target, force)?;
        let above = target.ancestors().skip(1).map(or_present).find(|above| above.symlink_metadata().is_ok());
        let probe = above
            .unwrap_or_else(|| PathBuf::from("."))
            .join(format!(".forebay-probe.{}", std::process::id()));
        let tried = match std::fs::create_dir(&probe) {
            // Another check is at it, or one was killed: it could be made.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        };
        tried
            .and_then(|()| std::fs::remove_dir(&probe))
            .map_err(|cause| OutputError::NotWritable { path: target, cause })
    }

    /// Begins a folder; those above it are made where they are missing.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn create(target: &Path, force: bool) -> Result<Self, OutputError> {
        let target = named(target)?;
        replaceable(&target, force)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = target.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let failed = |cause| OutputError::Io { path: target.clone(), cause };
        if let Some(above) = target.parent().filter(|above| !above.as_os_str().is_empty()) {
            std::fs::create_dir_all(above).map_err(failed)?;
        }
        std::fs::create_dir(&temporary).map_err(failed)?;
        Ok(Self { target, temporary, force, committed: false })
    }

    /// Writes a text.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn text(&self, name: &str, text: &str) -> Result<(), OutputError> {
        Ok(write_whole(&self.temporary.join(name), text.as_bytes(), false)?)
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn json(&self, name: &str, value: &impl Serialize) -> Result<(), OutputError> {
        self.text(name, &json(value))
    }

    /// Writes a table as Parquet.
    ///
    /// # Errors
    /// See [`OutputError`].
    pub fn table(&self, name: &str, table: &Table) -> Result<(), OutputError> {
        Ok(write_parquet(&self.temporary.join(name), table, false)?)
    }

    /// Gives the complete folder its name.
    ///
    /// # Errors
    /// See [`OutputError`]; nothing is left behind then, and what was there before is there still.
    pub fn commit(mut self) -> Result<PathBuf, OutputError> {
        replaceable(&self.target, self.force)?;
        let failed = |cause| OutputError::Io { path: self.target.clone(), cause };
        let old = self.temporary.with_extension("old");
        let replaces = self.target.is_dir();
        if replaces {
            std::fs::rename(&self.target, &old).map_err(failed)?;
        }
        if let Err(cause) = std::fs::rename(&self.temporary, &self.target) {
            if replaces {
                // Best effort: the first failure is the one to report.
                let _ = std::fs::rename(&old, &self.target);
            }
            return Err(failed(cause));
        }
        self.committed = true;
        if replaces {
            remove(&old).map_err(|cause| OutputError::Io { path: old.clone(), cause })?;
        }
        Ok(self.target.clone())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a failure here; the folder is hidden and marked as a part.
            let _ = std::fs::remove_dir_all(&self.temporary);
        }
    }
}

/// A value as JSON text for people and programs, with a final line end.
pub fn json(value: &impl Serialize) -> String {
    // Results have string keys and no failing serialiser; a value that is neither shows as null.
    serde_json::to_string_pretty(value).unwrap_or_else(|_| "null".to_owned()) + "\n"
}

/// The folder, or the first of `<folder>-2`, `<folder>-3`, ... that is free.
pub fn free_name(folder: &Path) -> PathBuf {
    let taken = |path: &PathBuf| path.symlink_metadata().is_ok();
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered = (2_u32..).map(|n| folder.with_file_name(format!("{name}-{n}")));
    std::iter::once(folder.to_owned())
        .chain(numbered)
        .find(|path| !taken(path))
        .unwrap_or_else(|| folder.to_owned())
}

/// The computer that made a result. It explains the wall time, and changes nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system.
    pub os: String,
    /// Processor architecture.
    pub arch: String,
    /// Cores that were there to use.
    pub cores: usize,
}

impl Machine {
    /// This one.
    pub fn this() -> Self {
        Self {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        }
    }
}

/// Where a result comes from: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the program.
    pub forebay: String,
    /// The command that made it.
    pub command: String,
    /// The scenario.
    pub scenario: ScenarioId,
    /// Seed of all random streams.
    pub seed: u64,
    /// Replications.
    pub replications: u32,
    /// Hash over all outcomes in order; absent where nothing was simulated.
    pub digest: Option<String>,
    /// Time it took, seconds.
    pub wall_s: f64,
    /// The computer.
    pub machine: Machine,
}

impl Manifest {
    /// Of a result of `command` on a scenario.
    pub fn new(command: &str, loaded: &Loaded, digest: Option<String>, wall_s: f64) -> Self {
        Self {
            forebay: VERSION.to_owned(),
            command: command.to_owned(),
            scenario: ScenarioId::of(loaded),
            seed: loaded.scenario.run.seed,
            replications: loaded.scenario.run.replications,
            digest,
            wall_s,
            machine: Machine::this(),
        }
    }

    /// Of a result for which nothing was simulated.
    pub fn unsimulated(command: &str, loaded: &Loaded) -> Self {
        Self::new(command, loaded, None, 0.0)
    }
}

/// Writes a run folder.
///
/// # Errors
/// See [`OutputError`]; nothing is left behind then.
pub fn write_run(target: &Path, force: bool, loaded: &Loaded, run: &Run) -> Result<PathBuf, OutputError> {
    let folder = Folder::create(target, force)?;
    let summary: &Summary = &run.summary;
    folder.text("scenario.toml", &loaded.resolved)?;
    folder.json("summary.json", summary)?;
    folder.json("findings.json", &summary.findings)?;
    folder.table("timeline.parquet", &timeline(&run.timelines))?;
    folder.table("marks.parquet", &marks(&run.happened))?;
    if let Some(log) = &run.requests {
        folder.table(REQUESTS, &requests(log, loaded))?;
    }
    if let Some(followed) = &run.followed {
        folder.text(spans::FILE, &spans::text(followed))?;
    }
    let digest = Some(summary.digest.clone());
    folder.json(MANIFEST, &Manifest::new("run", loaded, digest, summary.wall_s))?;
    folder.commit()
}

/// Writes a folder with one JSON result, named as the manifest's command, and the scenario it is about.
///
/// # Errors
/// See [`OutputError`]; nothing is left behind then.
pub fn write_result(
    target: &Path,
    force: bool,
    loaded: &Loaded,
    manifest: &Manifest,
    value: &impl Serialize,
) -> Result<PathBuf, OutputError> {
    let folder = Folder::create(target, force)?;
    folder.text("scenario.toml", &loaded.resolved)?;
    folder.json(&format!("{}.json", manifest.command), value)?;
    folder.json(MANIFEST, manifest)?;
    folder.commit()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::inputs::open_text;
    use crate::run::{run, tests::MM1};
    use crate::workers::Workers;
    use forebay_datasets::frames::read_parquet;

    /// A folder that goes when the test ends.
    pub(crate) struct Scratch(PathBuf);

    impl Scratch {
        pub(crate) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("forebay-{}-{name}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        pub(crate) fn join(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }

        pub(crate) fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = std::fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_run_folder_is_complete_and_reads_back() {
        let scratch = Scratch::new("run-folder");
        let opened = open_text("mm1", MM1, &[]).unwrap();
        let run = run(&opened.loaded, &Workers::new(Some(1)).unwrap(), true, &|_, _| ()).unwrap();
        let target = scratch.join("deep/er");
        write_run(&target, false, &opened.loaded, &run).unwrap();
        let read = |name: &str| std::fs::read_to_string(target.join(name)).unwrap();
        let summary: Summary = serde_json::from_str(&read("summary.json")).unwrap();
        assert_eq!(summary.digest, run.summary.digest);
        let manifest: Manifest = serde_json::from_str(&read("manifest.json")).unwrap();
        assert_eq!((manifest.digest, manifest.command.as_str()), (Some(summary.digest), "run"));
        let again = open_text("again", &read("scenario.toml"), &[]).unwrap();
        assert_eq!(again.loaded.hash, opened.loaded.hash);
        let table = read_parquet(&target.join("timeline.parquet")).unwrap();
        assert_eq!(table.columns[1].values.len(), 4 * 600);
        let marks = read_parquet(&target.join("marks.parquet")).unwrap();
        assert_eq!((marks.columns.len(), marks.columns[0].values.len()), (8, 0));
        assert!(target.join("findings.json").is_file());
    }

    #[test]
    fn nothing_is_replaced_unasked() {
        let scratch = Scratch::new("folders");
        let target = scratch.join("result");
        let write = |force: bool, text: &str| {
            let folder = Folder::create(&target, force)?;
            folder.text("summary.json", text)?;
            folder.text(MANIFEST, "{\"forebay\": \"0\"}")?;
            folder.commit()
        };
        write(false, "one").unwrap();
        let error = write(false, "two").unwrap_err();
        assert!(matches!(error, OutputError::Exists(_)) && error.is_input(), "{error}");
        write(true, "three").unwrap();
        assert_eq!(std::fs::read_to_string(target.join("summary.json")).unwrap(), "three");
        assert_eq!(scratch.names(), ["result"]);
        // A folder that is not ours stays, even with --force.
        let other = scratch.join("home");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("thesis.txt"), "years of work").unwrap();
        let not_ours = |path: &Path| matches!(Folder::create(path, true), Err(OutputError::NotOurs { .. }));
        assert!(not_ours(&other));
        // Nor one with the manifest of something else, nor ours with a letter in it.
        std::fs::remove_file(other.join("thesis.txt")).unwrap();
        std::fs::write(other.join(MANIFEST), "{\"name\": \"an extension\"}").unwrap();
        assert!(not_ours(&other));
        std::fs::write(target.join("notes.txt"), "mine").unwrap();
        assert!(not_ours(&target) && target.join("notes.txt").is_file());
        assert!(Folder::check(&scratch.join("new/."), false).is_ok());
        let inside_a_file = Folder::check(&other.join(MANIFEST).join("x"), false).unwrap_err();
        assert!(inside_a_file.is_input(), "{inside_a_file}");
        assert!(matches!(Folder::create(Path::new("/"), true), Err(OutputError::NoName(_))));
        assert!(matches!(Folder::create(Path::new(".."), true), Err(OutputError::NoName(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_not_followed() {
        let scratch = Scratch::new("links");
        std::fs::create_dir(scratch.join("home")).unwrap();
        std::os::unix::fs::symlink(scratch.join("home"), scratch.join("link")).unwrap();
        let error = Folder::check(&scratch.join("link"), true).unwrap_err();
        assert!(matches!(error, OutputError::NotOurs { .. }), "{error}");
    }

    #[test]
    fn an_unfinished_folder_leaves_nothing() {
        let scratch = Scratch::new("unfinished");
        let folder = Folder::create(&scratch.join("x"), false).unwrap();
        folder.text("a.txt", "one").unwrap();
        drop(folder);
        assert!(scratch.names().is_empty());
    }

    #[test]
    fn a_free_name_is_found() {
        let scratch = Scratch::new("free");
        let wanted = scratch.join("x-tune");
        assert_eq!(free_name(&wanted), wanted);
        std::fs::create_dir(&wanted).unwrap();
        assert_eq!(free_name(&wanted), scratch.join("x-tune-2"));
    }
}
