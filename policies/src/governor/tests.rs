//! Tests of the composition: the order of decisions, held calls, changed parameters.

use super::*;
use crate::signal::SignalKind;
use crate::{Call, CallEnd, CallView, Reading};

mod books;
mod routes;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn governor(file: &str) -> Governor {
    Governor::new(&toml::from_str(file).expect("the test's own file")).expect("the test's own values")
}

fn ticket(n: u32) -> Ticket {
    Ticket::of(n, 1)
}

fn request(n: u32) -> RequestView {
    RequestView::new(ticket(n))
}

fn call_of(n: u32, site: Site) -> CallView {
    CallView { ticket: ticket(n), site, endpoint: 0, class: 2, tenant: 0, level: Level::L1, size: 1 }
}

fn end_of(n: u32, site: Site) -> CallEnd {
    CallEnd { ticket: ticket(n), site, latency_ns: 100 * MS, ok: true, timed_out: false, tokens: None }
}

fn vram(value: f64) -> Signals {
    let mut signals = Signals::default();
    signals.deliver(Moment(0), &Reading::new(Moment(0)).with(SignalKind::Vram, value));
    signals
}

fn woken(governor: &mut Governor) -> Vec<Ticket> {
    std::iter::from_fn(|| governor.woken()).map(|(ticket, _)| ticket).collect()
}

const LADDER: &str = "[fallback]\nl2.vram_above = 0.85\nl3.vram_above = 0.92\nl4.vram_above = 0.98\n";

#[test]
fn an_empty_policy_lets_everything_through() {
    let mut governor = governor("");
    let signals = Signals::default();
    assert_eq!(governor.arrived(Moment(0), &request(0), &signals), Arrival::Admit);
    assert_eq!(governor.next(Moment(0), &signals), Next::Idle);
    assert_eq!(governor.call(Moment(0), &call_of(0, Site::LlmCall), &signals), Call::Proceed);
    governor.ended(Moment(1), &end_of(0, Site::LlmCall));
    governor.left(Moment(1), ticket(0), &End::GONE);
    assert_eq!(governor.woken(), None);
    assert_eq!(governor.tick_period_ns(), None);
    assert!(Site::ALL.iter().all(|&site| !governor.site_is_gated(site)));
}

#[test]
fn admission_comes_before_the_level() {
    let mut governor = governor(&format!("[admission.entry]\nkind = 'fixed_rate'\nlimit = 1\n{LADDER}"));
    let signals = vram(0.95);
    let answer = governor.arrived(Moment(0), &request(0), &signals);
    assert_eq!(answer, Arrival::Degrade { level: Level::L3, why: Reason::L3Vram });
    let why = Reason::FixedRateSpent;
    let answer = governor.arrived(Moment(0), &request(1), &signals);
    assert_eq!(answer, Arrival::Reject { why, retry_after_ns: Some(S) });
    let words = governor.explain(why).unwrap().to_string();
    assert!(words.contains("admission.entry") && words.ends_with("limit: 1"), "{words}");
}

#[test]
fn the_level_is_read_again_when_a_request_leaves_the_queue() {
    let mut governor = governor(&format!("[queue]\nkind = 'fifo'\n{LADDER}"));
    let queued = Arrival::Queue { class: 0 };
    assert_eq!(governor.arrived(Moment(0), &request(0), &vram(0.5)), queued);
    assert_eq!(governor.arrived(Moment(0), &request(1), &vram(0.9)), queued);
    assert_eq!((governor.queue_len(0), governor.queued()), (2, 2));
    let serve = |n, level, why| Next::Serve(Dispatch { ticket: ticket(n), level, why, top_k: None });
    assert_eq!(governor.next(Moment(1), &vram(0.93)), serve(0, Level::L3, Reason::L3Vram));
    assert_eq!(governor.next(Moment(2), &vram(0.5)), serve(1, Level::L1, Reason::Normal));
    assert_eq!(governor.next(Moment(2), &vram(0.5)), Next::Idle);
    let explained = governor.explain(Reason::L3Vram).unwrap();
    assert_eq!(
        (explained.module.as_str(), explained.found, explained.threshold),
        ("fallback.l3", 0.93, 0.92)
    );
    assert_eq!(governor.explain(Reason::L4Vram), None);
}

