//! Malformed files: refused with their place and with what is allowed, and never a panic.

use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn from(kind: Kind) -> Options {
    Options { from: Some(kind), ..Options::default() }
}

#[test]
fn malformed_files_are_refused_with_place_and_advice() {
    let smi = "timestamp, memory.used [MiB], power.draw [W]\n";
    let time = "2026/07/23 12:00:09.000";
    let stamped = |row: &str| format!("{smi}{time}, {row}\n");
    let dmon = "#Date Time gpu fb\n#YYYYMMDD HH:MM:SS Idx MB\n";
    for (text, expected) in [
        (String::new(), "do not tell what kind of file"),
        (
            "hello\nworld\n".to_owned(),
            "line 1: the first lines do not tell what kind of file this is; say so with --from",
        ),
        (stamped("12 MiB"), "line 2: found 2 fields, where 3 are wanted"),
        (
            stamped("12 W, 3 W"),
            "line 2, column `memory.used`: its unit is W; B, KiB, MiB, MB or GiB is wanted",
        ),
        (stamped("P0, 3 W"), "line 2, column `memory.used`: found \"P0\"; a number is wanted"),
        (
            format!("{smi}yesterday, 1 MiB, 3 W\n"),
            "line 2, column `timestamp`: found \"yesterday\"; a time such as",
        ),
        (format!("timestamp, memory.used [km]\n{time}, 1\n"), "line 1, column `memory.used`: its unit is km"),
        (
            "memory.used, memory.used\n1, 1\n".to_owned(),
            "line 1, column `memory.used`: the column stands there twice",
        ),
        (format!("{dmon}20260723 12:00:09 0\n"), "line 3: found 3 values, where 4 are wanted"),
        (
            format!("{dmon}20260723 12:00:09 x 1\n"),
            "line 3, column `gpu`: found \"x\"; the number of a device",
        ),
        (
            format!("{dmon}20261323 12:00:09 0 1\n"),
            "line 3, column `Date`: found \"20261323\"; a day such as",
        ),
        (
            format!("{dmon}20260723 25:00:09 0 1\n"),
            "line 3, column `Time`: found \"25:00:09\"; a time such as",
        ),
        (format!("{dmon}20260723 12:00:09 0 y\n"), "line 3, column `fb`: found \"y\"; a number is wanted"),
        ("DCGM_FI_DEV_FB_USED{gpu=0} 1\n".to_owned(), "line 1: character 25: a value in quotes is wanted"),
        ("DCGM_FI_DEV_FB_USED 1\n".to_owned(), "say which device it is with --device"),
        ("vllm:num_requests_running one\n".to_owned(), "line 1: character 26: a number is wanted"),
        ("a,b,c\n1,2,3\n".to_owned(), "say --arrival COLUMN"),
        ("arrival_s,tokens_in,tokens_out\n1,2\n".to_owned(), "line 2: found 2 fields, and the header has 3"),
        (
            "arrival_s,tokens_in,tokens_out\n1,2.5,3\n".to_owned(),
            "line 2, column `tokens_in`: found \"2.5\"; a whole number",
        ),
        (
            "arrival_s,tokens_in,tokens_out\n1,0,3\n".to_owned(),
            "none of the requests can be used: line 2, a served request",
        ),
        ("{\"arrival_s\": 1, \"tokens_in\": 1, \"tokens_out\": }\n".to_owned(), "line 1: not a JSON object"),
    ] {
        let error = refused(&text, &Options::default());
        assert!(error.contains(expected) && !error.contains('\n'), "{expected}\n{error}");
        assert!(error.starts_with("file: "), "{error}");
    }
    let json = "{\"data\":\n{\"result\":[{\"metric\":3}]}}";
    assert!(
        refused(json, &from(Kind::VllmMetrics)).contains("line 2: character"),
        "{}",
        refused(json, &from(Kind::VllmMetrics))
    );
    let of_bytes =
        |bytes: &[u8]| import_bytes("file", None, bytes, &Options::default()).unwrap_err().to_string();
    assert!(of_bytes(b"timestamp, memory.used\n\xff\n").contains("line 2: the byte 0xFF"));
    assert!(of_bytes(b"\xff\xfet\0i\0").contains("UTF-16 text (save it as UTF-8)"));
    assert!(of_bytes(b"\x1f\x8b\x08").contains("compressed by gzip"));
    assert!(of_bytes(b"PAR1").contains("not a sound Parquet file"));
}

