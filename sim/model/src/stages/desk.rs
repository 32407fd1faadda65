//! The agents' desk: people who take hand-offs, first come first served, while those who were handed over
//! may give up waiting.
//!
//! Who comes first is served first, and a caller's patience and handling time are known when the hand-off
//! is made, so the wait is known then too: until the first agent is free of all that came before
//! (Kiefer and Wolfowitz). No event is needed, and the desk costs as much as its hand-offs, not as its
//! backlog.

use crate::scenario::Agents;
use forebay_engine::{DistError, Draw, Histogram, Sampler, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What became of the hand-offs made after the warm-up.
#[derive(Clone, Debug)]
pub(crate) struct DeskMeasure {
    pub(crate) handed: u64,
    pub(crate) gave_up: u64,
    /// Waits of those whom an agent took.
    pub(crate) wait: Histogram,
    /// Time of agents for them, seconds, whenever it is spent.
    pub(crate) handling_s: f64,
    /// Time of agents, and of those who wait, within the measured window, seconds.
    pub(crate) busy_s: f64,
    pub(crate) waiting_s: f64,
}

/// What becomes of a hand-off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum HandOff {
    /// An agent takes it: share of such hand-offs that are settled.
    Taken { settled: f64 },
    /// The person gives up before.
    GivenUp,
    /// Too many wait.
    Full,
}

#[derive(Clone, Debug)]
pub(crate) struct Desk {
    handling: Sampler,
    saves_s: f64,
    settled: f64,
    patience: Option<Sampler>,
    max_waiting: usize,
    /// When each agent is free.
    free: BinaryHeap<Reverse<Time>>,
    /// When each of those who wait stops waiting.
    waiting: BinaryHeap<Reverse<Time>>,
    /// The measured window.
    window: (Time, Time),
    pub(crate) measure: DeskMeasure,
    pub(crate) agents: u32,
}

impl Desk {
    pub(crate) fn new(stage: &Agents, window: (Time, Time)) -> Result<Self, DistError> {
        let gain = stage.summary.map_or(0.0, |summary| summary.first_contact_gain);
        Ok(Self {
            handling: stage.handling_s.sampler()?,
            saves_s: stage.summary.map_or(0.0, |summary| summary.saves_s),
            settled: (stage.first_contact_share * (1.0 + gain)).min(1.0),
            patience: stage.give_up_after_s.as_ref().map(forebay_engine::Dist::sampler).transpose()?,
            max_waiting: stage.max_waiting.map_or(usize::MAX, |n| n as usize),
            free: (0..stage.agents).map(|_| Reverse(Time::ZERO)).collect(),
            waiting: BinaryHeap::new(),
            window,
            measure: DeskMeasure {
                handed: 0,
                gave_up: 0,
                wait: Histogram::new(),
                handling_s: 0.0,
                busy_s: 0.0,
                waiting_s: 0.0,
            },
            agents: stage.agents,
        })
    }

    /// A hand-off is made. `counts`: it counts in the metrics.
    pub(crate) fn take(&mut self, now: Time, counts: bool, draw: &mut Draw) -> HandOff {
        while self.waiting.peek().is_some_and(|until| until.0 <= now) {
            self.waiting.pop();
        }
        // Both are drawn in any case, in this order.
        let handling_s = (self.handling.sample(draw) - self.saves_s).max(0.0);
        let patience = self.patience.as_ref().map(|law| Span::from_secs_f64(law.sample(draw)));
        let first_free = self.free.peek().map_or(now, |free| free.0);
        let begins = first_free.max(now);
        if begins > now && self.waiting.len() >= self.max_waiting {
            return HandOff::Full;
        }
        self.measure.handed += u64::from(counts);
        if let Some(patience) = patience
            && begins > now + patience
        {
            self.waits(now, now + patience);
            self.measure.gave_up += u64::from(counts);
            return HandOff::GivenUp;
        }
        self.waits(now, begins);
        let ends = begins + Span::from_secs_f64(handling_s);
        self.free.pop();
        self.free.push(Reverse(ends));
        self.measure.busy_s += self.within(begins, ends);
        if counts {
            self.measure.wait.record(begins.since(now));
            self.measure.handling_s += handling_s;
        }
        HandOff::Taken { settled: self.settled }
    }

    fn waits(&mut self, from: Time, to: Time) {
        if to > from {
            self.waiting.push(Reverse(to));
            self.measure.waiting_s += self.within(from, to);
        }
    }

    /// Seconds of a stretch of time that lie within the measured window.
    fn within(&self, from: Time, to: Time) -> f64 {
        to.min(self.window.1).since(from.max(self.window.0)).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Chance;

    fn desk(text: &str) -> Desk {
        let stage: Agents = toml::from_str(&format!("handling_s = 100\n{text}")).expect("agents");
        Desk::new(&stage, (at(0.0), at(1000.0))).expect("its laws")
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(seconds)
    }

    fn take(desk: &mut Desk, seconds: f64) -> HandOff {
        desk.take(at(seconds), true, &mut Chance::new(1).draw(1))
    }

    const TAKEN: HandOff = HandOff::Taken { settled: 1.0 };

    #[test]
    fn agents_take_hand_offs_in_order() {
        let mut desk = desk("agents = 2");
        for _ in 0..5 {
            assert_eq!(take(&mut desk, 0.0), TAKEN);
        }
        // Two at once, two after 100 s, one after 200 s.
        assert_eq!(desk.measure.wait.max(), Some(Span::from_secs_f64(200.0)));
        assert!((desk.measure.waiting_s - 400.0).abs() < 1e-9);
        assert!((desk.measure.busy_s - 500.0).abs() < 1e-9);
        // What an agent does after the window is no part of the utilisation.
        take(&mut desk, 950.0);
        assert!((desk.measure.busy_s - 550.0).abs() < 1e-9);
        assert!((desk.measure.handling_s - 600.0).abs() < 1e-9);
    }

    #[test]
    fn people_give_up_and_take_nobody_s_turn() {
        let mut desk = desk("agents = 1\ngive_up_after_s = 150");
        let made: Vec<_> = (0..4).map(|_| take(&mut desk, 0.0)).collect();
        assert_eq!(made, [TAKEN, TAKEN, HandOff::GivenUp, HandOff::GivenUp]);
        assert_eq!(desk.measure.gave_up, 2);
        assert_eq!(take(&mut desk, 60.0), TAKEN);
        assert_eq!(desk.measure.wait.max(), Some(Span::from_secs_f64(140.0)));
    }

    #[test]
    fn a_full_line_turns_away() {
        let mut desk = desk("agents = 1\nmax_waiting = 1");
        assert_eq!([0.0; 3].map(|s| take(&mut desk, s)), [TAKEN, TAKEN, HandOff::Full]);
        assert_eq!(take(&mut desk, 100.0), TAKEN);
        assert_eq!(desk.measure.handed, 3);
    }

    /// Published case F6.
    #[test]
    fn a_summary_shortens_the_work_and_settles_more() {
        let mut plain = desk("agents = 1\nfirst_contact_share = 0.6");
        let mut summed = desk("agents = 1\nfirst_contact_share = 0.6\nsummary = {}");
        assert_eq!(take(&mut plain, 0.0), HandOff::Taken { settled: 0.6 });
        assert_eq!(take(&mut summed, 0.0), HandOff::Taken { settled: 0.6 * 1.37 });
        assert_eq!(plain.measure.handling_s - summed.measure.handling_s, 42.0);
    }
}
