//! Alerts that were raised, with time and cause.
//!
//! The cause that the published rules ask for is the three most frequent questions of the last hour that
//! the rules did not match (cases A1, F8). A question's topic is its class: questions that no FAQ entry
//! matches count when they were answered at L3 or not at all. Counts are kept by minute for an hour, and
//! only where an alert asks for them.

use forebay_engine::Time;
use forebay_policies::feedback::alerts::Cause;
use forebay_policies::{Alert, Policy, Severity};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Alerts beyond so many are counted, and not kept.
const MOST_ALERTS: usize = 1000;
/// Topics that are sent along.
const TOPICS: usize = 3;
/// Minutes that topics are counted over.
const MINUTES: usize = 60;
const MINUTE_NS: u64 = 60_000_000_000;

/// An alert that was raised.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RaisedAlert {
    /// Name of its rule.
    pub rule: String,
    /// How urgent it is.
    pub severity: Severity,
    /// When it was raised, seconds.
    pub at_s: f64,
    /// Since when its condition held, seconds.
    pub since_s: f64,
    /// The value that was found.
    pub found: f64,
    /// What it was compared with.
    pub threshold: f64,
    /// The most frequent unmatched questions of the last hour, where the rule asks for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<Topic>,
}

/// Questions of one class that the rules did not match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    /// The class.
    pub class: String,
    /// How many.
    pub requests: u64,
}

/// Unmatched questions of the last hour, by class.
#[derive(Clone, Debug)]
struct Topics {
    /// Counts by class of each minute in which there were any, oldest first.
    minutes: VecDeque<(u64, Vec<u64>)>,
    classes: usize,
}

impl Topics {
    fn forget_before(&mut self, minute: u64) {
        while self.minutes.front().is_some_and(|(at, _)| at + MINUTES as u64 <= minute) {
            self.minutes.pop_front();
        }
    }

    fn count(&mut self, now: Time, class: u16) {
        let minute = now.as_nanos() / MINUTE_NS;
        if self.minutes.back().is_none_or(|(at, _)| *at != minute) {
            self.forget_before(minute);
            self.minutes.push_back((minute, vec![0; self.classes]));
        }
        if let Some((_, counts)) = self.minutes.back_mut() {
            counts[usize::from(class)] += 1;
        }
    }

    /// The most frequent ones; among equals the one that the scenario names first.
    fn top(&mut self, now: Time) -> Vec<(usize, u64)> {
        self.forget_before(now.as_nanos() / MINUTE_NS);
        let sum = |class: usize| self.minutes.iter().map(|(_, counts)| counts[class]).sum::<u64>();
        let mut all: Vec<(usize, u64)> = (0..self.classes).map(|class| (class, sum(class))).collect();
        all.retain(|&(_, requests)| requests > 0);
        all.sort_by_key(|&(class, requests)| (std::cmp::Reverse(requests), class));
        all.truncate(TOPICS);
        all
    }
}

/// An alert as it was raised; names are put in at the end.
#[derive(Clone, Debug)]
struct Raised {
    alert: Alert,
    at: Time,
    top: Vec<(usize, u64)>,
}

/// The account of the alerts.
#[derive(Clone, Debug)]
pub(crate) struct AlertLog {
    rules: Vec<Rule>,
    topics: Option<Topics>,
    raised: Vec<Raised>,
    /// Alerts that were not kept.
    beyond: u64,
}

/// What the log needs to know of a rule.
#[derive(Clone, Debug)]
struct Rule {
    name: String,
    wants_topics: bool,
}

/// The policy's alert rules, in the order in which alerts number them.
fn rules(policy: &Policy) -> Vec<Rule> {
    let rules = policy.feedback.alert_rules().into_iter();
    rules.map(|(name, rule)| Rule { name, wants_topics: rule.cause == Cause::TopUnmatched }).collect()
}

impl AlertLog {
    pub(crate) fn new(policy: &Policy, classes: usize) -> Self {
        Self::of(rules(policy), classes)
    }

    fn of(rules: Vec<Rule>, classes: usize) -> Self {
        let topics = rules
            .iter()
            .any(|rule| rule.wants_topics)
            .then(|| Topics { minutes: VecDeque::with_capacity(MINUTES + 1), classes });
        Self { rules, topics, raised: Vec::new(), beyond: 0 }
    }