#[test]
fn a_red_line_answers_unavailable_on_arrival_and_from_the_queue() {
    let class = "class.s2 = { min_level = 'l1', red_line = true }\n";
    let mut governor = governor(&format!("{LADDER}{class}[queue]\nkind = 'fifo'\n"));
    let why = Reason::ClassUnavailable;
    let answer = governor.arrived(Moment(0), &request(0), &vram(0.95));
    assert_eq!(answer, Arrival::Reject { why, retry_after_ns: None });
    let mut governor = self::governor(&format!("{LADDER}{class}[queue]\nkind = 'fifo'\n"));
    governor.arrived(Moment(0), &request(0), &vram(0.9));
    assert_eq!(governor.next(Moment(1), &vram(0.9)), Next::Drop { ticket: ticket(0), why });
    assert_eq!(governor.explain(why).unwrap().module, "fallback.class");
}

#[test]
fn expired_requests_are_dropped_by_next_or_by_the_drivers_timer() {
    let mut governor = governor("[queue]\nkind = 'fifo'\nmax_wait_s = 1.0\n");
    let signals = Signals::default();
    governor.arrived(Moment(0), &request(0), &signals);
    governor.arrived(Moment(S), &request(1), &signals);
    assert_eq!(governor.next_expiry(), Some(Moment(S + 1)));
    assert_eq!(governor.expire(Moment(S)), None);
    assert_eq!(governor.expire(Moment(S + 1)), Some((ticket(0), Reason::QueueExpired)));
    assert_eq!(governor.expire(Moment(S + 1)), None);
    let dropped = Next::Drop { ticket: ticket(1), why: Reason::QueueExpired };
    assert_eq!(governor.next(Moment(3 * S), &signals), dropped);
}

const LLM_GATE: &str = "[admission.llm]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 2\n\
                        wait_at_most_s = 2.0\nretry_after_s = 5\n";

#[test]
fn a_held_call_is_woken_or_told_busy() {
    let mut governor = governor(LLM_GATE);
    let signals = Signals::default();
    for n in 0..5 {
        governor.arrived(Moment(0), &request(n), &signals);
    }
    let mut ask = |n| governor.call(Moment(0), &call_of(n, Site::LlmCall), &signals);
    assert_eq!([ask(0), ask(1)], [Call::Proceed; 2]);
    let wait = Call::Wait { at_most_ns: 2 * S };
    assert_eq!([ask(2), ask(3), ask(4), ask(4)], [wait; 4]);
    let held = governor.explain_wait(Moment(7), ticket(3)).unwrap();
    assert_eq!((held.reason, held.module.as_str(), held.at), (Reason::GateFull, "admission.llm", Moment(7)));
    assert_eq!((held.found, held.threshold), (2.0, 2.0));
    assert_eq!(governor.explain_wait(Moment(7), ticket(0)), None);
    governor.left(Moment(1), ticket(2), &End::GONE);
    governor.ended(Moment(S), &end_of(0, Site::LlmCall));
    assert_eq!(woken(&mut governor), [ticket(3)]);
    let early = governor.waited(Moment(2 * S - 1), ticket(4), Site::LlmCall);
    assert_eq!(early, Call::Wait { at_most_ns: 1 });
    let busy = Call::Busy { why: Reason::GateWaitExpired, retry_after_ns: Some(5 * S) };
    assert_eq!(governor.waited(Moment(2 * S), ticket(4), Site::LlmCall), busy);
    governor.left(Moment(3 * S), ticket(1), &End::GONE);
    governor.left(Moment(3 * S), ticket(3), &End::GONE);
    assert_eq!((woken(&mut governor), governor.permits_out("llm", 0)), (vec![], Some(0)));
}

#[test]
fn a_permit_given_at_the_last_moment_counts() {
    let mut governor = governor(LLM_GATE);
    let signals = Signals::default();
    for n in 0..3 {
        governor.arrived(Moment(0), &request(n), &signals);
        governor.call(Moment(0), &call_of(n, Site::LlmCall), &signals);
    }
    governor.ended(Moment(2 * S), &end_of(0, Site::LlmCall));
    assert_eq!(governor.waited(Moment(2 * S), ticket(2), Site::LlmCall), Call::Proceed);
    assert_eq!(governor.woken(), None);
}

