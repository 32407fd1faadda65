//! Alerts: rules that tell people (published cases Q7, A1, A2).
//!
//! An alert is raised once, when its condition has held for `for_s`, and is over when the condition no
//! longer holds; then it can be raised again.
//!
//! `from_baseline` compares a signal with its own past: an exponential mean over `baseline_s`. The mean must
//! not learn the very change that it is to show, so it stands still while the alert's condition holds,
//! and for `baseline_s` after a parameter was changed. Then it learns for as long again before another
//! change can hold it: loops that change something every few seconds would otherwise keep it forever.

use super::Loop;
use super::control_center::Condition;
use crate::decision::Severity;
use crate::moment::nanos;
use crate::signal::SignalKind;
use crate::{Alert, Moment, PolicyError, Signals};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is sent along with an alert, so that it need not be searched for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Nothing.
    #[default]
    None,
    /// The three most frequent questions of the last hour that the rules did not match.
    TopUnmatched,
}

/// A rule that tells people.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AlertRule {
    /// The signal, after its filter.
    pub signal: SignalKind,
    /// The signal is above this; absent: not asked.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub above: Option<f64>,
    /// The signal is below this; absent: not asked.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub below: Option<f64>,
    /// The signal is further from its baseline than this share of it, on either side; absent: not asked.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub from_baseline: Option<f64>,
    /// Time over which the baseline is a mean, in seconds; it is used once it has learned for so long.
    #[serde(default = "one_hour")]
    #[schemars(range(min = 1.0, max = 864_000.0))]
    pub baseline_s: f64,
    /// How long the condition must hold, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 864_000.0))]
    pub for_s: f64,
    /// How urgent it is.
    pub severity: Severity,
    /// What is sent along.
    #[serde(default)]
    pub cause: Cause,
    /// The loop it runs on.
    #[serde(default, rename = "loop")]
    pub on: Loop,
}

fn one_hour() -> f64 {
    3_600.0
}

impl AlertRule {
    /// A rule on this signal that asks nothing yet.
    pub fn on(signal: SignalKind, severity: Severity) -> Self {
        Self {
            signal,
            above: None,
            below: None,
            from_baseline: None,
            baseline_s: one_hour(),
            for_s: 0.0,
            severity,
            cause: Cause::None,
            on: Loop::Routing,
        }
    }

    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        let bounded = self.above.is_some() || self.below.is_some();
        if bounded == self.from_baseline.is_some() {
            return Err(PolicyError::not_allowed(
                path,
                if bounded { "bounds and `from_baseline`" } else { "no condition" }.to_owned(),
                "`above`, `below` or both, or `from_baseline` alone",
            ));
        }
        let Self { signal, above, below, .. } = *self;
        if bounded { Condition { signal, above, below }.check(path) } else { Ok(()) }
    }
}

/// What is remembered of one alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) rule: AlertRule,
    since: Option<Moment>,
    raised: bool,
    baseline: Baseline,
}

/// The past of a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Baseline {
    mean: Option<f64>,
    /// When the mean was last looked after.
    at: Moment,
    learned_ns: u64,
    /// It has once learned for long enough.
    known: bool,
    still_until: Option<Moment>,
}

impl Baseline {
    /// Learns the value of the time since it was last looked after.
    fn learn(&mut self, now: Moment, value: f64, over_s: f64) {
        let elapsed_ns = now.since(self.at);
        self.at = now;
        if self.still_until.is_some_and(|until| now < until) {
            return;
        }
        if self.still_until.take().is_some() {
            self.learned_ns = 0;
        }
        match self.mean {
            None => self.mean = Some(value),
            Some(mean) => {
                self.learned_ns = self.learned_ns.saturating_add(elapsed_ns);
                self.known |= self.learned_ns >= nanos(over_s);
                let kept = libm::exp(-(elapsed_ns as f64) * 1e-9 / over_s);
                self.mean = Some(value + kept * (mean - value));
            }
        }
    }
}

impl State {
    pub(crate) fn new(rule: AlertRule) -> Self {
        Self { rule, since: None, raised: false, baseline: Baseline::default() }
    }

    /// Takes changed numbers over and keeps its clock.
    pub(crate) fn adopt(&mut self, rule: AlertRule) {
        self.rule = rule;
    }

    /// A parameter was changed: the baseline stands still for a while.
    pub(crate) fn changed(&mut self, now: Moment) {
        let baseline = &mut self.baseline;
        let span = nanos(self.rule.baseline_s);
        if self.rule.from_baseline.is_some() && baseline.learned_ns >= span && baseline.still_until.is_none()
        {
            baseline.still_until = Some(now.after(span));
        }
    }

