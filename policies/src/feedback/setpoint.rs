//! A PI controller: holds a signal at its target by moving a parameter.
//!
//! Output = start + kp * error + ki * integral of the error, kept between `least` and `most`. The start is
//! the parameter's value when the controller takes over, so that taking over moves nothing by itself.
//!
//! The controller is asked only when its parameter may be commanded, at most once a cooldown, and the
//! error is integrated over the time since. So a cooldown slows it and is never held against it. What
//! can wind up is the integral behind a limit or a cut step: with `anti_windup` it is set to what the
//! parameter could follow (clamping), and the controller comes back as soon as the error turns.

use super::Loop;
use super::guard::check_parameter;
use crate::signal::SignalKind;
use crate::{Moment, Policy, PolicyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A controller that holds a signal at a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setpoint {
    /// The signal, after its filter.
    pub signal: SignalKind,
    /// The value that it is held at.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub target: f64,
    /// Path of the parameter that is moved.
    pub parameter: String,
    /// Change of the parameter per unit of error (target less signal); negative where a greater parameter
    /// lowers the signal.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub kp: f64,
    /// Change of the parameter per unit of error and second; of the sign of `kp`.
    #[serde(default)]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub ki: f64,
    /// Least value of the parameter.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub least: f64,
    /// Greatest value of the parameter.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub most: f64,
    /// The loop it runs on.
    #[serde(default, rename = "loop")]
    pub on: Loop,
    /// The integral stops where the parameter cannot follow.
    #[serde(default = "yes")]
    pub anti_windup: bool,
}

fn yes() -> bool {
    true
}

impl Setpoint {
    pub(crate) fn check(&self, path: &str, policy: &Policy) -> Result<(), PolicyError> {
        PolicyError::ordered(path, ("least", self.least), ("most", self.most))?;
        if self.kp * self.ki < 0.0 || (self.kp == 0.0 && self.ki == 0.0) {
            return Err(PolicyError::not_allowed(
                format!("{path}.ki"),
                format!("{} with kp = {}", self.ki, self.kp),
                "not both 0, and of one sign",
            ));
        }
        let parameter = format!("{path}.parameter");
        for (name, value) in [("least", self.least), ("most", self.most)] {
            let value_path = format!("{path}.{name}");
            check_parameter((&parameter, &self.parameter), (&value_path, Some(value)), policy)?;
        }
        Ok(())
    }
}

/// What is remembered of one controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) parameters: Setpoint,
    /// Index of the parameter.
    pub(crate) actuator: usize,
    course: Option<Course>,
    /// Its present wish was held back, and was counted.
    pub(crate) counted: bool,
}

/// A controller that has taken over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Course {
    start: f64,
    /// Already times `ki`: in units of the parameter.
    integral: f64,
    at: Moment,
    /// The value at which it left the parameter. If the parameter has another one, somebody else moved it.
    left: Option<f64>,
}

impl State {
    pub(crate) fn new(parameters: Setpoint, actuator: usize) -> Self {
        Self { parameters, actuator, course: None, counted: false }
    }

    /// Takes changed numbers over and keeps its integral.
    pub(crate) fn adopt(&mut self, parameters: Setpoint) {
        self.parameters = parameters;
    }

    /// It is not in charge: when it is again, it takes over from what it finds.
    pub(crate) fn rest(&mut self) {
        self.course = None;
    }

    /// The value that the parameter should have. `present`: the value it has.
    pub(crate) fn output(&mut self, now: Moment, signal: f64, present: Option<f64>) -> f64 {
        let Setpoint { target, kp, ki, least, most, anti_windup, .. } = self.parameters;
        let error = target - signal;
        let taken_over = || {
            let start = present.unwrap_or(f64::midpoint(least, most));
            // The first error moves the parameter by the integral alone.
            Course { start: start - kp * error, integral: 0.0, at: now, left: present }
        };
        let mut course = self.course.filter(|course| course.left == present).unwrap_or_else(taken_over);
        course.integral += ki * error * now.seconds_since(course.at);
        course.at = now;
        let wanted = course.start + kp * error + course.integral;
        let output = wanted.max(least).min(most);
        if anti_windup {
            course.integral -= wanted - output;
        }
        self.course = Some(course);
        output
    }

    /// The parameter was set to `taken`. `fell_short`: that is less than the output, because the step was
    /// cut or the value refused; a whole number that was rounded did not fall short.
    pub(crate) fn left(&mut self, output: f64, taken: Option<f64>, fell_short: bool) {
        let Some(course) = &mut self.course else { return };
        course.left = taken;
        if let Some(taken) = taken.filter(|_| fell_short && self.parameters.anti_windup) {
            course.integral -= output - taken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn controller(anti_windup: bool) -> State {
        let parameters = Setpoint {
            signal: SignalKind::LlmBusy,
            target: 0.8,
            parameter: String::new(),
            kp: 20.0,
            ki: 10.0,
            least: 0.0,
            most: 100.0,
            on: Loop::Limiter,
            anti_windup,
        };
        State::new(parameters, 0)
    }

    /// A plant of first order: it is busy in proportion to the parameter, 5 s behind it. Returns the
    /// signal each second.
    fn plant(controller: &mut State, gain: impl Fn(u64) -> f64, seconds: u64) -> Vec<f64> {
        let (mut signal, mut parameter) = (0.5, 50.0);
        (0..10 * seconds)
            .filter_map(|step| {
                let now = step * S / 10;
                parameter = controller.output(Moment(now), signal, Some(parameter));
                controller.left(parameter, Some(parameter), false);
                signal += 0.1 / 5.0 * (gain(now / S) * parameter - signal);
                (step % 10 == 9).then_some(signal)
            })
            .collect()
    }

    #[test]
    fn it_takes_over_without_a_jump_and_settles_at_its_target() {
        let mut controller = controller(true);
        assert_eq!(controller.output(Moment(7 * S), 0.3, Some(42.0)), 42.0);
        let course = plant(&mut self::controller(true), |_| 0.01, 120);
        assert!(course[60..].iter().all(|&signal| (signal - 0.8).abs() < 0.002), "{course:?}");
        assert!(course.iter().all(|&signal| signal < 0.85), "it overshot: {course:?}");
    }

    /// The plant cannot reach the target for a minute (its gain is a fifth), then it can again.
    #[test]
    fn without_anti_windup_the_way_back_is_long() {
        let gain = |second| if (30..90).contains(&second) { 0.002 } else { 0.01 };
        let late = |anti_windup| {
            let course = plant(&mut controller(anti_windup), gain, 240);
            course[90..].iter().rposition(|&signal| (signal - 0.8).abs() > 0.02).unwrap()
        };
        let (with, without) = (late(true), late(false));
        assert!(with < 40, "settled after {with} s");
        assert!(without > 2 * with, "{without} s without, {with} s with");
    }

    #[test]
    fn what_the_parameter_could_not_follow_is_no_memory() {
        let mut controller = controller(true);
        controller.output(Moment(0), 0.7, Some(10.0));
        let output = controller.output(Moment(10 * S), 0.7, Some(10.0));
        assert!((output - 20.0).abs() < 1e-9);
        controller.left(output, Some(12.0), true);
        assert!((controller.output(Moment(10 * S), 0.7, Some(12.0)) - 12.0).abs() < 1e-9);
    }

    #[test]
    fn it_takes_over_again_from_a_value_that_somebody_else_set() {
        let mut controller = controller(true);
        controller.output(Moment(0), 0.7, Some(10.0));
        controller.left(10.0, Some(10.0), false);
        assert_eq!(controller.output(Moment(10 * S), 0.7, Some(60.0)), 60.0);
    }
}
