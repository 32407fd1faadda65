//! Costs, business value and satisfaction, in all and by class and tier.

use super::{Metrics, NO_REQUESTS, Sheet};
use crate::accounts::money::{Earned, Money};
use crate::scenario::{Loaded, Scenario, Stage};
use crate::service::Service;
use forebay_policies::Level;
use indexmap::IndexMap;

const NO_PRICES: &str = "the scenario gives no prices";
pub(super) const NO_PROVIDER_PRICES: &str = "no provider of the scenario has a price";
const NO_CSAT: &str = "the scenario gives no satisfaction model";
const NO_VALUE: &str = "no class of the scenario gives a value";
const NOT_CLOSED: &str = "the run did not reach the end of its arrivals";

/// Why a scenario can have no value of a metric, as far as economics decide it.
pub(super) fn missing(scenario: &Scenario, metric: &str) -> Option<&'static str> {
    let money = Money::new(scenario);
    let money = money.as_ref();
    match metric {
        "cost" if !money.is_some_and(Money::has_prices) && !has_priced_provider(scenario) => Some(NO_PRICES),
        "cost_tokens" | "cost_agents" | "cost_gpus" if !money.is_some_and(Money::has_prices) => {
            Some(NO_PRICES)
        }
        "cost_providers" if !has_priced_provider(scenario) => Some(NO_PROVIDER_PRICES),
        "csat" if money.is_none_or(|money| money.economics.csat.is_none()) => Some(NO_CSAT),
        "value" if !money.is_some_and(Money::has_values) => Some(NO_VALUE),
        _ => None,
    }
}

fn has_priced_provider(scenario: &Scenario) -> bool {
    scenario.stages.values().any(|stage| match stage {
        Stage::Providers(stage) => {
            stage.providers.values().any(|p| p.price_in_per_1k > 0.0 || p.price_out_per_1k > 0.0)
        }
        _ => false,
    })
}

/// Metrics of the whole service.
pub(super) fn total(sheet: &mut Sheet, service: &Service, loaded: &Loaded) {
    let money = service.accounts.money.as_deref();
    let currency = money.map_or("", |money| money.economics.currency.as_str());
    let priced = money.filter(|money| money.has_prices());
    let agents = priced.map(|money| {
        // Where agents are part of the service their time is measured.
        let handed_over = service.measure.of_level(Level::L4).answered;
        let stated = handed_over as f64 * money.economics.handoff_agent_s / 60.0;
        let minutes = super::of_stages::agent_minutes(service).unwrap_or(stated);
        minutes * money.economics.agent_per_min
    });
    let calls = priced.map(|money| money.calls);
    // Where an hour costs nothing, none need be counted.
    let gpus = priced.map(|money| match money.economics.gpu_per_hour {
        0.0 => Some(0.0),
        price => gpu_hours(service, loaded).map(|hours| hours * price),
    });
    let cost = calls.zip(agents).zip(gpus.flatten()).map(|((calls, agents), gpus)| calls + agents + gpus);
    // What external providers charge comes on top; it may be all that is priced.
    let providers = sheet.value("cost_providers");
    let cost = if priced.is_none() { providers } else { cost.map(|own| own + providers.unwrap_or(0.0)) };
    sheet.maybe("cost", currency, cost, if priced.is_none() { NO_PRICES } else { NOT_CLOSED });
    if let (Some(calls), Some(agents), Some(gpus)) = (calls, agents, gpus) {
        sheet.put("cost_tokens", currency, calls);
        sheet.put("cost_agents", currency, agents);
        sheet.maybe("cost_gpus", currency, gpus, NOT_CLOSED);
    }
    of_group(sheet, money, money.map(|money| &money.total));
}

/// Satisfaction and value of one group of requests.
fn of_group(sheet: &mut Sheet, money: Option<&Money>, earned: Option<&Earned>) {
    let modelled = money.is_some_and(|money| money.economics.csat.is_some());
    let csat = earned.filter(|_| modelled).and_then(Earned::csat);
    sheet.maybe("csat", "", csat, if modelled { NO_REQUESTS } else { NO_CSAT });
    let currency = money.map_or("", |money| money.economics.currency.as_str());
    let valued = money.is_some_and(Money::has_values);
    sheet.maybe("value", currency, earned.filter(|_| valued).map(|earned| earned.value), NO_VALUE);
}

/// Adds satisfaction and value to the breakdowns by class and tier.
pub(super) fn breakdowns(service: &Service, all: &mut IndexMap<String, IndexMap<String, Metrics>>) {
    let Some(money) = service.accounts.money.as_deref() else { return };
    for (dimension, groups) in [("class", &money.by_class), ("tier", &money.by_tier)] {
        let Some(keys) = all.get_mut(dimension) else { continue };
        for (metrics, earned) in keys.values_mut().zip(groups) {
            let mut sheet = Sheet::new();
            of_group(&mut sheet, Some(money), Some(earned));
            metrics.extend(sheet.0);
        }
    }
}

/// Hours of GPUs over the measured window; `None` as long as it is not over.
fn gpu_hours(service: &Service, loaded: &Loaded) -> Option<f64> {
    let scenario = &loaded.scenario;
    let window_h = (scenario.run.duration_s - scenario.run.warmup_s) / 3600.0;
    let mut on_device: IndexMap<&str, f64> = IndexMap::new();
    let mut hours = 0.0;
    for (index, stage) in scenario.stages.values().enumerate() {
        let device = match stage {
            Stage::LlmSlots(slots) => slots.memory.as_ref().map(|memory| memory.device.as_str()),
            Stage::LlmBatching(batching) => batching.device.as_deref(),
            Stage::Reranker(reranker) => {
                if reranker.device.is_none() {
                    hours += f64::from(reranker.gpus) * window_h;
                }
                continue;
            }
            _ => continue,
        };
        let scaled = service.scalers.iter().any(|scaler| scaler.stage.index() == index);
        let held = service.replicas_of(loaded, index)?.hours;
        match device {
            None => hours += held,
            Some(device) if scaled => {
                let most = on_device.entry(device).or_insert(0.0);
                *most = most.max(held);
            }
            Some(_) => {}
        }
    }
    for (name, device) in &scenario.devices {
        let all = f64::from(device.count) * window_h;
        hours += on_device.get(name.as_str()).map_or(all, |held| held.min(all));
    }
    Some(hours)
}
