//! What breaks: all kinds of faults, each once or twice, in windows that may overlap or outlast the run.

use super::engines::MAIN_PROVIDER;
use super::{Dice, Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    let on_gpu = [Feature::OnDevice, Feature::SlotMemory, Feature::EngineDevice];
    let on_gpu = on_gpu.into_iter().any(|feature| draft.has(feature));
    let base = draft.has(Feature::KnowledgeBase);
    let memory = draft.has(Feature::SlotMemory);
    let mut stages = vec!["embed", "faq", "store", "rerank", "model", "engine"];
    for (feature, stage) in
        [(Feature::SemanticCache, "cache"), (Feature::Agents, "desk"), (Feature::Providers, "api")]
    {
        if draft.has(feature) {
            stages.push(stage);
        }
    }
    fault(draft, Feature::LatencyFactor, |dice, window| {
        let (stage, factor) = (dice.pick(&stages), dice.pick(&["0.1", "5", "20"]));
        Some(format!("kind = \"latency_factor\"\n{window}\nstage = \"{stage}\"\nfactor = {factor}"))
    });
    let has_providers = draft.has(Feature::Providers);
    fault(draft, Feature::ProviderOutage, |_, window| {
        has_providers.then(|| {
            format!("kind = \"provider_outage\"\n{window}\nstage = \"api\"\nprovider = \"{MAIN_PROVIDER}\"")
        })
    });
    fault(draft, Feature::GpuLost, |dice, window| {
        let count = 1 + dice.roll(2);
        on_gpu.then(|| format!("kind = \"gpu_lost\"\n{window}\ndevice = \"gpu\"\ncount = {count}"))
    });
    fault(draft, Feature::ReplicaCrash, |dice, window| {
        let (stage, replica) = (dice.pick(&["model", "engine"]), dice.option("replica", &["0", "1"]));
        let lasts = dice.coin() || stage == "engine" || !memory;
        let window = if lasts { window } else { window.split('\n').next().unwrap_or(window) };
        Some(format!("kind = \"replica_crash\"\n{window}\nstage = \"{stage}\"\n{replica}"))
    });
    for (feature, kind) in [
        (Feature::StoreTimeout, "store_timeout"),
        (Feature::LimiterNodesDown, "limiter_nodes_down"),
        (Feature::RulesWiped, "rules_wiped"),
        (Feature::ForecastLost, "forecast_lost"),
    ] {
        fault(draft, feature, |_, window| Some(format!("kind = \"{kind}\"\n{window}")));
    }
    fault(draft, Feature::MetricsFrozen, |dice, window| {
        Some(format!("kind = \"metrics_frozen\"\n{window}\nstop = {}", dice.coin()))
    });
    fault(draft, Feature::KnowledgeBaseStale, |_, window| {
        base.then(|| format!("kind = \"knowledge_base_stale\"\n{window}"))
    });
    let wall = draft.has(Feature::WallClock);
    fault(draft, Feature::ClockStep, |dice, window| {
        let (by, every) = (dice.pick(&["-1", "-0.3", "0.7", "10", "4000"]), dice.option("every_s", &["0.3"]));
        wall.then(|| format!("kind = \"clock_step\"\n{window}\nby_s = {by}\n{every}"))
    });
    fault(draft, Feature::NetworkDelay, |dice, window| {
        let extra = dice.law(0.3);
        Some(format!("kind = \"network_delay\"\n{window}\nextra_s = {extra}"))
    });
}

/// One or two faults of a kind; `what` gives the table for a window, or nothing where it makes no sense.
fn fault(draft: &mut Draft<'_>, feature: Feature, what: impl Fn(&mut Dice, &str) -> Option<String>) {
    let Some(mut dice) = draft.on(feature) else { return };
    for turn in 0..=dice.roll(2) {
        let from = dice.pick(&[1.0, 3.0, 6.25, 12.0, 19.0, 25.0]);
        let to = from + dice.pick(&[0.001, 0.6, 4.0, 15.0]);
        let window = format!("from_s = {from:?}\nto_s = {to:?}");
        if let Some(table) = what(&mut dice, &window) {
            draft.line(format!("[faults.{feature:?}{turn}]\n{table}"));
        }
    }
}
