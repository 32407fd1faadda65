//! Fits: from measurements to calibrations, always with the error on data that the fit did not see.
//!
//! | module | what |
//! | --- | --- |
//! | [`observed`] | requests as a server logged them |
//! | [`mod@replay`] | the same requests through the `batching` engine, and by how much it is off |
//! | [`iteration`] | iteration cost of the `batching` engine, from latencies and a start chosen by hand |
//! | [`joint`] | the `batching` engine and the number of its replicas, from a request log alone |
//! | [`slots`] | time per token against batch size, for the `slots` engine |
//! | [`curve`] | a quantity at measured points, straight lines between them |
//! | [`batches`] | time per token and power against batch size, as curves |
//! | [`phases`] | prefill and decode against prompt length and batch size |
//! | [`families`] | laws of service times and lengths, by maximum likelihood |
//! | [`rerank`] | batch time against documents |
//! | [`vram`] | what fills a device's memory, and its allocator |
//! | [`load`] | the load of a day, and who makes it |
//! | [`bundle`] | the bundled calibrations, made from the measured tables |
//! | [`robust`] | linear regression that outliers do not move, with standard errors |
//! | [`tables`] | rows of published tables |
//! | [`calibration`] | the files that hold the results |
//! | [`solver`] | the minimiser behind the first |
//!
//! Nothing here reads files: callers hand in text, columns or plain rows.

pub mod batches;
pub mod bundle;
pub mod calibration;
#[cfg(test)]
mod coverage;
pub mod curve;
pub mod families;
pub mod iteration;
pub mod joint;
pub mod load;
pub mod observed;
pub mod phases;
pub mod replay;
pub mod rerank;
pub mod robust;
pub mod slots;
pub mod solver;
pub mod tables;
pub mod vram;

pub use calibration::{BatchingCalibration, Calibration, SlotsCalibration, Source};
pub use iteration::{FitError, IterationFit, fit_batching};
pub use joint::{EngineFlags, JointError, JointFit, fit_engine};
pub use observed::{LogError, ObservedRequest, read_vllm_log};
pub use replay::{LatencyErrors, Replayed, replay};
pub use slots::{BatchRow, SlotsFit, TokenTime, fit_slots, read_batch_rows};
