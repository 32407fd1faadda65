//! One side of a comparison, and how that of a run is read.

use crate::output::REQUESTS;
use forebay_datasets::frames::{TableError, Values, read_parquet};
use forebay_datasets::request_log::{self, RequestLog};
use std::path::{Path, PathBuf};

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// What it goes by: the path.
    pub name: String,
    /// Its requests.
    pub log: RequestLog,
    /// Share of the KV cache in use, by seconds on the log's clock; empty if unknown.
    pub kv: Vec<(f64, f64)>,
}

/// Why two sides could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// The run has no log of its requests.
    #[error(
        "{}: there is no {REQUESTS} in it; `forebay run … --requests --out DIR` writes one, for runs to be compared",
        .0.display()
    )]
    NoRequests(PathBuf),
    /// A table could not be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Too little to compare.
    #[error("{name}: {served} requests were served and are told completely; more than {skip} are needed")]
    TooFew {
        /// The side.
        name: String,
        /// Requests that it has.
        served: usize,
        /// Requests that are left out.
        skip: usize,
    },
}

/// Reads the folder of a run, or a log of requests in its form.
///
/// # Errors
/// There is no such log, or it cannot be read.
pub fn read_run(path: &Path) -> Result<Side, CompareError> {
    let name = path.display().to_string();
    if !path.is_dir() {
        return Ok(Side { name, log: request_log::read(path)?, kv: Vec::new() });
    }
    let requests = path.join(REQUESTS);
    if !requests.exists() {
        return Err(CompareError::NoRequests(path.to_owned()));
    }
    let timeline = path.join("timeline.parquet");
    let kv = if timeline.exists() { kv_of(&timeline)? } else { Vec::new() };
    Ok(Side { name, log: request_log::read(&requests)?, kv })
}

/// The KV cache of the first replication, whose requests are those of the log.
fn kv_of(timeline: &Path) -> Result<Vec<(f64, f64)>, TableError> {
    let table = read_parquet(timeline)?;
    let column = |name: &str| table.columns.iter().find(|column| column.name == name).map(|c| &c.values);
    let (Some(Values::U64(replications)), Some(Values::F64(times))) = (column("replication"), column("t_s"))
    else {
        let reason = "it is no timeline of a run: it lacks `replication` or `t_s`".to_owned();
        return Err(TableError::Shape { path: timeline.to_owned(), reason });
    };
    let shares: Vec<Option<f64>> = match column("kv") {
        Some(Values::MaybeF64(values)) => values.clone(),
        Some(Values::F64(values)) => values.iter().copied().map(Some).collect(),
        _ => return Ok(Vec::new()),
    };
    let rows = replications.iter().zip(times).zip(&shares).filter(|((replication, _), _)| **replication == 0);
    Ok(rows.filter_map(|((_, t_s), share)| Some((*t_s, (*share)?))).collect())
}
