//! Fail-over between external model providers, with a circuit breaker per provider (published cases P1,
//! R7; incidents N05, N06).
//!
//! Providers are asked in their order. One whose breaker is open is passed over; it opens when the share of
//! failures in a window is too high, or after so many in a row, and after `cooldown_s` lets a few calls
//! through as probes: their good end closes it, a bad one opens it again. An attempt asks each provider once
//! (and again by its `retries`, or in a circle without `each_once`), and an attempt that finds all of them
//! resting fails, waits for the first, or takes the nearest cached answer.
//!
//! What an attempt has tried is remembered here, by its ticket, rather than by the driver: retries,
//! back-off and the bound on a wait need more than a set of providers, and a gateway should not keep the
//! books of a policy. Only attempts that are on their way between providers are remembered.
//!
//! An attempt that was answered 429 by a provider that now rests may, where attempts wait, ask it once
//! more when its rest is over: such a call cost nobody anything. All else counts as asked.

use super::breaker::{Breaker, Ready};
use crate::admission::{Refusal, noted::Noted};
use crate::moment::{nanos, seconds};
use crate::{Moment, Reason, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most providers of one list: a bit each in an attempt's set of those that it has asked.
pub const MOST_PROVIDERS: u8 = 64;

/// What happens when every provider that may be asked rests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhenAllOpen {
    /// The attempt is turned away at once.
    #[default]
    Fail,
    /// The attempt waits for the first that may be asked again, for at most `wait_at_most_s`.
    Wait,
    /// The nearest cached answer is served, if `fallback.cache_last_resort` allows it.
    LastResort,
}

/// Ordered fail-over between providers, with a circuit breaker for each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Providers {
    /// The breaker opens when the share of failures among the calls of the window is above this.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub error_share_above: f64,
    /// Window of that share, in seconds.
    #[schemars(range(min = 0.1, max = 3_600.0))]
    pub window_s: f64,
    /// Calls that the window must hold at least before its share counts.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub least_calls: u32,
    /// The breaker also opens after more failures in a row than this; absent: only the share opens it.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub allowed_failures: Option<u32>,
    /// How long an open breaker lets no call through, in seconds.
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub cooldown_s: f64,
    /// Calls that go through at once as probes after the cooldown; so many good ones close the breaker.
    #[schemars(range(min = 1, max = 10_000))]
    pub probes: u32,
    /// Whether an answer 429 counts as a failure.
    pub count_rate_limited: bool,
    /// A provider that answered 429 with Retry-After is not asked before that time is over.
    pub honour_retry_after: bool,
    /// An answer that took longer than this counts as a failure, in seconds; absent: none does.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub slow_above_s: Option<f64>,
    /// Each provider is asked at most once by an attempt (and its `retries`). If not, the list is walked
    /// in a circle until `calls_at_most`.
    pub each_once: bool,
    /// Calls of one attempt at most, retries included.
    #[schemars(range(min = 1, max = 10_000))]
    pub calls_at_most: u32,
    /// How often a call that failed is made again at the same provider before the next one is asked.
    #[schemars(range(min = 0, max = 100))]
    pub retries: u32,
    /// Wait before the first of these retries, in seconds.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub backoff_s: f64,
    /// Growth of that wait from one retry to the next.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub backoff_factor: f64,
    /// What happens when every provider that may be asked rests.
    pub when_all_open: WhenAllOpen,
    /// Longest wait of one attempt for a provider that rests, in seconds. An attempt that would wait
    /// longer in any case is turned away at once.
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub wait_at_most_s: f64,
}

impl Default for Providers {
    fn default() -> Self {
        Self {
            error_share_above: 0.5,
            window_s: 30.0,
            least_calls: 10,
            allowed_failures: None,
            cooldown_s: 60.0,
            probes: 1,
            count_rate_limited: true,
            honour_retry_after: true,
            slow_above_s: None,
            each_once: true,
            calls_at_most: 16,
            retries: 0,
            backoff_s: 0.5,
            backoff_factor: 2.0,
            when_all_open: WhenAllOpen::Fail,
            wait_at_most_s: 10.0,
        }
    }
}

