//! What a governor costs: nanoseconds per request for whole ways through it, printed as a table.
//!
//! Run with `cargo bench -p forebay-policies`. No harness: the median over chunks of some millions of
//! requests is all that is asked for, and the simulator's speed is measured elsewhere.

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the wall clock")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use forebay_policies::{
    Arrival, Call, CallEnd, CallView, End, Governor, Level, Moment, Next, Policy, ProviderEnd, Reading,
    RequestView, Route, SignalKind, Signals, Site, Ticked, Ticket,
};
use std::hint::black_box;
use std::time::Instant;

const REQUESTS: u64 = 4_000_000;
/// Requests of which one time is taken.
const CHUNK: u64 = 1000;
const TICKS: u64 = 100_000;
/// Attempts in flight: the slots that are used again and again.
const IN_FLIGHT: u32 = 4096;

const NOTHING: &str = "";
const BUCKETS: &str = "
    [admission.rate]
    kind = 'token_bucket'
    rate_per_s = 1e9
    burst = 1e9
    [admission.weight]
    kind = 'weighted_bucket'
    base_rate_per_s = 1e9
";
const FIFO: &str = "[queue]\nkind = 'fifo'\nmax_length = 100000\nmax_wait_s = 60\n";
const PRIORITY: &str = "[queue]\nkind = 'strict_priority'\nmax_wait_s = 60\naging_s = 10\n";
const DEADLINE: &str = "[queue]\nkind = 'earliest_deadline'\nmax_wait_s = 60\n";
const FAIR: &str = "[queue]\nkind = 'weighted_fair'\nmax_wait_s = 60\n";
const SEMANTIC: &str = "[queue]\nkind = 'semantic'\nmax_wait_s = 60\ndecay_window_s = 1\n";
const LEVELS: &str = "
    [fallback]
    l2.vram_above = 0.85
    l3.vram_above = 0.92
    l4.vram_above = 0.98
";
const RERANK: &str = "[fallback.rerank]\nmax_at_once = 100000\n";
const LLM: &str = "
    [admission.llm]
    kind = 'concurrency_gate'
    place = 'llm_call'
    max_at_once = 100000
    wait_at_most_s = 2
";
const FALLBACK: &str = "
    [fallback.top_k]
    [fallback.providers]
    [fallback.cache_last_resort]
";
const FEEDBACK: &str = "
    [store]
    module = 'rate'
    nodes = 4
    [feedback]
    presets = ['c1', 'c2', 'token_balance_low', 'queue_high_long', 'l3_share_high', 'csat_low', 'csat_drift']
    [feedback.setpoints.busy]
    signal = 'llm_busy'
    target = 0.8
    parameter = 'admission.weight.base_rate_per_s'
    ki = 10
    least = 1
    most = 1e9
    [feedback.forecast]
    profile = [[0, 40], [43200, 200]]
    sets = { parameter = 'admission.rate.rate_per_s', per_rate = 1e9, least = 1, most = 1e9 }
";
/// Every admission module, each too wide to refuse anybody.
const ADMISSION: &str = "
    [admission.fixed]
    kind = 'fixed_rate'
    key = 'user'
    limit = 1000000
    [admission.window]
    kind = 'token_window'
    quota = 1000000000000
    [admission.user_window]
    kind = 'token_window'
    key = 'user'
    quota = 1000000000000
    [admission.frequency]
    kind = 'user_frequency'
    limit = 1000
    window_s = 0.001
    [admission.classes]
    kind = 'priority_buckets'
    rate_per_s = 1e9
    [admission.limit]
    kind = 'adaptive_concurrency'
    law = { kind = 'aimd' }
    initial = 1000000
    most = 1000000
    [admission.shed]
    kind = 'load_shed'
    signal = 'vram'
    from = 0.9
    to = 1
    [admission.learning]
    kind = 'adaptive_concurrency'
    place = 'llm_call'
    law = { kind = 'gradient' }
    initial = 1000000
    most = 1000000
    [admission.paced]
    kind = 'paced'
    place = 'llm_call'
    rate_per_s = 1e9
    [admission.backlog]
    kind = 'backlog_gate'
    place = 'llm_call'
    below = 1000000
";
const EARLY: &str = "
    [admission.early]
    kind = 'early_rejection'
    decode_at_once = 100000
    prefill_ms_per_token = 0.1
    decode_ms_per_token = 10
";

