//! Metrics: what a replication measured, by the names that summaries, objectives and reports use.
//!
//! A metric that a run could not produce is absent with a reason, never 0.

mod control;
mod economics;
mod of_stages;
mod recovery;

use crate::measure::{Group, StageMeasure};
use crate::scenario::{Loaded, Scenario, Stage};
use crate::service::{Replicas, Scaler, Service, StageState};
use forebay_engine::{Histogram, Span};
use forebay_policies::Level;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// A measured value, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The value.
    pub value: Option<f64>,
    /// Its unit; empty for counts and shares.
    pub unit: String,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// Metrics by name, in the order of the summary.
pub type Metrics = IndexMap<String, Metric>;

/// Why a run of this scenario can have no value of a metric, as far as the scenario alone tells it; `None`:
/// it may have one.
pub fn missing(scenario: &Scenario, metric: &str) -> Option<&'static str> {
    match metric {
        "recovery_s" => recovery::missing(scenario),
        "shadow_differs_share" => scenario.shadow.is_none().then_some("the scenario has no shadow"),
        "wait_notice_error_s" | "wait_notice_bias_s" | "wait_noticed_mean_s" => {
            (!scenario.gateway.wait_notice).then_some(control::NO_NOTICES)
        }
        "vram_mean" | "vram_sd" | "vram_max" => lacks(scenario, lives_on_a_device).then_some(NO_DEVICE),
        "kv_mean" | "kv_max" | "preemptions" => lacks(scenario, is_batching).then_some(NO_ENGINE),
        "cache_hit_rate" | "cache_wrong_rate" => lacks(scenario, is_cache).then_some(of_stages::NO_CACHE),
        _ => economics::missing(scenario, metric),
    }
}

fn lacks(scenario: &Scenario, kind: fn(&Stage) -> bool) -> bool {
    !scenario.stages.values().any(kind)
}

/// Only the devices of model engines are watched.
fn lives_on_a_device(stage: &Stage) -> bool {
    match stage {
        Stage::LlmSlots(_) | Stage::LlmBatching(_) => stage.device().is_some(),
        _ => false,
    }
}

fn is_batching(stage: &Stage) -> bool {
    matches!(stage, Stage::LlmBatching(_))
}

fn is_cache(stage: &Stage) -> bool {
    matches!(stage, Stage::SemanticCache(_))
}

const NO_DEVICE: &str = "no LLM stage lives on a device";
const NO_ENGINE: &str = "no batching engine is in the scenario";

/// A list of metrics under construction.
struct Sheet(Metrics);

impl Sheet {
    fn new() -> Self {
        Self(IndexMap::new())
    }

    fn put(&mut self, name: impl Into<String>, unit: &str, value: f64) {
        let metric = if value.is_finite() {
            Metric { value: Some(value), unit: unit.to_owned(), reason: None }
        } else {
            Metric { value: None, unit: unit.to_owned(), reason: Some("it is not finite".to_owned()) }
        };
        self.0.insert(name.into(), metric);
    }

    fn maybe(&mut self, name: impl Into<String>, unit: &str, value: Option<f64>, reason: &str) {
        if let Some(value) = value {
            self.put(name, unit, value);
        } else {
            let metric = Metric { value: None, unit: unit.to_owned(), reason: Some(reason.to_owned()) };
            self.0.insert(name.into(), metric);
        }
    }

    /// The value of a metric that is there already.
    fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(|metric| metric.value)
    }

    /// Mean, percentiles and maximum of a histogram, in seconds.
    fn spread(&mut self, name: &str, histogram: &Histogram, reason: &str) {
        let seconds = |span: Option<Span>| span.map(Span::as_secs_f64);
        self.maybe(format!("{name}_mean_s"), "s", seconds(histogram.mean()), reason);
        for (suffix, q) in [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999)] {
            self.maybe(format!("{name}_{suffix}_s"), "s", seconds(histogram.quantile(q)), reason);
        }
        self.maybe(format!("{name}_max_s"), "s", seconds(histogram.max()), reason);
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

