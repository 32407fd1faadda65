//! Tests of the shared store.

use super::*;
use crate::{Arrival, FallbackUses, Governor, Notice, RequestView, Signals, Ticked};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

const POLICY: &str = "[admission.entry]\nkind = 'token_bucket'\nrate_per_s = 800\nburst = 80\n\
                      [store]\nmodule = 'entry'\n";

fn governor(file: &str) -> Governor {
    Governor::new(&toml::from_str(file).unwrap()).unwrap()
}

/// 2000 requests per second, and a tick each 100 ms; returns how many came in during each second.
fn admitted(governor: &mut Governor, seconds: std::ops::Range<u64>) -> Vec<usize> {
    let signals = Signals::default();
    let mut ticked = Ticked::default();
    seconds
        .map(|second| {
            (0..2000)
                .filter(|&n| {
                    let now = second * S + n * S / 2000;
                    if now.is_multiple_of(100 * MS) {
                        governor.tick(Moment(now), &signals, &mut ticked);
                    }
                    let one = Ticket::of(n as u32, second as u32);
                    governor.arrived(Moment(now), &RequestView::new(one), &signals) == Arrival::Admit
                })
                .count()
        })
        .collect()
}

fn all_near(found: &[usize], rate: usize) {
    assert!(found.iter().all(|&n| n.abs_diff(rate) <= rate / 50), "{found:?}, expected {rate}");
}

#[test]
fn h7_the_last_rate_for_five_minutes_then_the_fixed_one() {
    let mut governor = governor(POLICY);
    assert_eq!(governor.tick_period_ns(), Some(S));
    admitted(&mut governor, 0..2);
    governor.notice(Moment(2 * S), Notice::StoreLost);
    // What a loop sets meanwhile does not arrive.
    governor.set(Moment(2 * S), "admission.entry.rate_per_s", 200.0).unwrap();
    all_near(&admitted(&mut governor, 2..10), 800);
    let signals = Signals::default();
    (10..300).for_each(|second| governor.tick(Moment(second * S), &signals, &mut Ticked::default()));
    // The store last answered at 1 s: to 301 s its rate is not older than 300 s.
    admitted(&mut governor, 300..301);
    all_near(&admitted(&mut governor, 301..302), 800);
    all_near(&admitted(&mut governor, 302..305), 500);
    assert_eq!(governor.fallback_uses().store_timeouts, 303);
    let words = governor.explain(Reason::StoreFixedRate).unwrap().to_string();
    assert!(words.contains("(store, at 304.000 s)") && words.contains("303; longest use, s: 300"), "{words}");
    governor.notice(Moment(305 * S), Notice::StoreBack);
    all_near(&admitted(&mut governor, 305..308), 200);
}

#[test]
fn h7_all_limiter_nodes_down_is_the_fixed_rate_at_once() {
    let mut governor = governor(POLICY);
    admitted(&mut governor, 0..2);
    governor.notice(Moment(2 * S), Notice::NodesDown);
    all_near(&admitted(&mut governor, 2..6), 500);
    assert_eq!(governor.fallback_uses(), FallbackUses { nodes_down: 4, ..FallbackUses::default() });
    // The nodes are up and the store does not answer: the last rate it told, not the fixed one.
    governor.notice(Moment(6 * S), Notice::StoreLost);
    governor.notice(Moment(6 * S), Notice::NodesUp);
    all_near(&admitted(&mut governor, 6..8), 800);
}

#[test]
fn g9_an_empty_rule_set_silently_stops_the_limiter_if_accepted() {
    let mut governor = governor(&format!("{POLICY}accept_empty_rules = true\n"));
    all_near(&admitted(&mut governor, 0..2)[1..], 800);
    governor.notice(Moment(2 * S), Notice::RulesWiped);
    assert_eq!(admitted(&mut governor, 2..4), [2000, 2000]);
    governor.notice(Moment(4 * S), Notice::RulesBack);
    all_near(&admitted(&mut governor, 4..6)[1..], 800);
    assert_eq!(governor.fallback_uses(), FallbackUses { rules_wiped: 4000, ..FallbackUses::default() });
    assert_eq!(governor.explain(Reason::StoreRulesWiped).unwrap().module, "store");
}

#[test]
fn g9_by_default_the_local_rules_stay() {
    let mut governor = governor(POLICY);
    governor.notice(Moment(0), Notice::RulesWiped);
    governor.notice(Moment(0), Notice::RulesWiped);
    all_near(&admitted(&mut governor, 0..3)[1..], 800);
    assert_eq!(governor.fallback_uses(), FallbackUses { rules_kept: 1, ..FallbackUses::default() });
}

