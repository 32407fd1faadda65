//! Shadow mode: a second policy decides beside the live one on the same events and changes nothing
//! (published case H9).
//!
//! The shadow sees the same arrivals and the same readings. Whenever the live policy is given a slot to
//! fill, the shadow is given one too, so its queue is served as often as the live one. What it would have
//! made of the rest cannot be known: the run goes on as the live policy decides, so patience, retries and
//! load are those of the live run. It decides on arrival and when a request is served; modules that
//! stand at calls are left out.

use crate::scenario::Scenario;
use forebay_policies::{
    Arrival, End, Governor, Level, Moment, Next, Notice, Policy, PolicyError, Queue, Reading, Reason,
    RequestView, Signals, Site, Ticked, Ticket,
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a policy decided on an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decision {
    /// Answered at this level, for this reason.
    Serve(Level, Reason),
    /// Turned away.
    TurnAway(Reason),
    /// The attempt was over while it still stood in the queue.
    Wait,
}

impl Decision {
    /// Whether two decisions come to the same for the one who asked, whatever their reasons.
    fn is_like(self, other: Self) -> bool {
        match (self, other) {
            (Self::Serve(mine, _), Self::Serve(other, _)) => mine == other,
            (Self::TurnAway(_), Self::TurnAway(_)) | (Self::Wait, Self::Wait) => true,
            _ => false,
        }
    }

    /// Such as `l1`, `l2 l2.vram`, `turned away queue.full`, or `waiting`.
    fn name(self) -> String {
        match self {
            Self::Serve(level, Reason::Normal) => level.name().to_owned(),
            Self::Serve(level, why) => format!("{} {}", level.name(), why.code()),
            Self::TurnAway(why) => format!("turned away {}", why.code()),
            Self::Wait => "waiting".to_owned(),
        }
    }
}

/// Where the shadow and the live policy differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowReport {
    /// Attempts on which both decided, of requests born after the warm-up.
    pub attempts: u64,
    /// Those of them that would have been answered at another level, or turned away and not answered, or
    /// the other way round.
    pub differs: u64,
    /// How often each pair of decisions was taken, the most frequent first.
    pub pairs: Vec<ShadowPair>,
    /// By class of the scenario.
    pub by_class: IndexMap<String, ShadowClass>,
}

/// A pair of decisions on the same attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowPair {
    /// What the live policy decided: the level and the reason, or that the attempt was turned away.
    pub live: String,
    /// What the shadow decided.
    pub shadow: String,
    /// On how many attempts.
    pub attempts: u64,
}

/// What the shadow makes of the requests of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShadowClass {
    /// Attempts that reached the gateway.
    pub attempts: u64,
    /// Those that the shadow takes for unimportant on arrival: it puts them into the third queue of the
    /// semantic queue, or answers them below L2.
    pub low: u64,
}

/// What is remembered of an attempt in flight.
#[derive(Clone, Copy, Debug)]
struct Mark {
    ticket: Ticket,
    live: Option<Decision>,
    shadow: Option<Decision>,
    counts: bool,
}

/// The second governor, and the account of its decisions.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    governor: Governor,
    signals: Signals,
    /// What it begins with when the gateway was killed and is back; only where that can be.
    fresh: Option<Box<(Governor, Signals)>>,
    ticked: Ticked,
    /// The third queue is for requests of low priority.
    ranks: bool,
    /// By slot of the ticket.
    marks: Vec<Option<Mark>>,
    pairs: BTreeMap<(Decision, Decision), u64>,
    classes: Vec<ShadowClass>,
}

impl Shadow {
    /// The shadow of a scenario; `policy` is its policy as the service completes it. What stands at calls
    /// stays part of it, unasked: its loops may set the numbers of such modules too.
    pub(crate) fn new(scenario: &Scenario, policy: &Policy) -> Result<Self, PolicyError> {
        let (governor, signals) = (Governor::new(policy)?, Signals::new(&policy.signals));
        let fresh = scenario.gateway.host.as_ref().map(|_| Box::new((governor.clone(), signals.clone())));
        Ok(Self {
            governor,
            signals,
            fresh,
            ticked: Ticked::default(),
            ranks: matches!(policy.queue, Some(Queue::Semantic(_))),
            marks: Vec::new(),
            pairs: BTreeMap::new(),
            classes: vec![ShadowClass::default(); scenario.workload.classes.len()],
        })
    }

    /// Whether it may want to know a signal.
    pub(crate) fn reads_signals(&self) -> bool {
        let mut modules = self.governor.policy().admission.values();
        self.tick_period_ns().is_some() || modules.any(|module| module.place() == Site::Front)
    }

    /// How often its loops run.
    pub(crate) fn tick_period_ns(&self) -> Option<u64> {
        self.governor.tick_period_ns()
    }

    /// An attempt arrived, and the live policy has decided on it.
    pub(crate) fn arrived(
        &mut self,
        now: Moment,
        view: &RequestView,
        (class, counts): (u16, bool),
        live: Arrival,
    ) {
        let answer = self.governor.arrived(now, view, &self.signals);
        let slot = view.ticket.slot();
        if slot >= self.marks.len() {
            self.marks.resize(slot + 1, None);
        }
        let mark = Mark { ticket: view.ticket, live: decided(live), shadow: decided(answer), counts };
        self.marks[slot] = Some(mark);
        if counts && let Some(of_class) = self.classes.get_mut(usize::from(class)) {
            of_class.attempts += 1;
            let low = match answer {
                Arrival::Queue { class } => self.ranks && class >= 2,
                Arrival::Degrade { level, .. } => level >= Level::L3,
                Arrival::Admit | Arrival::Reject { .. } => false,
            };
            of_class.low += u64::from(low);
        }
    }

