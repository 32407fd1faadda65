//! Bad input: every malformed scenario is refused with the place, what was found, what is allowed and,
//! where one is near, the way out; none is run, none panics.
//!
//! Each case breaks one thing in a valid scenario. The sign `§` in the broken text is where the problem
//! must point; it is taken out before the text is read.

mod cases;
mod mutations;
mod texts;
mod variants;

use cases::{CASES, Case};
use forebay_model::document::{Problem, SETTING_FILE, Setting};
use forebay_tests::scenario::{read, shown};

const BASE: &str = include_str!("data/base.toml");
const MARK: char = '§';
/// Fewer cases than this must never be tried.
const LEAST: usize = 40;

/// Line and column of the mark, and the text without it.
fn marked(text: &str) -> (Option<(usize, usize)>, String) {
    let place = text.find(MARK).map(|at| {
        let before = &text[..at];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    });
    (place, text.replace(MARK, ""))
}

/// What is wrong with a text.
fn problems(text: &str) -> Vec<Problem> {
    match read("base.toml", text, &[""; 0]) {
        Ok(_) => Vec::new(),
        Err(problems) => problems,
    }
}

/// Whether a problem is the one that the case wants.
fn is_wanted(problem: &Problem, case: &Case, place: Option<(usize, usize)>) -> bool {
    problem.path == case.path
        && place.is_none_or(|place| place == (problem.line, problem.column))
        && problem.found.contains(case.found)
        && problem.allowed.contains(case.allowed)
        && problem.hint.as_deref().unwrap_or("").contains(case.hint)
}

#[test]
fn the_base_is_valid() {
    assert_eq!(shown(&problems(BASE)), "");
}

#[test]
fn every_malformed_scenario_is_refused_with_its_place() {
    let mut wrong = Vec::new();
    for case in CASES {
        assert_eq!(BASE.matches(case.old).count(), 1, "{}: `{}` must stand once", case.what, case.old);
        let (place, text) = marked(&BASE.replacen(case.old, case.new, 1));
        let problems = problems(&text);
        if !problems.iter().any(|problem| is_wanted(problem, case, place)) {
            wrong.push(format!("{}, wanted at {place:?} {}:\n{}", case.what, case.path, shown(&problems)));
        }
        assert!(
            problems.iter().all(|p| p.file == "base.toml" && p.line > 0 && p.column > 0),
            "{}",
            case.what
        );
    }
    assert!(CASES.len() >= LEAST, "only {} cases", CASES.len());
    assert!(wrong.is_empty(), "{} of {} cases:\n\n{}", wrong.len(), CASES.len(), wrong.join("\n\n"));
}

#[test]
fn settings_are_held_to_the_same_rules() {
    for (settings, path, hint) in [
        ("stages.model.slots=-1", "stages.model.slots", ""),
        ("stages.modle.slots=3", "stages.modle", "did you mean `stages.model.slots`?"),
        ("fallback.l2.vram_abov=0.9", "policy.fallback.l2.vram_abov", "vram_above"),
        ("fallback.l2.vram_above=1.5", "policy.fallback.l2.vram_above", ""),
        ("run.seed=1e400", "run.seed", ""),
        ("workload.sources.crowd.kind=\"posson\"", "workload.sources.crowd.kind", "poisson"),
        ("run.warmup_s=10", "run.warmup_s", ""),
        ("objective.maximize=goodput", "objective.maximize", "goodput_per_s"),
        ("workload.sources.day.points.7.0=1", "workload.sources.day.points.7", ""),
        ("name.first=x", "name.first", ""),
        ("a..b=1", "a..b", ""),
    ] {
        let found = read("base.toml", BASE, &[settings]).expect_err(settings);
        let wanted = |p: &Problem| {
            p.path == path && p.file == SETTING_FILE && p.hint.as_deref().unwrap_or("").contains(hint)
        };
        assert!(found.iter().any(wanted), "{settings}: {}", shown(&found));
    }
    let weights = ["workload.classes.short.weight=0", "workload.classes.long.weight=0"];
    let found = read("base.toml", BASE, &weights).expect_err("no class with a weight");
    assert!(found.iter().any(|p| p.path == "workload.classes"), "{}", shown(&found));
    assert!(Setting::parse("stages.model.slots").is_err());
}
