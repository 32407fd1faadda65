//! The recorder: what GPUs show while they work, and what an endpoint on them answers meanwhile.
//!
//! [`record`] asks NVIDIA's management library for everything that a [`Sample`](crate::recording::Sample)
//! holds, at a steady period, and writes a folder:
//!
//! | file | what |
//! | --- | --- |
//! | `gpu.parquet` | a recording: one row for each device and tick |
//! | `processes.parquet` | memory by process, once a second, where it may be known |
//! | `requests.parquet` | each request of the load, if there was one |
//! | `manifest.json` | the [`Manifest`]: driver, devices, the period kept, what was not told |
//!
//! Each device has a thread of its own, so that one that hangs or is slow costs the others nothing. The
//! ticks stand at multiples of the period from the start; a call that takes long makes ticks be missed, which
//! are counted, and never moves those after it. What a device refuses is a null from then on and is not asked
//! again. The files are whole or not there, also when the recording is interrupted.
//!
//! Rejected: one thread that asks all devices in turn (one slow call would thin out every device), and the
//! driver's own buffer of samples (not all quantities are in it, and not on all devices).

mod clock;
mod device;
mod driver;
pub mod load;
mod manifest;
mod probe;
mod session;
mod ticks;
mod writers;

#[cfg(test)]
mod tests;

pub use driver::Selector;
pub use manifest::{DeviceReport, Ended, Gaps, LoadReport, Manifest, Untold};
pub use session::record;

use crate::files::FileError;
use crate::frames::TableError;
use std::path::PathBuf;
use std::time::Duration;

/// Shortest period.
pub const SHORTEST: Duration = Duration::from_millis(5);
/// Longest period.
pub const LONGEST: Duration = Duration::from_secs(1);

/// What to record.
#[derive(Debug)]
pub struct Options {
    /// Time between two ticks, [`SHORTEST`] to [`LONGEST`].
    pub period: Duration,
    /// Longest time to record; absent: until the load is through or somebody stops it.
    pub limit: Option<Duration>,
    /// Devices to record; none: all.
    pub devices: Vec<Selector>,
    /// The management library, where it is not the system's.
    pub library: Option<PathBuf>,
    /// Folder to write to; it is made if it is not there.
    pub out: PathBuf,
    /// Whether files of an earlier recording there are replaced.
    pub overwrite: bool,
    /// Requests to send meanwhile.
    pub load: Option<load::Load>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Time since its start, seconds.
    pub elapsed_s: f64,
    /// Rows so far.
    pub rows: u64,
    /// Devices that are recorded still.
    pub devices: usize,
    /// Devices that are gone.
    pub lost: usize,
    /// Requests that have ended.
    pub requests: u64,
    /// Those of them that were not answered.
    pub failed: u64,
    /// Requests of the whole load.
    pub requests_all: u64,
}

/// Why nothing was recorded, or not to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecorderError {
    /// The period is out of range.
    #[error("a period of {0:?} is not recorded: it is 5 ms to 1 s")]
    Period(Duration),
    /// The library cannot be loaded.
    #[error(
        "no GPU can be recorded: {library} cannot be loaded ({reason}); it comes with NVIDIA's driver, and --library says where it lies"
    )]
    NoLibrary {
        /// Its name or path.
        library: String,
        /// What the loader said.
        reason: String,
    },
    /// The library is there and the driver is not, or does not answer.
    #[error("no GPU can be recorded: {library} was loaded, and says: {reason}; `nvidia-smi` must work first")]
    NoDriver {
        /// Its name or path.
        library: String,
        /// What it said.
        reason: String,
    },
    /// There is no device.
    #[error("no GPU can be recorded: the driver {driver} knows no device that answers{}", list(.absent))]
    NoDevice {
        /// Its version.
        driver: String,
        /// Those that do not answer, each with its reason.
        absent: Vec<String>,
    },
    /// A device that was asked for is not there.
    #[error("there is no device `{asked}` that answers: there is {known}")]
    UnknownDevice {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The load cannot be sent.
    #[error(transparent)]
    Load(#[from] load::LoadError),
    /// A table was not written.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A file was not written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder cannot be made or used.
    #[error("{}: {cause}", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
    /// No thread could be started.
    #[error("a thread for {what} cannot be started: {cause}")]
    Thread {
        /// What it was for.
        what: String,
        /// What the operating system said.
        #[source]
        cause: std::io::Error,
    },
}

impl RecorderError {
    /// Whether what was asked for is at fault, or something that it needs is missing, and nothing was begun.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Period(_)
            | Self::NoLibrary { .. }
            | Self::NoDriver { .. }
            | Self::NoDevice { .. }
            | Self::UnknownDevice { .. }
            | Self::Load(_)
            | Self::Folder { .. } => true,
            Self::File(error) | Self::Table(TableError::File(error)) => {
                !matches!(error, FileError::Io { .. })
            }
            Self::Table(_) | Self::Thread { .. } => false,
        }
    }
}

fn list(absent: &[String]) -> String {
    if absent.is_empty() { String::new() } else { format!(" ({})", absent.join("; ")) }
}
