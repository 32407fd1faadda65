//! The feedback loops, the published cases among them: C1 to C4, C6, A1, A2, Q7, H3, H5, H7.

use super::*;
use crate::signal::SignalKind;
use crate::{Arrival, PolicyError, Reading, RequestView, Severity, Ticket};

pub(super) const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

const ENTRY: &str = "[admission.entry]\nkind = 'token_bucket'\nrate_per_s = 100\nburst = 10\n";
const RATE: &str = "admission.entry.rate_per_s";

/// A governor with its signals and all that its ticks brought.
#[derive(Clone)]
pub(super) struct Bench {
    pub(super) governor: Governor,
    pub(super) signals: Signals,
    pub(super) commands: Vec<(u64, Command)>,
    pub(super) alerts: Vec<crate::Alert>,
}

fn refused(file: &str) -> PolicyError {
    Governor::new(&toml::from_str(file).unwrap()).unwrap_err()
}

impl Bench {
    pub(super) fn new(file: &str) -> Self {
        let policy: Policy = toml::from_str(file).unwrap();
        Self {
            governor: Governor::new(&policy).unwrap(),
            signals: Signals::new(&policy.signals),
            commands: Vec::new(),
            alerts: Vec::new(),
        }
    }

    pub(super) fn show(&mut self, now: u64, kind: SignalKind, value: f64) {
        let taken = Moment(now);
        self.signals.deliver(taken, &Reading::new(taken).with(kind, value));
    }

    pub(super) fn tick(&mut self, now: u64) {
        let mut ticked = Ticked::default();
        self.governor.tick(Moment(now), &self.signals, &mut ticked);
        self.commands.extend(ticked.commands.into_iter().map(|command| (now, command)));
        self.alerts.extend(ticked.alerts);
    }

    /// Ticks each 100 ms in this span of milliseconds.
    fn run(&mut self, milliseconds: std::ops::Range<u64>) {
        milliseconds.step_by(100).for_each(|now| self.tick(now * MS));
    }

    /// Moments, in milliseconds, and values of the commands.
    fn given(&self) -> Vec<(u64, f64)> {
        self.commands.iter().map(|(at, command)| (at / MS, command.value)).collect()
    }

    fn rate(&self) -> f64 {
        self.governor.policy().number(RATE).unwrap()
    }
}

/// One rule: the queue above 100 sets the rate to 20, else it is 100.
fn rule(more: &str) -> String {
    format!(
        "{ENTRY}[feedback.control_center.cut]\nwhen = [{{ signal = 'queue_length', above = 100 }}]\n\
         set = '{RATE}'\nto = 20\nloop = 'limiter'\n{more}"
    )
}

#[test]
fn a_rule_sets_its_value_after_its_time_and_restores_the_other() {
    let mut bench = Bench::new(&rule("otherwise = 100\nhold_s = 2\n"));
    assert_eq!(bench.governor.tick_period_ns(), Some(100 * MS));
    bench.show(0, SignalKind::QueueLength, 50.0);
    bench.run(100..1000);
    bench.show(S, SignalKind::QueueLength, 101.0);
    bench.run(1000..20_000);
    assert_eq!((bench.given(), bench.rate()), (vec![(3000, 20.0)], 20.0));
    bench.show(20 * S, SignalKind::QueueLength, 100.0);
    bench.run(20_000..40_000);
    assert_eq!(bench.given(), [(3000, 20.0), (20_000, 100.0)]);
    assert_eq!(bench.commands[0].1.parameter, RATE);
    let whys: Vec<Reason> = bench.commands.iter().map(|(_, command)| command.why).collect();
    assert_eq!(whys, [Reason::ControlRule, Reason::ControlRelease]);
    let words = bench.governor.explain(Reason::ControlRule).unwrap().to_string();
    assert!(
        words.contains("feedback.control_center.cut") && words.ends_with("101; threshold: 100"),
        "{words}"
    );
}

