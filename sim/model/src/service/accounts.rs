//! What the running service tells its accounts and its shadow. Neither has an effect on the run.

use super::{Event, Service, StageState};
use crate::attempts::Phase;
use crate::ids::AttemptId;
use crate::scenario::Loaded;
use crate::shadow::ShadowReport;
use forebay_engine::{Calendar, Span, Time};
use forebay_policies::{Arrival, Next};

impl Service {
    /// A call is about to leave the stage that served it.
    #[inline]
    pub(super) fn account_call(&mut self, id: AttemptId) {
        if self.accounts.money.is_none() {
            return;
        }
        let attempt = &self.attempts[id];
        let Phase::Serving(stage) = attempt.phase else { return };
        match &self.stages[stage.index()] {
            StageState::Slots(_) | StageState::Batching(_) if self.counts(attempt.request.born) => {
                let (tokens_in, tokens_out) = (self.prompt_tokens(id), attempt.request.tokens_out);
                if let Some(money) = &mut self.accounts.money {
                    money.call(stage.index(), tokens_in, tokens_out);
                }
            }
            _ => {}
        }
    }

    /// One who may have been told a wait is served now.
    #[inline]
    pub(super) fn notice_came_true(&mut self, now: Time, id: AttemptId) {
        let Some(notices) = &mut self.accounts.notices else { return };
        let Some(attempt) = self.attempts.get(id) else { return };
        if let Some(told) = attempt.told
            && attempt.arrived >= self.plan.warm
        {
            notices.came_true(told, now.since(attempt.entered));
        }
    }

    /// Executor slots that are free.
    fn free_slots(&self) -> u32 {
        self.plan.executor_slots.map_or(u32::MAX, |slots| slots.saturating_sub(self.executor.busy))
    }

    /// An attempt has arrived, and the live policy has decided.
    pub(super) fn shadow_arrived(&mut self, now: Time, id: AttemptId, live: Arrival) {
        let (moment, slots) = (self.moment(now), self.free_slots());
        let attempt = &self.attempts[id];
        let about = (attempt.request.class, self.counts(attempt.request.born));
        if let Some(shadow) = &mut self.shadow {
            shadow.arrived(moment, &attempt.view, about, live);
            // Where the live policy queues nobody, it is not asked whom to serve.
            if !matches!(live, Arrival::Queue { .. }) {
                shadow.turns(moment, slots);
            }
        }
    }

    /// The live policy was asked whom to serve.
    pub(super) fn shadow_turn(&mut self, now: Time, live: Next) {
        let (moment, slots) = (self.moment(now), self.free_slots());
        if let Some(shadow) = &mut self.shadow {
            shadow.live(live);
            match live {
                Next::Serve(_) => shadow.turns(moment, 1),
                // The live queue is empty, and slots are free.
                Next::Idle => shadow.turns(moment, slots),
                Next::Drop { .. } => {}
            }
        }
    }

    /// The shadow's loops run.
    pub(super) fn shadow_tick(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let moment = self.moment(now);
        let (is_over, down) = (self.is_over(now), self.gateway_down());
        let Some(shadow) = &mut self.shadow else { return };
        if !down {
            shadow.tick(moment);
        }
        if let Some(period) = shadow.tick_period_ns()
            && !is_over
        {
            calendar.after(Span::from_nanos(period), Event::ShadowTick);
        }
    }

    /// Where the shadow and the live policy differ.
    pub(crate) fn shadow_report(&self, loaded: &Loaded) -> Option<ShadowReport> {
        let classes = loaded.scenario.workload.classes.keys();
        self.shadow.as_ref().map(|shadow| shadow.report(classes))
    }
}
