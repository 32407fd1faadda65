//! What was measured: traces, scenarios and calibrations, and the code that reads and writes tables.
//!
//! | module | what |
//! | --- | --- |
//! | [`trace`] | reads recorded workloads: CSV, Parquet and JSON lines |
//! | [`bundled`] | the files that are built into the command |
//! | [`fit`] | fits engines to what was measured, with the error on what the fit did not see |
//! | [`record`] | the recorder: GPUs, and the requests of a load, while they work |
//! | [`columns`] | named columns out of a user's CSV, JSON lines or Parquet |
//! | [`recording`] | GPU telemetry, in the one form that recorders, imports and fits share |
//! | [`request_log`] | requests as a real server saw them, likewise |
//! | [`engine_series`] | what LLM engines told about themselves, likewise |
//! | [`mod@import`] | other people's files: telemetry, engine metrics, request logs |
//! | [`frames`] | writes tables of results as Parquet |
//! | [`files`] | writes files whole or not at all |
//!
//! Polars stays in this crate: what it hands out are the model's types and plain tables, so that the
//! crates beside it build without polars.

pub mod bundled;
pub mod columns;
pub mod engine_series;
pub mod files;
pub mod fit;
pub mod frames;
pub mod import;
pub mod record;
pub mod recording;
pub mod request_log;
pub mod trace;

#[cfg(test)]
mod scratch;

pub use forebay_model::trace::{Columns, TimeUnit};
pub use trace::{Format, ReadError, read_trace, read_trace_bytes};
