//! The fault of a token window that shares its window flag with the count of requests (incident N03).
//!
//! Two counters, of requests and of tokens, belong to one window flag. Each check looks at the requests
//! first. When the window is over, that check sets the flag anew and resets its own counter; the check
//! of the tokens, a moment later, finds a fresh flag and leaves its counter as it is. So the tokens of
//! earlier windows add up, until the quota is reached with far fewer in the present window. The counter
//! has an expiry of its own, but each addition pushes it forward: it is gone only when nothing was added
//! for all that time, and until then everything is refused.

use super::token_window::TokenWindow;
use super::{Key, Refusal, keyed::Keyed};
use crate::Moment;
use serde::{Deserialize, Serialize};

/// The counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shared {
    window_ns: u64,
    expiry_ns: u64,
    counters: Keyed<Counters>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Counters {
    /// Since when the window of the flag runs; `None`: there is no flag yet.
    flag: Option<Moment>,
    requests: u64,
    tokens: u64,
    tokens_expire: Moment,
}

impl Shared {
    pub(crate) fn new(key: Key, window_ns: u64, expiry_ns: u64) -> Self {
        Self { window_ns: window_ns.max(1), expiry_ns, counters: Keyed::new(key) }
    }

    pub(crate) fn adopt(&mut self, window_ns: u64, expiry_ns: u64) {
        (self.window_ns, self.expiry_ns) = (window_ns.max(1), expiry_ns);
    }

    /// Counts a request and reserves its tokens, or says why not.
    pub(crate) fn ask(&mut self, now: Moment, key: u64, p: &TokenWindow, estimate: u64) -> Option<Refusal> {
        let window_ns = self.window_ns;
        let counters = self.counters.entry(key, Counters::default, |counters| {
            counters.flag.is_none_or(|flag| now.since(flag) >= window_ns) && now >= counters.tokens_expire
        });
        let turned = counters.flag.is_none_or(|flag| now.since(flag) >= window_ns);
        if turned {
            counters.flag = Some(now);
            counters.requests = 0;
        }
        if !p.requests_fit(counters.requests) {
            let rest_ns = counters.flag.map_or(0, |flag| flag.after(window_ns).since(now));
            return Some(p.too_many_requests(counters.requests).retry_after(rest_ns));
        }
        counters.requests += 1;
        // The flag is fresh by now, so nothing but its own expiry resets the counter of tokens.
        if now >= counters.tokens_expire {
            counters.tokens = 0;
        }
        if !p.tokens_fit(counters.tokens, estimate) {
            return Some(p.too_many_tokens(counters.tokens, estimate));
        }
        let reserved = p.reserved(estimate);
        counters.tokens = counters.tokens.saturating_add(reserved.tokens);
        counters.tokens_expire = now.after(self.expiry_ns);
        None
    }

    /// Puts what was really used in the place of what was reserved.
    pub(crate) fn settle(&mut self, now: Moment, key: u64, reserved: u64, really: u64) {
        let Some(counters) = self.counters.get_mut(key) else { return };
        if now >= counters.tokens_expire {
            counters.tokens = 0;
        } else {
            counters.tokens = counters.tokens.saturating_sub(reserved);
        }
        counters.tokens = counters.tokens.saturating_add(really);
        counters.tokens_expire = now.after(self.expiry_ns);
    }
}