impl Providers {
    /// The rule where the policy gives none: the main provider is asked, once, and no other.
    fn none() -> Self {
        Self { error_share_above: 1.0, honour_retry_after: false, ..Self::default() }
    }
}

/// How a provider's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderEnd {
    /// It brought its answer.
    Ok,
    /// It was answered 429.
    RateLimited {
        /// Its Retry-After, in nanoseconds, if it had one.
        retry_after_ns: Option<u64>,
    },
    /// It was answered with an error, or not at all.
    Failed,
    /// It ended by the caller's time limit.
    TimedOut,
    /// Whoever asked has gone: it says nothing about the provider.
    Gone,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Route {
    /// To this provider, by its place in the list.
    Use {
        /// The provider.
        provider: u8,
        /// [`Reason::Normal`] for the main provider.
        why: Reason,
    },
    /// Nowhere yet: ask again when so much time has passed, or earlier when
    /// [`crate::Governor::provider_ended`] says so.
    Wait {
        /// Longest time until the next question, in nanoseconds.
        at_most_ns: u64,
    },
    /// Nowhere: the attempt is turned away.
    Fail {
        /// Why.
        why: Reason,
        /// After how many nanoseconds the client may try again, if that is known.
        retry_after_ns: Option<u64>,
    },
    /// Nowhere: the nearest cached answer is served if [`crate::Governor::last_resort`] allows it, else the
    /// attempt is turned away.
    LastResort {
        /// Why.
        why: Reason,
        /// After how many nanoseconds the client may try again, if that is known.
        retry_after_ns: Option<u64>,
    },
}

/// An attempt on its way between providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Walk {
    asked: u64,
    last: Option<u8>,
    /// Calls made at `last` without a pause for another.
    at_last: u32,
    calls: u32,
    /// Its present call is a probe of `last`, of this round.
    probes: Option<u32>,
    /// `last` is to be asked again.
    again: bool,
    not_before: Moment,
    gives_up: Option<Moment>,
    /// When the first of those that answered 429 said to come back.
    come_back: Option<Moment>,
}

/// State of the fail-over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: Providers,
    /// The list is walked beyond its first provider.
    fails_over: bool,
    breakers: Vec<Breaker>,
    walks: Noted<Walk>,
}

/// What became of a question for a route, with what was compared.
pub(crate) struct Routed {
    pub(crate) route: Route,
    pub(crate) compared: Option<Refusal>,
}

impl State {
    pub(crate) fn new(parameters: Option<&Providers>) -> Self {
        Self {
            parameters: parameters.cloned().unwrap_or_else(Providers::none),
            fails_over: parameters.is_some(),
            breakers: Vec::new(),
            walks: Noted::default(),
        }
    }

    /// Takes changed parameters over and keeps what was counted.
    pub(crate) fn adopt(&mut self, parameters: Option<&Providers>) {
        self.parameters = parameters.cloned().unwrap_or_else(Providers::none);
        self.fails_over = parameters.is_some();
    }

