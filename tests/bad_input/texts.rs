//! Texts that are no scenario at all: empty, binary, endless, nested without end.

use super::BASE;
use forebay_model::Loaded;
use forebay_model::document::{LARGEST_SOURCE, Problem, Source};
use forebay_tests::scenario::{nothing, read, shown};

fn refused(text: &str) -> Vec<Problem> {
    read("text", text, &[""; 0]).expect_err("it is no scenario")
}

/// One problem at most for what is not even a text, and of the expected kind.
fn only(problems: &[Problem], found: &str) {
    assert_eq!(problems.len(), 1, "{}", shown(problems));
    assert!(problems[0].found.contains(found), "{}", shown(problems));
}

#[test]
fn empty_texts_lack_everything() {
    for text in ["", "\n\n", "# only a comment\n"] {
        let problems = refused(text);
        for path in ["name", "run", "workload", "endpoints", "stages"] {
            assert!(problems.iter().any(|p| p.path == path && p.allowed.contains("required")), "{path}");
        }
    }
}

#[test]
fn binary_garbage_is_no_text() {
    let mut bytes = BASE.as_bytes().to_vec();
    bytes[100] = 0xff;
    only(&Source::from_bytes("bytes", bytes).expect_err("not UTF-8"), "0xff");
    let wide: Vec<u8> = [0xff, 0xfe].into_iter().chain(BASE.bytes().flat_map(|b| [b, 0])).collect();
    let problems = Source::from_bytes("bytes", wide).expect_err("UTF-16");
    assert!(problems[0].hint.as_deref().is_some_and(|hint| hint.contains("UTF-16")), "{}", shown(&problems));
    let noise: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let result = Source::from_bytes("bytes", noise).and_then(|source| Loaded::read(&source, &[], nothing));
    assert!(!result.expect_err("noise").is_empty());
    assert!(!refused("name = \"a\0b\"").is_empty());
    assert!(!refused("\u{feff}\u{feff}name").is_empty());
}

#[test]
fn texts_without_end_are_cut_short() {
    only(&refused(&"[".repeat(100_000)), "nest");
    only(&refused(&format!("a = {}1{}", "[".repeat(5000), "]".repeat(5000))), "nest");
    assert!(!refused(&format!("a = {}", "{ a = ".repeat(5000))).is_empty());
    let large = vec![b'#'; LARGEST_SOURCE + 1];
    assert_eq!(Source::from_bytes("bytes", large).expect_err("too large").len(), 1);
    assert!(!refused(&"x".repeat(1 << 20)).is_empty());
    let deep: Vec<String> = (0..2000).map(|i| format!("k{i}")).collect();
    assert!(!refused(&format!("{} = 1", deep.join("."))).is_empty());
    let tables = (0..50_000).fold(String::new(), |text, i| text + &format!("[t{i}]\n"));
    assert!(refused(&tables).len() <= 20);
}
