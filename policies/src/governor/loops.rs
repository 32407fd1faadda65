//! What the governor does by the clock: the ladder, the queue, the store, and the feedback loops.
//!
//! Every command goes one way: a rule has a wish, the guard lets it pass, cuts it or holds it back, the
//! policy is changed as [`Governor::set`] changes it, and the command is reported. A tick without a
//! command reads signals and compares numbers; it builds no text and takes no memory.

use super::{Governor, TICK_NS};
use crate::admission::Refusal;
use crate::feedback::control_center::{self, Wish};
use crate::feedback::guard::{Actuator, Suppressed, Verdict};
use crate::feedback::{Feedback, Loop, alerts, setpoint};
use crate::moment::nanos;
use crate::queueing;
use crate::store::FallbackUses;
use crate::{Command, Moment, Notice, Policy, Reason, Signals, Ticked};
use serde::{Deserialize, Serialize};

/// Which rule of the feedback did something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Author {
    /// A rule of the control centre, by its index.
    Rule(usize),
    Forecast,
    /// A controller, by its index.
    Setpoint(usize),
}

impl Author {
    /// Its path in the policy.
    pub(super) fn path(self, policy: &Policy) -> String {
        let feedback = &policy.feedback;
        match self {
            Self::Rule(index) => {
                let rules = feedback.rules();
                let name = rules.get(index).map(|(name, _)| name.as_str()).unwrap_or_default();
                let table = if index < feedback.control_center.len() { "control_center" } else { "presets" };
                format!("feedback.{table}.{name}")
            }
            Self::Forecast => "feedback.forecast".to_owned(),
            Self::Setpoint(index) => {
                let name = feedback.setpoints.get_index(index).map(|(name, _)| name.as_str());
                format!("feedback.setpoints.{}", name.unwrap_or_default())
            }
        }
    }
}

/// What came of a wish.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// The parameter has the value.
    InForce,
    /// The parameter was moved towards the value.
    Cut,
    HeldBack,
}

/// When a loop runs next after `now`: at the next multiple of its period.
fn next_run(now: Moment, which: Loop, feedback: &Feedback) -> Moment {
    let period = nanos(feedback.loops.of(which)).max(1);
    Moment((now.0 / period + 1).saturating_mul(period))
}

/// State of the feedback loops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Loops {
    /// Of each loop: when it runs next; `None`: nothing runs on it.
    due: [Option<Moment>; 3],
    actuators: Vec<Actuator>,
    rules: Vec<control_center::State>,
    setpoints: Vec<setpoint::State>,
    /// The parameter that follows the forecast.
    forecast: Option<usize>,
    forecast_counted: bool,
    alerts: Vec<alerts::State>,
    suppressed: Suppressed,
}

impl Loops {
    pub(super) fn new(policy: &Policy) -> Self {
        let feedback = &policy.feedback;
        let mut actuators: Vec<Actuator> = Vec::new();
        let mut actuator = |path: &str| {
            actuators.iter().position(|known| known.path == path).unwrap_or_else(|| {
                actuators.push(Actuator::new(path, policy));
                actuators.len() - 1
            })
        };
        let rules = feedback.rules().into_iter().map(|(_, rule)| {
            let index = actuator(&rule.set);
            control_center::State::new(rule, index)
        });
        let rules = rules.collect();
        let setpoints = feedback
            .setpoints
            .values()
            .map(|parameters| setpoint::State::new(parameters.clone(), actuator(&parameters.parameter)));
        let setpoints = setpoints.collect();
        let forecast = feedback.forecast_sets().map(|sets| actuator(&sets.parameter));
        let alerts = feedback.alert_rules().into_iter().map(|(_, rule)| alerts::State::new(rule)).collect();
        let mut loops = Self {
            due: [None; 3],
            actuators,
            rules,
            setpoints,
            forecast,
            forecast_counted: false,
            alerts,
            suppressed: Suppressed::default(),
        };
        for which in Loop::ALL {
            let runs = loops.runs(which, feedback);
            loops.due[which as usize] = runs.then(|| next_run(Moment::ZERO, which, feedback));
        }
        loops.read_values(policy);
        loops
    }

