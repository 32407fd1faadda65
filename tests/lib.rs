//! What the cross-crate tests of Forebay share; the tests themselves are in `main.rs`.
//!
//! The crate is one test binary, one file per behaviour. Each behaviour builds its scenarios from a small
//! valid text and a few settings; what several of them need is here.

pub mod case_table;
pub mod scenario;
pub mod table;
