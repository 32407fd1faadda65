//! Attempts in flight: a table with reusable places, so that memory follows what is in the system.

use crate::ids::{AttemptId, StageId};
use crate::service::ProviderVisit;
use forebay_engine::{Chance, Handle, Span, Time};
use forebay_policies::{Level, RequestView, Site};

/// What kind of question it is: decides whether rules or a model can answer it rightly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Faq,
    Generative,
    New,
}

/// A user's question, as it really is. Policies never see this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// Count of requests born before it in this run.
    pub(crate) index: u64,
    pub(crate) born: Time,
    pub(crate) chance: Chance,
    pub(crate) class: u16,
    pub(crate) source: u16,
    pub(crate) tokens_out: u32,
    pub(crate) question: Question,
    /// Attempts made before the present one.
    pub(crate) retries: u8,
    pub(crate) resends: u8,
    /// When the present wait of the person began: birth, or the last time of asking again.
    pub(crate) asked: Time,
    /// The closed-loop user who asked, and that user's count of questions.
    pub(crate) asker: Option<(u32, u32)>,
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// On the way to the gateway.
    Ingress,
    /// In a queue of the governor.
    Queued,
    /// Held at a gate.
    Held(Site),
    /// In a stage's queue.
    Waiting(StageId),
    /// Served at a stage.
    Serving(StageId),
    /// Between two stages, within one instant.
    Between,
    /// Between two attempts of one request.
    Backoff,
}

/// One try to have a request answered.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own, read by name")]
pub(crate) struct Attempt {
    pub(crate) generation: u32,
    pub(crate) live: bool,
    /// The person has gone unnoticed: the work goes on, nobody hears the answer.
    pub(crate) orphan: bool,
    pub(crate) holds_slot: bool,
    /// It has a thread of the gateway; kept only where the host's memory is.
    pub(crate) has_thread: bool,
    pub(crate) reranked: bool,
    /// It has documents.
    pub(crate) retrieved: bool,
    pub(crate) passed_retrieval_gate: bool,
    /// Its service has begun at some stage.
    pub(crate) served: bool,
    /// The gate whose permit its present call holds.
    pub(crate) at_gate: Option<Site>,
    pub(crate) phase: Phase,
    pub(crate) level: Level,
    /// Index of the next stage in the level's path.
    pub(crate) step: u8,
    pub(crate) docs: u16,
    pub(crate) request: Request,
    /// The luck of this attempt: of the request itself at the first, drawn anew at each further one.
    pub(crate) luck: Chance,
    pub(crate) view: RequestView,
    /// When it reached the gateway.
    pub(crate) arrived: Time,
    /// When it entered its present queue.
    pub(crate) entered: Time,
    /// When its service at its present stage began.
    pub(crate) started: Time,
    /// Time spent in queues so far.
    pub(crate) waited: Span,
    /// The wait that it was told when it was queued, if it was told one.
    pub(crate) told: Option<Span>,
    /// When its first token came; `Time::MAX` before.
    pub(crate) first_token: Time,
    /// Replica that serves it at its present stage.
    pub(crate) replica: u32,
    /// Device memory it holds, GB, and its growth, GB per second of undisturbed service.
    pub(crate) held_gb: f64,
    pub(crate) growth_gb_per_s: f64,
    /// Share of its level's right answers that stay right on its way: what providers and documents lose.
    pub(crate) kept: f32,
    /// Answered from a cache: whether rightly.
    pub(crate) cached: Option<bool>,
    /// The cache that it has asked.
    pub(crate) missed_at: Option<StageId>,
    /// Its stay at external providers.
    pub(crate) visit: Option<Box<ProviderVisit>>,
    /// End of its service at a stage.
    pub(crate) done: Option<Handle>,
    /// End of its wait at a gate, or the time limit of its stage.
    pub(crate) timer: Option<Handle>,
    pub(crate) patience: Option<Handle>,
    pub(crate) deadline: Option<Handle>,
}

impl Attempt {
    /// A gate has let it through.
    pub(crate) fn pass(&mut self, gate: Site) {
        if gate == Site::AfterRetrieval {
            self.passed_retrieval_gate = true;
        } else {
            self.at_gate = Some(gate);
        }
    }
}

/// The table of attempts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempts {
    table: Vec<Attempt>,
    free: Vec<u32>,
}

impl Attempts {
    /// Puts an attempt into the table. Its view's ticket is set to its new name.
    pub(crate) fn insert(
        &mut self,
        request: Request,
        view: RequestView,
        luck: Chance,
        now: Time,
    ) -> AttemptId {
        let fresh = |generation| Attempt {
            generation,
            live: true,
            orphan: false,
            holds_slot: false,
            has_thread: false,
            reranked: false,
            retrieved: false,
            passed_retrieval_gate: false,
            served: false,
            at_gate: None,
            phase: Phase::Ingress,
            level: Level::L1,
            step: 0,
            docs: 0,
            request,
            luck,
            view,
            arrived: now,
            entered: now,
            started: now,
            waited: Span::ZERO,
            told: None,
            first_token: Time::MAX,
            replica: 0,
            held_gb: 0.0,
            growth_gb_per_s: 0.0,
            kept: 1.0,
            cached: None,
            missed_at: None,
            visit: None,
            done: None,
            timer: None,
            patience: None,
            deadline: None,
        };
        let id = if let Some(slot) = self.free.pop() {
            let generation = self.table[slot as usize].generation.wrapping_add(1);
            self.table[slot as usize] = fresh(generation);
            AttemptId { slot, generation }
        } else {
            let slot = self.table.len() as u32;
            self.table.push(fresh(0));
            AttemptId { slot, generation: 0 }
        };
        self.table[id.slot as usize].view.ticket = id.ticket();
        id
    }

    /// Takes an attempt out. Its name means nothing from here on.
    pub(crate) fn remove(&mut self, id: AttemptId) {
        let place = &mut self.table[id.slot as usize];
        debug_assert!(place.live && place.generation == id.generation);
        place.live = false;
        self.free.push(id.slot);
    }

    /// The attempt of that name, if it is still in flight.
    #[inline]
    pub(crate) fn get(&self, id: AttemptId) -> Option<&Attempt> {
        self.table.get(id.slot as usize).filter(|a| a.live && a.generation == id.generation)
    }

    /// The attempt of that name, if it is still in flight.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: AttemptId) -> Option<&mut Attempt> {
        self.table.get_mut(id.slot as usize).filter(|a| a.live && a.generation == id.generation)
    }

    /// Attempts in flight, with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (AttemptId, &Attempt)> {
        self.table
            .iter()
            .enumerate()
            .filter(|(_, a)| a.live)
            .map(|(slot, a)| (AttemptId { slot: slot as u32, generation: a.generation }, a))
    }
}

impl std::ops::Index<AttemptId> for Attempts {
    type Output = Attempt;
    #[inline]
    fn index(&self, id: AttemptId) -> &Attempt {
        &self.table[id.slot as usize]
    }
}

impl std::ops::IndexMut<AttemptId> for Attempts {
    #[inline]
    fn index_mut(&mut self, id: AttemptId) -> &mut Attempt {
        &mut self.table[id.slot as usize]
    }
}
