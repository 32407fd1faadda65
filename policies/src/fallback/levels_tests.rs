//! Tests of the ladder.

use super::*;
use crate::Reading;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn published() -> Fallback {
    let at = |vram_above| LevelRule { vram_above: Some(vram_above), ..LevelRule::default() };
    Fallback { l2: at(0.85), l3: at(0.92), l4: at(0.98), ..Fallback::default() }
}

fn read(ladder: &mut Ladder, now: u64, vram: f64) -> Level {
    let mut signals = Signals::default();
    signals.deliver(Moment(now), &Reading::new(Moment(now)).with(SignalKind::Vram, vram));
    ladder.read(Moment(now), &signals).0
}

#[test]
fn levels_follow_the_published_table() {
    for (vram, level) in [
        (0.0, Level::L1),
        (0.849_999, Level::L1),
        (0.85, Level::L2),
        (0.919_999, Level::L2),
        (0.92, Level::L3),
        (0.98, Level::L3),
        (0.980_001, Level::L4),
        (1.0, Level::L4),
    ] {
        assert_eq!(read(&mut Ladder::new(&published()), 0, vram), level, "at {vram}");
    }
}

#[test]
fn more_than_five_timeouts_within_the_window_hand_over_to_people() {
    let mut ladder = Ladder::new(&published());
    for i in 0..5 {
        ladder.timed_out(Moment(i * S));
    }
    assert_eq!(read(&mut ladder, 5 * S, 0.5), Level::L1);
    ladder.timed_out(Moment(5 * S));
    assert_eq!(read(&mut ladder, 5 * S, 0.5), Level::L4);
    assert_eq!(ladder.compared().unwrap().why, Reason::L4LlmTimeouts);
    // The first left the window: 5 are neither above the threshold nor below it.
    assert_eq!(read(&mut ladder, 30 * S, 0.5), Level::L4);
    assert_eq!(read(&mut ladder, 31 * S, 0.5), Level::L1);
}

#[test]
fn a_ladder_that_was_not_asked_for_stays_at_l1() {
    let mut ladder = Ladder::new(&Fallback::default());
    (0..100).for_each(|i| ladder.timed_out(Moment(i)));
    assert_eq!(read(&mut ladder, 100, 1.0), Level::L1);
}

#[test]
fn inside_the_band_nothing_changes() {
    let mut ladder = Ladder::new(&published());
    assert_eq!(read(&mut ladder, 0, 0.84), Level::L1);
    assert_eq!(read(&mut ladder, 1, 0.86), Level::L2);
    let compared = |ladder: &Ladder| ladder.compared().map(|c| (c.found, c.threshold)).unwrap();
    assert_eq!(compared(&ladder), (0.86, 0.85));
    assert_eq!(read(&mut ladder, 2, 0.84), Level::L2);
    // What keeps it there is the lower threshold.
    let (found, threshold) = compared(&ladder);
    assert!(found == 0.84 && (threshold - 0.83).abs() < 1e-12, "{threshold}");
    assert_eq!(read(&mut ladder, 3, 0.8299), Level::L1);
    assert_eq!(ladder.compared(), None);
}

#[test]
fn going_up_waits_for_the_dwell_time_and_going_down_does_not() {
    let mut ladder = Ladder::new(&Fallback { least_dwell_s: 10.0, ..published() });
    assert_eq!(read(&mut ladder, 0, 0.9), Level::L2);
    assert_eq!(read(&mut ladder, S, 0.99), Level::L4);
    assert_eq!(read(&mut ladder, 10 * S, 0.1), Level::L4);
    assert_eq!(read(&mut ladder, 11 * S, 0.1), Level::L1);
    assert_eq!(read(&mut ladder, 11 * S + 1, 0.93), Level::L3);
}

#[test]
fn a_signal_that_was_never_read_changes_nothing() {
    let mut ladder = Ladder::new(&published());
    assert_eq!(ladder.read(Moment(0), &Signals::default()), (Level::L1, Reason::Normal));
    read(&mut ladder, 1, 0.93);
    assert_eq!(ladder.read(Moment(2), &Signals::default()), (Level::L3, Reason::L3Vram));
}

#[test]
fn changed_thresholds_take_effect_at_the_next_reading() {
    let mut ladder = Ladder::new(&published());
    assert_eq!(read(&mut ladder, 0, 0.86), Level::L2);
    let mut changed = published();
    changed.l2.vram_above = Some(0.9);
    ladder.adopt(&changed);
    assert_eq!(ladder.last(), Level::L2);
    assert_eq!(read(&mut ladder, 1, 0.86), Level::L1);
}

#[test]
fn a_clearing_threshold_above_its_own_is_refused() {
    let rule = LevelRule { kv_above: Some(0.8), kv_below: Some(0.9), ..LevelRule::default() };
    assert_eq!(rule.check("fallback.l2").unwrap_err().path(), "fallback.l2.kv_below");
}

proptest! {
    /// However the signal moves inside the band, the level keeps still.
    #[test]
    fn no_flapping_inside_the_band(start in any::<bool>(), walk in prop::collection::vec(0.83..0.85_f64, 1..200)) {
        let mut ladder = Ladder::new(&published());
        let level = read(&mut ladder, 0, if start { 0.86 } else { 0.5 });
        for (i, vram) in walk.into_iter().enumerate() {
            prop_assert_eq!(read(&mut ladder, i as u64 + 1, vram), level);
        }
    }

    /// A better level is never taken sooner than the dwell time after the last change.
    #[test]
    fn the_dwell_time_holds(walk in prop::collection::vec((0..5 * S, 0.7..1.0_f64), 1..200)) {
        let mut ladder = Ladder::new(&Fallback { least_dwell_s: 10.0, ..published() });
        let (mut now, mut changed, mut level) = (0, 0, Level::L1);
        for (gap, vram) in walk {
            now += gap;
            let new = read(&mut ladder, now, vram);
            if new < level {
                prop_assert!(now - changed >= 10 * S);
            }
            if new != level {
                (changed, level) = (now, new);
            }
        }
    }
}
