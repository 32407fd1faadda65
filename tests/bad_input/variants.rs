//! Broken variants: found whenever the scenario is read, whichever variant is chosen, at their own line.

use super::{BASE, marked};
use forebay_model::document::{Problem, SETTING_FILE};
use forebay_tests::scenario::{read, shown};

/// A variant that is right, behind the base.
const RIGHT: &str = "\n[variants.other.set]\nrun.seed = 2\n";

/// What is wrong with the base and a variant behind it; the mark says where.
fn refused(variant: &str, settings: &[&str]) -> (Option<(usize, usize)>, Vec<Problem>) {
    let (place, text) = marked(&format!("{BASE}{variant}{RIGHT}"));
    let problems = read("base.toml", &text, settings).err().unwrap_or_default();
    (place, problems)
}

#[test]
fn a_variant_that_is_right_is_no_problem() {
    for settings in [&[][..], &["variant=other"], &["variant=right"], &["variant=other", "run.seed=3"]] {
        assert_eq!(shown(&refused("", settings).1), "");
    }
}

#[test]
fn every_broken_variant_is_refused_with_its_place() {
    let entry = "[variants.wrong]\nset = ";
    let unknown = "a path that neither the scenario nor its policy has";
    #[rustfmt::skip]
    let cases = [
        ("{ §rnu.seed = 2 }", "rnu.seed", unknown, "did you mean `run.seed`?"),
        ("{ run.§sede = 2 }", "run.sede", "unknown key sede", "did you mean `run.seed`?"),
        ("{ §\"run.sede\" = 2 }", "run.sede", "unknown key sede", "did you mean `run.seed`?"),
        ("{ \"fallback.l2.vram_above\" = §1.5 }", "policy.fallback.l2.vram_above", "1.5", ""),
        ("{ policy.fallback.l2.vram_above = §1.5 }", "policy.fallback.l2.vram_above", "1.5", ""),
        ("{ run.seed = §\"two\" }", "run.seed", "\"two\"", ""),
        ("{ run.warmup_s = §10 }", "run.warmup_s", "10", ""),
        ("{ \"workload.classes.short.endpoint\" = §\"chta\" }", "workload.classes.short.endpoint", "chta", "`chat`"),
        ("{ \"policy.queue\" = { kind = §\"fifu\" } }", "policy.queue.kind", "fifu", "did you mean `fifo`?"),
        ("{ §variant = \"other\" }", "variant", "changes variants", ""),
        ("{ §\"variants.other.title\" = \"x\" }", "variants.other.title", "changes variants", ""),
        ("{ §\"run..seed\" = 2 }", "run..seed", "empty part", ""),
        ("§7", "variants.wrong.set", "7", ""),
        ("{}\n§sett = {}", "variants.wrong.sett", "unknown key", "did you mean `set`?"),
        ("{}\nwithout = §\"policy.queue\"", "variants.wrong.without", "\"policy.queue\"", ""),
        ("{}\nwithout = [\"policy.§quee\"]", "policy.quee", "nothing that could be taken out", "`policy.queue`"),
        ("{}\nwithout = [\"§stages.store\"]", "", "store", "wrong"),
        ("{}\nwithout = [\"policy.admission.§\"]", "policy.admission.", "empty part", ""),
    ];
    for (set, path, found, hint) in cases {
        for settings in [&[][..], &["variant=right"], &["variant=other", "run.seed=9"]] {
            let (place, problems) = refused(&format!("{entry}{set}\n"), settings);
            let wanted = |p: &Problem| {
                // What is missing because of a variant is missed elsewhere.
                let there = path.is_empty() || place == Some((p.line, p.column)) && p.path == path;
                there && p.found.contains(found) && p.hint.as_deref().unwrap_or("").contains(hint)
            };
            assert!(problems.iter().any(wanted), "{set}, wanted at {place:?}:\n{}", shown(&problems));
            assert!(problems.iter().all(|p| p.file == "base.toml"), "{set}:\n{}", shown(&problems));
        }
    }
}

#[test]
fn a_choice_that_is_none_is_refused_with_those_there_are() {
    let (_, problems) = refused("", &["variant=othre"]);
    assert_eq!(problems.len(), 1, "{}", shown(&problems));
    let Problem { file, column, path, allowed, hint, .. } = &problems[0];
    assert_eq!((file.as_str(), *column, path.as_str()), (SETTING_FILE, 9, "variant"));
    assert!(allowed.ends_with("\"right\" or \"other\""), "{allowed}");
    assert_eq!(hint.as_deref(), Some("did you mean `other`?"));
    let text = format!("variant = \"othre\"\n{BASE}{RIGHT}");
    let problems = read("base.toml", &text, &[""; 0]).expect_err("no such variant");
    assert_eq!((problems[0].line, problems[0].column), (1, 11));
    let problems = read("base.toml", BASE, &["variant=right"]).expect_err("no variants");
    assert!(problems[0].allowed.contains("has no variants"), "{}", shown(&problems));
    let many = (0..101).fold(BASE.to_owned(), |text, n| text + &format!("[variants.v{n}]\n"));
    let problems = read("base.toml", &many, &[""; 0]).expect_err("too many");
    assert!(problems[0].found.contains("101 variants"), "{}", shown(&problems));
}
