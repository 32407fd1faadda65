//! The gateway: entry limits, the concurrency gate, and the executor: G1, G2, G4, G6, G7.

use super::decide::{MS, S, call, governor, request};
use super::simulated::{ledger, metric, read_with_trace, rejected, replicate, run, shown};
use forebay_model::Trace;
use forebay_model::trace::TraceRow;
use forebay_policies::{Arrival, Call, Moment, Reason, RequestView, Signals, Site};
use forebay_tests::case_table::{Shown, show};

#[test]
fn g1_threads_held() {
    let text = "
name = 'threads'
run = { duration_s = 20000, warmup_s = 200 }
gateway = { executor_slots = 1000 }
[workload.sources.all]
kind = 'poisson'
rate_per_s = 5
[workload.classes.any]
[endpoints.ask]
l1 = ['answer']
[stages.answer]
kind = 'server'
servers = 1000
service_s = 15
";
    let held = metric(&run(text, &[], 8), "stage.executor.busy_mean");
    assert!(74.25 <= held.lo && held.hi <= 75.75, "{held:?}");
    show("G1", &Shown::met(format!("{} threads", shown(&held, 1.0))));
}

#[test]
fn g2_a_burst_at_an_endpoint() {
    let text = "
name = 'burst'
run = { duration_s = 10, drain_s = 10 }
[workload.sources.burst]
kind = 'microburst'
at_s = 1
count = 30
[workload.classes.any]
[endpoints.ask]
l1 = ['answer']
[stages.answer]
kind = 'server'
servers = 30
service_s = 1
[policy.admission.entry]
kind = 'fixed_rate'
key = 'endpoint'
limit = 10
";
    let replications = run(text, &[], 1);
    let ends = ledger(&replications);
    let refused = rejected(&replications, Reason::FixedRateSpent.code());
    assert_eq!((ends.answered.total(), refused, ends.failed.len()), (10, 20, 0));
    // Endpoints count apart.
    let mut governor = governor("[admission.entry]\nkind = 'fixed_rate'\nkey = 'endpoint'\nlimit = 10\n");
    let signals = Signals::default();
    for endpoint in 0..3 {
        let answers: Vec<Arrival> = (0..30)
            .map(|n| governor.arrived(Moment::ZERO, &RequestView { endpoint, ..request(n) }, &signals))
            .collect();
        assert!(answers[..10].iter().all(|&answer| answer == Arrival::Admit));
        let spent = Arrival::Reject { why: Reason::FixedRateSpent, retry_after_ns: Some(S) };
        assert!(answers[10..].iter().all(|&answer| answer == spent));
    }
    let text =
        format!("{} served, {refused} answered 429, {} failed", ends.answered.total(), ends.failed.len());
    show("G2", &Shown::met(text));
}