const NO_REQUESTS: &str = "no request that was born after the warm-up has ended";
const NO_ANSWERS: &str = "no request was answered";

/// Metrics of the whole service.
pub(crate) fn total(service: &Service, loaded: &Loaded) -> Metrics {
    let measure = &service.measure;
    let run = &loaded.scenario.run;
    let window_s = run.duration_s - run.warmup_s;
    let group = &measure.total;
    let mut sheet = Sheet::new();
    group_metrics(&mut sheet, group, window_s);
    sheet.maybe("latency_sd_s", "s", measure.latency_s.variance().map(f64::sqrt), NO_ANSWERS);
    let no_tail = "no answer of more than one token came from a model";
    sheet.maybe("tpot_mean_s", "s", measure.tpot_s.mean(), no_tail);
    for level in Level::ALL {
        let part = measure.of_level(level).answered;
        sheet.maybe(format!("share_{}", level.name()), "", share(part, group.answered), NO_ANSWERS);
    }
    memory_metrics(&mut sheet, service);
    let (mean, variance) = measure.in_system_closed.unzip();
    let not_closed = "the run did not reach the end of its arrivals";
    sheet.maybe("in_system_mean", "", mean, not_closed);
    sheet.maybe("in_system_variance", "", variance, not_closed);
    let executor = service.executor.measure.closed.as_ref();
    sheet.maybe("queue_mean", "", executor.map(|c| c.queue_mean), not_closed);
    sheet.put("tokens_in", "tokens", measure.tokens_in as f64);
    sheet.put("tokens_out", "tokens", measure.tokens_out as f64);
    sheet.maybe(
        "rerank_skipped_share",
        "",
        share(measure.rerank_skipped, measure.rerank_wanted),
        "no answer at L1 came from an endpoint that reranks",
    );
    sheet.maybe(
        "attempts_per_request",
        "",
        share(measure.attempts, measure.tally.offered),
        "no request was offered",
    );
    sheet.put("out_of_memory", "", measure.out_of_memory as f64);
    sheet.put("engine_restarts", "", measure.restarts as f64);
    capacity_metrics(&mut sheet, service, loaded);
    of_stages::total(&mut sheet, service);
    control::total(&mut sheet, service, loaded);
    economics::total(&mut sheet, service, loaded);
    match recovery::recovery_s(&loaded.scenario, &service.timeline.points) {
        Ok(seconds) => sheet.put("recovery_s", "s", seconds),
        Err(reason) => sheet.maybe("recovery_s", "s", None, reason),
    }
    sheet.0
}

fn memory_metrics(sheet: &mut Sheet, service: &Service) {
    let measure = &service.measure;
    let no_device = NO_DEVICE;
    let vram = &measure.vram;
    let watched = !service.watched.is_empty() && vram.count() > 0;
    sheet.maybe("vram_mean", "", vram.mean().filter(|_| watched), no_device);
    sheet.maybe("vram_sd", "", vram.variance().filter(|_| watched).map(f64::sqrt), no_device);
    sheet.maybe("vram_max", "", watched.then_some(measure.vram_max), no_device);
    let no_kv = NO_ENGINE;
    let kv = measure.kv.count() > 0;
    sheet.maybe("kv_mean", "", measure.kv.mean(), no_kv);
    sheet.maybe("kv_max", "", kv.then_some(measure.kv_max), no_kv);
    let mut preemptions = None;
    for state in &service.stages {
        if let StageState::Batching(batching) = state {
            let n: u64 = batching.replicas.iter().map(|r| r.engine.preemptions()).sum();
            preemptions = Some(preemptions.unwrap_or(0) + n);
        }
    }
    sheet.maybe("preemptions", "", preemptions.map(|n| n as f64), no_kv);
}

