//! The fast engine against its naive twin, on random settings and random crowds.

use proptest::prelude::*;

use super::twin::Twin;
use super::{BatchingConfig, BatchingEngine, IterationCost, Job, Progress, QueueOrder};

#[derive(Clone, Copy, Debug)]
enum Act {
    Submit {
        tokens_in: u32,
        tokens_out: u32,
        priority: u8,
    },
    /// Cancel one of the jobs submitted so far, as a share of their number.
    Cancel(f64),
    /// Iterations take so many times as long from now on.
    Pace(f64),
    /// Only look.
    Look,
}

#[derive(Clone, Copy, Debug)]
struct Move {
    gap_ns: u64,
    /// Whether the boundary of this very instant is handled first.
    settle_first: bool,
    act: Act,
}

fn cost() -> impl Strategy<Value = IterationCost> {
    let coefficient = || prop_oneof![Just(0.0), 1e-9..1e-4_f64];
    (
        prop_oneof![1e-9..1e-7_f64, 1e-6..2e-2_f64],
        coefficient(),
        coefficient(),
        coefficient(),
        coefficient(),
        coefficient(),
        prop_oneof![Just(0), 1_u32..200],
    )
        .prop_map(|(c0, prefill, context, sequence, resident, mixed, hidden)| IterationCost {
            c0_s: c0,
            per_prefill_token_s: prefill,
            per_prefill_context_s: context * 1e-3,
            per_decode_sequence_s: sequence,
            per_resident_token_s: resident * 1e-2,
            per_resident_token_mixed_s: mixed * 1e-2,
            hidden_tokens: hidden,
        })
}

fn config() -> impl Strategy<Value = BatchingConfig> {
    (
        cost(),
        1_u32..24,
        prop_oneof![0_u32..8, 0_u32..600],
        prop_oneof![1_u32..40, 20_u32..400],
        prop_oneof![Just(16_u32), 1_u32..20],
        prop_oneof![Just(0.0), 0.0..=1.0_f64],
        any::<bool>(),
        any::<[bool; 3]>(),
    )
        .prop_map(|(cost, max_seqs, extra, kv_blocks, block_tokens, hits, priority, flags)| {
            BatchingConfig {
                cost,
                max_seqs,
                max_batched_tokens: max_seqs + extra,
                kv_blocks,
                block_tokens,
                prefix_hit_share: hits,
                queue: if priority { QueueOrder::Priority } else { QueueOrder::Arrival },
                async_scheduling: flags[0],
                reserve_full_prompt: flags[1],
                resume_from_cache: flags[2],
            }
        })
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let act = prop_oneof![
        6 => (0_u32..300, 0_u32..120, 0_u8..4)
            .prop_map(|(tokens_in, tokens_out, priority)| Act::Submit { tokens_in, tokens_out, priority }),
        2 => (0.0..1.0_f64).prop_map(Act::Cancel),
        1 => prop_oneof![Just(1.0), 0.1..10.0_f64].prop_map(Act::Pace),
        1 => Just(Act::Look),
    ];
    let gap = prop_oneof![
        3 => Just(0_u64),
        2 => 1_u64..2_000_000,
        2 => 1_u64..200_000_000,
        1 => 1_u64..5_000_000_000,
    ];
    let one =
        (gap, any::<bool>(), act).prop_map(|(gap_ns, settle_first, act)| Move { gap_ns, settle_first, act });
    prop::collection::vec(one, 1..60)
}

/// A small cache of small blocks under a crowd that comes at once and partly leaves: preempted jobs wait
/// in numbers, and find parts of their blocks again.
fn tight_config() -> impl Strategy<Value = BatchingConfig> {
    (config(), 4_u32..24, 1_u32..4, 60_u32..200, 0_u32..40).prop_map(
        |(config, max_seqs, block_tokens, kv_blocks, extra)| BatchingConfig {
            max_seqs,
            max_batched_tokens: max_seqs + extra,
            kv_blocks,
            block_tokens,
            prefix_hit_share: 0.0,
            resume_from_cache: true,
            ..config
        },
    )
}