#[test]
fn a_command_is_in_force_when_it_is_reported() {
    let mut bench = Bench::new(&rule(""));
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.tick(100 * MS);
    let admitted = |bench: &mut Bench, now: u64| {
        (0..200)
            .filter(|&slot| {
                let request = RequestView::new(Ticket::of(slot, now as u32));
                bench.governor.arrived(Moment(now), &request, &bench.signals) == Arrival::Admit
            })
            .count()
    };
    // The burst of 10, then 20 a second.
    assert_eq!([admitted(&mut bench, 100 * MS), admitted(&mut bench, 350 * MS)], [10, 5]);
}

#[test]
fn c1_and_c2_as_published() {
    let file = "[queue]\nkind = 'semantic'\n[feedback]\npresets = ['c1', 'c2']\n";
    let given = |signals: [(SignalKind, f64); 3]| {
        let mut bench = Bench::new(file);
        for (kind, value) in signals {
            bench.show(0, kind, value);
        }
        bench.run(100..5000);
        let given = bench.commands.iter().map(|(_, command)| (command.parameter.clone(), command.value));
        given.collect::<Vec<_>>()
    };
    let signals =
        |vram, high, l3| [(SignalKind::Vram, vram), (SignalKind::QueueHigh, high), (SignalKind::L3Share, l3)];
    assert_eq!(given(signals(0.951, 49.0, 0.05)), [("queue.l1_score_at_least".to_owned(), 0.7)]);
    assert_eq!(given(signals(0.99, 201.0, 0.099)), [("queue.weights.degraded".to_owned(), 0.6)]);
    for nothing in [(0.95, 49.0, 0.0), (0.99, 50.0, 0.0), (0.5, 200.0, 0.0), (0.5, 500.0, 0.1)] {
        assert_eq!(given(signals(nothing.0, nothing.1, nothing.2)), []);
    }
}

#[test]
fn c3_each_loop_runs_at_its_period() {
    for (name, period_s) in [("limiter", 0.1), ("routing", 1.0), ("weights", 60.0)] {
        let file = rule("otherwise = 100\n").replace("'limiter'", &format!("'{name}'"));
        let mut bench = Bench::new(&format!("{file}[feedback.guard]\ncooldown_s = 0\n"));
        assert_eq!(bench.governor.tick_period_ns(), Some(nanos(period_s)));
        for tick in 1..=1800 {
            bench.show(tick * 100 * MS, SignalKind::QueueLength, if tick % 2 == 1 { 500.0 } else { 0.0 });
            bench.tick(tick * 100 * MS);
        }
        // On even ticks the rule sees an empty queue: only the fastest loop sees the odd ones.
        let expected = if name == "limiter" { 1800 } else { 0 };
        assert_eq!(bench.commands.len(), expected, "{name}");
        bench.show(181 * S, SignalKind::QueueLength, 500.0);
        (1810..2500).for_each(|tick| bench.tick(tick * 100 * MS));
        let (at, _) = bench.commands.last().unwrap();
        assert_eq!(at % nanos(period_s), 0, "{name} at {at}");
        assert!(at - 181 * S < nanos(period_s));
    }
}

#[test]
fn a_shortened_period_is_in_force_at_once() {
    let mut bench = Bench::new(&rule("").replace("'limiter'", "'weights'"));
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.run(0..1000);
    bench.governor.set(Moment(S), "feedback.loops.weights_s", 2.0).unwrap();
    assert_eq!(bench.governor.tick_period_ns(), Some(2 * S));
    bench.run(1000..5000);
    assert_eq!(bench.given(), [(2000, 20.0)]);
}

#[test]
fn c4_the_cooldown_holds_back_and_counts_once() {
    let mut bench = Bench::new(&rule("otherwise = 100\n"));
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.run(100..1000);
    bench.show(S, SignalKind::QueueLength, 0.0);
    bench.run(1000..30_000);
    assert_eq!(bench.given(), [(100, 20.0), (10_100, 100.0)]);
    assert_eq!(bench.governor.suppressed(), Suppressed { cooldown: 1, ..Suppressed::default() });
    let held = bench.governor.explain(Reason::ControlCooldown).unwrap();
    assert_eq!((held.module.as_str(), held.threshold), ("feedback.control_center.cut", 10.0));
}