/// Replicas of all LLM stages, and the memory of the gateway's host.
fn capacity_metrics(sheet: &mut Sheet, service: &Service, loaded: &Loaded) {
    let stages = 0..loaded.scenario.stages.len();
    let replicas: Vec<_> = stages.filter_map(|stage| service.replicas_of(loaded, stage)).collect();
    let closed = service.scalers.iter().all(Scaler::is_closed);
    let of = |value: fn(&Replicas) -> f64| {
        (closed && !replicas.is_empty()).then(|| replicas.iter().map(value).sum::<f64>())
    };
    let reason = if closed {
        "no LLM stage is in the scenario"
    } else {
        "the run did not reach the end of its arrivals"
    };
    sheet.maybe("replicas_mean", "", of(|r| r.mean), reason);
    sheet.maybe("replica_hours", "h", of(|r| r.hours), reason);
    let timetable = service.scalers.iter().map(|scaler| scaler.timetable_used).sum::<u64>();
    let scaled = !service.scalers.is_empty();
    sheet.maybe("timetable_used", "", scaled.then_some(timetable as f64), "no stage has autoscaling");
    let host = service.host.as_ref();
    let no_host = "the scenario does not give the gateway's host";
    sheet.maybe("host_memory_max_mb", "MB", host.map(|h| h.max_mb), no_host);
    sheet.maybe("gateway_kills", "", host.map(|h| h.gateway_kills as f64), no_host);
    sheet.maybe("neighbour_kills", "", host.map(|h| h.neighbour_kills as f64), no_host);
}

fn group_metrics(sheet: &mut Sheet, group: &Group, window_s: f64) {
    sheet.maybe("error_rate", "", share(group.errors(), group.ended), NO_REQUESTS);
    sheet.put("goodput_per_s", "1/s", group.good_in_window as f64 / window_s);
    sheet.put("throughput_per_s", "1/s", group.answered_in_window as f64 / window_s);
    sheet.maybe("right_share", "", share(group.right, group.answered), NO_ANSWERS);
    sheet.spread("latency", &group.latency, NO_ANSWERS);
    sheet.spread("ttft", &group.ttft, NO_ANSWERS);
    sheet.maybe("wait_mean_s", "s", group.waited.mean(), NO_ANSWERS);
}

fn stage_metrics(measure: &StageMeasure, bounded: bool) -> Metrics {
    let mut sheet = Sheet::new();
    let no_calls = "no call came to this stage";
    sheet.put("calls", "", measure.offered as f64);
    sheet.maybe("turned_away_share", "", share(measure.turned_away, measure.offered), no_calls);
    sheet.spread("wait", &measure.wait, no_calls);
    sheet.maybe("wait_variance_s2", "s2", measure.wait_s.variance(), no_calls);
    sheet.maybe("delayed_share", "", share(measure.delayed, measure.wait_s.count()), no_calls);
    let no_window = "the run did not reach the end of its arrivals";
    let closed = measure.closed.as_ref();
    let no_bound = "the stage has no bound";
    // A batching engine is bound by its sequences or by its KV memory, whichever is fuller.
    let memory = measure.kv.mean().unwrap_or(0.0);
    sheet.maybe(
        "utilisation",
        "",
        closed.filter(|_| bounded).map(|c| c.utilisation.max(memory)),
        if bounded { no_window } else { no_bound },
    );
    sheet.maybe("busy_mean", "", closed.map(|c| c.busy_mean), no_window);
    sheet.maybe("queue_mean", "", closed.map(|c| c.queue_mean), no_window);
    sheet.maybe("queue_max", "", closed.map(|c| c.queue_max), no_window);
    if let Some(kv) = measure.kv.mean() {
        sheet.put("kv_mean", "", kv);
    }
    if measure.batches > 0 {
        sheet.maybe("batch_mean", "", share(measure.batched_calls, measure.batches), no_calls);
    }
    sheet.0
}

