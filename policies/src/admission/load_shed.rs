//! Sheds a share of the requests while a signal of saturation is high, the least important classes
//! first.
//!
//! Between `from` and `to` the classes share the way: over its first part the share that is shed of the
//! least important class rises from nothing to all, over the next that of the class above it, and so on.
//!
//! Policies draw no random numbers. Each class has a balance to which the share is added with each
//! request; when it reaches one, that request is shed and one is taken off. So of n requests in a row the
//! number shed is within one of n times the share, which chance would not promise. Shedding by a hash of
//! the user was rejected: the same few would be shed each time; by a hash of the ticket: tickets are the
//! driver's own numbers.

use super::keyed::{Keyed, Spread};
use super::{Key, Limiter, Refusal, Verdict, front};
use crate::moment::nanos;
use crate::signal::SignalKind;
use crate::{CLASSES, Moment, PolicyError, Reason, RequestView, Signals, Site};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The least important class.
const LEAST_CLASS: u8 = CLASSES as u8 - 1;
/// One whole request, in the units of a balance.
const WHOLE: u64 = 1 << 32;

/// Parameters of the load shedding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadShed {
    /// Where it stands.
    #[serde(default = "front")]
    pub place: Site,
    /// What it counts apart.
    #[serde(default)]
    pub key: Key,
    /// The signal of saturation.
    pub signal: SignalKind,
    /// The signal above which the least important class begins to be shed.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub from: f64,
    /// The signal from which all is shed that may be.
    #[schemars(range(min = 0.0, max = 1e9))]
    pub to: f64,
    /// How many of the most important classes are never shed.
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    pub spared: u8,
    /// After how many seconds a client may try again.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub retry_after_s: Option<f64>,
}

impl LoadShed {
    pub(crate) fn check(&self, path: &str) -> Result<(), PolicyError> {
        PolicyError::ordered(path, ("from", self.from), ("to", self.to))
    }

    /// The share that is shed of a class at this value of the signal, and the value above which any is.
    pub fn share(&self, class: u8, signal: f64) -> (f64, f64) {
        let class = class.min(LEAST_CLASS);
        let Some(sharing) = (CLASSES as u8).checked_sub(self.spared).filter(|_| class >= self.spared) else {
            return (0.0, f64::INFINITY);
        };
        let part = (self.to - self.from) / f64::from(sharing);
        let threshold = self.from + part * f64::from(LEAST_CLASS - class);
        let share = if signal <= threshold {
            0.0
        } else {
            // Where both ends are one value the quotient is infinite: all is shed.
            ((signal - threshold) / part).min(1.0)
        };
        (share, threshold)
    }
}

/// The balance of each class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct State {
    parameters: LoadShed,
    balances: Keyed<[u64; CLASSES]>,
}

impl Limiter for State {
    type Parameters = LoadShed;

    fn new(parameters: &LoadShed) -> Self {
        Self { parameters: parameters.clone(), balances: Keyed::new(parameters.key) }
    }

    fn adopt(&mut self, _: Moment, parameters: &LoadShed) {
        self.parameters = parameters.clone();
    }