#[test]
fn options_that_cannot_be_heeded_are_refused() {
    let log = "arrival_s,tokens_in,tokens_out\n1,2,3\n";
    for (options, expected) in [
        (Options { columns: vec!["a".to_owned()], ..Options::default() }, "--columns"),
        (Options { date: Some("x".to_owned()), ..Options::default() }, "--date"),
        (Options { device: Some(1), ..Options::default() }, "--device"),
        (Options { every_s: Some(1.0), ..Options::default() }, "--every"),
    ] {
        assert!(refused(log, &options).contains(expected));
    }
    let columns = LogColumns { status: Some("x".to_owned()), ..LogColumns::default() };
    let smi = "timestamp, memory.used [MiB]\n2026/07/23 12:00:09, 1\n";
    assert!(
        refused(smi, &Options { log: columns, ..Options::default() }).contains("columns of a request log")
    );
    for every_s in [0.0, f64::NAN, -1.0, 1e9] {
        assert!(refused(smi, &Options { every_s: Some(every_s), ..Options::default() }).contains("--every"));
    }
}

/// Pieces of real files, put together at random.
fn piece() -> impl Strategy<Value = String> {
    let pieces = [
        "timestamp, index, memory.used [MiB]",
        "2026/07/23 12:00:09.000, 0, 1 MiB",
        "#Date Time gpu fb",
        "# gpu sm",
        "#YYYYMMDD HH:MM:SS Idx MB",
        " 20260723 12:00:09 0 7",
        " 0 -",
        "DCGM_FI_DEV_FB_USED{gpu=\"0\"} 4",
        "vllm:num_requests_running{engine=\"0\"} 3 1784800000000",
        "1784800000.5",
        "# 2026-07-23T12:00:00",
        "t,running,waiting",
        "1,2,3",
        "arrival_s,tokens_in,tokens_out",
        "9223372036854775807,1,1",
        "-5,1,1",
        "\"",
        "[N/A]",
        "{\"arrival_s\":1,\"tokens_in\":1,\"tokens_out\":1}",
        "{\"data\":{\"result\":[{\"metric\":{},\"values\":[[1e300,\"x\"]]}]}}",
        "",
        "é",
        "18446744073709551615",
        "99999999999999999999999",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(str::to_owned)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0_usize..7) {
        let from = Kind::ALL.get(kind).copied();
        let _ = import_bytes("file", None, &bytes, &Options { from, ..Options::default() });
    }

    #[test]
    fn any_lines_never_panic(
        lines in prop::collection::vec(prop_oneof![piece(), "\\PC{0,40}"], 0..12),
        kind in 0_usize..7,
        sort in any::<bool>(),
        every in any::<bool>(),
    ) {
        let from = Kind::ALL.get(kind).copied();
        let every_s = (every && from != Some(Kind::Requests)).then_some(1e6);
        let options = Options { from, every_s, sort, ..Options::default() };
        for end in ["", "\n"] {
            let _ = import_bytes("file", None, (lines.join("\n") + end).as_bytes(), &options);
        }
    }

    #[test]
    fn any_log_is_in_order(rows in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>()), 1..20)) {
        let mut text = "sent_ns,tokens_in,tokens_out,first_token_ns,last_token_ns\n".to_owned();
        for (arrival, first, last) in rows {
            writeln!(text, "{arrival},1,1,{first},{last}").unwrap();
        }
        if let Ok((Imported::Requests(log), _)) = import_bytes("file", None, text.as_bytes(), &Options::default()) {
            prop_assert!(log.requests.is_sorted_by(|a, b| a.arrival_s <= b.arrival_s));
            prop_assert!(log.requests.iter().all(|r| r.first_token_s.unwrap() >= r.arrival_s));
        }
    }
}
