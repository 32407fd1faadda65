//! What must hold of every discipline, tested on all of them alike: nobody is lost or handed out twice,
//! limits of length and of waiting hold, places are right, a saved queue goes on as if nothing had
//! happened, and nobody starves where aging or shares are on.

use super::{Popped, Queue, State};
use crate::governor::tickets::{Standing, Tickets};
use crate::{Channel, Moment, Reading, RequestView, SignalKind, Signals, Ticket};
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const MAX_LENGTH: usize = 6;
const MAX_WAIT_NS: u64 = 500 * MS;

/// Every discipline; the first line of each is followed by the limits.
const DISCIPLINES: &[&str] = &[
    "kind = 'fifo'",
    "kind = 'strict_priority'",
    "kind = 'strict_priority'\nby = 'tier'\naging_s = 0.1",
    "kind = 'lifo_under_overload'\noverload_wait_s = 0.1\noverload_length = 4",
    "kind = 'earliest_deadline'\ntarget_s = { s0 = 0.1, s1 = 0.2 }",
    "kind = 'weighted_fair'\nweights = { q0 = 4, q1 = 2 }",
    "kind = 'weighted_fair'\nby = 'user'\ncost = 'tokens'\nmax_length_of_flow = 3",
    "kind = 'semantic'\nmove_above = 0.9\nexpedite = true",
    "kind = 'semantic'\nform = 'weighted'\nfirst_queue = 'urgency'\naging_s = 0.2\nl1_score_at_least = 0.4",
];

fn queue(discipline: &str) -> Queue {
    toml::from_str(discipline).expect("the test's own file")
}

#[derive(Clone, Debug)]
struct Deed {
    kind: u8,
    gap: u64,
    seed: u32,
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = (0..10_u8, 0..40 * MS, any::<u32>()).prop_map(|(kind, gap, seed)| Deed { kind, gap, seed });
    prop::collection::vec(deed, 1..400)
}

fn request(ticket: Ticket, seed: u32) -> RequestView {
    let bit = |n: u32| seed >> n & 1 == 1;
    RequestView {
        class: (seed % 5) as u8,
        tier: (seed / 5 % 3) as u8,
        user: u64::from(seed / 16 % 6),
        tokens_in: seed % 1000,
        channel: [Channel::App, Channel::MiniProgram, Channel::H5][seed as usize / 3 % 3],
        urgent: bit(20),
        service_keyword: bit(21),
        follow_up: bit(22),
        expedite: bit(23) && bit(24),
        ..RequestView::new(ticket)
    }
}

/// A queue beside plain books of who waits in it, in order of arrival.
struct Clerk {
    state: State,
    tickets: Tickets,
    signals: Signals,
    now: Moment,
    waiting: Vec<(Ticket, Moment)>,
    born: u32,
    /// Each queue has its own limit; else one holds for all together.
    limit_per_queue: bool,
    log: Vec<String>,
}

impl Clerk {
    fn new(discipline: &str) -> Self {
        let limits = format!("max_length = {MAX_LENGTH}\nmax_wait_s = 0.5");
        Self {
            state: State::new(&queue(&format!("{discipline}\n{limits}"))),
            tickets: Tickets::default(),
            signals: Signals::default(),
            now: Moment(0),
            waiting: Vec::new(),
            born: 0,
            limit_per_queue: discipline.contains("strict") || discipline.contains("semantic"),
            log: Vec::new(),
        }
    }

    fn step(&mut self, deed: &Deed) {
        self.now = self.now.after(deed.gap);
        match deed.kind {
            0..=4 => self.push(deed.seed),
            5..=6 => self.pop(),
            7 if !self.waiting.is_empty() => {
                let (ticket, _) = self.waiting.remove(deed.seed as usize % self.waiting.len());
                let place = self.tickets.queued_at(ticket).expect("it waits");
                self.tickets.leave(ticket);
                self.state.remove(place);
            }
            8 => {
                let share = f64::from(deed.seed % 100) / 100.0;
                self.signals.deliver(self.now, &Reading::new(self.now).with(SignalKind::Vram, share));
                self.state.tick(self.now, &self.signals, &mut self.tickets);
            }
            _ => self.expire(),
        }
        self.audit();
    }