/// Metrics by class, tier, level, endpoint, tenant and stage.
pub(crate) fn breakdowns(service: &Service, loaded: &Loaded) -> IndexMap<String, IndexMap<String, Metrics>> {
    let scenario = &loaded.scenario;
    let window_s = scenario.run.duration_s - scenario.run.warmup_s;
    let by = &service.measure.by;
    let dimension = |names: Vec<String>, groups: &[Group]| -> IndexMap<String, Metrics> {
        let alone = std::slice::from_ref(&service.measure.total);
        let groups = if groups.is_empty() && names.len() == 1 { alone } else { groups };
        names
            .into_iter()
            .zip(groups)
            .map(|(name, group)| {
                let mut sheet = Sheet::new();
                sheet.put("requests", "", group.ended as f64);
                group_metrics(&mut sheet, group, window_s);
                (name, sheet.0)
            })
            .collect()
    };
    let names = |keys: Vec<&String>| keys.into_iter().cloned().collect::<Vec<_>>();
    let levels = Level::ALL.iter().map(|l| l.name().to_owned()).collect();
    let of_levels: Vec<Group> =
        Level::ALL.iter().map(|&l| service.measure.of_level(l).into_owned()).collect();
    let tenants = (0..by.tenant.len()).map(|n| format!("tenant-{n}")).collect();
    let mut all = IndexMap::new();
    all.insert("class".to_owned(), dimension(names(scenario.workload.classes.keys().collect()), &by.class));
    all.insert(
        "tier".to_owned(),
        dimension(names(scenario.workload.population.tiers.keys().collect()), &by.tier),
    );
    all.insert("level".to_owned(), dimension(levels, &of_levels));
    all.insert("endpoint".to_owned(), dimension(names(scenario.endpoints.keys().collect()), &by.endpoint));
    all.insert("tenant".to_owned(), dimension(tenants, &by.tenant));
    let mut stages = IndexMap::new();
    let bounded = scenario.gateway.executor_slots.is_some();
    stages.insert("executor".to_owned(), stage_metrics(&service.executor.measure, bounded));
    for (index, (name, measure)) in scenario.stages.keys().zip(&service.measure.stages).enumerate() {
        let bounded = measure.capacity < u64::from(u32::MAX);
        let mut sheet = Sheet(stage_metrics(measure, bounded));
        if let Some(replicas) = service.replicas_of(loaded, index) {
            sheet.put("replicas_mean", "", replicas.mean);
            sheet.put("replicas_max", "", replicas.max);
            sheet.put("replica_hours", "h", replicas.hours);
        }
        of_stages::own(&mut sheet, &service.stages[index], loaded);
        stages.insert(name.clone(), sheet.0);
        for (part, metrics) in of_stages::parts(service, loaded, index) {
            stages.insert(format!("{name}.{part}"), metrics);
        }
    }
    all.insert("stage".to_owned(), stages);
    economics::breakdowns(service, &mut all);
    control::breakdowns(service, loaded, &mut all);
    let gates = service.gate_peaks().map(|(name, most)| {
        let mut sheet = Sheet::new();
        sheet.put("inside_max", "", f64::from(most));
        (name.to_owned(), sheet.0)
    });
    all.insert("gate".to_owned(), gates.collect());
    if let Some(store) = &loaded.scenario.policy.store {
        let uses = service.fallback_uses();
        let mut sheet = Sheet::new();
        for (name, n) in [
            ("store_timeouts", uses.store_timeouts),
            ("nodes_down", uses.nodes_down),
            ("forecast_lost", uses.forecast_lost),
            ("rules_wiped", uses.rules_wiped),
            ("rules_kept", uses.rules_kept),
        ] {
            sheet.put(name, "", n as f64);
        }
        all.insert("limiter".to_owned(), IndexMap::from([(store.module.clone(), sheet.0)]));
    }
    all.retain(|_, keys| !keys.is_empty());
    all
}
