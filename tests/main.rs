//! What must hold of the whole: one test binary, one file per behaviour.

mod bad_input;
mod bad_traces;
mod cases;
mod conservation;
mod determinism;
mod engine_runs;
mod layout;
mod theory;
