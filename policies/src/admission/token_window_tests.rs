//! Tests of the token window: the published cases, and the incidents both ways.

use super::*;
use crate::Ticket;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * S;

fn window(quota: u64) -> TokenWindow {
    serde_json::from_value(serde_json::json!({ "quota": quota })).unwrap()
}

/// A request that asks for so many tokens, a quarter of them in.
fn request(n: u32, tokens: u32) -> RequestView {
    let tokens_in = tokens / 4;
    RequestView { tokens_in, tokens_out_estimate: tokens - tokens_in, ..RequestView::new(Ticket::of(n, 0)) }
}

fn ask(state: &mut State, now: u64, n: u32, tokens: u32) -> Verdict {
    state.ask(Moment(now), 0, &request(n, tokens), &Signals::default())
}

fn end(state: &mut State, now: u64, n: u32, end: End) {
    state.ended(Moment(now), 0, &RequestView::new(Ticket::of(n, 0)), &end);
}

fn answered(tokens: u32) -> End {
    End::answered(S, Some(tokens))
}

fn refusal(verdict: Verdict) -> Refusal {
    match verdict {
        Verdict::Refuse(refusal) => refusal,
        passed => panic!("{passed:?}"),
    }
}

/// How many of these requests, all at once, come in.
fn admitted(state: &mut State, tokens: &[u32]) -> usize {
    let held = |(n, &tokens)| ask(state, 0, n as u32, tokens) == Verdict::Hold;
    tokens.iter().enumerate().map(held).filter(|&held| held).count()
}

#[test]
fn t1_admitted_iff_the_live_sub_windows_and_the_estimate_are_within_the_quota() {
    let mut state = State::new(&window(100));
    assert_eq!(ask(&mut state, 5 * S, 0, 60), Verdict::Hold);
    assert_eq!(ask(&mut state, 15 * S, 1, 40), Verdict::Hold);
    let full = refusal(ask(&mut state, 16 * S, 2, 1));
    assert_eq!((full.why, full.found, full.threshold), (Reason::TokenWindowSpent, 101.0, 100.0));
    assert_eq!(full.retry_after_ns, Some(44 * S));
    assert_eq!(refusal(ask(&mut state, 16 * S, 2, 61)).retry_after_ns, Some(54 * S));
    assert_eq!(ask(&mut state, MINUTE, 3, 60), Verdict::Hold);
    assert_eq!(refusal(ask(&mut state, MINUTE, 4, 1)).retry_after_ns, Some(10 * S));
}

#[test]
fn an_estimate_above_the_quota_is_told_so_and_reserves_nothing() {
    let mut state = State::new(&window(100));
    let large = refusal(ask(&mut state, 0, 0, 101));
    assert_eq!((large.why, large.found, large.threshold), (Reason::TokenWindowTooLarge, 101.0, 100.0));
    assert_eq!(large.retry_after_ns, None);
    assert_eq!(ask(&mut state, 0, 0, 100), Verdict::Hold);
}

#[test]
fn a_reservation_is_settled_with_what_was_used() {
    let mut state = State::new(&window(100));
    assert_eq!(ask(&mut state, 0, 0, 90), Verdict::Hold);
    end(&mut state, S, 0, answered(30));
    assert_eq!(ask(&mut state, S, 1, 70), Verdict::Hold);
    // More than was reserved: the window is overdrawn, and nobody comes in until it has left.
    end(&mut state, 2 * S, 1, answered(500));
    assert_eq!(refusal(ask(&mut state, 2 * S, 2, 1)).retry_after_ns, Some(58 * S));
    // An end that is told twice changes nothing.
    end(&mut state, 2 * S, 1, answered(0));
    assert_eq!(refusal(ask(&mut state, 3 * S, 2, 1)).found, 531.0);
}

#[test]
fn how_it_ended_decides_what_stays_reserved() {
    let failed = End { outcome: Outcome::Failed, ..End::GONE };
    let timed_out = End { outcome: Outcome::TimedOut, ..End::GONE };
    let cases = [(End::REFUSED, 100), (failed, 100), (timed_out, 40), (End::GONE, 40), (answered(7), 93)];
    for (over, left) in cases {
        let mut state = State::new(&window(100));
        assert_eq!(ask(&mut state, 0, 0, 60), Verdict::Hold);
        end(&mut state, S, 0, over);
        assert_ne!(ask(&mut state, S, 1, left + 1), Verdict::Hold, "{over:?}");
        assert_eq!(ask(&mut state, S, 1, left), Verdict::Hold, "{over:?}");
    }
}

