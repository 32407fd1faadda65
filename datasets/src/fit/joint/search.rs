//! The search: Gauss's and Newton's method on absolute deviations, with differences for slopes.
//!
//! Simulated latencies are steps in the coefficients (a request makes this iteration or the next), so that
//! slopes are taken over stretches longer than the steps, from runs with slightly other coefficients side by
//! side; near saturation one coefficient's last digit decides who is preempted, and a fit must not live on
//! such luck. Simulations run in parallel; their results are added up in a fixed order, so that the number of
//! threads changes nothing.

use rayon::prelude::*;

use super::super::observed::ObservedRequest;
use super::super::replay::deviations;
use super::fleet::{Traced, replay_fleet, trace_fleet};
use super::history::{History, Served};
use super::linear::{Row, least_deviations};
use super::segment::Segment;
use super::sketch::PARTS;
use super::space::{Axis, Model, Parameter, Space};

/// Weight of the bias of each latency against the deviations.
const BIAS_WEIGHT: f64 = 1.0;
/// Deviations below this share of the mean are all the same: logs are not exacter.
const SPREAD_FLOOR: f64 = 1e-5;
/// Gain below which differences are taken over shorter stretches.
const GAIN_MIN: f64 = 3e-3;
/// Shares of a step that are tried.
const STRIDES: [f64; 6] = [1.5, 1.0, 0.6, 0.3, 0.1, 0.03];

/// Steps of the settling, their share and their longest.
const SETTLING: usize = 24;
const SETTLING_SHARE: f64 = 0.5;
const SETTLING_STRIDE: f64 = 0.1;

/// What a fit is measured against.
pub(super) struct Target<'a> {
    segments: &'a [Segment],
    /// One over (mean of the latency times the number of requests), for first token, last token and time
    /// per token.
    scales: [f64; 3],
    /// Relative changes of the constant part, and opposite of the prefill part, in the runs averaged over.
    jitters: &'a [f64],
}

/// Deviations of the requests that count, in order, s.
pub(super) type Deviations = Vec<[f64; 3]>;

impl<'a> Target<'a> {
    pub(super) fn new(segments: &'a [Segment], jitters: &'a [f64]) -> Self {
        let observed = || segments.iter().flat_map(Segment::observed);
        let scale = |of: fn(&ObservedRequest) -> f64| 1.0 / observed().map(of).sum::<f64>().max(1e-9);
        let scales = [
            scale(ObservedRequest::ttft_s),
            scale(ObservedRequest::latency_s),
            scale(ObservedRequest::tpot_s),
        ];
        Self { segments, scales, jitters }
    }

    fn with_jitters<'b>(&'b self, jitters: &'b [f64]) -> Target<'b> {
        Target { jitters, segments: self.segments, scales: self.scales }
    }

    /// The mean deviations over the jittered runs of each model; none where a request is refused or a
    /// setting is out of its range.
    pub(super) fn deviations(&self, models: &[Model]) -> Vec<Option<Deviations>> {
        let runs: Vec<(usize, f64, &Segment)> = (0..models.len())
            .flat_map(|model| self.jitters.iter().map(move |jitter| (model, *jitter)))
            .flat_map(|(model, jitter)| self.segments.iter().map(move |segment| (model, jitter, segment)))
            .collect();
        let done: Vec<Option<Deviations>> = runs
            .par_iter()
            .map(|(model, jitter, segment)| one_run(&models[*model], *jitter, segment))
            .collect();
        let per_model = self.jitters.len() * self.segments.len();
        done.chunks(per_model).map(|runs| self.mean(runs)).collect()
    }

    fn mean(&self, runs: &[Option<Deviations>]) -> Option<Deviations> {
        let share = 1.0 / self.jitters.len() as f64;
        let mut mean: Deviations = Vec::new();
        for run in runs.chunks(self.segments.len()) {
            let mut index = 0;
            for part in run {
                for deviation in part.as_ref()? {
                    if index == mean.len() {
                        mean.push([0.0; 3]);
                    }
                    (0..3).for_each(|which| mean[index][which] += deviation[which] * share);
                    index += 1;
                }
            }
        }
        Some(mean)
    }

    /// For each of the three latencies, the mean deviation and the bias, as shares of the mean.
    fn spreads(&self, deviations: &Deviations) -> [[f64; 2]; 3] {
        [0, 1, 2].map(|which| {
            let shares = deviations.iter().map(|deviation| deviation[which] * self.scales[which]);
            shares.fold([SPREAD_FLOOR, 0.0], |[spread, bias], share| [spread + share.abs(), bias + share])
        })
    }