#[test]
fn c4_signals_are_means_over_thirty_seconds() {
    let mean = "[signals.queue_length]\nfilter = { kind = 'sliding_mean', window_s = 30 }\n";
    let mut bench = Bench::new(&rule(mean));
    // A step from 0 to 150 at 40 s: its mean over 30 s passes 100 after 20 s.
    for tick in 1..=700 {
        let now = tick * 100 * MS;
        bench.show(now, SignalKind::QueueLength, if now < 40 * S { 0.0 } else { 150.0 });
        bench.tick(now);
    }
    assert_eq!(bench.given(), [(60_000, 20.0)]);
}

#[test]
fn c4_the_manual_switch_works_at_any_time() {
    let mut bench = Bench::new(&rule("otherwise = 100\n"));
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.governor.set_manual(true);
    bench.run(100..5000);
    assert_eq!((bench.given(), bench.governor.suppressed().manual), (vec![], 1));
    bench.governor.set(Moment(5 * S), RATE, 60.0).unwrap();
    bench.governor.set_manual(false);
    bench.run(5000..6000);
    assert_eq!(bench.given(), [(5000, 20.0)]);
    bench.governor.set_manual(true);
    bench.show(20 * S, SignalKind::QueueLength, 0.0);
    bench.run(20_000..30_000);
    assert_eq!((bench.commands.len(), bench.rate()), (1, 20.0));
    let file = format!("[feedback]\nmanual = true\n{}", rule(""));
    let mut bench = Bench::new(&file);
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.run(100..5000);
    assert_eq!(bench.given(), []);
}

#[test]
fn h3_a_step_is_cut_to_the_largest() {
    let guard = "[feedback.guard]\ncooldown_s = 30\nlargest_step = 2.0\n";
    let file = rule("").replace("to = 20", "to = 1200");
    let mut bench = Bench::new(&format!("{file}{guard}"));
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.run(100..200_000);
    // 100 to 300 is +200 %; to 400 would be +300 %.
    assert_eq!(bench.given(), [(100, 300.0), (30_100, 900.0), (60_100, 1200.0)]);
    assert_eq!(bench.governor.suppressed().step, 1);
    let cut = bench.governor.explain(Reason::ControlStep).unwrap();
    assert_eq!((cut.found, cut.threshold), (1200.0, 900.0));
}

#[test]
fn an_earlier_rule_keeps_later_ones_and_controllers_off() {
    let more = format!(
        "otherwise = 100\n[feedback.control_center.other]\nwhen = [{{ signal = 'vram', above = 0.9 }}]\n\
         set = '{RATE}'\nto = 50\nloop = 'limiter'\n\
         [feedback.setpoints.busy]\nsignal = 'llm_busy'\ntarget = 0.8\nparameter = '{RATE}'\nki = 10\n\
         least = 1\nmost = 500\n[feedback.guard]\ncooldown_s = 1\n"
    );
    let mut bench = Bench::new(&rule(&more));
    for (kind, value) in
        [(SignalKind::QueueLength, 500.0), (SignalKind::Vram, 0.95), (SignalKind::LlmBusy, 0.1)]
    {
        bench.show(0, kind, value);
    }
    bench.run(100..10_000);
    assert_eq!(bench.given(), [(100, 20.0)]);
    // The first lets go: the second takes over at once, and nothing is restored under it.
    bench.show(10 * S, SignalKind::QueueLength, 0.0);
    bench.run(10_000..20_000);
    assert_eq!(bench.given(), [(100, 20.0), (10_000, 50.0)]);
    // Nobody holds it any more: the first restores its value, and the controller starts from there.
    bench.show(20 * S, SignalKind::Vram, 0.5);
    bench.run(20_000..23_000);
    assert_eq!(bench.given()[2..], [(20_000, 100.0), (22_000, 107.0)]);
    assert_eq!(bench.commands[3].1.why, Reason::ControlSetpoint);
    assert_eq!(bench.governor.explain(Reason::ControlSetpoint).unwrap().module, "feedback.setpoints.busy");
}

