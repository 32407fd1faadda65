//! Loops that move parameters by themselves, the forecast, filters and alerts.

use super::admission::{GATE_AT_ONCE, SIGNALS, queue_is_semantic};
use super::{Dice, Draft, Feature};

/// A parameter that loops may move, and between which values.
type Parameter = (&'static str, f64, f64);

pub(super) fn write(draft: &mut Draft<'_>) {
    if let Some(mut dice) = draft.on(Feature::Filters) {
        draft.table("signals");
        for (signal, _) in SIGNALS {
            let filter = dice.pick(&[
                "{ kind = \"none\" }",
                "{ kind = \"sliding_mean\", window_s = 1 }",
                "{ kind = \"exponential_mean\", time_constant_s = 0.5 }",
                "{ kind = \"median\", window_s = 2 }",
            ]);
            draft.line(format!("{signal}.filter = {filter}"));
        }
    }
    frame(draft);
    let parameters = parameters(draft);
    // The forecast and the controller each own a parameter; a rule may set any.
    let first = draft.dice("owners").roll(parameters.len() as u64) as usize;
    let of = |k: usize| parameters[(first + k) % parameters.len()];
    rule(draft, of(2));
    setpoint(draft, of(0));
    forecast(draft, of(1));
    alerts(draft);
}

/// The numbers of this policy that loops may move.
fn parameters(draft: &Draft<'_>) -> Vec<Parameter> {
    let most = f64::from(GATE_AT_ONCE);
    let mut all = vec![
        ("fallback.least_dwell_s", 0.0, 3.0),
        ("fallback.l2.llm_timeouts_above", 0.0, 20.0),
        ("fallback.l3.arrivals_above_per_s", 9.0, 50.0),
    ];
    for (feature, parameter) in [
        (Feature::FixedRate, ("admission.fixed_rate.limit", 0.0, 20.0)),
        (Feature::TokenBucket, ("admission.token_bucket.rate_per_s", 0.0, 30.0)),
        (Feature::WeightedBucket, ("admission.weighted_bucket.base_rate_per_s", 1.0, 50.0)),
        (Feature::ConcurrencyGate, ("admission.gate.max_at_once", 1.0, most)),
        (Feature::AdaptiveConcurrency, ("admission.adaptive.initial", 1.0, most)),
        (Feature::BacklogGate, ("admission.backlog.below", 0.0, 20.0)),
        (Feature::TokenWindow, ("admission.token_window.quota", 100.0, 9000.0)),
        (Feature::UserFrequency, ("admission.user_frequency.limit", 1.0, 9.0)),
        (Feature::PriorityBuckets, ("admission.priority_buckets.rate_per_s", 1.0, 60.0)),
        (Feature::Paced, ("admission.paced.rate_per_s", 1.0, 60.0)),
        (Feature::EarlyRejection, ("admission.early.decode_at_once", 1.0, 9.0)),
        (Feature::LoadShed, ("admission.load_shed.from", 0.0, 0.01)),
        (Feature::Queue, ("queue.max_length", 0.0, 30.0)),
        (Feature::RerankGuard, ("fallback.rerank.max_at_once", 1.0, 6.0)),
        (Feature::FailOver, ("fallback.providers.cooldown_s", 0.0, 5.0)),
    ] {
        if draft.has(feature) {
            all.push(parameter);
        }
    }
    all
}

fn frame(draft: &mut Draft<'_>) {
    let all = [Feature::Guard, Feature::Manual, Feature::Presets];
    if !all.into_iter().any(|feature| draft.has(feature)) {
        return;
    }
    draft.table("feedback");
    draft.line("loops = { limiter_s = 0.1, routing_s = 0.5, weights_s = 2 }");
    if let Some(mut dice) = draft.on(Feature::Guard) {
        let (cooldown, step) = (dice.pick(&["0", "0.3", "4"]), dice.pick(&["", ", largest_step = 0.2"]));
        draft.line(format!("guard = {{ cooldown_s = {cooldown}{step} }}"));
    }
    if draft.has(Feature::Manual) {
        draft.line("manual = true");
    }
    if draft.has(Feature::Presets) {
        let rules = if queue_is_semantic(draft) { "\"c1\", \"c2\", " } else { "" };
        draft.line(format!(
            "presets = [{rules}\"token_balance_low\", \"queue_high_long\", \"l3_share_high\", \"csat_low\", \
             \"csat_drift\", \"queue_high\", \"queue_standard\", \"queue_degraded\"]"
        ));
    }
}

fn on_loop(dice: &mut Dice) -> String {
    dice.option("loop", &["\"limiter\"", "\"weights\""])
}

fn rule(draft: &mut Draft<'_>, (parameter, least, most): Parameter) {
    let Some(mut dice) = draft.on(Feature::ControlCenter) else { return };
    let ((first, above), (second, below)) = (dice.pick(&SIGNALS), dice.pick(&SIGNALS));
    let second = if dice.coin() {
        format!(", {{ signal = \"{second}\", below = {:?} }}", below * 4.0)
    } else {
        String::new()
    };
    let hold = dice.option("hold_s", &["0.6"]);
    let otherwise = dice.option("otherwise", &[&format!("{most:?}")]);
    let on = on_loop(&mut dice);
    draft.table("feedback.control_center.busy");
    draft.line(format!(
        "when = [{{ signal = \"{first}\", above = {above:?} }}{second}]\nset = \"{parameter}\"\nto = {least:?}\n\
         {otherwise}{hold}{on}"
    ));
}

fn setpoint(draft: &mut Draft<'_>, (parameter, least, most): Parameter) {
    let Some(mut dice) = draft.on(Feature::Setpoint) else { return };
    let (signal, target) = dice.pick(&SIGNALS);
    let gain = dice.pick(&["kp = 2", "ki = -0.5", "kp = -3\nki = -1"]);
    let more = dice.option("anti_windup", &["false"]) + &on_loop(&mut dice);
    draft.table("feedback.setpoints.held");
    draft.line(format!(
        "signal = \"{signal}\"\ntarget = {target:?}\nparameter = \"{parameter}\"\nleast = {least:?}\n\
         most = {most:?}\n{gain}\n{more}"
    ));
}

fn forecast(draft: &mut Draft<'_>, (parameter, least, most): Parameter) {
    let Some(mut dice) = draft.on(Feature::Forecast) else { return };
    let more = dice.option("course", &["\"steps\""])
        + &dice.option("lead_s", &["2"])
        + &dice.option("spread", &["0.5"])
        + &dice.option("start_s", &["86395"])
        + &dice.option("weekday_factors", &["[1, 0, 2, 1, 1, 3, 1]"])
        + &dice.option("holidays", &["[0]", "[1]"])
        + &dice.option("pay_days", &["[0, 1]"])
        + &dice.option("holiday_factor", &["0", "3"]);
    draft.table("feedback.forecast");
    draft.line(format!("profile = [[0, 5], [6, 30], [10, 3], [86397, 40]]\n{more}"));
    if let Some(mut dice) = draft.on(Feature::ForecastSets) {
        draft.line(dice.option("timetable", &[&format!("[[0, {least:?}], [8, {most:?}]]")]));
        let more = dice.option("follow", &["\"high\""])
            + &dice.option("per_rate", &["0.1", "-1"])
            + &on_loop(&mut dice);
        draft.table("feedback.forecast.sets");
        draft.line(format!("parameter = \"{parameter}\"\nleast = {least:?}\nmost = {most:?}\n{more}"));
    }
}

fn alerts(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::Alerts) else { return };
    for name in ["first", "second"] {
        let (signal, value) = dice.pick(&SIGNALS);
        let condition = dice.pick(&["above = ", "below = ", "baseline_s = 2\nfrom_baseline = 0.2 # "]);
        let more = dice.option("for_s", &["0.6", "3"])
            + &dice.option("cause", &["\"top_unmatched\""])
            + &on_loop(&mut dice);
        draft.table(&format!("feedback.alerts.{name}"));
        draft.line(format!("signal = \"{signal}\"\nseverity = \"p1\"\n{condition}{value:?}\n{more}"));
    }
}