    /// Where the next call of an attempt goes. `main_only`: it may ask the first provider alone.
    /// `last_resort`: there is one.
    pub(crate) fn route(
        &mut self,
        now: Moment,
        ticket: Ticket,
        count: u8,
        (main_only, last_resort): (bool, bool),
    ) -> Routed {
        let count = count.min(MOST_PROVIDERS);
        if self.breakers.len() < usize::from(count) {
            self.breakers.resize(usize::from(count), Breaker::default());
        }
        let probes = self.parameters.probes;
        let before = self.walks.evict(ticket);
        // A probe that is still out will not be reported any more: its own attempt asks again, or another
        // has the slot.
        self.release(before.map(|(_, walk)| walk));
        let known = before.filter(|(of, _)| *of == ticket).map(|(_, walk)| walk);
        let mut walk = Walk { probes: None, ..known.unwrap_or_default() };
        if now < walk.not_before {
            self.walks.put(ticket, walk);
            return Routed { route: Route::Wait { at_most_ns: walk.not_before.since(now) }, compared: None };
        }
        let may_ask = if main_only || !self.fails_over { count.min(1) } else { count };
        let mut first: Option<Ready> = None;
        if walk.calls < self.parameters.calls_at_most {
            for provider in self.order(&walk, may_ask) {
                match self.breakers[usize::from(provider)].ready(now, probes) {
                    Ready::Now => return self.send(now, ticket, walk, provider),
                    later => first = Some(sooner(first, later)),
                }
            }
        }
        let out_of_calls = walk.calls >= self.parameters.calls_at_most || first.is_none();
        let waits = !out_of_calls && self.parameters.when_all_open == WhenAllOpen::Wait;
        let last_resort = last_resort && !main_only;
        if main_only && count > 1 && !waits {
            let why = Reason::ClassMainProviderOnly;
            return self.give_up(now, ticket, &walk, first, false, Refusal::new(why, 2.0, 1.0));
        }
        if out_of_calls {
            let allowed = if self.fails_over { self.parameters.calls_at_most } else { 1 };
            let refusal = Refusal::new(Reason::ProvidersExhausted, f64::from(walk.calls), f64::from(allowed));
            return self.give_up(now, ticket, &walk, first, last_resort, refusal);
        }
        let rest_s = match first {
            Some(Ready::At(at)) => at.seconds_since(now),
            _ => 0.0,
        };
        let all_open = Refusal::new(Reason::ProvidersAllOpen, rest_s, self.parameters.cooldown_s);
        match self.parameters.when_all_open {
            WhenAllOpen::Fail => self.give_up(now, ticket, &walk, first, false, all_open),
            WhenAllOpen::LastResort => self.give_up(now, ticket, &walk, first, last_resort, all_open),
            WhenAllOpen::Wait => {
                let longest = nanos(self.parameters.wait_at_most_s);
                let gives_up = *walk.gives_up.get_or_insert(now.after(longest));
                let until = match first {
                    Some(Ready::At(at)) if at > gives_up => {
                        return self.give_up(now, ticket, &walk, first, last_resort, all_open);
                    }
                    Some(Ready::At(at)) => at,
                    _ => gives_up,
                };
                if now >= gives_up {
                    let waited_s = seconds(longest);
                    let refusal = Refusal::new(Reason::ProvidersWaitExpired, waited_s, waited_s);
                    return self.give_up(now, ticket, &walk, first, last_resort, refusal);
                }
                self.walks.put(ticket, walk);
                Routed { route: Route::Wait { at_most_ns: until.since(now) }, compared: Some(all_open) }
            }
        }
    }

    /// The providers that an attempt may ask next, in order.
    fn order(&self, walk: &Walk, may_ask: u8) -> impl Iterator<Item = u8> + use<> {
        let again = walk.last.filter(|_| walk.again);
        // In a circle, the next is the one after the last.
        let (start, asked) = match walk.last {
            Some(last) if !self.parameters.each_once => (last + 1, 0),
            _ => (0, walk.asked),
        };
        let others = (0..may_ask).map(move |step| (start % may_ask + step) % may_ask);
        again.into_iter().chain(others.filter(move |provider| asked & (1 << provider) == 0))
    }

    fn send(&mut self, now: Moment, ticket: Ticket, mut walk: Walk, provider: u8) -> Routed {
        if walk.last != Some(provider) || !walk.again {
            walk.at_last = 0;
        }
        walk.probes = self.breakers[usize::from(provider)].begin(now, self.parameters.probes);
        walk.last = Some(provider);
        walk.again = false;
        walk.calls = walk.calls.saturating_add(1);
        walk.at_last += 1;
        walk.asked |= 1 << provider;
        self.walks.put(ticket, walk);
        if provider == 0 {
            return Routed { route: Route::Use { provider, why: Reason::Normal }, compared: None };
        }
        let why = Reason::ProvidersFailOver;
        let compared = Some(Refusal::new(why, f64::from(provider) + 1.0, 1.0));
        Routed { route: Route::Use { provider, why }, compared }
    }

