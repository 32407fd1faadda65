//! Names of what a recorder meets as numbers: they are those of the scenario, and a new kind of stage or
//! of queue needs none of its own here.

use crate::ids::StageId;
use crate::outcome::End;
use crate::scenario::Scenario;
use crate::spans::{How, Outcome};
use forebay_policies::queueing::strict_priority::By;
use forebay_policies::{Level, Queue};

/// Names by number.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    stages: Vec<String>,
    pub(crate) classes: Vec<String>,
    pub(crate) tiers: Vec<String>,
    pub(crate) endpoints: Vec<String>,
    /// By endpoint.
    pub(crate) tokens_per_document: Vec<u32>,
    /// What the queues are numbered by, where that is known.
    queues: Option<By>,
}

impl Names {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            stages: scenario.stages.keys().cloned().collect(),
            classes: scenario.workload.classes.keys().cloned().collect(),
            tiers: scenario.workload.population.tiers.keys().cloned().collect(),
            endpoints: scenario.endpoints.keys().cloned().collect(),
            tokens_per_document: scenario.endpoints.values().map(|e| e.tokens_per_document).collect(),
            queues: match &scenario.policy.queue {
                Some(Queue::StrictPriority(queue)) => Some(queue.by),
                _ => None,
            },
        }
    }

    pub(crate) fn stage(&self, stage: StageId) -> String {
        self.stages.get(stage.index()).cloned().unwrap_or_default()
    }

    /// A queue by its index.
    pub(crate) fn queue(&self, index: u8) -> String {
        match self.queues {
            Some(By::Class) => format!("S{index}"),
            Some(By::Tier) => {
                self.tiers.get(usize::from(index)).cloned().unwrap_or_else(|| format!("tier {index}"))
            }
            None => index.to_string(),
        }
    }

    /// An end with the codes of the ledger.
    pub(crate) fn outcome(&self, end: End, level: Level) -> Outcome {
        let (how, why) = match end {
            End::Answered => return Outcome { how: How::Answered, level: Some(level), why: None },
            End::RejectedBy(why, _) => (How::Rejected, Some(why.code().to_owned())),
            End::StageFull(stage) => {
                (How::Rejected, Some(format!("stage.{}.full", self.stage(StageId(stage)))))
            }
            End::TimedOut => (How::TimedOut, None),
            End::Abandoned => (How::Abandoned, None),
            End::Failed(why) => (How::Failed, Some(why.code().to_owned())),
        };
        Outcome { how, level: None, why }
    }
}
