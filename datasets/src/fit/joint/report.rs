//! What a fit found, with its errors on what it saw and on what it did not.

use serde::{Deserialize, Serialize};

use super::super::observed::ObservedRequest;
use super::super::replay::{LatencyErrors, Replayed};
use super::arrange::{Found, peak_blocks};
use super::errors::standard_errors;
use super::fleet::{Fleet, Peaks, replay_fleet};
use super::search::Target;
use super::segment::Segment;
use super::space::{Model, Parameter};
use super::{EngineFlags, JointError};

/// Significant digits of what is reported: more than a fit knows, and what a calibration file holds, so that
/// the errors stated are those of the numbers as written.
const DIGITS: usize = 4;
/// Reach of the differences for standard errors, and the runs that they are averaged over.
const REACH: f64 = 0.05;
const JITTERS: [f64; 5] = [-0.004, -0.002, 0.0, 0.002, 0.004];

/// Losses that differ by less are alike.
const ALIKE: f64 = 0.6;

/// A fitted number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coefficient {
    /// Which.
    pub parameter: Parameter,
    /// The fit.
    pub value: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// 95 %.
    pub interval: [f64; 2],
}

/// What is known of the KV capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KvCapacity {
    /// It was told.
    Given,
    /// Inferred: requests wait although there are seats.
    Inferred,
    /// It never binds in the log: there are at least so many blocks.
    AtLeast,
}

/// A stretch of the log that was fitted or judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Place of its first request in the log, by arrival, from 0.
    pub first: usize,
    /// Requests.
    pub requests: usize,
    /// Arrivals of the first and the last, s from the log's first.
    pub arrivals_s: [f64; 2],
    /// Requests of the warm-up before it and taken along.
    pub warm_up: usize,
}

/// A fitted fleet.
#[derive(Clone, Debug, PartialEq)]
pub struct JointFit {
    /// The engines, as they were in the log: with the share of prefix hits.
    pub fleet: Fleet,
    /// By how much the server was late on its very first iterations, s: a property of the logged run.
    pub start_delay_s: f64,
    /// What passed between clients and engines, there and back, s.
    pub entry_s: f64,
    /// What was fitted.
    pub coefficients: Vec<Coefficient>,
    /// What the KV blocks are.
    pub kv: KvCapacity,
    /// Most in use at once, over what was fitted and judged.
    pub peaks: Peaks,
    /// Requests in the log.
    pub requests: usize,
    /// Smallest and largest prompt and answer in it, tokens.
    pub range: [[u32; 2]; 2],
    /// What was fitted on.
    pub fitted_on: Vec<Window>,
    /// What judges.
    pub judged_on: Vec<Window>,
    /// The loss reached.
    pub loss: f64,
    /// Errors on what was fitted.
    pub fitted: LatencyErrors,
    /// Errors on what was not.
    pub held_out: LatencyErrors,
}

