//! What happens: the simulated service, from scenario file to outcomes.
//!
//! | module | what |
//! | --- | --- |
//! | [`scenario`] | the scenario file: structs, checks, and what it names |
//! | [`document`] | reading a TOML file against a schema, with file, line and column of every problem |
//! | [`trace`] | recorded arrivals |
//! | [`service`] | the running service: clients, gateway, stages, memory, telemetry |
//! | [`llm`] | the two models of an LLM engine |
//! | [`outcome`] | how requests end, the ledger, the digest |
//! | [`metrics`] | what was measured, by name |
//! | [`accounts`] | costs, satisfaction, alerts and the control loop, kept beside the run |
//! | [`shadow`] | a second policy that decides beside the live one |
//! | [`replication`] | one run, start to end |
//! | [`request_log`] | every request's stamps, as a server would log them |
//! | [`spans`] | where single requests were, and what was decided about them |
//!
//! The crate reads no files and no clock: a scenario, the traces and calibrations it names, a seed and a
//! replication go in, a [`Replication`] comes out, the same on every machine.

pub mod accounts;
mod attempts;
mod clients;
pub mod document;
mod ids;
pub mod llm;
mod measure;
mod memory;
pub mod metrics;
pub mod outcome;
pub mod replication;
pub mod request_log;
pub mod scenario;
pub mod service;
pub mod shadow;
#[cfg(test)]
mod small;
pub mod spans;
mod stages;
mod telemetry;
pub mod timeline;
pub mod trace;

pub use metrics::{Metric, Metrics};
pub use outcome::{Digest, Ledger};
pub use replication::{
    Followed, Following, Replication, RunError, simulate, simulate_followed, simulate_with_spans,
};
pub use scenario::{Inputs, Loaded, Scenario};
pub use trace::Trace;
