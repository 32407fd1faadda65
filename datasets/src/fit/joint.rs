//! An engine from a request log alone: iteration cost, KV capacity, replicas.
//!
//! What is known are the engine's settings (seats, token budget, block size); what the log shows are
//! arrivals, tokens in and out, first and last tokens. The simulator itself is fitted to the latencies of
//! the first half of the log, and the second half judges:
//! 1. a first cost is read off the log without simulation (`sketch`);
//! 2. for each way the engines may be arranged, and for a cache that binds or does not, a short search from
//!    there and from costs around it;
//! 3. the best of each kind are searched to the end by Gauss's and Newton's method on absolute deviations
//!    (`search`); further coefficients stay only if they improve the fit visibly (`arrange`);
//! 4. standard errors come from stretches of the log drawn anew (`errors`).
//!
//! The loss is the sum over first token, last token and time per token of the logarithm of the mean absolute
//! deviation, with the bias beside it: the likelihood of deviations that are distributed after Laplace, each
//! latency with a scale of its own, so that first tokens, which depend on luck, do not drown the others.
//!
//! Rejected: regressing the iterations that the log suggests, which is where the fit starts: where requests
//! are preempted it is 20 % off. The method of Nelder and Mead on the simulated loss: in its last digits the
//! loss is luck, and the lowest point of it lies a dozen standard errors from the truth. Slopes from
//! differences alone: parts of the cost are nearly alike, and noise in the slopes makes them look different.

mod arrange;
mod calibrated;
mod errors;
mod fleet;
mod history;
mod linear;
mod report;
mod search;
mod segment;
mod sketch;
mod space;
#[cfg(test)]
mod tests;

use forebay_model::llm::batching::{BatchingConfig, BatchingError, IterationCost, QueueOrder};

use super::observed::{LogError, ObservedRequest};

pub use calibrated::Inference;
pub use fleet::{Fleet, Peaks, Spread, replay_fleet};
pub use report::{Coefficient, JointFit, KvCapacity, Window};
pub use segment::Segment;
pub use space::Parameter;

/// Fewest requests on either side of the split.
const REQUESTS_MIN: usize = 20;

/// What is known of the engines behind a log.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineFlags {
    /// Most sequences in the batch of one engine.
    pub max_seqs: u32,
    /// Most tokens computed in one iteration.
    pub max_batched_tokens: u32,
    /// Tokens in a KV block.
    pub block_tokens: u32,
    /// KV blocks of one engine; absent: inferred.
    pub kv_blocks: Option<u32>,
    /// Engines behind the log; absent: inferred.
    pub replicas: Option<u32>,
    /// How requests are spread over them; absent: inferred.
    pub spread: Option<Spread>,
    /// Whether the next iteration is composed while one runs.
    pub async_scheduling: bool,
}

impl EngineFlags {
    /// Flags with everything else to be inferred, and vLLM's defaults.
    pub fn new(max_seqs: u32, max_batched_tokens: u32) -> Self {
        Self {
            max_seqs,
            max_batched_tokens,
            block_tokens: 16,
            kv_blocks: None,
            replicas: None,
            spread: None,
            async_scheduling: true,
        }
    }

    /// An engine with these settings and a cost.
    fn engine(&self, cost: IterationCost, kv_blocks: u32) -> BatchingConfig {
        BatchingConfig {
            cost,
            max_seqs: self.max_seqs,
            max_batched_tokens: self.max_batched_tokens,
            kv_blocks,
            block_tokens: self.block_tokens,
            prefix_hit_share: 0.0,
            queue: QueueOrder::Arrival,
            async_scheduling: self.async_scheduling,
            reserve_full_prompt: true,
            resume_from_cache: true,
        }
    }
}

/// A fit that could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JointError {
    /// The log is too short.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The flags are not valid.
    #[error("engine flags: {0}")]
    Flags(#[from] BatchingError),
    /// More engines than make sense, or none.
    #[error("replicas is {0}: it must be 1 to 64")]
    Replicas(u32),
    /// No setting of the search could serve the log.
    #[error("{0}")]
    Unservable(String),
    /// The minimiser gave up.
    #[error("minimiser: {0}")]
    Solver(String),
}

/// Fits an engine to the first half of a log, by arrival, and judges it by the second.
///
/// # Errors
/// Fewer than 20 requests on either side, flags outside their ranges, or flags under which the log cannot
/// have happened (a request that does not fit into the cache).
pub fn fit_engine(log: &[ObservedRequest], flags: &EngineFlags) -> Result<JointFit, JointError> {
    let half = log.len() / 2;
    if half < REQUESTS_MIN {
        return Err(LogError::TooFew { found: log.len(), needed: 2 * REQUESTS_MIN }.into());
    }
    if let Some(replicas) = flags.replicas.filter(|replicas| !(1..=64).contains(replicas)) {
        return Err(JointError::Replicas(replicas));
    }
    let cost = IterationCost { c0_s: 0.01, ..IterationCost::default() };
    flags.engine(cost, flags.kv_blocks.unwrap_or(1)).check()?;
    let [fit, judge] = segment::segments(log, half);
    let found = arrange::best(&fit, flags)?;
    report::report(log, &fit, &judge, flags, found)
}
