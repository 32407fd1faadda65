//! What a governor answers: on arrival, when a slot is free, at the point of a call, and on its own clock
//! ticks. Every answer but a plain "go on" or "wait" carries its [`Reason`], and outcome tables, traces and
//! exported metrics use the same codes.

use crate::{Level, Reason, Ticket};
use serde::{Deserialize, Serialize};

/// The answer to an arriving attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Arrival {
    /// Start it now at L1; it does not queue. Only a governor without a queue answers so.
    Admit,
    /// The governor holds it; [`crate::Governor::next`] hands it out when a slot is free. `class` is
    /// the index of the queue it stands in.
    Queue {
        /// Index of the queue.
        class: u8,
    },
    /// Start it now at a lower level that needs no slot of the model.
    Degrade {
        /// The level to answer at.
        level: Level,
        /// Why not at L1.
        why: Reason,
    },
    /// Turn it away.
    Reject {
        /// Who turned it away.
        why: Reason,
        /// After how many nanoseconds the client may try again, if the policy knows.
        retry_after_ns: Option<u64>,
    },
}

/// A queued attempt that is to be served now.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dispatch {
    /// Which one.
    pub ticket: Ticket,
    /// At which level.
    pub level: Level,
    /// Why at this level; [`Reason::Normal`] at L1.
    pub why: Reason,
    /// How many documents to retrieve; `None`: the endpoint's own number.
    pub top_k: Option<u16>,
}

/// The answer to "a slot is free: what is served next?".
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Next {
    /// Serve this one.
    Serve(Dispatch),
    /// This one has waited past the queue's time limit: turn it away, then ask again.
    Drop {
        /// Which one.
        ticket: Ticket,
        /// Which limit.
        why: Reason,
    },
    /// Nothing is waiting, or nothing may be served now.
    Idle,
}

/// The answer at the point of a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Call {
    /// Make the call.
    Proceed,
    /// Hold the call. Either [`crate::Governor::woken`] names it when a permit is free, or the driver
    /// calls [`crate::Governor::waited`] when `at_most_ns` have passed.
    Wait {
        /// Longest time to wait, in nanoseconds.
        at_most_ns: u64,
    },
    /// Go on without this call: keep the first `keep` results by the earlier stage's order.
    Skip {
        /// Why.
        why: Reason,
        /// Documents to keep.
        keep: u16,
    },
    /// Answer "busy"; this is not an error of the server.
    Busy {
        /// Which gate.
        why: Reason,
        /// After how many nanoseconds the client may try again, if the policy knows.
        retry_after_ns: Option<u64>,
    },
}

/// What a tick brought: changes that the feedback loops made, and alerts that they raised.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ticked {
    /// Changes, in the order in which they were made. They are already in force.
    pub commands: Vec<Command>,
    /// Alerts that began.
    pub alerts: Vec<Alert>,
}

impl Ticked {
    /// Forgets what it holds and keeps its memory.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.alerts.clear();
    }
}

/// How urgent an alert is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Somebody is woken.
    P0,
    /// Somebody looks at once.
    P1,
    /// Somebody looks today.
    P2,
}

/// An alert that began.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// Index of the rule in `feedback.alerts`.
    pub rule: u16,
    /// How urgent it is.
    pub severity: Severity,
    /// Since when the condition has held.
    pub since: crate::Moment,
    /// When it was raised.
    pub at: crate::Moment,
    /// The value that was found.
    pub found: f64,
    /// What it was compared with.
    pub threshold: f64,
}

/// A change that a feedback loop makes on a tick.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Path of the parameter that was set.
    pub parameter: String,
    /// Its new value.
    pub value: f64,
    /// Its value before; `None`: it was not set.
    pub before: Option<f64>,
    /// Why.
    pub why: Reason,
}