    fn push(&mut self, seed: u32) {
        let ticket = Ticket::of(self.born % 64, self.born / 64);
        self.born += 1;
        let request = request(ticket, seed);
        self.tickets.enter(&request);
        match self.state.push(self.now, &request, &self.signals, &mut self.tickets) {
            Ok(place) => {
                self.tickets.get_mut(ticket).expect("it has entered").standing = Standing::Queued(place);
                self.waiting.push((ticket, self.now));
            }
            Err(refusal) => {
                self.tickets.leave(ticket);
                self.log.push(format!("{refusal:?}"));
            }
        }
    }

    fn pop(&mut self) {
        let popped = self.state.pop(self.now, &self.signals);
        self.log.push(format!("{popped:?}"));
        match popped {
            Popped::Serve(ticket) | Popped::ServeAt(ticket, ..) => self.taken(ticket),
            Popped::Nothing => assert!(self.waiting.is_empty(), "{} were lost", self.waiting.len()),
        }
    }

    fn taken(&mut self, ticket: Ticket) {
        let index = self.waiting.iter().position(|&(other, _)| other == ticket);
        self.waiting.remove(index.expect("one was handed out that does not wait"));
        self.tickets.leave(ticket);
    }

    fn expire(&mut self) {
        while let Some((ticket, _)) = self.state.pop_expired(self.now) {
            let (_, since) = self.waiting.iter().find(|(other, _)| *other == ticket).expect("it waits");
            assert!(self.now.since(*since) > MAX_WAIT_NS, "one was turned away too early");
            self.taken(ticket);
            self.log.push(format!("expired {ticket:?}"));
        }
        assert!(self.waiting.iter().all(|&(_, since)| self.now.since(since) <= MAX_WAIT_NS));
    }

    fn audit(&self) {
        assert_eq!(self.state.queued(), self.waiting.len());
        let mut lengths = [0; 256];
        for &(ticket, _) in &self.waiting {
            let place = self.tickets.queued_at(ticket).expect("it waits");
            lengths[usize::from(place.class)] += 1;
            assert!(self.state.ahead(self.now, place).expect("it waits") < 20 * MAX_LENGTH);
        }
        for (class, &length) in lengths.iter().enumerate() {
            assert_eq!(self.state.len(class as u8), length, "queue {class}");
            assert!(length <= MAX_LENGTH);
        }
        assert!(self.limit_per_queue || self.waiting.len() <= MAX_LENGTH);
        let oldest = self.waiting.iter().map(|&(_, since)| since).min();
        assert_eq!(self.state.next_expiry(), oldest.map(|since| since.after(MAX_WAIT_NS + 1)));
    }

