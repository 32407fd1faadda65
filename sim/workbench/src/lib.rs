//! What it means: scenarios are run, judged, tuned and written down here.
//!
//! | module | what |
//! | --- | --- |
//! | [`inputs`] | opens a scenario by name or path, with the traces and calibrations it names |
//! | [`workers`] | the threads, and work done on them in a fixed order of results |
//! | [`mod@run`] | all replications of a scenario |
//! | [`verdict`] | stable, backlogged or overloaded, and the bottleneck |
//! | [`summary`] | the numbers of a run, with their intervals: `summary.json` |
//! | [`findings`] | what the user should know, from the scenario alone and from a run |
//! | [`mod@ablate`] | what each module of the policy is worth |
//! | [`capacity`] | ceilings in closed form, before any simulation |
//! | [`tune`] | the best value of a parameter within constraints |
//! | [`mod@compare`] | a simulated run against a real request log |
//! | [`sheet`] | a calibration on one screen, and its fit against data |
//! | [`show`] | numbers as people read them |
//! | [`spans`] | single requests, written as a trace for viewers and told in words |
//! | [`output`] | run folders and tuning folders |
//! | [`clock`] | the only wall clock |
//!
//! Everything that is computed is a function of the scenario, its seed and its replications: the number
//! of threads changes how long it takes and nothing else.

pub mod ablate;
pub mod capacity;
pub mod clock;
pub mod compare;
pub mod findings;
pub mod inputs;
mod mix;
pub mod output;
pub mod run;
pub mod sheet;
pub mod show;
pub mod spans;
pub mod summary;
pub mod tune;
pub mod verdict;
mod wanted;
pub mod workers;

pub use ablate::{Ablation, ablate};
pub use findings::Finding;
pub use inputs::{Opened, open};
pub use run::{Run, RunFailure, run};
pub use summary::Summary;
pub use verdict::Verdict;
pub use workers::Workers;

/// The version of the program, as results carry it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
