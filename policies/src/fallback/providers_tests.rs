//! Tests of the fail-over, on its state alone; a small driver that hears `answers` in order.

use super::*;

const S: u64 = 1_000_000_000;
const LIMITED: ProviderEnd = ProviderEnd::RateLimited { retry_after_ns: None };

fn state(change: impl FnOnce(&mut Providers)) -> State {
    let mut parameters = Providers::default();
    change(&mut parameters);
    State::new(Some(&parameters))
}

fn ticket(n: u32) -> Ticket {
    Ticket::of(n, 0)
}

fn ask(state: &mut State, now: u64, n: u32) -> Route {
    state.route(Moment(now), ticket(n), 3, (false, false)).route
}

fn end(state: &mut State, now: u64, n: u32, provider: u8, end: ProviderEnd) -> bool {
    state.ended(Moment(now), ticket(n), provider, end, S)
}

/// The providers that an attempt asks while all of them fail, and its last answer.
fn walk(state: &mut State, mut now: u64, n: u32, with: ProviderEnd) -> (Vec<u8>, Route) {
    let mut asked = Vec::new();
    loop {
        match ask(state, now, n) {
            Route::Use { provider, .. } => {
                asked.push(provider);
                end(state, now, n, provider, with);
            }
            Route::Wait { at_most_ns } if asked.len() < 100 => now += at_most_ns,
            other => return (asked, other),
        }
    }
}

#[test]
fn without_a_rule_the_main_provider_is_asked_once() {
    let mut state = State::new(None);
    for n in 0..50 {
        let (asked, last) = walk(&mut state, 0, n, ProviderEnd::Failed);
        assert_eq!(asked, [0]);
        assert_eq!(last, Route::Fail { why: Reason::ProvidersExhausted, retry_after_ns: None });
    }
    assert!((0..50).all(|n| state.walks.get(Ticket::of(n, 0)).is_none()));
}

/// Published case P1, without its red line.
#[test]
fn the_next_provider_is_used_when_the_main_one_is_out() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    assert_eq!(ask(&mut state, 0, 0), Route::Use { provider: 0, why: Reason::Normal });
    end(&mut state, S, 0, 0, ProviderEnd::Failed);
    assert_eq!(ask(&mut state, S, 0), Route::Use { provider: 1, why: Reason::ProvidersFailOver });
    end(&mut state, 2 * S, 0, 1, ProviderEnd::Ok);
    // The main one rests for the cooldown, then a single call probes it.
    assert_eq!(ask(&mut state, 60 * S, 1), Route::Use { provider: 1, why: Reason::ProvidersFailOver });
    assert_eq!(ask(&mut state, 61 * S, 2), Route::Use { provider: 0, why: Reason::Normal });
    assert_eq!(ask(&mut state, 61 * S, 3), Route::Use { provider: 1, why: Reason::ProvidersFailOver });
    assert!(end(&mut state, 62 * S, 2, 0, ProviderEnd::Ok));
    assert_eq!(ask(&mut state, 62 * S, 4), Route::Use { provider: 0, why: Reason::Normal });
    // The end of a call that began before is not taken for a probe's.
    assert!(!end(&mut state, 62 * S, 1, 1, ProviderEnd::Ok));
}

#[test]
fn a_probe_that_fails_or_leaves_makes_room_for_another() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    ask(&mut state, 0, 0);
    end(&mut state, 0, 0, 0, ProviderEnd::TimedOut);
    assert_eq!(ask(&mut state, 60 * S, 1), Route::Use { provider: 0, why: Reason::Normal });
    end(&mut state, 61 * S, 1, 0, ProviderEnd::Failed);
    assert!(matches!(ask(&mut state, 120 * S, 2), Route::Use { provider: 1, .. }));
    assert!(matches!(ask(&mut state, 121 * S, 3), Route::Use { provider: 0, .. }));
    assert!(matches!(ask(&mut state, 121 * S, 4), Route::Use { provider: 1, .. }));
    state.left(ticket(3));
    assert!(matches!(ask(&mut state, 121 * S, 5), Route::Use { provider: 0, .. }));
}

