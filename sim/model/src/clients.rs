//! Clients: sources of arrivals, and the birth of a request with all its chance.

pub(crate) mod birth;
pub(crate) mod source;
