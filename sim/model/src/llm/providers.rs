//! External providers of model answers: an ordered list behind one stage, each with its limits.
//!
//! A quota per minute is a bucket that refills steadily, as providers enforce it, and not a window that is
//! turned at whole minutes. How much may be used in one burst is a share of the minute's quota; with a
//! small one, clients that come back together are refused together (incident N07).

use crate::ids::AttemptId;
use crate::scenario::{Provider, Providers};
use forebay_engine::{DistError, Draw, Sampler, Span, Time};
use std::collections::BTreeMap;

/// A quota per minute.
#[derive(Clone, Debug)]
struct Quota {
    per_s: f64,
    capacity: f64,
    held: f64,
    at: Time,
}

impl Quota {
    fn new(per_min: f64, burst_share: f64) -> Self {
        let capacity = per_min * burst_share;
        Self { per_s: per_min / 60.0, capacity, held: capacity, at: Time::ZERO }
    }

    fn refill(&mut self, now: Time) {
        self.held = (self.held + now.since(self.at).as_secs_f64() * self.per_s).min(self.capacity);
        self.at = now;
    }

    /// Seconds until the quota holds `amount`; one that is more than it ever holds is let in when it is
    /// full. 0: it does now.
    fn lacks_s(&mut self, now: Time, amount: f64) -> f64 {
        self.refill(now);
        // A refill of whole nanoseconds may fall short by a rounding.
        let lack = amount.min(self.capacity) - self.held;
        if lack <= 1e-9 * self.capacity { 0.0 } else { lack / self.per_s }
    }
}

/// What became of the calls of one provider, after the warm-up.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProviderCounts {
    pub(crate) calls: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) timed_out: u64,
    pub(crate) cost: f64,
}

/// One provider.
#[derive(Clone, Debug)]
pub(crate) struct ProviderState {
    first_token: Sampler,
    per_prompt_token_s: f64,
    per_token: Sampler,
    max_at_once: u32,
    pub(crate) busy: u32,
    requests: Option<Quota>,
    tokens: Option<Quota>,
    refused_calls_count: bool,
    retry_after_s: Option<f64>,
    retry_jitter: f64,
    error_rate: f64,
    pub(crate) error_after: Span,
    pub(crate) time_limit: Option<Span>,
    pub(crate) price_in: f64,
    pub(crate) price_out: f64,
    pub(crate) quality: f32,
    pub(crate) counts: ProviderCounts,
}

/// What a provider makes of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Answer {
    /// It comes: times to the first and the last token, seconds.
    Comes { first_s: f64, total_s: f64 },
    /// 429, with Retry-After.
    Refused { retry_after: Option<Span> },
    /// An error.
    Breaks,
}

/// A call as a provider sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProviderCall {
    /// Tokens of the prompt.
    pub(crate) prompt: u32,
    /// Tokens of the answer.
    pub(crate) answer: u32,
    /// The bound on them that the call states.
    pub(crate) bound: u32,
}

impl ProviderState {
    fn new(provider: &Provider) -> Result<Self, DistError> {
        let quota = |per_min: Option<f64>| per_min.map(|n| Quota::new(n, provider.burst_share));
        Ok(Self {
            first_token: provider.first_token_s.sampler()?,
            per_prompt_token_s: provider.per_prompt_token_s,
            per_token: provider.per_token_s.sampler()?,
            max_at_once: provider.max_at_once.unwrap_or(u32::MAX),
            busy: 0,
            requests: quota(provider.requests_per_min),
            tokens: quota(provider.tokens_per_min),
            refused_calls_count: provider.refused_calls_count,
            retry_after_s: provider.retry_after_s,
            retry_jitter: provider.retry_jitter,
            error_rate: provider.error_rate,
            error_after: Span::from_secs_f64(provider.error_after_s),
            time_limit: provider.time_limit_s.map(Span::from_secs_f64),
            price_in: provider.price_in_per_1k / 1000.0,
            price_out: provider.price_out_per_1k / 1000.0,
            quality: provider.quality as f32,
            counts: ProviderCounts::default(),
        })
    }

