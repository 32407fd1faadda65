//! What time is: clock, calendar, random streams, distributions and output statistics. This crate
//! knows nothing of requests or language models.
//!
//! | module | what |
//! | --- | --- |
//! | [`time`] | [`Time`] and [`Span`]: whole nanoseconds |
//! | [`calendar`] | [`Calendar`]: the future-event list, in the total order (time, order of scheduling) |
//! | [`simulation`] | [`Simulation`]: the one loop, over a [`World`] |
//! | [`stream`] | [`Stream`], [`Chance`], [`Draw`]: randomness by name |
//! | [`distribution`] | [`Dist`] as files write it, [`Sampler`] as the simulation draws from it |
//! | [`popularity`] | [`Popularity`]: weighted choice among many |
//! | [`statistics`] | streaming statistics, warm-up, confidence intervals |
//!
//! A clock that strikes every hour, for a day:
//!
//! ```
//! use forebay_engine::{Calendar, Simulation, Span, Stop, Time, World};
//!
//! const HOUR: Span = Span::from_nanos(3_600_000_000_000);
//!
//! struct Tower {
//!     strikes: u32,
//! }
//!
//! impl World for Tower {
//!     type Event = ();
//!
//!     fn handle(&mut self, _now: Time, (): (), calendar: &mut Calendar<()>) {
//!         self.strikes += 1;
//!         calendar.after(HOUR, ());
//!     }
//! }
//!
//! let mut day = Simulation::new(Tower { strikes: 0 });
//! day.calendar.after(HOUR, ());
//! let midnight = Time::from_nanos(24 * HOUR.as_nanos());
//! assert_eq!(day.run_until(midnight), Stop::Reached(midnight));
//! assert_eq!(day.world.strikes, 24);
//! ```

pub mod calendar;
pub mod distribution;
pub mod popularity;
pub mod simulation;
mod special;
pub mod statistics;
pub mod stream;
pub mod time;

pub use calendar::{Calendar, Handle};
pub use distribution::{Dist, DistError, Part, Phase, Sampler};
pub use popularity::Popularity;
pub use simulation::{Simulation, Stop, World};
pub use special::normal_quantile;
pub use statistics::{
    Histogram, Interval, Level, TimeWeighted, Welford, batch_means, mser5, student_t_quantile,
};
pub use stream::{Chance, Draw, Stream};
pub use time::{Span, Time};
