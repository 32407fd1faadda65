//! The commands: each opens what it is about, has the workbench do it, and prints the result.

mod ablate;
mod ablate_screen;
pub(crate) mod calibrate;
pub(crate) mod capacity;
pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod params;
pub(crate) mod run;
mod run_accounts;
mod run_screen;
pub(crate) mod trace;
pub(crate) mod tune;
mod tune_screen;
