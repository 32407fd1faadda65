//! Each class of mistake: exact position, exact words.

use super::example::{GOOD, Stage, read_text, shown};
use crate::document::{Problem, Source};

/// The problems of the good text with one part replaced.
fn after(old: &str, new: &str) -> Vec<String> {
    assert!(GOOD.contains(old), "{old}");
    shown(read_text(&GOOD.replacen(old, new, 1)))
}

#[test]
fn the_right_text_is_read() {
    let document = read_text(GOOD).unwrap();
    assert_eq!(document.value.seed, u64::MAX);
    assert_eq!(document.value.stages.keys().collect::<Vec<_>>(), ["llm", "rerank v2", "rules"]);
    assert!(matches!(document.value.stages[2], Stage::Rules));
    assert_eq!(document.value.policy.fallback.l2.dwell_s, 5.0);
}

#[test]
fn numbers_out_of_range() {
    assert_eq!(
        after("replicas = 3", "replicas = -3"),
        ["shop.toml:15:12: stages.llm.replicas: found -3, allowed: a whole number from 1 to 100000"]
    );
    assert_eq!(
        after("max_docs = 64", "max_docs = 70000"),
        [
            "shop.toml:20:12: stages.\"rerank v2\".max_docs: found 70000, allowed: a whole number from 1 to 512"
        ]
    );
    assert_eq!(
        after("replicas = 3", "replicas = 3\nmemory_gb = 0"),
        ["shop.toml:16:13: stages.llm.memory_gb: found 0, allowed: a finite number above 0"]
    );
    assert_eq!(
        after("vram_above = 0.8", "vram_above = nan"),
        ["shop.toml:26:14: policy.fallback.l2.vram_above: found nan, allowed: a finite number from 0 to 1"]
    );
    assert_eq!(
        after("vram_above = 0.8", "dwell_s = -inf"),
        ["shop.toml:26:11: policy.fallback.l2.dwell_s: found -inf, allowed: a finite number"]
    );
    assert_eq!(
        after("18446744073709551615", "-1"),
        ["shop.toml:3:8: seed: found -1, allowed: a whole number, 0 or more"]
    );
    assert_eq!(
        after("18446744073709551615", "18446744073709551616"),
        ["shop.toml:3:8: seed: found the number \"18446744073709551616\", \
          allowed: a whole number of at most 64 bits"]
    );
    assert_eq!(
        after("vram_above = 0.8", "vram_above = 1e999"),
        ["shop.toml:26:14: policy.fallback.l2.vram_above: found the number \"1e999\", \
          allowed: a number of at most 1.8e308"]
    );
}

#[test]
fn values_too_large_for_their_type() {
    assert_eq!(
        after(
            "[policy.fallback.l2]",
            "[policy]\nqueue = { fifo = { most = 5000000000 } }\n[policy.fallback.l2]"
        ),
        [
            "shop.toml:26:27: policy.queue.fifo.most: found 5000000000, allowed: a whole number from 0 to 4294967295"
        ]
    );
}

#[test]
fn wrong_types_with_a_way_out() {
    assert_eq!(
        after("replicas = 3", "replicas = \"3\""),
        ["shop.toml:15:12: stages.llm.replicas: found \"3\", allowed: a whole number from 1 to 100000\n  \
          write it without quotes: 3"]
    );
    assert_eq!(
        after("replicas = 3", "replicas = 3.0"),
        ["shop.toml:15:12: stages.llm.replicas: found 3.0, allowed: a whole number from 1 to 100000\n  \
          write it without a fraction: 3"]
    );
    assert_eq!(
        after("name = \"shop\"", "name = 2026-01-01"),
        ["shop.toml:2:8: name: found the date or time 2026-01-01, allowed: a text that is not empty\n  \
          write it in quotes: \"2026-01-01\""]
    );
    assert_eq!(
        after("rate_per_s = 4", "rate_per_s = true"),
        ["shop.toml:6:14: sources.0.rate_per_s: found true, allowed: a finite number from 0 to 1000"]
    );
    assert_eq!(
        after("[policy.fallback.l2]", "[policy]\nshadow = 1\n[policy.fallback.l2]"),
        ["shop.toml:26:10: policy.shadow: found 1, allowed: true or false"]
    );
    assert_eq!(
        after("[stages.rules]\nkind = \"rules\"", "[stages]\nrules = [1, 2]"),
        ["shop.toml:23:9: stages.rules: found a list of 2, \
          allowed: a table with kind = \"llm\", \"reranker\" or \"rules\""]
    );
    assert_eq!(
        after("[labels]\nteam = \"support, \\\"night\\\"\\n\"", "[labels.team]"),
        ["shop.toml:28:1: labels.team: found an empty table, allowed: a text"]
    );
}

