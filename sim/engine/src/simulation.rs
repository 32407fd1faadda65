//! The loop: takes events from the calendar and hands them to the world.
//!
//! Stepping, running until an instant and running to the end all go through one private function,
//! so that they cannot differ. State (the [`World`]), time (the [`Calendar`]), the loop and the
//! reason it stopped ([`Stop`]) are four types; when the first two are `Clone`, a run can be forked
//! into a what-if at any instant.

use crate::calendar::Calendar;
use crate::time::Time;

/// What is simulated: state that changes at events, and nowhere else.
pub trait World {
    /// What can happen.
    type Event;

    /// Lets `event` happen at `now`. New events go on the calendar; one scheduled for `now` fires
    /// after all those already scheduled for `now`.
    fn handle(&mut self, now: Time, event: Self::Event, calendar: &mut Calendar<Self::Event>);
}

/// Why a run stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// Nothing is left to happen.
    Drained,
    /// The next event is later than this limit; the clock stands at it.
    Reached(Time),
    /// The clock has stood at `at` for `events` events: the model goes round in a circle that takes
    /// no time. Running on is possible and starts the count anew.
    Stuck {
        /// Where the clock stands.
        at: Time,
        /// How many events have fired there.
        events: u64,
    },
}

/// A run: a world, its calendar, and the guard against a clock that stands still.
#[derive(Clone, Debug)]
pub struct Simulation<W: World> {
    /// What is simulated.
    pub world: W,
    /// What is to come.
    pub calendar: Calendar<W::Event>,
    /// Events fired without the clock moving.
    still: u64,
    still_limit: u64,
}

impl<W: World> Simulation<W> {
    /// Events at one instant after which a run counts as stuck, unless set otherwise.
    pub const STILL_LIMIT: u64 = 10_000_000;

    /// A run of `world` at [`Time::ZERO`] with an empty calendar: schedule the first events on
    /// `calendar` before running.
    pub const fn new(world: W) -> Self {
        Self { world, calendar: Calendar::new(), still: 0, still_limit: Self::STILL_LIMIT }
    }

    /// Sets how many events may fire at one instant before the run counts as stuck (at least 1).
    #[must_use]
    pub fn with_still_limit(mut self, events: u64) -> Self {
        self.still_limit = events.max(1);
        self
    }

    /// Lets one event happen, and tells when it did. `None` when none is left, or when the guard
    /// against a clock that stands still holds the run.
    pub fn step(&mut self) -> Option<Time> {
        match self.advance(Time::MAX, 1) {
            None => Some(self.calendar.now()),
            Some(_) => None,
        }
    }

    /// Runs all events at or before `limit`. On [`Stop::Reached`] the clock stands at `limit`, so
    /// what is scheduled from outside then counts from there.
    pub fn run_until(&mut self, limit: Time) -> Stop {
        self.run(limit)
    }

    /// Runs until nothing is left.
    pub fn run_to_end(&mut self) -> Stop {
        self.run(Time::MAX)
    }

    fn run(&mut self, limit: Time) -> Stop {
        loop {
            if let Some(stop) = self.advance(limit, u64::MAX) {
                return stop;
            }
        }
    }

    /// The loop. `None` when the budget of events is used up, which says nothing about the run.
    fn advance(&mut self, limit: Time, budget: u64) -> Option<Stop> {
        for _ in 0..budget {
            if self.still >= self.still_limit {
                let events = std::mem::take(&mut self.still);
                return Some(Stop::Stuck { at: self.calendar.now(), events });
            }
            let before = self.calendar.now();
            let Some((now, event)) = self.calendar.pop_until(limit) else {
                return Some(self.halt(limit));
            };
            self.still = if now == before { self.still + 1 } else { 1 };
            self.world.handle(now, event, &mut self.calendar);
        }
        None
    }

    fn halt(&mut self, limit: Time) -> Stop {
        if self.calendar.is_empty() {
            return Stop::Drained;
        }
        self.calendar.idle_until(limit);
        Stop::Reached(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    /// Counts to `last` in steps of one second, then, if told so, spins.
    #[derive(Clone, Debug, PartialEq)]
    struct Ticker {
        seen: Vec<(u64, u32)>,
        last: u32,
        spin: bool,
    }

    const SECOND: Span = Span::from_nanos(1_000_000_000);

    impl World for Ticker {
        type Event = u32;

        fn handle(&mut self, now: Time, event: u32, calendar: &mut Calendar<u32>) {
            self.seen.push((now.as_nanos() / SECOND.as_nanos(), event));
            if event < self.last {
                calendar.after(SECOND, event + 1);
            } else if self.spin {
                calendar.after(Span::ZERO, event);
            }
        }
    }

    fn ticker(last: u32, spin: bool) -> Simulation<Ticker> {
        let mut run = Simulation::new(Ticker { seen: Vec::new(), last, spin });
        run.calendar.schedule(Time::ZERO, 0);
        run
    }

    fn seconds(s: u64) -> Time {
        Time::from_nanos(s * SECOND.as_nanos())
    }

    #[test]
    fn runs_to_the_end() {
        let mut run = ticker(3, false);
        assert_eq!(run.run_to_end(), Stop::Drained);
        assert_eq!(run.world.seen, [(0, 0), (1, 1), (2, 2), (3, 3)]);
        assert_eq!(run.calendar.fired(), 4);
        assert_eq!(run.step(), None);
    }

    #[test]
    fn a_limit_is_inclusive_and_moves_the_clock() {
        let mut run = ticker(9, false);
        assert_eq!(run.run_until(seconds(2)), Stop::Reached(seconds(2)));
        assert_eq!(run.world.seen.len(), 3);
        let between = Time::from_nanos(2_500_000_000);
        assert_eq!(run.run_until(between), Stop::Reached(between));
        assert_eq!(run.calendar.now(), between);
        // What comes from outside now counts from the limit, and cannot overtake the past.
        run.calendar.schedule(Time::ZERO, 100);
        assert_eq!(run.step(), Some(between));
        assert_eq!(run.run_until(seconds(1)), Stop::Reached(seconds(1)));
        assert_eq!(run.calendar.now(), between, "an earlier limit does not turn the clock back");
    }

    #[test]
    fn steps_make_the_same_run() {
        let (mut whole, mut stepped) = (ticker(5, false), ticker(5, false));
        whole.run_to_end();
        while stepped.step().is_some() {}
        assert_eq!(whole.world, stepped.world);
        assert_eq!(whole.calendar.now(), stepped.calendar.now());
    }

    #[test]
    fn a_clock_that_stands_still_stops_the_run() {
        let mut run = ticker(2, true).with_still_limit(50);
        assert_eq!(run.run_to_end(), Stop::Stuck { at: seconds(2), events: 50 });
        // It can go on, and is stopped again.
        assert_eq!(run.run_until(seconds(9)), Stop::Stuck { at: seconds(2), events: 50 });
        assert_eq!(run.world.seen.len(), 102);
    }

    #[test]
    fn stepping_meets_the_guard_too() {
        let mut run = ticker(0, true).with_still_limit(7);
        let mut steps = 0;
        while run.step().is_some() {
            steps += 1;
        }
        assert_eq!(steps, 7);
    }

    #[test]
    fn a_fork_leaves_the_original_alone() {
        let mut run = ticker(5, false);
        run.run_until(seconds(2));
        let mut fork = run.clone();
        fork.world.last = 3;
        fork.run_to_end();
        assert_eq!(fork.world.seen.len(), 4);
        run.run_to_end();
        assert_eq!(run.world.seen.len(), 6);
    }
}
