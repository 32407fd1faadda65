//! Scenarios broken at random: whatever token is changed, a scenario is refused with a problem, or runs.

use forebay_model::{Loaded, simulate};
use forebay_tests::scenario::{THEORY, read};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Tokens that stand for what people write by mistake.
const TOKENS: &[&str] = &[
    "-1",
    "0",
    "0.0",
    "1",
    "2.5",
    "1e300",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "1e-300",
    "99999999999999999999",
    "true",
    "\"\"",
    "\"desk\"",
    "\"poisson\"",
    "\"reranker\"",
    "\"llm_slots\"",
    "\"exponential\"",
    "[]",
    "{}",
    "[[]]",
    "[desk]",
    "=",
    "]",
    "}",
    "\"",
    "'",
    "kind",
    "servers",
    "rate_per_s",
    "mean",
    "2026-01-01",
    "\u{e9}",
    "\n",
    "#",
    ".",
    "{ kind = \"constant\", value = 0 }",
    "{ kind = \"pareto\", min = 1, max = 2, alpha = 1 }",
    "{ kind = \"uniform\", min = 0, max = 1e9 }",
    "[\"desk\", \"desk\", \"desk\"]",
    "10000000",
];

/// Tokens of a text: words and numbers, texts in quotes, and single signs.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let mut tokens = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices() {
        let in_word = c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '"');
        match (start, in_word) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                tokens.push((from, at));
                start = None;
            }
            _ => {}
        }
        if !in_word && !c.is_whitespace() {
            tokens.push((at, at + c.len_utf8()));
        }
    }
    tokens
}

/// The text without its comments: a change there changes nothing.
fn bare(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.starts_with('#')).collect()
}

/// Runs a hundredth of a second of a scenario that was read, if what it promises is little enough to wait
/// for.
fn run_a_little(mut loaded: Loaded) {
    let plan = &mut loaded.scenario.run;
    (plan.duration_s, plan.warmup_s, plan.drain_s, plan.timeline_points) = (0.01, 0.0, 0.01, 2);
    // A clock that stands still is an answer, too; a breach of what must hold is not.
    if let Ok(run) = simulate(&loaded, 1, 0) {
        assert!(run.violations.is_empty(), "{:?}", run.violations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_token_changed(which in 0..THEORY.len(), at in any::<prop::sample::Index>(),
                         token in prop::sample::select(TOKENS), act in 0..4_u8) {
        let text = bare(THEORY[which].1);
        let tokens = tokens(&text);
        let (from, to) = tokens[at.index(tokens.len())];
        let changed = match act {
            // Another token in its place, beside it, nothing, or twice the same.
            0 => format!("{}{token}{}", &text[..from], &text[to..]),
            1 => format!("{}{token} {}", &text[..from], &text[from..]),
            2 => format!("{}{}", &text[..from], &text[to..]),
            _ => format!("{}{}", &text[..to], &text[from..]),
        };
        match read("changed", &changed, &[""; 0]) {
            Ok(loaded) => run_a_little(loaded),
            Err(problems) => {
                prop_assert!(!problems.is_empty());
                prop_assert!(problems.iter().all(|p| p.line > 0 && p.column > 0 && !p.found.is_empty()));
            }
        }
    }

    #[test]
    fn one_byte_changed(which in 0..THEORY.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = bare(THEORY[which].1).into_bytes();
        let index = at.index(bytes.len());
        bytes[index] = byte;
        let source = forebay_model::document::Source::from_bytes("changed", bytes);
        let read = source.and_then(|s| Loaded::read(&s, &[], forebay_tests::scenario::nothing));
        match read {
            Ok(loaded) => run_a_little(loaded),
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }
}
