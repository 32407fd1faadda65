//! How the control loop and the queue behave: fairness, turns, time above the thresholds, notices, and
//! where a shadow differs.

use super::{Metrics, Sheet, share};
use crate::measure::Group;
use crate::scenario::Loaded;
use crate::service::Service;
use indexmap::IndexMap;

/// A latency counts as at least this long, in seconds, so that an answer in no time has no infinite rate.
const LEAST_LATENCY_S: f64 = 1e-6;

/// Metrics of the whole service.
pub(super) fn total(sheet: &mut Sheet, service: &Service, loaded: &Loaded) {
    let run = &loaded.scenario.run;
    let window_min = (run.duration_s - run.warmup_s) / 60.0;
    let measure = &service.measure;
    let control = &service.accounts.control;
    sheet.put("commands_per_min", "1/min", control.commands as f64 / window_min);
    sheet.put("alerts", "", service.accounts.alerts.count() as f64);
    let ticks = service.governor.tick_period_ns().is_some();
    let turns = ticks.then(|| control.turns as f64 / window_min);
    sheet.maybe("oscillations_per_min", "1/min", turns, "nothing in the policy follows signals");
    for crossed in &control.crossed {
        let name = format!("time_{}", crossed.name);
        sheet.maybe(name, "", crossed.share(), "nothing gives the signal that it follows");
    }
    sheet.maybe("fairness_jain", "", fairness(&measure.by.tenant, &measure.by.tier), ONE_KIND);
    let notices = service.accounts.notices.as_ref();
    let mean = |of: fn(&crate::accounts::notices::Notices) -> Option<f64>| notices.and_then(of);
    let untold = if notices.is_none() { NO_NOTICES } else { "nobody was told a wait and served then" };
    sheet.maybe("wait_notice_error_s", "s", mean(|n| n.error.mean()), untold);
    if notices.is_some() {
        sheet.maybe("wait_notice_bias_s", "s", mean(|n| n.bias.mean()), untold);
        sheet.maybe("wait_noticed_mean_s", "s", mean(|n| n.wait.mean()), untold);
    }
    let report = service.shadow_report(loaded);
    let differs = report.as_ref().and_then(|report| share(report.differs, report.attempts));
    let no_shadow = if report.is_none() { "the scenario has no shadow" } else { "no attempt has ended" };
    sheet.maybe("shadow_differs_share", "", differs, no_shadow);
}

const ONE_KIND: &str =
    "there is one tenant and one tier, or more tenants than get a breakdown, or nobody was answered";
pub(super) const NO_NOTICES: &str =
    "the gateway tells nobody how long it takes: `gateway.wait_notice` is off";

/// Jain's fairness index, 1 when all fare alike and 1 / n when one of n has everything: over the tenants,
/// or, where there is only one, over the tiers. What is compared is how much service each gets for its
/// waiting: the share of its requests that are answered, divided by the mean latency of its answers.
fn fairness(tenants: &[Group], tiers: &[Group]) -> Option<f64> {
    let groups = if tenants.len() > 1 { tenants } else { tiers };
    let service = |group: &Group| {
        let answered = share(group.answered, group.ended)?;
        let latency_s = group.latency.mean().map_or(0.0, forebay_engine::Span::as_secs_f64);
        Some(answered / latency_s.max(LEAST_LATENCY_S))
    };
    jain(&groups.iter().filter_map(service).collect::<Vec<_>>())
}

fn jain(values: &[f64]) -> Option<f64> {
    let squares: f64 = values.iter().map(|x| x * x).sum();
    let sum: f64 = values.iter().sum();
    (values.len() > 1 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Adds, by class, the share that a shadow takes for unimportant.
pub(super) fn breakdowns(
    service: &Service,
    loaded: &Loaded,
    all: &mut IndexMap<String, IndexMap<String, Metrics>>,
) {
    let Some(report) = service.shadow_report(loaded) else { return };
    let Some(classes) = all.get_mut("class") else { return };
    for (name, of_class) in &report.by_class {
        let Some(metrics) = classes.get_mut(name) else { continue };
        let mut sheet = Sheet::new();
        let low = share(of_class.low, of_class.attempts);
        sheet.maybe("shadow_low_share", "", low, "no attempt of this class reached the gateway");
        metrics.extend(sheet.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_for_equals_and_a_share_for_one_who_has_all() {
        assert_eq!(jain(&[3.0, 3.0, 3.0]), Some(1.0));
        assert!((jain(&[5.0, 0.0, 0.0, 0.0]).unwrap() - 0.25).abs() < 1e-12);
        // (1 + 2)^2 / (2 (1 + 4)).
        assert!((jain(&[1.0, 2.0]).unwrap() - 0.9).abs() < 1e-12);
        assert_eq!((jain(&[1.0]), jain(&[0.0, 0.0])), (None, None));
    }
}
