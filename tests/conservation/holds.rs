//! What must hold of every run, as far as its result shows it.

use forebay_model::outcome::Ledger;
use forebay_model::scenario::Scenario;
use forebay_model::{Metrics, Replication};
use forebay_policies::admission::Admission;

/// What must hold of a run whose draining takes as long as it likes.
pub(crate) fn holds(scenario: &Scenario, run: &Replication) -> Result<(), String> {
    if !run.violations.is_empty() {
        return Err(format!("violations: {:?}", run.violations));
    }
    let ledger = &run.ledger;
    demand(ledger.accounted() == ledger.offered, || format!("the ledger does not add up: {ledger:?}"))?;
    // Arrivals are over and the draining takes as long as it likes: nobody is left.
    demand(ledger.in_flight_at_end == 0, || format!("{} requests never end", ledger.in_flight_at_end))?;
    timeline(run)?;
    let breakdowns = run.by.values().flat_map(|keys| keys.values());
    for metrics in std::iter::once(&run.metrics).chain(breakdowns) {
        sane(metrics).and_then(|()| ordered(metrics)).map_err(|why| format!("{why} in {metrics:#?}"))?;
    }
    groups(run)?;
    money(run)?;
    bounds(scenario, run)?;
    beside(scenario, run)
}

fn demand(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

fn value(metrics: &Metrics, name: &str) -> Option<f64> {
    metrics.get(name).and_then(|metric| metric.value)
}

/// The steps of the timeline add up to the ledger, and those in the system are those who came and have not
/// left.
fn timeline(run: &Replication) -> Result<(), String> {
    let mut sum = Ledger::default();
    let (mut levels, mut rejected, mut lost, mut last_s) = ([0; 4], 0, 0, 0.0);
    for point in &run.timeline {
        sum.offered += point.offered;
        sum.answered.cache += point.cached;
        levels.iter_mut().zip(point.answered).for_each(|(level, n)| *level += n);
        (rejected, lost) = (rejected + point.rejected, lost + point.lost);
        let left = levels.iter().sum::<u64>() + sum.answered.cache + rejected + lost;
        demand(left + point.in_system == sum.offered, || {
            format!("{} came and {left} left until {point:?}", sum.offered)
        })?;
        demand(point.t_s > last_s, || format!("{} s follows {last_s} s", point.t_s))?;
        last_s = point.t_s;
        for share in [point.vram, point.kv].into_iter().flatten() {
            demand((-1e-9..=1.0 + 1e-9).contains(&share), || format!("a share of memory in {point:?}"))?;
        }
    }
    let ledger = &run.ledger;
    let answered = ledger.answered;
    let turned_away: u64 = ledger.rejected.values().sum();
    let broken = ledger.timed_out + ledger.abandoned + ledger.failed.values().sum::<u64>();
    let found = (sum.offered, levels, sum.answered.cache, rejected, lost);
    let counted = (
        ledger.offered,
        [answered.l1, answered.l2, answered.l3, answered.l4],
        answered.cache,
        turned_away,
        broken,
    );
    demand(found == counted, || format!("the timeline knows of {found:?}, the ledger of {counted:?}"))
}

/// No metric is what cannot be: a share outside 0..=1, a negative time, none without a reason.
fn sane(metrics: &Metrics) -> Result<(), String> {
    for (name, metric) in metrics {
        let Some(value) = metric.value else {
            demand(metric.reason.is_some(), || format!("{name} has neither a value nor a reason"))?;
            continue;
        };
        // A bias is on either side.
        let least = if name == "wait_notice_bias_s" { f64::NEG_INFINITY } else { -1e-9 };
        let share = ["share", "rate", "utilisation", "kv_", "fairness", "csat", "vram_"];
        let share = share.iter().any(|part| name.contains(part));
        // Memory and time averages are sums of fractions: they may end a rounding error off.
        let most = if share { 1.0 + 1e-9 } else { f64::INFINITY };
        demand((least..=most).contains(&value) && value.is_finite(), || format!("{name} = {value}"))?;
    }
    Ok(())
}

/// What is part of something is not more than it, and what is rarer is not less.
fn ordered(metrics: &Metrics) -> Result<(), String> {
    // Histograms keep two digits where they are many.
    let digits = 1.02;
    let mut pairs = vec![
        ("goodput_per_s".to_owned(), "throughput_per_s".to_owned(), 1.0),
        ("ttft_mean_s".to_owned(), "latency_mean_s".to_owned(), digits),
        ("queue_mean".to_owned(), "queue_max".to_owned(), 1.0),
        ("replicas_mean".to_owned(), "replicas_max".to_owned(), 1.0),
        ("vram_mean".to_owned(), "vram_max".to_owned(), 1.0),
        ("kv_mean".to_owned(), "kv_max".to_owned(), 1.0),
    ];
    for spread in ["latency", "ttft", "wait", "agent_wait"] {
        let names = ["p50", "p90", "p95", "p99", "p999", "max"].map(|part| format!("{spread}_{part}_s"));
        pairs.extend(names.windows(2).map(|two| (two[0].clone(), two[1].clone(), 1.0)));
        pairs.push((format!("{spread}_mean_s"), format!("{spread}_max_s"), digits));
    }
    for (part, whole, slack) in pairs {
        if let (Some(part_is), Some(whole_is)) = (value(metrics, &part), value(metrics, &whole)) {
            demand(part_is <= whole_is * slack + 1e-9, || {
                format!("{part} = {part_is} is above {whole} = {whole_is}")
            })?;
        }
    }
    let bias = value(metrics, "wait_notice_bias_s").map_or(0.0, f64::abs);
    let error = value(metrics, "wait_notice_error_s").unwrap_or(f64::INFINITY);
    demand(bias <= error + 1e-9, || format!("a mean error of {error} with a bias of {bias}"))
}

/// Every request is of one class, one tier, one endpoint and one tenant; levels and the cache share the
/// answers.
fn groups(run: &Replication) -> Result<(), String> {
    let sums = |dimension: &str| {
        let keys = run.by.get(dimension).into_iter().flat_map(|keys| keys.values());
        keys.fold((0.0, 0.0, 0.0), |(ended, errors, answered_per_s), metrics| {
            let n = value(metrics, "requests").unwrap_or(0.0);
            let wrong = n * value(metrics, "error_rate").unwrap_or(0.0);
            let rate = value(metrics, "throughput_per_s").unwrap_or(0.0);
            (ended + n, errors + wrong, answered_per_s + rate)
        })
    };
    let (ended, errors, rate) = sums("class");
    for dimension in ["tier", "endpoint", "tenant"] {
        let other = sums(dimension);
        demand(near(other.0, ended) && near(other.1, errors) && near(other.2, rate), || {
            format!("by {dimension} {other:?}, by class {:?}", (ended, errors, rate))
        })?;
    }
    let total = value(&run.metrics, "error_rate").unwrap_or(0.0) * ended;
    demand(near(total, errors), || format!("{total} errors in all, by class {errors}"))?;
    let total = value(&run.metrics, "throughput_per_s").unwrap_or(0.0);
    demand(near(total, rate), || format!("{total} answers per second in all, by class {rate}"))?;
    let answered: f64 = ["share_l1", "share_l2", "share_l3", "share_l4"]
        .iter()
        .filter_map(|name| value(&run.metrics, name))
        .sum();
    let cached = run.ledger.answered.cache > 0;
    let whole = ended == errors || near(answered, 1.0) || (cached && answered <= 1.0 + 1e-9);
    demand(whole, || format!("the levels share {answered} of the answers"))
}

/// Costs are the sum of their parts; value and satisfaction are those of the classes together.
fn money(run: &Replication) -> Result<(), String> {
    let of = |name: &str| value(&run.metrics, name);
    if let Some(cost) = of("cost") {
        let parts = ["cost_tokens", "cost_agents", "cost_gpus", "cost_providers"];
        let sum: f64 = parts.iter().filter_map(|part| of(part)).sum();
        demand(near(cost, sum), || format!("a cost of {cost}, its parts {sum}"))?;
    }
    let stages = run.by.get("stage");
    if let Some(cost) = of("cost_providers") {
        let parts = stages.into_iter().flat_map(|stages| stages.values());
        let sum: f64 = parts.filter_map(|metrics| value(metrics, "cost")).sum();
        demand(near(cost, sum), || format!("providers cost {cost}, each by itself {sum}"))?;
    }
    for dimension in ["class", "tier"] {
        let Some(keys) = run.by.get(dimension) else { continue };
        let sum: f64 = keys.values().filter_map(|metrics| value(metrics, "value")).sum();
        let all = of("value").unwrap_or(0.0);
        demand(near(all, sum), || format!("a value of {all}, by {dimension} {sum}"))?;
        let ended: f64 = keys.values().filter_map(|metrics| value(metrics, "requests")).sum();
        let weighed = |metrics| Some(value(metrics, "csat")? * value(metrics, "requests")?);
        let sum: f64 = keys.values().filter_map(weighed).sum();
        let all = of("csat").unwrap_or(0.0) * ended;
        demand(near(all, sum), || format!("a satisfaction of {all}, by {dimension} {sum}"))?;
    }
    Ok(())
}

/// Nobody takes more than there is: permits, slots, replicas, calls of providers.
fn bounds(scenario: &Scenario, run: &Replication) -> Result<(), String> {
    for (name, module) in &scenario.policy.admission {
        let most = match module {
            Admission::ConcurrencyGate(gate) => gate.max_at_once,
            Admission::AdaptiveConcurrency(gate) => gate.most,
            _ => continue,
        };
        let gate = run.by.get("gate").and_then(|gates| gates.get(name));
        let inside = gate.and_then(|metrics| value(metrics, "inside_max"));
        demand(inside.is_some_and(|inside| inside <= f64::from(most)), || {
            format!("{inside:?} inside gate {name} at once, of {most}")
        })?;
    }
    let Some(stages) = run.by.get("stage") else { return Ok(()) };
    if let (Some(slots), Some(executor)) = (scenario.gateway.executor_slots, stages.get("executor")) {
        let busy = value(executor, "busy_mean").unwrap_or(0.0);
        demand(busy <= f64::from(slots) + 1e-9, || format!("{busy} of {slots} slots are busy"))?;
    }
    for (name, metrics) in stages {
        let ends = ["answered_share", "refused_share", "failed_share", "timed_out_share"];
        let ends: f64 = ends.iter().filter_map(|end| value(metrics, end)).sum();
        demand(ends <= 1.0 + 1e-9, || format!("{ends} of the calls of {name} end"))?;
        let hours = value(metrics, "replica_hours").unwrap_or(0.0);
        let plan = &scenario.run;
        let mean = value(metrics, "replicas_mean").unwrap_or(0.0);
        let held = mean * (plan.duration_s - plan.warmup_s) / 3600.0;
        demand(near(hours, held), || format!("{hours} hours of {mean} replicas of {name}"))?;
    }
    Ok(())
}

/// What is watched beside the run: the shadow, alerts, faults and kills.
fn beside(scenario: &Scenario, run: &Replication) -> Result<(), String> {
    if let Some(shadow) = &run.shadow {
        let pairs: u64 = shadow.pairs.iter().map(|pair| pair.attempts).sum();
        let classes: u64 = shadow.by_class.values().map(|class| class.attempts).sum();
        let whole = shadow.attempts == pairs && shadow.attempts == classes && shadow.differs <= pairs;
        demand(whole, || format!("the shadow has {pairs} pairs and {classes} by class: {shadow:?}"))?;
        let low = shadow.by_class.values().all(|class| class.low <= class.attempts);
        demand(low, || format!("more are low than came: {shadow:?}"))?;
    }
    let alerts = value(&run.metrics, "alerts").unwrap_or(0.0);
    demand(run.alerts.len() as f64 == alerts.min(1000.0), || {
        format!("{} of {alerts} alerts are kept", run.alerts.len())
    })?;
    for alert in &run.alerts {
        let sound =
            alert.since_s <= alert.at_s && alert.at_s <= run.simulated_s && alert.unmatched.len() <= 3;
        demand(sound, || format!("{alert:?}"))?;
    }
    demand(run.marks.windows(2).all(|two| two[0].at_s <= two[1].at_s), || {
        format!("marks out of order: {:?}", run.marks)
    })?;
    for name in scenario.faults.keys() {
        let marks: Vec<bool> = run.marks.iter().filter(|m| m.name == *name).map(|m| m.on).collect();
        let turns = marks.iter().enumerate().all(|(turn, on)| *on == (turn % 2 == 0));
        demand(turns, || format!("fault {name} does not begin and end in turn: {:?}", run.marks))?;
    }
    let warm_s = scenario.run.warmup_s;
    for (metric, what) in [("gateway_kills", "gateway_killed"), ("neighbour_kills", "neighbour_killed")] {
        let Some(kills) = value(&run.metrics, metric) else { continue };
        let marks = run.marks.iter().filter(|m| m.what == what && m.on && m.at_s >= warm_s).count();
        demand(marks as f64 == kills, || format!("{kills} {metric}, of which {marks} left a mark"))?;
    }
    Ok(())
}