    /// Reads the signals; returns an alert that begins now. `index` is the rule's.
    pub(crate) fn read(&mut self, now: Moment, index: usize, signals: &Signals) -> Option<Alert> {
        let found = signals.get(self.rule.signal)?;
        let threshold = self.compare(now, found);
        let Some(threshold) = threshold else {
            (self.since, self.raised) = (None, false);
            return None;
        };
        let since = *self.since.get_or_insert(now);
        if self.raised || now.since(since) < nanos(self.rule.for_s) {
            return None;
        }
        self.raised = true;
        let severity = self.rule.severity;
        Some(Alert { rule: index as u16, severity, since, at: now, found, threshold })
    }

    /// The threshold that the value has passed; `None`: the condition does not hold.
    fn compare(&mut self, now: Moment, value: f64) -> Option<f64> {
        let AlertRule { signal, above, below, baseline_s, .. } = self.rule;
        let Some(share) = self.rule.from_baseline else {
            let condition = Condition { signal, above, below };
            let holds = above.is_none_or(|above| value > above) && below.is_none_or(|below| value < below);
            return holds.then(|| condition.threshold());
        };
        let baseline = &mut self.baseline;
        if let Some(mean) = baseline.mean.filter(|_| baseline.known)
            && (value - mean).abs() > share * mean.abs()
        {
            baseline.at = now;
            return Some(if value < mean { mean - share * mean.abs() } else { mean + share * mean.abs() });
        }
        baseline.learn(now, value, baseline_s);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Reading;

    const S: u64 = 1_000_000_000;

    /// The seconds at which the alert is raised when the signal is read each second.
    fn raised(state: &mut State, seconds: std::ops::Range<u64>, value: impl Fn(u64) -> f64) -> Vec<u64> {
        let signal = state.rule.signal;
        let mut signals = Signals::default();
        seconds
            .filter(|&second| {
                let now = Moment(second * S);
                signals.deliver(now, &Reading::new(now).with(signal, value(second)));
                state.read(now, 0, &signals).is_some()
            })
            .collect()
    }

    #[test]
    fn it_is_raised_once_an_episode_after_its_time() {
        let rule = AlertRule {
            below: Some(0.1),
            for_s: 30.0,
            ..AlertRule::on(SignalKind::TokenBalance, Severity::P0)
        };
        // Low from 10 to 35 s, too short; from 50 to 200 s; and from 210 s on.
        let low = |second| matches!(second, 10..35 | 50..200 | 210..);
        let at = raised(&mut State::new(rule), 0..300, |second| if low(second) { 0.05 } else { 0.5 });
        assert_eq!(at, [80, 240]);
    }

    #[test]
    fn a_signal_that_was_never_measured_raises_nothing() {
        let rule = AlertRule { below: Some(0.85), ..AlertRule::on(SignalKind::Csat, Severity::P1) };
        assert_eq!(State::new(rule).read(Moment(S), 0, &Signals::default()), None);
    }

    fn drift() -> State {
        let rule = AlertRule {
            from_baseline: Some(0.05),
            baseline_s: 600.0,
            ..AlertRule::on(SignalKind::Csat, Severity::P1)
        };
        State::new(rule)
    }

    #[test]
    fn more_than_its_share_from_the_baseline_on_either_side() {
        for (after, alerts) in [(0.86, true), (0.956, true), (0.94, false), (0.87, false)] {
            let mut state = drift();
            assert!(raised(&mut state, 0..1000, |_| 0.91).is_empty());
            assert_eq!(!raised(&mut state, 1000..1100, |_| after).is_empty(), alerts, "{after}");
        }
    }

    #[test]
    fn a_baseline_that_has_not_learned_is_not_used() {
        assert!(raised(&mut drift(), 0..599, |second| 0.5 + 0.0005 * second as f64).is_empty());
    }

    /// After a change the signal sinks so slowly that a baseline which learned on would follow it.
    #[test]
    fn after_a_change_the_baseline_stands_still() {
        let sinking = |second: u64| 0.9 - 0.000_13 * second.saturating_sub(1000) as f64;
        let run = |changed: bool| {
            let mut state = drift();
            raised(&mut state, 0..1000, sinking);
            if changed {
                state.changed(Moment(1000 * S));
            }
            raised(&mut state, 1000..1450, sinking)
        };
        // 5 % of 0.9 is 0.045: gone after 346.2 s.
        assert_eq!(run(true), [1347]);
        assert!(run(false).is_empty());
    }
}