pub(super) fn report(
    log: &[ObservedRequest],
    fit: &[Segment],
    judge: &[Segment],
    flags: &EngineFlags,
    found: Found,
) -> Result<JointFit, JointError> {
    let Found { space, place, loss } = found;
    let mut model = space.at(&place);
    for axis in space.axes.iter().filter(|axis| axis.parameter != Parameter::KvBlocks) {
        let value = round_to(axis.parameter.of(&model));
        axis.parameter.set(&mut model, value);
    }
    let target = Target::new(fit, &JITTERS);
    let mut coefficients = Vec::new();
    if let Some(slopes) = target.slopes(&space, &place, REACH, false) {
        let (errors, factor) = standard_errors(&target, &space, &place, &slopes);
        for (axis, error) in space.axes.iter().zip(errors) {
            let value = axis.parameter.of(&model);
            // A capacity is a whole number of blocks, of which several do as well as each other.
            let unresolved =
                if axis.parameter == Parameter::KvBlocks { alike(&target, &model) / factor } else { 0.0 };
            let error = (error * axis.unit).max(unresolved);
            let interval = [(value - factor * error).max(0.0), value + factor * error].map(round_to);
            let parameter = axis.parameter;
            // It happened once: no resampling tells how exact it is.
            if parameter == Parameter::StartDelay {
                continue;
            }
            coefficients.push(Coefficient { parameter, value, standard_error: round_to(error), interval });
        }
    }
    let kv = match flags.kv_blocks {
        Some(_) => KvCapacity::Given,
        None if space.has(Parameter::KvBlocks) => KvCapacity::Inferred,
        None => KvCapacity::AtLeast,
    };
    if kv == KvCapacity::AtLeast {
        // What the log's own arrivals put into the cache; the latencies of the judging half say nothing here.
        let used = peak_blocks(fit, &model).max(peak_blocks(judge, &model));
        model.fleet.engine.kv_blocks = u32::try_from(used).unwrap_or(u32::MAX);
    }
    let (fitted, seen) = judged(fit, &model)?;
    let (held_out, unseen) = judged(judge, &model)?;
    Ok(JointFit {
        start_delay_s: model.start_delay_s,
        entry_s: model.entry_s,
        fleet: model.fleet,
        coefficients,
        kv,
        peaks: Peaks {
            kv_blocks: seen.kv_blocks.max(unseen.kv_blocks),
            running: seen.running.max(unseen.running),
            preemptions: seen.preemptions.max(unseen.preemptions),
        },
        requests: log.len(),
        range: range(log),
        fitted_on: fit.iter().map(window).collect(),
        judged_on: judge.iter().map(window).collect(),
        loss,
        fitted,
        held_out,
    })
}

/// By how many blocks the cache can be smaller or larger and the log be met as well, for all one can tell.
fn alike(target: &Target, model: &Model) -> f64 {
    let blocks = model.fleet.engine.kv_blocks;
    let least = target.losses(std::slice::from_ref(model))[0];
    let mut apart = 1;
    while apart < blocks / 4 {
        let sides = [blocks - apart, blocks + apart].map(|blocks| {
            let mut model = model.clone();
            model.fleet.engine.kv_blocks = blocks;
            model
        });
        if target.losses(&sides).into_iter().all(|loss| loss > least + ALIKE) {
            break;
        }
        apart *= 2;
    }
    f64::from(apart)
}

fn range(log: &[ObservedRequest]) -> [[u32; 2]; 2] {
    [|request: &ObservedRequest| request.tokens_in, |request: &ObservedRequest| request.tokens_out].map(
        |of| {
            let lengths = || log.iter().map(of);
            [lengths().min().unwrap_or(0), lengths().max().unwrap_or(0)]
        },
    )
}

fn window(segment: &Segment) -> Window {
    Window {
        first: segment.first,
        requests: segment.judged.len(),
        arrivals_s: segment.span_s(),
        warm_up: segment.judged.start,
    }
}

/// Errors over all segments together.
fn judged(segments: &[Segment], model: &Model) -> Result<(LatencyErrors, Peaks), JointError> {
    let (mut observed, mut simulated): (Vec<ObservedRequest>, Vec<Replayed>) = (Vec::new(), Vec::new());
    let mut most = Peaks::default();
    for segment in segments {
        let delay_s = if segment.opens_log { model.start_delay_s } else { 0.0 };
        let (replayed, peaks) = replay_fleet(segment, &model.fleet, delay_s)?;
        observed.extend_from_slice(segment.observed());
        let counted = &replayed[segment.judged.clone()];
        simulated.extend(counted.iter().map(|replayed| replayed.later_by(model.entry_s)));
        most.kv_blocks = most.kv_blocks.max(peaks.kv_blocks);
        most.running = most.running.max(peaks.running);
        most.preemptions += peaks.preemptions;
    }
    Ok((LatencyErrors::new(&observed, &simulated), most))
}

/// Rounds to significant digits, through text: exactly what would be read back.
fn round_to(value: f64) -> f64 {
    format!("{value:.*e}", DIGITS - 1).parse().expect("a number printed by Rust reads back")
}