    pub(super) fn loss(&self, deviations: Option<&Deviations>) -> f64 {
        let Some(deviations) = deviations else { return f64::INFINITY };
        let parts = self
            .spreads(deviations)
            .map(|[spread, bias]| libm::log(spread) + BIAS_WEIGHT * bias.abs() / spread);
        let loss = parts.into_iter().sum::<f64>();
        if loss.is_nan() { f64::INFINITY } else { loss }
    }

    /// How much the loss of one run depends on luck: its standard deviation over the jittered runs.
    pub(super) fn luck(&self, model: &Model) -> f64 {
        let losses: Vec<f64> = self
            .jitters
            .iter()
            .map(|&jitter| self.with_jitters(&[jitter]).losses(std::slice::from_ref(model))[0])
            .collect();
        let mean = losses.iter().sum::<f64>() / losses.len() as f64;
        (losses.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / losses.len() as f64).sqrt()
    }

    /// How far the times to first token are from those observed, whoever has them: the mean difference of the
    /// sorted ones, as a share of the mean.
    pub(super) fn first_token_distance(&self, model: &Model) -> f64 {
        let observed: Vec<f64> =
            self.segments.iter().flat_map(Segment::observed).map(ObservedRequest::ttft_s).collect();
        let Some(deviations) = self.with_jitters(&[0.0]).deviations(std::slice::from_ref(model)).remove(0)
        else {
            return f64::INFINITY;
        };
        let sorted = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times
        };
        let simulated =
            observed.iter().zip(&deviations).map(|(time, deviation)| time + deviation[0]).collect();
        let pairs = sorted(observed.clone()).into_iter().zip(sorted(simulated));
        pairs.map(|(observed, simulated): (f64, f64)| (observed - simulated).abs()).sum::<f64>()
            * self.scales[0]
    }

    pub(super) fn losses(&self, models: &[Model]) -> Vec<f64> {
        self.deviations(models).iter().map(|deviations| self.loss(deviations.as_ref())).collect()
    }

    /// The rows of the linear model around a place, each request counted so many times.
    pub(super) fn rows(&self, around: &Slopes, counts: &dyn Fn(usize) -> f64) -> Vec<Row> {
        let axes = around.slopes.len();
        let weights = self.spreads(&around.deviations).map(|[spread, _]| 1.0 / spread);
        let mut rows = Vec::with_capacity(3 * around.deviations.len() + 3);
        let mut bias: Vec<Row> = weights
            .map(|weight| Row { value: 0.0, slopes: vec![0.0; axes], weight: BIAS_WEIGHT * weight })
            .to_vec();
        for (index, deviation) in around.deviations.iter().enumerate() {
            let count = counts(index);
            if count == 0.0 {
                continue;
            }
            for which in 0..3 {
                let slopes: Vec<f64> =
                    around.slopes.iter().map(|axis| axis[index][which] * self.scales[which]).collect();
                let value = deviation[which] * self.scales[which];
                bias[which].value += count * value;
                bias[which].slopes.iter_mut().zip(&slopes).for_each(|(sum, slope)| *sum += count * slope);
                rows.push(Row { value, slopes, weight: count * weights[which] });
            }
        }
        rows.extend(bias);
        rows
    }

    /// Deviations and their slopes at a place. Those along the cost come from what the iterations computed,
    /// unless `differences` are asked for; others from differences over `reach` to both sides.
    pub(super) fn slopes(
        &self,
        space: &Space,
        place: &[f64],
        reach: f64,
        differences: bool,
    ) -> Option<Slopes> {
        let centre_model = space.at(place);
        let work = self.work(&centre_model)?;
        let mut models = vec![centre_model];
        let mut spans = Vec::new();
        let by_differences =
            |axis: &Axis| axis.parameter != Parameter::Entry && (differences || axis.part().is_none());
        for (index, axis) in space.axes.iter().enumerate().filter(|(_, axis)| by_differences(axis)) {
            for end in [(place[index] - reach).max(axis.low), (place[index] + reach).min(axis.high)] {
                let mut there = place.to_vec();
                there[index] = end;
                models.push(space.at(&there));
            }
            // As the model took them: some numbers are whole.
            let taken = [models.len() - 2, models.len() - 1].map(|model| axis.parameter.of(&models[model]));
            spans.push((taken[1] - taken[0]) / axis.unit);
        }
        let mut runs = self.deviations(&models).into_iter();
        let centre = runs.next()??;
        let (mut slopes, mut spans) = (Vec::with_capacity(space.axes.len()), spans.into_iter());
        for axis in &space.axes {
            if axis.parameter == Parameter::Entry {
                slopes.push(vec![[axis.unit, axis.unit, 0.0]; centre.len()]);
                continue;
            }
            if let Some(part) = axis.part().filter(|_| !differences) {
                slopes.push(work.iter().map(|work| work.map(|latency| latency[part] * axis.unit)).collect());
                continue;
            }
            let (ends, mut span) = ([runs.next()?, runs.next()?], spans.next()?);
            // One end is none where a request no longer fits: the other half is all there is.
            if ends.iter().any(Option::is_none) {
                span /= 2.0;
            }
            let [low, high] = ends.map(|end| end.unwrap_or_else(|| centre.clone()));
            let over = if span > 0.0 { 1.0 / span } else { 0.0 };
            let both = low.iter().zip(&high);
            slopes.push(
                both.map(|(low, high)| [0, 1, 2].map(|which| (high[which] - low[which]) * over)).collect(),
            );
        }
        Some(Slopes { deviations: centre, slopes })
    }

    /// How the latencies of the requests that count depend on the parts of the cost, the schedule as it is.
    fn work(&self, model: &Model) -> Option<Vec<[[f64; PARTS]; 3]>> {
        let parts: Vec<Option<Vec<_>>> =
            self.segments.par_iter().map(|segment| work_of(model, segment)).collect();
        parts.into_iter().collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    }
}