#[test]
fn rejected_requests_count_when_asked_to() {
    let mut state = State::new(&TokenWindow { count_rejected: true, ..window(100) });
    assert_eq!(ask(&mut state, 0, 0, 60), Verdict::Hold);
    assert_eq!(refusal(ask(&mut state, 15 * S, 1, 60)).retry_after_ns, Some(55 * S));
    // Not yet free when the first has left: the one that was turned away counts.
    assert_eq!(refusal(ask(&mut state, MINUTE, 2, 60)).found, 120.0);
    // What a later module turns away counts too.
    let mut state = State::new(&TokenWindow { count_rejected: true, ..window(100) });
    assert_eq!(ask(&mut state, 0, 0, 60), Verdict::Hold);
    end(&mut state, 0, 0, End::REFUSED);
    assert_ne!(ask(&mut state, 0, 1, 60), Verdict::Hold);
}

#[test]
fn requests_are_counted_beside_the_tokens() {
    let mut state = State::new(&TokenWindow { requests: Some(2), ..window(100) });
    assert_eq!(ask(&mut state, 0, 0, 10), Verdict::Hold);
    assert_eq!(ask(&mut state, 0, 1, 10), Verdict::Hold);
    let third = refusal(ask(&mut state, S, 2, 10));
    assert_eq!((third.why, third.found, third.threshold), (Reason::TokenWindowRequests, 2.0, 2.0));
    assert_eq!(third.retry_after_ns, Some(59 * S));
    end(&mut state, S, 0, End::REFUSED);
    assert_eq!(ask(&mut state, S, 2, 80), Verdict::Hold);
}

#[test]
fn a_new_quota_or_window_keeps_what_was_counted() {
    let mut state = State::new(&window(100));
    assert_eq!(ask(&mut state, 0, 0, 100), Verdict::Hold);
    state.adopt(Moment(S), &window(150));
    assert_eq!(ask(&mut state, S, 1, 50), Verdict::Hold);
    state.adopt(Moment(2 * S), &TokenWindow { window_s: 30.0, sub_windows: 3, ..window(150) });
    assert_ne!(ask(&mut state, 2 * S, 2, 1), Verdict::Hold);
    end(&mut state, 3 * S, 0, answered(20));
    assert_eq!(ask(&mut state, 3 * S, 2, 80), Verdict::Hold);
    assert_eq!(ask(&mut state, 30 * S, 3, 150), Verdict::Hold);
}

#[test]
fn n01_charged_after_the_answer_all_five_pass() {
    let tokens = [58, 80, 175, 175, 175];
    let mut wrong = State::new(&TokenWindow { charge: Charge::OnEnd, ..window(100) });
    assert_eq!(admitted(&mut wrong, &tokens), 5);
    (0..).zip(tokens).for_each(|(n, tokens)| end(&mut wrong, S, n, answered(tokens)));
    assert_eq!(refusal(ask(&mut wrong, S, 9, 1)).found, 663.0);
    let mut right = State::new(&window(100));
    assert_eq!(admitted(&mut right, &tokens), 1);
    end(&mut right, S, 0, answered(58));
    assert_eq!(refusal(ask(&mut right, S, 9, 43)).found, 101.0);
    assert_eq!(ask(&mut right, S, 9, 42), Verdict::Hold);
}

#[test]
fn n24_a_hundred_at_once_all_pass_or_at_most_one() {
    let mut wrong = State::new(&TokenWindow { charge: Charge::OnEnd, ..window(100) });
    assert_eq!(admitted(&mut wrong, &[200; 100]), 100);
    let mut right = State::new(&window(100));
    assert!(admitted(&mut right, &[200; 100]) <= 1);
}

