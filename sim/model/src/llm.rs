//! LLM engines: two models behind one stage interface.
//!
//! `slots`: parallel slots whose service time comes from a calibrated distribution. [`batching`]:
//! continuous batching with paged KV memory, simulated iteration by iteration in closed form. Beside them
//! `providers`: external services that answer for money.

pub mod batching;
pub(crate) mod batching_stage;
pub(crate) mod providers;
pub(crate) mod router;
pub(crate) mod slots;
