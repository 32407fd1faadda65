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

#[test]
fn q3_fairness_decay() {
    // One user's questions of score 1 count 1, 0.7, 0.49, 0.343 and so on; those of others stand between
    // them as their scores say. 0.7 itself is met from both sides: 0.72 goes before, 0.6 after.
    let of = |slot: u32, user: u64, tier: u8, follow_up: bool, channel: Channel| RequestView {
        urgent: true,
        user,
        tier,
        follow_up,
        channel,
        ..request(slot)
    };
    let mut queue = governor(FILE);
    let calm = loaded(0.5);
    for slot in 0..3 {
        queue_of(&mut queue, &of(slot, 7, 0, true, Channel::App), &calm);
    }
    for (slot, tier, follow_up, channel, score) in [
        (3, 1, true, Channel::H5, 0.56),
        (4, 0, false, Channel::MiniProgram, 0.6),
        (5, 0, false, Channel::App, 0.72),
    ] {
        let view = of(slot, 100 + u64::from(slot), tier, follow_up, channel);
        assert!((Semantic::default().score(&view) - score).abs() < 1e-12);
        queue_of(&mut queue, &view, &calm);
    }
    let served = |queue: &mut Governor| match queue.next(Moment(S), &calm) {
        Next::Serve(dispatch) => dispatch.ticket.slot(),
        other => panic!("{other:?}"),
    };
    assert_eq!([(); 6].map(|()| served(&mut queue)), [0, 5, 1, 4, 3, 2]);
    // After ten minutes without a question the user starts anew.
    let later = Moment(1202 * S);
    let fresh = of(8, 7, 0, true, Channel::App);
    assert_eq!(queue.arrived(later, &of(9, 9, 0, false, Channel::App), &calm), Arrival::Queue { class: 0 });
    assert_eq!(queue.arrived(later, &fresh, &calm), Arrival::Queue { class: 0 });
    let Next::Serve(first) = queue.next(later, &calm) else { panic!("nobody is served") };
    assert_eq!(first.ticket.slot(), 8);
    show(
        "Q3",
        &Shown::met(
            "scores 1, 0.7, 0.49 of one user's three questions, by their places among 0.72, 0.6 and 0.56",
        ),
    );
}