    /// A question that the rules did not match was answered by them all the same, or not at all.
    #[inline]
    pub(crate) fn unmatched(&mut self, now: Time, class: u16) {
        if let Some(topics) = &mut self.topics {
            topics.count(now, class);
        }
    }

    /// The name of a rule.
    pub(crate) fn name(&self, rule: u16) -> Option<&str> {
        self.rules.get(usize::from(rule)).map(|rule| rule.name.as_str())
    }

    /// Alerts were raised.
    pub(crate) fn add(&mut self, now: Time, alerts: &[Alert]) {
        for &alert in alerts {
            if self.raised.len() == MOST_ALERTS {
                self.beyond += 1;
                continue;
            }
            let wants = self.rules.get(usize::from(alert.rule)).is_some_and(|rule| rule.wants_topics);
            let topics = self.topics.as_mut().filter(|_| wants);
            let top = topics.map(|topics| topics.top(now)).unwrap_or_default();
            self.raised.push(Raised { alert, at: now, top });
        }
    }

    /// How many were raised, those that were not kept included.
    pub(crate) fn count(&self) -> u64 {
        self.raised.len() as u64 + self.beyond
    }

    /// The alerts that were kept, by the names of the scenario's classes.
    pub(crate) fn raised<'a>(&self, classes: impl Iterator<Item = &'a String>) -> Vec<RaisedAlert> {
        let classes: Vec<&String> = classes.collect();
        let with_names = |raised: &Raised| {
            let Alert { rule, severity, since, at, found, threshold } = raised.alert;
            let topic = |&(class, requests): &(usize, u64)| {
                classes.get(class).map(|name| Topic { class: (*name).clone(), requests })
            };
            RaisedAlert {
                rule: self.name(rule).map_or_else(|| format!("rule {rule}"), str::to_owned),
                severity,
                at_s: raised.at.as_secs_f64(),
                // The governor's own clock may be off: how long it held is what it tells.
                since_s: raised.at.as_secs_f64() - at.seconds_since(since),
                found,
                threshold,
                unmatched: raised.top.iter().filter_map(topic).collect(),
            }
        };
        self.raised.iter().map(with_names).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Span;
    use forebay_policies::Moment;

    fn at(minutes: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(60.0 * minutes)
    }

    fn log() -> AlertLog {
        let rule = |name: &str, wants_topics| Rule { name: name.to_owned(), wants_topics };
        AlertLog::of(vec![rule("queue", false), rule("l3_share", true)], 5)
    }

    fn alert(rule: u16, now: Time) -> Alert {
        let at = Moment(now.as_nanos());
        let since = Moment(now.as_nanos() - MINUTE_NS);
        Alert { rule, severity: Severity::P1, since, at, found: 0.4, threshold: 0.3 }
    }

    #[test]
    fn the_three_most_frequent_topics_of_the_last_hour_are_sent_along() {
        let mut log = log();
        for (minute, class, n) in
            [(1.0, 0, 50), (30.0, 1, 3), (31.0, 2, 7), (50.0, 1, 3), (60.5, 3, 1), (60.7, 4, 6)]
        {
            (0..n).for_each(|_| log.unmatched(at(minute), class));
        }
        log.add(at(61.0), &[alert(0, at(61.0)), alert(1, at(61.0))]);
        let names: Vec<String> = ["a", "b", "c", "d", "e"].map(str::to_owned).to_vec();
        let raised = log.raised(names.iter());
        assert_eq!((raised[0].rule.as_str(), raised[0].unmatched.len()), ("queue", 0));
        let topics: Vec<_> = raised[1].unmatched.iter().map(|t| (t.class.as_str(), t.requests)).collect();
        // What was asked an hour ago is forgotten; of two that are as frequent the first is named first.
        assert_eq!(topics, [("c", 7), ("b", 6), ("e", 6)]);
        assert_eq!((raised[1].at_s, raised[1].since_s), (3660.0, 3600.0));
    }

    #[test]
    fn more_alerts_than_fit_are_counted() {
        let mut log = log();
        (0..MOST_ALERTS + 5).for_each(|_| log.add(at(1.0), &[alert(0, at(1.0))]));
        assert_eq!((log.raised.len(), log.count()), (MOST_ALERTS, MOST_ALERTS as u64 + 5));
    }
}