    /// Whether anything runs on this loop.
    fn runs(&self, which: Loop, feedback: &Feedback) -> bool {
        self.rules.iter().any(|state| state.rule.on == which)
            || self.setpoints.iter().any(|state| state.parameters.on == which)
            || self.alerts.iter().any(|state| state.rule.on == which)
            || feedback.forecast_sets().is_some_and(|sets| sets.on == which)
    }

    /// Takes changed numbers of the feedback itself over. A loop that has become faster does not wait for
    /// the end of its old period.
    pub(super) fn adopt(&mut self, now: Moment, policy: &Policy) {
        let feedback = &policy.feedback;
        for which in Loop::ALL {
            let next = next_run(now, which, feedback);
            self.due[which as usize] = self.due[which as usize].map(|due| due.min(next));
        }
        self.rules.iter_mut().zip(feedback.rules()).for_each(|(state, (_, rule))| state.adopt(rule));
        self.alerts.iter_mut().zip(feedback.alert_rules()).for_each(|(state, (_, rule))| state.adopt(rule));
        let setpoints = self.setpoints.iter_mut().zip(feedback.setpoints.values());
        setpoints.for_each(|(state, parameters)| state.adopt(parameters.clone()));
    }

    /// A parameter of the policy was changed.
    pub(super) fn changed(&mut self, now: Moment, policy: &Policy) {
        self.read_values(policy);
        self.alerts.iter_mut().for_each(|state| state.changed(now));
    }

    fn read_values(&mut self, policy: &Policy) {
        if self.actuators.is_empty() {
            return;
        }
        let tree = policy.to_value();
        self.actuators.iter_mut().for_each(|actuator| actuator.read(&tree));
    }

    /// How often the fastest loop in use runs.
    fn period_ns(&self, feedback: &Feedback) -> Option<u64> {
        let in_use = Loop::ALL.into_iter().filter(|&which| self.due[which as usize].is_some());
        in_use.map(|which| nanos(feedback.loops.of(which))).min()
    }

    /// Whether a loop runs now; then it is due again at the next multiple of its period.
    fn is_due(&mut self, now: Moment, which: Loop, feedback: &Feedback) -> bool {
        let Some(due) = &mut self.due[which as usize] else { return false };
        if now < *due {
            return false;
        }
        *due = next_run(now, which, feedback);
        true
    }

    /// The first rule that holds this parameter.
    fn holder(&self, actuator: usize) -> Option<usize> {
        self.rules.iter().position(|state| state.holds && state.actuator == actuator)
    }

    /// Counts a wish that was held back, once for each wish.
    fn held_back(&mut self, author: Author, why: Reason) {
        let counted = match author {
            Author::Rule(index) => &mut self.rules[index].counted,
            Author::Forecast => &mut self.forecast_counted,
            Author::Setpoint(index) => &mut self.setpoints[index].counted,
        };
        if !std::mem::replace(counted, true) {
            self.suppressed.count(why);
        }
    }

    fn fulfilled(&mut self, author: Author) {
        match author {
            Author::Rule(index) => self.rules[index].counted = false,
            Author::Forecast => self.forecast_counted = false,
            Author::Setpoint(index) => self.setpoints[index].counted = false,
        }
    }
}

impl Governor {
    /// How often [`Governor::tick`] wants to be called, in nanoseconds; `None`: not at all.
    pub fn tick_period_ns(&self) -> Option<u64> {
        let queue_reads = self.queue.as_ref().is_some_and(queueing::State::reads_signals);
        let by_signals = (self.ladder.reads_signals() || queue_reads).then_some(TICK_NS);
        let loops = self.loops.period_ns(&self.policy.feedback);
        let store = self.store.as_ref().map(crate::store::State::period_ns);
        [by_signals, loops, store].into_iter().flatten().min()
    }

