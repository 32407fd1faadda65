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
pub use statistics::{
    Histogram, Interval, Level, TimeWeighted, Welford, batch_means, mser5, student_t_quantile,
};
pub use stream::{Chance, Draw, Stream};
pub use special::normal_quantile;
pub use time::{Span, Time};
