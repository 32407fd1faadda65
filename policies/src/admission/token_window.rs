//! A quota of tokens in a sliding window (published cases T1, T2; incidents N01, N03, N24).
//!
//! The window is cut into sub-windows (`sliding`). A request is let in if what the live
//! sub-windows hold and its own estimate are together within the quota. The estimate is reserved at
//! once, so that requests that run side by side see each other, and settled with the true number when
//! the answer ends. Two layers (application and user) are two modules of this kind, each with its own
//! key; what the second turns away, the first gets back.
//!
//! Over any span that touches no more sub-windows than the window has, no more than the quota is let in
//! when the estimates are exact. A span of the window's length that starts within a sub-window touches
//! one more: that is the rule's grain, and it shrinks with the number of sub-windows.
//!
//! Two wrong forms are kept to reproduce what they do. `charge = "on_end"` reserves nothing and charges
//! when the answer ends: whatever arrives meanwhile passes. `shared_window` is told in the file of
//! that name.

use super::noted::Noted;
use super::shared_window::Shared;
use super::sliding::{Sliding, Use};
use super::{Key, Limiter, Refusal, Verdict, front};
use crate::moment::nanos;
use crate::{End, Moment, Outcome, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a request's tokens are charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Charge {
    /// An estimate is reserved when it comes in, and settled when it ends.
    #[default]
    OnEntry,
    /// The true number, when it ends. Wrong: those that run side by side do not see each other.
    OnEnd,
}

/// Parameters of the token window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenWindow {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// Tokens, in and out together, per window.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub quota: u64,
    /// Length of the window, in seconds.
    #[serde(default = "a_minute")]
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub window_s: f64,
    /// Into how many sub-windows it is cut.
    #[serde(default = "six")]
    #[schemars(range(min = 1, max = 1_000))]
    pub sub_windows: u32,
    /// Requests per window besides; no limit if absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub requests: Option<u32>,
    /// The estimate: this times the sum of the tokens in and the tokens out that are expected.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub estimate_factor: f64,
    /// When the tokens are charged.
    #[serde(default)]
    pub charge: Charge,
    /// Whether the estimate of a request that is turned away counts too.
    #[serde(default)]
    pub count_rejected: bool,
    /// One window flag for requests and tokens together. Wrong: the token counter is not reset when the
    /// window turns. Needs `requests`.
    #[serde(default)]
    pub shared_window: bool,
    /// With `shared_window`: how long the token counter lives on after it was last added to, in seconds.
    #[serde(default = "three_minutes")]
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub shared_expiry_s: f64,
}

fn a_minute() -> f64 {
    60.0
}

fn three_minutes() -> f64 {
    180.0
}

fn six() -> u32 {
    6
}

fn one() -> f64 {
    1.0
}

impl TokenWindow {
    /// The estimate of a request, in tokens.
    pub fn estimate(&self, request: &RequestView) -> u64 {
        let tokens = request.tokens();
        // A float-to-integer cast saturates.
        if self.estimate_factor == 1.0 {
            tokens
        } else {
            (tokens as f64 * self.estimate_factor).round() as u64
        }
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.shared_window && self.requests.is_none() {
            return Err(PolicyError::not_allowed(
                format!("{path}.shared_window"),
                "true",
                "false, unless `requests` is given to share the window with",
            ));
        }
        Ok(())
    }
}