#[test]
fn unknown_keys_and_missing_keys() {
    assert_eq!(
        after("replicas = 3", "replcias = 3"),
        [
            "shop.toml:13:1: stages.llm.replicas: found nothing, \
             allowed: a whole number from 1 to 100000 (this key is required)",
            "shop.toml:15:1: stages.llm.replcias: found the unknown key replcias, \
             allowed: the keys kind, replicas, service_s or memory_gb\n  did you mean `replicas`?",
        ]
    );
    assert_eq!(
        after("name = \"shop\"", "colour = \"red\""),
        [
            "shop.toml:1:1: name: found nothing, allowed: a text that is not empty (this key is required)",
            "shop.toml:2:1: colour: found the unknown key colour, \
             allowed: the keys name, seed, sources, stages, policy, labels or window",
        ]
    );
    assert_eq!(
        after("rate_per_s = 0.5", ""),
        ["shop.toml:9:1: sources.1.rate_per_s: found nothing, \
          allowed: a finite number from 0 to 1000 (this key is required)"]
    );
    assert_eq!(
        after("[policy.fallback.l2]", "[policy.fallback.l3]"),
        ["shop.toml:25:18: policy.fallback.l3: found the unknown key l3, allowed: the key l2\n  \
          did you mean `l2`?"]
    );
}

#[test]
fn tables_that_say_what_they_are() {
    assert_eq!(
        after("kind = \"reranker\"", "kind = \"rerank\""),
        ["shop.toml:19:8: stages.\"rerank v2\".kind: found \"rerank\", \
          allowed: \"llm\", \"reranker\" or \"rules\"\n  did you mean `reranker`?"]
    );
    assert_eq!(
        after("kind = \"reranker\"\n", ""),
        ["shop.toml:18:1: stages.\"rerank v2\".kind: found nothing, \
          allowed: \"llm\", \"reranker\" or \"rules\" (this key is required)\n  \
          its keys are those of kind = \"reranker\""]
    );
    assert_eq!(
        after("kind = \"rules\"", "kind = 7"),
        ["shop.toml:23:8: stages.rules.kind: found 7, allowed: \"llm\", \"reranker\" or \"rules\""]
    );
    assert_eq!(
        after("gaps = \"even\"", "gaps = \"poison\""),
        ["shop.toml:11:8: sources.1.gaps: found \"poison\", allowed: \"poisson\" or \"even\"\n  \
          did you mean `poisson`?"]
    );
    let queue = |text: &str| {
        after("[policy.fallback.l2]", &format!("[policy]\nqueue = {text}\n[policy.fallback.l2]"))
    };
    assert_eq!(
        queue("{ fifu = { most = 1 } }"),
        ["shop.toml:26:9: policy.queue: found a table with the key fifu, \
          allowed: a table with exactly one of the keys fifo or lifo\n  did you mean `fifo`?"]
    );
    assert_eq!(
        queue("{ lifo = { most = -1 } }"),
        ["shop.toml:26:27: policy.queue.lifo.most: found -1, allowed: a whole number, 0 or more"]
    );
}

#[test]
fn a_number_or_a_distribution() {
    let service = |text: &str| {
        let old = "{ kind = \"mixture\", parts = [0.2, { kind = \"exponential\", mean = 1 }] }";
        after(old, text)
    };
    assert_eq!(service("2"), Vec::<String>::new());
    assert_eq!(
        service("\"fast\""),
        ["shop.toml:16:13: stages.llm.service_s: found \"fast\", allowed: a finite number, \
          or a table with kind = \"exponential\", \"uniform\" or \"mixture\""]
    );
    assert_eq!(
        service("{ kind = \"uniform\", low = 1, hihg = 2 }"),
        [
            "shop.toml:16:13: stages.llm.service_s.high: found nothing, \
             allowed: a finite number (this key is required)",
            "shop.toml:16:42: stages.llm.service_s.hihg: found the unknown key hihg, \
             allowed: the keys kind, low or high\n  did you mean `high`?",
        ]
    );
    assert_eq!(
        service("{ kind = \"mixture\", parts = [1, { kind = \"exponential\", mean = -1 }, \"x\"] }"),
        [
            "shop.toml:16:76: stages.llm.service_s.parts.1.mean: found -1, allowed: a finite number, 0 or more",
            "shop.toml:16:82: stages.llm.service_s.parts.2: found \"x\", allowed: a finite number, \
             or a table with kind = \"exponential\", \"uniform\" or \"mixture\"",
        ]
    );
    let limit = |text: &str| {
        after("[policy.fallback.l2]", &format!("[policy]\nlimit = {text}\n[policy.fallback.l2]"))
    };
    assert_eq!(limit("\"auto\""), Vec::<String>::new());
    assert_eq!(limit("12"), Vec::<String>::new());
    assert_eq!(limit("\"many\""), ["shop.toml:26:9: policy.limit: found \"many\", allowed: \"auto\""]);
    assert_eq!(
        limit("1.5"),
        ["shop.toml:26:9: policy.limit: found 1.5, allowed: a whole number, 0 or more, or \"auto\""]
    );
}

