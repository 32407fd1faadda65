//! How the control loop behaves: how often it turns round, and for how long signals are above the
//! thresholds of the ladder.
//!
//! A turn is a change of the level, or of a commanded parameter, against the direction of the change
//! before it. A loop that goes down once and up again at the end of a surge turns once; one that
//! oscillates turns twice in each period.

use forebay_policies::{Command, Level, Policy, Reading, SignalKind};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The last value of something that moves, and the direction of its last move.
#[derive(Clone, Copy, Debug)]
struct Course {
    value: f64,
    direction: Option<Ordering>,
}

impl Course {
    fn new(value: f64) -> Self {
        Self { value, direction: None }
    }

    /// Takes the present value; says whether it turned.
    fn turns(&mut self, value: f64) -> bool {
        let direction = value.total_cmp(&self.value);
        self.value = value;
        if direction == Ordering::Equal {
            return false;
        }
        self.direction.replace(direction).is_some_and(|before| before != direction)
    }
}

/// A threshold of the ladder, and how many samples were at or above it.
#[derive(Clone, Debug)]
pub(crate) struct Crossed {
    /// Such as `l2_vram_above`.
    pub(crate) name: String,
    signal: SignalKind,
    above: f64,
    at_or_above: u64,
    samples: u64,
}

impl Crossed {
    /// Share of the samples that were at or above the threshold.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.at_or_above as f64 / self.samples as f64)
    }
}

/// The account of the control loop.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    level: Course,
    parameters: BTreeMap<String, Course>,
    /// Commands, and turns, within the measured window.
    pub(crate) commands: u64,
    pub(crate) turns: u64,
    pub(crate) crossed: Vec<Crossed>,
}

impl Control {
    pub(crate) fn new(policy: &Policy) -> Self {
        let fallback = &policy.fallback;
        let mut crossed = Vec::new();
        for (level, rule) in [("l2", &fallback.l2), ("l3", &fallback.l3), ("l4", &fallback.l4)] {
            for (signal, name, above) in rule.set_thresholds() {
                let name = format!("{level}_{name}");
                crossed.push(Crossed { name, signal, above, at_or_above: 0, samples: 0 });
            }
        }
        Self { level: Course::new(0.0), parameters: BTreeMap::new(), commands: 0, turns: 0, crossed }
    }

    /// The loops have run, and the ladder stands at `level`.
    pub(crate) fn ticked(&mut self, in_window: bool, level: Level, commands: &[Command]) {
        let mut turns = u64::from(self.level.turns(level.index() as f64));
        for command in commands {
            if let Some(course) = self.parameters.get_mut(&command.parameter) {
                turns += u64::from(course.turns(command.value));
            } else {
                // The first move is no turn, but has a direction.
                let mut course = Course::new(command.before.unwrap_or(command.value));
                course.turns(command.value);
                self.parameters.insert(command.parameter.clone(), course);
            }
        }
        if in_window {
            self.turns += turns;
            self.commands += commands.len() as u64;
        }
    }

    /// The meters were read within the measured window.
    pub(crate) fn sampled(&mut self, reading: &Reading) {
        for crossed in &mut self.crossed {
            if let Some(value) = reading.values[crossed.signal.index()] {
                crossed.samples += 1;
                crossed.at_or_above += u64::from(value >= crossed.above);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policies::Reason;

    #[test]
    fn a_move_against_the_last_one_is_a_turn() {
        let mut control = Control::new(&Policy::default());
        for level in [Level::L1, Level::L2, Level::L3, Level::L3, Level::L1, Level::L2] {
            control.ticked(true, level, &[]);
        }
        assert_eq!(control.turns, 2);
        let command = |parameter: &str, before, value| Command {
            parameter: parameter.to_owned(),
            value,
            before,
            why: Reason::Normal,
        };
        // Of one parameter: 5 down to 3, up to 4, down to 1; of another that the policy does not set: up.
        let dwell = "fallback.least_dwell_s";
        for (before, value, other) in [(5.0, 3.0, 1.0), (3.0, 4.0, 2.0), (4.0, 1.0, 3.0)] {
            let unset = (other > 1.0).then_some(other - 1.0);
            let commands =
                [command(dwell, Some(before), value), command("fallback.l2.kv_above", unset, other)];
            control.ticked(true, Level::L2, &commands);
        }
        assert_eq!((control.turns, control.commands), (4, 6));
        control.ticked(false, Level::L2, &[command(dwell, Some(1.0), 2.0)]);
        assert_eq!((control.turns, control.commands), (4, 6));
    }
}
