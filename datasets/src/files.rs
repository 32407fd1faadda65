//! Files that are written whole or not at all, and never over another one unasked.
//!
//! The content goes into a temporary file beside its target, which takes the target's name only when
//! everything is on disk. Whoever reads the folder meanwhile, or after a crash, finds the old file or the
//! new one, and never a part.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// There is a file of this name already.
    #[error("{}: the file exists already; --force overwrites it", .0.display())]
    Exists(PathBuf),
    /// The path has no file name.
    #[error("{}: this names no file", .0.display())]
    NoName(PathBuf),
    /// The operating system refused.
    #[error("{}: {cause}", .path.display())]
    Io {
        /// The file that was to be written.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
}

/// A file on its way. Dropped without [`WholeFile::commit`], it leaves nothing behind.
#[derive(Debug)]
pub struct WholeFile {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    overwrite: bool,
    committed: bool,
}

impl WholeFile {
    /// Begins a file. With `overwrite`, a file that exists is replaced when this one is complete.
    ///
    /// # Errors
    /// [`FileError`]: the file exists and may not be overwritten, or its folder cannot be written to.
    pub fn create(target: &Path, overwrite: bool) -> Result<Self, FileError> {
        /// Tells apart files that are on their way to one name in one process.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or_else(|| FileError::NoName(target.to_owned()))?;
        check_free(target, overwrite)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let hidden = format!(".{}.{}-{number}.part", name.to_string_lossy(), std::process::id());
        let temporary = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|cause| FileError::Io { path: target.to_owned(), cause })?;
        Ok(Self { target: target.to_owned(), temporary, file, overwrite, committed: false })
    }

    /// The file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// [`FileError`]: the disk is full, or a file of this name has appeared meanwhile and may not be
    /// overwritten. Nothing is left behind then.
    pub fn commit(mut self) -> Result<(), FileError> {
        let target = self.target.clone();
        let failed = |cause| FileError::Io { path: target.clone(), cause };
        self.file.sync_all().map_err(failed)?;
        check_free(&self.target, self.overwrite)?;
        std::fs::rename(&self.temporary, &self.target).map_err(failed)?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a failure here; the file is hidden and marked as a part.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// [`FileError`]: the file exists and may not be overwritten, or it cannot be written.
pub fn write_whole(target: &Path, content: &[u8], overwrite: bool) -> Result<(), FileError> {
    let mut whole = WholeFile::create(target, overwrite)?;
    let written = whole.file().write_all(content);
    written.map_err(|cause| FileError::Io { path: target.to_owned(), cause })?;
    whole.commit()
}

fn check_free(target: &Path, overwrite: bool) -> Result<(), FileError> {
    // A dangling link counts as a file too, so that `exists` would not do.
    if !overwrite && target.symlink_metadata().is_ok() {
        return Err(FileError::Exists(target.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Folder;

    #[test]
    fn files_are_not_overwritten_unasked() {
        let folder = Folder::new("whole");
        let path = folder.path("a.txt");
        write_whole(&path, b"one", false).unwrap();
        assert!(matches!(write_whole(&path, b"two", false), Err(FileError::Exists(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write_whole(&path, b"three", true).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert_eq!(folder.entries(), ["a.txt"]);
    }

    #[test]
    fn nothing_is_left_of_a_file_given_up() {
        let folder = Folder::new("given-up");
        let mut whole = WholeFile::create(&folder.path("a.txt"), false).unwrap();
        whole.file().write_all(b"half").unwrap();
        assert_eq!(folder.entries().len(), 1);
        drop(whole);
        assert_eq!(folder.entries(), [""; 0]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let folder = Folder::new("meanwhile");
        let path = folder.path("a.txt");
        let whole = WholeFile::create(&path, false).unwrap();
        std::fs::write(&path, b"other").unwrap();
        assert!(matches!(whole.commit(), Err(FileError::Exists(_))));
        assert_eq!(std::fs::read(&path).unwrap(), b"other");
        assert_eq!(folder.entries(), ["a.txt"]);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = Folder::new("no-folder");
        let error = write_whole(&folder.path("none/a.txt"), b"", false).unwrap_err();
        assert!(error.to_string().contains("none/a.txt: "));
        assert!(matches!(write_whole(Path::new("/"), b"", true), Err(FileError::NoName(_))));
    }
}
