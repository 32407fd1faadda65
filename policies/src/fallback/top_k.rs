//! How many documents are retrieved (published case R6): fewer when the service is busy. Two rules, on the
//! arrival rate and on the vector store's latency; each may be used alone, and the smaller number counts.
//! A signal that is not measured changes nothing.

use crate::admission::Refusal;
use crate::{Reason, SignalKind, Signals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many documents are retrieved; the published values are the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TopK {
    /// The signal that is followed.
    pub by: TopKBy,
    /// Arrivals per second from which `medium` documents are retrieved.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub medium_from_per_s: f64,
    /// Arrivals per second from which `few` documents are retrieved.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub few_from_per_s: f64,
    /// Mean latency of the vector store, in milliseconds, from which `medium` documents are retrieved.
    #[schemars(range(min = 0.0, max = 3_600_000.0))]
    pub medium_from_ms: f64,
    /// Mean latency of the vector store, in milliseconds, from which `few` documents are retrieved.
    #[schemars(range(min = 0.0, max = 3_600_000.0))]
    pub few_from_ms: f64,
    /// Documents while the signal is below both thresholds.
    #[schemars(range(min = 1, max = 10_000))]
    pub many: u16,
    /// Documents from the first threshold on.
    #[schemars(range(min = 1, max = 10_000))]
    pub medium: u16,
    /// Documents from the second threshold on.
    #[schemars(range(min = 1, max = 10_000))]
    pub few: u16,
}

/// The signal that the number of documents follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TopKBy {
    /// The arrival rate.
    #[default]
    ArrivalRate,
    /// The latency of the vector store.
    StoreLatency,
    /// Both: the smaller number of documents counts.
    Both,
}

impl Default for TopK {
    fn default() -> Self {
        Self {
            by: TopKBy::ArrivalRate,
            medium_from_per_s: 50.0,
            few_from_per_s: 150.0,
            medium_from_ms: 35.0,
            few_from_ms: 100.0,
            many: 50,
            medium: 30,
            few: 15,
        }
    }
}

impl TopK {
    pub(crate) fn check(&self, path: &str) -> Result<(), crate::PolicyError> {
        use crate::PolicyError;
        let rate = [("medium_from_per_s", self.medium_from_per_s), ("few_from_per_s", self.few_from_per_s)];
        let latency = [("medium_from_ms", self.medium_from_ms), ("few_from_ms", self.few_from_ms)];
        let documents = ["few", "medium", "many"].into_iter().zip([self.few, self.medium, self.many]);
        let documents: Vec<_> = documents.map(|(name, k)| (name, f64::from(k))).collect();
        for pair in [&rate[..], &latency[..], &documents[..2], &documents[1..]] {
            PolicyError::ordered(path, pair[0], pair[1])?;
        }
        Ok(())
    }

    /// How many documents are retrieved now, and the comparison behind a number below `many`; `None`: the
    /// signal is not measured.
    #[inline]
    pub(crate) fn read(&self, signals: &Signals) -> Option<(u16, Option<Refusal>)> {
        let rate = (self.by != TopKBy::StoreLatency).then(|| {
            let found = signals.get(SignalKind::ArrivalRate)?;
            Some(self.step(Reason::TopKRate, found, self.medium_from_per_s, self.few_from_per_s))
        });
        let latency = (self.by != TopKBy::ArrivalRate).then(|| {
            let found = signals.get(SignalKind::StoreLatency)?;
            let (medium_s, few_s) = (self.medium_from_ms / 1e3, self.few_from_ms / 1e3);
            Some(self.step(Reason::TopKStoreLatency, found, medium_s, few_s))
        });
        [rate, latency].into_iter().flatten().flatten().min_by_key(|(k, _)| *k)
    }

    fn step(&self, why: Reason, found: f64, medium_from: f64, few_from: f64) -> (u16, Option<Refusal>) {
        if found >= few_from {
            (self.few, Some(Refusal::new(why, found, few_from)))
        } else if found >= medium_from {
            (self.medium, Some(Refusal::new(why, found, medium_from)))
        } else {
            (self.many, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Moment, Reading};

    fn at(kind: SignalKind, value: f64) -> Signals {
        let mut signals = Signals::default();
        signals.deliver(Moment(0), &Reading::new(Moment(0)).with(kind, value));
        signals
    }

    /// Published case R6.
    #[test]
    fn fewer_documents_at_higher_rates() {
        let top_k = TopK::default();
        let k = |rate| top_k.read(&at(SignalKind::ArrivalRate, rate)).map(|(k, _)| k);
        assert_eq!([0.0, 49.9, 50.0, 149.9, 150.0, 1e6].map(k), [50, 50, 30, 30, 15, 15].map(Some));
        assert_eq!(top_k.read(&Signals::default()), None);
        let (_, compared) = top_k.read(&at(SignalKind::ArrivalRate, 60.0)).unwrap();
        assert_eq!(compared, Some(Refusal::new(Reason::TopKRate, 60.0, 50.0)));
    }

    #[test]
    fn the_smaller_of_two_rules_counts() {
        let mut signals = at(SignalKind::ArrivalRate, 60.0);
        signals.deliver(Moment(1), &Reading::new(Moment(1)).with(SignalKind::StoreLatency, 0.2));
        let k = |by| TopK { by, ..TopK::default() }.read(&signals).map(|(k, _)| k);
        assert_eq!(k(TopKBy::ArrivalRate), Some(30));
        assert_eq!(k(TopKBy::StoreLatency), Some(15));
        assert_eq!(k(TopKBy::Both), Some(15));
    }

    #[test]
    fn thresholds_and_documents_are_in_order() {
        TopK::default().check("top_k").unwrap();
        let wrong = TopK { few: 40, ..TopK::default() };
        assert_eq!(wrong.check("top_k").unwrap_err().path(), "top_k.few");
        let wrong = TopK { medium_from_per_s: 200.0, ..TopK::default() };
        assert_eq!(wrong.check("top_k").unwrap_err().path(), "top_k.medium_from_per_s");
    }
}