#[test]
fn whole_numbers_are_rounded_and_refused_values_counted() {
    let file = "[admission.llm]\nkind = 'concurrency_gate'\nplace = 'llm_call'\nmax_at_once = 4\n\
                [fallback]\nl2.vram_above = 0.9\nl2.vram_below = 0.8\n\
                [feedback.setpoints.busy]\nsignal = 'llm_busy'\ntarget = 0.8\n\
                parameter = 'admission.llm.max_at_once'\nki = 0.26\nleast = 1\nmost = 9\n\
                [feedback.control_center.early]\nwhen = [{ signal = 'queue_length', above = 1 }]\n\
                set = 'fallback.l2.vram_above'\nto = 0.82\n";
    let mut bench = Bench::new(file);
    bench.show(0, SignalKind::LlmBusy, 0.3);
    bench.run(100..31_000);
    // 0.13 a second from the first second on: 4.52 at 5 s, 5.82 at 15 s, 7.12 at 25 s.
    assert_eq!(bench.given(), [(5000, 5.0), (15_000, 6.0), (25_000, 7.0)]);
    // The rule's value stands below the clearing threshold by now.
    bench.governor.set(Moment(31 * S), "fallback.l2.vram_below", 0.85).unwrap();
    bench.governor.set_manual(false);
    bench.show(31 * S, SignalKind::QueueLength, 5.0);
    bench.show(31 * S, SignalKind::LlmBusy, 0.8);
    bench.run(31_000..60_000);
    assert_eq!(bench.governor.suppressed(), Suppressed { refused: 1, ..Suppressed::default() });
    assert_eq!(bench.governor.policy().fallback.l2.vram_above, Some(0.9));
}

#[test]
fn wrong_rules_are_refused_with_what_is_there() {
    let error = refused(&rule("").replace(RATE, "admission.entry.rate")).to_string();
    let wanted = "feedback.control_center.cut.set: found `admission.entry.rate`, allowed: the path of a number \
                  of this policy: in admission.entry there is kind, place, key, rate_per_s, burst";
    assert_eq!(error, wanted);
    for (from, to, path) in [
        ("to = 20", "to = -1", "feedback.control_center.cut.to"),
        ("to = 20", "to = 20\notherwise = -1", "feedback.control_center.cut.otherwise"),
        (RATE, "feedback.guard.cooldown_s", "feedback.control_center.cut.set"),
        (RATE, "signals.vram.filter", "feedback.control_center.cut.set"),
        (RATE, "admission.entry.kind", "feedback.control_center.cut.set"),
        (RATE, "admission.entry", "feedback.control_center.cut.set"),
        (", above = 100", "", "feedback.control_center.cut.when.0"),
        (", above = 100", ", above = 2e9", "feedback.control_center.cut.when.0.above"),
    ] {
        assert_eq!(refused(&rule("").replace(from, to)).path(), path, "{to}");
    }
    let setpoint = format!(
        "[feedback.setpoints.a]\nsignal = 'vram'\ntarget = 0.8\nparameter = '{RATE}'\nkp = 1\nleast = 1\nmost = 9\n"
    );
    let twice = format!("{ENTRY}{setpoint}{}", setpoint.replace(".a]", ".b]"));
    assert_eq!(refused(&twice).path(), "feedback.setpoints.b.parameter");
    let error = refused("[feedback]\npresets = ['queue_high', 'c1']\n").to_string();
    assert!(error.starts_with("feedback.presets.1.set: found `queue.l1_score_at_least`"), "{error}");
}

