//! What a gateway knows, and so all that a policy may see: of a request on arrival, of a call when it
//! is made, of a call when it has ended; and what all modules count by, the classes and the cost.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The driver's own handle of an attempt; unique among the attempts in flight.
///
/// The low 32 bits are a small index that the driver uses again when an attempt is over (a governor
/// keeps an array as long as the largest), the high 32 bits a generation that tells its uses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

impl Ticket {
    /// The ticket with this slot index and generation.
    #[inline]
    pub fn of(slot: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(slot))
    }

    /// The slot index: the low 32 bits.
    #[inline]
    pub fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    /// The generation: the high 32 bits.
    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// How fully a request is answered. Ordered: L1 is the best, L4 the last.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Full retrieval, rerank and large model.
    #[default]
    L1,
    /// Light retrieval, no rerank, light model.
    L2,
    /// FAQ rules.
    L3,
    /// Hand-off to a person.
    L4,
}

impl Level {
    /// All levels, best first.
    pub const ALL: [Self; 4] = [Self::L1, Self::L2, Self::L3, Self::L4];

    /// 0 for L1 to 3 for L4.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The level's name in files and reports: `l1` to `l4`.
    pub fn name(self) -> &'static str {
        ["l1", "l2", "l3", "l4"][self.index()]
    }
}

/// Where on a request's way a limiter or gate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Site {
    /// At the gateway's entry, before the queue: one decision per attempt.
    Front,
    /// After retrieval, before rerank and model: one decision per attempt.
    AfterRetrieval,
    /// At the rerank client: one decision per rerank call.
    RerankCall,
    /// At the model client: one decision per model call.
    LlmCall,
}

impl Site {
    /// All sites, in the order of a request's way.
    pub const ALL: [Self; 4] = [Self::Front, Self::AfterRetrieval, Self::RerankCall, Self::LlmCall];

    /// Position in [`Site::ALL`].
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }
}

/// By which door a question came in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    /// The shop's own app.
    App,
    /// A mini-program inside another app.
    #[default]
    MiniProgram,
    /// A page in a browser.
    H5,
}

/// How many business classes there are: S0, the most important, to S4.
pub const CLASSES: usize = 5;

/// What a request costs whoever serves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cost {
    /// The same for all.
    #[default]
    Requests,
    /// Its tokens in, and out as estimated.
    Tokens,
}

impl Cost {
    /// Of one request.
    #[inline]
    pub fn of(self, request: &RequestView) -> u64 {
        match self {
            Self::Requests => 1,
            Self::Tokens => request.tokens(),
        }
    }
}

/// What a gateway knows of a request on arrival.
#[expect(clippy::struct_excessive_bools, reason = "each is a finding of its own, not a state")]
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RequestView {
    /// The driver's handle.
    pub ticket: Ticket,
    /// Index of the endpoint in the scenario's or gateway's list.
    pub endpoint: u16,
    /// Business class: 0 for S0, the most important, to 4 for S4.
    pub class: u8,
    /// Index of the user's tier; 0 is the highest.
    pub tier: u8,
    /// By which door it came.
    pub channel: Channel,
    /// Tenant.
    pub tenant: u32,
    /// User.
    pub user: u64,
    /// Characters in the question.
    pub chars: u32,
    /// Tokens in, as the tokenizer or an estimate gives them.
    pub tokens_in: u32,
    /// Tokens out as the gateway estimates them (a bound such as `max_tokens`, or a running mean);
    /// never the true number.
    pub tokens_out_estimate: u32,
    /// Turns of history sent along.
    pub history_turns: u16,
    /// Complexity of the intent as the keyword classifier rates it, in 0..=1.
    pub intent_complexity: f32,
    /// An urgent keyword was found.
    pub urgent: bool,
    /// A service keyword (return, refund, invoice) was found.
    pub service_keyword: bool,
    /// A word of the operator's own list of questions that must not wait was found.
    pub expedite: bool,
    /// The question follows up on an earlier one.
    pub follow_up: bool,
    /// The request changes something: never retried.
    pub write: bool,
}

impl RequestView {
    /// A short question about nothing special, of class S2, to fill in.
    pub fn new(ticket: Ticket) -> Self {
        Self {
            ticket,
            endpoint: 0,
            class: 2,
            tier: 0,
            channel: Channel::MiniProgram,
            tenant: 0,
            user: 0,
            chars: 0,
            tokens_in: 0,
            tokens_out_estimate: 0,
            history_turns: 0,
            intent_complexity: 0.0,
            urgent: false,
            service_keyword: false,
            expedite: false,
            follow_up: false,
            write: false,
        }
    }

    /// Its tokens in, and out as estimated.
    #[inline]
    pub fn tokens(&self) -> u64 {
        u64::from(self.tokens_in) + u64::from(self.tokens_out_estimate)
    }
}

/// What a gateway knows when it is about to use a resource.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CallView {
    /// The attempt that makes the call.
    pub ticket: Ticket,
    /// Where the call is made.
    pub site: Site,
    /// The attempt's endpoint.
    pub endpoint: u16,
    /// The attempt's business class, 0 (S0) to 4 (S4).
    pub class: u8,
    /// The attempt's tenant.
    pub tenant: u32,
    /// The attempt's level.
    pub level: Level,
    /// Tokens or documents that the call carries, as known before it is made.
    pub size: u32,
}

/// How a call ended, as its caller saw it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct CallEnd {
    /// The attempt that made the call.
    pub ticket: Ticket,
    /// Where the call was made.
    pub site: Site,
    /// Nanoseconds from the call to its end.
    pub latency_ns: u64,
    /// The call brought its answer.
    pub ok: bool,
    /// It ended by the caller's time limit.
    pub timed_out: bool,
    /// Tokens in and out that it used in the end; `None`: not known, or not a call of that kind.
    pub tokens: Option<u32>,
}

/// How an attempt or a call was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It brought its answer.
    Answered,
    /// It broke.
    Failed,
    /// It ended by a time limit.
    TimedOut,
    /// It was turned away later on, so it used nothing.
    Refused,
    /// Whoever asked has gone.
    Gone,
}

/// What a gateway knows of an attempt, or of a call, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// How it was over.
    pub outcome: Outcome,
    /// Tokens in and out that it used; `None`: not known.
    pub tokens: Option<u32>,
    /// Nanoseconds from its start to its end.
    pub latency_ns: u64,
}

impl End {
    /// Turned away, having used nothing.
    pub const REFUSED: Self = Self { outcome: Outcome::Refused, tokens: None, latency_ns: 0 };
    /// Whoever asked has gone; nothing else is known.
    pub const GONE: Self = Self { outcome: Outcome::Gone, tokens: None, latency_ns: 0 };

    /// An answer that used so many tokens.
    pub fn answered(latency_ns: u64, tokens: Option<u32>) -> Self {
        Self { outcome: Outcome::Answered, tokens, latency_ns }
    }
}

impl From<&CallEnd> for End {
    fn from(call: &CallEnd) -> Self {
        let outcome = match call {
            CallEnd { timed_out: true, .. } => Outcome::TimedOut,
            CallEnd { ok: true, .. } => Outcome::Answered,
            CallEnd { .. } => Outcome::Failed,
        };
        Self { outcome, tokens: call.tokens, latency_ns: call.latency_ns }
    }
}
