//! Routes, the last resort and the number of documents, as a driver sees them.

use super::*;
use crate::fallback::providers::{ProviderEnd, Route};

const PROVIDERS: &str = "[fallback.providers]\nallowed_failures = 0\n";

fn use_of(provider: u8) -> Route {
    let why = if provider == 0 { Reason::Normal } else { Reason::ProvidersFailOver };
    Route::Use { provider, why }
}

fn of_class(n: u32, class: u8) -> RequestView {
    RequestView { class, ..request(n) }
}

/// Published case P1.
#[test]
fn a_red_line_is_kept_between_providers_too() {
    let mut governor = governor(&format!("{PROVIDERS}[fallback.class.s0]\nmain_provider_only = true\n"));
    let signals = Signals::default();
    governor.arrived(Moment(0), &of_class(0, 0), &signals);
    governor.arrived(Moment(0), &of_class(1, 2), &signals);
    assert_eq!(governor.route(Moment(0), ticket(0), 2), use_of(0));
    assert_eq!(governor.route(Moment(0), ticket(1), 2), use_of(0));
    for n in 0..2 {
        assert!(!governor.provider_ended(Moment(S), ticket(n), 0, ProviderEnd::Failed, S));
    }
    let why = Reason::ClassMainProviderOnly;
    assert_eq!(governor.route(Moment(S), ticket(0), 2), Route::Fail { why, retry_after_ns: None });
    assert_eq!(governor.route(Moment(S), ticket(1), 2), use_of(1));
    assert_eq!(governor.explain(why).map(|found| found.module), Some("fallback.class".to_owned()));
    let words = governor.explain(Reason::ProvidersFailOver).unwrap().to_string();
    assert!(words.contains("fallback.providers"), "{words}");
}

#[test]
fn a_provider_that_times_out_counts_for_the_ladder() {
    let mut governor = governor("[fallback]\nl3.llm_timeouts_above = 1\n");
    let signals = Signals::default();
    for n in 0..2 {
        governor.arrived(Moment(0), &request(n), &signals);
        governor.route(Moment(0), ticket(n), 1);
        governor.provider_ended(Moment(S), ticket(n), 0, ProviderEnd::TimedOut, S);
        governor.left(Moment(S), ticket(n), &End::GONE);
    }
    let answer = governor.arrived(Moment(S), &request(2), &signals);
    assert_eq!(answer, Arrival::Degrade { level: Level::L3, why: Reason::L3LlmTimeouts });
}

#[test]
fn an_attempt_that_leaves_makes_room_for_another_probe() {
    let mut governor = governor(PROVIDERS);
    let signals = Signals::default();
    for n in 0..4 {
        governor.arrived(Moment(0), &request(n), &signals);
    }
    governor.route(Moment(0), ticket(0), 2);
    governor.provider_ended(Moment(0), ticket(0), 0, ProviderEnd::Failed, S);
    assert_eq!(governor.route(Moment(60 * S), ticket(1), 2), use_of(0));
    assert_eq!(governor.route(Moment(60 * S), ticket(2), 2), use_of(1));
    governor.left(Moment(61 * S), ticket(1), &End::GONE);
    assert_eq!(governor.route(Moment(61 * S), ticket(3), 2), use_of(0));
}

/// Published case R7.
#[test]
fn the_last_resort_has_a_floor_and_keeps_red_lines() {
    let mut governor = governor(
        "[fallback.cache_last_resort]\nmin_similarity = 0.8\n[fallback.class]\ns0.red_line = true\n",
    );
    let signals = Signals::default();
    governor.arrived(Moment(0), &of_class(0, 0), &signals);
    governor.arrived(Moment(0), &of_class(1, 2), &signals);
    assert!(governor.last_resort(Moment(0), ticket(1), Some(0.81)));
    assert!(!governor.last_resort(Moment(0), ticket(1), Some(0.79)));
    assert!(!governor.last_resort(Moment(0), ticket(1), None));
    assert!(!governor.last_resort(Moment(0), ticket(0), Some(1.0)));
    let served = governor.explain(Reason::CacheLastResort).unwrap();
    assert_eq!((served.found, served.threshold), (f64::from(0.81_f32), 0.8));
    let mut none = self::governor("");
    assert!(!none.last_resort(Moment(0), ticket(1), Some(1.0)));
}

/// Published case R6.
#[test]
fn a_dispatch_says_how_many_documents() {
    let mut governor = governor("[queue]\nkind = 'fifo'\n[fallback.top_k]\n");
    let mut signals = Signals::default();
    for (n, (rate, k)) in [(10.0, 50), (60.0, 30), (200.0, 15)].into_iter().enumerate() {
        let now = Moment(n as u64 + 1);
        signals.deliver(now, &Reading::new(now).with(SignalKind::ArrivalRate, rate));
        governor.arrived(now, &request(n as u32), &signals);
        let Next::Serve(dispatch) = governor.next(now, &signals) else { panic!("nobody is served") };
        assert_eq!(dispatch.top_k, Some(k));
        assert_eq!(governor.top_k(now, &signals), Some(k));
    }
    let words = governor.explain(Reason::TopKRate).unwrap().to_string();
    assert!(words.contains("fallback.top_k") && words.ends_with("threshold per s: 150"), "{words}");
}

#[test]
fn changed_parameters_of_the_fail_over_take_effect() {
    let mut governor = governor(PROVIDERS);
    governor.arrived(Moment(0), &request(0), &Signals::default());
    governor.route(Moment(0), ticket(0), 2);
    governor.provider_ended(Moment(0), ticket(0), 0, ProviderEnd::Failed, S);
    governor.set(Moment(0), "fallback.providers.calls_at_most", 1.0).unwrap();
    let route = governor.route(Moment(0), ticket(0), 2);
    assert!(matches!(route, Route::Fail { why: Reason::ProvidersExhausted, .. }), "{route:?}");
}
