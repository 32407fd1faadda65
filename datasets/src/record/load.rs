//! The load: an endpoint that speaks OpenAI's interface is led up a ladder of concurrency and lengths, and
//! each request is recorded.
//!
//! A step is a number of requests at once (each place sends its next request when its last one has ended), a
//! length of the prompt and a length of the answer. Answers are streamed, over HTTP/1.1, each on a connection
//! of its own, so that none fails because another one left its connection half closed. An endpoint that
//! refuses, hangs, breaks off or sends rubbish is an outcome like others, and is recorded as what it is.
//!
//! Rejected: TLS. An endpoint under load stands on the same network, a proxy can speak TLS where it does not,
//! and the libraries for it would weigh more than the rest of the recorder.

mod answer;
mod endpoint;
mod exchange;
mod prompt;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub(super) use exchange::{Begun, Exchange, Status};

use super::clock::Clock;
use super::manifest::LoadReport;
use super::session::Event;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Most requests at once.
pub const MOST_AT_ONCE: u32 = 1024;
/// Most tokens of a prompt or an answer.
pub const MOST_TOKENS: u32 = 1_000_000;
/// Most requests in a step.
pub const MOST_PER_STEP: u32 = 100_000;
/// Longest time to connect.
const CONNECT: Duration = Duration::from_secs(10);

/// What to send, where, and how many at once.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to.
    pub endpoint: Endpoint,
    /// Model to ask for.
    pub model: String,
    /// What the endpoint wants to see before it answers.
    pub key: Option<Key>,
    /// Requests at once, of each step.
    pub concurrency: Vec<u32>,
    /// Tokens of the prompt, of each step.
    pub tokens_in: Vec<u32>,
    /// Most tokens of the answer, of each step.
    pub tokens_out: Vec<u32>,
    /// Requests of each step.
    pub per_step: u32,
    /// Longest time for one request.
    pub timeout: Duration,
    /// Whether the endpoint is told to go on to the length asked for, past the answer's end. Not all know it.
    pub ignore_eos: bool,
}

/// A key. It shows nowhere.
#[derive(Clone)]
pub struct Key(String);

impl Key {
    /// The value of an environment variable.
    ///
    /// # Errors
    /// [`LoadError`]: it is not set, or empty.
    pub fn from_environment(variable: &str) -> Result<Self, LoadError> {
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Ok(Self(key.trim().to_owned())),
            _ => Err(LoadError::NoKey(variable.to_owned())),
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// Why a load cannot be sent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The address is none.
    #[error("`{url}` is no address of an endpoint ({reason}); such is http://localhost:8000/v1")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// TLS is not spoken here.
    #[error(
        "`{0}`: https is not spoken here; give an http address of the endpoint, or of a proxy in front of it"
    )]
    Tls(String),
    /// The key is not there.
    #[error("the environment variable {0}, which is to hold the endpoint's key, is not set or is empty")]
    NoKey(String),
    /// A list is empty or a number out of range.
    #[error("{what}: {value} is not within 1 to {most}")]
    Range {
        /// What.
        what: &'static str,
        /// What was given.
        value: String,
        /// Most that may be.
        most: u32,
    },
}

/// One step of the ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) number: u32,
    pub(super) concurrency: u32,
    pub(super) tokens_in: u32,
    pub(super) tokens_out: u32,
}

/// Tells that the load is through, also when a thread of it fell: the recording would wait for ever.
struct End<'e> {
    events: &'e Sender<Event>,
    broken_off: Option<String>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        // A recording that is over listens no more.
        let _ = self.events.send(Event::LoadDone(self.broken_off.take()));
    }
}

