//! Special functions on top of `libm`: the same bits on every machine.
//!
//! Only what the distributions and the intervals need. A crate of statistics would bring these too,
//! but those on the registry call the platform's `ln` and `exp`, which differ between systems in the
//! last bit; one bit is one other event order.

mod beta;
mod gamma;
mod log;
mod normal;
mod root;

pub(crate) use beta::beta_regularised;
pub(crate) use gamma::{gamma_lower, gamma_quantile};
pub(crate) use log::minus_ln;
pub(crate) use normal::normal_cdf;
pub use normal::normal_quantile;
pub(crate) use root::newton_bracketed;
