//! The ceiling of a batching engine: its iteration time with as many sequences as fit.
//!
//! With B sequences running, each needing one iteration per token of its answer, B / O requests end per
//! iteration (O: mean tokens out), and as many prompts are computed. B is bounded by `max_seqs`, by KV
//! memory (a sequence holds its prompt and, on average over its life, half of what it has written so far)
//! and by the tokens of an iteration. The iteration time is linear in what it computes, with a constant
//! part, so the most sequences give the most requests.

use super::StageCapacity;
use super::stages::at_most;
use forebay_model::llm::batching::BatchingConfig;
use forebay_model::scenario::{Inputs, LlmBatching};

/// Lengths of the mean request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prompt {
    /// Tokens of the prompt, documents included.
    pub(super) tokens: f64,
    /// Mean square of them.
    pub(super) square: f64,
    /// Tokens of the answer.
    pub(super) out: f64,
    /// Mean square of them.
    pub(super) out_square: f64,
}

/// An engine with as many sequences as fit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Full {
    sequences: f64,
    bound: &'static str,
    iteration_s: f64,
    requests_per_s: f64,
}

/// Capacity of the stage in calls; nothing is known without calls or without a configuration.
pub(super) fn capacity(
    name: &str,
    stage: &LlmBatching,
    inputs: &Inputs,
    prompt: Option<Prompt>,
) -> StageCapacity {
    let config = stage.config(inputs).ok();
    let full = config.as_ref().zip(prompt).map(|(config, prompt)| full(config, &prompt));
    let replicas = f64::from(stage.places());
    let note = match (full, prompt) {
        (Some(full), _) => format!(
            "{:.0} sequences at once per replica, bound by {}; an iteration takes {:.2} ms then; waiting has \
             no closed form{}",
            full.sequences,
            full.bound,
            full.iteration_s * 1e3,
            at_most(stage.autoscale.is_some(), stage.places())
                .map(|most| format!("; {most}"))
                .unwrap_or_default()
        ),
        (None, None) => "not on any path at L1".to_owned(),
        (None, Some(_)) => "the engine's configuration is incomplete".to_owned(),
    };
    StageCapacity {
        name: name.to_owned(),
        kind: "llm_batching".to_owned(),
        servers: full.map(|full| replicas * full.sequences),
        service_s: full.map(|full| full.sequences / full.requests_per_s),
        visited_share: 0.0,
        ceiling_per_s: full.map(|full| replicas * full.requests_per_s),
        load: None,
        peak_load: None,
        waiting: None,
        note: Some(note),
    }
}

fn full(config: &BatchingConfig, prompt: &Prompt) -> Full {
    // A running sequence is met in proportion to its length: the tokens it holds on average are its
    // prompt and half of a length-biased answer.
    let held = prompt.tokens + 0.5 * prompt.out_square / prompt.out;
    // The last block of each sequence is half full on average.
    let kv_tokens = f64::from(config.kv_blocks) * f64::from(config.block_tokens);
    let by_kv = kv_tokens / (held + 0.5 * f64::from(config.block_tokens));
    let computed = prompt.tokens * (1.0 - config.prefix_hit_share);
    let by_tokens = f64::from(config.max_batched_tokens) / (1.0 + computed / prompt.out);
    let mut bound = ("max_seqs", f64::from(config.max_seqs));
    for other in [("KV memory", by_kv), ("max_batched_tokens", by_tokens)] {
        if other.1 < bound.1 {
            bound = other;
        }
    }
    let (bound, sequences) = bound;
    let sequences = sequences.max(1.0);
    let ended = sequences / prompt.out;
    let cost = &config.cost;
    let prefill = ended * computed;
    let hidden = (f64::from(cost.hidden_tokens) - sequences).max(0.0);
    let found = prompt.tokens - computed;
    let area = 0.5 * (prompt.square - found * found).max(0.0);
    // Prompts arrive at random: the share of iterations that compute some.
    let mixed = 1.0 - libm::exp(-ended);
    let iteration_s = cost.c0_s
        + cost.per_prefill_token_s * (prefill - hidden).max(0.0)
        + cost.per_prefill_context_s * ended * area
        + cost.per_decode_sequence_s * sequences
        + (cost.per_resident_token_s + mixed * cost.per_resident_token_mixed_s) * sequences * held;
    Full { sequences, bound, iteration_s, requests_per_s: ended / iteration_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine(max_seqs: u32, kv_blocks: u32) -> BatchingConfig {
        serde_json::from_value(serde_json::json!({
            "cost": {
                "c0_s": 0.01, "per_prefill_token_s": 1e-4, "per_prefill_context_s": 0.0,
                "per_decode_sequence_s": 1e-4, "per_resident_token_s": 1e-7
            },
            "max_seqs": max_seqs, "max_batched_tokens": 8192, "kv_blocks": kv_blocks
        }))
        .unwrap()
    }

    const PROMPT: Prompt = Prompt { tokens: 400.0, square: 160_000.0, out: 200.0, out_square: 40_000.0 };

    #[test]
    fn a_full_batch_by_hand() {
        let full = full(&engine(50, 100_000), &PROMPT);
        // 10 ms + 100 prefill tokens x 0.1 ms + 50 x 0.1 ms + 50 x 500 x 0.1 µs = 27.5 ms; 0.25 end in it.
        assert_eq!((full.sequences, full.bound), (50.0, "max_seqs"));
        assert!((full.iteration_s - 0.0275).abs() < 1e-12);
        assert!((full.requests_per_s - 0.25 / 0.0275).abs() < 1e-9);
    }

    #[test]
    fn memory_and_tokens_bound_the_batch() {
        let by_kv = full(&engine(1000, 1000), &PROMPT);
        assert_eq!(by_kv.bound, "KV memory");
        assert!((by_kv.sequences - 16_000.0 / 508.0).abs() < 1e-9);
        let mut config = engine(4000, 1_000_000);
        config.max_batched_tokens = 4000;
        assert_eq!(full(&config, &PROMPT).bound, "max_batched_tokens");
    }
}