#[test]
fn a_late_end_leaves_the_notes_of_others_alone() {
    let mut state = state(|p| p.error_share_above = 1.0);
    let (before, after) = (Ticket::of(0, 0), Ticket::of(0, 1));
    ask(&mut state, 0, 0);
    state.left(before);
    state.route(Moment(0), after, 3, (false, false));
    // The call of the one that had the slot before fails late: the one that has it now walks on as it would.
    end(&mut state, S, 0, 0, ProviderEnd::Failed);
    assert!(state.walks.get(before).is_none());
    state.ended(Moment(S), after, 0, ProviderEnd::Failed, S);
    let next = state.route(Moment(S), after, 3, (false, false)).route;
    assert_eq!(next, Route::Use { provider: 1, why: Reason::ProvidersFailOver });
    // And nobody is remembered who is gone.
    state.left(after);
    state.ended(Moment(S), after, 1, ProviderEnd::Failed, S);
    assert!(state.walks.get(after).is_none());
}

#[test]
fn a_late_end_of_an_old_round_says_nothing_in_the_next() {
    let probing = |p: &mut Providers| (p.allowed_failures, p.probes) = (Some(0), 2);
    for late in [ProviderEnd::Ok, ProviderEnd::Failed, ProviderEnd::Gone] {
        let mut state = state(probing);
        ask(&mut state, 0, 0);
        end(&mut state, 0, 0, 0, ProviderEnd::Failed);
        ask(&mut state, 60 * S, 1);
        ask(&mut state, 60 * S, 2);
        end(&mut state, 61 * S, 2, 0, ProviderEnd::Failed);
        // The second round: two probes are on their way, and the end of the first round's says nothing.
        ask(&mut state, 121 * S, 3);
        ask(&mut state, 121 * S, 4);
        end(&mut state, 122 * S, 1, 0, late);
        assert!(matches!(ask(&mut state, 122 * S, 5), Route::Use { provider: 1, .. }), "{late:?}");
        end(&mut state, 123 * S, 3, 0, ProviderEnd::Ok);
        assert!(matches!(ask(&mut state, 123 * S, 6), Route::Use { provider: 0, .. }), "{late:?}");
        assert!(matches!(ask(&mut state, 123 * S, 7), Route::Use { provider: 1, .. }), "{late:?}");
    }
}

#[test]
fn a_probe_that_is_lost_does_not_lock_the_breaker() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    ask(&mut state, 0, 0);
    end(&mut state, 0, 0, 0, ProviderEnd::Failed);
    // The prober asks again: nobody will report its call.
    assert!(matches!(ask(&mut state, 60 * S, 1), Route::Use { provider: 0, .. }));
    ask(&mut state, 61 * S, 1);
    assert!(matches!(ask(&mut state, 61 * S, 2), Route::Use { provider: 0, .. }));
    // Another has its slot.
    let other = Ticket::of(2, 1);
    assert!(matches!(
        state.route(Moment(62 * S), other, 3, (false, false)).route,
        Route::Use { provider: 0, .. }
    ));
    // Nothing is ever heard of it: after ten minutes it is lost, and one other may probe.
    assert!(matches!(ask(&mut state, 661 * S, 3), Route::Use { provider: 1, .. }));
    assert!(matches!(ask(&mut state, 662 * S, 4), Route::Use { provider: 0, .. }));
    assert!(matches!(ask(&mut state, 662 * S, 5), Route::Use { provider: 1, .. }));
    // It ends after all, and that shows as much as another's end.
    assert!(state.ended(Moment(663 * S), other, 0, ProviderEnd::Ok, S));
    assert!((6..20).all(|n| matches!(ask(&mut state, 663 * S, n), Route::Use { provider: 0, .. })));
}

#[test]
fn a_changed_window_keeps_what_it_still_covers_and_no_more() {
    // Nine failures at 96 to 104 s, the window changed, then one more: what opens at ten calls.
    let opens = |before_s: f64, after_s: f64, at_s: u64| {
        let with = |window_s| Providers { window_s, least_calls: 10, ..Providers::default() };
        let mut state = State::new(Some(&with(before_s)));
        let fail = |state: &mut State, second: u64| {
            let n = second as u32;
            assert!(matches!(ask(state, second * S, n), Route::Use { provider: 0, .. }));
            end(state, second * S, n, 0, ProviderEnd::Failed);
            state.left(ticket(n));
        };
        (96..105).for_each(|second| fail(&mut state, second));
        state.adopt(Some(&with(after_s)));
        fail(&mut state, at_s);
        matches!(ask(&mut state, at_s * S, 1000), Route::Use { provider: 1, .. })
    };
    assert!(opens(30.0, 30.0, 105) && opens(30.0, 300.0, 105) && opens(300.0, 30.0, 105));
    // A longer window covers more, and forgets in its turn; a shorter one forgets sooner.
    assert!(opens(30.0, 300.0, 300) && !opens(30.0, 300.0, 500));
    assert!(!opens(300.0, 30.0, 160));
}

