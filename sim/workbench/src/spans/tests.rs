//! The file of spans: what viewers need of it, and that nothing is lost in it.

use super::chrome::micros;
use super::read::parse;
use super::*;
use crate::inputs::open_text;
use crate::output::tests::Scratch;
use crate::run::{run, run_following, tests::MM1};
use crate::workers::Workers;
use forebay_model::Following;
use forebay_model::document::Setting;
use serde_json::Value;

fn following(spans: u32) -> Following {
    Following { spans, log: false }
}

fn followed(requests: u32, settings: &[(&str, &str)]) -> Followed {
    let settings: Vec<Setting> = settings.iter().map(|(path, value)| Setting::new(*path, *value)).collect();
    let opened = open_text("mm1", MM1, &settings).unwrap();
    let workers = Workers::new(Some(2)).unwrap();
    run_following(&opened.loaded, &workers, false, following(requests), &|_, _| ()).unwrap().followed.unwrap()
}

#[test]
fn following_requests_changes_nothing_else() {
    let opened = open_text("mm1", MM1, &[]).unwrap();
    let workers = Workers::new(Some(2)).unwrap();
    let mut plain = run(&opened.loaded, &workers, true, &|_, _| ()).unwrap();
    let mut with = run_following(&opened.loaded, &workers, true, following(20), &|_, _| ()).unwrap();
    assert_eq!(with.followed.take().unwrap().requests.len(), 20);
    assert_eq!(plain.followed, None);
    (plain.summary.wall_s, with.summary.wall_s) = (0.0, 0.0);
    assert_eq!(plain, with);
}

#[test]
fn nothing_is_lost_in_the_file() {
    let followed =
        followed(50, &[("policy.admission.entry", "{ kind = \"token_bucket\", rate_per_s = 6, burst = 2 }")]);
    let text = text(&followed);
    assert_eq!(parse(&text).unwrap(), followed);
    // Other programs may add events of their own.
    let more = text.replacen("[\n", "[\n{\"name\":\"mark\",\"ph\":\"i\",\"ts\":1},\n", 1);
    assert_eq!(parse(&more).unwrap(), followed);
    let astray = text.replacen("\"cat\":\"request\"", "\"cat\":\"span\"", 1);
    for broken in [astray, text.replace("born_ns", "b"), "{}".to_owned()] {
        assert!(parse(&broken).is_err());
    }
}

#[test]
fn viewers_find_nested_slices_on_tracks_of_their_own() {
    let followed = followed(30, &[]);
    let file: Value = serde_json::from_str(&text(&followed)).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    let mut tracks = std::collections::BTreeMap::new();
    for event in events {
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert_eq!(*tracks.entry(tid).or_insert(pid), pid, "a track belongs to one request");
        assert!(["M", "X", "i"].contains(&event["ph"].as_str().unwrap()), "{event}");
        assert!(!event["name"].as_str().unwrap().is_empty());
    }
    // As Perfetto cuts them: a slice ends before the next on its level begins, and inside its parent.
    let ns = |value: &Value| (value.as_f64().unwrap() * 1000.0) as u64;
    for tid in tracks.keys() {
        let mut open: Vec<u64> = Vec::new();
        for event in events.iter().filter(|event| event["tid"] == *tid && event["ph"] == "X") {
            let (from, to) = (ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"]));
            while open.last().is_some_and(|end| *end <= from) {
                open.pop();
            }
            assert!(open.last().is_none_or(|end| to <= *end), "{event}");
            open.push(to);
        }
    }
}

#[test]
fn microseconds_come_out_as_the_nanoseconds_they_were() {
    let mut ns = 1_u64;
    while ns < 1 << 52 {
        for near in ns.saturating_sub(50)..ns + 50 {
            assert_eq!((micros(near) * 1000.0) as u64, near);
        }
        ns += ns / 3 + 1;
    }
}

#[test]
fn a_request_is_found_or_its_neighbours_are() {
    let followed = followed(10, &[]);
    let third = followed.requests[2].request;
    assert_eq!(followed.request(third).unwrap().request, third);
    let SpansError::NotFollowed { near, followed: count, .. } = followed.request(third + 1).unwrap_err()
    else {
        panic!("it was not followed")
    };
    assert_eq!(near, [1, 2, 3, 4].map(|index: usize| followed.requests[index].request));
    assert_eq!(count, 10);
    assert!(followed.request(u64::MAX).unwrap_err().to_string().contains("the nearest are"));
}

#[test]
fn what_cannot_be_read_says_why() {
    let scratch = Scratch::new("spans");
    let said = |name: &str| read(&scratch.join(name)).unwrap_err().to_string();
    assert!(said("nowhere").contains("no such folder"));
    std::fs::create_dir(scratch.join("run")).unwrap();
    assert!(said("run").contains("--trace-requests"));
    std::fs::write(scratch.join("run").join(FILE), "[1, 2").unwrap();
    assert!(said("run").contains("cannot be read"));
    std::fs::write(scratch.join("run").join(FILE), text(&followed(3, &[]))).unwrap();
    assert_eq!(read(&scratch.join("run")).unwrap().requests.len(), 3);
}

#[test]
fn a_story_accounts_for_all_the_time() {
    let followed =
        followed(200, &[("workload.people.patience", "{ give_up_after_s = 0.4, until = \"service\" }")]);
    let mut abandoned = 0;
    for request in &followed.requests {
        let told = tell(&followed, request);
        let all_s = (request.end_ns - request.born_ns) as f64 * 1e-9;
        let sum_s: f64 = told.time.iter().map(|spent| spent.s).sum();
        assert!((sum_s - all_s).abs() < 1e-9, "{told:?}");
        assert!(told.story[0].starts_with(&format!("request {}, asked at", request.request)));
        abandoned += usize::from(told.story[1].starts_with("abandoned after 400 ms"));
    }
    assert!((10..190).contains(&abandoned), "{abandoned}");
}

#[test]
fn a_story_tells_why_and_what_it_would_have_taken() {
    let followed = followed(
        100,
        &[
            ("policy.fallback.l2.arrivals_above_per_s", "6"),
            ("policy.admission.entry", "{ kind = \"concurrency_gate\", max_at_once = 4, retry_after_s = 2 }"),
            ("telemetry.period_s", "1"),
        ],
    );
    let all: Vec<String> =
        followed.requests.iter().map(|request| tell(&followed, request).story.join("\n")).collect();
    let has = |words: &[&str]| all.iter().any(|story| words.iter().all(|word| story.contains(word)));
    // The one endpoint of this scenario has no light path.
    assert!(
        has(&[
            "on arrival: served at L2",
            "because l2.arrival_rate (fallback.l2): ",
            "threshold per s: 6",
            "a better level would have taken less than 6; it was ",
            "there is no path at L2: it takes that of L1",
            "answered at L1",
        ]),
        "{all:#?}"
    );
    assert!(
        has(&[
            "on arrival: turned away; it may try again after 2.00 s",
            "inside: 4; allowed at once: 4",
            "an answer would have taken less than 4",
            "rejected (gate.full)",
        ]),
        "{all:#?}"
    );
}