#[test]
fn g4_entry_limits_of_the_groups() {
    let groups = [("chat", 5), ("inference", 10), ("light", 30)];
    let file = "[admission.entry]\nkind = 'fixed_rate'\nkey = 'endpoint'\nlimit = 0\nlimits = [5, 10, 30]\n";
    let mut governor = governor(file);
    let mut admitted = [[0; 3]; 3];
    // Twice the largest limit in every second and of every group, evenly and in turn.
    for n in 0..180_u32 {
        let (second, place) = (n as usize / 60, n % 60);
        for group in 0..3_u16 {
            let view = RequestView { endpoint: group, ..request(3 * n + u32::from(group)) };
            let now = Moment(second as u64 * S + u64::from(place) * 16 * MS);
            match governor.arrived(now, &view, &Signals::default()) {
                Arrival::Admit => admitted[second][usize::from(group)] += 1,
                Arrival::Reject { why: Reason::FixedRateSpent, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(admitted, [groups.map(|(_, limit)| limit); 3]);
    let admitted = groups.map(|(group, limit)| format!("{group} {limit}"));
    show("G4", &Shown::met(format!("of 60 per s in each group admitted: {} per s", admitted.join(", "))));
}

/// Thirty calls of a model at once, of which a gate lets ten in.
const GATED: &str = "
name = 'gated'
run = { duration_s = 10, drain_s = 10 }
[workload.sources.burst]
kind = 'microburst'
at_s = 1
count = 30
[workload.classes.any]
[endpoints.ask]
l1 = ['text_search', 'llm']
[stages.text_search]
kind = 'server'
servers = 30
service_s = 0.01
[stages.llm]
kind = 'llm_slots'
replicas = 1
slots = 30
first_token_s = 1
[policy.admission.gate]
kind = 'concurrency_gate'
place = 'llm_call'
max_at_once = 10
";

#[test]
fn g6_busy_is_no_error() {
    for (on_full, answer) in [
        ("skip", Call::Skip { why: Reason::GateFull, keep: 5 }),
        ("busy", Call::Busy { why: Reason::GateFull, retry_after_ns: None }),
    ] {
        let mut governor = governor(&format!(
            "[admission.llm]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 1\non_full = '{on_full}'\n"
        ));
        let mut ask = |slot| governor.call(Moment::ZERO, &call(slot, Site::LlmCall), &Signals::default());
        assert_eq!([ask(0), ask(1)], [Call::Proceed, answer]);
    }
    // What becomes of the requests: a skipped call leaves the plain text search, a busy one ends with an
    // answer that says so, and the front turns away with 429.
    let mut lines = Vec::new();
    for (what, settings, answered) in [
        ("search", &["policy.admission.gate.on_full=skip"][..], 30),
        ("ask and stream", &[], 10),
        ("at the front", &["policy.admission.gate.place=front"], 10),
    ] {
        let replications = run(GATED, settings, 1);
        let ends = ledger(&replications);
        let busy = rejected(&replications, Reason::GateFull.code());
        assert_eq!((ends.answered.total(), busy), (answered, 30 - answered), "{what}: {ends:?}");
        assert!(ends.failed.is_empty() && ends.timed_out == 0, "{what}: {ends:?}");
        lines.push(format!("{what}: {answered} answered, {busy} busy, 0 failed"));
    }
    show("G6", &Shown::met(format!("of 30 calls on a gate of 10: {}", lines.join("; "))));
}

/// Streams and other requests behind one executor of 8 slots.
const STREAMS: &str = "
name = 'streams'
run = { duration_s = 10 }
gateway = { executor_slots = 8 }
[workload.sources.log]
kind = 'trace'
trace = 'log'
[workload.classes.stream]
endpoint = 'chat'
[workload.classes.other]
endpoint = 'light'
[endpoints.chat]
l1 = ['llm']
[endpoints.light]
l1 = ['store']
[stages.llm]
kind = 'llm_slots'
replicas = 1
slots = 100
first_token_s = 0.5
per_token_s = 0.1
[stages.store]
kind = 'server'
servers = 8
service_s = 0.01
";

#[test]
fn g7_streams_stall_every_other_endpoint() {
    // Streams of 20 s at the start, then another request every 100 ms.
    let answered = |streams: u64| {
        let row = |at_ns, class, tokens_out| TraceRow {
            at_ns,
            tokens_in: 10,
            tokens_out,
            class: Some(class),
            user: None,
            session: None,
        };
        let first = (0..streams).map(|_| row(0, 0, 200));
        let rows = first.chain((1..100).map(|n| row(n * 100 * MS, 1, 1))).collect();
        let classes = vec!["stream".to_owned(), "other".to_owned()];
        let trace = Trace::with_classes("log", classes, rows).expect("a trace in order");
        let ends = ledger(&replicate(&read_with_trace(STREAMS, &[], &trace), 1));
        assert_eq!(ends.answered.total() + ends.in_flight_at_end, streams + 99);
        ends.answered.total()
    };
    let (eight, seven) = (answered(8), answered(7));
    assert_eq!((eight, seven), (0, 99));
    let text =
        format!("while 8 stream, {eight} of 99 requests to another endpoint are answered; while 7, {seven}");
    show("G7", &Shown::met(text));
}