impl Load {
    /// Checks the lists and numbers.
    ///
    /// # Errors
    /// [`LoadError::Range`].
    pub fn check(&self) -> Result<(), LoadError> {
        let lists = [
            ("requests at once", &self.concurrency, MOST_AT_ONCE),
            ("tokens in", &self.tokens_in, MOST_TOKENS),
            ("tokens out", &self.tokens_out, MOST_TOKENS),
        ];
        for (what, list, most) in lists {
            if list.is_empty() {
                return Err(LoadError::Range { what, value: "an empty list".to_owned(), most });
            }
            if let Some(value) = list.iter().find(|value| !(1..=most).contains(*value)) {
                return Err(LoadError::Range { what, value: value.to_string(), most });
            }
        }
        if !(1..=MOST_PER_STEP).contains(&self.per_step) {
            let value = self.per_step.to_string();
            return Err(LoadError::Range { what: "requests per step", value, most: MOST_PER_STEP });
        }
        Ok(())
    }

    /// Requests in all.
    pub fn requests(&self) -> u64 {
        self.ladder().len() as u64 * u64::from(self.per_step)
    }

    /// The steps: for each length of prompt and answer, up the concurrency.
    pub(super) fn ladder(&self) -> Vec<Step> {
        let lengths = self.tokens_in.iter().flat_map(|i| self.tokens_out.iter().map(move |o| (*i, *o)));
        let steps = lengths.flat_map(|(tokens_in, tokens_out)| {
            self.concurrency.iter().map(move |concurrency| (tokens_in, tokens_out, *concurrency))
        });
        let step = |(number, (tokens_in, tokens_out, concurrency))| Step {
            number,
            concurrency,
            tokens_in,
            tokens_out,
        };
        (0..).zip(steps).map(step).collect()
    }

    /// Climbs the ladder.
    pub(super) fn run(&self, clock: Clock, halt: &AtomicBool, events: &Sender<Event>) {
        let agent = self.agent();
        let mut end = End { events, broken_off: Some("a request failed in a way not foreseen".to_owned()) };
        let mut broken_off = None;
        for step in self.ladder() {
            if halt.load(Ordering::Relaxed) || broken_off.is_some() {
                break;
            }
            let next = AtomicU32::new(0);
            let place = || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= self.per_step || halt.load(Ordering::Relaxed) {
                        break;
                    }
                    let request = u64::from(step.number) * u64::from(self.per_step) + u64::from(number);
                    let sending = exchange::Sending { load: self, agent: &agent, clock, halt };
                    let told = |begun: &Begun| drop(events.send(Event::Begun(begun.clone())));
                    let ended = sending.send(request, step, told);
                    if events.send(Event::Exchange(Box::new(ended))).is_err() {
                        break;
                    }
                }
            };
            std::thread::scope(|scope| {
                for _ in 0..step.concurrency.min(self.per_step) {
                    if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, place) {
                        // A step with fewer at once than it says would be a lie: no more is sent.
                        broken_off = Some(format!("step {}: no thread more: {error}", step.number));
                        next.store(self.per_step, Ordering::Relaxed);
                        break;
                    }
                }
            });
        }
        end.broken_off = broken_off;
    }

    fn agent(&self) -> ureq::Agent {
        ureq::Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_idle_connections(0)
            // What is measured is the endpoint, and no proxy that the environment names.
            .proxy(None)
            .timeout_connect(Some(CONNECT.min(self.timeout)))
            .timeout_global(Some(self.timeout))
            .user_agent(concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent()
    }

    /// What the manifest says of it.
    pub(super) fn report(&self, statuses: &BTreeMap<Status, u64>, broken_off: Option<String>) -> LoadReport {
        LoadReport {
            url: self.endpoint.public(),
            model: self.model.clone(),
            concurrency: self.concurrency.clone(),
            tokens_in: self.tokens_in.clone(),
            tokens_out: self.tokens_out.clone(),
            per_step: self.per_step,
            timeout_s: self.timeout.as_secs_f64(),
            requests: statuses.values().sum(),
            by_status: statuses.iter().map(|(status, count)| (status.word(), *count)).collect(),
            broken_off,
        }
    }
}