    /// A call comes in; one that is let in uses up quota and a place. `out`: the provider answers nobody.
    /// The draws stand in one order whatever happens, so that what is spared shifts nothing.
    pub(crate) fn call(&mut self, now: Time, call: &ProviderCall, out: bool, draw: &mut Draw) -> Answer {
        let (error, jitter) = (draw.uniform(), draw.uniform());
        if out {
            return Answer::Breaks;
        }
        let tokens = f64::from(call.prompt) + f64::from(call.bound);
        let lacks_s = |quota: &mut Option<Quota>, n| quota.as_mut().map_or(0.0, |q| q.lacks_s(now, n));
        let wait_s = lacks_s(&mut self.requests, 1.0).max(lacks_s(&mut self.tokens, tokens));
        let full = self.busy >= self.max_at_once;
        let refused = full || wait_s > 0.0;
        if !refused || self.refused_calls_count {
            for (quota, amount) in [(&mut self.requests, 1.0), (&mut self.tokens, tokens)] {
                if let Some(quota) = quota {
                    // A debt is bounded: a storm of refused calls locks it for two minutes at most.
                    quota.held = (quota.held - amount).max(quota.capacity - 120.0 * quota.per_s - amount);
                }
            }
        }
        if refused {
            // When a place falls free is not known before.
            let exact_s = (wait_s > 0.0).then_some(wait_s);
            let told_s = self.retry_after_s.or(exact_s).map(|s| s * (1.0 + self.retry_jitter * jitter));
            // Rounded up: whoever comes back then finds enough.
            let nanos = told_s.map(|s| libm::ceil(s * 1e9) as u64);
            return Answer::Refused { retry_after: nanos.map(Span::from_nanos) };
        }
        if error < self.error_rate {
            return Answer::Breaks;
        }
        self.busy += 1;
        let first_s = self.first_token.sample(draw) + self.per_prompt_token_s * f64::from(call.prompt);
        let further = f64::from(call.answer.saturating_sub(1));
        Answer::Comes { first_s, total_s: first_s + self.per_token.sample(draw) * further }
    }

    /// Whether its calls cost anything.
    pub(crate) fn has_price(&self) -> bool {
        self.price_in > 0.0 || self.price_out > 0.0
    }

    /// A call that was let in is over: its place is free, and its tokens are counted as they were.
    pub(crate) fn leave(&mut self, now: Time, call: &ProviderCall, tokens_out: f64) {
        self.busy -= 1;
        if let Some(quota) = &mut self.tokens {
            quota.refill(now);
            let back = f64::from(call.bound) - tokens_out;
            quota.held = (quota.held + back).min(quota.capacity);
        }
    }
}

/// The stage: its providers, and the attempts that wait for one to be asked again.
#[derive(Clone, Debug)]
pub(crate) struct ProvidersStage {
    pub(crate) list: Vec<ProviderState>,
    /// Those that wait, by place.
    pub(crate) waiting: BTreeMap<u64, AttemptId>,
    pub(crate) next_place: u64,
}

impl ProvidersStage {
    pub(crate) fn new(stage: &Providers) -> Result<Self, DistError> {
        let list = stage.providers.values().map(ProviderState::new).collect::<Result<_, _>>()?;
        Ok(Self { list, waiting: BTreeMap::new(), next_place: 0 })
    }

    /// Places that calls take at all providers together. One that is refused, or breaks, takes none.
    pub(crate) fn busy(&self) -> u64 {
        self.list.iter().map(|provider| u64::from(provider.busy)).sum()
    }