#[test]
fn the_share_of_failures_opens_once_there_are_enough_calls() {
    let mut state = state(|p| p.least_calls = 10);
    let mut good = 0;
    for n in 0..20 {
        let Route::Use { provider: 0, .. } = ask(&mut state, u64::from(n) * S / 10, n) else { break };
        // Two of three fail: 7 of the first 10.
        let ok = n % 3 == 2;
        end(&mut state, u64::from(n) * S / 10, n, 0, if ok { ProviderEnd::Ok } else { ProviderEnd::Failed });
        state.left(ticket(n));
        good = n + 1;
    }
    assert_eq!(good, 10);
    // Failures that the window has forgotten do not count.
    let mut state = self::state(|p| p.least_calls = 10);
    for n in 0..30 {
        let now = u64::from(n) * 4 * S;
        assert!(matches!(ask(&mut state, now, n), Route::Use { provider: 0, .. }), "call {n}");
        end(&mut state, now, n, 0, ProviderEnd::Failed);
        state.left(ticket(n));
    }
}

#[test]
fn slow_answers_count_as_failures() {
    let mut state = state(|p| (p.slow_above_s, p.allowed_failures) = (Some(0.5), Some(0)));
    ask(&mut state, 0, 0);
    end(&mut state, S, 0, 0, ProviderEnd::Ok);
    assert!(matches!(ask(&mut state, S, 1), Route::Use { provider: 1, .. }));
}

/// Incident N05, the wrong behaviour: nobody is served until a cooldown is over.
#[test]
fn with_all_providers_resting_attempts_fail() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    assert_eq!(walk(&mut state, 0, 0, LIMITED).0, [0, 1, 2]);
    for second in 1..60 {
        let why = Reason::ProvidersAllOpen;
        let retry_after_ns = Some((60 - second) * S);
        assert_eq!(ask(&mut state, second * S, second as u32), Route::Fail { why, retry_after_ns });
    }
    assert!(matches!(ask(&mut state, 60 * S, 99), Route::Use { provider: 0, .. }));
}

/// Incident N05, the right behaviour: they wait for the first cooldown to end, within a bound.
#[test]
fn with_all_providers_resting_attempts_wait() {
    let waits = |p: &mut Providers| {
        (p.allowed_failures, p.when_all_open) = (Some(0), WhenAllOpen::Wait);
        p.wait_at_most_s = 90.0;
    };
    let mut state = state(waits);
    for provider in 0..3 {
        assert!(matches!(ask(&mut state, 0, 0), Route::Use { provider: next, .. } if next == provider));
        end(&mut state, 0, 0, provider, LIMITED);
    }
    // The one that was refused by all waits too, and so do those that come later.
    assert_eq!(ask(&mut state, 0, 0), Route::Wait { at_most_ns: 60 * S });
    assert_eq!(ask(&mut state, 30 * S, 1), Route::Wait { at_most_ns: 30 * S });
    assert!(matches!(ask(&mut state, 60 * S, 0), Route::Use { provider: 0, .. }));
    assert!(matches!(ask(&mut state, 60 * S, 1), Route::Use { provider: 1, .. }));
    assert!(matches!(ask(&mut state, 60 * S, 2), Route::Use { provider: 2, .. }));
    // All probes are on their way: the next waits for one to end, at most to its bound.
    assert_eq!(ask(&mut state, 60 * S, 3), Route::Wait { at_most_ns: 90 * S });
    assert!(end(&mut state, 61 * S, 1, 1, ProviderEnd::Ok));
    assert!(matches!(ask(&mut state, 61 * S, 3), Route::Use { provider: 1, .. }));
    // A wait that is bound to be in vain is not begun.
    let mut short = self::state(|p| {
        waits(p);
        p.wait_at_most_s = 10.0;
    });
    walk(&mut short, 0, 0, LIMITED);
    assert!(matches!(ask(&mut short, 49 * S, 1), Route::Fail { why: Reason::ProvidersAllOpen, .. }));
    assert_eq!(ask(&mut short, 50 * S, 2), Route::Wait { at_most_ns: 10 * S });
}

