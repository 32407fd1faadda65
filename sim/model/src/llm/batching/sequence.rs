//! A job inside the engine.

use super::Job;

/// Where a sequence stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The slot is empty.
    Vacant,
    /// In the queue, for the first time or after a preemption.
    Waiting,
    /// Running, its prompt not yet computed to the end.
    Prefilling,
    /// Running, one token per iteration.
    Decoding,
    /// Its last token is in an iteration that is decided but not over.
    Finishing,
}

/// One sequence.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub id: u64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    /// Leading blocks of the prompt that it shares with others: neither computed nor held by it.
    pub shared_blocks: u64,
    pub stage: Stage,
    /// Priority, then place: the key under which it waits, unique among all that ever waited.
    pub place: (u8, i64),
    /// Number of its arrival; unique for ever, and so a guard against a reused slot.
    pub arrival: u64,
    /// Number of its latest admission.
    pub admission: u64,
    /// Answer tokens known when it last left the batch; counts again towards its prefill.
    pub generated: u64,
    /// While prefilling: tokens computed.
    pub computed: u64,
    /// While decoding: tokens held at iteration m are `offset + m`.
    pub offset: i64,
    /// While decoding or finishing: the iteration of its last token.
    pub finish: u64,
    pub started: bool,
    pub cancelled: bool,
}

impl Sequence {
    pub(super) fn new(job: &Job, arrival: u64, place: (u8, i64)) -> Self {
        Self {
            id: job.id,
            tokens_in: u64::from(job.tokens_in.max(1)),
            tokens_out: u64::from(job.tokens_out.max(1)),
            shared_blocks: 0,
            stage: Stage::Waiting,
            place,
            arrival,
            admission: 0,
            generated: 0,
            computed: 0,
            offset: 0,
            finish: 0,
            started: false,
            cancelled: false,
        }
    }

    /// Tokens to compute before the next answer token.
    pub(super) fn prefill_tokens(&self) -> u64 {
        self.tokens_in + self.generated
    }

    /// Tokens it will ever hold: the last answer token is never computed on.
    pub(super) fn most_tokens(&self) -> u64 {
        self.tokens_in + self.tokens_out - 1
    }

    /// Tokens held after iteration `step` was decided.
    pub(super) fn held_tokens(&self, step: u64) -> u64 {
        match self.stage {
            Stage::Vacant | Stage::Waiting => 0,
            Stage::Prefilling => self.computed,
            Stage::Decoding => (self.offset + step as i64) as u64,
            Stage::Finishing => self.most_tokens(),
        }
    }
}
