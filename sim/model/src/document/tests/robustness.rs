//! Whatever is fed in comes out as a value or as problems; never as a panic or a full stack.

use proptest::prelude::*;

use super::example::{Example, GOOD, read_text};
use crate::document::{LARGEST_SOURCE, Problem, Setting, Source, read};

/// Problems have positions within the text and at most twenty of them are shown.
fn check(text: &str, problems: &[Problem]) {
    assert!(!problems.is_empty() && problems.len() <= 20);
    for problem in problems.iter().filter(|problem| problem.file != "--set") {
        let line = text.split('\n').nth(problem.line - 1);
        let width = line.map(|line| line.chars().count());
        assert!(width.is_some_and(|width| problem.column <= width + 1), "{problem} in {text:?}");
        assert!(!problem.to_string().chars().any(|c| c.is_control() && c != '\n'), "{problem:?}");
    }
}

fn feed(text: &str) {
    if let Err(problems) = read_text(text) {
        check(text, &problems);
    }
}

#[test]
fn deep_nesting_is_refused_before_parsing() {
    for (open, close) in [("[", "]"), ("{a=", "}")] {
        let text = format!("x = {}1{}", open.repeat(10_000), close.repeat(10_000));
        let problem = read_text(&text).unwrap_err().remove(0);
        assert_eq!(problem.found, "brackets nested more than 64 deep");
        assert_eq!(problem.column, 5 + 64 * open.len());
    }
    feed(&format!("{} = 1", "a.".repeat(10_000) + "a"));
    feed(&format!("[{}]\nb = 1", "a.".repeat(10_000) + "a"));
    feed(&format!("[{0}a]\n{0}a = [1]", "a.".repeat(78)));
    let path = "a.".repeat(100_000) + "a";
    for value in ["1", &"[".repeat(100_000)] {
        let settings = [Setting::new(path.as_str(), value), Setting::new("name", value)];
        read::<Example>(&Source::new("shop.toml", GOOD), &settings).unwrap_err();
    }
}

#[test]
fn large_garbage_is_refused() {
    let line = "x = \"é\" # ]\n] = 'oops\n";
    for size in [100_000, 2 << 20] {
        let problems = read_text(&line.repeat(size / line.len())).unwrap_err();
        check(&line.repeat(30), &problems[..1]);
    }
    let problem = Source::from_bytes("big", vec![b'='; LARGEST_SOURCE + 1]).unwrap_err().remove(0);
    assert_eq!(problem.found, "more than 16 MiB of text");
}

#[test]
fn odd_texts() {
    for text in [
        "",
        "\u{feff}",
        "\u{feff}name",
        "=",
        "[",
        "[]",
        "[[]]",
        "a",
        "a=",
        "\"",
        "'''",
        "a=\"\"\"",
        "a.b.=1",
        "\r",
        "a\r=1",
        "name='x'\r\nsources=[{rate_per_s=1}]\r\nx=1",
        "a=0x",
        "a=1_",
        "a=2026-99-99",
        "a=\"\\u12\"",
        "[a]\n[a]",
        "a=1\n[a]",
        "[[a]]\n[a]",
        "a=[]\n[[a]]",
        "a={b=1}\n[a.c]",
        "a.b=1\n[a]",
        "\u{85}=1",
        "\"\\u0000\"=1",
    ] {
        feed(text);
    }
}

/// Pieces that make TOML, nearly.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "\n",
            " ",
            "=",
            ".",
            ",",
            "[",
            "]",
            "[[",
            "]]",
            "{",
            "}",
            "\"",
            "'",
            "\"\"\"",
            "#",
            "-",
            "nan",
            "inf",
            "true",
            "1",
            "-3",
            "0.5",
            "1e400",
            "2026-01-01",
            "99999999999999999999",
            "name",
            "sources",
            "stages",
            "llm",
            "kind",
            "policy",
            "fallback",
            "l2",
            "vram_above",
            "rate_per_s",
            "queue",
            "fifo",
            "limit",
            "service_s",
            "[stages.a]\n",
            "kind = \"llm\"\n",
            "name = \"x\"\n",
            "[[sources]]\n",
            "rate_per_s = 1\n",
            "[policy.queue]\n",
            "window = { from_s = 2, to_s = 1 }\n",
            "\\u{1}",
            "é",
            "\r\n",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        match Source::from_bytes("shop.toml", bytes) {
            Ok(source) => feed(&source.text),
            Err(problems) => prop_assert_eq!(problems.len(), 1),
        }
    }

    #[test]
    fn arbitrary_text(text in any::<String>()) {
        feed(&text);
    }

    #[test]
    fn text_that_is_nearly_toml(pieces in prop::collection::vec(piece(), 0..60)) {
        feed(&pieces.concat());
    }

    #[test]
    fn the_right_text_with_a_hole(start in 0..GOOD.len(), length in 0..40_usize, with in piece()) {
        let end = (start + length).min(GOOD.len());
        feed(&format!("{}{with}{}", &GOOD[..start], &GOOD[end..]));
    }

    #[test]
    fn arbitrary_settings(
        path in prop::collection::vec(piece(), 0..8),
        value in prop::collection::vec(piece(), 0..12),
    ) {
        let setting = Setting::new(path.join("."), value.concat());
        if let Err(problems) = read::<Example>(&Source::new("shop.toml", GOOD), &[setting]) {
            check(GOOD, &problems);
        }
        let _ = Setting::parse(&path.concat());
    }
}
