//! The semantic queue: Q1, Q2, Q3.

use super::decide::{S, governor, request};
use super::simulated::deviation;
use forebay_policies::queueing::semantic::{Form, Semantic};
use forebay_policies::{
    Arrival, Channel, Governor, Level, Moment, Next, Reading, Reason, RequestView, SignalKind, Signals,
};
use forebay_tests::case_table::{Shown, show};

/// A semantic queue that has nothing but the published rules.
const FILE: &str = "[queue]\nkind = 'semantic'\n";

/// Every mixture of what the score reads.
fn views() -> Vec<RequestView> {
    let mut views = Vec::new();
    for bits in 0..16_u32 {
        for channel in [Channel::App, Channel::MiniProgram, Channel::H5] {
            let set = |bit: u32| bits & (1 << bit) != 0;
            views.push(RequestView {
                urgent: set(0),
                service_keyword: set(1),
                follow_up: set(2),
                tier: u8::from(!set(3)),
                channel,
                ..request(0)
            });
        }
    }
    views
}

#[test]
fn q1_the_score() {
    let weighted = Semantic { form: Form::Weighted, ..Semantic::default() };
    let mut off = [0.0_f64; 2];
    for view in views() {
        let u = if view.urgent {
            0.4
        } else if view.service_keyword {
            0.2
        } else {
            0.0
        };
        let v = if view.tier == 0 { 1.5 } else { 1.0 };
        let s = if view.follow_up { 0.3 } else { 0.0 };
        let c = match view.channel {
            Channel::App => 1.2,
            Channel::MiniProgram => 1.0,
            Channel::H5 => 0.8,
        };
        let additive = f64::min(1.0, (u * v + s) * c);
        // Each part from its least to its greatest value is 0 to 1.
        let parts = [u / 0.4, (v - 1.0) / 0.5, s / 0.3, (c - 0.8) / 0.4];
        let sum: f64 = [0.4, 0.3, 0.2, 0.1].iter().zip(parts).map(|(weight, part)| weight * part).sum();
        off[0] = off[0].max((Semantic::default().score(&view) - additive).abs());
        off[1] = off[1].max((weighted.score(&view) - sum).abs());
    }
    assert!(off.iter().all(|off| *off <= 1e-12), "{off:?}");
    let text =
        format!("{} mixtures: additive {}, weighted {}", views().len(), deviation(off[0]), deviation(off[1]));
    show("Q1", &Shown::met(text));
}

fn loaded(vram: f64) -> Signals {
    let mut signals = Signals::default();
    signals.deliver(Moment::ZERO, &Reading::new(Moment::ZERO).with(SignalKind::Vram, vram));
    signals
}

fn queue_of(governor: &mut Governor, view: &RequestView, signals: &Signals) -> u8 {
    match governor.arrived(Moment::ZERO, view, signals) {
        Arrival::Queue { class } => class,
        other => panic!("{other:?}"),
    }
}

#[test]
fn q2_routing_by_score() {
    let calm = loaded(0.5);
    let semantic = Semantic::default();
    for view in views() {
        let score = semantic.score(&view);
        let expected = if score >= 0.5 {
            0
        } else if score >= 0.2 {
            1
        } else {
            2
        };
        assert_eq!(queue_of(&mut governor(FILE), &view, &calm), expected, "{view:?}");
    }
    // Scores of 0.24 (low) and 0.48 (not low) both stand in the standard queue.
    let low = RequestView { service_keyword: true, channel: Channel::App, tier: 1, ..request(0) };
    let more = RequestView { urgent: true, channel: Channel::App, tier: 1, ..request(1) };
    let lengths = |governor: &Governor| [0, 1, 2].map(|queue| governor.queue_len(queue));
    let mut both = governor(FILE);
    assert_eq!([queue_of(&mut both, &low, &calm), queue_of(&mut both, &more, &calm)], [1, 1]);
    let mut ticked = forebay_policies::Ticked::default();
    both.tick(Moment(S), &loaded(0.95), &mut ticked);
    assert_eq!(lengths(&both), [0, 2, 0], "at 95 % nothing moves");
    both.tick(Moment(2 * S), &loaded(0.9501), &mut ticked);
    assert_eq!(lengths(&both), [0, 1, 1], "above 95 % the low one moves");
    let Next::Serve(first) = both.next(Moment(3 * S), &calm) else { panic!("nobody is served") };
    let Next::Serve(second) = both.next(Moment(3 * S), &calm) else { panic!("one is served") };
    assert_eq!((first.level, second.level, second.why), (Level::L1, Level::L3, Reason::SemanticDegraded));
    show(
        "Q2",
        &Shown::met(
            "high, standard and degraded as given for 48 mixtures; above 95 % of memory the low one moves",
        ),
    );
}

/// A question that scores 1 if it is urgent, else what its service keyword is worth.
fn question(slot: u32, user: u64, urgent: bool) -> RequestView {
    RequestView { urgent, service_keyword: !urgent, user, channel: Channel::MiniProgram, ..request(slot) }
}

fn served(queue: &mut Governor, now: Moment, calm: &Signals) -> usize {
    match queue.next(now, calm) {
        Next::Serve(dispatch) => dispatch.ticket.slot(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn q3_fairness_decay() {
    const TOLERANCE: f64 = 1e-12;
    let calm = loaded(0.5);
    let file = |worth: f64| {
        format!(
            "{FILE}high_at_least = 0.1\nstandard_at_least = 0.1\nparts = {{ urgent = 1, service_keyword = {worth:?}, top_tier = 1 }}\n"
        )
    };
    // Where somebody else's question of this score is served among a user's four of score 1.
    let place = |worth: f64| {
        let mut queue = governor(&file(worth));
        (0..4).for_each(|slot| assert_eq!(queue_of(&mut queue, &question(slot, 7, true), &calm), 0));
        assert_eq!(queue_of(&mut queue, &question(9, 8, false), &calm), 0);
        (0..5).position(|_| served(&mut queue, Moment(S), &calm) == 9).expect("all are served")
    };
    // The k-th question is met from both sides: what scores a little more goes before it, a little less after.
    for k in 2..=4 {
        let decayed = 0.7_f64.powi(k - 1);
        let k = k as usize;
        assert_eq!([place(decayed + TOLERANCE), place(decayed - TOLERANCE)], [k - 1, k], "question {k}");
    }
    // After ten minutes without a question the user starts anew; a second before that not yet.
    let first = |later_s: u64| {
        let mut queue = governor(&file(0.9));
        queue_of(&mut queue, &question(0, 7, true), &calm);
        assert_eq!(served(&mut queue, Moment(0), &calm), 0);
        let later = Moment(later_s * S);
        for view in [question(1, 7, true), question(9, 8, false)] {
            assert_eq!(queue.arrived(later, &view, &calm), Arrival::Queue { class: 0 });
        }
        served(&mut queue, later, &calm)
    };
    assert_eq!([first(599), first(601)], [9, 1]);
    show(
        "Q3",
        &Shown::met(
            "0.7, 0.49 and 0.343 of one user's second to fourth question, by their places beside others' 1e-12 above \
             and below; whole again 10 min later",
        ),
    );
}
