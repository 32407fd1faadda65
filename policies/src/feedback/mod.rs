//! Feedback: what stands between a measurement and a change of a parameter.

pub mod filter;
