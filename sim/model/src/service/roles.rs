//! What servers do beside taking time: the semantic cache looks answers up, rules match questions, the
//! making of a hand-off puts it on the agents' desk.

use super::{Service, StageState, Task};
use crate::attempts::Attempt;
use crate::clients::birth::purpose;
use crate::ids::{AttemptId, StageId};
use crate::outcome::End;
use crate::stages::cache::{Asked, Cache};
use crate::stages::desk::HandOff;
use crate::stages::server::Role;
use forebay_engine::Time;
use forebay_policies::{Level, Site};

/// Where a path has no stage: an attempt that steps here is at its end.
const END_OF_PATH: u8 = u8::MAX - 1;

/// What follows when a server has done its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// The attempt goes on along its path.
    NextStage,
    /// It goes on along another path, from its beginning.
    AnotherPath,
    /// It ends, and its end is on the list of tasks.
    Nothing,
}

fn asked(attempt: &Attempt) -> Asked {
    Asked { request: attempt.request.index, chance: attempt.request.chance, level: attempt.level }
}

impl Service {
    /// A server has done what it is there for.
    pub(super) fn play_role(&mut self, now: Time, id: AttemptId, stage: StageId) -> Follows {
        let StageState::Server(server) = &mut self.stages[stage.index()] else { return Follows::NextStage };
        let attempt = &mut self.attempts[id];
        let counts = attempt.arrived >= self.plan.warm;
        match &mut server.role {
            Role::Plain => {}
            Role::Retrieval => {
                attempt.retrieved = true;
                if self.plan.reads {
                    self.meter.now.store_calls += 1;
                    self.meter.now.store_ns += now.since(attempt.entered).as_nanos();
                }
            }
            Role::Cache(cache) => {
                attempt.missed_at = Some(stage);
                self.meter.now.cache_lookups += 1;
                if let Some(hit) = cache.look_up(now, &asked(attempt), counts) {
                    self.meter.now.cache_hits += 1;
                    attempt.cached = Some(hit.right);
                    attempt.first_token = now;
                    attempt.step = END_OF_PATH;
                    self.spans.tell(|spans| spans.noted(now.as_nanos(), id, "answered from the cache"));
                }
            }
            Role::Rules(knowledge) => {
                let out_of_date = self.faults.knowledge_base_stale();
                let share = knowledge.match_share(now, attempt.request.question, out_of_date);
                let purpose = purpose::RULES + u32::from(stage.0);
                knowledge.asked += u64::from(counts);
                if share >= 1.0 || attempt.request.chance.uniform(purpose) < share {
                    return Follows::NextStage;
                }
                if counts {
                    knowledge.note_unmatched(attempt.request.class);
                }
                self.accounts.alerts.unmatched(now, attempt.request.class);
                self.spans.tell(|spans| spans.noted(now.as_nanos(), id, "matched by no rule"));
                let hand_over = self.plan.endpoints[usize::from(attempt.view.endpoint)].taken[3];
                if knowledge.hands_over() && hand_over > attempt.level {
                    attempt.level = hand_over;
                    return Follows::AnotherPath;
                }
                attempt.kept = 0.0;
            }
            Role::Desk(desk) => {
                let draw = &mut attempt.luck.draw(purpose::DESK + u32::from(stage.0));
                // What agents cost belongs to the crowd that was born after the warm-up.
                match desk.take(now, attempt.request.born >= self.plan.warm, draw) {
                    HandOff::Taken { settled } => attempt.kept *= settled as f32,
                    HandOff::GivenUp => attempt.kept = 0.0,
                    HandOff::Full => {
                        self.turn_away(now, id, stage);
                        return Follows::Nothing;
                    }
                }
            }
        }
        Follows::NextStage
    }

    fn cache(&mut self, stage: StageId) -> Option<&mut Cache> {
        match &mut self.stages[stage.index()] {
            StageState::Server(server) => match &mut server.role {
                Role::Cache(cache) => Some(cache),
                _ => None,
            },
            _ => None,
        }
    }

    /// An attempt was answered: where a cache was asked in vain, it keeps the answer. That an agent will
    /// call back, or that no rule matched, is no answer to keep.
    pub(super) fn remember(&mut self, now: Time, id: AttemptId) {
        let attempt = &self.attempts[id];
        let Some(stage) = attempt.missed_at else { return };
        if attempt.cached.is_some() || attempt.level == Level::L4 || attempt.kept <= 0.0 {
            return;
        }
        let counts = attempt.arrived >= self.plan.warm;
        let asked = asked(attempt);
        let skipped = self.rerank_was_skipped(attempt);
        let right = self.is_right(&attempt.request, attempt.level, skipped, attempt.kept);
        if let Some(cache) = self.cache(stage) {
            cache.put(now, &asked, right, counts);
        }
    }

    /// The model cannot answer an attempt: the nearest cached answer stands in, if the policy allows it and
    /// there is one. The cache is the one that the attempt has asked, else the first.
    pub(super) fn last_resort(&mut self, now: Time, id: AttemptId) -> bool {
        let Some(first) = self.plan.last_resort else { return false };
        let attempt = &self.attempts[id];
        let counts = attempt.arrived >= self.plan.warm;
        let asked = asked(attempt);
        let stage = attempt.missed_at.unwrap_or(first);
        let Some(cache) = self.cache(stage) else { return false };
        let nearest = cache.nearest(now, &asked);
        let similarity = nearest.map(|nearest| nearest.similarity as f32);
        if !self.governor.last_resort(self.moment(now), id.ticket(), similarity) {
            return false;
        }
        let Some(nearest) = nearest else { return false };
        if let Some(cache) = self.cache(stage)
            && counts
        {
            cache.counts[asked.level.index()].last_resorts += 1;
        }
        let attempt = &mut self.attempts[id];
        attempt.cached = Some(nearest.right);
        attempt.first_token = now;
        self.spans.tell(|spans| spans.noted(now.as_nanos(), id, "answered from the cache as last resort"));
        true
    }

    /// A stage cannot serve an attempt, whatever the cause: it ends so, unless the stage is a model and the
    /// cache stands in.
    pub(super) fn end_at(&mut self, now: Time, id: AttemptId, stage: StageId, end: End) {
        let stands_in = self.site_of(stage) == Some(Site::LlmCall) && self.last_resort(now, id);
        self.tasks.push_back(Task::Finish(id, if stands_in { End::Answered } else { end }));
    }
}
