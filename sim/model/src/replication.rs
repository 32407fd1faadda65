//! One replication, run and measured: what the workbench averages, compares and shows.

use crate::accounts::alerts::RaisedAlert;
use crate::metrics::{self, Metrics};
use crate::outcome::{Digest, Ledger};
use crate::request_log::LoggedRequest;
use crate::scenario::Loaded;
use crate::service::{BuildError, Service};
use crate::shadow::ShadowReport;
use crate::spans::{Names, Recorder, RequestSpans};
use crate::timeline::{Mark, Point};
use forebay_engine::{Simulation, Span, Stop, Time};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

/// Everything that one replication gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replication {
    /// Hash over all ends in order.
    pub digest: Digest,
    /// Events that were handled.
    pub events: u64,
    /// When the last one was, seconds.
    pub simulated_s: f64,
    /// How every request ended.
    pub ledger: Ledger,
    /// Measured values, by name.
    pub metrics: Metrics,
    /// The same by class, tier, level, endpoint, tenant and stage; then by key.
    pub by: IndexMap<String, IndexMap<String, Metrics>>,
    /// The timeline.
    pub timeline: Vec<Point>,
    /// What began and ended in it: faults, and processes that were killed.
    #[serde(default)]
    pub marks: Vec<Mark>,
    /// Alerts that were raised; of very many the first ones.
    #[serde(default)]
    pub alerts: Vec<RaisedAlert>,
    /// Where the shadow and the live policy differ; absent without a shadow.
    #[serde(default)]
    pub shadow: Option<ShadowReport>,
    /// What does not hold that must: empty in a sound run.
    pub violations: Vec<String>,
}

/// Runs one replication to its end.
///
/// # Errors
/// When the scenario cannot be built, or its clock stands still.
pub fn simulate(loaded: &Loaded, seed: u64, replication: u64) -> Result<Replication, RunError> {
    finish(Service::simulation(loaded, seed, replication)?, loaded)
}

/// Runs one replication to its end and follows so many of its requests, evenly spread over all births;
/// all of them, when there are no more. Everything else is as [`simulate`] gives it.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_with_spans(
    loaded: &Loaded,
    seed: u64,
    replication: u64,
    requests: u32,
) -> Result<(Replication, Vec<RequestSpans>), RunError> {
    let following = Following { spans: requests, log: false };
    let followed = simulate_followed(loaded, seed, replication, following)?;
    Ok((followed.replication, followed.spans))
}

/// What is to be kept of single requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Following {
    /// So many requests, evenly spread over all births, are followed with their spans.
    pub spans: u32,
    /// Every request's end is logged.
    pub log: bool,
}

/// A replication with what was kept of single requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// The replication, as [`simulate`] gives it.
    pub replication: Replication,
    /// The requests that were followed.
    pub spans: Vec<RequestSpans>,
    /// All requests that had their end, in order of birth; empty if none were to be logged.
    pub log: Vec<LoggedRequest>,
}

/// Runs one replication to its end and keeps of its requests what was asked for. Everything else is as
/// [`simulate`] gives it.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_followed(
    loaded: &Loaded,
    seed: u64,
    replication: u64,
    following: Following,
) -> Result<Followed, RunError> {
    let mut simulation = Service::simulation(loaded, seed, replication)?;
    let warm = simulation.world.plan.warm;
    if following.spans > 0 {
        let recorder = Recorder::new(Names::new(&loaded.scenario), warm, following.spans);
        simulation.world.spans.begin(recorder);
    }
    if following.log {
        simulation.world.log.begin(Names::new(&loaded.scenario));
    }
    run(&mut simulation, loaded)?;
    let replication = measured(&simulation, loaded);
    let spans = simulation.world.spans.take(simulation.calendar.now());
    Ok(Followed { replication, spans, log: simulation.world.log.take() })
}

/// Runs a replication that has begun to its end: one that was stepped, or forked into a what-if.
///
/// # Errors
/// When its clock stands still.
pub fn finish(mut simulation: Simulation<Service>, loaded: &Loaded) -> Result<Replication, RunError> {
    run(&mut simulation, loaded)?;
    Ok(measured(&simulation, loaded))
}