    /// Lets what has a clock of its own run: the ladder and the queue, which follow their signals also while
    /// nothing arrives, the refreshes of the store, and the feedback loops. What it brought is added to
    /// `ticked`; commands are in force. Then [`Governor::woken`] may have calls to name. A loop whose period
    /// is no multiple of the shortest one runs at the first tick after it is due.
    pub fn tick(&mut self, now: Moment, signals: &Signals, ticked: &mut Ticked) {
        self.read_ladder(now, signals);
        if let Some(queue) = &mut self.queue {
            queue.tick(now, signals, &mut self.tickets);
        }
        self.refresh(now);
        for which in Loop::ALL {
            if !self.loops.is_due(now, which, &self.policy.feedback) {
                continue;
            }
            self.run_rules(now, which, signals, ticked);
            self.run_forecast(now, which, ticked);
            self.run_setpoints(now, which, signals, ticked);
            for (index, state) in self.loops.alerts.iter_mut().enumerate() {
                if state.rule.on == which {
                    ticked.alerts.extend(state.read(now, index, signals));
                }
            }
        }
    }

    /// Hears that something around the governor was lost, or came back.
    pub fn notice(&mut self, now: Moment, notice: Notice) {
        let had_rules = !self.lost.rules;
        self.lost.hear(notice);
        let keeps = self.store.as_ref().is_some_and(|store| !store.accepts_empty_rules());
        if had_rules && self.lost.rules && keeps {
            self.uses.rules_kept += 1;
            self.note_tick(now, None, &Refusal::new(Reason::StoreRulesKept, 0.0, 1.0));
        }
    }

    /// Switches automatic control off, or on again. Off, no loop gives a command; parameters keep their
    /// values, and [`Governor::set`] and alerts work on.
    pub fn set_manual(&mut self, manual: bool) {
        self.policy.feedback.manual = manual;
    }

    /// Arrivals per second that are expected at `at`; `None`: there is no forecast, or it is lost.
    pub fn forecast(&self, at: Moment) -> Option<f64> {
        let forecast = self.policy.feedback.forecast.as_ref().filter(|_| !self.lost.forecast)?;
        Some(forecast.rate_per_s(at))
    }

    /// Commands that the guard held back or cut.
    pub fn suppressed(&self) -> Suppressed {
        self.loops.suppressed
    }

    /// How often a stand-in was used because something around the governor was lost.
    pub fn fallback_uses(&self) -> FallbackUses {
        self.uses
    }

    /// Whether the rules were wiped and nothing limits at the front; counts it.
    #[inline]
    pub(super) fn wiped(&mut self, now: Moment) -> bool {
        let wiped =
            self.lost.rules && self.store.as_ref().is_some_and(crate::store::State::accepts_empty_rules);
        if wiped {
            self.uses.rules_wiped += 1;
            self.note_tick(now, None, &Refusal::new(Reason::StoreRulesWiped, 0.0, 1.0));
        }
        wiped
    }

    fn refresh(&mut self, now: Moment) {
        let Some(store) = &mut self.store else { return };
        let (timed_out, down) = (self.lost.store, self.lost.nodes);
        if let Some(stand_in) = store.refresh(now, timed_out, down) {
            *(if down { &mut self.uses.nodes_down } else { &mut self.uses.store_timeouts }) += 1;
            self.note_tick(now, None, &stand_in);
        }
    }

    fn run_rules(&mut self, now: Moment, which: Loop, signals: &Signals, ticked: &mut Ticked) {
        // All are read before the first acts: one may wait for another to let go.
        for state in self.loops.rules.iter_mut().filter(|state| state.rule.on == which) {
            state.read(now, signals);
        }
        for index in 0..self.loops.rules.len() {
            let state = &self.loops.rules[index];
            let (holds, actuator) = (state.holds, state.actuator);
            let Some(wish) = state.wish.filter(|_| state.rule.on == which) else { continue };
            // What one rule restores waits until no other holds the parameter.
            if self.loops.holder(actuator) != holds.then_some(index) {
                continue;
            }
            let answer = self.command(now, actuator, &wish, Author::Rule(index), ticked);
            let state = &mut self.loops.rules[index];
            match answer {
                Answer::InForce => state.acted = holds,
                Answer::Cut => state.acted = true,
                Answer::HeldBack => {}
            }
        }
    }