/// The windows, and what was reserved for those inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: TokenWindow,
    counts: Counts,
    noted: Noted<Reserved>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Counts {
    Sliding(Sliding),
    Shared(Shared),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Reserved {
    at: Moment,
    estimate: u64,
}

impl TokenWindow {
    /// What a request reserves when it is let in.
    pub(super) fn reserved(&self, estimate: u64) -> Use {
        Use { tokens: if self.charge == Charge::OnEntry { estimate } else { 0 }, requests: 1 }
    }

    /// What a request that is over really used: tokens, and whether it counts as a request.
    fn really(&self, estimate: u64, end: &End) -> Use {
        let tokens = match (end.outcome, end.tokens) {
            (Outcome::Refused, _) if self.count_rejected => estimate,
            (Outcome::Refused, _) => return Use::default(),
            (_, Some(tokens)) => u64::from(tokens),
            // It broke before it used anything that was counted.
            (Outcome::Failed, None) => 0,
            (_, None) => estimate,
        };
        Use { tokens, requests: 1 }
    }

    /// Whether the tokens used leave room for one more request.
    #[inline]
    pub(super) fn tokens_fit(&self, used: u64, estimate: u64) -> bool {
        match self.charge {
            Charge::OnEntry => used.saturating_add(estimate) <= self.quota,
            Charge::OnEnd => used < self.quota,
        }
    }

    /// Whether the requests counted leave room for one more.
    #[inline]
    pub(super) fn requests_fit(&self, counted: u64) -> bool {
        self.requests.is_none_or(|limit| counted < u64::from(limit))
    }

    pub(super) fn too_many_tokens(&self, used: u64, estimate: u64) -> Refusal {
        let found = match self.charge {
            Charge::OnEntry => used.saturating_add(estimate),
            Charge::OnEnd => used,
        };
        Refusal::new(Reason::TokenWindowSpent, found as f64, self.quota as f64)
    }

    pub(super) fn too_many_requests(&self, counted: u64) -> Refusal {
        let limit = f64::from(self.requests.unwrap_or(u32::MAX));
        Refusal::new(Reason::TokenWindowRequests, counted as f64, limit)
    }
}

impl Limiter for State {
    type Parameters = TokenWindow;

    fn new(parameters: &TokenWindow) -> Self {
        let window_ns = nanos(parameters.window_s);
        let counts = if parameters.shared_window {
            Counts::Shared(Shared::new(parameters.key, window_ns, nanos(parameters.shared_expiry_s)))
        } else {
            Counts::Sliding(Sliding::new(window_ns, parameters.sub_windows))
        };
        Self { parameters: parameters.clone(), counts, noted: Noted::default() }
    }

    fn adopt(&mut self, now: Moment, parameters: &TokenWindow) {
        self.parameters = parameters.clone();
        let window_ns = nanos(parameters.window_s);
        match &mut self.counts {
            Counts::Sliding(sliding) => sliding.adopt(now, window_ns, parameters.sub_windows),
            Counts::Shared(shared) => shared.adopt(window_ns, nanos(parameters.shared_expiry_s)),
        }
    }

    #[inline]
    fn ask(&mut self, now: Moment, key: u64, request: &RequestView, _: &Signals) -> Verdict {
        let p = &self.parameters;
        let estimate = p.estimate(request);
        let too_large = p.charge == Charge::OnEntry && estimate > p.quota;
        let refused = match &mut self.counts {
            Counts::Shared(shared) => shared.ask(now, key, p, estimate),
            Counts::Sliding(sliding) => {
                let mut window = sliding.window(now, key);
                let used = window.used();
                let refusal = if !p.tokens_fit(used.tokens, estimate) {
                    Some(p.too_many_tokens(used.tokens, estimate))
                } else if !p.requests_fit(used.requests) {
                    Some(p.too_many_requests(used.requests))
                } else {
                    window.add(p.reserved(estimate));
                    None
                };
                refusal.map(|refusal| {
                    if p.count_rejected {
                        window.add(Use { tokens: estimate.min(p.quota), requests: 1 });
                    }
                    let retry_after_ns = window
                        .until(|used| p.tokens_fit(used.tokens, estimate) && p.requests_fit(used.requests));
                    Refusal { retry_after_ns, ..refusal }
                })
            }
        };
        match refused {
            Some(_) if too_large => {
                Verdict::Refuse(Refusal::new(Reason::TokenWindowTooLarge, estimate as f64, p.quota as f64))
            }
            Some(refusal) => Verdict::Refuse(refusal),
            None => {
                self.noted.put(request.ticket, Reserved { at: now, estimate });
                Verdict::Hold
            }
        }
    }

    #[inline]
    fn ended(&mut self, now: Moment, key: u64, request: &RequestView, end: &End) {
        let Some(Reserved { at, estimate }) = self.noted.take(request.ticket) else { return };
        let p = &self.parameters;
        let (reserved, really) = (p.reserved(estimate), p.really(estimate, end));
        match (&mut self.counts, p.charge) {
            (Counts::Shared(shared), _) => shared.settle(now, key, reserved.tokens, really.tokens),
            (Counts::Sliding(sliding), Charge::OnEntry) => {
                sliding.window(now, key).settle(at, reserved, really);
            }
            (Counts::Sliding(sliding), Charge::OnEnd) => {
                let mut window = sliding.window(now, key);
                window.settle(at, reserved, Use { tokens: 0, ..really });
                window.add(Use { tokens: really.tokens, requests: 0 });
            }
        }
    }
}

#[cfg(test)]
#[path = "token_window_tests.rs"]
mod tests;
