//! A governor alone: what the cases need to ask it.

use forebay_policies::{
    CallEnd, CallView, Governor, Level, Moment, Policy, Reading, RequestView, SignalKind, Signals, Site,
    Ticket,
};

/// A millisecond in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub(crate) const S: u64 = 1000 * MS;

/// The governor of a policy file.
pub(crate) fn governor(file: &str) -> Governor {
    let policy: Policy = toml::from_str(file).expect("the test's own file");
    Governor::new(&policy).expect("the test's own values")
}

/// A request in this slot.
pub(crate) fn request(slot: u32) -> RequestView {
    RequestView::new(Ticket::of(slot, 0))
}

/// A share of GPU memory in use, and no other signal.
pub(crate) fn vram(share: f64) -> Signals {
    let mut signals = Signals::default();
    signals.deliver(Moment::ZERO, &Reading::new(Moment::ZERO).with(SignalKind::Vram, share));
    signals
}

/// A call of 50 documents or tokens.
pub(crate) fn call(slot: u32, site: Site) -> CallView {
    CallView {
        ticket: Ticket::of(slot, 0),
        site,
        endpoint: 0,
        class: 2,
        tenant: 0,
        level: Level::L1,
        size: 50,
    }
}

/// The end of a call that was answered.
pub(crate) fn ended(slot: u32, site: Site, latency_ns: u64) -> CallEnd {
    CallEnd { ticket: Ticket::of(slot, 0), site, latency_ns, ok: true, timed_out: false, tokens: None }
}
