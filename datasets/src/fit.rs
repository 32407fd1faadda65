//! Fits: from measurements to calibrations, always with the error on data that the fit did not see.
//!
//! | module | what |
//! | --- | --- |
//! | [`observed`] | requests as a server logged them |
//! | [`mod@replay`] | the same requests through the `batching` engine, and by how much it is off |
//! | [`iteration`] | iteration cost of the `batching` engine, from latencies and a start chosen by hand |
//! | [`joint`] | the `batching` engine and the number of its replicas, from a request log alone |
//! | [`slots`] | time per token against batch size, for the `slots` engine |
//! | [`calibration`] | the files that hold the results |
//! | [`solver`] | the minimiser behind the first |
//!
//! Nothing here reads files or needs polars: callers hand in text or plain rows.

pub mod calibration;
pub mod iteration;
pub mod joint;
pub mod observed;
pub mod replay;
pub mod slots;
pub mod solver;

pub use calibration::{BatchingCalibration, Calibration, SlotsCalibration, Source};
pub use iteration::{FitError, IterationFit, fit_batching};
pub use joint::{EngineFlags, JointError, JointFit, fit_engine};
pub use observed::{LogError, ObservedRequest, read_vllm_log};
pub use replay::{LatencyErrors, Replayed, replay};
pub use slots::{BatchRow, SlotsFit, TokenTime, fit_slots, read_batch_rows};
