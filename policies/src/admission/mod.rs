//! Admission: who may come in, or make a call. Any number of modules, asked in the order of the file;
//! each stands at one [`Site`] and counts per [`Key`].
//!
//! What a module took from a request that a later module turns away stays taken (a spent token is
//! spent), except what it holds for it until its end, which comes back at once: permits, estimates that were
//! reserved, places that were expected.
//!
//! A new module is one file beside this one, and its line in each of the two lists below.

pub mod adaptive_concurrency;
pub(crate) mod ahead;
pub mod backlog_gate;
pub(crate) mod bucket;
pub mod concurrency_gate;
pub mod early_rejection;
pub mod fixed_rate;
pub(crate) mod keyed;
pub mod limit_law;
pub mod load_shed;
pub(crate) mod noted;
pub mod paced;
pub(crate) mod permits;
pub mod priority_buckets;
pub(crate) mod rows;
pub(crate) mod shared_window;
pub(crate) mod sliding;
pub mod token_bucket;
pub mod token_window;
pub mod user_frequency;
pub mod weighted_bucket;

use crate::moment::seconds;
use crate::{End, Moment, PolicyError, Reason, RequestView, Signals, Site};
use keyed::Keyed;
use limit_law::Law;
use permits::Permits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! family {
    ($($(#[doc = $doc:literal])* $variant:ident($file:ident);)*) => {
        /// The parameters of one admission module.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Admission {
            $($(#[doc = $doc])* $variant($file::$variant),)*
        }

        impl Admission {
            /// Where the module stands.
            pub fn place(&self) -> Site {
                match self { $(Self::$variant(parameters) => parameters.place,)* }
            }

            /// What it counts apart.
            pub fn key(&self) -> Key {
                match self { $(Self::$variant(parameters) => parameters.key,)* }
            }

            /// Rules that no single range can state; `path` names the module in the message.
            pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
                match self { $(Self::$variant(parameters) => parameters.check(path),)* }
            }
        }

        /// The state of one admission module.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) enum State {
            $($variant($file::State),)*
        }

        impl State {
            pub(crate) fn new(parameters: &Admission) -> Self {
                match parameters {
                    $(Admission::$variant(parameters) => Self::$variant($file::State::new(parameters)),)*
                }
            }

            /// Takes changed parameters over and keeps what was counted.
            pub(crate) fn adopt(&mut self, now: Moment, parameters: &Admission) {
                match (self, parameters) {
                    $((Self::$variant(state), Admission::$variant(parameters)) => state.adopt(now, parameters),)*
                    (state, parameters) => *state = Self::new(parameters),
                }
            }

            #[inline]
            pub(crate) fn ask(
                &mut self, now: Moment, key: u64, request: &RequestView, signals: &Signals,
            ) -> Verdict {
                match self { $(Self::$variant(state) => state.ask(now, key, request, signals),)* }
            }

            /// What passed with [`Verdict::Hold`] is over.
            #[inline]
            pub(crate) fn ended(&mut self, now: Moment, key: u64, request: &RequestView, end: &End) {
                match self { $(Self::$variant(state) => state.ended(now, key, request, end),)* }
            }

            /// The share that the emptiest bucket of the module holds.
            pub(crate) fn balance(&self, now: Moment, signals: &Signals) -> Option<f64> {
                match self { $(Self::$variant(state) => state.balance(now, signals),)* }
            }

            /// Most permits that were out at once for one key; `None`: it hands none out.
            pub(crate) fn most_inside(&self) -> Option<u32> {
                match self { $(Self::$variant(state) => state.most_inside(),)* }
            }

            #[inline]
            pub(crate) fn gate(&mut self) -> Option<Gate<'_>> {
                match self { $(Self::$variant(state) => state.gate(),)* }
            }
        }
    };
}

family! {
    /// At most n requests in each fixed window.
    FixedRate(fixed_rate);
    /// A bucket of equal tokens, refilled at a steady rate.
    TokenBucket(token_bucket);
    /// A bucket that weighs requests and follows the state of the service.
    WeightedBucket(weighted_bucket);
    /// At most n at once.
    ConcurrencyGate(concurrency_gate);
    /// Passes while the measured backlog behind it is short.
    BacklogGate(backlog_gate);
    /// A quota of tokens in a sliding window.
    TokenWindow(token_window);
    /// At most n requests of a user in any window.
    UserFrequency(user_frequency);
    /// A bucket per business class.
    PriorityBuckets(priority_buckets);
    /// At most so many at once as a law finds right.
    AdaptiveConcurrency(adaptive_concurrency);
    /// Evenly spaced.
    Paced(paced);
    /// What the decode stage could not take when its prefill ends.
    EarlyRejection(early_rejection);
    /// A share of the least important classes while a signal is high.
    LoadShed(load_shed);
}

/// What a module counts apart: each value of the key has a count of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Key {
    /// One count for everything.
    #[default]
    Global,
    /// A count per endpoint.
    Endpoint,
    /// A count per tenant.
    Tenant,
    /// A count per user.
    User,
}