    fn mark(&mut self, ticket: Ticket) -> Option<&mut Mark> {
        self.marks.get_mut(ticket.slot())?.as_mut().filter(|mark| mark.ticket == ticket)
    }

    /// The live policy has decided on a queued attempt.
    pub(crate) fn live(&mut self, next: Next) {
        let (ticket, decision) = match next {
            Next::Serve(dispatch) => (dispatch.ticket, Decision::Serve(dispatch.level, dispatch.why)),
            Next::Drop { ticket, why } => (ticket, Decision::TurnAway(why)),
            Next::Idle => return,
        };
        if let Some(mark) = self.mark(ticket) {
            mark.live = Some(decision);
        }
    }

    /// The live run has so many slots to fill: the shadow fills as many, if it can.
    pub(crate) fn turns(&mut self, now: Moment, mut slots: u32) {
        while slots > 0 {
            let (ticket, decision) = match self.governor.next(now, &self.signals) {
                Next::Serve(dispatch) => {
                    slots -= 1;
                    (dispatch.ticket, Decision::Serve(dispatch.level, dispatch.why))
                }
                Next::Drop { ticket, why } => (ticket, Decision::TurnAway(why)),
                Next::Idle => return,
            };
            if let Some(mark) = self.mark(ticket) {
                mark.shadow = Some(decision);
            }
        }
    }

    /// An attempt is over.
    pub(crate) fn over(&mut self, now: Moment, ticket: Ticket, end: &End) {
        self.governor.left(now, ticket, end);
        let Some(place) = self.marks.get_mut(ticket.slot()) else { return };
        let Some(mark) = place.take_if(|mark| mark.ticket == ticket) else { return };
        if mark.counts {
            let pair = (mark.live.unwrap_or(Decision::Wait), mark.shadow.unwrap_or(Decision::Wait));
            *self.pairs.entry(pair).or_insert(0) += 1;
        }
    }

    /// A reading arrives.
    pub(crate) fn deliver(&mut self, now: Moment, reading: &Reading) {
        self.signals.deliver(now, reading);
    }

    /// Something around the governors was lost, or came back.
    pub(crate) fn notice(&mut self, now: Moment, notice: Notice) {
        self.governor.notice(now, notice);
    }

    /// The gateway was killed and is back: the policy knows nothing of what was. The account stays.
    pub(crate) fn restart(&mut self) {
        if let Some(fresh) = &self.fresh {
            (self.governor, self.signals) = (**fresh).clone();
        }
    }

    /// Its loops run; they set its own parameters.
    pub(crate) fn tick(&mut self, now: Moment) {
        self.ticked.clear();
        self.governor.tick(now, &self.signals, &mut self.ticked);
    }

    /// Where it and the live policy differ, so far.
    pub(crate) fn report<'a>(&self, classes: impl Iterator<Item = &'a String>) -> ShadowReport {
        let mut counted: Vec<_> = self.pairs.iter().map(|(&pair, &attempts)| (pair, attempts)).collect();
        counted.sort_by_key(|&(pair, attempts)| (std::cmp::Reverse(attempts), pair));
        let differing = counted.iter().filter(|((live, shadow), _)| !live.is_like(*shadow));
        ShadowReport {
            attempts: counted.iter().map(|&(_, attempts)| attempts).sum(),
            differs: differing.map(|&(_, attempts)| attempts).sum(),
            pairs: counted
                .iter()
                .map(|&((live, shadow), attempts)| ShadowPair {
                    live: live.name(),
                    shadow: shadow.name(),
                    attempts,
                })
                .collect(),
            by_class: classes.cloned().zip(self.classes.iter().copied()).collect(),
        }
    }
}

/// What an answer to an arrival decides; `None`: the attempt is queued.
fn decided(answer: Arrival) -> Option<Decision> {
    match answer {
        Arrival::Admit => Some(Decision::Serve(Level::L1, Reason::Normal)),
        Arrival::Degrade { level, why } => Some(Decision::Serve(level, why)),
        Arrival::Reject { why, .. } => Some(Decision::TurnAway(why)),
        Arrival::Queue { .. } => None,
    }
}

impl ShadowReport {
    /// Adds the report of another replication.
    pub fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.differs += other.differs;
        for pair in &other.pairs {
            let same = |mine: &&mut ShadowPair| (&mine.live, &mine.shadow) == (&pair.live, &pair.shadow);
            match self.pairs.iter_mut().find(same) {
                Some(mine) => mine.attempts += pair.attempts,
                None => self.pairs.push(pair.clone()),
            }
        }
        self.pairs.sort_by(|a, b| {
            b.attempts.cmp(&a.attempts).then_with(|| (&a.live, &a.shadow).cmp(&(&b.live, &b.shadow)))
        });
        for (name, class) in &other.by_class {
            let mine = self.by_class.entry(name.clone()).or_default();
            mine.attempts += class.attempts;
            mine.low += class.low;
        }
    }
}