#[test]
fn numbers_of_the_feedback_itself_can_be_set() {
    let mut bench = Bench::new(&rule(""));
    bench.governor.set(Moment(0), "feedback.control_center.cut.to", 30.0).unwrap();
    bench.governor.set(Moment(0), "feedback.guard.cooldown_s", 1.0).unwrap();
    let error = bench.governor.set(Moment(0), "feedback.control_center.cut.to", -3.0).unwrap_err();
    assert_eq!(error.path(), "feedback.control_center.cut.to");
    bench.show(0, SignalKind::QueueLength, 500.0);
    bench.run(100..1000);
    assert_eq!(bench.given(), [(100, 30.0)]);
    bench.governor.set(Moment(S), RATE, 99.0).unwrap();
    bench.run(1000..3000);
    assert_eq!(bench.given(), [(100, 30.0), (1100, 30.0)]);
}

#[test]
fn a1_and_q7_the_published_alerts() {
    let names = [
        "token_balance_low",
        "queue_high_long",
        "l3_share_high",
        "csat_low",
        "queue_high",
        "queue_standard",
        "queue_degraded",
    ];
    let mut bench = Bench::new(&format!("[feedback]\npresets = {names:?}\n"));
    assert_eq!(bench.governor.tick_period_ns(), Some(S));
    let bad = [
        (SignalKind::TokenBalance, 0.09),
        (SignalKind::QueueHigh, 101.0),
        (SignalKind::L3Share, 0.31),
        (SignalKind::Csat, 0.84),
        (SignalKind::QueueStandard, 501.0),
        (SignalKind::QueueDegraded, 51.0),
    ];
    for (kind, value) in bad {
        bench.show(0, kind, value);
    }
    (1..4000).for_each(|second| bench.tick(second * S));
    let rules = bench.governor.policy().feedback.alert_rules();
    let mut raised: Vec<(&str, u64, Severity)> = bench
        .alerts
        .iter()
        .map(|alert| (rules[usize::from(alert.rule)].0.as_str(), alert.at.0 / S - 1, alert.severity))
        .collect();
    raised.sort_by_key(|&(name, at, _)| (at, name));
    let expected = [
        ("queue_degraded", 0, Severity::P2),
        ("queue_high", 0, Severity::P1),
        ("queue_standard", 0, Severity::P2),
        ("token_balance_low", 30, Severity::P0),
        ("queue_high_long", 60, Severity::P1),
        ("l3_share_high", 300, Severity::P2),
        ("csat_low", 3600, Severity::P1),
    ];
    assert_eq!(raised, expected);
    // At the thresholds themselves nothing is wrong.
    let mut bench = Bench::new(&format!("[feedback]\npresets = {names:?}\n"));
    let fair = [0.1, 100.0, 0.3, 0.85, 500.0, 50.0];
    for ((kind, _), value) in bad.into_iter().zip(fair) {
        bench.show(0, kind, value);
    }
    (1..4000).for_each(|second| bench.tick(second * S));
    assert_eq!(bench.alerts, []);
}

#[test]
fn a2_satisfaction_drifts_after_a_change() {
    let mut bench = Bench::new(&format!("{ENTRY}[feedback]\npresets = ['csat_drift']\n"));
    let mut second = 0;
    let mut go = |bench: &mut Bench, seconds: u64, csat: f64| {
        for _ in 0..seconds {
            second += 1;
            bench.show(second * S, SignalKind::Csat, csat);
            bench.tick(second * S);
        }
        second
    };
    let changed = go(&mut bench, 4000, 0.9);
    bench.governor.set(Moment(changed * S), RATE, 50.0).unwrap();
    go(&mut bench, 600, 0.86);
    assert_eq!(bench.alerts, []);
    go(&mut bench, 600, 0.85);
    assert_eq!(bench.alerts.len(), 1);
    assert!((bench.alerts[0].threshold - 0.855).abs() < 1e-9);
    assert_eq!((bench.alerts[0].found, bench.alerts[0].severity), (0.85, Severity::P1));
}

