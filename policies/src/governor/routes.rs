//! Routes: which provider a model call goes to, what stands in for an answer that cannot be had, and how
//! many documents are retrieved.
//!
//! A driver that calls external providers asks [`Governor::route`] before every call and reports every end
//! with [`Governor::provider_ended`], until an answer is there or the route ends. The gates at the model
//! call stand before the first question and count the whole walk as one call.

use super::{Governor, UNIT_CACHE, UNIT_PROVIDERS, UNIT_TOP_K};
use crate::admission::Refusal;
use crate::fallback::providers::{ProviderEnd, Route};
use crate::{Moment, Reason, Signals, Ticket};

impl Governor {
    /// Which of `count` providers, named by their place in the order of preference, the next call of an
    /// attempt goes to.
    pub fn route(&mut self, now: Moment, ticket: Ticket, count: u8) -> Route {
        let floor = self.tickets.get_mut(ticket).map(|slot| slot.request.class).map(|c| self.floors.of(c));
        let main_only = floor.is_some_and(|floor| floor.main_provider_only);
        let last_resort = self.policy.fallback.cache_last_resort.is_some();
        let routed = self.providers.route(now, ticket, count, (main_only, last_resort));
        if let Some(compared) = routed.compared {
            self.note(now, UNIT_PROVIDERS, &compared);
        }
        routed.route
    }

    /// A call that [`Governor::route`] sent has ended. True: a provider may be asked again that could not be
    /// before; attempts that were told to wait should ask now.
    pub fn provider_ended(
        &mut self,
        now: Moment,
        ticket: Ticket,
        provider: u8,
        end: ProviderEnd,
        latency_ns: u64,
    ) -> bool {
        if end == ProviderEnd::TimedOut {
            self.ladder.timed_out(now);
        }
        self.providers.ended(now, ticket, provider, end, latency_ns)
    }

    /// The model cannot answer an attempt. Whether the nearest cached answer, whose question is so similar
    /// (`None`: there is none), is served in its place.
    pub fn last_resort(&mut self, now: Moment, ticket: Ticket, similarity: Option<f32>) -> bool {
        let Some(rule) = &self.policy.fallback.cache_last_resort else { return false };
        let Some(similarity) = similarity.map(f64::from) else { return false };
        let class = self.tickets.get_mut(ticket).map(|slot| slot.request.class);
        let strict = class.is_some_and(|class| self.floors.of(class).is_red_line());
        let least = rule.min_similarity;
        if strict || similarity < least {
            return false;
        }
        self.note(now, UNIT_CACHE, &Refusal::new(Reason::CacheLastResort, similarity, least));
        true
    }

    /// How many documents a request that is admitted now retrieves; `None`: the endpoint's own number.
    #[inline]
    pub fn top_k(&mut self, now: Moment, signals: &Signals) -> Option<u16> {
        let (k, compared) = self.policy.fallback.top_k.as_ref()?.read(signals)?;
        if let Some(compared) = compared {
            self.note(now, UNIT_TOP_K, &compared);
        }
        Some(k)
    }
}
