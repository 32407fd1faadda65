//! Files that are no traces: each is refused with the place, what was found and what is allowed.

use std::path::Path;

use forebay_model::trace::{Columns, TimeUnit};
use proptest::prelude::*;

use super::{Format, Problem, read_trace, read_trace_bytes};
use crate::frames::{Table, TableColumn, Values, write_parquet};
use crate::scratch::Folder;

fn refused(format: Format, content: impl AsRef<[u8]>, columns: &Columns) -> String {
    match read_trace_bytes("t", format, content.as_ref(), columns) {
        Ok(trace) => panic!("{} rows were read", trace.rows().len()),
        Err(error) => error.to_string(),
    }
}

fn csv(content: impl AsRef<[u8]>) -> String {
    refused(Format::Csv, content, &Columns::default())
}

fn json(content: impl AsRef<[u8]>) -> String {
    refused(Format::JsonLines, content, &Columns::default())
}

const TOKENS: &str = "a whole number from 1 to 4294967295 is wanted";

#[test]
fn csv_cells_are_refused_with_line_and_column() {
    let cell = |at_s: &str, tokens_in: &str| {
        csv(format!("at_s,tokens_in,tokens_out\n0,1,1\n{at_s},{tokens_in},1\n"))
    };
    for found in
        ["NaN", "inf", "-inf", "-3", "0", "abc", "1.5", "4294967296", "99999999999999999999", "1e300", "true"]
    {
        let expected = format!("t: line 3, column `tokens_in`: found \"{found}\"; {TOKENS}");
        assert_eq!(cell("1", found), expected);
    }
    assert_eq!(cell("1", ""), format!("t: line 3, column `tokens_in`: there is no value; {TOKENS}"));
    for found in ["NaN", "inf", "-inf", "-0.5", "soon", "1e40", "2023-11-16 18:15:46"] {
        let expected =
            format!("t: line 3, column `at_s`: found \"{found}\"; a time in seconds, at least 0, is wanted");
        assert_eq!(cell(found, "1"), expected);
    }
    let long = cell("1", &"9".repeat(5000));
    assert_eq!(long, format!("t: line 3, column `tokens_in`: found \"{}…\"; {TOKENS}", "9".repeat(40)));
    let rude = cell("1", "\u{1b}[31m\u{7}");
    assert!(rude.contains(r#"found "\u{1b}[31m\u{7}""#), "{rude}");
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    let date = |found: &str| csv(format!("TIMESTAMP,ContextTokens,GeneratedTokens\n{found},1,1\n"));
    for found in ["2023-02-29 00:00:00", "99999-01-01 00:00:00", "1969-12-31 23:59:59", "0", "2023-11-16"] {
        assert_eq!(
            date(found),
            format!(
                "t: line 2, column `TIMESTAMP`: found \"{found}\"; a date and time such as \
                     2023-11-16 18:15:46.6805900, from the years 1970 to 9999, is wanted"
            )
        );
    }
}

#[test]
fn times_must_not_go_backwards_nor_last_for_centuries() {
    let text = "at_s,tokens_in,tokens_out\n5,1,1\n6,1,1\n5.5,1,1\n";
    assert_eq!(
        csv(text),
        "t: line 4, column `at_s`: row 3 arrives at 0.5 s, before row 2 at 1 s; times must not go backwards \
         (`columns = { sort = true }` in a scenario, or `--sort` on the command line, sorts them)"
    );
    let sorted = Columns { sort: true, ..Columns::default() };
    assert!(read_trace_bytes("t", Format::Csv, text.as_bytes(), &sorted).is_ok());
    let first = csv("at_s,tokens_in,tokens_out\n5,1,1\n4,1,1\n");
    assert!(
        first.starts_with("t: line 3, column `at_s`: row 2 arrives at 0 s, before row 1 at 1 s"),
        "{first}"
    );
    for last in ["9e9", "1e12"] {
        let long = csv(format!("at_s,tokens_in,tokens_out\n0,1,1\n{last},1,1\n"));
        assert!(long.contains("longer than the 3153600000 s (100 years)"), "{long}");
    }
    let centuries =
        csv("TIMESTAMP,ContextTokens,GeneratedTokens\n1970-01-01 00:00:00,1,1\n9999-12-31 23:59:59,1,1\n");
    assert!(centuries.contains("is the time's unit right?"), "{centuries}");
}

#[test]
fn csv_without_rows_or_without_sense_is_refused() {
    assert_eq!(csv(""), "t: the file is empty");
    assert_eq!(csv(" \n\r\n\t\n"), "t: the file is empty");
    assert_eq!(
        csv("at_s,tokens_in,tokens_out\n\n"),
        "t: the file has a header but no rows; at least one request is wanted"
    );
    assert_eq!(csv("at_s,tokens_in,tokens_out\n0,1,1\n\n0,1,1"), "t: line 3: the line is blank");
    assert_eq!(
        csv("at_s,tokens_in,tokens_out\n0,1,1\n0,1,1,1"),
        "t: line 3: found 4 fields, and the header has 3"
    );
    assert_eq!(csv("at_s,tokens_in,tokens_out\n0,1"), "t: line 2: found 2 fields, and the header has 3");
    assert_eq!(csv("at_s,tokens_in,tokens_out\n0,\"1,1\n"), "t: line 2: a quote is opened and never closed");
    assert_eq!(
        csv("at_s;tokens_in;tokens_out\n0;1;1\n"),
        "t: line 1: the header is separated by semicolons; columns are separated by commas here"
    );
    assert_eq!(
        csv("at_s,tokens_in,tokens_out,at_s\n0,1,1,0\n"),
        "t: line 1: two columns have the name `at_s`; names must differ"
    );
    assert_eq!(csv("at_s,,tokens_in,tokens_out\n0,,1,1\n"), "t: line 1: column 2 of the header has no name");
}

#[test]
fn missing_columns_are_refused_with_the_nearest_name() {
    assert_eq!(
        csv("at_s,token_in,tokens_out\n0,1,1\n"),
        "t: there is no column `tokens_in` for the prompt's tokens (did you mean `token_in`?); the columns are at_s, \
         token_in, tokens_out"
    );
    assert_eq!(
        csv("TIMESTAMP,ContextTokens,Generated\n0,1,1\n"),
        "t: there is no column `GeneratedTokens` for the answer's tokens (did you mean `Generated`?); the columns are \
         TIMESTAMP, ContextTokens, Generated"
    );
    let stranger = csv("a,b,c\n0,1,1\n");
    assert!(
        stranger.starts_with(
            "t: no column is named for the time of arrival, and the header (a, b, c) is none of"
        ),
        "{stranger}"
    );
    assert!(stranger.contains("Azure: TIMESTAMP, ContextTokens, GeneratedTokens"), "{stranger}");
    assert!(stranger.contains("columns = { time = …"), "{stranger}");
}

#[test]
fn column_maps_that_do_not_fit_are_refused() {
    let text = "when,in,out\n0,1,1\n";
    let map = |time: &str, unit, tokens_in: &str| Columns {
        time: Some(time.into()),
        time_unit: unit,
        tokens_in: Some(tokens_in.into()),
        tokens_out: Some("out".into()),
        ..Columns::default()
    };
    let refused = |columns: &Columns| refused(Format::Csv, text, columns);
    assert!(refused(&map("When", Some(TimeUnit::S), "in")).contains("(did you mean `when`?)"));
    assert!(
        refused(&map("when", None, "in"))
            .starts_with("t: the unit of the time column `when` is not given; add")
    );
    assert_eq!(
        refused(&map("when", Some(TimeUnit::S), "out")),
        "t: column `out`: the column is named both for the prompt's tokens and for the answer's tokens"
    );
    let user = Columns { user: Some("zzz".into()), ..map("when", Some(TimeUnit::S), "in") };
    assert_eq!(refused(&user), "t: there is no column `zzz` for the user; the columns are when, in, out");
}

#[test]
fn a_million_columns_are_refused_by_the_header() {
    let header = (0..1_000_000).map(|index| format!("c{index}")).collect::<Vec<_>>().join(",");
    assert_eq!(
        csv(format!("{header}\n0,1,1\n")),
        "t: line 1: the file has 1000000 columns; at most 1000 are read"
    );
    let commas = csv(",".repeat(999_999));
    assert_eq!(commas, "t: line 1: the file has 1000000 columns; at most 1000 are read");
    let keys = (0..2000).map(|index| format!("\"c{index}\":1")).collect::<Vec<_>>().join(",");
    assert_eq!(json(format!("{{{keys}}}")), "t: line 1: the file has 2000 columns; at most 1000 are read");
    // A wide line below a narrow header.
    let wide = csv(format!("at_s,tokens_in,tokens_out\n{}", ",".repeat(999_999)));
    assert_eq!(wide, "t: line 2: found 1000000 fields, and the header has 3");
}

#[test]
fn content_of_another_kind_is_named() {
    for (content, found) in [
        (b"PAR1\x15\x04".as_slice(), "a Parquet file"),
        (b"\x1f\x8b\x08\x00", "compressed by gzip (decompress it first)"),
        (b"\x28\xb5\x2f\xfd\x00", "compressed by zstd (decompress it first)"),
        (b"PK\x03\x04\x14", "a ZIP archive or a spreadsheet"),
        (b"\xff\xfea\x00", "UTF-16 text (save it as UTF-8)"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "binary"),
        (b"at_s,tokens_in\0", "binary"),
    ] {
        assert_eq!(csv(content), format!("t: the content is {found}, where CSV text is wanted"));
        assert_eq!(json(content), format!("t: the content is {found}, where JSON lines is wanted"));
    }
    assert_eq!(
        csv(b"at_s,tokens_in,tokens_out\n0,1,\xe9\n"),
        "t: line 2: the byte 0xE9 is not part of UTF-8 text"
    );
}

#[test]
fn json_lines_are_refused_with_their_line() {
    let good = "{\"at_s\":0,\"tokens_in\":1,\"tokens_out\":1}\n";
    let second = |line: &str| json(format!("{good}{line}\n{good}"));
    assert_eq!(json(""), "t: the file is empty");
    assert_eq!(json("[1, 2]"), "t: the content is a JSON array, where one JSON object a line is wanted");
    assert!(second("{\"at_s\":1,\"tokens_in\":1").starts_with("t: line 2: not a JSON object: "));
    assert!(second("{\"at_s\":1,}").starts_with("t: line 2: not a JSON object: trailing comma"));
    assert!(
        second("5")
            .starts_with("t: line 2: not a JSON object: invalid type: integer `5`, expected an object")
    );
    assert!(second(&format!("{}{}", good.trim(), good.trim())).contains("trailing characters"));
    assert!(
        second("{\"at_s\":NaN,\"tokens_in\":1,\"tokens_out\":1}").starts_with("t: line 2: not a JSON object")
    );
    assert_eq!(
        second("{\"at_s\":1,\"tokens_in\":1}"),
        format!("t: line 2, column `tokens_out`: there is no value; {TOKENS}")
    );
    assert_eq!(
        second("{}"),
        "t: line 2, column `at_s`: there is no value; a time in seconds, at least 0, is wanted"
    );
    assert_eq!(
        second("{\"at_s\":1,\"at_s\":2,\"tokens_in\":1,\"tokens_out\":1}"),
        "t: line 2: two columns have the name `at_s`; names must differ"
    );
    let tokens = |found: &str| second(&format!("{{\"at_s\":1,\"tokens_in\":{found},\"tokens_out\":1}}"));
    for (found, shown) in [
        ("-1", "-1"),
        ("1.5", "1.5"),
        ("\"x\"", "x"),
        ("[1]", "[1]"),
        ("true", "true"),
        ("4294967296", "4294967296"),
        ("18446744073709551616", "18446744073709551616"),
    ] {
        assert_eq!(tokens(found), format!("t: line 2, column `tokens_in`: found \"{shown}\"; {TOKENS}"));
    }
    assert_eq!(tokens("null"), format!("t: line 2, column `tokens_in`: there is no value; {TOKENS}"));
    for odd in ["1e999", "\"\\ud800\""] {
        let error = tokens(odd);
        assert!(error.starts_with("t: line 2"), "{error}");
    }
    assert!(json("{\"at\":0}\n").starts_with("t: no column is named for the time of arrival"));
}

#[test]
fn deep_json_is_refused() {
    let deep = format!(
        "{{\"at_s\":0,\"tokens_in\":1,\"tokens_out\":1,\"x\":{}{}}}",
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert_eq!(json(deep), "t: line 1: the JSON is nested deeper than 64");
    assert_eq!(json("{\"a\":".repeat(100_000)), "t: line 1: the JSON is nested deeper than 64");
    let brackets =
        format!("{{\"at_s\":0,\"tokens_in\":1,\"tokens_out\":1,\"x\":\"\\\"{}\"}}", "[".repeat(1000));
    assert!(read_trace_bytes("t", Format::JsonLines, brackets.as_bytes(), &Columns::default()).is_ok());
}

#[test]
fn paths_that_are_no_files_are_refused() {
    let folder = Folder::new("no-files");
    let refused = |path: &Path| read_trace(path, &Columns::default()).unwrap_err();
    assert_eq!(*refused(&folder.path("none.csv")).problem, Problem::NoFile);
    let missing = folder.path("none.csv");
    assert_eq!(refused(&missing).to_string(), format!("{}: there is no such file", missing.display()));
    std::fs::create_dir_all(folder.path("folder.csv")).unwrap();
    assert_eq!(*refused(&folder.path("folder.csv")).problem, Problem::NotAFile("a folder"));
    assert_eq!(*refused(&folder.file("t.xlsx", "")).problem, Problem::UnknownExtension(".xlsx".into()));
    assert_eq!(*refused(&folder.file("t.csv.gz", "")).problem, Problem::UnknownExtension(".gz".into()));
    assert_eq!(*refused(&folder.file("t", "")).problem, Problem::UnknownExtension("(none)".into()));
    #[cfg(unix)]
    {
        let endless = folder.path("endless.csv");
        std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
        assert_eq!(*refused(&endless).problem, Problem::NotAFile("a device or a pipe"));
    }
    // Sparse: no disk is used.
    let large = folder.file("large.csv", "");
    std::fs::File::options().write(true).open(&large).unwrap().set_len(2 << 30).unwrap();
    assert_eq!(*refused(&large).problem, Problem::TooLarge(2 << 30));
}

fn parquet_bytes(folder: &Folder, columns: Vec<TableColumn>) -> Vec<u8> {
    let path = folder.path("t.parquet");
    write_parquet(&path, &Table { columns }, true).unwrap();
    std::fs::read(path).unwrap()
}

fn sound_parquet(folder: &Folder, rows: u64) -> Vec<u8> {
    let numbers = |name: &str| TableColumn::new(name, "", Values::U64((1..=rows).collect()));
    let texts = Values::Str((0..rows).map(|row| format!("class {}", row % 3)).collect());
    let times = Values::F64((0..rows).map(|row| row as f64).collect());
    parquet_bytes(
        folder,
        vec![
            TableColumn::new("at_s", "s", times),
            numbers("tokens_in"),
            numbers("tokens_out"),
            TableColumn::new("class", "", texts),
        ],
    )
}

fn parquet(content: impl AsRef<[u8]>) -> String {
    refused(Format::Parquet, content, &Columns::default())
}

#[test]
fn broken_parquet_is_refused() {
    assert_eq!(parquet(""), "t: the file is empty");
    assert_eq!(
        parquet("at_s,tokens_in,tokens_out\n0,1,1\n"),
        "t: not a sound Parquet file: it does not begin with the mark PAR1"
    );
    assert_eq!(
        parquet(b"\x1f\x8b\x08"),
        "t: the content is compressed by gzip (decompress it first), where Parquet is wanted"
    );
    assert_eq!(
        parquet("PAR1"),
        "t: not a sound Parquet file: it does not end with the mark PAR1; it may have been cut off"
    );
    assert_eq!(
        parquet(b"PAR1\xff\xff\xff\xffPAR1"),
        "t: not a sound Parquet file: its footer is longer than the file; it may have been cut off"
    );
    assert!(parquet(b"PAR1\x00\x00\x00\x00PAR1").starts_with("t: not a sound Parquet file"));
    let folder = Folder::new("broken-parquet");
    let sound = sound_parquet(&folder, 50);
    for length in 4..sound.len() {
        assert!(parquet(&sound[..length]).starts_with("t: not a sound Parquet file: it does not end with"));
    }
}

#[test]
fn unfit_parquet_columns_are_refused() {
    let folder = Folder::new("unfit-parquet");
    let numbers = |name: &str, values: Values| TableColumn::new(name, "", values);
    let with = |times: Values, tokens: Values| {
        parquet(parquet_bytes(
            &folder,
            vec![
                numbers("at_s", times),
                numbers("tokens_in", tokens),
                numbers("tokens_out", Values::I64(vec![1, 1])),
            ],
        ))
    };
    let times = || Values::F64(vec![0.0, 1.0]);
    assert_eq!(
        with(times(), Values::I64(vec![1, -5])),
        format!("t: row 2, column `tokens_in`: found \"-5\"; {TOKENS}")
    );
    assert_eq!(
        with(times(), Values::U64(vec![u64::MAX, 1])),
        format!("t: row 1, column `tokens_in`: found \"18446744073709551615\"; {TOKENS}")
    );
    assert_eq!(
        with(times(), Values::F64(vec![1.0, f64::NAN])),
        format!("t: row 2, column `tokens_in`: found \"NaN\"; {TOKENS}")
    );
    assert_eq!(
        with(times(), Values::MaybeF64(vec![None, Some(1.0)])),
        format!("t: row 1, column `tokens_in`: there is no value; {TOKENS}")
    );
    for bad in [f64::NAN, f64::INFINITY, -1.0] {
        let error = with(Values::F64(vec![0.0, bad]), Values::I64(vec![1, 1]));
        assert_eq!(
            error,
            format!("t: row 2, column `at_s`: found \"{bad}\"; a time in seconds, at least 0, is wanted")
        );
    }
    assert_eq!(
        with(times(), Values::Bool(vec![true, true])),
        "t: column `tokens_in`: the column's type is Boolean; whole numbers (32 or 64 bits), fractions or text is wanted"
    );
    let empty = |name| numbers(name, Values::I64(vec![]));
    let no_rows =
        parquet(parquet_bytes(&folder, vec![empty("at_s"), empty("tokens_in"), empty("tokens_out")]));
    assert!(no_rows.starts_with("t: the file has a header but no rows"), "{no_rows}");
    assert!(parquet(parquet_bytes(&folder, vec![empty("a")])).starts_with("t: no column is named for"));
}

#[test]
fn corrupt_parquet_never_brings_the_program_down() {
    let folder = Folder::new("corrupt-parquet");
    let sound = sound_parquet(&folder, 200);
    // Every byte of the file once, with all of its bits turned and with its highest one.
    for index in 4..sound.len() - 4 {
        for mask in [0xff, 0x80] {
            let mut corrupt = sound.clone();
            corrupt[index] ^= mask;
            let _ = read_trace_bytes("t", Format::Parquet, &corrupt, &Columns::default());
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_a_trace_or_an_error(text in "(at_s,tokens_in,tokens_out\n)?([0-9a-z,\"\r\n .-]{0,12}|0,1,1\n|\\PC{0,8}){0,12}") {
        let _ = read_trace_bytes("t", Format::Csv, text.as_bytes(), &Columns::default());
        let _ = read_trace_bytes("t", Format::JsonLines, text.as_bytes(), &Columns::default());
    }

    #[test]
    fn any_json_is_a_trace_or_an_error(
        lines in prop::collection::vec("\\{\"at_s\":[0-9.e+-]{1,6},\"tokens_in\":([0-9]{1,25}|\"\\PC{0,4}\"|null|\\[\\]),\"tokens_out\":1\\}?\r?", 0..6),
    ) {
        let _ = read_trace_bytes("t", Format::JsonLines, lines.join("\n").as_bytes(), &Columns::default());
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in [Format::Csv, Format::JsonLines, Format::Parquet] {
            let _ = read_trace_bytes("t", format, &bytes, &Columns::default());
        }
        let framed = [b"PAR1".as_slice(), &bytes, b"PAR1"].concat();
        let _ = read_trace_bytes("t", Format::Parquet, &framed, &Columns::default());
    }
}
