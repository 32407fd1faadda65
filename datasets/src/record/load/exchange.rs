//! One request and its answer, and the table of them.

use super::answer::{Answer, End, quoted};
use super::prompt::prompt;
use super::{Load, Step};
use crate::frames::{Table, TableColumn, Values};
use crate::record::clock::{Clock, Moment};
use serde_json::json;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// The answer came whole.
    Answered,
    /// It came whole and held no token.
    Empty,
    /// Nobody took the connection.
    Refused,
    /// Another status than 200.
    Http,
    /// The endpoint said in the stream that it failed.
    Failed,
    /// It took too long.
    Timeout,
    /// The stream ended before its end.
    Broken,
    /// What came is no answer.
    Rubbish,
    /// The recording was over before.
    Interrupted,
}

impl Status {
    /// The word in the table.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Empty => "empty",
            Self::Refused => "refused",
            Self::Http => "http",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Broken => "broken",
            Self::Rubbish => "rubbish",
            Self::Interrupted => "interrupted",
        }
    }
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Begun {
    /// Its number, from 0.
    pub(crate) request: u64,
    pub(crate) step: Step,
    pub(crate) moment: Moment,
}

impl Begun {
    /// Its end, where the recording did not wait for it.
    pub(crate) fn interrupted(self, now_ns: u64) -> Exchange {
        let why = "the recording ended before it did".to_owned();
        Exchange::new(self, &Answer::default(), now_ns, None, Status::Interrupted, why)
    }
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) begun: Begun,
    pub(crate) status: Status,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    end_ns: u64,
    gaps_s: Option<(f64, f64, f64)>,
    tokens_in: Option<u64>,
    tokens_out: u64,
    /// Who counted them: the endpoint (`usage`), or we the pieces of the stream (`chunks`); nobody, where none came.
    tokens_from: &'static str,
    http: Option<u16>,
    error: String,
}

/// What is needed to send one.
pub(super) struct Sending<'l> {
    pub(super) load: &'l Load,
    pub(super) agent: &'l ureq::Agent,
    pub(super) clock: Clock,
    pub(super) halt: &'l AtomicBool,
}

impl Sending<'_> {
    /// Sends it and reads to its end, whatever that is. The body is made before the moment is taken.
    pub(super) fn send(&self, request: u64, step: Step, sent: impl FnOnce(&Begun)) -> Exchange {
        let body = self.body(request, step).to_string();
        let mut post = self.agent.post(self.load.endpoint.url());
        post = post.header("content-type", "application/json").header("accept", "text/event-stream");
        if let Some(key) = &self.load.key {
            post = post.header("authorization", format!("Bearer {}", key.0));
        }
        let begun = Begun { request, step, moment: self.clock.moment() };
        sent(&begun);
        let mut answer = Answer::default();
        let (status, http, error) = match post.send(body) {
            Err(error) => {
                let (status, error) = told(&error);
                (status, None, error)
            }
            Ok(mut response) => {
                let http = response.status().as_u16();
                let mut body = response.body_mut().as_reader();
                let (status, error) = if http == 200 {
                    self.read(&mut body, &mut answer)
                } else {
                    (Status::Http, format!("{http}: {}", quoted(&beginning(&mut body))))
                };
                (status, Some(http), error)
            }
        };
        Exchange::new(begun, &answer, self.clock.now_ns(), http, status, error)
    }

    fn body(&self, request: u64, step: Step) -> serde_json::Value {
        let text = prompt(request, step.tokens_in);
        let mut body = json!({
            "model": self.load.model,
            "max_tokens": step.tokens_out,
            "temperature": 0,
            "stream": true,
            "stream_options": { "include_usage": true },
        });
        if self.load.endpoint.is_chat() {
            body["messages"] = json!([{ "role": "user", "content": text }]);
        } else {
            body["prompt"] = text.into();
        }
        if self.load.ignore_eos {
            body["ignore_eos"] = true.into();
        }
        body
    }

    fn read(&self, body: &mut impl Read, answer: &mut Answer) -> (Status, String) {
        let mut piece = [0; 16_384];
        let end = loop {
            if self.halt.load(Ordering::Relaxed) {
                return (Status::Interrupted, "the recording ended before it did".to_owned());
            }
            match body.read(&mut piece) {
                Ok(0) => break answer.ended(self.clock.now_ns()),
                Ok(length) => {
                    if let Some(end) = answer.feed(&piece[..length], self.clock.now_ns()) {
                        break end;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // An error in the middle is a break, unless it is the time that is over.
                    let error = ureq::Error::from(error);
                    return match told(&error) {
                        (Status::Timeout, why) => (Status::Timeout, why),
                        (_, why) => (Status::Broken, why),
                    };
                }
            }
        };
        match end {
            End::Complete => (Status::Answered, String::new()),
            End::Empty => (Status::Empty, "the answer holds no token".to_owned()),
            End::BrokenOff(why) => (Status::Broken, why),
            End::Failed(why) => (Status::Failed, why),
            End::Rubbish(why) => (Status::Rubbish, why),
        }
    }
}

