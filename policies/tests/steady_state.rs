//! What a governor keeps is bounded by what is in flight, not by what has passed through it.
//!
//! The saved state is the measure: all that a governor holds is in it. That it allocates nothing on its
//! way is in `allocation`.

use forebay_policies::{
    Arrival, Call, CallEnd, CallView, End, Governor, Level, Moment, Next, Policy, Reading, RequestView,
    SignalKind, Signals, Site, Ticket,
};

const POLICY: &str = "
    [admission.user]
    kind = 'token_bucket'
    key = 'user'
    rate_per_s = 10
    burst = 5
    [admission.tenant]
    kind = 'concurrency_gate'
    place = 'llm_call'
    key = 'tenant'
    max_at_once = 2
    wait_at_most_s = 1
    [fallback]
    l2.vram_above = 0.85
    l4 = { llm_timeouts_above = 100000, llm_timeouts_window_s = 1 }
    [fallback.rerank]
    [signals.vram]
    filter = { kind = 'median', window_s = 1 }
";

const QUEUES: [&str; 5] = [
    "kind = 'strict_priority'",
    "kind = 'lifo_under_overload'\noverload_wait_s = 0.1",
    "kind = 'earliest_deadline'",
    "kind = 'weighted_fair'\nby = 'tenant'",
    "kind = 'semantic'\ndecay_window_s = 1",
];

/// Each round some arrive, the oldest waiting of a class give up, some are served; the least class never
/// is, so that its queue has gaps in its middle.
fn saved_bytes_after(queue: &str, rounds: u64) -> usize {
    let file = format!("[queue]\n{queue}\nmax_wait_s = 1\n{POLICY}");
    let policy: Policy = toml::from_str(&file).expect("the test's own file");
    let mut governor = Governor::new(&policy).expect("the test's own values");
    let mut signals = Signals::new(&policy.signals);
    for round in 0..rounds {
        let now = Moment(round * 1_000_000);
        let ticket = Ticket::of((round % 64) as u32, (round / 64) as u32);
        if round % 16 == 0 {
            let share = 0.8 + 0.001 * (round % 100) as f64;
            signals.deliver(now, &Reading::new(now).with(SignalKind::Vram, share));
        }
        let view = RequestView {
            class: if round % 64 == 0 { 4 } else { (round % 3) as u8 },
            // Ever new users and tenants.
            user: round,
            tenant: round as u32,
            ..RequestView::new(ticket)
        };
        let arrival = governor.arrived(now, &view, &signals);
        assert!(matches!(arrival, Arrival::Queue { .. }), "{arrival:?}");
        if round % 4 == 0 {
            governor.left(now, ticket, &End::GONE);
            continue;
        }
        let Next::Serve(dispatch) = governor.next(now, &signals) else { continue };
        for site in [Site::RerankCall, Site::LlmCall] {
            let ticket = dispatch.ticket;
            let call = CallView { ticket, site, endpoint: 0, class: 0, tenant: 0, level: Level::L1, size: 1 };
            if governor.call(now, &call, &signals) == Call::Proceed {
                let end = CallEnd {
                    ticket,
                    site,
                    latency_ns: 1,
                    ok: true,
                    timed_out: site == Site::LlmCall,
                    tokens: None,
                };
                governor.ended(now, &end);
            }
        }
        governor.left(now, dispatch.ticket, &End::GONE);
    }
    serde_json::to_string(&(&governor, &signals)).expect("a governor is plain data").len()
}

#[test]
fn a_long_run_keeps_no_more_than_a_short_one() {
    for queue in QUEUES {
        let [short, long] = [20_000, 200_000].map(|rounds| saved_bytes_after(queue, rounds));
        // Numbers grow by a digit or two; nothing else may.
        assert!(long < short + short / 5, "{queue}: {short} bytes grew to {long}");
    }
}
