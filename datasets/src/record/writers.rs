//! The tables of a recording on their way to the disk.

use super::RecorderError;
use super::device::Processes;
use super::load::Exchange;
use crate::files::FileError;
use crate::frames::{Table, TableColumn, TableError, TableWriter, Values};
use crate::recording::{self, Sample};
use std::path::{Path, PathBuf};

/// Rows that are gathered before they are written; each piece is a row group of the file.
const PIECE: usize = 32_768;

pub(super) const GPU: &str = "gpu.parquet";
pub(super) const PROCESSES: &str = "processes.parquet";
pub(super) const REQUESTS: &str = "requests.parquet";
pub(super) const MANIFEST: &str = "manifest.json";

/// The files that are open while it records.
pub(super) struct Writers {
    gpu: TableWriter,
    samples: Vec<Sample>,
    rows: u64,
    processes: TableWriter,
    found: Vec<Processes>,
    requests: Option<TableWriter>,
    exchanges: Vec<Exchange>,
    folder: PathBuf,
}

impl Writers {
    /// Begins the files in a folder, which is made where it is missing. That of the requests is begun if there
    /// is a load.
    pub(super) fn create(folder: &Path, overwrite: bool, load: bool) -> Result<Self, RecorderError> {
        std::fs::create_dir_all(folder)
            .map_err(|cause| RecorderError::Folder { path: folder.to_owned(), cause })?;
        // Before anything is begun, so that nothing is measured in vain.
        for name in [GPU, PROCESSES, REQUESTS, MANIFEST] {
            let path = folder.join(name);
            if !overwrite && path.symlink_metadata().is_ok() {
                return Err(FileError::Exists(path).into());
            }
        }
        let begin = |name: &str, table: &Table| TableWriter::create(&folder.join(name), table, overwrite);
        Ok(Self {
            gpu: recording::create(&folder.join(GPU), overwrite)?,
            samples: Vec::new(),
            rows: 0,
            processes: begin(PROCESSES, &processes_table(&[]))?,
            found: Vec::new(),
            requests: if load { Some(begin(REQUESTS, &Exchange::table(&[]))?) } else { None },
            exchanges: Vec::new(),
            folder: folder.to_owned(),
        })
    }

    pub(super) fn sample(&mut self, sample: Sample) -> Result<(), TableError> {
        self.rows += 1;
        self.samples.push(sample);
        if self.samples.len() >= PIECE { self.write_samples() } else { Ok(()) }
    }

    pub(super) fn processes(&mut self, found: Processes) -> Result<(), TableError> {
        self.found.push(found);
        if self.found.len() >= PIECE { self.write_processes() } else { Ok(()) }
    }

    pub(super) fn exchange(&mut self, exchange: Exchange) -> Result<(), TableError> {
        self.exchanges.push(exchange);
        if self.exchanges.len() >= PIECE { self.write_exchanges() } else { Ok(()) }
    }

    /// Rows of the recording so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Completes the files. Requests of an earlier recording do not stay beside a new one.
    pub(super) fn finish(mut self) -> Result<(), RecorderError> {
        self.write_samples()?;
        self.write_processes()?;
        self.write_exchanges()?;
        self.gpu.finish()?;
        self.processes.finish()?;
        if let Some(requests) = self.requests {
            requests.finish()?;
            return Ok(());
        }
        let path = self.folder.join(REQUESTS);
        match std::fs::remove_file(&path) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::Io { path, cause }.into())
            }
            _ => Ok(()),
        }
    }

    fn write_samples(&mut self) -> Result<(), TableError> {
        // The threads of devices send as they please; those of one device come in order.
        self.samples.sort_by_key(|sample| (sample.t_ns, sample.device));
        self.gpu.write(&recording::table(&self.samples))?;
        self.samples.clear();
        Ok(())
    }

    fn write_processes(&mut self) -> Result<(), TableError> {
        self.processes.write(&processes_table(&self.found))?;
        self.found.clear();
        Ok(())
    }

    fn write_exchanges(&mut self) -> Result<(), TableError> {
        if let Some(requests) = &mut self.requests {
            requests.write(&Exchange::table(&self.exchanges))?;
        }
        self.exchanges.clear();
        Ok(())
    }
}

/// One row for each process, device and moment.
fn processes_table(found: &[Processes]) -> Table {
    let rows = || found.iter().flat_map(|found| found.list.iter().map(move |process| (found, process)));
    let whole = |of: fn(&Processes) -> u64| Values::U64(rows().map(|(found, _)| of(found)).collect());
    Table {
        columns: vec![
            TableColumn::new("t_ns", "ns", whole(|found| found.moment.t_ns)),
            TableColumn::new("wall_ns", "ns", whole(|found| found.moment.wall_ns)),
            TableColumn::new("device", "", whole(|found| u64::from(found.device))),
            TableColumn::new("pid", "", Values::U64(rows().map(|(_, p)| u64::from(p.pid)).collect())),
            TableColumn::new("memory_used", "B", Values::MaybeF64(rows().map(|(_, p)| p.memory).collect())),
        ],
    }
}