fn tight_moves() -> impl Strategy<Value = Vec<Move>> {
    let act = prop_oneof![
        3 => (1_u32..60, 1_u32..60, 0_u8..4)
            .prop_map(|(tokens_in, tokens_out, priority)| Act::Submit { tokens_in, tokens_out, priority }),
        2 => (0.0..1.0_f64).prop_map(Act::Cancel),
    ];
    let gap = prop_oneof![2 => Just(0_u64), 2 => 1_u64..100_000, 1 => 1_u64..30_000_000];
    let one =
        (gap, any::<bool>(), act).prop_map(|(gap_ns, settle_first, act)| Move { gap_ns, settle_first, act });
    prop::collection::vec(one, 20..60)
}

struct Pair {
    engine: BatchingEngine,
    twin: Twin,
    out: Vec<Progress>,
}

impl Pair {
    /// Both handle what comes before `limit`, the engine only when it asks to be called.
    fn run_before(&mut self, limit: u64) {
        while let Some(at) = self.engine.next_event().filter(|&at| at < limit) {
            self.engine.advance(at, &mut self.out);
            self.twin.advance(at);
            assert_eq!(self.out, self.twin.events, "after {at} ns");
        }
    }

    fn look(&self, now: u64) {
        let seen = (
            self.engine.running() as usize,
            self.engine.waiting(),
            self.engine.kv_blocks_used(now),
            self.engine.resident_tokens(now),
            self.engine.iterations(now),
            self.engine.preemptions(),
        );
        let twin = &self.twin;
        let expected = (
            twin.running(),
            twin.waiting(),
            twin.blocks_used(),
            twin.resident_tokens(),
            twin.iterations,
            twin.preemptions,
        );
        assert_eq!(seen, expected, "at {now} ns: running, waiting, blocks, tokens, iterations, preemptions");
    }
}

fn agree(config: &BatchingConfig, moves: &[Move]) {
    let engine = BatchingEngine::new(config.clone()).expect("the strategy makes valid settings");
    let mut pair = Pair { engine, twin: Twin::new(config.clone()), out: Vec::new() };
    let (mut now, mut submitted, mut cancelled) = (0_u64, 0_u64, 0_u64);
    for step in moves {
        now += step.gap_ns;
        pair.run_before(now);
        if step.settle_first {
            pair.engine.advance(now, &mut pair.out);
            pair.twin.advance(now);
            pair.look(now);
        }
        match step.act {
            Act::Submit { tokens_in, tokens_out, priority } => {
                let job = Job { id: submitted, tokens_in, tokens_out, priority };
                pair.engine.submit(now, job);
                pair.twin.submit(now, job);
                submitted += 1;
            }
            Act::Cancel(share) => {
                let id = (submitted as f64 * share) as u64;
                let (ours, theirs) = (pair.engine.cancel(now, id), pair.twin.cancel(now, id));
                assert_eq!(ours, theirs, "cancelling {id} at {now} ns");
                cancelled += u64::from(ours);
            }
            Act::Pace(factor) => {
                pair.engine.set_pace(now, factor);
                pair.twin.set_pace(now, factor);
            }
            Act::Look => {}
        }
    }
    pair.run_before(u64::MAX);
    pair.twin.advance(u64::MAX);
    assert_eq!(pair.out, pair.twin.events, "at the end");
    assert!(pair.out.is_sorted_by_key(time), "events out of order");
    let ended = pair.out.iter().filter(|p| matches!(p, Progress::Finished { .. } | Progress::Refused { .. }));
    assert_eq!(ended.count() as u64 + cancelled, submitted, "every job ends once");
    assert_eq!((pair.engine.running(), pair.engine.waiting()), (0, 0), "nobody is left");
    assert_eq!(pair.engine.kv_blocks_used(u64::MAX), 0, "all blocks are given back");
    assert_eq!(pair.twin.blocks_free(), config.kv_blocks as usize, "all blocks are given back");
}

fn time(progress: &Progress) -> u64 {
    match *progress {
        Progress::Started { at, .. }
        | Progress::FirstToken { at, .. }
        | Progress::Finished { at, .. }
        | Progress::Preempted { at, .. }
        | Progress::Refused { at, .. } => at,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn engine_agrees_with_its_twin(config in config(), moves in moves()) {
        agree(&config, &moves);
    }

    #[test]
    fn engine_agrees_with_its_twin_in_a_tight_cache(config in tight_config(), moves in tight_moves()) {
        agree(&config, &moves);
    }
}