    fn give_up(
        &mut self,
        now: Moment,
        ticket: Ticket,
        walk: &Walk,
        first: Option<Ready>,
        last_resort: bool,
        refusal: Refusal,
    ) -> Routed {
        self.walks.take(ticket);
        let opens = match first {
            Some(Ready::At(at)) => Some(at),
            _ => None,
        };
        let retry_after_ns = opens.into_iter().chain(walk.come_back).min().map(|at| at.since(now));
        let why = refusal.why;
        let route = if last_resort {
            Route::LastResort { why, retry_after_ns }
        } else {
            Route::Fail { why, retry_after_ns }
        };
        Routed { route, compared: Some(refusal) }
    }

    /// A call of an attempt at a provider has ended. True: a provider may be asked again that could not be
    /// before, and those that wait should ask.
    pub(crate) fn ended(
        &mut self,
        now: Moment,
        ticket: Ticket,
        provider: u8,
        end: ProviderEnd,
        latency_ns: u64,
    ) -> bool {
        let Some(breaker) = self.breakers.get_mut(usize::from(provider)) else { return false };
        // The end shows something about the provider also when the attempt is over; only the notes on the
        // attempt are not made again then, since its slot may be another's.
        let known = self.walks.get(ticket);
        let mut walk = known.unwrap_or_default();
        let parameters = &self.parameters;
        let slow = parameters.slow_above_s.is_some_and(|limit_s| latency_ns > nanos(limit_s));
        let failed = match end {
            ProviderEnd::Ok => Some(slow),
            ProviderEnd::RateLimited { .. } => parameters.count_rate_limited.then_some(true),
            ProviderEnd::Failed | ProviderEnd::TimedOut => Some(true),
            ProviderEnd::Gone => None,
        };
        if let ProviderEnd::RateLimited { retry_after_ns: Some(after) } = end {
            let at = now.after(after);
            walk.come_back = Some(walk.come_back.map_or(at, |before| before.min(at)));
            if parameters.honour_retry_after {
                breaker.rests_until = breaker.rests_until.max(at);
            }
        }
        let probe = walk.probes.take();
        let news = breaker.learn(now, parameters, probe, failed);
        match end {
            ProviderEnd::Ok | ProviderEnd::Gone => {
                self.walks.take(ticket);
            }
            _ if known.is_none() => {}
            _ => {
                let rests = breaker.ready(now, parameters.probes) != Ready::Now;
                walk.again = walk.at_last <= parameters.retries && !rests;
                if walk.again {
                    let growth = (1..walk.at_last).fold(1.0, |growth, _| growth * parameters.backoff_factor);
                    walk.not_before = now.after(nanos(parameters.backoff_s * growth));
                }
                let refused = matches!(end, ProviderEnd::RateLimited { .. });
                if refused && rests && parameters.when_all_open == WhenAllOpen::Wait {
                    walk.asked &= !(1 << provider);
                }
                self.walks.put(ticket, walk);
            }
        }
        news
    }

    /// The attempt is over: if it was probing, another may.
    pub(crate) fn left(&mut self, ticket: Ticket) {
        let walk = self.walks.take(ticket);
        self.release(walk);
    }

    /// A walk goes no further: what it probed may be probed by another.
    fn release(&mut self, walk: Option<Walk>) {
        if let Some(Walk { probes: Some(round), last: Some(provider), .. }) = walk
            && let Some(breaker) = self.breakers.get_mut(usize::from(provider))
        {
            breaker.probe_gone(round);
        }
    }
}

fn sooner(known: Option<Ready>, other: Ready) -> Ready {
    match (known, other) {
        (Some(Ready::At(a)), Ready::At(b)) => Ready::At(a.min(b)),
        // Of a probe only its end is unknown: a known moment is the bound.
        (Some(at @ Ready::At(_)), _) | (_, at @ Ready::At(_)) => at,
        (_, other) => other,
    }
}

#[cfg(test)]
#[path = "providers_tests.rs"]
mod tests;