    #[inline]
    fn ask(&mut self, _: Moment, key: u64, request: &RequestView, signals: &Signals) -> Verdict {
        // An unknown signal sheds nobody.
        let Some(signal) = signals.get(self.parameters.signal) else { return Verdict::Pass };
        let (share, threshold) = self.parameters.share(request.class, signal);
        if share <= 0.0 {
            return Verdict::Pass;
        }
        // Each value of the key starts elsewhere: users who come once are shed in the right share too. For
        // the same reason any balance may be forgotten.
        let fresh = || [Spread::of(key) % WHOLE; CLASSES];
        let balances = self.balances.entry(key, fresh, |_| true);
        let balance = &mut balances[usize::from(request.class.min(LEAST_CLASS))];
        *balance += (share * WHOLE as f64).round() as u64;
        if *balance < WHOLE {
            return Verdict::Pass;
        }
        *balance -= WHOLE;
        let retry_after_ns = self.parameters.retry_after_s.map(nanos);
        Verdict::Refuse(Refusal { retry_after_ns, ..Refusal::new(Reason::LoadShed, signal, threshold) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reading, Ticket};
    use proptest::prelude::*;

    fn parameters(from: f64, to: f64, spared: u8) -> LoadShed {
        let signal = SignalKind::LlmBusy;
        LoadShed { place: Site::Front, key: Key::Global, signal, from, to, spared, retry_after_s: Some(2.0) }
    }

    fn busy(value: f64) -> Signals {
        let mut signals = Signals::default();
        signals.deliver(Moment(0), &Reading::new(Moment(0)).with(SignalKind::LlmBusy, value));
        signals
    }

    fn ask(state: &mut State, key: u64, class: u8, signals: &Signals) -> Verdict {
        state.ask(Moment(0), key, &RequestView { class, ..RequestView::new(Ticket(0)) }, signals)
    }

    /// How many of 1000 are shed.
    fn shed(state: &mut State, class: u8, value: f64) -> usize {
        let signals = busy(value);
        (0..1000).filter(|_| ask(state, 0, class, &signals) != Verdict::Pass).count()
    }

    #[test]
    fn the_least_important_are_shed_first() {
        let mut state = State::new(&parameters(0.5, 1.0, 0));
        for (value, expected) in [
            (0.5, [0, 0, 0, 0, 0]),
            (0.525, [0, 0, 0, 0, 250]),
            (0.65, [0, 0, 0, 500, 1000]),
            (0.925, [250, 1000, 1000, 1000, 1000]),
            (1.0, [1000; 5]),
        ] {
            for (class, expected) in (0..).zip(expected) {
                let shed = shed(&mut state, class, value);
                assert!(shed.abs_diff(expected) <= 1, "{shed} of S{class} at {value}");
            }
        }
        assert_eq!(ask(&mut state, 0, 4, &Signals::default()), Verdict::Pass);
    }

    #[test]
    fn spared_classes_are_never_shed_and_the_others_share_the_way() {
        let mut state = State::new(&parameters(0.5, 1.0, 3));
        assert_eq!([0, 1, 2, 3, 4].map(|class| shed(&mut state, class, 1.0)), [0, 0, 0, 1000, 1000]);
        assert_eq!([3, 4].map(|class| shed(&mut state, class, 0.625)), [0, 500]);
        assert_eq!([0, 4].map(|class| shed(&mut State::new(&parameters(0.5, 1.0, 5)), class, 1.0)), [0, 0]);
    }

    #[test]
    fn a_step_sheds_all_above_it() {
        let mut state = State::new(&parameters(0.8, 0.8, 0));
        assert_eq!([0.8, 0.81].map(|value| shed(&mut state, 0, value)), [0, 1000]);
        let Verdict::Refuse(refusal) = ask(&mut state, 0, 0, &busy(0.9)) else { panic!("it passed") };
        assert_eq!((refusal.why, refusal.found, refusal.threshold), (Reason::LoadShed, 0.9, 0.8));
        assert_eq!(refusal.retry_after_ns, Some(2_000_000_000));
        assert_eq!(parameters(0.9, 0.8, 0).check("a").unwrap_err().path(), "a.from");
    }

    #[test]
    fn users_who_come_once_are_shed_in_the_right_share() {
        let mut state = State::new(&LoadShed { key: Key::User, ..parameters(0.0, 1.0, 4) });
        let signals = busy(0.3);
        let shed = (0..10_000).filter(|&user| ask(&mut state, user, 4, &signals) != Verdict::Pass).count();
        assert!((2800..3200).contains(&shed), "{shed} of 10000");
    }

    proptest! {
        /// However the signal moves, the number shed is within one of the sum of the shares.
        #[test]
        fn the_number_shed_is_the_sum_of_the_shares(
            values in prop::collection::vec(0.0..1.2_f64, 1..300), class in 0..5_u8,
        ) {
            let parameters = parameters(0.2, 0.9, 1);
            let mut state = State::new(&parameters);
            let (mut sum, mut shed) = (0.0, 0.0);
            for value in values {
                sum += parameters.share(class, value).0;
                shed += f64::from(u8::from(ask(&mut state, 0, class, &busy(value)) != Verdict::Pass));
                prop_assert!((sum - shed) > -1e-6 && sum - shed < 1.0 + 1e-6, "{shed} shed of {sum}");
            }
        }
    }
}
