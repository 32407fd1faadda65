//! Chrome's trace event format: a process for each request, with a track for the request and one for each
//! attempt; spans are complete events, decisions and notes are instants. The arguments of an event are its
//! record.
//!
//! Times are microseconds in doubles there, and Perfetto cuts what is below a nanosecond. A double a little
//! too small would come out a nanosecond early, overlap its neighbour and be dropped, so each is the least
//! double that comes out right.

use super::Followed;
use forebay_model::spans::{Answer, AttemptSpans, Decision, Note, PlaceKind, PlaceSpan, RequestSpans};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;

/// Categories of events with a record in their arguments.
pub(super) const REQUEST: &str = "request";
pub(super) const ATTEMPT: &str = "attempt";
pub(super) const SPAN: &str = "span";
pub(super) const DECISION: &str = "decision";
pub(super) const NOTE: &str = "note";

/// The text of `spans.json`: one event a line.
pub fn text(followed: &Followed) -> String {
    let origin = record(&followed.origin);
    let out = format!("{{\"displayTimeUnit\":\"ms\",\"otherData\":{origin},\"traceEvents\":[");
    let mut events = Events { out, any: false, tracks: followed.requests.len() };
    for (index, request) in followed.requests.iter().enumerate() {
        events.request(index, request);
    }
    events.out.push_str("\n]}\n");
    events.out
}

/// A place in the picture.
#[derive(Clone, Copy)]
struct Track {
    pid: usize,
    tid: usize,
}

struct Events {
    out: String,
    any: bool,
    /// Numbers of tracks in use. Each is used once in the file: some viewers know tracks by it alone.
    tracks: usize,
}

impl Events {
    fn push(&mut self, event: &Value) {
        // Writing to a text does not fail.
        let _ = write!(self.out, "{}{event}", if self.any { ",\n" } else { "\n" });
        self.any = true;
    }

    fn request(&mut self, index: usize, request: &RequestSpans) {
        let pid = index + 1;
        let who = request.tier.as_ref().map(|tier| format!(", {tier}")).unwrap_or_default();
        let name = format!("request {}: {}{who}, {}", request.request, request.class, request.outcome);
        let track = self.track(pid, "request");
        self.push(&named("process_name", track, &name));
        self.push(&json!({
            "name": "process_sort_index", "ph": "M", "pid": pid, "tid": track.tid, "args": { "sort_index": index },
        }));
        let args = without(record(request), &["attempts"]);
        let (from, to) = (request.born_ns, request.end_ns);
        self.complete(track, REQUEST, &request.outcome.to_string(), (from, to), &args);
        for attempt in &request.attempts {
            self.attempt(pid, attempt);
        }
    }

    fn attempt(&mut self, pid: usize, attempt: &AttemptSpans) {
        let track = self.track(pid, &format!("attempt {}", attempt.attempt));
        let args = without(record(attempt), &["spans", "decisions", "notes"]);
        let name = format!("attempt {}: {}", attempt.attempt, attempt.outcome);
        self.complete(track, ATTEMPT, &name, (attempt.sent_ns, attempt.end_ns), &args);
        for span in &attempt.spans {
            self.complete(track, SPAN, &span_name(span), (span.from_ns, span.to_ns), &record(span));
        }
        for decision in &attempt.decisions {
            self.instant(track, DECISION, &decision_name(decision), decision.at_ns, &record(decision));
        }
        for note in &attempt.notes {
            let Note { at_ns, what } = note;
            self.instant(track, NOTE, what, *at_ns, &record(note));
        }
    }

    fn track(&mut self, pid: usize, name: &str) -> Track {
        self.tracks += 1;
        let track = Track { pid, tid: self.tracks };
        self.push(&named("thread_name", track, name));
        track
    }

    fn complete(&mut self, track: Track, cat: &str, name: &str, (from, to): (u64, u64), args: &Value) {
        self.push(&json!({
            "name": name, "cat": cat, "ph": "X", "ts": micros(from), "dur": micros(to - from),
            "pid": track.pid, "tid": track.tid, "args": args,
        }));
    }

    fn instant(&mut self, track: Track, cat: &str, name: &str, at: u64, args: &Value) {
        self.push(&json!({
            "name": name, "cat": cat, "ph": "i", "s": "t", "ts": micros(at),
            "pid": track.pid, "tid": track.tid, "args": args,
        }));
    }
}

fn named(what: &str, track: Track, name: &str) -> Value {
    json!({ "name": what, "ph": "M", "pid": track.pid, "tid": track.tid, "args": { "name": name } })
}

fn record(value: &impl Serialize) -> Value {
    // Records have string keys and no failing serialiser.
    serde_json::to_value(value).unwrap_or_default()
}

fn without(mut record: Value, fields: &[&str]) -> Value {
    if let Value::Object(map) = &mut record {
        map.retain(|key, _| !fields.contains(&key.as_str()));
    }
    record
}

/// What a span is called in the picture.
fn span_name(span: &PlaceSpan) -> String {
    let place = &span.place;
    match span.kind {
        PlaceKind::Backoff => "backoff".to_owned(),
        PlaceKind::Ingress => "ingress".to_owned(),
        PlaceKind::Queue => format!("queue {place}"),
        PlaceKind::Gate => format!("gate {place}"),
        PlaceKind::Waiting => format!("{place}: waiting"),
        PlaceKind::Serving => format!("{place}: serving"),
    }
}

fn decision_name(decision: &Decision) -> String {
    let answer = match decision.answer {
        Answer::Serve => decision.level.map_or("serve".to_owned(), |l| format!("serve at {}", l.name())),
        Answer::Queue => "queue".to_owned(),
        Answer::Reject => "reject".to_owned(),
        Answer::Proceed => "proceed".to_owned(),
        Answer::Wait => "wait".to_owned(),
        Answer::Skip => "skip".to_owned(),
        Answer::Busy => "busy".to_owned(),
    };
    format!("{answer}: {}", decision.reason)
}

/// The least double whose thousandfold, cut to whole nanoseconds, is this many.
pub(super) fn micros(ns: u64) -> f64 {
    let mut micros = ns as f64 / 1000.0;
    while ((micros * 1000.0) as u64) < ns {
        micros = micros.next_up();
    }
    micros
}