#[test]
fn a_widened_gate_lets_the_waiting_in() {
    let mut governor = governor(LLM_GATE);
    let signals = Signals::default();
    for n in 0..4 {
        governor.arrived(Moment(0), &request(n), &signals);
        governor.call(Moment(0), &call_of(n, Site::LlmCall), &signals);
    }
    governor.set(Moment(1), "admission.llm.max_at_once", 3.0).unwrap();
    assert_eq!(woken(&mut governor), [ticket(2)]);
    assert_eq!(
        governor.set(Moment(1), "admission.llm.max_at_once", 0.0).unwrap_err().path(),
        "admission.llm.max_at_once"
    );
    assert_eq!(governor.permits_out("llm", 0), Some(3));
    assert!(governor.set(Moment(1), "signals.vram.filter", 1.0).is_err());
}

#[test]
fn a_gate_at_the_front_is_held_until_the_attempt_is_over() {
    let file = "[admission.entry]\nkind = 'concurrency_gate'\nkey = 'endpoint'\nmax_at_once = 1\n\
                [admission.rate]\nkind = 'token_bucket'\nrate_per_s = 0.0\nburst = 2.0\n";
    let mut governor = governor(file);
    let signals = Signals::default();
    let mut arrive = |n, endpoint| {
        let request = RequestView { endpoint, ..request(n) };
        governor.arrived(Moment(0), &request, &signals)
    };
    assert_eq!(arrive(0, 7), Arrival::Admit);
    assert_eq!(arrive(1, 7), Arrival::Reject { why: Reason::GateFull, retry_after_ns: None });
    assert_eq!(arrive(2, 8), Arrival::Admit);
    // The bucket turns this one away, and the gate's permit comes back at once.
    let empty = Arrival::Reject { why: Reason::TokenBucketEmpty, retry_after_ns: None };
    assert_eq!([arrive(3, 9), arrive(4, 9)], [empty; 2]);
    // Its slot is used again without a word: the attempt before is taken to be over.
    let again = RequestView { endpoint: 7, ticket: Ticket::of(0, 2), ..request(0) };
    assert_eq!(governor.arrived(Moment(0), &again, &signals), empty);
    assert_eq!(
        [7, 8, 9].map(|endpoint| governor.permits_out("entry", endpoint)),
        [Some(0), Some(1), Some(0)]
    );
}

#[test]
fn two_gates_at_one_site_hold_while_waiting_and_never_circle() {
    let file = "[admission.all]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 2\nwait_at_most_s = 1\n\
                [admission.tenant]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nkey = 'tenant'\n\
                max_at_once = 1\nwait_at_most_s = 3\n";
    let mut governor = governor(file);
    let signals = Signals::default();
    for n in 0..3 {
        governor.arrived(Moment(0), &request(n), &signals);
    }
    let mut ask = |n| governor.call(Moment(0), &call_of(n, Site::LlmCall), &signals);
    assert_eq!(ask(0), Call::Proceed);
    assert_eq!(ask(1), Call::Wait { at_most_ns: 3 * S }); // At the tenant's gate, with a permit of `all`.
    assert_eq!(ask(2), Call::Wait { at_most_ns: S }); // At the first gate.
    governor.ended(Moment(S / 2), &end_of(0, Site::LlmCall));
    assert_eq!(woken(&mut governor), [ticket(1)]);
    // The third went on to the tenant's gate; its own timer finds it there.
    let later = governor.waited(Moment(S), ticket(2), Site::LlmCall);
    assert_eq!(later, Call::Wait { at_most_ns: 5 * S / 2 });
    governor.ended(Moment(2 * S), &end_of(1, Site::LlmCall));
    assert_eq!(woken(&mut governor), [ticket(2)]);
}

