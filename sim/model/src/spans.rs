//! Spans: where single requests were, from birth to end, and what the policies decided about them.
//!
//! A run that is asked for spans follows some of its requests, evenly spread over all births, and
//! gives a [`RequestSpans`] for each: its attempts, for each attempt one span after the other without a
//! gap (on the way, in a queue, held at a gate, waiting and served at a stage), and every decision of
//! the governor with the comparison behind it. Times are whole nanoseconds, so the spans of an attempt
//! add up to its length, and those that the person waited for to the request's latency, exactly.
//!
//! The service tells the recorder of what happens anyway and takes nothing back: outcomes and digest are
//! those of a run without spans. A run that is not asked for any pays one branch where it would tell.
//!
//! Following the log of all events instead, and putting the story together afterwards, was rejected: it
//! needs memory for every event of the run, and the comparison behind a decision is gone by then.

mod names;
mod recorder;
mod stride;
#[cfg(test)]
mod tests;

pub(crate) use names::Names;
pub(crate) use recorder::{Place, Recorder, Spans};

use forebay_policies::{Explanation, Level, Reason, Site};
use serde::{Deserialize, Serialize};

/// One request, from birth to end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestSpans {
    /// How many requests were born before it in its run: its name.
    pub request: u64,
    /// When it was asked.
    pub born_ns: u64,
    /// When it had its end for the person who asked.
    pub end_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// When the first token of its answer came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_token_ns: Option<u64>,
    /// Of an answer: it was right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right: Option<bool>,
    /// Of an answer: it came within the time that counts as good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_time: Option<bool>,
    /// It was born during the warm-up, and counts in the ledger alone.
    pub in_warm_up: bool,
    /// Request class.
    pub class: String,
    /// Business class: 0 for S0, the most important, to 4 for S4.
    pub business_class: u8,
    /// Tier of the user, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Endpoint.
    pub endpoint: String,
    /// Tenant.
    pub tenant: u32,
    /// User.
    pub user: u64,
    /// Tokens of the question.
    pub tokens_in: u32,
    /// Tokens of a full answer.
    pub tokens_out: u32,
    /// Its attempts, in order.
    #[serde(default)]
    pub attempts: Vec<AttemptSpans>,
}

impl RequestSpans {
    /// What must hold of spans: those of an attempt follow one another without gap or overlap from sending
    /// to end, the attempts that the person waited for do so from birth to end, and every decision and note
    /// is of its attempt's time.
    ///
    /// # Errors
    /// What does not hold, and where.
    pub fn check(&self) -> Result<(), String> {
        let mut at_ns = self.born_ns;
        for attempt in &self.attempts {
            let wrong = |what: &str| {
                Err(format!("request {}, attempt {}: {what} ({attempt:?})", self.request, attempt.attempt))
            };
            if attempt.sent_ns != at_ns {
                return wrong(&format!("it is sent at {} ns, not at {at_ns} ns", attempt.sent_ns));
            }
            let mut here_ns = attempt.sent_ns;
            for span in &attempt.spans {
                if span.from_ns != here_ns || span.to_ns < here_ns {
                    return wrong(&format!("the span in `{}` does not begin at {here_ns} ns", span.place));
                }
                here_ns = span.to_ns;
            }
            if here_ns != attempt.end_ns {
                return wrong(&format!("its spans end at {here_ns} ns"));
            }
            at_ns = attempt.waited_until_ns();
            if at_ns > attempt.end_ns {
                return wrong("the person leaves after its end");
            }
            let decided = attempt.decisions.iter().map(|decision| decision.at_ns);
            let mut moments = decided.chain(attempt.notes.iter().map(|note| note.at_ns));
            if let Some(at) = moments.find(|at| !(attempt.sent_ns..=attempt.end_ns).contains(at)) {
                return wrong(&format!("a decision or note at {at} ns is outside of it"));
            }
        }
        if at_ns != self.end_ns {
            return Err(format!(
                "request {}: it ends at {} ns, its attempts at {at_ns} ns",
                self.request, self.end_ns
            ));
        }
        Ok(())
    }
}

