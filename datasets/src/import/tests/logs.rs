//! Request logs.

use super::*;
use crate::fit::read_vllm_log;

const RTX4090: &str = include_str!("../../../measured/vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl");

#[test]
fn a_vllm_run_is_read_as_the_fits_read_it() {
    let (log, report) = log(RTX4090, &Options::default());
    assert_eq!((report.kind, report.rows, report.dropped.len()), (Kind::Requests, 300, 0));
    let (mine, theirs) = (log.observed(), read_vllm_log(RTX4090).unwrap());
    assert_eq!(mine.len(), theirs.len());
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!((mine.tokens_in, mine.tokens_out), (theirs.tokens_in, theirs.tokens_out));
        // The fits' reader goes through floats of epoch seconds, which are good to a quarter microsecond.
        for (mine, theirs) in [
            (mine.arrival_s, theirs.arrival_s),
            (mine.first_token_s, theirs.first_token_s),
            (mine.last_token_s, theirs.last_token_s),
        ] {
            assert!((mine - theirs).abs() < 2e-6, "{mine} {theirs}");
        }
    }
    assert!(log.requests[0].wall_ns > 1_787_267_980_000_000_000);
}

fn named() -> LogColumns {
    let some = |name: &str| Some(name.to_owned());
    LogColumns {
        arrival: some("ts"),
        arrival_unit: Some(LogUnit::Datetime),
        tokens_in: some("p"),
        tokens_out: some("c"),
        ttft: some("ttft"),
        latency: some("e2e"),
        duration_unit: Some(LogUnit::Ms),
        status: some("code"),
        ..LogColumns::default()
    }
}

#[test]
fn columns_are_mapped_units_joined_and_rows_sorted() {
    let text = "\
ts,p,c,ttft,e2e,code
2026-07-23 12:00:02,20,3,250,1250,200
2026-07-23 12:00:00,10,5,500.5,1500,200
2026-07-23 12:00:03,,,,30,503
,10,5,1,2,200
2026-07-23 12:00:04,10,0,1,2,200
2026-07-23 12:00:05,10,5,-1,2,200
2026-07-23 12:00:06,10,5,100,50,200
2026-07-23 12:00:07,10,5,100,NaN,200
";
    let options = Options { log: named(), ..Options::default() };
    let (log, report) = log(text, &options);
    let found: Vec<_> = log
        .requests
        .iter()
        .map(|r| (r.arrival_s, r.tokens_in, r.first_token_s, r.last_token_s, log.status(r)))
        .collect();
    assert_eq!(
        found,
        [
            (0.0, 10, Some(0.5005), Some(1.5), "ok"),
            (2.0, 20, Some(2.25), Some(3.25), "ok"),
            (3.0, 0, None, Some(3.03), "503"),
        ]
    );
    let expected = [
        ("a request without a time of arrival", 1, "line 5"),
        ("a served request without tokens of its prompt or answer", 1, "line 6"),
        ("a request whose first token came before it was sent", 1, "line 7"),
        ("a request whose last token came before its first", 1, "line 8"),
        ("a served request whose last token has no time", 1, "line 9"),
    ];
    assert_eq!(dropped(&report), expected);
    assert_eq!(report.served, Some(2));
    let remarks = remarks(&report);
    assert!(remarks.contains("sorted by arrival (line 3)") && remarks.contains("taken as UTC"), "{remarks}");
    let east = Options { utc_offset: Some("+01:00".parse().unwrap()), ..options };
    let (earlier, report) = super::log(text, &east);
    assert_eq!(log.requests[0].wall_ns - earlier.requests[0].wall_ns, 3_600_000_000_000);
    assert!(!super::remarks(&report).contains("UTC"));
}

#[test]
fn other_words_may_mean_served() {
    let text =
        "arrival_s,tokens_in,tokens_out,first_token_s,last_token_s,status\n1.5,1,1,2,3,gut\n2,1,1,3,4,ok\n";
    let log = |ok: &[&str]| {
        let ok = ok.iter().map(|word| (*word).to_owned()).collect();
        let columns = LogColumns { ok, ..LogColumns::default() };
        super::log(text, &Options { log: columns, ..Options::default() }).0
    };
    assert_eq!(log(&[]).observed().len(), 1);
    assert_eq!(log(&["gut"]).observed()[0].first_token_s, 0.5);
    assert_eq!(log(&["gut", "ok"]).observed().len(), 2);
}

#[test]
fn an_imported_log_imports_again() {
    let folder = crate::scratch::Folder::new("import-again");
    let path = folder.path("log.parquet");
    let (first, _) = imported(RTX4090, &Options::default());
    first.write(&path, false).unwrap();
    let (again, report) = import(&path, &Options::default()).unwrap();
    let (Imported::Requests(first), Imported::Requests(again)) = (&first, &again) else { panic!("logs") };
    assert_eq!(report.dropped, []);
    assert_eq!(first.requests.len(), again.requests.len());
    for (a, b) in first.requests.iter().zip(&again.requests) {
        assert_eq!((a.wall_ns, a.tokens_in, a.status), (b.wall_ns, b.tokens_in, b.status));
        assert!((a.arrival_s - b.arrival_s).abs() < 1e-8);
        assert!((a.last_token_s.unwrap() - b.last_token_s.unwrap()).abs() < 1e-8);
    }
    assert_eq!(crate::request_log::read(&path).unwrap(), *first);
}

#[test]
fn keys_may_be_missing_on_some_lines() {
    let text = "\
{\"arrival_s\": 0, \"tokens_in\": 5, \"tokens_out\": 0, \"status\": \"timeout\"}
{\"arrival_s\": 1, \"tokens_in\": 5, \"tokens_out\": 2, \"first_token_s\": 1.5, \"last_token_s\": 2, \"status\": \"ok\"}
";
    let (log, _) = log(text, &Options::default());
    assert_eq!((log.requests.len(), log.observed().len()), (2, 1));
    assert_eq!(log.requests[0].first_token_s, None);
}

#[test]
fn a_log_of_the_load_recorder_is_known() {
    let text = "sent_ns,sent_wall_ns,tokens_in,tokens_out,first_token_ns,last_token_ns,status\n\
                1000000000,1784800000000000000,10,5,1500000000,2000000000,answered\n";
    let (log, _) = log(text, &Options::default());
    let request = log.requests[0];
    assert_eq!(
        (request.wall_ns, request.first_token_s, request.last_token_s),
        (1_784_800_000_000_000_000, Some(0.5), Some(1.0))
    );
}