const FORECAST: &str = "[feedback.forecast]\nprofile = [[0, 40], [600, 200], [1200, 60]]\ncourse = 'steps'\nlead_s = 60\n\
                        timetable = [[0, 70], [500, 150], [1300, 80]]\n\
                        sets = { parameter = 'admission.entry.rate_per_s', per_rate = 1.5, least = 1, most = 1000 }\n";

#[test]
fn h5_the_rate_is_raised_ahead_of_the_peak() {
    let mut bench = Bench::new(&format!("{ENTRY}{FORECAST}"));
    assert_eq!(bench.governor.forecast(Moment(700 * S)), Some(200.0));
    bench.run(100..1_500_000);
    assert_eq!(bench.given(), [(1000, 60.0), (540_000, 300.0), (1_200_000, 90.0)]);
    assert_eq!(bench.governor.fallback_uses(), FallbackUses::default());
}

#[test]
fn h7_a_lost_forecast_leaves_the_timetable() {
    let mut bench = Bench::new(&format!("{ENTRY}{FORECAST}"));
    bench.run(100..100_000);
    bench.governor.notice(Moment(100 * S), Notice::ForecastLost);
    assert_eq!(bench.governor.forecast(Moment(700 * S)), None);
    bench.run(100_000..600_000);
    bench.governor.notice(Moment(600 * S), Notice::ForecastBack);
    bench.run(600_000..700_000);
    assert_eq!(bench.given(), [(1000, 60.0), (100_000, 70.0), (500_000, 150.0), (600_000, 300.0)]);
    assert_eq!(bench.commands[1].1.why, Reason::ControlTimetable);
    assert_eq!(
        bench.governor.fallback_uses(),
        FallbackUses { forecast_lost: 500, ..FallbackUses::default() }
    );
}

/// A plant for case C6: who is turned away comes back 5 s later, and the load is measured 1 s late. A
/// surge of a minute asks for 1.3 times what can be served, then it is 0.8 times. While the rate is cut, 30 %
/// are turned away. Returns the commands, and how far the load still swings in the last two minutes.
fn people_who_come_back(more: &str) -> (usize, f64) {
    let file = rule("otherwise = 100\n").replace("'queue_length', above = 100", "'llm_busy', above = 0.95");
    let mut bench = Bench::new(&format!("{file}{more}"));
    let (mut turned, mut served) = (Vec::new(), Vec::new());
    for tick in 0..4200_usize {
        let now = tick as u64 * 100 * MS;
        let asks = if (200..800).contains(&tick) { 1.3 } else { 0.8 };
        let load = asks + if tick >= 50 { turned[tick - 50] } else { 0.0 };
        turned.push(if bench.rate() < 100.0 { 0.3 * load } else { 0.0 });
        served.push(load - turned[tick]);
        if tick >= 10 {
            let taken = Moment(now - S);
            bench
                .signals
                .deliver(Moment(now), &Reading::new(taken).with(SignalKind::LlmBusy, served[tick - 10]));
        }
        bench.tick(now);
    }
    let (low, high) = served[3000..]
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), &load| (low.min(load), high.max(load)));
    (bench.commands.len(), high - low)
}

#[test]
fn c6_raw_signals_without_cooldown_oscillate_and_filter_with_cooldown_does_not() {
    let no_cooldown = "[feedback.guard]\ncooldown_s = 0\n";
    let mean = "[signals.llm_busy]\nfilter = { kind = 'sliding_mean', window_s = 30 }\n";
    let (commands, swing) = people_who_come_back(no_cooldown);
    assert!(commands > 300 && swing > 0.4, "raw: {commands} commands, a swing of {swing}");
    let (commands, swing) = people_who_come_back(mean);
    assert!(commands <= 2 && swing < 1e-9, "filtered: {commands} commands, a swing of {swing}");
}