    fn run_forecast(&mut self, now: Moment, which: Loop, ticked: &mut Ticked) {
        let (Some(actuator), Some(forecast)) = (self.loops.forecast, &self.policy.feedback.forecast) else {
            return;
        };
        if forecast.sets.as_ref().is_none_or(|sets| sets.on != which) {
            return;
        }
        let threshold = self.loops.actuators[actuator].value.unwrap_or_default();
        let wish = if self.lost.forecast {
            self.uses.forecast_lost += 1;
            let why = Reason::ControlTimetable;
            forecast.timetable_value(now).map(|value| Wish { value, why, found: value, threshold })
        } else {
            let (why, found) = (Reason::ControlForecast, forecast.rate_per_s(now));
            forecast.value(now).map(|value| Wish { value, why, found, threshold })
        };
        if let Some(wish) = wish
            && self.loops.holder(actuator).is_none()
        {
            self.command(now, actuator, &wish, Author::Forecast, ticked);
        }
    }

    fn run_setpoints(&mut self, now: Moment, which: Loop, signals: &Signals, ticked: &mut Ticked) {
        let Feedback { manual, guard, .. } = self.policy.feedback;
        for index in 0..self.loops.setpoints.len() {
            let actuator = self.loops.setpoints[index].actuator;
            let is_held = self.loops.holder(actuator).is_some();
            let state = &mut self.loops.setpoints[index];
            if state.parameters.on != which {
                continue;
            }
            let Some(found) = signals.get(state.parameters.signal).filter(|_| !is_held && !manual) else {
                state.rest();
                continue;
            };
            let moved = &self.loops.actuators[actuator];
            if !moved.is_free(now, &guard) {
                continue;
            }
            let value = state.output(now, found, moved.value);
            let (why, threshold) = (Reason::ControlSetpoint, state.parameters.target);
            let wish = Wish { value, why, found, threshold };
            let answer = self.command(now, actuator, &wish, Author::Setpoint(index), ticked);
            let taken = self.loops.actuators[actuator].value;
            self.loops.setpoints[index].left(value, taken, answer != Answer::InForce);
        }
    }

    /// Sets a parameter as a rule wishes, as far as the guard allows.
    fn command(
        &mut self,
        now: Moment,
        actuator: usize,
        wish: &Wish,
        author: Author,
        ticked: &mut Ticked,
    ) -> Answer {
        let Feedback { manual, guard, .. } = self.policy.feedback;
        let (value, cut) = match self.loops.actuators[actuator].ask(now, &guard, manual, wish.value) {
            Verdict::Set { value, cut } => (value, cut),
            Verdict::Nothing => {
                self.loops.fulfilled(author);
                return Answer::InForce;
            }
            Verdict::Hold { why, found, threshold } => {
                self.hold_back(now, author, &Refusal::new(why, found, threshold));
                return Answer::HeldBack;
            }
        };
        let moved = &self.loops.actuators[actuator];
        let (path, before) = (moved.path.clone(), moved.value);
        let Some(policy) = self.policy.with(&path, value).ok().filter(|policy| policy.check_values().is_ok())
        else {
            // It would be refused again at the next tick: it may try when the cooldown is over.
            self.loops.actuators[actuator].tried(now);
            self.hold_back(
                now,
                author,
                &Refusal::new(Reason::ControlRefused, value, before.unwrap_or_default()),
            );
            return Answer::HeldBack;
        };
        self.adopt(now, policy);
        self.loops.actuators[actuator].tried(now);
        self.note_tick(now, Some(author), &Refusal::new(wish.why, wish.found, wish.threshold));
        ticked.commands.push(Command { parameter: path, value, before, why: wish.why });
        if cut {
            self.hold_back(now, author, &Refusal::new(Reason::ControlStep, wish.value, value));
            return Answer::Cut;
        }
        self.loops.fulfilled(author);
        Answer::InForce
    }

    fn hold_back(&mut self, now: Moment, author: Author, compared: &Refusal) {
        self.loops.held_back(author, compared.why);
        self.note_tick(now, Some(author), compared);
    }
}

#[cfg(test)]
#[path = "loops_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "loops_random_tests.rs"]
mod random_tests;
