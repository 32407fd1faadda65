//! How attempts and requests end, the ledger that must add up, and the digest over all ends in order.

use forebay_policies::{Level, Reason};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// Answered, or handed over at L4.
    Answered,
    /// Turned away by a policy.
    RejectedBy(Reason, Option<u64>),
    /// Turned away by a stage whose queue was full: the index of the stage.
    StageFull(u16),
    /// Cut off by a time limit.
    TimedOut,
    /// The person gave up.
    Abandoned,
    /// Something broke.
    Failed(Failure),
}

/// Why something broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An allocation on a GPU failed.
    OutOfMemory,
    /// The engine that served it was restarted.
    EngineRestarted,
    /// Prompt and answer do not fit into the engine's KV memory at all.
    TooLong,
    /// The GPU that served it was lost.
    GpuLost,
    /// No replica of the stage was up.
    NoReplica,
    /// The gateway's process was killed: its memory was beyond its container's or its host's.
    GatewayKilled,
    /// The process of a stage on the gateway's host was killed: the host's memory had run out.
    NeighbourKilled,
}

impl Failure {
    pub(crate) const ALL: [Self; 7] = [
        Self::OutOfMemory,
        Self::EngineRestarted,
        Self::TooLong,
        Self::GpuLost,
        Self::NoReplica,
        Self::GatewayKilled,
        Self::NeighbourKilled,
    ];

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::OutOfMemory => "out_of_memory",
            Self::EngineRestarted => "engine_restarted",
            Self::TooLong => "too_long",
            Self::GpuLost => "gpu_lost",
            Self::NoReplica => "no_replica",
            Self::GatewayKilled => "gateway_killed",
            Self::NeighbourKilled => "neighbour_killed",
        }
    }
}

/// Counts of ends while a run goes on.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) offered: u64,
    pub(crate) answered: [u64; 4],
    /// Answered from a cache.
    pub(crate) cached: u64,
    by_reason: Vec<u64>,
    by_full_stage: Vec<u64>,
    pub(crate) timed_out: u64,
    pub(crate) abandoned: u64,
    failed: [u64; Failure::ALL.len()],
}

impl Tally {
    pub(crate) fn new(stages: usize) -> Self {
        Self {
            offered: 0,
            answered: [0; 4],
            cached: 0,
            by_reason: vec![0; Reason::ALL.len()],
            by_full_stage: vec![0; stages],
            timed_out: 0,
            abandoned: 0,
            failed: [0; Failure::ALL.len()],
        }
    }

    /// Counts an end; `cached`: an answer that came from a cache.
    pub(crate) fn count(&mut self, end: End, level: Level, cached: bool) {
        match end {
            End::Answered if cached => self.cached += 1,
            End::Answered => self.answered[level.index()] += 1,
            End::RejectedBy(why, _) => self.by_reason[why.index()] += 1,
            End::StageFull(stage) => self.by_full_stage[usize::from(stage)] += 1,
            End::TimedOut => self.timed_out += 1,
            End::Abandoned => self.abandoned += 1,
            End::Failed(why) => self.failed[why as usize] += 1,
        }
    }

    /// As the summary shows it: zero counts of reasons and causes are left out.
    pub(crate) fn ledger(&self, stages: &[String], in_flight_at_end: u64) -> Ledger {
        let mut rejected = IndexMap::new();
        for (reason, &n) in Reason::ALL.iter().zip(&self.by_reason) {
            if n > 0 {
                rejected.insert(reason.code().to_owned(), n);
            }
        }
        for (stage, &n) in stages.iter().zip(&self.by_full_stage) {
            if n > 0 {
                rejected.insert(format!("stage.{stage}.full"), n);
            }
        }
        let failed = Failure::ALL
            .iter()
            .zip(self.failed)
            .filter(|&(_, n)| n > 0)
            .map(|(why, n)| (why.code().to_owned(), n))
            .collect();
        let [l1, l2, l3, l4] = self.answered;
        Ledger {
            offered: self.offered,
            answered: Answered { l1, l2, l3, l4, cache: self.cached },
            rejected,
            timed_out: self.timed_out,
            abandoned: self.abandoned,
            failed,
            in_flight_at_end,
        }
    }
}

