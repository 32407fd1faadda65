//! The load against a small server that answers, and misbehaves, as endpoints do.

use super::{Endpoint, Key, Load, LoadError};
use crate::frames::{Values, read_parquet};
use crate::record::{Ended, Options, record};
use crate::scratch::Folder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What the server does with a request.
#[derive(Clone, Copy)]
enum Way {
    /// Tokens, with this time before each, and the count of tokens at the end or not.
    Answer { tokens: u32, every_ms: u64, usage: bool },
    /// A status and a text.
    Status(u16, &'static str),
    /// Exactly this, and the end of the connection.
    Raw(&'static str),
    /// Nothing, for long.
    Hang,
}

const STREAM: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

/// A server that does the same with every request, and sends what it got: the head and the body.
fn server(way: Way) -> (String, Receiver<(String, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (sender, requests) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let sender = sender.clone();
            // A client that is gone ends the connection and nothing else.
            std::thread::spawn(move || drop(serve(stream.unwrap(), way, &sender)));
        }
    });
    (url, requests)
}

fn serve(mut stream: TcpStream, way: Way, sender: &Sender<(String, String)>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let _ = sender.send((head, String::from_utf8(body).unwrap()));
    match way {
        Way::Answer { tokens, every_ms, usage } => {
            stream.write_all(STREAM.as_bytes())?;
            event(&mut stream, "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}")?;
            for _ in 0..tokens {
                std::thread::sleep(Duration::from_millis(every_ms));
                event(
                    &mut stream,
                    "{\"choices\":[{\"delta\":{\"content\":\"a \"},\"finish_reason\":null}]}",
                )?;
            }
            event(&mut stream, "{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}")?;
            if usage {
                event(
                    &mut stream,
                    "{\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":22}}",
                )?;
            }
            event(&mut stream, "[DONE]")?;
            stream.write_all(b"0\r\n\r\n")
        }
        Way::Status(status, text) => {
            let length = text.len();
            write!(stream, "HTTP/1.1 {status} Status\r\ncontent-length: {length}\r\n\r\n{text}")
        }
        Way::Raw(text) => stream.write_all(text.as_bytes()),
        Way::Hang => {
            std::thread::sleep(Duration::from_secs(20));
            Ok(())
        }
    }
}

fn event(stream: &mut TcpStream, data: &str) -> std::io::Result<()> {
    let event = format!("data: {data}\n\n");
    write!(stream, "{:x}\r\n{event}\r\n", event.len())?;
    stream.flush()
}

fn load(url: &str) -> Load {
    Load {
        endpoint: Endpoint::parse(url).unwrap(),
        model: "stand-in".to_owned(),
        key: Some(Key("open-sesame".to_owned())),
        concurrency: vec![1],
        tokens_in: vec![16],
        tokens_out: vec![8],
        per_step: 2,
        timeout: Duration::from_secs(10),
        ignore_eos: false,
    }
}

fn options(folder: &Folder, load: Load) -> Options {
    let script = "[[device]]\nuuid = \"GPU-0\"\nname = \"Stand-in\"\nmemory_total = 8e9\n";
    Options {
        period: Duration::from_millis(20),
        limit: Some(Duration::from_mins(1)),
        devices: Vec::new(),
        library: Some(forebay_nvml_replay::place(folder.as_ref(), script).unwrap()),
        out: folder.path("out"),
        overwrite: true,
        load: Some(load),
    }
}

/// A column of the requests.
fn column(out: &Path, name: &str) -> Values {
    let table = read_parquet(&out.join("requests.parquet")).unwrap();
    table.columns.into_iter().find(|column| column.name == name).unwrap().values
}

fn texts(out: &Path, name: &str) -> Vec<String> {
    match column(out, name) {
        Values::Str(texts) => texts,
        other => panic!("{name}: {other:?}"),
    }
}

fn numbers(out: &Path, name: &str) -> Vec<Option<f64>> {
    match column(out, name) {
        Values::U64(values) => values.into_iter().map(|value| Some(value as f64)).collect(),
        Values::F64(values) => values.into_iter().map(Some).collect(),
        Values::MaybeF64(values) => values,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_ladder_is_climbed_and_each_request_recorded() {
    let (url, requests) = server(Way::Answer { tokens: 5, every_ms: 40, usage: true });
    let folder = Folder::new("load-ladder");
    let ladder = Load { concurrency: vec![1, 3], tokens_out: vec![8, 9], per_step: 3, ..load(&url) };
    assert_eq!(ladder.requests(), 12);
    let options = options(&folder, ladder);
    let manifest = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(manifest.ended, Ended::Load);
    let report = manifest.load.unwrap();
    assert_eq!((report.requests, report.by_status.get("answered")), (12, Some(&12)), "{report:?}");
    let out = &options.out;
    assert_eq!(texts(out, "tokens_from"), vec!["usage"; 12]);
    assert_eq!(numbers(out, "tokens_in"), vec![Some(11.0); 12]);
    assert_eq!(numbers(out, "tokens_out"), vec![Some(22.0); 12]);
    assert_eq!(numbers(out, "http_status"), vec![Some(200.0); 12]);
    let steps: Vec<_> = numbers(out, "step").into_iter().flatten().map(|step| step as u32).collect();
    assert_eq!(steps, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
    let at = |name| numbers(out, name).into_iter().map(Option::unwrap);
    let times = at("sent_ns").zip(at("first_token_ns")).zip(at("last_token_ns").zip(at("end_ns")));
    for ((sent, first), (last, end)) in times {
        // The first token comes 40 ms after the head of the answer, and the last one 160 ms after the first; a
        // busy machine may see the first one late.
        assert!(first - sent >= 39e6 && last - first >= 100e6 && end >= last, "{sent} {first} {last} {end}");
    }
    for gap in at("gap_p50_s") {
        assert!((0.01..0.4).contains(&gap), "{gap}");
    }
    // Three at once: each of those steps takes about a third of the time.
    let sent: Vec<f64> = at("sent_ns").collect();
    assert!(sent[5] - sent[3] < 0.5 * (sent[2] - sent[0]), "{sent:?}");

    let (head, body) = requests.recv().unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1"), "{head}");
    assert!(head.to_ascii_lowercase().contains("authorization: bearer open-sesame"), "{head}");
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["stream"], &body["max_tokens"]), (&true.into(), &8.into()));
    assert_eq!(body["messages"][0]["content"].as_str().unwrap().split(' ').count(), 16);
    assert!(body.get("ignore_eos").is_none());
    for entry in std::fs::read_dir(out).unwrap() {
        let content = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!content.windows(11).any(|window| window == b"open-sesame"), "the key was written down");
    }
}

