//! The numbers of a run with their intervals, in the form of `summary.json`.

use crate::findings::Finding;
use crate::verdict::{Bottleneck, Verdict, bottleneck, judge};
use crate::{VERSION, verdict::Backlog};
use forebay_engine::{Interval, Welford, student_t_quantile};
use forebay_model::accounts::alerts::RaisedAlert;
use forebay_model::scenario::Loaded;
use forebay_model::shadow::ShadowReport;
use forebay_model::{Digest, Ledger, Metrics, Replication};
use forebay_policies::Severity;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;

/// Metrics by name.
pub type MetricSummaries = IndexMap<String, MetricSummary>;

/// A metric over all replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSummary {
    /// The mean over the replications that have it.
    pub value: Option<f64>,
    /// 95 % confidence interval of the mean; absent with fewer than two replications.
    pub ci95: Option<[f64; 2]>,
    /// Its unit; empty for counts and shares.
    pub unit: String,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl MetricSummary {
    /// Half of the interval's width.
    pub fn half_width(&self) -> Option<f64> {
        self.ci95.map(|[lo, hi]| 0.5 * (hi - lo))
    }
}

/// Which scenario was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioId {
    /// Its name.
    pub name: String,
    /// Hash of the complete scenario, settings included.
    pub hash: String,
    /// Which of its variants it was; absent: the scenario as it is written.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub variant: Option<String>,
}

impl ScenarioId {
    /// Of a scenario that has been read.
    pub fn of(loaded: &Loaded) -> Self {
        Self {
            name: loaded.scenario.name.clone(),
            hash: loaded.hash.clone(),
            variant: loaded.variants.chosen.clone(),
        }
    }
}

impl std::fmt::Display for ScenarioId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        match &self.variant {
            Some(variant) => write!(f, " (variant {variant})"),
            None => Ok(()),
        }
    }
}

/// The numbers of a run: `summary.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Version of the program.
    pub forebay: String,
    /// What was run.
    pub scenario: ScenarioId,
    /// Seed of all random streams.
    pub seed: u64,
    /// Replications.
    pub replications: u32,
    /// Hash over all outcomes of all replications in order.
    pub digest: String,
    /// Time it took, seconds.
    pub wall_s: f64,
    /// Time that was simulated in all replications together, seconds.
    pub simulated_s: f64,
    /// Events handled.
    pub events: u64,
    /// Requests offered.
    pub requests: u64,
    /// How the service stands the load.
    pub verdict: Verdict,
    /// How all requests ended.
    pub ledger: Ledger,
    /// Metrics of the whole service.
    pub metrics: MetricSummaries,
    /// The same by class, tier, level, endpoint, tenant and stage.
    pub by: IndexMap<String, IndexMap<String, MetricSummaries>>,
    /// Alerts that would have fired, by rule.
    pub alerts: Vec<AlertSummary>,
    /// Where the shadow and the live policy differ, over all replications; absent without a shadow.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shadow: Option<ShadowReport>,
    /// What the user should know.
    pub findings: Vec<Finding>,
}

/// What one rule raised in all replications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertSummary {
    /// Name of the rule.
    pub rule: String,
    /// How urgent it is.
    pub severity: Severity,
    /// How often it was raised, in all replications together.
    pub raised: u64,
    /// In how many replications it was raised.
    pub in_replications: u32,
    /// The first time that it was raised in the first replication that it was raised in, with its cause.
    pub first: RaisedAlert,
}

/// Alerts by rule while replications come in.
#[derive(Debug, Default)]
struct Alerts(Vec<AlertSummary>);

impl Alerts {
    /// Adds those of the next replication.
    fn add(&mut self, raised: &[RaisedAlert]) {
        let before: Vec<u64> = self.0.iter().map(|alert| alert.raised).collect();
        for alert in raised {
            match self.0.iter_mut().find(|mine| mine.rule == alert.rule) {
                Some(mine) => mine.raised += 1,
                None => self.0.push(AlertSummary {
                    rule: alert.rule.clone(),
                    severity: alert.severity,
                    raised: 1,
                    in_replications: 0,
                    first: alert.clone(),
                }),
            }
        }
        for (index, mine) in self.0.iter_mut().enumerate() {
            mine.in_replications += u32::from(mine.raised > before.get(index).copied().unwrap_or(0));
        }
    }

    /// The most urgent first, then the most frequent.
    fn summaries(&self) -> Vec<AlertSummary> {
        let mut all = self.0.clone();
        all.sort_by(|a, b| {
            (a.severity, std::cmp::Reverse(a.raised), &a.rule).cmp(&(
                b.severity,
                std::cmp::Reverse(b.raised),
                &b.rule,
            ))
        });
        all
    }
}

