//! Tests of the adaptive limit against a small service that slows down when it is full.

use super::*;
use crate::{Outcome, Ticket};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

fn parameters(law: &serde_json::Value) -> AdaptiveConcurrency {
    serde_json::from_value(serde_json::json!({ "law": law })).unwrap()
}

fn limit(state: &mut State) -> u32 {
    state.gate().unwrap().limit.of(0)
}

fn ask(state: &mut State, now: u64) -> bool {
    state.ask(Moment(now), 0, &RequestView::new(Ticket(0)), &Signals::default()) == Verdict::Hold
}

fn end(state: &mut State, now: u64, end: &End) {
    state.ended(Moment(now), 0, &RequestView::new(Ticket(0)), end);
    state.permits.give_back(0);
}

/// A service of so many places under a crowd that never ends: whoever may come in comes in at once, and
/// takes 100 ms, or as much longer as the service is over-full when it starts.
struct Crowd {
    state: State,
    places: f64,
    now: u64,
    /// When each that is inside ends, and when it started.
    inside: BinaryHeap<Reverse<(u64, u64)>>,
}

impl Crowd {
    fn new(parameters: &AdaptiveConcurrency, places: f64) -> Self {
        parameters.check("admission.a").unwrap();
        Self { state: State::new(parameters), places, now: 0, inside: BinaryHeap::new() }
    }

    /// Until the next has ended.
    fn step(&mut self) {
        while ask(&mut self.state, self.now) {
            let over = ((self.inside.len() + 1) as f64 / self.places).max(1.0);
            self.inside.push(Reverse((self.now + nanos(0.1 * over), self.now)));
        }
        let Reverse((ended, started)) = self.inside.pop().unwrap();
        self.now = ended;
        end(&mut self.state, ended, &End::answered(ended - started, None));
    }

    fn measuring(&mut self) -> bool {
        limit(&mut self.state) == 3
    }

    /// The limit at the end of each of the first windows between two measurements.
    fn limits(&mut self, windows: usize) -> Vec<u32> {
        (0..windows)
            .map(|_| {
                while self.measuring() {
                    self.step();
                }
                let mut last = 0;
                while !self.measuring() {
                    last = limit(&mut self.state);
                    self.step();
                }
                last
            })
            .collect()
    }
}

/// The published figures: with the old samples kept the limit climbs from 46 to 272 in 8 windows, with
/// them dropped it stays at 46. Places and buffer are chosen so that 46 is where the limit rests and the
/// climb is about as steep as the published one; that it rests, and that it climbs, follows.
#[test]
fn n19_old_samples_raise_the_least_latency_and_the_limit_with_it() {
    let law = |keep_old_samples| {
        parameters(&serde_json::json!({
            "kind": "gradient", "buffer": 0.14, "keep_old_samples": keep_old_samples,
        }))
    };
    let right = Crowd::new(&law(false), 35.0).limits(9);
    assert!(right.iter().all(|limit| *limit == 46), "{right:?}");
    let wrong = Crowd::new(&law(true), 35.0).limits(9);
    assert_eq!(wrong[0], 46);
    assert!(wrong.windows(2).all(|pair| pair[1] > pair[0]), "{wrong:?}");
    let climbed = f64::from(wrong[8]) / 272.0;
    assert!((0.9..=1.1).contains(&climbed), "{wrong:?}");
}

#[test]
fn the_gradient_finds_the_places_of_a_service_and_leaves_them_again() {
    // With no buffer the limit rests where the headroom is eaten up by latency: at places + its root.
    let law = parameters(&serde_json::json!({ "kind": "gradient", "buffer": 0.0, "measure_every_s": 10 }));
    let limits = Crowd::new(&law, 100.0).limits(3);
    assert!(limits.iter().all(|limit| (108..=111).contains(limit)), "{limits:?}");
    // Half the places are gone: the limit follows.
    let mut crowd = Crowd::new(&law, 100.0);
    crowd.limits(1);
    crowd.places = 50.0;
    let limits = crowd.limits(3);
    assert!((56..=58).contains(&limits[2]), "{limits:?}");
}

