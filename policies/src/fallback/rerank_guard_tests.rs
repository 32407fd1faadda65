//! Tests of the reranker's guard.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn feed(state: &mut State, latencies_ms: &[u64]) {
    for (i, &latency) in latencies_ms.iter().enumerate() {
        state.ended(Moment(i as u64), Ticket(9), latency * MS, true);
    }
}

fn closed(state: &mut State, now: u64, ticket: u64) -> Option<Reason> {
    state.closed(Moment(now), Ticket(ticket)).map(|refusal| {
        assert_eq!(refusal.keep, Some(5));
        refusal.why
    })
}

#[test]
fn the_published_values_are_the_defaults() {
    let guard = RerankGuard::default();
    assert_eq!((guard.max_at_once, guard.wait_at_most_ms, guard.keep), (8, 150.0, 5));
    assert_eq!((guard.degraded_s, guard.p95_above_ms, guard.p95_over), (10.0, 350.0, 50));
}

#[test]
fn two_slow_of_fifty_are_no_slow_p95_and_three_are() {
    let mut latencies = vec![100; 48];
    latencies.extend([900, 900]);
    let mut state = State::new(&RerankGuard::default());
    feed(&mut state, &latencies);
    assert_eq!(closed(&mut state, 100, 1), None);
    latencies[0] = 351;
    let mut state = State::new(&RerankGuard::default());
    feed(&mut state, &latencies);
    let refusal = state.closed(Moment(100), Ticket(1)).unwrap();
    assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::RerankGuardSlow, 0.351, 0.35));
}

#[test]
fn fewer_than_fifty_say_nothing() {
    let mut state = State::new(&RerankGuard::default());
    feed(&mut state, &[900; 49]);
    assert_eq!(closed(&mut state, 100, 1), None);
    feed(&mut state, &[900]);
    assert_eq!(closed(&mut state, 100, 1), Some(Reason::RerankGuardSlow));
}

#[test]
fn after_ten_seconds_one_probe_decides() {
    let mut state = State::new(&RerankGuard::default());
    state.expired(Moment(0), Ticket(1));
    assert_eq!(closed(&mut state, 10 * S - 1, 1), Some(Reason::RerankGuardBusy));
    assert_eq!(closed(&mut state, 10 * S, 2), None);
    assert_eq!(closed(&mut state, 10 * S, 3), Some(Reason::RerankGuardBusy));
    // A slow probe: another ten seconds.
    state.ended(Moment(11 * S), Ticket(2), 400 * MS, true);
    assert_eq!(closed(&mut state, 21 * S - 1, 4), Some(Reason::RerankGuardBusy));
    assert_eq!(closed(&mut state, 21 * S, 5), None);
    // A probe whose user gave up: the next call is the probe.
    state.gone(Moment(22 * S), Ticket(5));
    assert_eq!(closed(&mut state, 22 * S, 6), None);
    state.ended(Moment(23 * S), Ticket(6), 100 * MS, true);
    assert_eq!(closed(&mut state, 23 * S, 7), None);
    assert_eq!(closed(&mut state, 23 * S, 8), None);
}

#[test]
fn a_new_limit_counts_the_held_latencies_anew() {
    let mut state = State::new(&RerankGuard::default());
    feed(&mut state, &[300; 50]);
    assert_eq!(state.slow, 0);
    state.adopt(&RerankGuard { p95_above_ms: 200.0, p95_over: 40, ..RerankGuard::default() });
    assert_eq!((state.slow, state.latencies.len()), (40, 40));
}

proptest! {
    /// The count of slow calls says the same as sorting them.
    #[test]
    fn counting_is_sorting(latencies in prop::collection::vec(300..400_u64, 1..200), n in 1..60_u32) {
        let mut state = State::new(&RerankGuard { p95_over: n, ..RerankGuard::default() });
        for (i, &latency) in latencies.iter().enumerate() {
            state.ended(Moment(i as u64), Ticket(9), latency * MS, true);
            let from = (i + 1).saturating_sub(n as usize);
            let mut window = latencies[from..=i].to_vec();
            window.sort_unstable();
            let rank = (95 * window.len()).div_ceil(100);
            let slow = window.len() == n as usize && window[rank - 1] > 350;
            prop_assert_eq!(state.phase != Phase::Open, slow);
            if slow {
                break;
            }
        }
    }
}