/// First token, last token and time per token of the requests that count.
fn work_of(model: &Model, segment: &Segment) -> Option<Vec<[[f64; PARTS]; 3]>> {
    let delay_s = if segment.opens_log { model.start_delay_s } else { 0.0 };
    let traced = trace_fleet(segment, &model.fleet, delay_s).ok()?;
    let per_token_s = mean_tpot_s(segment, &traced);
    let histories: Vec<History> = (0..traced.engines as u32)
        .map(|engine| {
            let all = segment.requests.iter().zip(traced.replayed.iter().zip(&traced.engine));
            let own = all.filter(|(_, (replayed, of))| **of == engine && replayed.first_token_s.is_finite());
            History::new(own.map(|(request, (replayed, _))| Served {
                tokens_in: request.tokens_in,
                tokens_out: request.tokens_out,
                first_token_s: replayed.first_token_s,
                // Those that were not over when the replay ended go on at the usual pace.
                last_token_s: if replayed.last_token_s.is_finite() {
                    replayed.last_token_s
                } else {
                    replayed.first_token_s + per_token_s * f64::from(request.tokens_out)
                },
            }))
        })
        .collect();
    let counted = segment.judged.clone().map(|index| {
        let (request, replayed) = (&segment.requests[index], &traced.replayed[index]);
        let history = &histories[traced.engine[index] as usize];
        let [arrived, first, last] = traced.steps[index].map(|steps| steps as f64);
        let waiting = history.stretch(request.arrival_s, replayed.first_token_s);
        // On average half of the iteration that it arrived in was over.
        let to_first = waiting.slopes(first - arrived - 0.5 * waiting.decoding.min(1.0));
        let answering = history.stretch(replayed.first_token_s, replayed.last_token_s);
        let answer = answering.slopes(last - first);
        let tokens = f64::from(request.tokens_out.max(2) - 1);
        let to_last = std::array::from_fn(|part| to_first[part] + answer[part]);
        [to_first, to_last, answer.map(|slope| slope / tokens)]
    });
    Some(counted.collect())
}

fn mean_tpot_s(segment: &Segment, traced: &Traced) -> f64 {
    let over = segment
        .requests
        .iter()
        .zip(&traced.replayed)
        .filter(|(_, replayed)| replayed.last_token_s.is_finite());
    let sums = over.fold((0.0, 0.0), |(time_s, tokens), (request, replayed)| {
        (time_s + replayed.last_token_s - replayed.first_token_s, tokens + f64::from(request.tokens_out))
    });
    sums.0 / sums.1.max(1.0)
}

/// Deviations at a place, and how they change along each axis.
pub(super) struct Slopes {
    pub(super) deviations: Deviations,
    pub(super) slopes: Vec<Deviations>,
}

