//! Limits of tokens, users and classes, asked of a governor alone: T1, T2, G3, H1, H2, H3, R6.

use super::decide::{MS, S, governor, request};
use super::simulated::{metric, paired, percent, run, shown};
use forebay_engine::Interval;
use forebay_model::Replication;
use forebay_policies::{
    Arrival, End, Governor, Moment, Reading, Reason, RequestView, SignalKind, Signals, Ticket,
};
use forebay_tests::case_table::{Shown, show};

/// A question of so many tokens, of a user.
fn tokens(slot: u32, tokens: u32, user: u64) -> RequestView {
    RequestView { tokens_in: tokens, tokens_out_estimate: 0, user, ..request(slot) }
}

fn refusal(arrival: Arrival) -> Option<Reason> {
    match arrival {
        Arrival::Reject { why, .. } => Some(why),
        _ => None,
    }
}

#[test]
fn t1_a_window_of_sub_windows() {
    // A plain account of the rule: what was admitted in the last six sub-windows of 10 s, this one included.
    let mut governor =
        governor("[admission.tokens]\nkind = 'token_window'\nquota = 1000\nwindow_s = 60\nsub_windows = 6\n");
    let signals = Signals::default();
    let mut spent: Vec<(u64, u32)> = Vec::new();
    let (mut admitted, mut refused) = (0, 0);
    for n in 0..2000_u32 {
        // Gaps and sizes without a pattern that fits the windows.
        let now = u64::from(n) * 1_370 * MS;
        let size = 1 + (n * 7919) % 97;
        let sub = now / (10 * S);
        let live: u32 = spent.iter().filter(|(at, _)| at + 6 > sub).map(|(_, tokens)| tokens).sum();
        let expected = live + size <= 1000;
        let view = RequestView { ticket: Ticket::of(n, 0), ..tokens(0, size, 0) };
        let why = refusal(governor.arrived(Moment(now), &view, &signals));
        assert_eq!(why.is_none(), expected, "request {n}: {size} on top of {live}");
        if expected {
            spent.push((sub, size));
            admitted += 1;
        } else {
            assert_eq!(why, Some(Reason::TokenWindowSpent));
            refused += 1;
        }
    }
    assert!(admitted > 100 && refused > 100, "{admitted} {refused}");
    show(
        "T1",
        &Shown::met(format!("2000 requests as the rule says: {admitted} admitted, {refused} refused")),
    );
}

#[test]
fn t2_two_layers() {
    let file = "[admission.application]\nkind = 'token_window'\nquota = 1000\n\
                [admission.user]\nkind = 'token_window'\nkey = 'user'\nquota = 300\n";
    let signals = Signals::default();
    let mut governor = governor(file);
    let mut ask = |slot: u32, size: u32, user: u64| {
        let why = refusal(governor.arrived(Moment(S), &tokens(slot, size, user), &signals));
        why.and_then(|why| governor.explain(why)).map(|explanation| explanation.module)
    };
    // The user's layer refuses, and the application's gets back what it reserved.
    assert_eq!(ask(0, 300, 1), None);
    assert_eq!(ask(1, 1, 1).as_deref(), Some("admission.user"));
    assert_eq!([ask(2, 300, 2), ask(3, 300, 3)], [None, None]);
    assert_eq!(ask(4, 100, 4), None, "the application's 1000 are exactly spent: nothing leaked");
    // The application's layer refuses although the user has tokens left.
    assert_eq!(ask(5, 1, 5).as_deref(), Some("admission.application"));
    show(
        "T2",
        &Shown::met(
            "both must pass; 300 per user and 1000 in all refuse by their own module; a refusal by one gives the other's tokens back",
        ),
    );
}