impl Key {
    /// The request's value of this key.
    #[inline]
    pub(crate) fn of(self, request: &RequestView) -> u64 {
        match self {
            Self::Global => 0,
            Self::Endpoint => u64::from(request.endpoint),
            Self::Tenant => u64::from(request.tenant),
            Self::User => request.user,
        }
    }
}

/// What every module's state can do.
pub(crate) trait Limiter {
    type Parameters;

    fn new(parameters: &Self::Parameters) -> Self;

    /// Takes changed parameters over and keeps what was counted.
    fn adopt(&mut self, now: Moment, parameters: &Self::Parameters);

    /// Decides on one request or call with this value of the module's key.
    fn ask(&mut self, now: Moment, key: u64, request: &RequestView, signals: &Signals) -> Verdict;

    /// What passed with [`Verdict::Hold`] is over: the attempt where the module stands at the front or
    /// after retrieval, the call elsewhere. Called once for each, before its permit comes back.
    fn ended(&mut self, _now: Moment, _key: u64, _request: &RequestView, _end: &End) {}

    /// The share of its capacity, 0 to 1, that the emptiest of the module's buckets holds; one that was
    /// not asked yet is full. `None`: the module has no bucket.
    fn balance(&self, _now: Moment, _signals: &Signals) -> Option<f64> {
        None
    }

    /// Most permits that were out at once for one key; `None`: it hands none out.
    fn most_inside(&self) -> Option<u32> {
        None
    }

    /// The permits, if the module hands out any that come back.
    fn gate(&mut self) -> Option<Gate<'_>> {
        None
    }
}

/// A module's permits and its rule for them.
pub(crate) struct Gate<'a> {
    pub(crate) permits: &'a mut Permits,
    /// How many may be out at once for one value of the key.
    pub(crate) limit: Limit<'a>,
    /// Longest wait for a permit; 0: none waits.
    pub(crate) wait_ns: u64,
    /// Why one is turned away that may not wait, and why one that waited in vain.
    pub(crate) full: Reason,
    pub(crate) expired: Reason,
    pub(crate) answer: WhenFull,
}

/// What one is told that a gate turns away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WhenFull {
    pub(crate) retry_after_ns: Option<u64>,
    /// As in [`Refusal`].
    pub(crate) keep: Option<u16>,
}

impl WhenFull {
    pub(crate) fn refusal(self, why: Reason, found: f64, threshold: f64) -> Refusal {
        Refusal { why, found, threshold, retry_after_ns: self.retry_after_ns, keep: self.keep }
    }
}

impl Gate<'_> {
    /// How many are inside for one value of the key, and how many may be at present.
    pub(crate) fn inside(&self, key: u64) -> (f64, f64) {
        (f64::from(self.permits.taken(key)), f64::from(self.limit.of(key)))
    }

    /// The answer to a call whose longest wait is over.
    pub(crate) fn turned_away(&self, key: u64) -> Refusal {
        if self.wait_ns == 0 {
            let (inside, limit) = self.inside(key);
            return self.answer.refusal(self.full, inside, limit);
        }
        let wait_s = seconds(self.wait_ns);
        self.answer.refusal(self.expired, wait_s, wait_s)
    }
}

/// How many permits may be out at once for one value of a key.
#[derive(Clone, Copy)]
pub(crate) enum Limit<'a> {
    /// As many for all.
    Same(u32),
    /// As the law of the value says, and so many where there is none yet.
    Each(&'a Keyed<Law>, u32),
}

impl Limit<'_> {
    #[inline]
    pub(crate) fn of(self, key: u64) -> u32 {
        match self {
            Self::Same(limit) => limit,
            Self::Each(laws, fresh) => laws.get(key).map_or(fresh, Law::limit),
        }
    }
}

/// A module's decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Nothing stands in the way.
    Pass,
    /// The same, and the module wants to hear of the end: a permit was taken that must come back, or an
    /// estimate that must be settled.
    Hold,
    /// It may go on in so many nanoseconds, and is held until then. Never at the front.
    Wait(u64),
    Refuse(Refusal),
}

/// A refusal with the values that were compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) why: Reason,
    pub(crate) found: f64,
    pub(crate) threshold: f64,
    pub(crate) retry_after_ns: Option<u64>,
    /// `Some(n)`: a call is skipped, and the first n results kept, instead of answered "busy".
    pub(crate) keep: Option<u16>,
}

impl Refusal {
    pub(crate) fn new(why: Reason, found: f64, threshold: f64) -> Self {
        Self { why, found, threshold, retry_after_ns: None, keep: None }
    }

    pub(crate) fn retry_after(mut self, nanos: u64) -> Self {
        self.retry_after_ns = Some(nanos);
        self
    }
}

/// Where a module stands unless the file says otherwise.
pub(crate) fn front() -> Site {
    Site::Front
}
