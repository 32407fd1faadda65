//! Accounts kept beside the run: what it costs and is worth, how the control loop behaves, which alerts
//! are raised, and how right the queue's notices are. Nothing here has an effect on the run, and what a
//! scenario does not ask for is not kept.

pub mod alerts;
pub(crate) mod control;
pub(crate) mod money;
pub(crate) mod notices;

use crate::attempts::{Question, Request};
use crate::measure::Ended;
use crate::outcome::End;
use crate::scenario::{Scenario, Stage};
use forebay_engine::Time;
use forebay_policies::{Level, Policy, RequestView};

/// All accounts of a run.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    pub(crate) money: Option<Box<money::Money>>,
    pub(crate) control: control::Control,
    pub(crate) alerts: alerts::AlertLog,
    pub(crate) notices: Option<notices::Notices>,
    /// Rules with a knowledge base tell themselves what they do not match.
    rules_tell: bool,
}

impl Accounts {
    /// `policy` is the one in force.
    pub(crate) fn new(scenario: &Scenario, policy: &Policy) -> Self {
        Self {
            money: money::Money::new(scenario).map(Box::new),
            control: control::Control::new(policy),
            alerts: alerts::AlertLog::new(policy, scenario.workload.classes.len()),
            notices: scenario.gateway.wait_notice.then(notices::Notices::default),
            rules_tell: scenario.stages.values().any(|stage| match stage {
                Stage::Rules(rules) => rules.knowledge_base.is_some(),
                _ => false,
            }),
        }
    }

    /// A request has its end. Gives the person's satisfaction, if that is modelled.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        now: Time,
        request: &Request,
        view: &RequestView,
        ended: &Ended,
    ) -> Option<f64> {
        let missed = ended.end != End::Answered || ended.answered_at() == Some(Level::L3);
        if !self.rules_tell && missed && request.question != Question::Faq {
            self.alerts.unmatched(now, request.class);
        }
        self.money.as_mut().and_then(|money| money.ended(request, view, ended))
    }
}