/// How every request that was offered ended. The parts add up to `offered`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Requests that were sent.
    pub offered: u64,
    /// Answered, by level; `l4` was handed over to a person.
    pub answered: Answered,
    /// Turned away, by reason code.
    pub rejected: IndexMap<String, u64>,
    /// Cut off by a time limit.
    pub timed_out: u64,
    /// Given up by the person who asked.
    pub abandoned: u64,
    /// Broken, by cause.
    pub failed: IndexMap<String, u64>,
    /// Neither ended nor lost when the run stopped.
    pub in_flight_at_end: u64,
}

/// Answered requests by level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// Full RAG and LLM.
    pub l1: u64,
    /// Light RAG.
    pub l2: u64,
    /// FAQ rules.
    pub l3: u64,
    /// Handed over to a person.
    pub l4: u64,
    /// From the cache.
    pub cache: u64,
}

impl Answered {
    /// Over all levels and the cache.
    pub fn total(&self) -> u64 {
        self.l1 + self.l2 + self.l3 + self.l4 + self.cache
    }
}

impl Ledger {
    /// The sum of the parts; equal to `offered` when the ledger is right.
    pub fn accounted(&self) -> u64 {
        self.answered.total()
            + self.rejected.values().sum::<u64>()
            + self.timed_out
            + self.abandoned
            + self.failed.values().sum::<u64>()
            + self.in_flight_at_end
    }

    /// Adds another replication's ledger.
    pub fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.answered.l1 += other.answered.l1;
        self.answered.l2 += other.answered.l2;
        self.answered.l3 += other.answered.l3;
        self.answered.l4 += other.answered.l4;
        self.answered.cache += other.answered.cache;
        self.timed_out += other.timed_out;
        self.abandoned += other.abandoned;
        self.in_flight_at_end += other.in_flight_at_end;
        for (mine, theirs) in [(&mut self.rejected, &other.rejected), (&mut self.failed, &other.failed)] {
            for (code, n) in theirs {
                *mine.entry(code.clone()).or_insert(0) += n;
            }
        }
    }
}

/// A hash over all ends in order: two runs with one digest ended every request alike, at the same
/// nanosecond. Not cryptographic; it guards against accidents, not against malice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digest(pub u128);

impl Digest {
    /// The digest of nothing.
    pub const EMPTY: Self = Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);

    /// Folds a word in. A widening multiplication by an odd constant, then folding the halves, is a
    /// bijection in each word and mixes every bit of the state.
    #[inline]
    pub fn fold(&mut self, word: u64) {
        const ODD: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
        self.0 = (self.0 ^ u128::from(word)).wrapping_mul(ODD);
        self.0 ^= self.0 >> 71;
    }

    /// Folds the end of a request in.
    pub(crate) fn fold_end(&mut self, index: u64, end: End, level: Level, cached: bool, at_ns: u64) {
        let (kind, detail) = match end {
            End::Answered if cached => (1, Level::ALL.len() as u64),
            End::Answered => (1, level.index() as u64),
            End::RejectedBy(why, _) => (2, fingerprint(why.code())),
            End::StageFull(stage) => (3, u64::from(stage)),
            End::TimedOut => (4, 0),
            End::Abandoned => (5, 0),
            End::Failed(why) => (6, why as u64),
        };
        self.fold(index);
        self.fold(kind << 56 ^ detail);
        self.fold(at_ns);
    }

    /// As 32 hexadecimal digits.
    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// FNV-1a over a reason's code, so that the digest does not change when reasons are added.
fn fingerprint(code: &str) -> u64 {
    code.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)) >> 8
}
