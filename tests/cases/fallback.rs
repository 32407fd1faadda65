//! Fallback: levels, and the guards of reranker and model: F1, R3 to R5.

use super::decide::{MS, S, call, ended, governor, request, vram};
use forebay_policies::{
    Arrival, Call, CallEnd, Governor, Level, Moment, Reason, SignalKind, Signals, Site, Ticket,
};
use forebay_tests::case_table::{Shown, show};

#[test]
fn f1_levels() {
    let file = "[fallback]\nl2.vram_above = 0.85\nl3.vram_above = 0.92\nl4.vram_above = 0.98\n";
    let levels = [(0.5, Level::L1), (0.8499, Level::L1), (0.85, Level::L2), (0.9199, Level::L2)];
    let worse = [(0.92, Level::L3), (0.98, Level::L3), (0.9801, Level::L4), (1.0, Level::L4)];
    for (share, level) in levels.into_iter().chain(worse) {
        let expected = match level {
            Level::L1 => Arrival::Admit,
            _ => Arrival::Degrade { level, why: Reason::of_level(level, SignalKind::Vram) },
        };
        assert_eq!(governor(file).arrived(Moment::ZERO, &request(0), &vram(share)), expected, "at {share}");
    }
    let mut governor = governor(file);
    for n in 0..6_u32 {
        assert_eq!(governor.arrived(Moment::ZERO, &request(n), &vram(0.5)), Arrival::Admit);
        let late = CallEnd { ok: false, timed_out: true, ..ended(n, Site::LlmCall, 10 * S) };
        governor.ended(Moment::ZERO, &late);
    }
    let handed_over = Arrival::Degrade { level: Level::L4, why: Reason::L4LlmTimeouts };
    assert_eq!(governor.arrived(Moment::ZERO, &request(9), &vram(0.5)), handed_over);
    let text = "L1 up to 84.99 %, L2 from 85 to 91.99 %, L3 from 92 to 98 %, L4 from 98.01 %; L4 after 6 LLM \
                timeouts, L1 after 5";
    show("F1", &Shown::met(text));
}

#[test]
fn r3_rerank_guard_waits_then_skips_for_ten_seconds() {
    let mut governor = governor("[fallback.rerank]\n");
    let signals = Signals::default();
    let ask = |governor: &mut Governor, now, slot| {
        governor.call(Moment(now), &call(slot, Site::RerankCall), &signals)
    };
    for slot in 0..8 {
        assert_eq!(ask(&mut governor, 0, slot), Call::Proceed);
    }
    assert_eq!(ask(&mut governor, 0, 8), Call::Wait { at_most_ns: 150 * MS });
    let skipped = governor.waited(Moment(150 * MS), Ticket::of(8, 0), Site::RerankCall);
    assert_eq!(skipped, Call::Skip { why: Reason::RerankGuardWaitExpired, keep: 5 });
    (0..8).for_each(|slot| governor.ended(Moment(200 * MS), &ended(slot, Site::RerankCall, 200 * MS)));
    let busy = Call::Skip { why: Reason::RerankGuardBusy, keep: 5 };
    assert_eq!(ask(&mut governor, 10_150 * MS - 1, 9), busy);
    assert_eq!(ask(&mut governor, 10_150 * MS, 10), Call::Proceed);
    assert_eq!(ask(&mut governor, 10_150 * MS, 11), busy);
    governor.ended(Moment(10_300 * MS), &ended(10, Site::RerankCall, 150 * MS));
    assert_eq!(ask(&mut governor, 10_300 * MS, 12), Call::Proceed);
    let text = "8 proceed, the 9th waits 150 ms, then keeps 5; all skip until 10 s later, then one probes";
    show("R3", &Shown::met(text));
}

#[test]
fn r4_rerank_guard_skips_when_the_p95_is_high() {
    let mut governor = governor("[fallback.rerank]\n");
    let signals = Signals::default();
    let mut rerank = |n: u64, latency_ms: u64| {
        let answer = governor.call(Moment(n), &call(0, Site::RerankCall), &signals);
        governor.ended(Moment(n), &ended(0, Site::RerankCall, latency_ms * MS));
        answer
    };
    // The 48th of 50 is the p95: with two above 350 ms it is not, with three it is.
    for n in 0..50 {
        assert_eq!(rerank(n, if n < 48 { 350 } else { 351 }), Call::Proceed);
    }
    assert_eq!(rerank(50, 351), Call::Proceed);
    assert_eq!(rerank(51, 100), Call::Skip { why: Reason::RerankGuardSlow, keep: 5 });
    assert_eq!(rerank(10 * S + 49, 100), Call::Skip { why: Reason::RerankGuardSlow, keep: 5 });
    assert_eq!(rerank(10 * S + 50, 100), Call::Proceed);
    show("R4", &Shown::met("not with 2 of 50 above 350 ms, degraded for 10 s with 3 of 50"));
}

#[test]
fn r5_llm_guard_waits_two_seconds_then_asks_to_retry_in_five() {
    let file = "[admission.llm]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 20\n\
                wait_at_most_s = 2.0\nretry_after_s = 5\n";
    let mut governor = governor(file);
    let signals = Signals::default();
    let mut ask = |slot| governor.call(Moment::ZERO, &call(slot, Site::LlmCall), &signals);
    assert!((0..20).all(|slot| ask(slot) == Call::Proceed));
    assert_eq!([ask(20), ask(21)], [Call::Wait { at_most_ns: 2 * S }; 2]);
    governor.ended(Moment(S), &ended(3, Site::LlmCall, S));
    assert_eq!(governor.woken(), Some((Ticket::of(20, 0), Site::LlmCall)));
    let busy = Call::Busy { why: Reason::GateWaitExpired, retry_after_ns: Some(5 * S) };
    assert_eq!(governor.waited(Moment(2 * S), Ticket::of(21, 0), Site::LlmCall), busy);
    let text = "20 proceed, others wait at most 2.0 s: one is let in when a call ends, the next is busy, \
                retry after 5 s";
    show("R5", &Shown::met(text));
}