    /// What all providers together serve at once; `None`: one of them has no bound.
    pub(crate) fn capacity(stage: &Providers) -> Option<u64> {
        stage.providers.values().map(|provider| provider.max_at_once.map(u64::from)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Chance;

    const CALL: ProviderCall = ProviderCall { prompt: 60, answer: 11, bound: 40 };

    fn provider(text: &str) -> ProviderState {
        let text = format!("first_token_s = 1.0\nper_token_s = 0.1\n{text}");
        ProviderState::new(&toml::from_str(&text).expect("a provider")).expect("its laws")
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    fn call(provider: &mut ProviderState, seconds: f64) -> Answer {
        provider.call(at(seconds), &CALL, false, &mut Chance::new(7).draw(1))
    }

    #[test]
    fn an_answer_takes_first_and_further_tokens() {
        let answer = call(&mut provider("per_prompt_token_s = 0.01"), 0.0);
        let Answer::Comes { first_s, total_s } = answer else { panic!("{answer:?}") };
        assert!((first_s - 1.6).abs() < 1e-12 && (total_s - 2.6).abs() < 1e-12);
        assert_eq!(call(&mut provider("error_rate = 1"), 0.0), Answer::Breaks);
        let mut out = provider("");
        assert_eq!(out.call(at(0.0), &CALL, true, &mut Chance::new(7).draw(1)), Answer::Breaks);
    }

    #[test]
    fn a_quota_refills_steadily_and_tells_when_to_come_back() {
        let mut provider = provider("requests_per_min = 60\nburst_share = 0.05");
        // 3 at once, then one a second.
        for _ in 0..3 {
            assert!(matches!(call(&mut provider, 0.0), Answer::Comes { .. }));
        }
        let told = Answer::Refused { retry_after: Some(Span::from_secs_f64(1.0)) };
        assert_eq!(call(&mut provider, 0.0), told);
        assert!(matches!(call(&mut provider, 1.0), Answer::Comes { .. }));
        assert!(matches!(call(&mut provider, 1.5), Answer::Refused { .. }));
    }

    #[test]
    fn tokens_are_reserved_by_the_estimate_and_settled() {
        let mut provider = provider("tokens_per_min = 150");
        assert!(matches!(call(&mut provider, 0.0), Answer::Comes { .. }));
        // 100 of 150 are reserved, and 50 more are needed.
        let told = Answer::Refused { retry_after: Some(Span::from_secs_f64(20.0)) };
        assert_eq!(call(&mut provider, 0.0), told);
        // 11 tokens came of 40: 29 come back.
        provider.leave(at(0.0), &CALL, 11.0);
        let Answer::Refused { retry_after: Some(wait) } = call(&mut provider, 0.0) else { panic!("let in") };
        assert!((wait.as_secs_f64() - 8.4).abs() < 1e-6);
    }

    #[test]
    fn refused_calls_may_count_and_retry_after_may_be_fixed_and_lengthened() {
        let fixed = "requests_per_min = 60\nburst_share = 0.02\nretry_after_s = 60\n";
        let mut plain = provider(fixed);
        let mut counts = provider(&format!("{fixed}refused_calls_count = true\nretry_jitter = 0.2"));
        for provider in [&mut plain, &mut counts] {
            call(provider, 0.0);
        }
        let told = |answer| match answer {
            Answer::Refused { retry_after: Some(wait) } => wait.as_secs_f64(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told(call(&mut plain, 0.1)), 60.0);
        let lengthened = told(call(&mut counts, 0.1));
        assert!((60.0..=72.0).contains(&lengthened) && lengthened != 60.0);
        assert!(matches!(call(&mut plain, 1.1), Answer::Comes { .. }));
        assert!(matches!(call(&mut counts, 1.1), Answer::Refused { .. }));
    }

    #[test]
    fn a_full_provider_does_not_know_when_it_has_room() {
        let mut provider = provider("max_at_once = 1");
        assert!(matches!(call(&mut provider, 0.0), Answer::Comes { .. }));
        assert_eq!(call(&mut provider, 0.0), Answer::Refused { retry_after: None });
        provider.leave(at(0.5), &CALL, 11.0);
        assert!(matches!(call(&mut provider, 0.5), Answer::Comes { .. }));
    }
}
