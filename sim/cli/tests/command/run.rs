//! `forebay run`: its screen, its summary, its folder.

use crate::workplace::Workplace;

#[test]
fn a_run_prints_one_screen() {
    let place = Workplace::new();
    let run = place.forebay(&["run", "small.toml"]).with(0);
    for expected in ["small: ", "answered", "latency", "desk", "constraints", "digest"] {
        assert!(run.out.contains(expected), "{expected}: {}", run.out);
    }
    assert!(run.out.lines().count() < 45, "{}", run.out);
    assert!(run.err.contains("times real time"), "{}", run.err);
    // Not a terminal: no counter.
    assert!(!run.err.contains('\r'), "{}", run.err);
    assert_eq!(place.forebay(&["run", "small.toml", "--quiet"]).with(0).err, "");
    assert_eq!(place.names("."), ["small.toml"]);
}

#[test]
fn the_summary_has_the_fields_of_the_design_in_their_order() {
    let place = Workplace::new();
    let json = place.forebay(&["run", "small.toml", "--format", "json"]).with(0).json();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "forebay",
        "scenario",
        "seed",
        "replications",
        "digest",
        "wall_s",
        "simulated_s",
        "events",
        "requests",
        "verdict",
        "ledger",
        "metrics",
        "by",
        "alerts",
        "findings",
    ];
    assert_eq!(keys, expected);
    let ledger = &json["ledger"];
    let sum = |value: &serde_json::Value| -> u64 {
        value.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum()
    };
    let count = |name: &str| ledger[name].as_u64().unwrap();
    let parts = sum(&ledger["answered"])
        + sum(&ledger["rejected"])
        + sum(&ledger["failed"])
        + count("timed_out")
        + count("abandoned")
        + count("in_flight_at_end");
    assert_eq!(parts, count("offered"));
    assert_eq!(json["metrics"]["latency_mean_s"]["ci95"].as_array().unwrap().len(), 2);
    // What the run could not produce is null with a reason, never 0.
    let cost = &json["metrics"]["cost"];
    assert!(cost["value"].is_null() && cost["ci95"].is_null() && cost["reason"].is_string(), "{cost}");
}

#[test]
fn threads_change_nothing_and_seeds_do() {
    let place = Workplace::new();
    let digest = |more: &[&str]| {
        let arguments = [&["run", "small.toml", "--format", "json"], more].concat();
        place.forebay(&arguments).with(0).json()["digest"].clone()
    };
    let one = digest(&["--threads", "1"]);
    assert_eq!(one, digest(&["--threads", "2"]));
    assert_ne!(one, digest(&["--seed", "99"]));
    assert_ne!(one, digest(&["--replications", "4"]));
}

#[test]
fn a_missed_objective_ends_with_1_when_required() {
    let place = Workplace::new();
    let overload = ["run", "small.toml", "-q", "--set", "workload.sources.all.rate_per_s=12"];
    assert!(place.forebay(&overload).with(0).out.contains("missed"));
    let required = place.forebay(&[&overload[..], &["--require"]].concat()).with(1);
    assert!(required.err.contains("latency_mean_s <= 0.5"), "{}", required.err);
    place
        .forebay(&["run", "small.toml", "-q", "--require", "--set", "workload.sources.all.rate_per_s=3"])
        .with(0);
    assert!(place.forebay(&["check", "small.toml", "--require"]).with(0).out.contains("no findings"));
    place.forebay(&["check", "small.toml", "--require", "--replications", "1"]).with(1);
}

#[test]
fn requests_without_an_answer_are_in_the_headline() {
    let place = Workplace::new();
    let crowded = ["run", "small.toml", "-q", "--set", "workload.sources.all.rate_per_s=20"];
    let run = place.forebay(&[&crowded[..], &["--set", "stages.desk.max_queue=3"]].concat()).with(0);
    let headline = run.out.lines().next().unwrap();
    assert!(headline.ends_with("of the requests got no answer"), "{headline}");
    let run = place.forebay(&["run", "small.toml", "-q"]).with(0);
    assert!(!run.out.contains("no answer") && run.out.contains("after the warm-up"), "{}", run.out);
}