#[test]
fn aimd_saws_about_the_places_of_a_service() {
    let law = parameters(&serde_json::json!({ "kind": "aimd", "latency_above_s": 0.12 }));
    let mut crowd = Crowd::new(&law, 100.0);
    let (mut least, mut greatest, mut top) = (u32::MAX, 0, 0);
    while crowd.now < 300 * S {
        crowd.step();
        let limit = limit(&mut crowd.state);
        top = top.max(limit);
        assert!(crowd.inside.len() <= top as usize);
        if crowd.now > 60 * S {
            (least, greatest) = (least.min(limit), greatest.max(limit));
        }
    }
    // Late from 120 inside; a tenth is cut then, once for all that were inside.
    assert!(least >= 106 && (119..=123).contains(&greatest), "{least} to {greatest}");
}

#[test]
fn aimd_is_cut_once_for_one_congestion_and_grows_only_when_used() {
    let law = serde_json::json!({ "kind": "aimd", "decrease": 0.5 });
    let mut state = State::new(&AdaptiveConcurrency { least: 4, ..parameters(&law) });
    let failed = End { outcome: Outcome::Failed, ..End::answered(S, None) };
    (0..10).for_each(|_| assert!(ask(&mut state, 0)));
    (0..3).for_each(|_| end(&mut state, S, &failed));
    assert_eq!(limit(&mut state), 10);
    // Neither those who gave up nor those turned away later on say anything.
    end(&mut state, 3 * S, &End::GONE);
    end(&mut state, 3 * S, &End::REFUSED);
    assert_eq!(limit(&mut state), 10);
    // Five inside are half of ten; then the limit is hardly used.
    for _ in 0..4 {
        end(&mut state, 3 * S, &End::answered(S, None));
        assert!(ask(&mut state, 3 * S));
    }
    let grown = limit(&mut state);
    (0..5).for_each(|_| end(&mut state, 3 * S, &failed));
    assert_eq!((grown, limit(&mut state)), (10, 5));
    assert!(ask(&mut state, 4 * S));
    end(&mut state, 6 * S, &failed);
    assert_eq!(limit(&mut state), 4);
    (0..100).for_each(|_| {
        assert!(ask(&mut state, 7 * S));
        end(&mut state, 7 * S, &End::answered(0, None));
    });
    assert_eq!(limit(&mut state), 4, "one inside is not half of four");
}

#[test]
fn each_value_of_the_key_has_its_own_limit_and_new_bounds_are_kept() {
    let law = serde_json::json!({ "kind": "aimd", "decrease": 0.5 });
    let mut state = State::new(&AdaptiveConcurrency { key: Key::Tenant, ..parameters(&law) });
    let request = RequestView::new(Ticket(0));
    let failed = End { outcome: Outcome::TimedOut, ..End::answered(S, None) };
    assert_eq!(state.ask(Moment(0), 7, &request, &Signals::default()), Verdict::Hold);
    state.ended(Moment(S), 7, &request, &failed);
    let limit = |state: &mut State, key| state.gate().unwrap().limit.of(key);
    assert_eq!([limit(&mut state, 7), limit(&mut state, 8)], [10, 20]);
    let bounds = AdaptiveConcurrency { least: 12, initial: 15, most: 18, ..state.parameters.clone() };
    state.adopt(Moment(S), &bounds);
    assert_eq!([limit(&mut state, 7), limit(&mut state, 8)], [12, 15]);
    assert_eq!(
        AdaptiveConcurrency { key: Key::User, ..bounds.clone() }.check("a").unwrap_err().path(),
        "a.key"
    );
    assert_eq!(AdaptiveConcurrency { most: 14, ..bounds }.check("a").unwrap_err().path(), "a.initial");
}

#[test]
fn a_long_window_keeps_the_newest_samples() {
    let law = parameters(
        &serde_json::json!({ "kind": "gradient", "window_s": 60, "smoothing": 1, "measure_every_s": 600 }),
    );
    let mut state = State::new(&AdaptiveConcurrency { initial: 100, ..law });
    let mut answer = |now, latency| {
        assert!(ask(&mut state, now));
        end(&mut state, now, &End::answered(latency, None));
        limit(&mut state)
    };
    (0..50).for_each(|_| assert!(answer(S, 100 * MS) > 0));
    // Many slow answers, then as many as are kept, at the least latency: those are the median.
    (0..3000).for_each(|_| assert_eq!(answer(2 * S, S), 100));
    (0..255).for_each(|_| assert_eq!(answer(3 * S, 125 * MS), 100));
    assert_eq!(answer(61 * S, 125 * MS), 110);
}
