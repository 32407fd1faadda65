//! Tests of the weighted bucket.

use super::*;
use crate::{Reading, Ticket};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn ask(state: &mut State, now: u64, signals: &Signals) -> Verdict {
    state.ask(Moment(now), 0, &RequestView::new(Ticket(0)), signals)
}

fn admitted(state: &mut State, times: impl Iterator<Item = u64>) -> usize {
    let signals = Signals::default();
    times.filter(|&now| ask(state, now, &signals) == Verdict::Pass).count()
}

#[test]
fn weight_is_the_published_formula() {
    let bucket = WeightedBucket::published(1.0);
    assert!((bucket.weight(999, 2, 0.5) - (0.9 + 1.0 + 0.1)).abs() < 1e-12);
    assert_eq!(bucket.weight(0, 0, 0.0), 0.5);
    assert_eq!(bucket.weight(9, 40, 1.0), 5.0);
}

#[test]
fn refill_by_memory_is_linear_between_its_ends() {
    let bucket = WeightedBucket { refill: Refill::Vram, ..WeightedBucket::published(10.0) };
    let refill = |used| bucket.refill_per_s(Some(used), None);
    assert_eq!([refill(0.9), refill(1.0), refill(0.6), refill(0.0)], [6.0, 6.0, 12.0, 12.0]);
    assert!((refill(0.75) - 9.0).abs() < 1e-9);
    assert_eq!(bucket.refill_per_s(None, None), 10.0);
}

#[test]
fn a_microburst_uses_the_overdraft_and_halves_the_refill() {
    // Capacity 100, overdraft to -20: 240 requests of weight 0.5 at one instant.
    let mut state = State::new(&WeightedBucket::published(100.0));
    assert_eq!(admitted(&mut state, std::iter::repeat_n(0, 500)), 240);
    // For 3 s the refill is 50 tokens per second, so 100 requests per second; then 200.
    let each_ms = |from_s: u64| (1..=1000).map(move |i| (from_s * 1000 + i) * MS);
    for second in 0..3 {
        assert!((99..=101).contains(&admitted(&mut state, each_ms(second))));
    }
    assert!((199..=201).contains(&admitted(&mut state, each_ms(3))));
}

#[test]
fn an_overdraft_is_used_anew_only_after_the_balance_was_out_of_debt() {
    let mut state = State::new(&WeightedBucket::published(10.0));
    assert_eq!(admitted(&mut state, std::iter::repeat_n(0, 500)), 24);
    // Left alone for 10 s the bucket is full again and the cut is over: the same burst passes again.
    assert_eq!(admitted(&mut state, std::iter::repeat_n(10_000 * MS, 500)), 24);
}

#[test]
fn signals_move_capacity_and_refill() {
    let reading = Reading::new(Moment(0)).with(SignalKind::Vram, 0.5).with(SignalKind::ErrorRate, 0.5);
    let mut signals = Signals::default();
    signals.deliver(Moment(0), &reading);
    let no_overdraft = WeightedBucket { overdraft: 0.0, ..WeightedBucket::published(100.0) };
    let mut state = State::new(&no_overdraft);
    let burst = (0..500).filter(|_| ask(&mut state, 0, &signals) == Verdict::Pass).count();
    assert_eq!(burst, 230); // 100 * (1 + 0.3 * 0.5) tokens.
    let second = (0..500).filter(|_| ask(&mut state, 1000 * MS, &signals) == Verdict::Pass).count();
    assert_eq!(second, 160); // 100 * (1 - 0.4 * 0.5) tokens.
}

#[test]
fn the_retry_hint_admits() {
    let mut state = State::new(&WeightedBucket::published(10.0));
    admitted(&mut state, std::iter::repeat_n(0, 100));
    let Verdict::Refuse(refusal) = ask(&mut state, 0, &Signals::default()) else { panic!("let in") };
    assert_eq!(refusal.threshold, 0.5);
    let hint = refusal.retry_after_ns.unwrap();
    assert_ne!(ask(&mut state.clone(), hint - 1000, &Signals::default()), Verdict::Pass);
    assert_eq!(ask(&mut state, hint, &Signals::default()), Verdict::Pass);
}

#[test]
fn ends_in_the_wrong_order_are_refused() {
    let wrong = WeightedBucket { vram_low: 0.95, ..WeightedBucket::published(1.0) };
    assert_eq!(wrong.check("admission.entry").unwrap_err().path(), "admission.entry.vram_low");
}

proptest! {
    /// The weight let in over any time from the start is within capacity, overdraft and refill.
    #[test]
    fn the_bound_holds(
        gaps in prop::collection::vec(0..200 * MS, 0..300), base in 1.0..100.0_f64, chars in 0..10_000_u32,
    ) {
        let parameters = WeightedBucket::published(base);
        let weight = parameters.weight(chars, 0, 0.0);
        let mut state = State::new(&parameters);
        let request = RequestView { chars, ..RequestView::new(Ticket(0)) };
        let (mut now, mut used) = (Moment(0), 0.0);
        for gap in gaps {
            now = now.after(gap);
            if state.ask(now, 0, &request, &Signals::default()) == Verdict::Pass {
                used += weight;
            }
            prop_assert!(used <= base * 1.2 + base * now.seconds_since(Moment::ZERO) + 1e-6);
        }
    }
}