#[test]
fn nodes_that_count_alone_let_in_as_many_times_as_there_are_nodes() {
    let nodes = |more: &str| {
        let file = POLICY.replace("800", "200").replace("= 80\n", "= 20\n");
        let found = admitted(&mut governor(&format!("{file}nodes = 4\n{more}")), 0..5);
        found[1..].iter().sum::<usize>() as f64 / 4.0 / 200.0
    };
    let (divided, alone) = (nodes(""), nodes("divided = false\n"));
    assert!((0.97..=1.001).contains(&divided), "{divided} times the rate");
    assert!((3.9..=4.05).contains(&alone), "{alone} times the rate");
}

#[test]
fn the_token_balance_is_that_of_the_nodes() {
    let signals = Signals::default();
    for nodes in [1, 2] {
        let file = POLICY.replace("800", "0").replace("= 80\n", "= 10\n");
        let mut governor = governor(&format!("{file}nodes = {nodes}\n"));
        assert_eq!(governor.token_balance(Moment(0), &signals), Some(1.0));
        // One token of the ten that a single node has, or of the five that each of two has.
        governor.arrived(Moment(0), &RequestView::new(Ticket::of(0, 0)), &signals);
        let left = 1.0 - f64::from(nodes) / 10.0;
        assert_eq!(governor.token_balance(Moment(0), &signals), Some(left), "{nodes} nodes");
    }
}

#[test]
fn parts_of_a_whole_limit_add_up_to_it() {
    for (limit, nodes) in [(10, 3), (1, 3), (0, 2), (7, 8), (1600, 7), (3, 1)] {
        let file = format!(
            "[admission.entry]\nkind = 'fixed_rate'\nlimit = {limit}\n[store]\nmodule = 'entry'\nnodes = {nodes}\n"
        );
        // So many come that every node has more than its part of them.
        assert_eq!(admitted(&mut governor(&file), 0..2), [limit; 2], "{limit} over {nodes} nodes");
    }
}

#[test]
fn a_shorter_period_is_in_force_at_once() {
    let policy: Policy = toml::from_str(&format!("{POLICY}sync_period_s = 100\n")).unwrap();
    let mut state = State::new(&policy).unwrap();
    assert_eq!(state.refresh(Moment(0), false, false), None);
    let faster = policy.with("admission.entry.rate_per_s", 200.0).unwrap();
    state.adopt(Moment(S), &faster.with("store.sync_period_s", 5.0).unwrap());
    for (second, rate) in [(4, 800.0), (5, 200.0)] {
        state.refresh(Moment(second * S), false, false);
        assert_eq!(state.rate_per_s, rate, "at {second} s");
    }
}

#[test]
fn each_kind_with_a_rate_can_be_shared() {
    for kind in [
        "kind = 'fixed_rate'\nlimit = 1600\nwindow_s = 2\n",
        "kind = 'token_bucket'\nrate_per_s = 800\nburst = 80\n",
        "kind = 'weighted_bucket'\nbase_rate_per_s = 800\nleast_weight = 1\ngreatest_weight = 1\noverdraft = 0\n",
    ] {
        let file = format!("[admission.entry]\n{kind}[store]\nmodule = 'entry'\nnodes = 2\n");
        let mut governor = governor(&file);
        assert_eq!(rate_per_s(&governor.policy().admission["entry"]), Some(800.0), "{kind}");
        governor.notice(Moment(0), Notice::NodesDown);
        let per_s = admitted(&mut governor, 0..10)[2..].iter().sum::<usize>() as f64 / 8.0;
        assert!((per_s - 500.0).abs() < 15.0, "{per_s} with {kind}");
    }
}

#[test]
fn modules_that_cannot_be_shared_are_refused() {
    for (module, allowed) in [
        ("kind = 'concurrency_gate'\nmax_at_once = 1\n", "a module of kind fixed_rate"),
        ("kind = 'token_bucket'\nplace = 'llm_call'\nrate_per_s = 1\nburst = 1\n", "at the front"),
    ] {
        let file = format!("[admission.entry]\n{module}[store]\nmodule = 'entry'\n");
        let error = Governor::new(&toml::from_str(&file).unwrap()).unwrap_err();
        assert!(error.path() == "store.module" && error.to_string().contains(allowed), "{error}");
    }
    let error =
        Governor::new(&toml::from_str(&POLICY.replace("= 'entry'", "= 'door'")).unwrap()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "store.module: found `door`, allowed: a module of admission, which has: entry"
    );
}
