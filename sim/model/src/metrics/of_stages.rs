//! What providers, caches, rules and agents' desks measured beside waiting and utilisation.

use super::{Metrics, Sheet, share};
use crate::llm::providers::{ProviderState, ProvidersStage};
use crate::scenario::Loaded;
use crate::service::{Service, StageState};
use crate::stages::cache::{Cache, CacheCounts};
use crate::stages::desk::Desk;
use crate::stages::knowledge_base::Knowledge;
use crate::stages::server::Role;
use forebay_policies::Level;

pub(super) const NO_CACHE: &str = "the scenario has no semantic cache";
const NO_LOOKUPS: &str = "no lookup came to a semantic cache";

fn role(state: &StageState) -> &Role {
    match state {
        StageState::Server(server) => &server.role,
        _ => &Role::Plain,
    }
}

fn caches(service: &Service) -> impl Iterator<Item = &Cache> {
    service.stages.iter().filter_map(|state| match role(state) {
        Role::Cache(cache) => Some(&**cache),
        _ => None,
    })
}

/// Metrics of the whole service: hits of all caches, and what providers cost.
pub(super) fn total(sheet: &mut Sheet, service: &Service) {
    let mut sum = CacheCounts::default();
    for counts in caches(service).flat_map(|cache| cache.counts) {
        sum.lookups += counts.lookups;
        sum.hits += counts.hits;
        sum.wrong += counts.wrong;
    }
    let any = caches(service).next().is_some();
    let (why, no_hit) = if any { (NO_LOOKUPS, "no lookup found an answer") } else { (NO_CACHE, NO_CACHE) };
    sheet.maybe("cache_hit_rate", "", share(sum.hits, sum.lookups), why);
    sheet.maybe("cache_wrong_rate", "", share(sum.wrong, sum.hits), no_hit);
    let providers = service.stages.iter().flat_map(|state| match state {
        StageState::Providers(providers) => providers.list.as_slice(),
        _ => &[],
    });
    let costs = providers.filter(|provider| provider.has_price()).map(|provider| provider.counts.cost);
    let cost = costs.reduce(|sum, cost| sum + cost);
    sheet.maybe("cost_providers", "", cost, super::economics::NO_PROVIDER_PRICES);
}

/// Time that agents spent on hand-offs, minutes; `None`: the scenario has no agents.
pub(super) fn agent_minutes(service: &Service) -> Option<f64> {
    let desks = service.stages.iter().filter_map(|state| match role(state) {
        Role::Desk(desk) => Some(desk.measure.handling_s / 60.0),
        _ => None,
    });
    desks.reduce(|sum, minutes| sum + minutes)
}

/// Adds what a stage measured by itself to its metrics.
pub(super) fn own(sheet: &mut Sheet, state: &StageState, loaded: &Loaded) {
    match role(state) {
        Role::Rules(knowledge) => rules(sheet, knowledge, loaded),
        Role::Desk(desk) => agents(sheet, desk, loaded),
        Role::Plain | Role::Retrieval | Role::Cache(_) => {}
    }
}

fn rules(sheet: &mut Sheet, knowledge: &Knowledge, loaded: &Loaded) {
    let unmatched = share(knowledge.unmatched.iter().sum(), knowledge.asked);
    sheet.maybe("unmatched_share", "", unmatched, "no question came to the rules");
    for (class, &n) in loaded.scenario.workload.classes.keys().zip(&knowledge.unmatched) {
        if n > 0 {
            sheet.put(format!("unmatched.{class}"), "", n as f64);
        }
    }
}

fn agents(sheet: &mut Sheet, desk: &Desk, loaded: &Loaded) {
    let run = &loaded.scenario.run;
    let window_s = run.duration_s - run.warmup_s;
    let measure = &desk.measure;
    let none = "no hand-off was made";
    sheet.put("agent_minutes", "min", measure.handling_s / 60.0);
    sheet.put("agent_utilisation", "", measure.busy_s / (window_s * f64::from(desk.agents)));
    sheet.put("agent_queue_mean", "", measure.waiting_s / window_s);
    sheet.maybe("gave_up_share", "", share(measure.gave_up, measure.handed), none);
    sheet.spread("agent_wait", &measure.wait, "no agent took a hand-off");
}

/// The parts of a stage that have metrics of their own: its providers, or the levels that its cache serves.
pub(super) fn parts(service: &Service, loaded: &Loaded, index: usize) -> Vec<(String, Metrics)> {
    match &service.stages[index] {
        StageState::Providers(stage) => providers(stage, loaded, index),
        state => match role(state) {
            Role::Cache(cache) => levels(cache, service, index),
            _ => Vec::new(),
        },
    }
}

fn providers(stage: &ProvidersStage, loaded: &Loaded, index: usize) -> Vec<(String, Metrics)> {
    let names = loaded.scenario.stages[index].providers();
    names.into_iter().map(str::to_owned).zip(stage.list.iter().map(provider)).collect()
}

fn provider(provider: &ProviderState) -> Metrics {
    let counts = &provider.counts;
    let no_calls = "no call came to this provider";
    let mut sheet = Sheet::new();
    sheet.put("calls", "", counts.calls as f64);
    for (name, n) in [
        ("answered_share", counts.answered),
        ("refused_share", counts.refused),
        ("failed_share", counts.failed),
        ("timed_out_share", counts.timed_out),
    ] {
        sheet.maybe(name, "", share(n, counts.calls), no_calls);
    }
    let cost = provider.has_price().then_some(counts.cost);
    sheet.maybe("cost", "", cost, "the scenario gives no price for this provider");
    sheet.0
}

fn levels(cache: &Cache, service: &Service, index: usize) -> Vec<(String, Metrics)> {
    let endpoints = &service.plan.endpoints;
    let serves = |level: Level| {
        let on_path = |path: &[crate::ids::StageId]| path.iter().any(|stage| stage.index() == index);
        endpoints
            .iter()
            .any(|endpoint| endpoint.taken[level.index()] == level && on_path(&endpoint.paths[level.index()]))
    };
    let of = |level: Level| {
        let counts = &cache.counts[level.index()];
        let mut sheet = Sheet::new();
        sheet.put("lookups", "", counts.lookups as f64);
        sheet.maybe("hit_rate", "", share(counts.hits, counts.lookups), NO_LOOKUPS);
        sheet.maybe("wrong_rate", "", share(counts.wrong, counts.hits), "no lookup found an answer");
        sheet.put("evictions", "", counts.evictions as f64);
        sheet.put("last_resorts", "", counts.last_resorts as f64);
        (level.name().to_owned(), sheet.0)
    };
    Level::ALL.into_iter().filter(|level| serves(*level)).map(of).collect()
}