    /// Hands everybody out, in order.
    fn drain(&mut self) {
        while !self.waiting.is_empty() {
            self.pop();
            self.audit();
        }
        self.pop();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn nobody_is_lost_or_handed_out_twice_and_limits_hold(deeds in deeds()) {
        for discipline in DISCIPLINES {
            let mut clerk = Clerk::new(discipline);
            for deed in &deeds {
                clerk.step(deed);
            }
            clerk.drain();
        }
    }

    #[test]
    fn a_restored_queue_goes_on_identically(deeds in deeds(), at in any::<prop::sample::Index>()) {
        for discipline in DISCIPLINES {
            let mut clerk = Clerk::new(discipline);
            let cut = at.index(deeds.len());
            for deed in &deeds[..cut] {
 clerk.step(deed);
}
            let saved = serde_json::to_string(&(&clerk.state, &clerk.tickets, &clerk.signals)).unwrap();
            let (state, tickets, signals) = serde_json::from_str(&saved).unwrap();
            let (waiting, log) = (clerk.waiting.clone(), clerk.log.clone());
            let (now, born) = (clerk.now, clerk.born);
            let mut restored =
                Clerk { state, tickets, signals, now, waiting, born, log, ..Clerk::new(discipline) };
            for deed in &deeds[cut..] {
                clerk.step(deed);
                restored.step(deed);
                prop_assert_eq!(&clerk.state, &restored.state);
            }
            clerk.drain();
            restored.drain();
            prop_assert_eq!(clerk.log, restored.log);
        }
    }

    /// Nobody else arriving, those who are said to be ahead are those who are served before.
    #[test]
    fn who_is_ahead_is_served_before(seeds in prop::collection::vec(any::<u32>(), 1..40)) {
        for discipline in DISCIPLINES.iter().filter(|discipline| !discipline.contains("semantic")) {
            // The queue that turns round, and aging, are read as they stand at one moment.
            let mut clerk = Clerk::new(discipline);
            for &seed in &seeds {
                clerk.push(seed);
            }
            let ahead = |clerk: &Clerk, ticket| {
                clerk.state.ahead(clerk.now, clerk.tickets.queued_at(ticket).expect("it waits"))
            };
            while let Some(&(ticket, _)) = clerk.waiting.first() {
                let said: Vec<_> = clerk.waiting.iter().map(|&(ticket, _)| ahead(&clerk, ticket)).collect();
                let next = clerk.waiting.iter().map(|&(ticket, _)| ticket).zip(said)
                    .find(|&(_, ahead)| ahead == Some(0));
                prop_assert!(next.is_some(), "{discipline}: nobody is next, {ticket:?} waits");
                let before = clerk.waiting.len();
                clerk.pop();
                prop_assert_eq!(clerk.waiting.len(), before - 1);
                let (next, _) = next.expect("just checked");
                prop_assert!(clerk.waiting.iter().all(|&(other, _)| other != next), "{}", discipline);
            }
        }
    }
}

/// How many others are served before one question of the least importance, when questions of the most
/// important kind alone fill the capacity and `backlog` of them wait; `None`: it still waits at the end.
fn passed_over(discipline: &str, backlog: u64) -> Option<u64> {
    let mut state = State::new(&queue(discipline));
    let (signals, mut tickets) = (Signals::default(), Tickets::default());
    let mut push = |state: &mut State, at: u64, n: u64, important: bool| {
        let (class, tier, urgent) = if important { (0, 0, true) } else { (4, 5, false) };
        let user = if important { n } else { 0 };
        let request = RequestView { class, tier, user, urgent, ..RequestView::new(Ticket(n)) };
        state.push(Moment(at), &request, &signals, &mut tickets).expect("there is no limit");
    };
    for n in 1..=backlog {
        push(&mut state, 0, n, true);
    }
    push(&mut state, 1, 0, false);
    for step in 1..10_000 {
        let now = step * 100 * MS;
        push(&mut state, now, backlog + step, true);
        match state.pop(Moment(now), &signals) {
            Popped::Serve(Ticket(0)) | Popped::ServeAt(Ticket(0), ..) => return Some(step - 1),
            _ => {}
        }
    }
    None
}

/// Incident N17: under strict bands the low one waits without bound; with aging or shares it does not.
#[test]
fn nobody_starves_where_aging_or_shares_are_on() {
    for backlog in [0, 1, 10, 100] {
        assert_eq!(passed_over("kind = 'strict_priority'", backlog), None);
        assert_eq!(passed_over("kind = 'lifo_under_overload'\noverload_length = 0", backlog), None);
        let no_shares = "kind = 'semantic'\nweights = { standard = 0, degraded = 0 }";
        assert_eq!(passed_over(no_shares, backlog), None);
        for (discipline, most) in [
            // S4 counts as S0 after 4 x 1 s, which is 40 services, and has then waited longest but for
            // the backlog.
            ("kind = 'strict_priority'\naging_s = 1", 41 + backlog),
            ("kind = 'fifo'", backlog),
            // Due after 6 s, when all who came up to 5 s after it have been served.
            ("kind = 'earliest_deadline'\ntarget_s = { s0 = 1, s4 = 6 }", 51 + backlog),
            // One in ten services.
            ("kind = 'weighted_fair'\nweights = { q0 = 9, q4 = 1 }", 10),
            ("kind = 'semantic'\nweights = { standard = 0, degraded = 0.1 }", 10),
        ] {
            let passed = passed_over(discipline, backlog);
            assert!(
                passed.is_some_and(|passed| passed <= most),
                "{discipline}: {passed:?}, backlog {backlog}"
            );
        }
    }
}