/// The interval of observations that were added one by one; as [`Interval::of`].
pub(crate) fn interval(values: &Welford) -> Interval {
    let n = values.count() as usize;
    let mean = values.mean().unwrap_or(f64::NAN);
    let half = match values.variance() {
        None => f64::INFINITY,
        Some(0.0) => 0.0,
        Some(variance) => {
            student_t_quantile(0.5 + 0.5 * CONFIDENCE, (n - 1) as f64) * (variance / n as f64).sqrt()
        }
    };
    Interval { mean, lo: mean - half, hi: mean + half, n }
}

/// Takes the outcomes of the next replication into a digest.
pub(crate) fn fold(digest: &mut Digest, outcomes: Digest) {
    let Digest(word) = outcomes;
    digest.fold(word as u64);
    digest.fold((word >> 64) as u64);
}

/// A metric while replications come in: constant memory however many there are.
#[derive(Clone, Debug)]
struct Gathered {
    values: Welford,
    unit: String,
    reason: Option<String>,
}

impl Gathered {
    fn summary(&self) -> MetricSummary {
        let all = interval(&self.values);
        let some = self.values.count() > 0;
        MetricSummary {
            value: some.then_some(all.mean),
            ci95: (all.n >= 2).then_some([all.lo, all.hi]),
            unit: self.unit.clone(),
            reason: if some { None } else { self.reason.clone() },
        }
    }
}

type Sheet = IndexMap<String, Gathered>;

fn gather(sheet: &mut Sheet, metrics: &Metrics) {
    for (name, metric) in metrics {
        let entry = match sheet.get_mut(name) {
            Some(entry) => entry,
            None => sheet.entry(name.clone()).or_insert_with(|| Gathered {
                values: Welford::new(),
                unit: metric.unit.clone(),
                reason: None,
            }),
        };
        match metric.value {
            Some(value) => entry.values.add(value),
            None => entry.reason = entry.reason.take().or_else(|| metric.reason.clone()),
        }
    }
}

fn summaries(sheet: &Sheet) -> MetricSummaries {
    sheet.iter().map(|(name, gathered)| (name.clone(), gathered.summary())).collect()
}

/// A run under way: replications are added in their order, and only what the summary needs is kept.
#[derive(Debug)]
pub(crate) struct Gathering {
    digest: Digest,
    simulated_s: f64,
    events: u64,
    ledger: Ledger,
    metrics: Sheet,
    by: IndexMap<String, IndexMap<String, Sheet>>,
    alerts: Alerts,
    shadow: Option<ShadowReport>,
    backlogs: Vec<Backlog>,
    /// Digest of the first replication, and whether all have had the same.
    first: Option<Digest>,
    nothing_random: bool,
}

impl Gathering {
    pub(crate) fn new() -> Self {
        Self {
            digest: Digest::EMPTY,
            simulated_s: 0.0,
            events: 0,
            ledger: Ledger::default(),
            metrics: Sheet::new(),
            by: IndexMap::new(),
            alerts: Alerts::default(),
            shadow: None,
            backlogs: Vec::new(),
            first: None,
            nothing_random: true,
        }
    }

    /// Adds the next replication.
    pub(crate) fn add(&mut self, replication: &Replication, loaded: &Loaded) {
        fold(&mut self.digest, replication.digest);
        self.simulated_s += replication.simulated_s;
        self.events += replication.events;
        self.ledger.add(&replication.ledger);
        gather(&mut self.metrics, &replication.metrics);
        for (dimension, keys) in &replication.by {
            let mine = self.by.entry(dimension.clone()).or_default();
            for (key, metrics) in keys {
                gather(mine.entry(key.clone()).or_default(), metrics);
            }
        }
        self.alerts.add(&replication.alerts);
        if let Some(shadow) = &replication.shadow {
            self.shadow.get_or_insert_default().add(shadow);
        }
        let in_flight = replication.ledger.in_flight_at_end;
        let value = |name: &str| replication.metrics.get(name).and_then(|metric| metric.value);
        let spent = value("wait_mean_s").zip(value("latency_mean_s"));
        self.backlogs.push(Backlog::of(&replication.timeline, &loaded.scenario.run, in_flight, spent));
        self.nothing_random &= *self.first.get_or_insert(replication.digest) == replication.digest;
    }

    /// Whether there were several replications, and all were the same.
    pub(crate) fn nothing_random(&self) -> bool {
        self.backlogs.len() >= 2 && self.nothing_random
    }

