//! Tests of the semantic queue: the order within a queue, the levels it serves at, and moves under load.

use super::*;
use crate::Reading;
use crate::governor::tickets::Standing;

const S: u64 = 1_000_000_000;

/// A queue and its tickets, as the governor drives it.
struct Desk {
    state: State,
    tickets: Tickets,
    signals: Signals,
}

impl Desk {
    fn new(file: &str) -> Self {
        let parameters: Semantic = toml::from_str(file).expect("the test's own file");
        parameters.check("queue").expect("the test's own values");
        Self { state: State::new(&parameters), tickets: Tickets::default(), signals: Signals::default() }
    }

    fn vram(&mut self, share: f64) {
        let reading = Reading::new(Moment(0)).with(SignalKind::Vram, share);
        self.signals.deliver(Moment(0), &reading);
        self.state.tick(Moment(0), &self.signals, &mut self.tickets);
    }

    fn push(&mut self, at: u64, slot: u32, view: RequestView) -> Result<u8, Refusal> {
        let ticket = Ticket::of(slot, 0);
        let request = RequestView { ticket, ..view };
        self.tickets.enter(&request);
        let place = self.state.push(Moment(at), &request, &self.signals, &mut self.tickets)?;
        self.tickets.get_mut(ticket).expect("it has entered").standing = Standing::Queued(place);
        Ok(place.class)
    }

    fn class_of(&self, slot: u32) -> Option<u8> {
        self.tickets.queued_at(Ticket::of(slot, 0)).map(|place| place.class)
    }

    fn drain(&mut self) -> Vec<u64> {
        std::iter::from_fn(|| match self.state.pop(Moment(0), &self.signals) {
            Popped::Serve(Ticket(ticket)) | Popped::ServeAt(Ticket(ticket), ..) => Some(ticket),
            Popped::Nothing => None,
        })
        .collect()
    }
}

/// A question by a user of a plain tier; 0.4 when urgent, 0.2 with a service keyword, else 0.
fn plain(user: u64) -> RequestView {
    RequestView { tier: 1, user, ..RequestView::new(Ticket(0)) }
}

fn service(user: u64) -> RequestView {
    RequestView { service_keyword: true, ..plain(user) }
}

fn urgent(user: u64) -> RequestView {
    RequestView { urgent: true, ..plain(user) }
}

fn top(user: u64) -> RequestView {
    RequestView { tier: 0, ..urgent(user) }
}

const IN_ORDER: &str = "weights = { standard = 0, degraded = 0 }";

#[test]
fn the_better_queue_first_then_the_score_then_arrival() {
    let mut desk = Desk::new(IN_ORDER);
    let queues = [plain(1), service(2), urgent(3), top(4), urgent(5), service(6)];
    let queues: Vec<_> =
        (1..).zip(queues).map(|(slot, view)| desk.push(u64::from(slot), slot, view).unwrap()).collect();
    assert_eq!(queues, [DEGRADED, STANDARD, STANDARD, HIGH, STANDARD, STANDARD]);
    assert_eq!([0, 1, 2, 3].map(|class| desk.state.len(class)), [1, 4, 1, 0]);
    assert_eq!(desk.drain(), [4, 3, 5, 2, 6, 1]);
}

#[test]
fn who_asks_often_comes_later_within_the_queue_but_keeps_it() {
    let mut desk = Desk::new(IN_ORDER);
    for slot in 1..=3 {
        assert_eq!(desk.push(0, slot, urgent(7)), Ok(STANDARD));
    }
    desk.push(0, 4, service(8)).unwrap();
    desk.push(0, 5, urgent(9)).unwrap();
    // 0.4, 0.28 and 0.196 of the first user, 0.2 and 0.4 of the others.
    assert_eq!(desk.drain(), [1, 5, 2, 4, 3]);
}

#[test]
fn aging_lets_the_low_pass_the_high_of_its_queue() {
    let mut desk = Desk::new(&format!("{IN_ORDER}\naging_s = 100"));
    desk.push(0, 1, service(1)).unwrap();
    // 0.2 of priority are 20 s of waiting.
    desk.push(19 * S, 2, urgent(2)).unwrap();
    desk.push(21 * S, 3, urgent(3)).unwrap();
    assert_eq!(desk.drain(), [2, 1, 3]);
}

