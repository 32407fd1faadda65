//! Sound files of every layout and format, and that the three formats say the same.

use std::fmt::Write as _;

use forebay_model::trace::{Columns, TimeUnit, Trace, TraceRow};
use proptest::prelude::*;

use super::{Format, read_trace, read_trace_bytes};
use crate::frames::{Table, TableColumn, Values, write_parquet};
use crate::scratch::Folder;

fn csv(text: &str, columns: &Columns) -> Trace {
    read_trace_bytes("t", Format::Csv, text.as_bytes(), columns).unwrap()
}

fn json(text: &str, columns: &Columns) -> Trace {
    read_trace_bytes("t", Format::JsonLines, text.as_bytes(), columns).unwrap()
}

fn row(at_ns: u64, tokens_in: u32, tokens_out: u32) -> TraceRow {
    TraceRow { at_ns, tokens_in, tokens_out, class: None, user: None, session: None }
}

#[test]
fn the_azure_layout_is_exact_to_its_last_digit() {
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n\
                2023-11-16 18:15:46.6805900,374,44\r\n\
                2023-11-16 18:15:50.9951691,396,109\r\n";
    assert_eq!(csv(text, &Columns::default()).rows(), [row(0, 374, 44), row(4_314_579_100, 396, 109)]);
}

#[test]
fn the_mooncake_layout_passes_over_its_block_ids() {
    let text = "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0, 1]}\n\
                {\"timestamp\": 27482, \"input_length\": 7322, \"output_length\": 490, \"hash_ids\": []}\n";
    assert_eq!(json(text, &Columns::default()).rows(), [row(0, 6758, 500), row(27_482_000_000, 7322, 490)]);
}

#[test]
fn the_vllm_layout_keeps_epoch_seconds_exact() {
    let text = "{\"request_id\": \"a\", \"input_toks\": 2358, \"output_toks\": 531, \"arrival_time\": 1787267980.0827403}\n\
                {\"arrival_time\": 1787267980.3478317, \"output_toks\": 769, \"input_toks\": 1034}\n";
    assert_eq!(json(text, &Columns::default()).rows(), [row(0, 2358, 531), row(265_091_400, 1034, 769)]);
}

#[test]
fn our_layout_numbers_classes_users_and_sessions() {
    let text = "at_s,tokens_in,tokens_out,class,user,session,comment\n\
                0,1,2,chat,7,a,\"x, y\"\n\
                0.5,3,4,search,9,b,\n\
                0.5,5,6,,,b,\"\"\"quoted\"\" and\nbroken\"\n\
                1e0,7,8,chat,7,a,\n";
    let trace = csv(text, &Columns::default());
    assert_eq!(trace.classes(), ["chat", "search"]);
    let parts: Vec<_> =
        trace.rows().iter().map(|row| (row.at_ns, row.class, row.user, row.session)).collect();
    assert_eq!(
        parts,
        [
            (0, Some(0), Some(7), Some(0)),
            (500_000_000, Some(1), Some(9), Some(1)),
            (500_000_000, None, None, Some(1)),
            (1_000_000_000, Some(0), Some(7), Some(0)),
        ]
    );
    let text = "{\"at_s\":0,\"tokens_in\":1,\"tokens_out\":2,\"class\":null,\"user\":null}\n\
                {\"at_s\":0,\"tokens_in\":1,\"tokens_out\":2,\"class\":\"chat\",\"user\":12}\n\
                {\"at_s\":0,\"tokens_in\":1,\"tokens_out\":2}\n";
    let trace = json(text, &Columns::default());
    let parts: Vec<_> = trace.rows().iter().map(|row| (row.class, row.user)).collect();
    assert_eq!(parts, [(None, None), (Some(0), Some(12)), (None, None)]);
}

#[test]
fn a_column_map_reads_any_other_file() {
    let columns = Columns {
        time: Some("when".into()),
        time_unit: Some(TimeUnit::Us),
        tokens_in: Some("prompt".into()),
        tokens_out: Some("completion".into()),
        class: Some("kind".into()),
        user: Some("who".into()),
        ..Columns::default()
    };
    let text =
        "kind,completion,who,when,prompt\nchat,5,ann,1000,10\nchat,6,bob,3000.5,20\nfaq,7,ann,4000,30\n";
    let trace = csv(text, &columns);
    assert_eq!(trace.duration_ns(), 3_000_000);
    assert_eq!(trace.rows()[1].at_ns, 2_000_500);
    assert_eq!(trace.rows().iter().map(|row| row.user).collect::<Vec<_>>(), [Some(0), Some(1), Some(0)]);
    assert_eq!(trace.classes(), ["chat", "faq"]);
}

