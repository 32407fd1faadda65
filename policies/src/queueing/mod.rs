//! Queueing: who of those waiting is served next.
//!
//! A new discipline is one file beside this one, and its line in each of the two lists below.

#[cfg(test)]
mod conformance;
pub mod earliest_deadline;
pub mod fifo;
pub mod lifo_under_overload;
pub(crate) mod line;
pub(crate) mod ranked;
pub mod semantic;
pub mod strict_priority;
pub(crate) mod wait_limits;
pub mod weighted_fair;

use crate::admission::Refusal;
use crate::governor::tickets::Tickets;
use crate::{Level, Moment, PolicyError, RequestView, Signals, Ticket};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! family {
    ($($(#[doc = $doc:literal])* $variant:ident($file:ident);)*) => {
        /// The parameters of the queue.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "snake_case")]
        pub enum Queue {
            $($(#[doc = $doc])* $variant($file::$variant),)*
        }

        impl Queue {
            /// Rules that no single range can state.
            pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
                match self { $(Self::$variant(parameters) => parameters.check(path),)* }
            }
        }

        /// The state of the queue.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub(crate) enum State {
            $($variant($file::State),)*
        }

        impl State {
            pub(crate) fn new(parameters: &Queue) -> Self {
                match parameters {
                    $(Queue::$variant(parameters) => Self::$variant($file::State::new(parameters)),)*
                }
            }

            /// Takes changed parameters over and keeps those who wait.
            pub(crate) fn adopt(&mut self, parameters: &Queue) {
                match (self, parameters) {
                    $((Self::$variant(state), Queue::$variant(parameters)) => state.adopt(parameters),)*
                    // `Governor::set` changes numbers, never the kind.
                    _ => {}
                }
            }

            #[inline]
            pub(crate) fn push(
                &mut self, now: Moment, request: &RequestView, signals: &Signals, tickets: &mut Tickets,
            ) -> Result<Place, Refusal> {
                match self { $(Self::$variant(state) => state.push(now, request, signals, tickets),)* }
            }

            #[inline]
            pub(crate) fn pop(&mut self, now: Moment, signals: &Signals) -> Popped {
                match self { $(Self::$variant(state) => state.pop(now, signals),)* }
            }

            pub(crate) fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)> {
                match self { $(Self::$variant(state) => state.pop_expired(now),)* }
            }

            pub(crate) fn remove(&mut self, place: Place) {
                match self { $(Self::$variant(state) => state.remove(place),)* }
            }

            pub(crate) fn len(&self, class: u8) -> usize {
                match self { $(Self::$variant(state) => state.len(class),)* }
            }

            pub(crate) fn queued(&self) -> usize {
                match self { $(Self::$variant(state) => state.queued(),)* }
            }

            pub(crate) fn next_expiry(&self) -> Option<Moment> {
                match self { $(Self::$variant(state) => state.next_expiry(),)* }
            }

            pub(crate) fn ahead(&self, now: Moment, place: Place) -> Option<usize> {
                match self { $(Self::$variant(state) => state.ahead(now, place),)* }
            }

            pub(crate) fn reads_signals(&self) -> bool {
                match self { $(Self::$variant(state) => state.reads_signals(),)* }
            }

            pub(crate) fn tick(&mut self, now: Moment, signals: &Signals, tickets: &mut Tickets) {
                match self { $(Self::$variant(state) => state.tick(now, signals, tickets),)* }
            }
        }
    };
}

family! {
    /// One queue, first come first served.
    Fifo(fifo);
    /// A queue per class or tier; a better one is always served first.
    StrictPriority(strict_priority);
    /// One queue, but the newest first while it is overloaded.
    LifoUnderOverload(lifo_under_overload);
    /// The request whose answer is due first is served first.
    EarliestDeadline(earliest_deadline);
    /// Each class, tier, tenant or user has its share of the service by weight.
    WeightedFair(weighted_fair);
    /// Three queues by a score of what the question says.
    Semantic(semantic);
}

/// Where a request stands: the index of the queue and the position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) class: u8,
    pub(crate) position: u64,
}

/// What a queue hands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Popped {
    Serve(Ticket),
    /// The same, but at this level at best, for this reason.
    ServeAt(Ticket, Level, Refusal),
    Nothing,
}

/// What every discipline's state can do.
pub(crate) trait Discipline {
    type Parameters;

    fn new(parameters: &Self::Parameters) -> Self;

    /// Takes changed parameters over and keeps those who wait.
    fn adopt(&mut self, parameters: &Self::Parameters);

    /// Takes a request in, or refuses it.
    fn push(
        &mut self,
        now: Moment,
        request: &RequestView,
        signals: &Signals,
        tickets: &mut Tickets,
    ) -> Result<Place, Refusal>;

    /// Hands out the next. Those that have waited too long were taken out before.
    fn pop(&mut self, now: Moment, signals: &Signals) -> Popped;

    /// Takes out one that has waited too long, if there is one.
    fn pop_expired(&mut self, now: Moment) -> Option<(Ticket, Refusal)>;

    /// Takes out one that gave up.
    fn remove(&mut self, place: Place);

    /// How many wait in the queue with this index.
    fn len(&self, class: u8) -> usize;

    /// How many wait in all.
    fn queued(&self) -> usize;

    /// When the next of those waiting will have waited too long.
    fn next_expiry(&self) -> Option<Moment>;

    /// How many are served before the one at this place if nobody else arrives or leaves; `None`: nobody
    /// stands there.
    fn ahead(&self, now: Moment, place: Place) -> Option<usize>;

    /// Whether it follows signals, also while nobody arrives.
    fn reads_signals(&self) -> bool {
        false
    }

    /// Runs on the governor's clock.
    fn tick(&mut self, _now: Moment, _signals: &Signals, _tickets: &mut Tickets) {}
}