#[test]
fn g3_ten_per_user_and_minute() {
    let mut governor = governor("[admission.user]\nkind = 'user_frequency'\nlimit = 10\n");
    let signals = Signals::default();
    let mut slot = 0;
    let mut ask = |governor: &mut Governor, at_s: f64, user: u64| {
        slot += 1;
        let now = Moment((at_s * 1e9) as u64);
        refusal(governor.arrived(now, &tokens(slot, 1, user), &signals))
    };
    let answers: Vec<_> = (0..15).map(|n| ask(&mut governor, f64::from(n), 7)).collect();
    assert!(answers[..10].iter().all(Option::is_none));
    assert!(answers[10..].iter().all(|why| *why == Some(Reason::UserFrequencySpent)));
    assert_eq!(ask(&mut governor, 15.0, 8), None, "others are not touched");
    // The window slides: the first question is 60 s old, then the second.
    assert_eq!(ask(&mut governor, 59.9, 7), Some(Reason::UserFrequencySpent));
    assert_eq!(ask(&mut governor, 60.5, 7), None);
    assert_eq!(ask(&mut governor, 60.6, 7), Some(Reason::UserFrequencySpent));
    show(
        "G3",
        &Shown::met(
            "10 of 15 within a minute served, 5 answered 429; others not touched; one more when the first is 60 s old",
        ),
    );
}

/// How many of `n` at once are admitted of a class.
fn at_once(governor: &mut Governor, now: Moment, class: u8, n: u32) -> u32 {
    let signals = Signals::default();
    (0..n)
        .filter(|&slot| {
            let view = RequestView { class, ..request(slot) };
            let admitted = refusal(governor.arrived(now, &view, &signals)).is_none();
            governor.left(now, view.ticket, &End::answered(1, None));
            admitted
        })
        .count() as u32
}

const BUCKETS: &str =
    "[admission.classes]\nkind = 'priority_buckets'\nrate_per_s = 500\ndecay_after = 1000000\n";

#[test]
fn h1_a_bucket_for_each_class() {
    let mut governor = governor(BUCKETS);
    let mut found = Vec::new();
    for (class, factor) in [1.5, 1.2, 1.0, 0.8, 0.5].into_iter().enumerate() {
        let expected = (500.0 * factor) as u32;
        let now = Moment(1000 * S);
        assert_eq!(at_once(&mut governor, now, class as u8, 1000), expected, "S{class}, full");
        // What comes back in a second is its rate.
        assert_eq!(
            at_once(&mut governor, Moment(1001 * S), class as u8, 1000),
            expected,
            "S{class}, a second later"
        );
        found.push(format!("S{class} {expected}"));
    }
    show("H1", &Shown::met(format!("per s: {}", found.join(", "))));
}

#[test]
fn h2_three_in_a_row_decay() {
    let file = BUCKETS.replace("decay_after = 1000000", "decay_after = 3");
    // Served in turn with another class, S2 gets its 500 per second, however often it asks.
    let mut in_turn = self::governor(&file);
    let mut admitted = 0;
    for tick in 0..4000_u64 {
        let now = Moment(1000 * S + tick * S / 2000);
        at_once(&mut in_turn, now, 0, 1);
        let served = at_once(&mut in_turn, now, 2, 1);
        admitted += if tick >= 2000 { served } else { 0 };
    }
    assert!((495..=505).contains(&admitted), "{admitted}");
    // Alone it gets 400 after three in a row, until another class is served.
    let mut governor = governor(&file);
    at_once(&mut governor, Moment(1000 * S), 2, 1000);
    let decayed = at_once(&mut governor, Moment(1001 * S), 2, 1000);
    assert_eq!(decayed, 400);
    assert_eq!(at_once(&mut governor, Moment(1002 * S), 2, 1000), 400, "it stays so");
    let mut whole = 0;
    for tick in 0..4000_u64 {
        let now = Moment(1003 * S + tick * S / 2000);
        at_once(&mut governor, now, 0, 1);
        let served = at_once(&mut governor, now, 2, 1);
        whole += if tick >= 2000 { served } else { 0 };
    }
    assert!((495..=505).contains(&whole), "{whole}");
    show(
        "H2",
        &Shown::met(format!(
            "{decayed} per s after three in a row, {whole} once another class is served in between; {admitted} in turn \
             from the start"
        )),
    );
}

