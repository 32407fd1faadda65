//! Requests that were followed through a run: written as `spans.json`, read back, told in words.
//!
//! One file serves the eye and the program. It is in Chrome's trace event format, which Perfetto opens,
//! and the arguments of its events are the records of the model field by field, so that nothing is lost
//! on the way back. A second file beside it was rejected: two records of one thing can differ.

mod chrome;
mod read;
mod story;

pub use chrome::text;
pub use read::{SpansError, read};
pub use story::{Told, tell};

use crate::VERSION;
use crate::summary::ScenarioId;
use forebay_model::scenario::Loaded;
use forebay_model::spans::RequestSpans;
use serde::{Deserialize, Serialize};

/// The file in a run folder.
pub const FILE: &str = "spans.json";
/// Most requests that a run follows: each takes some kilobytes in memory and in the file.
pub const MOST_REQUESTS: u32 = 100_000;

/// Requests that were followed, and where they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// The run.
    pub origin: Origin,
    /// The requests, in order of birth.
    pub requests: Vec<RequestSpans>,
}

/// The run that requests were followed in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// Version of the program.
    pub forebay: String,
    /// The scenario.
    pub scenario: ScenarioId,
    /// Seed of all random streams.
    pub seed: u64,
    /// The replication.
    pub replication: u64,
    /// Requests that were born in it.
    pub offered: u64,
}

impl Followed {
    /// Requests of a replication of this scenario.
    pub fn new(loaded: &Loaded, replication: u64, offered: u64, requests: Vec<RequestSpans>) -> Self {
        let scenario = ScenarioId::of(loaded);
        let seed = loaded.scenario.run.seed;
        let origin = Origin { forebay: VERSION.to_owned(), scenario, seed, replication, offered };
        Self { origin, requests }
    }

    /// The request with this number.
    ///
    /// # Errors
    /// It was not followed; the error names those nearest to it.
    pub fn request(&self, number: u64) -> Result<&RequestSpans, SpansError> {
        // In order of birth: what is before and after it are its neighbours.
        let at = self.requests.partition_point(|spans| spans.request < number);
        match self.requests.get(at).filter(|spans| spans.request == number) {
            Some(spans) => Ok(spans),
            None => Err(SpansError::NotFollowed {
                request: number,
                followed: self.requests.len(),
                offered: self.origin.offered,
                near: self.requests[at.saturating_sub(2)..self.requests.len().min(at + 2)]
                    .iter()
                    .map(|spans| spans.request)
                    .collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