#[test]
fn the_rerank_guard_skips_and_keeps_five() {
    let mut governor = governor("[fallback.rerank]\n");
    let signals = Signals::default();
    for n in 0..10 {
        governor.arrived(Moment(0), &request(n), &signals);
        let answer = governor.call(Moment(0), &call_of(n, Site::RerankCall), &signals);
        assert_eq!(answer, if n < 8 { Call::Proceed } else { Call::Wait { at_most_ns: 150 * MS } });
    }
    let skip = |why| Call::Skip { why, keep: 5 };
    let expired = governor.waited(Moment(150 * MS), ticket(8), Site::RerankCall);
    assert_eq!(expired, skip(Reason::RerankGuardWaitExpired));
    // The other one is within its wait and still gets the place that comes free.
    governor.ended(Moment(150 * MS), &end_of(0, Site::RerankCall));
    assert_eq!(woken(&mut governor), [ticket(9)]);
    let later = governor.call(Moment(S), &call_of(0, Site::RerankCall), &signals);
    assert_eq!(later, skip(Reason::RerankGuardBusy));
    assert_eq!(governor.explain(Reason::RerankGuardBusy).unwrap().module, "fallback.rerank");
    // After the rest one probe goes through.
    (1..10).for_each(|n| governor.ended(Moment(2 * S), &end_of(n, Site::RerankCall)));
    let probe = governor.call(Moment(10_150 * MS), &call_of(1, Site::RerankCall), &signals);
    assert_eq!(probe, Call::Proceed);
    let other = governor.call(Moment(10_150 * MS), &call_of(2, Site::RerankCall), &signals);
    assert_eq!(other, skip(Reason::RerankGuardBusy));
}

#[test]
fn a_gate_gives_the_bound_in_force_now() {
    let gate = |wait_s: u8| {
        format!(
            "[admission.a]\nkind = 'adaptive_concurrency'\nplace = 'llm_call'\ninitial = 4\nleast = 1\n\
             wait_at_most_s = {wait_s}\nlaw = {{ kind = 'aimd', decrease = 0.5 }}\n"
        )
    };
    let signals = Signals::default();
    // A broken call halves the limit, so that the three others are one too many.
    let halved = |wait_s| {
        let mut governor = governor(&gate(wait_s));
        for n in 0..4 {
            governor.arrived(Moment(0), &request(n), &signals);
            assert_eq!(governor.call(Moment(0), &call_of(n, Site::LlmCall), &signals), Call::Proceed);
        }
        governor.ended(Moment(1), &CallEnd { ok: false, ..end_of(0, Site::LlmCall) });
        governor.arrived(Moment(2), &request(4), &signals);
        let answer = governor.call(Moment(2), &call_of(4, Site::LlmCall), &signals);
        (governor, answer)
    };
    let (governor, answer) = halved(0);
    assert_eq!(answer, Call::Busy { why: Reason::AdaptiveFull, retry_after_ns: None });
    let why = governor.explain(Reason::AdaptiveFull).unwrap();
    assert_eq!((why.found, why.threshold), (3.0, 2.0), "{why}");
    let (mut governor, answer) = halved(1);
    assert_eq!(answer, Call::Wait { at_most_ns: S });
    let held = governor.explain_wait(Moment(3), ticket(4)).unwrap();
    assert_eq!((held.reason, held.found, held.threshold), (Reason::AdaptiveFull, 3.0, 2.0));
}

#[test]
fn a_later_gate_leaves_a_call_what_is_left_of_its_wait() {
    let file = "[admission.all]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 2\nwait_at_most_s = 2\n\
                [admission.tenant]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nkey = 'tenant'\n\
                max_at_once = 1\n";
    let mut governor = governor(file);
    let signals = Signals::default();
    let mut ask = |n, tenant, now| {
        governor.arrived(Moment(now), &RequestView { tenant, ..request(n) }, &signals);
        governor.call(Moment(now), &CallView { tenant, ..call_of(n, Site::LlmCall) }, &signals)
    };
    assert_eq!([ask(0, 0, 0), ask(1, 1, 0)], [Call::Proceed; 2]);
    // Two of the first tenant wait for the gate of all.
    assert_eq!([ask(2, 0, 0), ask(3, 0, 0)], [Call::Wait { at_most_ns: 2 * S }; 2]);
    governor.ended(Moment(S), &end_of(1, Site::LlmCall));
    // One is through, and stands at the tenant's gate for what is left: nobody was named, nobody turned away.
    assert_eq!(woken(&mut governor), []);
    let left = Call::Wait { at_most_ns: S };
    assert_eq!(governor.call(Moment(S), &call_of(2, Site::LlmCall), &signals), left);
    // A newcomer that the gate of all lets in does not wait at the tenant's.
    let full = Call::Busy { why: Reason::GateFull, retry_after_ns: None };
    assert_eq!(governor.waited(Moment(2 * S), ticket(2), Site::LlmCall), full);
    let why = governor.explain(Reason::GateFull).unwrap();
    assert_eq!((why.module.as_str(), why.found, why.threshold), ("admission.tenant", 1.0, 1.0));
    governor.left(Moment(2 * S), ticket(3), &End::GONE);
    governor.arrived(Moment(2 * S), &request(4), &signals);
    assert_eq!(governor.call(Moment(2 * S), &call_of(4, Site::LlmCall), &signals), full);
    // The one inside ends: nothing is left behind.
    governor.ended(Moment(3 * S), &end_of(0, Site::LlmCall));
    let out = ["all", "tenant"].map(|gate| governor.permits_out(gate, 0));
    assert_eq!(out, [Some(0), Some(0)]);
}