#[test]
fn h3_the_largest_step() {
    let mut governor = governor(BUCKETS);
    let rate = |governor: &mut Governor, at_s: u64| {
        at_once(governor, Moment(at_s * S), 2, 100_000);
        at_once(governor, Moment((at_s + 1) * S), 2, 100_000)
    };
    assert_eq!(rate(&mut governor, 1000), 500);
    // +300 % is asked for; +200 % is what it gets.
    governor.set(Moment(1010 * S), "admission.classes.rate_per_s", 2000.0).expect("in range");
    let stepped = rate(&mut governor, 1011);
    assert_eq!(stepped, 1500);
    // The next step is not taken within 30 s of the last one.
    governor.set(Moment(1020 * S), "admission.classes.rate_per_s", 4000.0).expect("in range");
    assert_eq!(rate(&mut governor, 1021), 1500);
    // What it prevents: a pool behind it that takes 1600 per second, and a rule that asks for 2000.
    let refused = |r: &Replication| r.ledger.rejected.get("stage.pool.full").copied().unwrap_or(0) as f64;
    let lost = |step: &str| {
        let setting = format!("policy.admission.classes.largest_step={step}");
        Interval::of(&run(POOL, &[&setting], 4).iter().map(refused).collect::<Vec<_>>(), 0.95)
    };
    let (free, held) = (lost("3"), lost("2"));
    assert!(free.lo > 1000.0 && held.hi == 0.0, "{free:?} {held:?}");
    show(
        "H3",
        &Shown::met(format!(
            "500 -> 1500 per s when 2000 is asked for; nothing more within 30 s; a pool of 1600 per s behind it refuses \
             none, {} with a step of 300 %",
            shown(&free, 1.0)
        )),
    );
}

/// A crowd that grows tenfold, a rule that answers it with four times the rate, and a pool behind it.
const POOL: &str = "
name = 'pool'
run = { duration_s = 40, drain_s = 10 }
[workload.sources.crowd]
kind = 'profile'
points = [[0, 300], [20, 300], [20.1, 3000], [40, 3000]]
[workload.classes.any]
[endpoints.ask]
l1 = ['pool']
[stages.pool]
kind = 'server'
servers = 160
service_s = 0.1
max_queue = 200
[policy.admission.classes]
kind = 'priority_buckets'
rate_per_s = 500
burst_s = 0.05
decay_after = 1000000
[policy.feedback.control_center.open]
when = [{ signal = 'arrival_rate', above = 1000 }]
set = 'admission.classes.rate_per_s'
to = 2000
loop = 'limiter'
";

#[test]
fn r6_top_k_by_rate() {
    let mut governor = governor("[fallback.top_k]\n");
    let mut at = |rate: f64| {
        let mut signals = Signals::default();
        let now = Moment(S);
        signals.deliver(now, &Reading::new(now).with(SignalKind::ArrivalRate, rate));
        governor.top_k(now, &signals)
    };
    let found: Vec<_> = [0.0, 49.9, 50.0, 149.9, 150.0, 1000.0].into_iter().map(&mut at).collect();
    let documents = |k: u16| move |found: &Option<u16>| found.unwrap_or(50) == k;
    assert!(found[..2].iter().all(documents(50)), "{found:?}");
    assert!(found[2..4].iter().all(documents(30)), "{found:?}");
    assert!(found[4..].iter().all(documents(15)), "{found:?}");
    // What it costs: recall of 98 % with 15 documents is an input, the answers that it spoils come out.
    let full = run(RECALL, &["policy={}"], 8);
    let fewer = run(RECALL, &[], 8);
    let [whole, less] = [&full, &fewer].map(|replications| metric(replications, "right_share"));
    let points = paired(&fewer, &full, "right_share");
    assert!(points.contains(-0.02 * whole.mean) && points.half_width() < 0.004, "{points:?}");
    show(
        "R6",
        &Shown::met(format!(
            "50 below 50 per s, 30 below 150, 15 above; with a recall of 98 % at 15, right answers {} -> {}",
            percent(&whole),
            percent(&less)
        )),
    );
}

/// 200 questions per second, at which 15 documents are fetched.
const RECALL: &str = "
name = 'recall'
run = { duration_s = 300, warmup_s = 20 }
[workload.sources.crowd]
kind = 'poisson'
rate_per_s = 200
[workload.classes.any]
[endpoints.ask]
l1 = ['retrieve']
documents = 50
[stages.retrieve]
kind = 'vector_store'
connections = 100
base_s = 0.02
[quality]
recall_points = [[15, 0.98], [30, 1.0]]
[policy.fallback.top_k]
";
