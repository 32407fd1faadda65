//! The `batching` language-model engine: continuous batching as vLLM does it, at the cost of
//! requests instead of tokens.
//!
//! # What it models
//! An iteration (a *step*) gives one token to every sequence that decodes and spends the rest of a
//! token budget on prefill, in chunks, first on the sequence already under way and then on the
//! waiting ones, whole-queue order kept. Its length is [`IterationCost`]. Keys and values live in
//! blocks; a waiting job is let in only if its whole prompt fits; when a running sequence finds no
//! block the latest admitted is preempted: it loses what was computed, goes back to the head of the
//! queue, and nobody is let in during that step. A preempted job that returns finds those of its
//! blocks that nobody took meanwhile, the free list being a queue (least recently freed first out).
//! With `async_scheduling` the next step is composed while one runs, so what a step produces
//! influences the step after the next. Source: the scheduler of vLLM 0.19 (V1), read, and the runs in
//! `datasets/measured/vllm-runs`. Two deliberate differences: with the priority queue, victims are
//! chosen before the step's blocks are handed out; and no block is set aside as a null block.
//!
//! # How it is fast
//! Between two changes of the batch every iteration has the same members, so iteration times form an
//! arithmetic series: the timeline keeps such stretches as segments with exact integer sums, a
//! finish is a heap entry keyed by the absolute number of its iteration, and the blocks that all
//! decoding sequences hold after any number of iterations follow from a histogram of their remainders
//! modulo the block size. Iterations are thus *decided in bulk*, up to the next finish or to the last
//! block, and cut back when an arrival or a cancellation changes what the next decision would be.
//!
//! Rejected: one calendar event per iteration (cost grows with tokens: 300 times as many events on the
//! Azure trace), and floating-point time (a jump and the sum of its steps would differ in the last
//! bits, and with them, sooner or later, the order of two events). Durations are integers in units of
//! 2^-30 ns; an event happens at the floor of its exact time in nanoseconds.
//!
//! # Contract
//! The caller owns the clock: it calls [`BatchingEngine::advance`] when [`BatchingEngine::next_event`]
//! says so and never lets that instant pass. At one instant, submissions and cancellations made before
//! `advance` are seen by the iteration boundary of that instant; those made after it wait for the next.

mod config;
mod cost;
mod decodes;
mod engine;
mod free_list;
mod observe;
mod schedule;
mod sequence;
mod timeline;
mod waiting;

#[cfg(test)]
mod twin;
#[cfg(test)]
mod twin_tests;

pub use config::{BatchingConfig, BatchingError, QueueOrder};
pub use cost::IterationCost;
pub use engine::BatchingEngine;

/// One call to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// The caller's name for the call; unique among those in the engine.
    pub id: u64,
    /// Prompt length, tokens; 0 counts as 1.
    pub tokens_in: u32,
    /// Answer length, tokens; 0 counts as 1.
    pub tokens_out: u32,
    /// Urgency under [`QueueOrder::Priority`]: 0 is served first. Ignored otherwise.
    pub priority: u8,
}

/// Something that happened to a job. Times are nanoseconds on the caller's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The job was composed into an iteration for the first time: its waiting ended.
    Started {
        /// The job.
        id: u64,
        /// When, ns.
        at: u64,
    },
    /// The first token of the answer came out.
    FirstToken {
        /// The job.
        id: u64,
        /// When, ns.
        at: u64,
    },
    /// The last token came out; the job has left the engine.
    Finished {
        /// The job.
        id: u64,
        /// When, ns.
        at: u64,
    },
    /// The job lost its blocks and waits again at the head of the queue.
    Preempted {
        /// The job.
        id: u64,
        /// When, ns.
        at: u64,
    },
    /// The job can never be served and has left the engine.
    Refused {
        /// The job.
        id: u64,
        /// When, ns.
        at: u64,
        /// Why.
        why: RefusalCause,
    },
}

/// Why the engine refuses a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// Prompt and answer together need more blocks than the engine has.
    TooLong,
}
