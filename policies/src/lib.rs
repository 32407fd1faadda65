//! What decides: the governance policies that a gateway and the simulator both drive.
//!
//! A [`Governor`] is built from a [`Policy`] (the `[policy]` table of a scenario, or the exported
//! configuration of a gateway), is handed the time and what a gateway may know, and answers with
//! decisions. It owns no clock, draws no random number and does no input or output, so the module
//! that was tuned in the simulator is the module that runs in production. The truth about a request
//! (its service time, its output length, how patient its user is) has no type in this crate: a policy
//! cannot read it.
//!
//! ```
//! use forebay_policies::{Arrival, Governor, Level, Moment, Policy, Reading, Reason};
//! use forebay_policies::{RequestView, SignalKind, Signals, Ticket};
//!
//! let policy: Policy = toml::from_str("fallback.l2.vram_above = 0.85")?;
//! let mut governor = Governor::new(&policy)?;
//! let mut signals = Signals::new(&policy.signals);
//! let now = Moment(5_000_000_000);
//! signals.deliver(now, &Reading::new(now).with(SignalKind::Vram, 0.9));
//!
//! let answer = governor.arrived(now, &RequestView::new(Ticket::of(0, 0)), &signals);
//! assert_eq!(answer, Arrival::Degrade { level: Level::L2, why: Reason::L2Vram });
//! let why = governor.explain(Reason::L2Vram).map(|explanation| explanation.to_string());
//! assert_eq!(
//!     why.as_deref(),
//!     Some(
//!         "l2.vram (fallback.l2, at 5.000 s): Mean GPU memory in use is at or above the threshold of L2. \
//!          share of GPU memory: 0.9; threshold: 0.85"
//!     )
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admission;
pub mod decision;
pub mod fallback;
pub mod feedback;
pub mod governor;
pub mod limits;
pub mod moment;
pub mod notice;
pub mod policy;
pub mod queueing;
pub mod reason;
pub mod signal;
pub mod store;
pub mod view;

pub use admission::Admission;
pub use decision::{Alert, Arrival, Call, Command, Dispatch, Next, Severity, Ticked};
pub use fallback::Fallback;
pub use fallback::providers::{ProviderEnd, Route};
pub use feedback::{Feedback, guard::Suppressed};
pub use governor::{Explanation, Governor};
pub use moment::Moment;
pub use notice::Notice;
pub use policy::{Policy, PolicyError};
pub use queueing::Queue;
pub use reason::Reason;
pub use signal::{Reading, SignalConfig, SignalKind, Signals};
pub use store::{FallbackUses, Store};
pub use view::{CLASSES, CallEnd, CallView, Channel, Cost, End, Level, Outcome, RequestView, Site, Ticket};
