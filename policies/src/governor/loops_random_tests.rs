//! The feedback loops under random signals, requests and losses: guards and red lines hold, and a restored
//! governor goes on as the one that was saved.

use super::tests::{Bench, MS};
use super::*;
use crate::policy::number_in;
use crate::signal::SignalKind;
use crate::{Arrival, End, Level, Next, RequestView, Ticket};
use proptest::prelude::*;
use std::fmt::Write;

const EVERY_LOOP: &str = "
    [admission.entry]
    kind = 'token_bucket'
    rate_per_s = 100
    burst = 10
    [admission.weight]
    kind = 'weighted_bucket'
    base_rate_per_s = 50
    [queue]
    kind = 'fifo'
    max_length = 20
    [fallback]
    l2.vram_above = 0.7
    l3.vram_above = 0.8
    class.s0 = { min_level = 'l2', red_line = true }
    class.s1 = { min_level = 'l1', red_line = true }
    [store]
    module = 'entry'
    nodes = 3
    sync_period_s = 0.25
    keep_last_s = 1
    [signals.vram]
    filter = { kind = 'sliding_mean', window_s = 0.5 }
    [feedback]
    presets = ['token_balance_low', 'csat_drift']
    guard = { cooldown_s = 0.7, largest_step = 1.5 }
    loops = { limiter_s = 0.1, routing_s = 0.3, weights_s = 0.5 }
    [feedback.control_center.l2]
    when = [{ signal = 'vram', above = 0.5 }, { signal = 'queue_length', below = 900 }]
    set = 'fallback.l2.vram_above'
    to = 0.1
    otherwise = 0.7
    hold_s = 0.2
    loop = 'limiter'
    [feedback.control_center.l3]
    when = [{ signal = 'vram', above = 0.3 }]
    set = 'fallback.l3.vram_above'
    to = 0.2
    otherwise = 0.8
    loop = 'weights'
    [feedback.control_center.rate]
    when = [{ signal = 'queue_length', above = 100 }]
    set = 'admission.entry.rate_per_s'
    to = 20
    [feedback.setpoints.busy]
    signal = 'vram'
    target = 0.6
    parameter = 'admission.weight.base_rate_per_s'
    kp = 20
    ki = 50
    least = 1
    most = 500
    [feedback.forecast]
    profile = [[0, 40], [3, 200], [6, 60]]
    timetable = [[0, 90]]
    lead_s = 1
    sets = { parameter = 'admission.entry.rate_per_s', least = 1, most = 500 }
";

#[derive(Clone, Copy, Debug)]
enum Deed {
    Show(SignalKind, f64),
    Tick,
    Arrive(u8),
    Next,
    Notice(Notice),
    Manual(bool),
}

fn deeds() -> impl Strategy<Value = Vec<(u64, Deed)>> {
    let signals = prop::sample::select(vec![SignalKind::Vram, SignalKind::QueueLength, SignalKind::Csat]);
    let notices = prop::sample::select(vec![
        Notice::StoreLost,
        Notice::StoreBack,
        Notice::NodesDown,
        Notice::NodesUp,
        Notice::RulesWiped,
        Notice::RulesBack,
        Notice::ForecastLost,
        Notice::ForecastBack,
    ]);
    let deed = prop_oneof![
        6 => (signals, 0.0..1.0_f64).prop_map(|(kind, share)| {
            Deed::Show(kind, if kind == SignalKind::QueueLength { 1000.0 * share } else { share })
        }),
        8 => Just(Deed::Tick),
        4 => any::<u8>().prop_map(Deed::Arrive),
        2 => Just(Deed::Next),
        1 => notices.prop_map(Deed::Notice),
        1 => any::<bool>().prop_map(Deed::Manual),
    ];
    prop::collection::vec((0..250 * MS, deed), 1..200)
}