#[test]
fn tokens_are_counted_by_pieces_where_the_endpoint_does_not_count() {
    let (url, _requests) = server(Way::Answer { tokens: 4, every_ms: 1, usage: false });
    let folder = Folder::new("load-pieces");
    let options = options(&folder, load(&url));
    record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(texts(&options.out, "tokens_from"), ["chunks", "chunks"]);
    assert_eq!(numbers(&options.out, "tokens_out"), [Some(4.0), Some(4.0)]);
    assert_eq!(numbers(&options.out, "tokens_in"), [None, None]);
}

#[test]
fn endpoints_that_misbehave_are_recorded_as_what_they_are() {
    let broken = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n31\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n\n\n\r\n";
    let failed =
        "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    let html = "HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n<html>hello</html>\n\n";
    for (n, (way, status, error)) in [
        (Way::Status(429, "{\"error\": \"slow\ndown\"}"), "http", "429: {\"error\": \"slow down\"}"),
        (Way::Status(307, ""), "http", "307"),
        (Way::Hang, "timeout", "timeout"),
        (Way::Raw(""), "broken", ""),
        (Way::Raw(broken), "broken", ""),
        (Way::Raw(failed), "failed", "out of memory"),
        (Way::Raw(html), "rubbish", "no stream of events"),
        (Way::Raw("HTTP/1.1 200 OK\r\n\r\ndata: {nonsense\n\n"), "rubbish", "{nonsense"),
        (Way::Raw("SSH-2.0-OpenSSH\r\n\r\n"), "rubbish", ""),
        (Way::Raw("HTTP/1.1 200 OK\r\n\r\ndata: [DONE]\n\n"), "empty", "no token"),
    ]
    .into_iter()
    .enumerate()
    {
        let (url, _requests) = server(way);
        let folder = Folder::new(&format!("load-misbehaves-{n}"));
        let load = Load { per_step: 1, timeout: Duration::from_millis(700), ..load(&url) };
        let options = options(&folder, load);
        let manifest = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
        assert_eq!(manifest.ended, Ended::Load);
        let (statuses, errors) = (texts(&options.out, "status"), texts(&options.out, "error"));
        assert_eq!(statuses, [status], "case {n}: {errors:?}");
        assert!(errors[0].contains(error), "case {n}: {errors:?}");
    }
}

#[test]
fn bytes_that_are_no_http_end_the_request_and_nothing_else() {
    for (n, raw) in [
        "\0\u{1}\u{fffd}",
        "HTTP/1.1 99999 x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n\u{1}\u{2}",
        "HTTP/1.1 302 Found\r\nlocation: ://\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let (url, _requests) = server(Way::Raw(raw));
        let folder = Folder::new(&format!("load-no-http-{n}"));
        let load = Load { per_step: 1, timeout: Duration::from_millis(700), ..load(&url) };
        let options = options(&folder, load);
        let manifest = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
        assert_eq!((manifest.ended, manifest.load.unwrap().broken_off), (Ended::Load, None), "case {n}");
        let status = &texts(&options.out, "status")[0];
        assert!(["rubbish", "broken", "timeout", "http"].contains(&status.as_str()), "case {n}: {status}");
    }
}

#[test]
fn nobody_at_the_address_is_a_refusal() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let folder = Folder::new("load-nobody");
    let options = options(&folder, load(&format!("http://{free}/v1")));
    let manifest = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(manifest.load.unwrap().by_status.get("refused"), Some(&2));
}

#[test]
fn requests_under_way_at_the_end_are_told_as_interrupted() {
    let (url, _requests) = server(Way::Hang);
    let folder = Folder::new("load-interrupted");
    let mut options = options(&folder, Load { concurrency: vec![2], ..load(&url) });
    options.limit = Some(Duration::from_millis(200));
    let manifest = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap();
    assert_eq!(manifest.ended, Ended::Time);
    assert_eq!(texts(&options.out, "status"), ["interrupted", "interrupted"]);
    assert!(manifest.duration_s < 5.0);
}

#[test]
fn loads_that_make_no_sense_are_refused() {
    let load = load("http://localhost/v1");
    for wrong in [
        Load { concurrency: Vec::new(), ..load.clone() },
        Load { concurrency: vec![1, 0], ..load.clone() },
        Load { tokens_in: vec![2_000_000], ..load.clone() },
        Load { per_step: 0, ..load.clone() },
    ] {
        assert!(matches!(wrong.check(), Err(LoadError::Range { .. })), "{wrong:?}");
    }
    assert_eq!(load.check(), Ok(()));
    assert!(!format!("{load:?}").contains("sesame"));
    let missing = Key::from_environment("FOREBAY_NO_SUCH_KEY").unwrap_err();
    assert!(missing.to_string().contains("FOREBAY_NO_SUCH_KEY"));
}
