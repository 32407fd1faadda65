//! A stand-in for NVIDIA's management library: a shared library with the part of its C interface that the
//! recorder uses, which replays a script instead of asking a driver.
//!
//! Tests load it through the same wrapper and the same `dlopen` as the real library, so that what they see of
//! the recorder is what a machine with a GPU would. The script is the file beside the library that has its
//! name and ends in `.toml`, or the one that `NVML_REPLAY` names; what it can say is in [`script`]. Time is that
//! of the wall, from `nvmlInit` on. When the library is shut down it leaves a list of how often each call was
//! made of each device, in a file that ends in `.calls`.
//!
//! Rejected: a mock behind a trait of our own. It would leave out what breaks in practice: finding the
//! library, missing symbols, versions of structs, and a device that is lost between two calls.

mod exports;
mod machine;
pub mod script;

use std::io;
use std::path::{Path, PathBuf};

/// The name of the shared library on this system.
pub const FILE: &str = if cfg!(target_os = "macos") {
    "libforebay_nvml_replay.dylib"
} else if cfg!(windows) {
    "forebay_nvml_replay.dll"
} else {
    "libforebay_nvml_replay.so"
};

/// Puts a copy of the library and its script into a folder, and returns where the library is.
///
/// It is a copy, because a library that is loaded twice from one file is one library, with one script.
///
/// # Errors
/// The library is not beside the running program or in the folder above it, where cargo puts it, or the
/// folder cannot be written to.
pub fn place(folder: &Path, script: &str) -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let built = program
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|above| [above.join(FILE), above.join("deps").join(FILE)]);
    let built = built.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("{FILE} is not beside {}", program.display()))
    })?;
    let library = folder.join(FILE);
    std::fs::copy(built, &library)?;
    std::fs::write(library.with_extension("toml"), script)?;
    Ok(library)
}

/// How often a call was made of a device, as the library that [`place`] put there left it.
///
/// # Errors
/// The library was not shut down yet.
pub fn calls(library: &Path, device: usize, call: &str) -> io::Result<u64> {
    let text = std::fs::read_to_string(library.with_extension("calls"))?;
    let line = format!("{device} {call} ");
    let count = text.lines().find_map(|row| row.strip_prefix(&line)?.parse().ok());
    Ok(count.unwrap_or(0))
}