/// A crowd on one key of 500 000 tokens and 500 requests a minute: an easy first minute, then twice as
/// busy. Returns the tokens used in the running minute when the first was refused, and the longest time
/// in seconds from a refusal to the next admission.
fn crowd(shared_window: bool, tokens_per_s: [u32; 2]) -> (Option<u64>, u64) {
    let limits = TokenWindow { requests: Some(500), shared_window, ..window(500_000) };
    let mut state = State::new(&limits);
    let (mut blocked_at, mut blocked_since, mut longest_s) = (None, None, 0);
    let mut used = Vec::new();
    for second in 0..900_u64 {
        let tokens = tokens_per_s[usize::from(second >= 60)] / 5;
        for fifth in 0..5 {
            let n = (second * 5 + fifth) as u32;
            let now = second * S + fifth * (S / 5);
            if ask(&mut state, now, n % 1000, tokens) == Verdict::Hold {
                end(&mut state, now, n % 1000, answered(tokens));
                used.push((now, u64::from(tokens)));
                if let Some(since) = blocked_since.take() {
                    longest_s = longest_s.max((now - since) / S);
                }
                continue;
            }
            blocked_since.get_or_insert(now);
            blocked_at.get_or_insert_with(|| {
                used.iter().filter(|(at, _)| at / MINUTE == now / MINUTE).map(|(_, used)| used).sum()
            });
        }
    }
    (blocked_at, longest_s)
}

#[test]
fn n03_a_shared_window_flag_blocks_early_and_locks_for_minutes() {
    // 180 000 tokens in the first minute, then 460 000 a minute: always within the quota.
    let (blocked_at, locked_s) = crowd(true, [3000, 7667]);
    let blocked_at = blocked_at.unwrap();
    assert!((300_000..=350_000).contains(&blocked_at), "blocked at {blocked_at} tokens");
    assert!((120..=300).contains(&locked_s), "locked for {locked_s} s");
    // One window each: never blocked within the quota; above it blocked at the quota, and free again
    // within a minute.
    assert_eq!(crowd(false, [3000, 7667]), (None, 0));
    let (blocked_at, locked_s) = crowd(false, [0, 10_000]);
    assert_eq!(blocked_at, Some(500_000));
    assert!(locked_s <= 60, "locked for {locked_s} s");
}

#[test]
fn a_shared_window_needs_something_to_share_with() {
    let shared = TokenWindow { shared_window: true, ..window(1) };
    assert_eq!(shared.check("admission.t").unwrap_err().path(), "admission.t.shared_window");
    TokenWindow { requests: Some(1), ..shared }.check("admission.t").unwrap();
}

proptest! {
    /// With exact estimates no span of as many sub-windows as the window has lets more than the quota in,
    /// whatever was given back meanwhile.
    #[test]
    fn the_quota_holds_in_every_window(
        steps in prop::collection::vec((0..15 * S, 1..150_u32, 0..4_u8), 1..200), subs in 1..8_u32,
    ) {
        let mut state = State::new(&TokenWindow { sub_windows: subs, ..window(300) });
        let sub_ns = MINUTE / u64::from(subs);
        let mut used = std::collections::BTreeMap::<u64, u64>::new();
        let mut now = 0;
        for (n, (gap, tokens, how)) in (0..).zip(steps) {
            now += gap;
            if ask(&mut state, now, n, tokens) == Verdict::Hold {
                match how {
                    0 => end(&mut state, now, n, End::REFUSED),
                    1 => end(&mut state, now, n, answered(tokens)),
                    _ => {}
                }
                *used.entry(now / sub_ns).or_default() += if how == 0 { 0 } else { u64::from(tokens) };
            }
        }
        for &first in used.keys() {
            let sum: u64 = used.range(first..first + u64::from(subs)).map(|(_, tokens)| tokens).sum();
            prop_assert!(sum <= 300, "{sum} tokens from sub-window {first}");
        }
    }

    /// The hint is the first moment at which the same request would come in.
    #[test]
    fn the_retry_hint_is_the_first_moment_that_admits(
        steps in prop::collection::vec((0..15 * S, 1..150_u32), 1..100),
    ) {
        let mut state = State::new(&TokenWindow { requests: Some(5), ..window(300) });
        let mut now = 0;
        for (n, (gap, tokens)) in (0..).zip(steps) {
            now += gap;
            if let Verdict::Refuse(refusal) = ask(&mut state, now, n, tokens) {
                let hint = now + refusal.retry_after_ns.unwrap();
                prop_assert!(hint > now && ask(&mut state.clone(), hint - 1, n, tokens) != Verdict::Hold);
                prop_assert_eq!(ask(&mut state.clone(), hint, n, tokens), Verdict::Hold);
            }
        }
    }
}
