//! The whole way from text to value, on an example with every shape a scenario has.

mod example;
mod refusals;
mod resolution;
mod robustness;
mod tuning;
mod variants;
