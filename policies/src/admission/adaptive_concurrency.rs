//! A gate whose limit moves by a law ([`super::limit_law`]): additive increase and multiplicative
//! decrease, or the gradient of latency, as in the public libraries of that name (incident N19).
//!
//! It is a gate like `concurrency_gate` in all else: permits come back when the attempt or the call
//! ends, and a call may wait for one. Each value of the key has a limit of its own.

use super::limit_law::{Bounds, Law, LimitLaw};
use super::{Gate, Key, Limit, Limiter, Verdict, WhenFull, front, keyed::Keyed, permits::Permits};
use crate::moment::nanos;
use crate::{End, Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A limit that has heard nothing for an hour may be forgotten, and starts anew.
const FORGET_NS: u64 = 3_600_000_000_000;

/// Parameters of the adaptive concurrency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdaptiveConcurrency {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart. Not `user`: one user's requests are too few to learn from.
    #[serde(default)]
    pub key: Key,
    /// How the limit moves.
    pub law: LimitLaw,
    /// The limit at the start.
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub initial: u32,
    /// The least limit.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub least: u32,
    /// The greatest limit.
    #[serde(default = "a_thousand")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub most: u32,
    /// Longest wait for a permit, in seconds; 0: none. Must be 0 at the front.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub wait_at_most_s: f64,
    /// After how many seconds a client that was told "busy" may try again.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_s: Option<f64>,
}

fn twenty() -> u32 {
    20
}

fn one() -> u32 {
    1
}

fn a_thousand() -> u32 {
    1000
}

impl AdaptiveConcurrency {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        let wrong = |name: &str, found: String, allowed: &str| {
            Err(PolicyError::not_allowed(format!("{path}.{name}"), found, allowed))
        };
        if self.key == Key::User {
            return wrong("key", "user".to_owned(), "global, endpoint or tenant");
        }
        if self.place == Site::Front && self.wait_at_most_s > 0.0 {
            let found = self.wait_at_most_s.to_string();
            return wrong("wait_at_most_s", found, "0 at the front, where waiting is the queue's");
        }
        let [least, initial, most] = [self.least, self.initial, self.most].map(f64::from);
        PolicyError::ordered(path, ("least", least), ("initial", initial))?;
        PolicyError::ordered(path, ("initial", initial), ("most", most))
    }

    fn bounds(&self) -> Bounds {
        Bounds { least: self.least, most: self.most }
    }
}

/// The permits that are out, and the limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: AdaptiveConcurrency,
    wait_ns: u64,
    permits: Permits,
    laws: Keyed<Law>,
    /// The limit where nothing was learnt yet.
    fresh: u32,
}

impl State {
    fn law(parameters: &AdaptiveConcurrency) -> Law {
        Law::new(&parameters.law, parameters.initial, parameters.bounds())
    }

    fn answer(&self) -> WhenFull {
        WhenFull { retry_after_ns: self.parameters.retry_after_s.map(nanos), keep: None }
    }
}

impl Limiter for State {
    type Parameters = AdaptiveConcurrency;

    fn new(parameters: &AdaptiveConcurrency) -> Self {
        Self {
            wait_ns: nanos(parameters.wait_at_most_s),
            permits: Permits::new(parameters.key),
            laws: Keyed::new(parameters.key),
            fresh: Self::law(parameters).limit(),
            parameters: parameters.clone(),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &AdaptiveConcurrency) {
        self.wait_ns = nanos(parameters.wait_at_most_s);
        self.fresh = Self::law(parameters).limit();
        for key in self.laws.keys() {
            if let Some(law) = self.laws.get_mut(key) {
                law.settle(&parameters.law, parameters.bounds());
            }
        }
        self.parameters = parameters.clone();
    }

    #[inline]
    fn ask(&mut self, _: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        let limit = Limit::Each(&self.laws, self.fresh);
        match self.permits.take(key, limit) {
            Ok(()) => Verdict::Hold,
            Err(inside) => {
                let limit = f64::from(limit.of(key));
                Verdict::Refuse(self.answer().refusal(Reason::AdaptiveFull, f64::from(inside), limit))
            }
        }
    }

    fn ended(&mut self, now: Moment, key: u64, _: &RequestView, end: &End) {
        let inside = self.permits.taken(key);
        let p = &self.parameters;
        let law = self.laws.entry(key, || Self::law(p), |law| law.forgotten(now, FORGET_NS));
        law.learn(now, end, inside, &p.law, p.bounds());
    }

    #[inline]
    fn most_inside(&self) -> Option<u32> {
        Some(self.permits.most())
    }

    fn gate(&mut self) -> Option<Gate<'_>> {
        let answer = self.answer();
        Some(Gate {
            permits: &mut self.permits,
            limit: Limit::Each(&self.laws, self.fresh),
            wait_ns: self.wait_ns,
            full: Reason::AdaptiveFull,
            expired: Reason::AdaptiveWaitExpired,
            answer,
        })
    }
}

#[cfg(test)]
#[path = "adaptive_concurrency_tests.rs"]
mod tests;