/// What an error of the client means here.
fn told(error: &ureq::Error) -> (Status, String) {
    use std::io::ErrorKind;
    let status = match error {
        ureq::Error::Timeout(_) => Status::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Status::Refused,
        ureq::Error::Io(error) => match error.kind() {
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Status::Timeout,
            ErrorKind::ConnectionRefused
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
            | ErrorKind::AddrNotAvailable => Status::Refused,
            _ => Status::Broken,
        },
        _ => Status::Rubbish,
    };
    (status, quoted(error.to_string().as_bytes()))
}

/// The first bytes of a body, as far as they can be read.
fn beginning(body: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = body.take(1024).read_to_end(&mut bytes);
    bytes
}

impl Exchange {
    fn new(
        begun: Begun,
        answer: &Answer,
        end_ns: u64,
        http: Option<u16>,
        status: Status,
        error: String,
    ) -> Self {
        Self {
            begun,
            status,
            first_ns: answer.first_ns,
            last_ns: answer.last_ns,
            end_ns,
            gaps_s: answer.gaps_s(),
            tokens_in: answer.usage.map(|(tokens_in, _)| tokens_in),
            tokens_out: answer.usage.map_or(answer.chunks, |(_, tokens_out)| tokens_out),
            tokens_from: match answer {
                Answer { usage: Some(_), .. } => "usage",
                Answer { chunks: 0, .. } => "",
                Answer { .. } => "chunks",
            },
            http,
            error,
        }
    }

    /// The table of requests; times are those of the recording's clock.
    pub(crate) fn table(rows: &[Self]) -> Table {
        let whole = |of: fn(&Self) -> u64| Values::U64(rows.iter().map(of).collect());
        let maybe = |of: fn(&Self) -> Option<f64>| Values::MaybeF64(rows.iter().map(of).collect());
        let text = |of: fn(&Self) -> &str| Values::Str(rows.iter().map(|row| of(row).to_owned()).collect());
        let column = TableColumn::new;
        Table {
            columns: vec![
                column("request", "", whole(|row| row.begun.request)),
                column("step", "", whole(|row| u64::from(row.begun.step.number))),
                column("concurrency", "", whole(|row| u64::from(row.begun.step.concurrency))),
                column("tokens_in_asked", "", whole(|row| u64::from(row.begun.step.tokens_in))),
                column("tokens_out_asked", "", whole(|row| u64::from(row.begun.step.tokens_out))),
                column("sent_ns", "ns", whole(|row| row.begun.moment.t_ns)),
                column("sent_wall_ns", "ns", whole(|row| row.begun.moment.wall_ns)),
                column("first_token_ns", "ns", maybe(|row| row.first_ns.map(|ns| ns as f64))),
                column("last_token_ns", "ns", maybe(|row| row.last_ns.map(|ns| ns as f64))),
                column("end_ns", "ns", whole(|row| row.end_ns)),
                column("gap_mean_s", "s", maybe(|row| row.gaps_s.map(|gaps| gaps.0))),
                column("gap_p50_s", "s", maybe(|row| row.gaps_s.map(|gaps| gaps.1))),
                column("gap_max_s", "s", maybe(|row| row.gaps_s.map(|gaps| gaps.2))),
                column("tokens_in", "", maybe(|row| row.tokens_in.map(|tokens| tokens as f64))),
                column("tokens_out", "", whole(|row| row.tokens_out)),
                column("tokens_from", "", text(|row| row.tokens_from)),
                column("status", "", text(|row| row.status.word())),
                column("http_status", "", maybe(|row| row.http.map(f64::from))),
                column("error", "", text(|row| &row.error)),
            ],
        }
    }
}
