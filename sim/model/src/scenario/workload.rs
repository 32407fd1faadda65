//! Who asks, and when: sources of arrivals, request classes, the population, and how people behave.

use super::Questions;
use crate::trace::Columns;
use forebay_engine::Dist;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who sends what, when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Sources of arrivals, side by side, by name.
    pub sources: IndexMap<String, Source>,
    /// Request classes, by name; each source draws from them by weight.
    pub classes: IndexMap<String, Class>,
    /// Sources with a mix of their own: by the source's name the weights of its classes, by name. A class
    /// that is not named there does not come from that source.
    #[serde(default)]
    pub mix: IndexMap<String, IndexMap<String, f64>>,
    /// The users.
    #[serde(default)]
    pub population: Population,
    /// What they ask, as a semantic cache sees it.
    #[serde(default)]
    pub questions: Questions,
    /// How long people wait, and whether they send again.
    #[serde(default)]
    pub people: People,
    /// Retries by client code.
    #[serde(default)]
    pub retries: Option<Retries>,
}

/// A source of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Source {
    /// Independent arrivals at a constant rate.
    Poisson {
        /// Arrivals per second.
        #[schemars(range(min = 0.0, max = 10_000_000.0))]
        rate_per_s: f64,
        /// First second of the source.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        from_s: f64,
        /// Last second of the source; absent: the run's end.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        to_s: Option<f64>,
    },
    /// Independent gaps of a given distribution.
    Renewal {
        /// Gap between two arrivals, seconds; for burstiness use `gamma` or `weibull` with its `cv`.
        gap_s: Dist,
    },
    /// Poisson arrivals whose rate follows a piecewise-linear profile: a day, or a flash crowd.
    Profile {
        /// Points `[second, arrivals per second]`, in order of time; between them the rate is linear,
        /// after the last it stays.
        #[schemars(length(min = 1))]
        points: Vec<(f64, f64)>,
        /// Repeat the profile with this period, seconds; absent: once.
        #[serde(default)]
        #[schemars(range(min = 0.001))]
        repeat_s: Option<f64>,
        /// Factor on every rate.
        #[serde(default = "one")]
        #[schemars(range(min = 0.0, max = 1_000_000.0))]
        scale: f64,
    },
    /// Many requests at once.
    Microburst {
        /// When, seconds.
        #[schemars(range(min = 0.0))]
        at_s: f64,
        /// How many requests.
        #[schemars(range(min = 1, max = 100_000_000))]
        count: u64,
        /// Spread evenly over this time, seconds; 0: all at one instant.
        #[serde(default)]
        #[schemars(range(min = 0.0))]
        within_s: f64,
        /// Again every so many seconds; absent: once.
        #[serde(default)]
        #[schemars(range(min = 0.001))]
        every_s: Option<f64>,
    },
    /// A fixed number of users who think, ask, and wait for the answer.
    ClosedLoop {
        /// Users.
        #[schemars(range(min = 1, max = 10_000_000))]
        users: u32,
        /// Time between an answer and the user's next question, seconds.
        think_s: Dist,
    },
    /// Replay of a recorded trace.
    Trace {
        /// Name of a bundled trace, or path of a file beside the scenario.
        #[schemars(length(min = 1))]
        trace: String,
        /// Time runs this much faster.
        #[serde(default = "one")]
        #[schemars(range(min = 0.000_001, max = 1_000_000.0))]
        speed: f64,
        /// Which columns of the file mean what; absent: as its header tells, if it is a known layout.
        #[serde(default)]
        columns: Option<Columns>,
    },
}

