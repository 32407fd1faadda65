//! How many replicas of an LLM stage run: fixed, on demand, by timetable, or by forecast.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of a day, after which a timetable begins again.
pub(crate) const DAY_S: f64 = 86_400.0;

/// What decides on the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScaleBy {
    /// Busy slots since the last check: as many replicas as keep them at `target_utilisation`.
    Demand,
    /// The timetable `schedule`.
    Schedule,
    /// The governor's forecast of arrivals, `lead_s` ahead; while there is none, the timetable.
    Forecast,
}

/// Replicas that are started and stopped while the service runs. A replica that starts serves nobody yet;
/// one that stops takes no further calls, and ends when it has served those it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Autoscale {
    /// What decides on the number of replicas.
    pub by: ScaleBy,
    /// Replicas at least.
    #[schemars(range(min = 1, max = 100_000))]
    pub least: u32,
    /// Replicas at most.
    #[schemars(range(min = 1, max = 100_000))]
    pub most: u32,
    /// Time from the order to start a replica until it serves, loading and warm-up included, seconds.
    #[serde(default = "start")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub start_s: f64,
    /// Replicas are stopped after fewer would have done for this long, seconds.
    #[serde(default = "stop_after")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub stop_after_s: f64,
    /// Share of the slots that should be busy.
    #[serde(default = "target")]
    #[schemars(range(min = 0.01, max = 1.0))]
    pub target_utilisation: f64,
    /// Time between two checks, seconds. A replica that has served its last call is given back at the
    /// next one.
    #[serde(default = "check_every")]
    #[schemars(range(min = 0.1, max = 86_400.0))]
    pub check_every_s: f64,
    /// How far ahead timetable and forecast are read, seconds; absent: `start_s` and one check, so that a
    /// replica serves when it is wanted.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub lead_s: Option<f64>,
    /// Timetable of a day, repeated: `[second of the day, replicas]`, in order of time; each holds until
    /// the next. Needed by `schedule`, and by `forecast` for when there is none.
    #[serde(default)]
    pub schedule: Vec<(f64, u32)>,
    /// Slot time that one arrival takes at this stage, all its calls together, seconds. Needed by
    /// `forecast`.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub seconds_per_arrival: Option<f64>,
}

impl Autoscale {
    /// How far ahead timetable and forecast are read, seconds.
    pub fn lead_s(&self) -> f64 {
        self.lead_s.unwrap_or(self.start_s + self.check_every_s)
    }

    /// The most replicas that the timetable has at any time from `from_s` to `to_s`, seconds of the run;
    /// `None` without a timetable.
    pub(crate) fn scheduled(&self, from_s: f64, to_s: f64) -> Option<u32> {
        let last = self.schedule.last()?;
        let start = libm::floor(from_s / DAY_S);
        let (mut now, mut most) = (last.1, 0);
        // Entries from the day's begin on: those up to `from_s` give the present one, those up to `to_s`
        // count besides. A lead is at most a day, so two days hold all of them.
        for day in [0.0, 1.0, 2.0] {
            for &(second, replicas) in &self.schedule {
                let at = (start + day) * DAY_S + second;
                if at <= from_s {
                    now = replicas;
                } else if at <= to_s {
                    most = most.max(replicas);
                }
            }
        }
        Some(most.max(now))
    }
}

fn start() -> f64 {
    90.0
}
fn stop_after() -> f64 {
    300.0
}
fn target() -> f64 {
    0.7
}
fn check_every() -> f64 {
    15.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timetable_holds_until_its_next_entry_and_looks_ahead() {
        let scale = Autoscale {
            by: ScaleBy::Schedule,
            least: 1,
            most: 9,
            start_s: 90.0,
            stop_after_s: 0.0,
            target_utilisation: 0.7,
            check_every_s: 10.0,
            lead_s: None,
            schedule: vec![(3600.0, 5), (7200.0, 2)],
            seconds_per_arrival: None,
        };
        let at = |s: f64, lead: f64| scale.scheduled(s, s + lead);
        // Before the first entry of the day the last one of the day before holds.
        assert_eq!(at(0.0, 0.0), Some(2));
        assert_eq!(at(3500.0, scale.lead_s()), Some(5));
        assert_eq!(at(3599.0, 0.0), Some(2));
        assert_eq!(at(3600.0, 0.0), Some(5));
        // What is wanted now is not stopped because less is wanted soon.
        assert_eq!(at(7190.0, 100.0), Some(5));
        assert_eq!(at(DAY_S + 7200.0, 100.0), Some(2));
        assert_eq!(at(2.0 * DAY_S - 10.0, 3700.0), Some(5));
        assert_eq!(Autoscale { schedule: Vec::new(), ..scale }.scheduled(0.0, 1.0), None);
    }
}
