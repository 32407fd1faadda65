//! At most `max_at_once` inside; the others wait a while, or are told "busy" (published cases G1, G5,
//! G6, R3, R5).
//!
//! At the front and after retrieval a permit is held until the attempt is over; at a call, until the
//! call ends. A gate at the front cannot make a request wait: that is what a queue is for.

use super::{Gate, Key, Limit, Limiter, Verdict, WhenFull, front, permits::Permits};
use crate::moment::nanos;
use crate::{Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a call is answered when the gate stays full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFull {
    /// "Busy": the attempt ends with an answer that says so.
    #[default]
    Busy,
    /// Go on without the call.
    Skip,
}

/// Parameters of the concurrency gate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConcurrencyGate {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// How many may be inside at once.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_at_once: u32,
    /// Longest wait for a permit, in seconds; 0: none. Must be 0 at the front.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 3_600.0))]
    pub wait_at_most_s: f64,
    /// The answer when no permit came free in time.
    #[serde(default)]
    pub on_full: OnFull,
    /// After how many seconds a client that was told "busy" may try again.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_s: Option<f64>,
    /// With `on_full = "skip"`: how many results of the stage before are kept.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 10_000))]
    pub keep: u16,
}

fn five() -> u16 {
    5
}

impl ConcurrencyGate {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        if self.place == Site::Front && self.wait_at_most_s > 0.0 {
            return Err(PolicyError::not_allowed(
                format!("{path}.wait_at_most_s"),
                self.wait_at_most_s.to_string(),
                "0 at the front, where waiting is the queue's",
            ));
        }
        if self.place == Site::Front && self.on_full == OnFull::Skip {
            return Err(PolicyError::not_allowed(
                format!("{path}.on_full"),
                "skip",
                "busy at the front, where there is no call to skip",
            ));
        }
        Ok(())
    }
}

/// The permits that are out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    limit: u32,
    wait_ns: u64,
    answer: WhenFull,
    permits: Permits,
}

impl Limiter for State {
    type Parameters = ConcurrencyGate;

    fn new(parameters: &ConcurrencyGate) -> Self {
        Self {
            limit: parameters.max_at_once,
            wait_ns: nanos(parameters.wait_at_most_s),
            answer: WhenFull {
                retry_after_ns: parameters.retry_after_s.map(nanos),
                keep: (parameters.on_full == OnFull::Skip).then_some(parameters.keep),
            },
            permits: Permits::new(parameters.key),
        }
    }

    fn adopt(&mut self, _: Moment, parameters: &ConcurrencyGate) {
        let permits = std::mem::replace(&mut self.permits, Permits::new(Key::Global));
        *self = Self { permits, ..Self::new(parameters) };
    }

    #[inline]
    fn ask(&mut self, _: Moment, key: u64, _: &RequestView, _: &Signals) -> Verdict {
        match self.permits.take(key, Limit::Same(self.limit)) {
            Ok(()) => Verdict::Hold,
            Err(inside) => {
                let (inside, limit) = (f64::from(inside), f64::from(self.limit));
                Verdict::Refuse(self.answer.refusal(Reason::GateFull, inside, limit))
            }
        }
    }

    #[inline]
    fn most_inside(&self) -> Option<u32> {
        Some(self.permits.most())
    }

    fn gate(&mut self) -> Option<Gate<'_>> {
        Some(Gate {
            permits: &mut self.permits,
            limit: Limit::Same(self.limit),
            wait_ns: self.wait_ns,
            full: Reason::GateFull,
            expired: Reason::GateWaitExpired,
            answer: self.answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ticket;

    fn gate(place: Site, wait_at_most_s: f64, on_full: OnFull) -> ConcurrencyGate {
        ConcurrencyGate {
            place,
            key: Key::Endpoint,
            max_at_once: 2,
            wait_at_most_s,
            on_full,
            retry_after_s: Some(5.0),
            keep: 7,
        }
    }

    #[test]
    fn it_holds_its_limit_per_key() {
        let mut state = State::new(&gate(Site::LlmCall, 0.0, OnFull::Busy));
        let signals = Signals::default();
        let mut ask = |key| state.ask(Moment(0), key, &RequestView::new(Ticket(0)), &signals);
        assert_eq!([ask(1), ask(1), ask(2)], [Verdict::Hold; 3]);
        let Verdict::Refuse(refusal) = ask(1) else { panic!("a third went in") };
        assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::GateFull, 2.0, 2.0));
        assert_eq!((refusal.retry_after_ns, refusal.keep), (Some(5_000_000_000), None));
        state.permits.give_back(1);
        assert_eq!(state.ask(Moment(0), 1, &RequestView::new(Ticket(0)), &signals), Verdict::Hold);
    }

    #[test]
    fn waiting_and_skipping_at_the_front_are_refused() {
        let path =
            |parameters: &ConcurrencyGate| parameters.check("admission.g").unwrap_err().path().to_owned();
        assert_eq!(path(&gate(Site::Front, 1.0, OnFull::Busy)), "admission.g.wait_at_most_s");
        assert_eq!(path(&gate(Site::Front, 0.0, OnFull::Skip)), "admission.g.on_full");
        gate(Site::LlmCall, 1.0, OnFull::Skip).check("admission.g").unwrap();
    }
}