fn main() {
    let all = format!("{BUCKETS}{ADMISSION}{EARLY}{LLM}{SEMANTIC}{LEVELS}{RERANK}{FALLBACK}{FEEDBACK}");
    let cases = [
        ("nothing", NOTHING.to_owned()),
        ("two buckets", BUCKETS.to_owned()),
        ("fifo", FIFO.to_owned()),
        ("strict priority", PRIORITY.to_owned()),
        ("earliest deadline", DEADLINE.to_owned()),
        ("weighted fair", FAIR.to_owned()),
        ("semantic", SEMANTIC.to_owned()),
        ("levels", format!("[queue]\nkind = 'fifo'\n{LEVELS}")),
        ("rerank guard", RERANK.to_owned()),
        ("llm gate", LLM.to_owned()),
        ("early rejection", format!("{FIFO}{EARLY}")),
        ("providers, top-k", format!("{FIFO}{FALLBACK}")),
        ("every admission module", format!("{BUCKETS}{ADMISSION}{EARLY}{LLM}{FIFO}")),
        ("shop peak", format!("{BUCKETS}{FIFO}{LEVELS}{RERANK}")),
        ("shop peak, priority, llm gate", format!("{BUCKETS}{LLM}{PRIORITY}{LEVELS}{RERANK}")),
        ("every module on", all.clone()),
    ];
    println!("{:<32}{:>14}", "policy", "ns per request");
    for (name, file) in cases {
        let policy: Policy = toml::from_str(&file).expect("the benchmark's own file");
        println!("{name:<32}{:>14.1}", ns_per_request(&policy));
    }
    let policy: Policy = toml::from_str(&all).expect("the benchmark's own file");
    println!("\n{:<32}{:>14}", "ticks of every module", "ns per tick");
    for (name, manual) in [("with commands", false), ("without commands", true)] {
        println!("{name:<32}{:>14.1}", ns_per_tick(&policy, manual));
    }
}

/// Ticks 100 ms apart, with a controller that would move its parameter at each end of its cooldown.
fn ns_per_tick(policy: &Policy, manual: bool) -> f64 {
    let mut governor = Governor::new(policy).expect("the benchmark's own values");
    governor.set_manual(manual);
    let mut signals = Signals::new(&policy.signals);
    let reading = Reading::new(Moment(0)).with(SignalKind::Vram, 0.8).with(SignalKind::LlmBusy, 0.9);
    signals.deliver(Moment(0), &reading);
    let mut ticked = Ticked::default();
    let started = Instant::now();
    for n in 1..=TICKS {
        governor.tick(Moment(n * 100_000_000), &signals, &mut ticked);
        black_box(&ticked);
        ticked.clear();
    }
    started.elapsed().as_nanos() as f64 / TICKS as f64
}

/// Each request arrives, waits while [`IN_FLIGHT`] / 2 others do, is served, makes a rerank and a model
/// call, goes to a provider where the policy has some, and leaves.
fn ns_per_request(policy: &Policy) -> f64 {
    let mut governor = Governor::new(policy).expect("the benchmark's own values");
    let mut signals = Signals::new(&policy.signals);
    let reading = Reading::new(Moment(0))
        .with(SignalKind::Vram, 0.8)
        .with(SignalKind::ErrorRate, 0.01)
        .with(SignalKind::LlmQueue, 1.0)
        .with(SignalKind::ArrivalRate, 100.0);
    signals.deliver(Moment(0), &reading);
    let providers = policy.fallback.providers.is_some();
    let mut chunks = Vec::with_capacity((REQUESTS / CHUNK) as usize);
    let mut started = Instant::now();
    for n in 0..REQUESTS {
        if n % CHUNK == 0 && n > 0 {
            chunks.push(started.elapsed().as_nanos() as f64 / CHUNK as f64);
            started = Instant::now();
        }
        let now = Moment(n * 1000);
        let ticket = Ticket::of(n as u32 % IN_FLIGHT, (n / u64::from(IN_FLIGHT)) as u32);
        let request = RequestView {
            class: (n % 5) as u8,
            chars: (n % 1000) as u32,
            history_turns: (n % 3) as u16,
            user: n % 1000,
            tier: (n % 7) as u8,
            urgent: n % 11 == 0,
            service_keyword: n % 3 == 0,
            tokens_in: (n % 1000) as u32,
            tokens_out_estimate: 200,
            ..RequestView::new(ticket)
        };
        let served = match black_box(governor.arrived(now, &request, &signals)) {
            Arrival::Queue { .. } if governor.queued() > IN_FLIGHT as usize / 2 => {
                match black_box(governor.next(now, &signals)) {
                    Next::Serve(dispatch) => dispatch.ticket,
                    Next::Drop { .. } | Next::Idle => continue,
                }
            }
            Arrival::Admit | Arrival::Degrade { .. } => ticket,
            Arrival::Queue { .. } | Arrival::Reject { .. } => continue,
        };
        for site in [Site::RerankCall, Site::LlmCall] {
            if !governor.site_is_gated(site) {
                continue;
            }
            let call = CallView {
                ticket: served,
                site,
                endpoint: 0,
                class: 0,
                tenant: 0,
                level: Level::L1,
                size: 50,
            };
            if black_box(governor.call(now, &call, &signals)) == Call::Proceed {
                let end = CallEnd {
                    ticket: served,
                    site,
                    latency_ns: 100_000_000,
                    ok: true,
                    timed_out: false,
                    tokens: None,
                };
                governor.ended(now, &end);
            }
        }
        if providers && let Route::Use { provider, .. } = black_box(governor.route(now, served, 3)) {
            black_box(governor.provider_ended(now, served, provider, ProviderEnd::Ok, 1_000_000));
        }
        governor.left(now, served, &End::GONE);
        black_box(governor.woken());
    }
    // Beside other programs some chunks are interrupted; the one in the middle is not.
    chunks.sort_by(f64::total_cmp);
    chunks[chunks.len() / 2]
}