#[test]
fn changed_aging_holds_for_those_who_wait() {
    let mut desk = Desk::new(IN_ORDER);
    desk.push(0, 1, service(1)).unwrap();
    desk.push(21 * S, 2, urgent(2)).unwrap();
    let aging = Semantic { aging_s: Some(100.0), ..desk.state.parameters.clone() };
    desk.state.adopt(&aging);
    assert_eq!(desk.drain(), [1, 2]);
}

#[test]
fn the_third_queue_and_low_scores_are_served_at_lower_levels() {
    let mut desk = Desk::new("l1_score_at_least = 0.7\nexpedite = true");
    desk.push(0, 1, plain(1)).unwrap();
    desk.push(0, 2, urgent(2)).unwrap();
    desk.push(0, 3, RequestView { channel: crate::Channel::App, ..top(3) }).unwrap();
    desk.push(0, 4, RequestView { expedite: true, ..plain(4) }).unwrap();
    let ticket = |slot| Ticket::of(slot, 0);
    let mut pop = || desk.state.pop(Moment(0), &desk.signals);
    assert_eq!(pop(), Popped::Serve(ticket(3)));
    assert_eq!(pop(), Popped::Serve(ticket(4)));
    let why = Refusal::new(Reason::SemanticBelowL1, 0.4, 0.7);
    assert_eq!(pop(), Popped::ServeAt(ticket(2), Level::L2, why));
    let why = Refusal::new(Reason::SemanticDegraded, 0.0, 0.2);
    assert_eq!(pop(), Popped::ServeAt(ticket(1), Level::L3, why));
    assert_eq!(pop(), Popped::Nothing);
}

#[test]
fn low_scores_move_to_the_third_queue_above_the_threshold() {
    let mut desk = Desk::new("max_length = 2\nexpedite = true");
    desk.push(0, 1, service(1)).unwrap();
    desk.push(0, 2, urgent(2)).unwrap();
    desk.push(0, 3, plain(3)).unwrap();
    desk.vram(0.95);
    assert_eq!(desk.class_of(1), Some(STANDARD));
    desk.vram(0.951);
    assert_eq!([1, 2, 3].map(|slot| desk.class_of(slot)), [DEGRADED, STANDARD, DEGRADED].map(Some));
    // The third queue is full now: the next low score is turned away, the next high one is not.
    assert_eq!(desk.push(0, 4, service(4)).unwrap_err().why, Reason::QueueFull);
    assert_eq!(desk.push(0, 5, urgent(5)), Ok(STANDARD));
    let place = desk.tickets.queued_at(Ticket::of(1, 0)).unwrap();
    desk.state.remove(place);
    assert_eq!(desk.push(0, 6, service(6)), Ok(DEGRADED));
    // Below the threshold a service keyword leads to the second queue again; nobody moves back.
    desk.vram(0.5);
    desk.tickets.leave(Ticket::of(2, 0));
    desk.state.pop(Moment(0), &desk.signals);
    assert_eq!(desk.push(0, 7, service(7)), Ok(STANDARD));
    assert_eq!(desk.class_of(6), Some(DEGRADED));
}

#[test]
fn the_moves_go_on_when_there_is_room_again() {
    let mut desk = Desk::new("max_length = 2");
    for slot in 1..=2 {
        desk.push(0, slot, service(u64::from(slot))).unwrap();
    }
    desk.push(0, 3, plain(3)).unwrap();
    desk.vram(0.99);
    assert_eq!([1, 2, 3].map(|slot| desk.class_of(slot)), [DEGRADED, STANDARD, DEGRADED].map(Some));
    let place = desk.tickets.queued_at(Ticket::of(3, 0)).unwrap();
    desk.state.remove(place);
    desk.vram(0.99);
    assert_eq!(desk.class_of(2), Some(DEGRADED));
}
