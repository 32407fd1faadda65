//! Why a decision was taken, in words: the rule, the values it compared, the threshold.
//!
//! A governor keeps the newest comparison behind each reason, so that explaining costs the decisions
//! themselves no more than one write.

use super::loops::Author;
use super::tickets::Standing;
use super::{Governor, UNIT_CACHE, UNIT_PROVIDERS, UNIT_QUEUE, UNIT_RERANK, UNIT_STORE, UNIT_TOP_K};
use crate::admission::Refusal;
use crate::{Moment, Reason, Ticket};
use serde::{Deserialize, Serialize};

/// The newest comparison behind a reason.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Evidence {
    /// The admission module's index, or one of the constants for other modules.
    unit: u8,
    /// The loop's rule that decided, if one did.
    author: Option<Author>,
    found: f64,
    threshold: f64,
    at: Moment,
}

/// Why a decision was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Its code.
    pub reason: Reason,
    /// Path of the module that decided, such as `admission.entry`; empty when nothing stood in the way.
    pub module: String,
    /// The rule, in one sentence.
    pub rule: String,
    /// What was compared, with its unit.
    pub quantity: String,
    /// The value found.
    pub found: f64,
    /// What it was compared with, with its unit.
    pub threshold_name: String,
    /// The threshold.
    pub threshold: f64,
    /// When the rule last decided so.
    pub at: Moment,
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.module.is_empty() {
            return write!(f, "{}: {}", self.reason, self.rule);
        }
        let at_s = self.at.seconds_since(Moment::ZERO);
        write!(f, "{} ({}, at {at_s:.3} s): {} ", self.reason, self.module, self.rule)?;
        write!(f, "{}: {}; {}: {}", self.quantity, self.found, self.threshold_name, self.threshold)
    }
}

impl Governor {
    /// Notes the comparison behind a decision.
    #[inline]
    pub(super) fn note(&mut self, now: Moment, unit: u8, refusal: &Refusal) {
        let Refusal { why, found, threshold, .. } = *refusal;
        self.evidence[why.index()] = Some(Evidence { unit, author: None, found, threshold, at: now });
    }

    /// Notes the comparison behind what happened by the clock. `author`: the loop's rule that decided;
    /// absent: the store.
    pub(super) fn note_tick(&mut self, now: Moment, author: Option<Author>, compared: &Refusal) {
        let Refusal { why, found, threshold, .. } = *compared;
        self.evidence[why.index()] = Some(Evidence { unit: UNIT_STORE, author, found, threshold, at: now });
    }

    /// Explains the newest decision that was taken for this reason; `None`: it was never taken, so there
    /// are no values to show.
    pub fn explain(&self, reason: Reason) -> Option<Explanation> {
        let evidence = match reason {
            Reason::Normal => {
                Evidence { unit: 0, author: None, found: 0.0, threshold: 0.0, at: Moment::ZERO }
            }
            _ => self.evidence.get(reason.index()).copied().flatten()?,
        };
        Some(self.explained(reason, evidence))
    }

    /// Explains what an attempt is held for: the gate that is full, how many are inside, how many it
    /// allows; `None`: it is held at no gate.
    pub fn explain_wait(&mut self, now: Moment, ticket: Ticket) -> Option<Explanation> {
        let slot = self.tickets.get_mut(ticket)?;
        let Standing::Waiting { gate: unit, .. } = slot.standing else { return None };
        let request = slot.request;
        let key = self.key_at(unit, &request);
        let gate = self.gate(unit)?;
        let (reason, (found, threshold)) = (gate.full, gate.inside(key));
        Some(self.explained(reason, Evidence { unit, author: None, found, threshold, at: now }))
    }

    fn explained(&self, reason: Reason, evidence: Evidence) -> Explanation {
        let (quantity, threshold_name) = reason.compares();
        Explanation {
            reason,
            module: match evidence.author {
                Some(author) => author.path(&self.policy),
                None => self.module_path(reason, evidence.unit),
            },
            rule: reason.rule().to_owned(),
            quantity: quantity.to_owned(),
            found: evidence.found,
            threshold_name: threshold_name.to_owned(),
            threshold: evidence.threshold,
            at: evidence.at,
        }
    }

    fn module_path(&self, reason: Reason, unit: u8) -> String {
        match (reason, unit) {
            (Reason::Normal, _) => String::new(),
            (Reason::ClassMinLevel | Reason::ClassUnavailable | Reason::ClassMainProviderOnly, _) => {
                "fallback.class".to_owned()
            }
            (_, UNIT_STORE) => "store".to_owned(),
            (_, UNIT_QUEUE) => "queue".to_owned(),
            (_, UNIT_RERANK) => "fallback.rerank".to_owned(),
            (_, UNIT_PROVIDERS) => "fallback.providers".to_owned(),
            (_, UNIT_CACHE) => "fallback.cache_last_resort".to_owned(),
            (_, UNIT_TOP_K) => "fallback.top_k".to_owned(),
            (_, super::UNIT_LADDER) => {
                let level = reason.code().split('.').next().unwrap_or_default();
                format!("fallback.{level}")
            }
            (_, unit) => match self.policy.admission.get_index(usize::from(unit)) {
                Some((name, _)) => format!("admission.{name}"),
                None => "admission".to_owned(),
            },
        }
    }
}
