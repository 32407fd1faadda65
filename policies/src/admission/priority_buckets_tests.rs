//! Tests of the priority buckets.

use super::*;
use crate::Ticket;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn published() -> PriorityBuckets {
    serde_json::from_value(serde_json::json!({})).unwrap()
}

fn without_decay() -> PriorityBuckets {
    PriorityBuckets { decay: 0.0, ..published() }
}

fn ask(state: &mut State, now: u64, class: u8) -> Verdict {
    state.ask(Moment(now), 0, &RequestView { class, ..RequestView::new(Ticket(0)) }, &Signals::default())
}

/// How many of a class pass in the second from `from`, when one comes every 100 us. The burst at its
/// start is taken out before.
fn per_s(state: &mut State, from: u64, class: u8) -> i64 {
    while ask(state, from, class) == Verdict::Pass {}
    (1..=10_000).map(|n| i64::from(ask(state, from + n * MS / 10, class) == Verdict::Pass)).sum()
}

#[test]
fn h1_each_class_has_its_own_bucket_at_rate_times_factor() {
    let mut state = State::new(&without_decay());
    for (class, rate) in [(0, 750), (1, 600), (2, 500), (3, 400), (4, 250)] {
        assert_eq!((0..2000).filter(|_| ask(&mut state, 0, class) == Verdict::Pass).count(), rate);
        assert_eq!(per_s(&mut State::new(&without_decay()), 0, class), rate as i64);
    }
    // A class beyond the last is of the last.
    assert_ne!(ask(&mut state, 0, 200), Verdict::Pass);
}

#[test]
fn h2_three_in_a_row_cut_the_factor_until_another_class_is_served() {
    let mut state = State::new(&published());
    // Alone, S2 has a fifth less.
    assert!((per_s(&mut state, 0, 2) - 400).abs() <= 1);
    // S3 is served, and S2 has its factor back: for two acquisitions.
    let again = (1..=10_000)
        .map(|n| {
            if n % 15 == 0 {
                assert_eq!(ask(&mut state, S + n * MS / 10, 3), Verdict::Pass);
            }
            i64::from(ask(&mut state, S + n * MS / 10, 2) == Verdict::Pass)
        })
        .sum::<i64>();
    assert!((again - 500).abs() <= 1, "{again} per s");
}

#[test]
fn h2_the_third_acquisition_makes_the_cut() {
    // 10 tokens in the bucket: after the third acquisition 8 are its size.
    let small = PriorityBuckets { rate_per_s: 10.0, ..published() };
    let taken = |before: &[u8]| {
        let mut state = State::new(&small);
        for &class in before {
            assert_eq!(ask(&mut state, 0, class), Verdict::Pass);
        }
        (0..100).filter(|_| ask(&mut state, 100 * S, 2) == Verdict::Pass).count()
    };
    // A full bucket of 10, of which the first three cut the rest to 7 of 8 ...
    assert_eq!(taken(&[]), 10);
    // ... and cut from the start.
    assert_eq!(taken(&[2, 2, 2]), 8);
    // The next one would be the third: 1 of 10, then 8.
    assert_eq!(taken(&[2, 2]), 9);
    assert_eq!(taken(&[2, 2, 2, 3]), 10);
}

#[test]
fn h3_a_large_step_is_limited_and_the_rest_follows_after_the_cooldown() {
    let mut state = State::new(&without_decay());
    // +300 % is asked for: +200 % comes.
    state.adopt(Moment(0), &PriorityBuckets { rate_per_s: 2000.0, ..without_decay() });
    assert_eq!(per_s(&mut state, 0, 2), 1500);
    assert_eq!(per_s(&mut state, 28 * S, 2), 1500);
    assert_eq!(per_s(&mut state, 30 * S, 2), 2000);
    // A lower rate is taken at once; a rise after it rests.
    state.adopt(Moment(40 * S), &PriorityBuckets { rate_per_s: 100.0, ..without_decay() });
    assert_eq!(per_s(&mut state, 40 * S, 2), 100);
    state.adopt(Moment(42 * S), &PriorityBuckets { rate_per_s: 200.0, ..without_decay() });
    assert_eq!(per_s(&mut state, 42 * S, 2), 100);
    assert_eq!(per_s(&mut state, 70 * S, 2), 200);
}

#[test]
fn tokens_are_taken_when_asked_to() {
    let mut state = State::new(&PriorityBuckets { cost: Cost::Tokens, ..without_decay() });
    let mut ask = |now, tokens_in, tokens_out_estimate| {
        let request = RequestView { tokens_in, tokens_out_estimate, ..RequestView::new(Ticket(0)) };
        state.ask(Moment(now), 0, &request, &Signals::default())
    };
    assert_eq!(ask(0, 100, 300), Verdict::Pass);
    let Verdict::Refuse(empty) = ask(0, 100, 1) else { panic!("it passed") };
    assert_eq!((empty.why, empty.found, empty.threshold), (Reason::PriorityBucketEmpty, 100.0, 101.0));
    assert_eq!(empty.retry_after_ns, Some(2 * MS));
    let Verdict::Refuse(large) = ask(0, 500, 1) else { panic!("it passed") };
    assert_eq!((large.why, large.retry_after_ns), (Reason::PriorityBucketTooLarge, None));
    assert_eq!(ask(2 * MS, 100, 1), Verdict::Pass);
}

#[test]
fn the_balance_is_the_emptiest_bucket() {
    let mut state = State::new(&without_decay());
    let balance = |state: &State, now| state.balance(Moment(now), &Signals::default());
    assert_eq!(balance(&state, 0), Some(1.0));
    (0..125).for_each(|_| assert_eq!(ask(&mut state, 0, 4), Verdict::Pass));
    assert_eq!((balance(&state, 0), balance(&state, S / 4)), (Some(0.5), Some(0.75)));
}

proptest! {
    /// Whatever the order of the classes, none gets more than a full bucket and its rate.
    #[test]
    fn the_bound_holds_for_each_class(
        steps in prop::collection::vec((0..20 * MS, 0..5_u8), 1..400), decay in 0.0..1.0_f64,
    ) {
        let parameters = PriorityBuckets { rate_per_s: 20.0, burst_s: 0.5, decay, ..published() };
        let mut state = State::new(&parameters);
        let mut now = 0;
        let mut admitted = [const { Vec::new() }; CLASSES];
        for (gap, class) in steps {
            now += gap;
            if ask(&mut state, now, class) == Verdict::Pass {
                admitted[usize::from(class)].push(now);
            }
        }
        for (class, moments) in admitted.iter().enumerate() {
            let Size { rate, burst } = state.sizes[class][0];
            for (i, &from) in moments.iter().enumerate() {
                for (j, &to) in moments.iter().enumerate().skip(i) {
                    let used = (j - i + 1) as f64 * MICRO;
                    // A refill before `from` may have left less than one millionth over.
                    let allowed = burst as f64 + rate as f64 * (to - from) as f64 * 1e-9 + 1.0;
                    prop_assert!(used <= allowed, "{used} of {allowed} by class {class}");
                }
            }
        }
    }
}
