//! How a line of the reference table becomes a simulation: a scenario with settings, how long it runs,
//! and what of it the line speaks of.

use forebay_model::Replication;
use forebay_tests::table::Line;
use std::fmt::Display;

/// Replications of every setting. Many short ones rather than few long ones: Student's factor is then
/// within 5 % of its limit.
pub(crate) const REPLICATIONS: u32 = 64;

/// Share of a replication that is cut off as warm-up. The shortest replication of every family is
/// hundreds of relaxation times long, so that this is many of them.
const WARM: f64 = 0.03;

/// A scenario with settings, run once for all lines that speak of it.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) base: &'static str,
    pub(crate) sets: Vec<String>,
    /// Arrivals per second: with the number of requests, how long it runs.
    pub(crate) rate_per_s: f64,
    /// Requests measured, over all replications.
    pub(crate) requests: f64,
    pub(crate) replications: u32,
    /// From this load on the interval may be wider.
    pub(crate) load: f64,
    /// A run of exactly this length from an empty start, instead of one in equilibrium, seconds.
    pub(crate) transient_s: Option<f64>,
    /// Points of the timeline per second.
    pub(crate) points_per_s: f64,
}

impl Setting {
    pub(crate) fn new(base: &'static str, rate_per_s: f64, load: f64) -> Self {
        Self {
            base,
            sets: Vec::new(),
            rate_per_s,
            requests: 1e6,
            replications: REPLICATIONS,
            load,
            transient_s: None,
            points_per_s: 0.0,
        }
    }

    /// With Poisson arrivals at its rate from the source `arrivals`.
    pub(crate) fn poisson(base: &'static str, rate_per_s: f64, load: f64) -> Self {
        Self::new(base, rate_per_s, load).set("workload.sources.arrivals.rate_per_s", rate_per_s)
    }

    pub(crate) fn set(mut self, path: &str, value: impl Display) -> Self {
        self.sets.push(format!("{path}={value}"));
        self
    }

    pub(crate) fn millions(mut self, millions: f64) -> Self {
        self.requests = millions * 1e6;
        self
    }

    /// Name of what is simulated, whatever its length.
    pub(crate) fn key(&self) -> String {
        format!("{} {:?} {:?} {}", self.base, self.sets, self.transient_s, self.points_per_s)
    }

    /// All settings, those of its length included.
    pub(crate) fn all_sets(&self) -> Vec<String> {
        let mut sets = self.sets.clone();
        if let Some(seconds) = self.transient_s {
            sets.extend([
                format!("run.duration_s={seconds:?}"),
                "run.warmup_s=0.0".to_owned(),
                "run.timeline_points=1".to_owned(),
            ]);
            return sets;
        }
        let measured_s = self.requests / self.rate_per_s / f64::from(self.replications);
        let warm_s = measured_s * WARM;
        let duration_s = measured_s + warm_s;
        let points = (duration_s * self.points_per_s).clamp(1.0, 100_000.0).floor();
        sets.extend([
            format!("run.duration_s={duration_s:?}"),
            format!("run.warmup_s={warm_s:?}"),
            format!("run.drain_s={duration_s:?}"),
            format!("run.timeline_points={points}"),
        ]);
        sets
    }
}

/// What a line's value is, which decides how near the simulation must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A mean or a variance.
    Moment,
    /// A probability or a share.
    Share,
    /// A quantile, read from a histogram.
    Quantile,
}

/// Reads what a line speaks of from a replication.
pub(crate) type Read = Box<dyn Fn(&Replication) -> Option<f64> + Send + Sync>;

/// What a line speaks of.
pub(crate) struct Measure {
    pub(crate) kind: Kind,
    pub(crate) read: Read,
}

/// A measure whose exact mean is known, by which another is corrected: see [`super::estimate`].
pub(crate) struct Control {
    pub(crate) measure: Measure,
    pub(crate) exact: f64,
}

/// A line as a simulation.
pub(crate) struct Expressed {
    pub(crate) setting: Setting,
    pub(crate) measure: Measure,
    pub(crate) control: Option<Control>,
}

impl Expressed {
    pub(crate) fn new(setting: Setting, measure: Measure) -> Self {
        Self { setting, measure, control: None }
    }

    /// With a control, if the line is of a tail or a variance: of those the mean explains most.
    pub(crate) fn with_control(mut self, line: &Line, measure: Measure, exact: f64) -> Self {
        if line.metric.contains("quantile") || line.metric.starts_with("Var") {
            self.control = Some(Control { measure, exact });
        }
        self
    }
}

impl Measure {
    pub(crate) fn new(
        kind: Kind,
        read: impl Fn(&Replication) -> Option<f64> + Send + Sync + 'static,
    ) -> Self {
        Self { kind, read: Box::new(read) }
    }

    /// A metric of the whole service.
    pub(crate) fn total(kind: Kind, name: &'static str) -> Self {
        Self::new(kind, move |run| run.metrics.get(name)?.value)
    }

    /// A metric of a stage or class.
    pub(crate) fn of(dimension: &'static str, key: &'static str, kind: Kind, name: &'static str) -> Self {
        Self::new(kind, move |run| run.by.get(dimension)?.get(key)?.get(name)?.value)
    }

    /// A metric of the stage `desk`, which is what every single station is called here.
    pub(crate) fn desk(kind: Kind, name: &'static str) -> Self {
        Self::of("stage", "desk", kind, name)
    }

    /// A function of what is read.
    pub(crate) fn map(self, f: impl Fn(f64) -> f64 + Send + Sync + 'static) -> Self {
        let read = self.read;
        Self::new(self.kind, move |run| read(run).map(&f))
    }

    /// The measures that several families share, by the table's name: of the number in the system, of
    /// the time in it, of the wait at the desk.
    pub(crate) fn common(metric: &str) -> Option<Self> {
        use Kind::{Moment, Quantile, Share};
        Some(match metric {
            "L" => Self::total(Moment, "in_system_mean"),
            "Var[N]" => Self::total(Moment, "in_system_variance"),
            "W" | "W (accepted)" | "W closed form" | "response time" => Self::total(Moment, "latency_mean_s"),
            "Lq" => Self::desk(Moment, "queue_mean"),
            "Wq" | "Wq (accepted)" | "E[wait] all customers" => Self::desk(Moment, "wait_mean_s"),
            "Var[Wq]" => Self::desk(Moment, "wait_variance_s2"),
            "Var[T]" => Self::total(Moment, "latency_sd_s").map(|sd| sd * sd),
            "P(wait>0)" | "P(wait)" => Self::desk(Share, "delayed_share"),
            "P(block)" => Self::desk(Share, "turned_away_share"),
            "P(reject)" | "P(abandon)" | "P(timeout)" => Self::total(Share, "error_rate"),
            "throughput" => Self::total(Moment, "throughput_per_s"),
            "W quantile 0.5" => Self::total(Quantile, "latency_p50_s"),
            "W quantile 0.95" => Self::total(Quantile, "latency_p95_s"),
            "W quantile 0.99" => Self::total(Quantile, "latency_p99_s"),
            "Wq quantile 0.95" => Self::desk(Quantile, "wait_p95_s"),
            "Wq quantile 0.99" => Self::desk(Quantile, "wait_p99_s"),
            _ => return None,
        })
    }
}
