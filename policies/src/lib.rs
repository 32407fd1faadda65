//! What decides: the governance policies that a gateway and the simulator both drive.
//!
//! A [`Governor`] is built from a [`Policy`] (the `[policy]` table of a scenario, or the exported
//! configuration of a gateway), is handed the time and what a gateway may know, and answers with
//! decisions. It owns no clock, draws no random number and does no input or output, so the module
//! that was tuned in the simulator is the module that runs in production. The truth about a request
//! (its service time, its output length, how patient its user is) has no type in this crate: a policy
//! cannot read it.

pub mod admission;
pub mod decision;
pub mod fallback;
pub mod feedback;
pub mod governor;
pub mod limits;
pub mod moment;
pub mod policy;
pub mod queueing;
pub mod reason;
pub mod signal;
pub mod view;

pub use admission::Admission;
pub use decision::{Arrival, Call, Command, Dispatch, Next};
pub use fallback::Fallback;
pub use governor::{Explanation, Governor};
pub use moment::Moment;
pub use policy::{Policy, PolicyError};
pub use queueing::Queue;
pub use reason::Reason;
pub use signal::{Reading, SignalConfig, SignalKind, Signals};
pub use view::{CallEnd, CallView, Level, RequestView, Site, Ticket};
