//! The command as its users meet it: what it prints, what it writes, and how it ends.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A queue at a load of 0.8, with an objective and a parameter to tune.
const SCENARIO: &str = r#"
name = "small"
[run]
duration_s = 200
warmup_s = 20
replications = 3
[workload.sources.all]
kind = "poisson"
rate_per_s = 8.0
[workload.classes.any]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.1 }
[objective]
maximize = "throughput_per_s"
constraints = ["latency_mean_s <= 0.5"]
[tune]
parameter = "workload.sources.all.rate_per_s"
from = 5.0
to = 9.5
points = 4
"#;

/// A folder of its own for each test, gone at its end.
struct Workplace(PathBuf);

impl Workplace {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("forebay-command-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("small.toml"), SCENARIO).unwrap();
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    fn forebay(&self, arguments: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.0.join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    #[track_caller]
    fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

#[test]
fn a_run_prints_one_screen() {
    let place = Workplace::new("screen");
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
    let place = Workplace::new("summary");
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
    let place = Workplace::new("threads");
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
    let place = Workplace::new("require");
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
    let place = Workplace::new("unanswered");
    let crowded = ["run", "small.toml", "-q", "--set", "workload.sources.all.rate_per_s=20"];
    let run = place.forebay(&[&crowded[..], &["--set", "stages.desk.max_queue=3"]].concat()).with(0);
    let headline = run.out.lines().next().unwrap();
    assert!(headline.ends_with("of the requests got no answer"), "{headline}");
    let run = place.forebay(&["run", "small.toml", "-q"]).with(0);
    assert!(!run.out.contains("no answer") && run.out.contains("after the warm-up"), "{}", run.out);
}

#[test]
fn a_run_folder_is_written_once() {
    let place = Workplace::new("folder");
    let run = ["run", "small.toml", "--out", "out/a"];
    place.forebay(&run).with(0);
    let files = ["findings.json", "manifest.json", "scenario.toml", "summary.json", "timeline.parquet"];
    assert_eq!(place.names("out/a"), files);
    let again = place.forebay(&run).with(2);
    assert!(again.err.contains("--force") && again.out.is_empty(), "{again:?}");
    place.forebay(&[&run[..], &["--force", "--seed", "5"]].concat()).with(0);
    let manifest = std::fs::read_to_string(place.0.join("out/a/manifest.json")).unwrap();
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
    std::fs::create_dir(place.0.join("home")).unwrap();
    std::fs::write(place.0.join("home/letter.txt"), "dear").unwrap();
    place.forebay(&["run", "small.toml", "--out", "home", "--force"]).with(2);
    assert_eq!(place.names("home"), ["letter.txt"]);
    // Nor is one with the manifest of something else, nor a result to which a letter was added.
    std::fs::write(place.0.join("home/manifest.json"), "{\"name\": \"an extension\"}").unwrap();
    place.forebay(&["run", "small.toml", "--out", "home", "--force"]).with(2);
    std::fs::write(place.0.join("out/a/letter.txt"), "dear").unwrap();
    place.forebay(&["run", "small.toml", "--out", "out/a/.", "--force"]).with(2);
    assert!(place.0.join("out/a/letter.txt").is_file() && place.0.join("home/letter.txt").is_file());
}

#[test]
fn tuning_prints_a_cutoff_and_can_be_given_again() {
    let place = Workplace::new("tune");
    let first = place.forebay(&["tune", "small.toml"]).with(0);
    for expected in ["workload.sources.all.rate_per_s", "constraint", "throughput_per_s", "▲", "tuned.toml"]
    {
        assert!(first.out.contains(expected), "{expected}: {}", first.out);
    }
    let second = place.forebay(&["tune", "small.toml", "--format", "json", "--threads", "1"]).with(0).json();
    assert_eq!(place.names("out"), ["small-tune", "small-tune-2"]);
    let files = [
        "evidence.json",
        "manifest.json",
        "scenario.toml",
        "trials.parquet",
        "tuned-scenario.toml",
        "tuned.toml",
    ];
    assert_eq!(place.names("out/small-tune"), files);
    assert!(first.out.contains(second["digest"].as_str().unwrap()), "{second}");
    let cutoff = second["cutoff"]["value"].as_f64().unwrap();
    assert!((7.0..9.0).contains(&cutoff), "{cutoff}");
    place.forebay(&["tune", "small.toml", "--out", "out/small-tune"]).with(2);
    let impossible =
        ["tune", "small.toml", "-q", "--set", "objective.constraints=[\"latency_mean_s <= 0.001\"]"];
    assert!(place.forebay(&impossible).with(0).out.contains("Widen the range"));
    place.forebay(&[&impossible[..], &["--require"]].concat()).with(1);
}

#[test]
fn wrong_input_ends_with_2_and_writes_nothing() {
    let place = Workplace::new("wrong");
    std::fs::write(place.0.join("bad.toml"), SCENARIO.replace("servers = 1", "servers = -1\nsevers = 2"))
        .unwrap();
    std::fs::write(place.0.join("binary.toml"), [0_u8, 159, 146, 150]).unwrap();
    let before = place.names(".");
    let cases: &[(&[&str], &str)] = &[
        (&["run", "bad.toml"], "bad.toml:16:"),
        (&["run", "binary.toml"], "binary.toml:1:"),
        (&["run", "no-such"], "there is no bundled scenario"),
        (&["run", "no-such.toml"], "no-such.toml"),
        (&["run", "."], "."),
        (&["run", "small.toml", "--set", "stages.desk.severs=2"], "did you mean `stages.desk.servers`?"),
        (&["run", "small.toml", "--set", "nonsense"], "path=value"),
        (&["run", "small.toml", "--replications", "0"], "--replications"),
        (&["run", "small.toml", "--threads", "0"], "--threads"),
        (&["run", "small.toml", "--seed", "99999999999999999999"], "--seed"),
        (&["run", "small.toml", "--out", "small.toml/x"], "no results can be written"),
        (&["run", "/dev/null"], "no regular file"),
        (&["capacity", "small.toml", "--threads", "0"], "--threads"),
        (&["tune", "small.toml", "--parameter", "stages.desk.severs"], "did you mean"),
        (&["run", "small.toml", "--require", "--set", "objective.constraints=[]"], "no constraints"),
        (&["run", "small.toml", "--format", "xml"], "xml"),
        (&["run"], "required"),
        (&["frobnicate"], "frobnicate"),
        (&["check", "bad.toml"], "severs"),
        (&["params", "bad.toml"], "servers"),
        (&["params", "small.toml", "--under", "nothing.like"], "no parameter"),
        (&["capacity", "bad.toml"], "servers"),
        (
            &["tune", "small.toml", "--parameter", "stages.desk.severs", "--from", "1", "--to", "3"],
            "did you mean",
        ),
        (&["tune", "small.toml", "--from", "9", "--to", "5"], "empty"),
        (&["tune", "small.toml", "--points", "2"], "3 to 1000"),
        (&["trace", "azure-conversation"], "did you mean `azure-conversations`?"),
        (&["trace", "small.toml"], "small.toml"),
        (&["trace", "no-such.csv"], "no-such.csv"),
        (&["trace", "azure-conversations", "--time", "x"], "bundled"),
        (&["run", "small.toml", "--trace-requests", "5"], "--out"),
        (&["run", "small.toml", "--trace-requests", "0", "--out", "x"], "--trace-requests"),
        (&["explain", "no-such-run"], "no such folder"),
        (&["explain", "small.toml"], "no such folder"),
        (&["explain", "."], "--trace-requests"),
        (&["explain", ".", "--request", "first"], "--request"),
        (&["explain"], "required"),
    ];
    for (arguments, expected) in cases {
        let ended = place.forebay(&[arguments, &["--quiet"][..]].concat());
        assert_eq!(ended.code, Some(2), "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(expected), "{arguments:?}: {ended:?}");
        assert!(ended.out.is_empty() && !ended.err.contains("panicked"), "{arguments:?}: {ended:?}");
    }
    assert_eq!(place.names("."), before);
}

#[test]
fn every_problem_has_its_line() {
    let place = Workplace::new("problems");
    std::fs::write(place.0.join("bad.toml"), SCENARIO.replace("servers = 1", "servers = -1\nsevers = 2"))
        .unwrap();
    let ended = place.forebay(&["run", "bad.toml"]).with(2);
    let problems: Vec<&str> = ended.err.lines().filter(|line| line.starts_with("bad.toml:")).collect();
    assert_eq!(problems.len(), 2, "{}", ended.err);
    assert!(problems[0].contains("found -1, allowed:"), "{}", ended.err);
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Workplace::new("help");
    for command in ["run", "tune", "capacity", "check", "params", "trace", "explain"] {
        let help = place.forebay(&[command, "--help"]).with(0).out;
        assert!(help.contains("Example") && help.contains(&format!("forebay {command} ")), "{help}");
    }
    let help = place.forebay(&["--help"]).with(0).out;
    assert!(help.contains("shop-peak-mini"), "{help}");
    for later in ["compare", "sweep", "calibrate", "export", "report"] {
        assert!(!help.contains(later), "{help}");
    }
    assert!(place.forebay(&["--version"]).with(0).out.starts_with("forebay "));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Workplace::new("pipe");
    let mut child = place
        .command(&["params", "small.toml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
}

#[test]
fn parameters_capacity_and_traces_print_text_and_json() {
    let place = Workplace::new("others");
    let params = place.forebay(&["params", "small.toml", "--under", "run"]).with(0).out;
    assert!(params.contains("run.duration_s") && !params.contains("stages."), "{params}");
    let params = place.forebay(&["params", "small.toml", "--format", "json"]).with(0).json();
    assert!(params.as_array().unwrap().iter().any(|p| p["path"] == "stages.desk.servers" && p["value"] == 1));
    assert!(place.forebay(&["capacity", "small.toml"]).with(0).out.contains("10.00 requests/s at most"));
    let capacity =
        place.forebay(&["capacity", "small.toml", "--format", "json", "--out", "c"]).with(0).json();
    assert_eq!(capacity["first_bottleneck"], "desk");
    assert_eq!(place.names("c"), ["capacity.json", "manifest.json", "scenario.toml"]);
    let trace = place.forebay(&["trace", "azure-conversations", "--format", "json"]).with(0).json();
    assert_eq!(trace["requests"], 19_366);
    std::fs::write(place.0.join("own.csv"), "ts,p,c\n0,10,5\n500,20,5\n1500,30,6\n").unwrap();
    let columns = ["--time", "ts", "--time-unit", "ms", "--tokens-in", "p", "--tokens-out", "c"];
    let own = place.forebay(&[&["trace", "own.csv"], &columns[..]].concat()).with(0).out;
    assert!(own.starts_with("own: 3 requests in 1.50 s"), "{own}");
    // What an error advises is an option of this command, not a key of a scenario.
    std::fs::write(place.0.join("own.csv"), "ts,p,c\n500,10,5\n0,20,5\n").unwrap();
    let advised = |columns: &[&str]| {
        let ended = place.forebay(&[&["trace", "own.csv"], columns].concat()).with(2);
        assert!(!ended.err.contains("sort = ") && !ended.err.contains(" = "), "{}", ended.err);
        ended.err
    };
    assert!(advised(&columns).contains("--sort"));
    assert!(advised(&columns[..2]).contains("--time-unit"));
    assert!(advised(&[]).contains("--tokens-in"));
    assert!(Path::new(&place.0).is_dir());
}

#[test]
fn traced_requests_are_listed_and_told() {
    let place = Workplace::new("explain");
    let crowded = ["run", "small.toml", "--set", "workload.sources.all.rate_per_s=12"];
    let limited = [&crowded[..], &["--set", "stages.desk.max_queue=3", "--format", "json"]].concat();
    let plain = place.forebay(&limited).with(0).json();
    let traced = [&limited[..], &["--trace-requests", "20", "--out", "peak"]].concat();
    // What is traced changes nothing else.
    assert_eq!(place.forebay(&traced).with(0).json()["digest"], plain["digest"]);
    assert!(place.names("peak").contains(&"spans.json".to_owned()));
    let list = place.forebay(&["explain", "peak"]).with(0).out;
    assert!(list.contains("20 of ") && list.contains("answered at L1"), "{list}");
    assert!(list.contains("rejected (stage.desk.full)"), "{list}");
    let listed = place.forebay(&["explain", "peak", "--format", "json"]).with(0).json();
    let requests = listed["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 20);
    for listed in requests {
        let id = listed["request"].to_string();
        let one = ["explain", "peak", "--request", &id];
        let told = place.forebay(&one).with(0).out;
        for expected in [&format!("request {id}, asked at")[..], "attempt 1", "on arrival: served at L1"] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
        assert!(told.contains(listed["outcome"].as_str().unwrap()), "{told}");
        let json = place.forebay(&[&one[..], &["--format", "json"]].concat()).with(0).json();
        assert_eq!(json["request"]["request"], listed["request"]);
        assert_eq!(json["story"][0], told.lines().nth(1).unwrap());
    }
    let none = place.forebay(&["explain", "peak", "--request", "1"]).with(2);
    assert!(none.err.contains("not among the 20 that were traced") && none.out.is_empty(), "{none:?}");
    assert!(none.err.contains("nearest are 0, "), "{none:?}");
    std::fs::write(place.0.join("peak/spans.json"), "no spans").unwrap();
    assert!(place.forebay(&["explain", "peak"]).with(2).err.contains("cannot be read"));
    // A folder with spans is one of ours, and can be replaced.
    place.forebay(&[&crowded[..], &["--out", "peak", "--force"]].concat()).with(0);
    assert!(!place.names("peak").contains(&"spans.json".to_owned()));
    assert!(place.forebay(&["explain", "peak"]).with(2).err.contains("holds no spans.json"));
}