#[test]
fn a_run_folder_is_written_once() {
    let place = Workplace::new();
    let run = ["run", "small.toml", "--out", "out/a"];
    place.forebay(&run).with(0);
    let files = [
        "findings.json",
        "manifest.json",
        "marks.parquet",
        "scenario.toml",
        "summary.json",
        "timeline.parquet",
    ];
    assert_eq!(place.names("out/a"), files);
    let again = place.forebay(&run).with(2);
    assert!(again.err.contains("--force") && again.out.is_empty(), "{again:?}");
    place.forebay(&[&run[..], &["--force", "--seed", "5"]].concat()).with(0);
    let manifest = place.read("out/a/manifest.json");
    assert!(manifest.contains("\"seed\": 5"), "{manifest}");
    assert_eq!(place.names("out"), ["a"]);
    // The resolved scenario gives the same run.
    let digest = |scenario: &str| {
        place.forebay(&["run", scenario, "--format", "json"]).with(0).json()["digest"].clone()
    };
    assert_eq!(
        digest("out/a/scenario.toml"),
        place.forebay(&["run", "small.toml", "--seed", "5", "--format", "json"]).json()["digest"]
    );
    // What is no result folder is not replaced.
    std::fs::create_dir(place.path("home")).unwrap();
    place.write("home/letter.txt", "dear");
    place.forebay(&["run", "small.toml", "--out", "home", "--force"]).with(2);
    assert_eq!(place.names("home"), ["letter.txt"]);
    // Nor is one with the manifest of something else, nor a result to which a letter was added.
    place.write("home/manifest.json", "{\"name\": \"an extension\"}");
    place.forebay(&["run", "small.toml", "--out", "home", "--force"]).with(2);
    place.write("out/a/letter.txt", "dear");
    place.forebay(&["run", "small.toml", "--out", "out/a/.", "--force"]).with(2);
    assert!(place.path("out/a/letter.txt").is_file() && place.path("home/letter.txt").is_file());
}

/// Everything that is measured beside outcomes and stages: a cache before two priced providers that refuse,
/// agents, satisfaction and value, a surge, a shadow, an alert that sends its cause along, told waits.
const FULL: &str = r#"
name = "full"
[run]
duration_s = 300
warmup_s = 20
replications = 2
[workload.sources.all]
kind = "poisson"
rate_per_s = 4.0
[workload.sources.surge]
kind = "poisson"
rate_per_s = 150.0
from_s = 60
to_s = 70
[workload.classes.any]
tokens_in = 100
tokens_out = 10
value = 2.0
[workload.questions]
clusters = 100
[gateway]
executor_slots = 8
wait_notice = true
[endpoints.ask]
l1 = ["cache", "llm"]
l4 = ["people"]
[stages.cache]
kind = "semantic_cache"
lookup_s = 0.02
[stages.llm]
kind = "providers"
[stages.llm.providers.main]
first_token_s = 1.0
max_at_once = 3
price_in_per_1k = 0.01
[stages.llm.providers.spare]
first_token_s = 1.5
price_in_per_1k = 0.02
[stages.people]
kind = "agents"
agents = 20
handling_s = 30
[economics]
currency = "CNY"
agent_per_min = 1.0
csat = {}
[policy.queue]
kind = "fifo"
max_length = 20
[policy.fallback.providers]
[policy.fallback.l4]
queue_above = 15
[policy.feedback.alerts.long]
signal = "queue_length"
above = 10
severity = "p1"
cause = "top_unmatched"
[shadow.queue]
kind = "fifo"
max_length = 5
"#;

#[test]
fn a_screen_shows_what_the_scenario_measures_and_nothing_else() {
    let place = Workplace::with(FULL);
    let out = place.forebay(&["run", "small.toml"]).with(0).out;
    let line = |start: &str| {
        let found = out.lines().find(|line| line.starts_with(start));
        found.unwrap_or_else(|| panic!("{start}: {out}"))
    };
    assert!(
        line("satisfaction ").contains(" CNY, cost ") && line("satisfaction ").contains("providers "),
        "{out}"
    );
    assert!(line("recovery within ").ends_with('s'), "{out}");
    line("told waits are off by ");
    for (start, cells) in [("llm.main ", 6), ("llm.spare ", 6), ("cache.l1 ", 5), ("people  ", 5)] {
        // The table of the stages comes first; it holds none of the parts.
        let rows: Vec<&str> = out.lines().filter(|line| line.starts_with(start)).collect();
        assert_eq!(rows.len(), if start == "people  " { 2 } else { 1 }, "{start}: {out}");
        let found = rows[rows.len() - 1].split("  ").filter(|cell| !cell.trim().is_empty()).count();
        assert_eq!(found, cells + 1, "{start}: {out}");
    }
    line("the shadow differs on ");
    assert!(out.contains("  l4 l4.queue  turned away queue.full"), "{out}");
    let alert = line("long ");
    assert!(alert.contains(" P1 ") && alert.contains("2 of 2") && alert.contains("any "), "{alert}");
    // Without any of it not a word of it.
    let plain = Workplace::new().forebay(&["run", "small.toml"]).with(0).out;
    for word in ["satisfaction", "cost", "recovery", "told", "provider", "cache", "agents", "shadow", "alert"]
    {
        assert!(!plain.contains(word), "{word}: {plain}");
    }
    let quiet = ["run", "small.toml", "--set", "feedback.alerts.long.above=1e6"];
    assert!(place.forebay(&quiet).with(0).out.contains("\nno alert was raised\n"));
}
