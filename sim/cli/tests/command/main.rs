//! The command as its users meet it: what it prints, what it writes, and how it ends. One binary, so that it
//! is linked once.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod ablate;
mod calibrate;
mod calibrate_fit;
mod explain;
mod fit;
mod input;
mod looking;
mod run;
mod tune;
mod variants;
mod workplace;