/// Why a replication could not be run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The scenario cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// So many events at one instant that the clock no longer advances.
    #[error(
        "the clock stands still at {at_s} s after {events} events at that instant: look for a service \
         time, a think time or a gap of zero"
    )]
    Stuck {
        /// The instant, seconds.
        at_s: f64,
        /// Events handled there.
        events: u64,
    },
}

fn run(simulation: &mut Simulation<Service>, loaded: &Loaded) -> Result<(), RunError> {
    let plan = &loaded.scenario.run;
    let end = Time::ZERO + Span::from_secs_f64(plan.duration_s);
    let last = end + Span::from_secs_f64(plan.drain_s);
    match simulation.run_until(last) {
        Stop::Stuck { at, events } => Err(RunError::Stuck { at_s: at.as_secs_f64(), events }),
        _ => Ok(()),
    }
}

/// What a simulation that has reached its end gives.
fn measured(simulation: &Simulation<Service>, loaded: &Loaded) -> Replication {
    let plan = &loaded.scenario.run;
    let end = Time::ZERO + Span::from_secs_f64(plan.duration_s);
    let now = simulation.calendar.now().max(end);
    let service = &simulation.world;
    let stages: Vec<String> = loaded.scenario.stages.keys().cloned().collect();
    let ledger = service.measure.tally.ledger(&stages, service.present);
    let mut replication = Replication {
        digest: service.measure.digest,
        events: simulation.calendar.fired(),
        simulated_s: now.as_secs_f64(),
        metrics: metrics::total(service, loaded),
        by: metrics::breakdowns(service, loaded),
        timeline: service.timeline.points.clone(),
        marks: service.timeline.marks.clone(),
        alerts: service.accounts.alerts.raised(loaded.scenario.workload.classes.keys()),
        shadow: service.shadow_report(loaded),
        violations: violations(service, &ledger, &stages, now),
        ledger,
    };
    // What was in flight when the run stopped is part of the outcome.
    replication.digest.fold(replication.ledger.in_flight_at_end);
    replication
}

/// What must hold in every run: every request has one end, Little's law to the nanosecond, all that was
/// acquired is released by those who have ended, and no stage is busy with nobody.
pub(crate) fn violations(service: &Service, ledger: &Ledger, stages: &[String], now: Time) -> Vec<String> {
    let mut found = Vec::new();
    if ledger.accounted() != ledger.offered {
        found.push(format!("the ledger accounts for {} of {} requests", ledger.accounted(), ledger.offered));
    }
    let present: u128 = service
        .attempts
        .iter()
        .filter(|(_, attempt)| !attempt.orphan)
        .map(|(_, attempt)| u128::from(now.since(attempt.request.born).as_nanos()))
        .sum();
    let (sojourns, presence) = (service.measure.sojourn_ns + present, service.measure.presence(now));
    if sojourns != presence {
        found.push(format!("Little's law: sojourns sum to {sojourns} ns, presence to {presence} ns"));
    }
    let holders = service.attempts.iter().filter(|(_, attempt)| attempt.holds_slot).count();
    if holders != service.executor.busy as usize {
        found.push(format!("{} executor slots are taken by {holders} attempts", service.executor.busy));
    }
    if let Some(host) = &service.host {
        let threads = service.attempts.iter().filter(|(_, attempt)| attempt.has_thread).count();
        if threads as u64 != host.threads {
            found.push(format!("{} threads of the gateway serve {threads} attempts", host.threads));
        }
    }
    if service.attempts.iter().next().is_none() {
        for (name, _) in stages.iter().zip(&service.stages).filter(|(_, stage)| !stage.is_idle()) {
            found.push(format!("stages.{name} is not idle although nobody is there"));
        }
        for (index, device) in service.devices.iter().enumerate() {
            if device.holders() > 0 && device.rerank_busy == 0 {
                found.push(format!("device {index} still holds memory for {} calls", device.holders()));
            }
        }
    }
    found
}