impl Bench {
    /// Does it and says what came of it. `class_of`: the classes of those that arrived, by slot.
    fn step(&mut self, now: u64, deed: Deed, class_of: &mut Vec<u8>) -> String {
        let served = |class: u8, level: Level| {
            // The ladder asks for L4 at worst; the red lines are L2 for S0 and L1 for S1.
            assert!(
                class > 1 || level <= [Level::L2, Level::L1][usize::from(class)],
                "S{class} got {level:?}"
            );
        };
        match deed {
            Deed::Show(kind, value) => self.show(now, kind, value),
            Deed::Tick => self.tick(now),
            Deed::Notice(notice) => self.governor.notice(Moment(now), notice),
            Deed::Manual(manual) => self.governor.set_manual(manual),
            Deed::Arrive(class) => {
                let class = class % 5;
                let slot = class_of.len() as u32;
                class_of.push(class);
                let request = RequestView { class, ..RequestView::new(Ticket::of(slot, 0)) };
                let answer = self.governor.arrived(Moment(now), &request, &self.signals);
                if let Arrival::Degrade { level, .. } = answer {
                    served(class, level);
                    self.governor.left(Moment(now), request.ticket, &End::GONE);
                }
                return format!("{answer:?}");
            }
            Deed::Next => {
                let next = self.governor.next(Moment(now), &self.signals);
                if let Next::Serve(dispatch) = next {
                    served(class_of[dispatch.ticket.slot()], dispatch.level);
                    self.governor.left(Moment(now), dispatch.ticket, &End::GONE);
                }
                return format!("{next:?}");
            }
        }
        String::new()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever the signals do, a parameter is commanded at most once a cooldown, never further than the
    /// largest step, and not while automatic control is off; and no red line is passed.
    #[test]
    fn guards_and_red_lines_hold_under_any_signals(deeds in deeds()) {
        let mut bench = Bench::new(EVERY_LOOP);
        let (mut now, mut classes, mut manual) = (0, Vec::new(), false);
        for (gap, deed) in deeds {
            now += gap;
            // Only a tick gives commands; writing the policy out each time would be slow.
            let before = matches!(deed, Deed::Tick).then(|| bench.governor.policy().to_value());
            let given = bench.commands.len();
            bench.step(now, deed, &mut classes);
            if let Deed::Manual(on) = deed {
                manual = on;
            }
            prop_assert!(!manual || bench.commands.len() == given);
            for (_, command) in &bench.commands[given..] {
                let present = number_in(before.as_ref().unwrap(), &command.parameter).unwrap();
                let ratio = command.value / present;
                prop_assert!((1.0 / 2.5 - 1e-9..=2.5 + 1e-9).contains(&ratio), "{present} to {}", command.value);
            }
        }
        for parameter in bench.commands.iter().map(|(_, command)| &command.parameter) {
            let times: Vec<u64> =
                bench.commands.iter().filter(|(_, c)| c.parameter == *parameter).map(|(at, _)| *at).collect();
            prop_assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 700 * MS));
        }
    }

    #[test]
    fn a_restored_governor_with_feedback_goes_on_identically(
        deeds in deeds(), at in any::<prop::sample::Index>(),
    ) {
        let mut straight = Bench::new(EVERY_LOOP);
        let (mut now, mut classes) = (0, Vec::new());
        let cut = at.index(deeds.len());
        for &(gap, deed) in &deeds[..cut] {
            now += gap;
            straight.step(now, deed, &mut classes);
        }
        let saved = serde_json::to_string(&(&straight.governor, &straight.signals)).unwrap();
        let (governor, signals) = serde_json::from_str(&saved).unwrap();
        let mut restored = Bench { governor, signals, ..straight.clone() };
        let mut restored_classes = classes.clone();
        for &(gap, deed) in &deeds[cut..] {
            now += gap;
            prop_assert_eq!(
                straight.step(now, deed, &mut classes),
                restored.step(now, deed, &mut restored_classes)
            );
        }
        prop_assert_eq!(&straight.commands, &restored.commands);
        prop_assert_eq!(&straight.alerts, &restored.alerts);
        prop_assert_eq!(
            serde_json::to_string(&straight.governor).unwrap(),
            serde_json::to_string(&restored.governor).unwrap()
        );
    }
}

/// Without commands a tick keeps nothing: the saved state has the same length, numbers aside.
#[test]
fn ticks_without_commands_keep_nothing() {
    let mut bench = Bench::new(EVERY_LOOP);
    bench.governor.set_manual(true);
    let shape = |bench: &mut Bench, ticks: std::ops::Range<u64>| {
        for tick in ticks {
            bench.show(tick * 100 * MS, SignalKind::Vram, 0.9);
            bench.tick(tick * 100 * MS);
        }
        let mut shape = String::new();
        let saved = serde_json::to_string(&bench.governor).unwrap();
        saved.chars().filter(|c| !c.is_ascii_digit()).for_each(|c| shape.write_char(c).unwrap());
        shape.len()
    };
    let early = shape(&mut bench, 1..1000);
    let late = shape(&mut bench, 1000..20_000);
    assert!(late <= early + 16, "{early} grew to {late}");
}