#[test]
fn a_wait_behind_probes_ends_at_its_bound() {
    let mut state = state(|p| {
        (p.allowed_failures, p.when_all_open) = (Some(0), WhenAllOpen::Wait);
    });
    walk(&mut state, 0, 0, ProviderEnd::Failed);
    for n in 1..=3 {
        assert!(matches!(ask(&mut state, 60 * S, n), Route::Use { .. }));
    }
    assert_eq!(ask(&mut state, 60 * S, 4), Route::Wait { at_most_ns: 10 * S });
    assert_eq!(ask(&mut state, 65 * S, 4), Route::Wait { at_most_ns: 5 * S });
    let why = Reason::ProvidersWaitExpired;
    assert_eq!(ask(&mut state, 70 * S, 4), Route::Fail { why, retry_after_ns: None });
}

/// Incident N06: a walk in a circle, and each provider once.
#[test]
fn each_provider_is_asked_once_or_the_circle_is_walked_again() {
    let never = |p: &mut Providers| p.error_share_above = 1.0;
    assert_eq!(walk(&mut state(never), 0, 0, ProviderEnd::Failed).0, [0, 1, 2]);
    let mut circle = state(|p| {
        never(p);
        (p.each_once, p.calls_at_most) = (false, 8);
    });
    let (asked, last) = walk(&mut circle, 0, 0, ProviderEnd::Failed);
    assert_eq!(asked, [0, 1, 2, 0, 1, 2, 0, 1]);
    assert!(matches!(last, Route::Fail { why: Reason::ProvidersExhausted, .. }));
}

/// Incident N06: three retries are four calls of a provider.
#[test]
fn retries_go_to_the_same_provider_after_a_growing_pause() {
    let mut state = state(|p| {
        (p.error_share_above, p.retries, p.backoff_s) = (1.0, 3, 1.0);
    });
    let mut pauses = Vec::new();
    let mut now = 0;
    for _ in 0..4 {
        let Route::Use { provider: 0, .. } = ask(&mut state, now, 0) else { panic!("not the main one") };
        end(&mut state, now, 0, 0, ProviderEnd::Failed);
        if let Route::Wait { at_most_ns } = ask(&mut state, now, 0) {
            pauses.push(at_most_ns / S);
            now += at_most_ns;
        }
    }
    assert_eq!(pauses, [1, 2, 4]);
    assert_eq!(walk(&mut state, now, 1, ProviderEnd::Failed).0, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn a_retry_after_is_kept_and_passed_on() {
    let limited = ProviderEnd::RateLimited { retry_after_ns: Some(20 * S) };
    let mut state = state(|p| p.count_rate_limited = false);
    let (asked, last) = walk(&mut state, 0, 0, limited);
    assert_eq!(asked, [0, 1, 2]);
    assert_eq!(last, Route::Fail { why: Reason::ProvidersExhausted, retry_after_ns: Some(20 * S) });
    let why = Reason::ProvidersAllOpen;
    assert_eq!(ask(&mut state, 19 * S, 1), Route::Fail { why, retry_after_ns: Some(S) });
    // A 429 that does not count opens no breaker: all may be asked at once.
    for n in 2..10 {
        assert!(matches!(ask(&mut state, 20 * S, n), Route::Use { provider: 0, .. }));
    }
}

#[test]
fn only_the_main_provider_may_answer_some() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    let main_only =
        |state: &mut State, now: u64, n: u32| state.route(Moment(now), ticket(n), 3, (true, true)).route;
    assert!(matches!(main_only(&mut state, 0, 0), Route::Use { provider: 0, .. }));
    end(&mut state, 0, 0, 0, ProviderEnd::Failed);
    let why = Reason::ClassMainProviderOnly;
    assert_eq!(main_only(&mut state, 0, 0), Route::Fail { why, retry_after_ns: None });
    assert_eq!(main_only(&mut state, S, 1), Route::Fail { why, retry_after_ns: Some(59 * S) });
    assert!(matches!(ask(&mut state, S, 2), Route::Use { provider: 1, .. }));
}

#[test]
fn the_state_is_saved_and_restored() {
    let mut state = state(|p| p.allowed_failures = Some(0));
    ask(&mut state, 0, 7);
    end(&mut state, 5, 7, 0, LIMITED);
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), state);
}