    /// The summary of what was added, without findings, and the bottleneck.
    pub(crate) fn summary(&self, loaded: &Loaded, wall_s: f64) -> (Summary, Option<Bottleneck>) {
        let summaries = |sheet: &Sheet| {
            let mut summaries = summaries(sheet);
            if self.nothing_random() {
                // One crowd, seen several times, has no interval.
                summaries.values_mut().for_each(|summary| summary.ci95 = None);
            }
            summaries
        };
        let metrics = summaries(&self.metrics);
        let by: IndexMap<_, IndexMap<_, _>> = self
            .by
            .iter()
            .map(|(dimension, keys)| {
                (dimension.clone(), keys.iter().map(|(key, sheet)| (key.clone(), summaries(sheet))).collect())
            })
            .collect();
        let kv_mean = metrics.get("kv_mean").and_then(|metric| metric.value);
        let bottleneck = bottleneck(by.get("stage"), kv_mean);
        let servers = bottleneck.as_ref().filter(|b| !b.batches).map(|b| b.utilisation);
        let busiest = servers.into_iter().chain(kv_mean).reduce(f64::max);
        let summary = Summary {
            forebay: VERSION.to_owned(),
            scenario: ScenarioId::of(loaded),
            seed: loaded.scenario.run.seed,
            replications: self.backlogs.len() as u32,
            digest: self.digest.hex(),
            wall_s,
            simulated_s: self.simulated_s,
            events: self.events,
            requests: self.ledger.offered,
            verdict: judge(&self.backlogs, busiest),
            ledger: self.ledger.clone(),
            metrics,
            by,
            alerts: self.alerts.summaries(),
            shadow: self.shadow.clone(),
            findings: Vec::new(),
        };
        (summary, bottleneck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::Metric;

    fn metric(value: Option<f64>) -> Metric {
        let reason = value.is_none().then(|| "nobody asked".to_owned());
        Metric { value, unit: "s".to_owned(), reason }
    }

    #[test]
    fn intervals_are_those_of_the_engine() {
        let values = [1.0, 2.5, 3.0, 0.5];
        let mine = interval(&values.iter().copied().collect());
        assert_eq!(mine, Interval::of(&values, CONFIDENCE));
        let one = interval(&[4.0].into_iter().collect());
        assert_eq!((one.mean, one.n), (4.0, 1));
        assert!(one.half_width().is_infinite());
    }

    #[test]
    fn a_metric_is_the_mean_over_those_that_have_it() {
        let mut sheet = Sheet::new();
        for value in [Some(1.0), None, Some(3.0)] {
            gather(&mut sheet, &Metrics::from_iter([("x".to_owned(), metric(value))]));
        }
        let x = &summaries(&sheet)["x"];
        assert_eq!((x.value, x.unit.as_str(), x.reason.clone()), (Some(2.0), "s", None));
        let [lo, hi] = x.ci95.unwrap();
        // Half-width t(0.975, 1) x sqrt(2) / sqrt(2).
        assert!((hi - 2.0 - 12.706_204_736).abs() < 1e-6 && (lo + hi - 4.0).abs() < 1e-9);
    }

    #[test]
    fn a_metric_that_nobody_has_is_null_with_its_reason() {
        let mut sheet = Sheet::new();
        gather(&mut sheet, &Metrics::from_iter([("x".to_owned(), metric(None))]));
        let json = serde_json::to_value(&summaries(&sheet)["x"]).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"value": null, "ci95": null, "unit": "s", "reason": "nobody asked"})
        );
    }

    #[test]
    fn alerts_are_gathered_by_rule() {
        let raised = |rule: &str, severity, at_s| RaisedAlert {
            rule: rule.to_owned(),
            severity,
            at_s,
            since_s: at_s - 5.0,
            found: 2.0,
            threshold: 1.0,
            unmatched: Vec::new(),
        };
        let mut alerts = Alerts::default();
        alerts.add(&[raised("slow", Severity::P1, 9.0), raised("slow", Severity::P1, 30.0)]);
        alerts.add(&[raised("dry", Severity::P0, 7.0)]);
        alerts.add(&[raised("slow", Severity::P1, 2.0), raised("dry", Severity::P0, 3.0)]);
        let all = alerts.summaries();
        let told = |alert: &AlertSummary| {
            (alert.rule.clone(), alert.raised, alert.in_replications, alert.first.at_s)
        };
        assert_eq!(
            all.iter().map(told).collect::<Vec<_>>(),
            [("dry".to_owned(), 2, 2, 7.0), ("slow".to_owned(), 3, 2, 9.0)]
        );
    }

    #[test]
    fn one_replication_has_no_interval() {
        let mut sheet = Sheet::new();
        gather(&mut sheet, &Metrics::from_iter([("x".to_owned(), metric(Some(2.0)))]));
        assert_eq!(summaries(&sheet)["x"].ci95, None);
    }
}
