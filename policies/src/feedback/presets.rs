//! The published rules and alerts, by name: what `feedback.presets` takes.

use super::Loop;
use super::alerts::{AlertRule, Cause};
use super::control_center::{Condition, Rule};
use crate::decision::Severity;
use crate::signal::SignalKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameter of case C1: the score that a request needs to be answered at L1.
pub const L1_THRESHOLD: &str = "queue.l1_score_at_least";
/// The parameter of case C2: the share of service that the queue of L3 has.
pub const L3_WEIGHT: &str = "queue.weights.degraded";

/// A published rule or alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Preset {
    /// Rule C1: memory above 95 % and fewer than 50 in the first queue: only scores of 0.7 get L1.
    C1,
    /// Rule C2: more than 200 in the first queue and less than 10 % answered at L3: L3 gets weight 0.6.
    C2,
    /// Alert A1: a token balance below 10 % for 30 s.
    TokenBalanceLow,
    /// Alert A1: more than 100 in the first queue for 60 s.
    QueueHighLong,
    /// Alert A1: more than 30 % answered at L3 for 5 min; with the most frequent unmatched questions.
    L3ShareHigh,
    /// Alert A1: satisfaction below 85 % for 1 h.
    CsatLow,
    /// Alert A2: satisfaction more than 5 % from its baseline.
    CsatDrift,
    /// Alert Q7: more than 100 in the first queue, at once.
    QueueHigh,
    /// Alert Q7: more than 500 in the second queue: a warning.
    QueueStandard,
    /// Alert Q7: more than 50 in the third queue: look after the fallback.
    QueueDegraded,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::C1,
        Self::C2,
        Self::TokenBalanceLow,
        Self::QueueHighLong,
        Self::L3ShareHigh,
        Self::CsatLow,
        Self::CsatDrift,
        Self::QueueHigh,
        Self::QueueStandard,
        Self::QueueDegraded,
    ];

    /// Its name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::C1 => "c1",
            Self::C2 => "c2",
            Self::TokenBalanceLow => "token_balance_low",
            Self::QueueHighLong => "queue_high_long",
            Self::L3ShareHigh => "l3_share_high",
            Self::CsatLow => "csat_low",
            Self::CsatDrift => "csat_drift",
            Self::QueueHigh => "queue_high",
            Self::QueueStandard => "queue_standard",
            Self::QueueDegraded => "queue_degraded",
        }
    }

    /// The rule of the control centre, if it is one.
    pub fn rule(self) -> Option<Rule> {
        use SignalKind as K;
        let (when, set, to) = match self {
            Self::C1 => {
                let when = vec![Condition::above(K::Vram, 0.95), Condition::below(K::QueueHigh, 50.0)];
                (when, L1_THRESHOLD, 0.7)
            }
            Self::C2 => {
                let when = vec![Condition::above(K::QueueHigh, 200.0), Condition::below(K::L3Share, 0.1)];
                (when, L3_WEIGHT, 0.6)
            }
            _ => return None,
        };
        Some(Rule { when, set: set.to_owned(), to, otherwise: None, hold_s: 0.0, on: Loop::Routing })
    }

    /// The alert, if it is one.
    pub fn alert(self) -> Option<AlertRule> {
        use SignalKind as K;
        let above = |signal, value, for_s, severity| AlertRule {
            above: Some(value),
            for_s,
            ..AlertRule::on(signal, severity)
        };
        let below = |signal, value, for_s, severity| AlertRule {
            below: Some(value),
            for_s,
            ..AlertRule::on(signal, severity)
        };
        Some(match self {
            Self::C1 | Self::C2 => return None,
            Self::TokenBalanceLow => below(K::TokenBalance, 0.1, 30.0, Severity::P0),
            Self::QueueHighLong => above(K::QueueHigh, 100.0, 60.0, Severity::P1),
            Self::L3ShareHigh => {
                AlertRule { cause: Cause::TopUnmatched, ..above(K::L3Share, 0.3, 300.0, Severity::P2) }
            }
            Self::CsatLow => below(K::Csat, 0.85, 3_600.0, Severity::P1),
            Self::CsatDrift => {
                AlertRule { from_baseline: Some(0.05), ..AlertRule::on(K::Csat, Severity::P1) }
            }
            Self::QueueHigh => above(K::QueueHigh, 100.0, 0.0, Severity::P1),
            Self::QueueStandard => above(K::QueueStandard, 500.0, 0.0, Severity::P2),
            Self::QueueDegraded => above(K::QueueDegraded, 50.0, 0.0, Severity::P2),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_rule_or_an_alert_under_its_name_in_files() {
        for preset in Preset::ALL {
            assert_eq!(serde_json::to_value(preset).unwrap(), preset.name());
            assert!(preset.rule().is_some() != preset.alert().is_some(), "{preset:?}");
            assert!(preset.alert().is_none_or(|alert| alert.check("").is_ok()));
        }
    }
}
