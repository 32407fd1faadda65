//! The calendar against a model that is obviously right: a `BTreeMap` keyed by (time, sequence).

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

fn drain<E>(calendar: &mut Calendar<E>) -> Vec<(u64, E)> {
    std::iter::from_fn(|| calendar.pop()).map(|(time, event)| (time.as_nanos(), event)).collect()
}

#[test]
fn one_instant_is_first_in_first_out() {
    let mut calendar = Calendar::new();
    for n in 0..100 {
        calendar.schedule(at(5), n);
        calendar.schedule(at(3), n);
    }
    let expected: Vec<_> = (0..100).map(|n| (3, n)).chain((0..100).map(|n| (5, n))).collect();
    assert_eq!(drain(&mut calendar), expected);
    assert_eq!((calendar.now(), calendar.fired()), (at(5), 200));
}

#[test]
fn the_past_counts_as_now() {
    let mut calendar = Calendar::new();
    calendar.schedule(at(10), 'a');
    calendar.schedule(at(10), 'b');
    assert_eq!(calendar.pop(), Some((at(10), 'a')));
    calendar.schedule(at(2), 'c');
    calendar.after(Span::ZERO, 'd');
    assert_eq!(drain(&mut calendar), [(10, 'b'), (10, 'c'), (10, 'd')]);
}

#[test]
fn beyond_the_horizon_is_the_horizon() {
    let mut calendar = Calendar::new();
    calendar.schedule(Time::MAX, 'a');
    calendar.schedule(at(1 << 60), 'b');
    calendar.schedule(at(7), 'c');
    let horizon = (1 << 60) - 1;
    assert_eq!(drain(&mut calendar), [(7, 'c'), (horizon, 'a'), (horizon, 'b')]);
    calendar.after(Span::MAX, 'd');
    assert_eq!(calendar.pop(), Some((Calendar::<char>::HORIZON, 'd')));
}

#[test]
fn a_limit_holds_back_what_is_later() {
    let mut calendar = Calendar::new();
    calendar.schedule(at(5), 'a');
    calendar.schedule(at(6), 'b');
    assert_eq!(calendar.pop_until(at(4)), None);
    assert_eq!(calendar.pop_until(at(5)), Some((at(5), 'a')));
    assert_eq!(calendar.pop_until(at(5)), None);
    assert_eq!((calendar.now(), calendar.len()), (at(5), 1));
    assert_eq!(calendar.peek(), Some(at(6)));
}

#[test]
fn a_handle_names_one_event_only() {
    let mut calendar = Calendar::new();
    let first = calendar.schedule(at(1), 'a');
    assert!(calendar.is_pending(first));
    assert_eq!(calendar.pop(), Some((at(1), 'a')));
    assert!(!calendar.is_pending(first));
    // The next event takes over the slot, not the name.
    let second = calendar.schedule(at(2), 'b');
    assert_eq!(first.slot(), second.slot());
    assert_eq!(calendar.cancel(first), None);
    assert!(calendar.is_pending(second));
    assert_eq!(calendar.cancel(second), Some('b'));
    assert_eq!(calendar.cancel(second), None);
    assert!(!calendar.is_pending(second));
    assert!(calendar.is_empty());
    assert_eq!(calendar.peek(), None);
    assert_eq!(calendar.pop(), None);
}

#[test]
fn cancelling_the_next_event_uncovers_the_one_after() {
    let mut calendar = Calendar::new();
    let first = calendar.schedule(at(1), 'a');
    calendar.schedule(at(2), 'b');
    assert_eq!(calendar.cancel(first), Some('a'));
    assert_eq!((calendar.len(), calendar.peek()), (1, Some(at(2))));
    assert_eq!(calendar.pop(), Some((at(2), 'b')));
}

#[test]
fn a_storm_of_cancellations_keeps_memory_bounded() {
    // A timeout is set and cancelled for each of a million requests; ten are pending at a time.
    let mut calendar = Calendar::new();
    let mut timeouts = std::collections::VecDeque::new();
    for n in 0..1_000_000_u64 {
        timeouts.push_back(calendar.schedule(at(1_000_000_000 + n), n));
        if timeouts.len() > 10 {
            let oldest = timeouts.pop_front().unwrap();
            assert!(calendar.cancel(oldest).is_some());
        }
    }
    assert_eq!(calendar.len(), 10);
    assert!(calendar.heap.len() <= 2 * SWEEP_FLOOR, "{} keys", calendar.heap.len());
    assert!(calendar.slab.capacity() <= 2 * SWEEP_FLOOR, "{} slots", calendar.slab.capacity());
}

#[test]
fn payloads_are_dropped_when_cancelled() {
    let payload = std::rc::Rc::new(());
    let mut calendar = Calendar::new();
    let handles: Vec<_> = (0..5).map(|n| calendar.schedule(at(n), payload.clone())).collect();
    assert_eq!(std::rc::Rc::strong_count(&payload), 6);
    calendar.cancel(handles[3]);
    calendar.pop();
    assert_eq!(std::rc::Rc::strong_count(&payload), 4);
}

