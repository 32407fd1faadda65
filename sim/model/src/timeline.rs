//! The timeline: what the service looked like, in a fixed number of equal steps.

use crate::measure::Ended;
use crate::outcome::End;
use forebay_engine::{Span, Time};
use serde::{Deserialize, Serialize};

/// One step of the timeline. Counts are of the step, levels as of its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// End of the step, seconds.
    pub t_s: f64,
    /// Requests born.
    pub offered: u64,
    /// Requests answered, by level L1 to L4.
    pub answered: [u64; 4],
    /// Requests answered from a cache.
    #[serde(default)]
    pub cached: u64,
    /// Requests turned away.
    pub rejected: u64,
    /// Requests cut off, given up or broken.
    pub lost: u64,
    /// Mean latency of the step's answers, seconds; 0 without answers.
    pub latency_mean_s: f64,
    /// Requests in the system.
    pub in_system: u64,
    /// Requests in the governor's queue.
    pub queued: u64,
    /// Memory share that NVML shows, mean over the LLM devices; absent without devices.
    pub vram: Option<f64>,
    /// Share of KV blocks in use; absent without a batching engine.
    pub kv: Option<f64>,
}

impl Point {
    /// Requests answered, whether at a level or from a cache.
    pub fn answers(&self) -> u64 {
        self.answered.iter().sum::<u64>() + self.cached
    }
}

/// More marks than this are not kept: a gateway that is killed every second would leave one for each.
const MOST_MARKS: usize = 10_000;

/// Something that began or ended: a fault, a process that was killed, an alert; or a command of a feedback
/// loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mark {
    /// When, seconds.
    pub at_s: f64,
    /// What, as a scenario writes its kind: `gpu_lost`, `gateway_killed`; or `alert`, `command`.
    pub what: String,
    /// Which: the fault's name, the process's, the alert's; of a command the parameter and its new value.
    pub name: String,
    /// It began; else it ended.
    pub on: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) step: Span,
    pub(crate) now: Point,
    latency_sum_s: f64,
    pub(crate) points: Vec<Point>,
    pub(crate) marks: Vec<Mark>,
}

impl Timeline {
    pub(crate) fn new(step: Span, points: usize) -> Self {
        Self {
            step,
            now: Point::default(),
            latency_sum_s: 0.0,
            points: Vec::with_capacity(points),
            marks: Vec::new(),
        }
    }

    /// Something begins or ends at `at`.
    pub(crate) fn mark(&mut self, at: Time, what: &str, name: &str, on: bool) {
        if self.marks.len() < MOST_MARKS {
            let mark = Mark { at_s: at.as_secs_f64(), what: what.to_owned(), name: name.to_owned(), on };
            self.marks.push(mark);
        }
    }

    /// Whether a command may leave a mark: a loop that oscillates must not crowd out the faults.
    pub(crate) fn takes_commands(&self) -> bool {
        self.marks.len() < MOST_MARKS / 2
    }

    #[inline]
    pub(crate) fn record(&mut self, ended: &Ended) {
        match ended.end {
            End::Answered => {
                if ended.cached {
                    self.now.cached += 1;
                } else {
                    self.now.answered[ended.level.index()] += 1;
                }
                self.latency_sum_s += ended.latency.as_secs_f64();
            }
            End::RejectedBy(..) | End::StageFull(_) => self.now.rejected += 1,
            End::TimedOut | End::Abandoned | End::Failed(_) => self.now.lost += 1,
        }
    }

    /// Closes the present step.
    pub(crate) fn close_step(&mut self, at: Time, state: Point) {
        let answered = self.now.answers();
        let latency_mean_s = if answered > 0 { self.latency_sum_s / answered as f64 } else { 0.0 };
        self.points.push(Point {
            t_s: at.as_secs_f64(),
            latency_mean_s,
            in_system: state.in_system,
            queued: state.queued,
            vram: state.vram,
            kv: state.kv,
            ..self.now
        });
        self.now = Point::default();
        self.latency_sum_s = 0.0;
    }
}