#[test]
fn lists_of_the_wrong_length() {
    assert_eq!(
        after("[3600, 2.5]", "[3600]"),
        [
            "shop.toml:7:22: sources.0.profile.1: found a list of 1, allowed: a list of 2 elements, each a finite number"
        ]
    );
    assert_eq!(
        shown(read_text("name = ''\nsources = []")),
        [
            "shop.toml:1:8: name: found \"\", allowed: a text that is not empty",
            "shop.toml:2:11: sources: found an empty list, allowed: a list of at least 1 element, each a table",
        ]
    );
}

#[test]
fn syntax_errors_all_at_once() {
    assert_eq!(
        shown(read_text("name = shop\nseed = 1\nseed = 2\nx = [1 2]\ny = 'é")),
        [
            "shop.toml:1:8: found the bare word shop, allowed: text in quotes: \"shop\"",
            "shop.toml:3:1: found \"seed\" a second time, allowed: each key once in a table",
            "shop.toml:4:6: found \"1 2\", allowed: a number, a date, true, false, or text in quotes",
            "shop.toml:5:7: found a syntax error, invalid literal string, allowed: `'`",
        ]
    );
    assert_eq!(
        shown(read_text("name = 'shop'\n[sources\nx = 1")),
        ["shop.toml:2:9: found a syntax error, unclosed table, allowed: `]`"]
    );
    assert_eq!(
        shown(read_text("name = 'shop' 'mall'\n= 3\nseed 4")),
        [
            "shop.toml:1:15: found a syntax error, unexpected key or value, allowed: newline, `#`",
            "shop.toml:2:1: found a syntax error, unquoted keys cannot be empty, allowed: letters, numbers, `-`, `_`",
            "shop.toml:3:6: found a syntax error, key with no value, allowed: `=`",
        ]
    );
}

#[test]
fn what_only_the_type_knows() {
    let window = "[window]\nfrom_s = 5\nto_s = 2\n[labels]";
    assert_eq!(
        after("[labels]", window),
        ["shop.toml:28:1: window: found a table, allowed: a window that ends after it starts"]
    );
    assert_eq!(
        after("[labels]", "[window]\nfrom_s = -1\nto_s = 2\n[labels]"),
        ["shop.toml:29:10: window.from_s: found -1, allowed: 0 or more"]
    );
    assert_eq!(after("[labels]", "[window]\nfrom_s = 1\nto_s = 2\n[labels]"), Vec::<String>::new());
}

#[test]
fn at_most_twenty_problems_in_order() {
    let keys: Vec<String> = (0..500).map(|index| format!("key{index} = 1")).collect();
    let text = format!("name = 'x'\nsources = [{{ rate_per_s = 1 }}]\n{}", keys.join("\n"));
    let problems = read_text(&text).unwrap_err();
    assert_eq!(problems.len(), 20);
    assert!(problems.iter().enumerate().all(|(index, problem)| problem.line == index + 3));
    let hint = problems.last().and_then(|problem| problem.hint.clone());
    assert_eq!(hint.as_deref(), Some("more problems follow; these are the first 20"));
}

#[test]
fn later_checks_find_positions() {
    let document = read_text(GOOD).unwrap();
    let at = |path: &str| {
        let problem: Problem = document.problem(path, "x", "y", None);
        (problem.file, problem.line, problem.column)
    };
    let file = || "shop.toml".to_owned();
    assert_eq!(at("stages.llm.replicas"), (file(), 15, 12));
    assert_eq!(at("stages.\"rerank v2\""), (file(), 18, 1));
    // A default, and so the table around it.
    assert_eq!(at("stages.\"rerank v2\".max_wait_ms"), (file(), 18, 1));
    assert_eq!(at("policy.queue"), (file(), 25, 2));
    assert_eq!(at("sources.1.gaps"), (file(), 11, 8));
    assert_eq!(at("window.from_s"), (file(), 1, 1));
    assert_eq!(at("not a path.."), (file(), 1, 1));
    assert_eq!(document.source(), &Source::new("shop.toml", GOOD));
}