/// One try to have a request answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpans {
    /// 1 for the first.
    pub attempt: u32,
    /// When it was sent, or was bound to be: a pause before it is its own first span.
    pub sent_ns: u64,
    /// When it was over.
    pub end_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The level whose path it took; none when it was never served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// When the person left without anybody noticing; the work went on for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_ns: Option<u64>,
    /// Where it was, without gaps; what took no time at all is left out.
    #[serde(default)]
    pub spans: Vec<PlaceSpan>,
    /// What the policies decided, in order.
    #[serde(default)]
    pub decisions: Vec<Decision>,
    /// What else happened to it.
    #[serde(default)]
    pub notes: Vec<Note>,
}

impl AttemptSpans {
    /// When the person stopped waiting for this attempt.
    pub fn waited_until_ns(&self) -> u64 {
        self.left_ns.unwrap_or(self.end_ns)
    }
}

/// Time in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSpan {
    /// What it did there.
    pub kind: PlaceKind,
    /// Name of the queue, of the site of the gate, or of the stage; empty on the way.
    pub place: String,
    /// At a gate: the module that held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Replica or GPU that served it, where a stage has several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<u32>,
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
}

impl PlaceSpan {
    /// How long.
    pub fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}

/// What an attempt does in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlaceKind {
    /// The client pauses before it tries again.
    Backoff,
    /// On the way to the gateway.
    Ingress,
    /// Waits in a queue of the governor.
    Queue,
    /// Held at a gate.
    Gate,
    /// Waits in a stage's own queue.
    Waiting,
    /// Served at a stage.
    Serving,
}

/// One decision about an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at_ns: u64,
    /// What was asked about.
    pub asked: Asked,
    /// The answer.
    pub answer: Answer,
    /// Its reason.
    pub reason: Reason,
    /// The rule behind it, what it found, and its threshold, as they were at that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Level at which it is served; of one that queues, none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Documents that it has or is to fetch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<u16>,
    /// Tokens of its prompt with these documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
    /// The queue it was put into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Of a call that is held: the longest wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_at_most_ns: Option<u64>,
    /// Of one turned away: after how long the client may try again, if the policy knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ns: Option<u64>,
}

/// What a decision was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// An attempt that has reached the gateway.
    Arrival,
    /// One in the queue: it is its turn, or it has waited too long.
    Turn,
    /// A call, after retrieval.
    AfterRetrieval,
    /// A rerank call.
    RerankCall,
    /// A model call.
    LlmCall,
}

impl Asked {
    pub(crate) fn at(site: Site) -> Self {
        match site {
            Site::Front => Self::Arrival,
            Site::AfterRetrieval => Self::AfterRetrieval,
            Site::RerankCall => Self::RerankCall,
            Site::LlmCall => Self::LlmCall,
        }
    }

    /// Its name in files.
    pub fn code(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Turn => "turn",
            Self::AfterRetrieval => "after_retrieval",
            Self::RerankCall => "rerank_call",
            Self::LlmCall => "llm_call",
        }
    }
}

/// What a policy answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Serve it now.
    Serve,
    /// Put it into a queue.
    Queue,
    /// Turn it away.
    Reject,
    /// Make the call.
    Proceed,
    /// Hold the call.
    Wait,
    /// Go on without the call.
    Skip,
    /// Answer "busy".
    Busy,
}

/// Something that happened to an attempt and was nobody's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// When.
    pub at_ns: u64,
    /// What, as a code.
    pub what: String,
}

/// How an attempt or a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// How.
    pub how: How,
    /// The level at which it was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Who turned it away or what broke, with the codes of the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Ways to end, as the ledger counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Answered, or handed over at L4.
    Answered,
    /// Turned away.
    Rejected,
    /// Cut off by a time limit.
    TimedOut,
    /// Given up by the person.
    Abandoned,
    /// Broken.
    Failed,
    /// Not over when the run stopped.
    InFlight,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.how {
            How::Answered => "answered",
            How::Rejected => "rejected",
            How::TimedOut => "timed out",
            How::Abandoned => "abandoned",
            How::Failed => "failed",
            How::InFlight => "in flight at the end of the run",
        })?;
        if let Some(level) = self.level {
            write!(f, " at {}", level.name().to_uppercase())?;
        }
        self.why.as_ref().map_or(Ok(()), |why| write!(f, " ({why})"))
    }
}