#[test]
fn a_call_that_leaves_before_its_turn_leaves_nothing_behind() {
    let mut governor = governor(
        "[admission.pace]\nkind = 'paced'\nplace = 'llm_call'\nrate_per_s = 10\nwait_at_most_s = 1\n\
         [admission.gate]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 1\nwait_at_most_s = 1\n",
    );
    let signals = Signals::default();
    let site = Site::LlmCall;
    let call = |slot| call_of(slot, site);
    for slot in 0..3 {
        assert_eq!(governor.arrived(Moment(0), &request(slot), &signals), Arrival::Admit);
    }
    assert_eq!(governor.call(Moment(0), &call(0), &signals), Call::Proceed);
    assert_eq!(governor.call(Moment(0), &call(1), &signals), Call::Wait { at_most_ns: 100 * MS });
    assert_eq!(governor.call(Moment(0), &call(2), &signals), Call::Wait { at_most_ns: 200 * MS });
    governor.left(Moment(50 * MS), ticket(1), &End::GONE);
    let early = governor.waited(Moment(200 * MS - 1), ticket(2), site);
    assert_eq!(early, Call::Wait { at_most_ns: 1 });
    // Its turn has come, but the gate is full: it waits there, and has the permit when it comes back.
    let at_the_gate = governor.waited(Moment(200 * MS), ticket(2), site);
    assert_eq!(at_the_gate, Call::Wait { at_most_ns: S });
    governor.left(Moment(300 * MS), ticket(0), &End::GONE);
    assert_eq!(governor.woken(), Some((ticket(2), site)));
    governor.left(Moment(400 * MS), ticket(2), &End::GONE);
    assert_eq!((governor.permits_out("gate", 0), governor.woken()), (Some(0), None));
}

#[test]
fn the_token_balance_is_that_of_the_emptiest_bucket_at_the_front() {
    let signals = Signals::default();
    assert_eq!(self::governor("").token_balance(Moment(0), &signals), None);
    let mut governor = self::governor(
        "[admission.bucket]\nkind = 'token_bucket'\nrate_per_s = 1\nburst = 10\n\
         [admission.weight]\nkind = 'weighted_bucket'\nbase_rate_per_s = 1\n\
         [admission.calls]\nkind = 'token_bucket'\nplace = 'llm_call'\nrate_per_s = 0\nburst = 1\n",
    );
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(1.0));
    // Half a token of one in the second bucket, one of ten in the first.
    assert_eq!(governor.arrived(Moment(0), &request(0), &signals), Arrival::Admit);
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(0.5));
    let before = serde_json::to_string(&governor).expect("a governor is plain data");
    assert_eq!(governor.token_balance(Moment(S / 4), &signals), Some(0.75));
    assert_eq!(governor.token_balance(Moment(S / 2), &signals), Some(0.95));
    assert_eq!(serde_json::to_string(&governor).expect("a governor is plain data"), before);
    // The second takes the other half.
    assert_eq!(governor.arrived(Moment(0), &request(1), &signals), Arrival::Admit);
    assert_eq!(governor.token_balance(Moment(0), &signals), Some(0.0));
}
