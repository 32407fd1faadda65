//! Wrong input, help, and readers that go away.

use crate::workplace::{SMALL, Workplace};
use std::process::Stdio;

#[test]
fn wrong_input_ends_with_2_and_writes_nothing() {
    let place = Workplace::new();
    place.write("bad.toml", SMALL.replace("servers = 1", "servers = -1\nsevers = 2"));
    place.write("binary.toml", [0_u8, 159, 146, 150]);
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
    let place = Workplace::new();
    place.write("bad.toml", SMALL.replace("servers = 1", "servers = -1\nsevers = 2"));
    let ended = place.forebay(&["run", "bad.toml"]).with(2);
    let problems: Vec<&str> = ended.err.lines().filter(|line| line.starts_with("bad.toml:")).collect();
    assert_eq!(problems.len(), 2, "{}", ended.err);
    assert!(problems[0].contains("found -1, allowed:"), "{}", ended.err);
}

#[test]
fn every_command_has_help_with_an_example() {
    let place = Workplace::new();
    for command in ["run", "tune", "capacity", "check", "params", "trace", "explain"] {
        let help = place.forebay(&[command, "--help"]).with(0).out;
        assert!(help.contains("Example") && help.contains(&format!("forebay {command} ")), "{help}");
    }
    for command in ["record", "import", "fit", "show", "compare"] {
        let help = place.forebay(&["calibrate", command, "--help"]).with(0).out;
        assert!(
            help.contains("Example") && help.contains(&format!("forebay calibrate {command} ")),
            "{help}"
        );
    }
    let help = place.forebay(&["--help"]).with(0).out;
    assert!(help.contains("shop-peak-mini"), "{help}");
    for later in ["compare", "sweep", "export", "report"] {
        assert!(!help.contains(later), "{help}");
    }
    assert!(place.forebay(&["--version"]).with(0).out.starts_with("forebay "));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Workplace::new();
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
