//! Bad traces: a scenario that names a trace which is none is refused where it names it, with what is
//! wrong in the trace and where; nothing panics, however broken the file.

use forebay_workbench::inputs::OpenError;
use forebay_workbench::open;
use std::path::PathBuf;

/// A scenario that replays the trace of this name.
fn scenario(trace: &str) -> String {
    format!(
        "name = \"replay\"\n[run]\nduration_s = 1\n[workload.sources.past]\nkind = \"trace\"\ntrace = \"{trace}\"\n\
         [workload.classes.any]\n[endpoints.desk]\nl1 = [\"desk\"]\n[stages.desk]\nkind = \"server\"\nservers = 1\n\
         service_s = 0.1\n"
    )
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bad-traces").join(name);
    std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    folder
}

/// What is said of a scenario that replays this content.
fn refusal(case: &str, file: &str, content: &[u8]) -> String {
    let folder = folder(case);
    std::fs::write(folder.join(file), content).expect("a file can be written");
    let path = folder.join("replay.toml");
    std::fs::write(&path, scenario(file)).expect("a file can be written");
    match open(&path.to_string_lossy(), &[]) {
        Ok(_) => panic!("{case}: it was read"),
        Err(OpenError::Problems(problems)) => {
            let [problem] = &problems[..] else { panic!("{case}: {problems:?}") };
            assert_eq!((problem.line, problem.column), (6, 9), "{case}: {problem}");
            assert_eq!(problem.path, "workload.sources.past.trace", "{case}");
            problem.to_string()
        }
        Err(other) => panic!("{case}: {other}"),
    }
}

#[test]
fn every_malformed_trace_is_refused_where_it_is_named() {
    let head = "at_s,tokens_in,tokens_out\n";
    let csv = |rows: &str| format!("{head}{rows}").into_bytes();
    let columns: Vec<String> = (0..1_000_000).map(|i| format!("c{i}")).collect();
    let noise: Vec<u8> = (0..5000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let cases: Vec<(&str, &str, Vec<u8>, &str)> = vec![
        ("empty", "t.csv", Vec::new(), "t.csv"),
        ("header-only", "t.csv", csv(""), "row"),
        ("time-goes-backwards", "t.csv", csv("1.0,5,5\n0.5,5,5\n"), "line 3"),
        ("negative-time", "t.csv", csv("-1.0,5,5\n"), "line 2"),
        ("no-number", "t.csv", csv("soon,5,5\n"), "soon"),
        ("nan", "t.csv", csv("nan,5,5\n"), "nan"),
        ("infinite", "t.csv", csv("1.0,5,5\ninf,5,5\n"), "inf"),
        ("negative-tokens", "t.csv", csv("1.0,-5,5\n"), "-5"),
        ("tokens-without-end", "t.csv", csv("1.0,5,99999999999999999999\n"), "99999999999999999999"),
        ("a-row-too-short", "t.csv", csv("1.0,5,5\n2.0\n"), "line 3"),
        ("an-open-quote", "t.csv", csv("1.0,\"5,5\n"), "t.csv"),
        ("no-such-column", "t.csv", b"at_s,tokens,tokens_out\n1,5,5\n".to_vec(), "tokens_in"),
        ("a-million-columns", "t.csv", columns.join(",").into_bytes(), "column"),
        ("binary-garbage", "t.csv", noise.clone(), "t.csv"),
        ("not-utf-8", "t.csv", [head.as_bytes(), &[0xff, 0xfe, b'\n']].concat(), "t.csv"),
        ("an-unknown-ending", "t.xls", csv("1.0,5,5\n"), "t.xls"),
        ("no-parquet", "t.parquet", noise, "t.parquet"),
        ("half-a-parquet", "t.parquet", b"PAR1\x00\x00\x00\x00PAR1".to_vec(), "t.parquet"),
        ("no-json", "t.jsonl", b"{\"at_s\": 1, \"tokens_in\": 5,".to_vec(), "t.jsonl"),
        ("json-of-lists", "t.jsonl", b"[1, 2, 3]\n".to_vec(), "t.jsonl"),
        ("json-nested-without-end", "t.jsonl", vec![b'['; 200_000], "t.jsonl"),
    ];
    let mut wrong = Vec::new();
    for (case, file, content, expected) in &cases {
        let said = refusal(case, file, content);
        if !said.contains(expected) {
            wrong.push(format!("{case}: no `{expected}` in: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_trace_that_is_not_there_is_asked_for_by_name() {
    let folder = folder("missing");
    let path = folder.join("replay.toml");
    for name in ["no-such.csv", ".", "azure-conversation"] {
        std::fs::write(&path, scenario(name)).expect("a file can be written");
        let said = open(&path.to_string_lossy(), &[]).expect_err(name).to_string();
        assert!(
            said.contains(":6:9: workload.sources.past.trace") && said.contains("azure-conversations"),
            "{said}"
        );
    }
}