#[test]
fn parts_of_a_column_map_override_a_known_layout() {
    let columns = Columns { time_unit: Some(TimeUnit::Ms), sort: true, ..Columns::default() };
    let trace = csv("at_s,tokens_in,tokens_out\n30,1,1\n10,2,2\n20,3,3\n10,4,4\n", &columns);
    let rows = [row(0, 2, 2), row(0, 4, 4), row(10_000_000, 3, 3), row(20_000_000, 1, 1)];
    assert_eq!(trace.rows(), rows);
}

#[test]
fn editors_and_spreadsheets_leave_their_marks() {
    let text = "\u{feff}at_s, tokens_in ,\"tokens_out\"\n0, 374.0,\"5\"\n1,1,1e2\n\n  \n";
    assert_eq!(csv(text, &Columns::default()).rows(), [row(0, 374, 5), row(1_000_000_000, 1, 100)]);
    let text = "\r\n{\"at_s\": \"0\", \"tokens_in\": 374.0, \"tokens_out\": 5}\r\n\n\
                {\"at_s\": 1.0, \"tokens_in\": \"1\", \"tokens_out\": 100}";
    assert_eq!(json(text, &Columns::default()).rows(), [row(0, 374, 5), row(1_000_000_000, 1, 100)]);
}

#[test]
fn the_trace_is_named_after_its_file() {
    let folder = Folder::new("names");
    let text = "at_s,tokens_in,tokens_out\n0,1,1\n";
    for (file, name) in [("peak.csv", "peak"), ("Peak.CSV", "Peak"), ("a.b.trace.csv", "a.b")] {
        assert_eq!(read_trace(&folder.file(file, text), &Columns::default()).unwrap().name(), name);
    }
}

#[test]
fn large_files_cross_every_chunk_of_the_reader() {
    let mut text = String::from("at_s,tokens_in,tokens_out,note\n");
    for row in 0..50_000_u32 {
        writeln!(text, "{}.{:03},{},{},\"a, {row}\nb\"", row / 10, row % 10, row + 1, row % 7 + 1).unwrap();
    }
    let trace = csv(&text, &Columns::default());
    assert_eq!(trace.rows().len(), 50_000);
    assert!(trace.rows().iter().enumerate().all(|(index, row)| row.tokens_in as usize == index + 1));
}

/// One trace in all three formats.
fn in_three_formats(folder: &Folder, rows: &[TraceRow]) -> [Trace; 3] {
    let mut csv = String::from("at_s,tokens_in,tokens_out,user\n");
    let mut json = String::new();
    let at_s = |row: &TraceRow| row.at_ns as f64 / 1e9;
    for row in rows {
        let (at_s, user) = (at_s(row), row.user.unwrap());
        writeln!(csv, "{at_s},{},{},{user}", row.tokens_in, row.tokens_out).unwrap();
        let TraceRow { tokens_in, tokens_out, .. } = row;
        writeln!(
            json,
            "{{\"at_s\":{at_s},\"tokens_in\":{tokens_in},\"tokens_out\":{tokens_out},\"user\":{user}}}"
        )
        .unwrap();
    }
    let column = |name: &str, read: fn(&TraceRow) -> u64| {
        TableColumn::new(name, "", Values::U64(rows.iter().map(read).collect()))
    };
    let table = Table {
        columns: vec![
            TableColumn::new("at_s", "s", Values::F64(rows.iter().map(at_s).collect())),
            column("tokens_in", |row| row.tokens_in.into()),
            column("tokens_out", |row| row.tokens_out.into()),
            column("user", |row| row.user.unwrap()),
        ],
    };
    let parquet = folder.path("t.parquet");
    write_parquet(&parquet, &table, true).unwrap();
    [folder.file("t.csv", csv), folder.file("t.jsonl", json), parquet]
        .map(|path| read_trace(&path, &Columns::default()).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_three_formats_say_the_same(
        rows in prop::collection::vec((0_u64..4_000_000_000_000_000, 1_u32.., 1_u32.., 0_u64..), 1..40),
    ) {
        let mut rows: Vec<TraceRow> = rows
            .into_iter()
            .map(|(at_ns, tokens_in, tokens_out, user)| TraceRow { user: Some(user), ..row(at_ns, tokens_in, tokens_out) })
            .collect();
        rows.sort_by_key(|row| row.at_ns);
        let folder = Folder::new("three-formats");
        let expected = Trace::new("t", rows.clone()).unwrap();
        for trace in in_three_formats(&folder, &rows) {
            prop_assert_eq!(&trace, &expected);
        }
    }
}