#[test]
fn the_limits_of_the_key_are_what_the_header_says() {
    assert_eq!(TIME_BITS + SEQUENCE_BITS + SLOT_BITS, u128::BITS);
    let key = pack((1 << TIME_BITS) - 1, SEQUENCE_LIMIT - 1, (1 << SLOT_BITS) - 1);
    assert_eq!(key, u128::MAX);
    assert_eq!((time_of(key), slot_of(key)), ((1 << TIME_BITS) - 1, (1 << SLOT_BITS) - 1));
}

#[test]
fn a_copy_goes_its_own_way() {
    let mut calendar = Calendar::new();
    calendar.schedule(at(1), 'a');
    let handle = calendar.schedule(at(2), 'b');
    calendar.pop();
    let mut fork = calendar.clone();
    assert_eq!(fork.cancel(handle), Some('b'));
    fork.schedule(at(9), 'c');
    assert_eq!(drain(&mut fork), [(9, 'c')]);
    assert_eq!(drain(&mut calendar), [(2, 'b')]);
}

/// What can be done to a calendar.
#[derive(Clone, Debug)]
enum Step {
    Schedule(u64),
    Cancel(usize),
    Pop,
    PopUntil(u64),
    Peek,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..40).prop_map(Step::Schedule),
        2 => (0_usize..64).prop_map(Step::Cancel),
        3 => Just(Step::Pop),
        1 => (0_u64..20).prop_map(Step::PopUntil),
        1 => Just(Step::Peek),
    ];
    prop::collection::vec(step, 0..400)
}

/// The model: events by (time, sequence), and nothing clever.
#[derive(Default)]
struct Model {
    pending: BTreeMap<(u64, u64), u64>,
    now: u64,
    sequence: u64,
}

impl Model {
    fn schedule(&mut self, time: u64) -> (u64, u64) {
        let key = (time.max(self.now), self.sequence);
        self.pending.insert(key, self.sequence);
        self.sequence += 1;
        key
    }

    fn pop_until(&mut self, limit: u64) -> Option<(Time, u64)> {
        let (&(time, sequence), _) = self.pending.first_key_value()?;
        if time > limit {
            return None;
        }
        self.now = time;
        self.pending.remove(&(time, sequence)).map(|event| (at(time), event))
    }
}

fn check(steps: Vec<Step>, sequence_limit: u64) -> Result<(), TestCaseError> {
    let mut calendar = Calendar { sequence_limit, ..Calendar::new() };
    let mut model = Model::default();
    let mut handles = Vec::new();
    for step in steps {
        match step {
            Step::Schedule(delay) => {
                let time = (model.now + delay).saturating_sub(5);
                let key = model.schedule(time);
                handles.push((calendar.schedule(at(time), key.1), key));
            }
            Step::Cancel(which) if which < handles.len() => {
                let (handle, key) = handles[handles.len() - 1 - which];
                prop_assert_eq!(calendar.cancel(handle), model.pending.remove(&key));
            }
            Step::Cancel(_) => {}
            Step::Pop => prop_assert_eq!(calendar.pop(), model.pop_until(u64::MAX)),
            Step::PopUntil(delay) => {
                let limit = model.now + delay;
                prop_assert_eq!(calendar.pop_until(at(limit)), model.pop_until(limit));
            }
            Step::Peek => {
                let next = model.pending.keys().next().map(|key| at(key.0));
                prop_assert_eq!(calendar.peek(), next);
            }
        }
        prop_assert_eq!(calendar.len(), model.pending.len());
        prop_assert_eq!(calendar.now(), at(model.now));
        for (handle, key) in &handles {
            prop_assert_eq!(calendar.is_pending(*handle), model.pending.contains_key(key));
        }
    }
    while let Some(expected) = model.pop_until(u64::MAX) {
        prop_assert_eq!(calendar.pop(), Some(expected));
    }
    prop_assert_eq!(calendar.pop(), None);
    Ok(())
}

proptest! {
    #[test]
    fn behaves_as_the_model(steps in steps()) {
        check(steps, SEQUENCE_LIMIT)?;
    }

    /// With room for as few numbers as can be pending, renumbering happens all the time.
    #[test]
    fn renumbering_keeps_the_order(steps in steps()) {
        check(steps, 401)?;
        }
}

#[test]
fn renumbering_starts_over_with_what_is_pending() {
    let mut calendar = Calendar { sequence_limit: 8, ..Calendar::new() };
    for round in 0..1000_u64 {
        calendar.schedule(at(round), round);
        calendar.schedule(at(round), round + 1_000_000);
        calendar.schedule(at(round + 1), round + 2_000_000);
        assert!(calendar.sequence <= 8);
        while calendar.len() > 2 {
            calendar.pop();
        }
    }
    let events: Vec<u64> = drain(&mut calendar).into_iter().map(|(_, event)| event).collect();
    assert_eq!(events, [1_000_999, 2_000_999]);
}