fn one_run(model: &Model, jitter: f64, segment: &Segment) -> Option<Deviations> {
    let mut fleet = model.fleet.clone();
    fleet.engine.cost.c0_s *= 1.0 + jitter;
    fleet.engine.cost.per_prefill_token_s *= 1.0 - jitter;
    let delay_s = if segment.opens_log { model.start_delay_s } else { 0.0 };
    let (replayed, _) = replay_fleet(segment, &fleet, delay_s).ok()?;
    let pairs = segment.observed().iter().zip(&replayed[segment.judged.clone()]);
    let found: Deviations =
        pairs.map(|(observed, replayed)| deviations(observed, &replayed.later_by(model.entry_s))).collect();
    found.iter().flatten().all(|deviation| deviation.is_finite()).then_some(found)
}

/// How a search goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Rounds at most.
    pub(super) rounds: usize,
    /// Reach of the differences at first, and at last.
    pub(super) reach: [f64; 2],
    /// Longest step on an axis.
    pub(super) stride: f64,
    /// Take slopes along the cost from differences too: where requests are preempted the schedule matters.
    pub(super) differences: bool,
}

/// Goes downhill from a place. Returns the lowest place found and its loss.
pub(super) fn descend(target: &Target, space: &Space, start: Vec<f64>, tempo: Pace) -> (Vec<f64>, f64) {
    let mut place = start;
    let mut loss = target.losses(&[space.at(&place)])[0];
    let (mut reach, mut stride, differences) = (tempo.reach[0], tempo.stride, tempo.differences);
    for _ in 0..tempo.rounds {
        let Some(slopes) = target.slopes(space, &place, reach, differences) else { break };
        let rows = target.rows(&slopes, &|_| 1.0);
        let bound = |side: f64| -> Vec<f64> {
            let axes = space.axes.iter().zip(&place);
            axes.map(|(axis, value)| (side * stride).clamp(axis.low - value, axis.high - value)).collect()
        };
        let step = least_deviations(&rows, &bound(-1.0), &bound(1.0));
        let tried: Vec<Vec<f64>> = STRIDES
            .iter()
            .map(|share| {
                let axes = space.axes.iter().zip(place.iter().zip(&step));
                axes.map(|(axis, (value, step))| (value + share * step).clamp(axis.low, axis.high)).collect()
            })
            .collect();
        let models: Vec<Model> = tried.iter().map(|place| space.at(place)).collect();
        let losses = target.losses(&models);
        let best = (0..losses.len()).min_by(|a, b| losses[*a].total_cmp(&losses[*b])).unwrap_or(0);
        let gain = loss - losses[best];
        if gain > 0.0 {
            place.clone_from(&tried[best]);
            loss = losses[best];
        }
        if gain <= GAIN_MIN {
            if reach <= tempo.reach[1] {
                break;
            }
            reach = (reach / 2.0).max(tempo.reach[1]);
            stride /= 2.0;
        }
    }
    (place, loss)
}

/// Full steps whose loss is not looked at, from a place near the lowest: in the last digits a loss is luck,
/// and where the steps' mean comes to rest is not. Returns the mean of the later half, and its loss.
pub(super) fn settle(target: &Target, space: &Space, start: &[f64], reach: f64) -> (Vec<f64>, f64) {
    let differences = false;
    let mut place = start.to_vec();
    let mut sum = vec![0.0; place.len()];
    for round in 0..SETTLING {
        let Some(slopes) = target.slopes(space, &place, reach, differences) else {
            return (start.to_vec(), f64::INFINITY);
        };
        let rows = target.rows(&slopes, &|_| 1.0);
        let bound = |side: f64| -> Vec<f64> {
            let axes = space.axes.iter().zip(&place);
            axes.map(|(axis, value)| (side * SETTLING_STRIDE).clamp(axis.low - value, axis.high - value))
                .collect()
        };
        let step = least_deviations(&rows, &bound(-1.0), &bound(1.0));
        for (axis, (value, step)) in space.axes.iter().zip(place.iter_mut().zip(&step)) {
            *value = (*value + SETTLING_SHARE * step).clamp(axis.low, axis.high);
        }
        if round >= SETTLING / 2 {
            sum.iter_mut()
                .zip(&place)
                .for_each(|(sum, value)| *sum += value / (SETTLING - SETTLING / 2) as f64);
        }
    }
    let loss = target.losses(&[space.at(&sum)])[0];
    (sum, loss)
}
