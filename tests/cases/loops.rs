//! The feedback loops: C3.

use super::decide::{MS, S, governor};
use forebay_policies::{Moment, Reading, SignalKind, Signals, Ticked};
use forebay_tests::case_table::{Shown, show};

#[test]
fn c3_each_loop_runs_at_its_period() {
    // A controller on each loop, whose integral moves its parameter each time it runs.
    let loops = ["limiter", "routing", "weights"];
    let controller = |name: &&str| {
        format!(
            "[admission.{name}]\nkind = 'token_bucket'\nrate_per_s = 10\nburst = 10\n\
             [feedback.setpoints.{name}]\nsignal = 'vram'\ntarget = 1\nki = 0.001\nleast = 1\nmost = 1000\n\
             parameter = 'admission.{name}.rate_per_s'\nloop = '{name}'\n"
        )
    };
    let file = loops.iter().map(controller).collect::<String>() + "[feedback.guard]\ncooldown_s = 0\n";
    let mut governor = governor(&file);
    let period_ns = governor.tick_period_ns().expect("there are loops");
    let mut signals = Signals::default();
    let mut ticked = Ticked::default();
    let mut at: [Vec<u64>; 3] = Default::default();
    for tick in 1..=180 * S / period_ns {
        let now = Moment(tick * period_ns);
        signals.deliver(now, &Reading::new(now).with(SignalKind::Vram, 0.5));
        ticked.clear();
        governor.tick(now, &signals, &mut ticked);
        for command in &ticked.commands {
            let of = loops.iter().position(|name| command.parameter.contains(name));
            at[of.expect("one of the three")].push(now.0);
        }
    }
    assert_eq!(period_ns, 100 * MS);
    for (times, period) in at.iter().zip([100 * MS, S, 60 * S]) {
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == period), "every {period} ns");
    }
    // The first run of a controller only starts the clock of its integral.
    let counts = at.map(|times| times.len());
    assert_eq!(counts, [1799, 179, 2]);
    let [limiter, routing, weights] = counts.map(|commands| commands + 1);
    let text = format!(
        "runs in 180 s: limiter {limiter}, routing {routing}, priority weights {weights}, each at its period to the nanosecond"
    );
    show("C3", &Shown::met(text));
}