/// What one kind of request is like. Lengths are drawn per request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// The endpoint it calls; absent: the only one.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// Its share of the arrivals, relative to the other classes' weights.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0))]
    pub weight: f64,
    /// Business class: 0 for S0, the most important, to 4 for S4.
    #[serde(default = "middle_class")]
    #[schemars(range(max = 4))]
    pub business_class: u8,
    /// Characters in the question.
    #[serde(default = "no_length")]
    pub chars: Dist,
    /// Tokens in, without retrieved documents.
    #[serde(default = "one_token")]
    pub tokens_in: Dist,
    /// Tokens out.
    #[serde(default = "one_token")]
    pub tokens_out: Dist,
    /// Tokens out as the gateway estimates them; absent: the mean of `tokens_out`.
    #[serde(default)]
    #[schemars(range(max = 10_000_000))]
    pub tokens_out_estimate: Option<u32>,
    /// Turns of history sent along.
    #[serde(default = "no_length")]
    pub history_turns: Dist,
    /// Complexity of the intent as the keyword classifier rates it, in 0..=1.
    #[serde(default = "no_length")]
    pub intent_complexity: Dist,
    /// Share with an urgent keyword.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub urgent_share: f64,
    /// Share with a service keyword (return, refund, invoice).
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub service_keyword_share: f64,
    /// Share in which a word of the operator's own list of questions that must not wait is found.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub expedite_share: f64,
    /// Share that follows up on an earlier question.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub follow_up_share: f64,
    /// Share that changes something and is therefore never retried.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub write_share: f64,
    /// Share that an FAQ entry matches.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub faq_share: f64,
    /// Share that nobody asked before; the rest needs generation.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub new_share: f64,
    /// What an answer that is right and in time is worth to the business, for example the share of such
    /// questions that lead to a sale, times what a sale is worth.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1e9))]
    pub value: f64,
    /// Service time of this class at `server` stages, seconds; absent: the stage's own.
    #[serde(default)]
    pub service_s: Option<Dist>,
}

/// The users: how many, how unevenly they ask, and of which tier they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Population {
    /// Number of users.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub users: u32,
    /// Exponent of the Zipf law of their activity; 0: all ask equally often.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub activity_exponent: f64,
    /// Shares of the tiers, highest first, by name; they add up to 1. Empty: one tier.
    pub tiers: IndexMap<String, f64>,
    /// By which doors their questions come in.
    pub channels: Channels,
    /// Number of tenants, equally likely.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub tenants: u32,
}

/// Shares of the doors by which questions come in; they add up to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Channels {
    /// Share through the shop's own app.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub app: f64,
    /// Share through a mini-program inside another app.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub mini_program: f64,
    /// Share through a page in a browser.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub h5: f64,
}

impl Default for Channels {
    fn default() -> Self {
        Self { app: 0.0, mini_program: 1.0, h5: 0.0 }
    }
}

impl Default for Population {
    fn default() -> Self {
        Self {
            users: 1,
            activity_exponent: 0.0,
            tiers: IndexMap::new(),
            channels: Channels::default(),
            tenants: 1,
        }
    }
}

/// How people behave.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct People {
    /// How long people wait; absent: for ever.
    pub patience: Option<Patience>,
    /// Whether those who gave up ask again; absent: they do not.
    pub resend: Option<Resend>,
}

/// How long people wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patience {
    /// Time from asking to giving up, seconds.
    pub give_up_after_s: Dist,
    /// What ends the wait.
    #[serde(default)]
    pub until: PatienceUntil,
    /// The gateway notices that the client has gone, and stops the work; if not, the work goes on and
    /// is wasted.
    #[serde(default = "yes")]
    pub noticed: bool,
}

/// What ends a person's wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatienceUntil {
    /// The attempt is being served at its first stage.
    Service,
    /// The first token has come.
    #[default]
    FirstToken,
    /// The last token has come.
    LastToken,
}

/// People who gave up and ask again: a further attempt of the same request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resend {
    /// Probability that one who gave up asks again.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub probability: f64,
    /// After how long, seconds.
    pub after_s: Dist,
    /// At most so many times.
    #[schemars(range(min = 1, max = 100))]
    pub at_most: u8,
}

/// Retries by client code: exponential back-off with jitter; never for writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    /// At most so many retries after the first attempt.
    #[schemars(range(min = 0, max = 100))]
    pub at_most: u8,
    /// Back-off before the first retry, seconds; doubled by `factor` each time.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub base_s: f64,
    /// Growth of the back-off from one retry to the next.
    #[serde(default = "two")]
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: f64,
    /// Each back-off is lengthened by a random share of itself up to this.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub jitter_share: f64,
    /// Wait at least as long as the server's Retry-After says.
    #[serde(default = "yes")]
    pub honour_retry_after: bool,
    /// Try again also after a time-out and when an answer broke off; if not, only after a refusal, which
    /// cost the service nothing.
    #[serde(default = "yes")]
    pub after_failures: bool,
    /// Taken for the Retry-After of a refusal that has none, seconds; absent: the back-off alone counts.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_default_s: Option<f64>,
}

fn one() -> f64 {
    1.0
}
fn two() -> f64 {
    2.0
}
fn yes() -> bool {
    true
}
fn middle_class() -> u8 {
    2
}
fn no_length() -> Dist {
    Dist::Constant { value: 0.0 }
}
fn one_token() -> Dist {
    Dist::Constant { value: 1.0 }
}
