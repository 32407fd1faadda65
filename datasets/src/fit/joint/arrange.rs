//! Which arrangement of engines fits, and the search to its end.

use forebay_model::llm::batching::IterationCost;

use super::super::observed::ObservedRequest;
use super::fleet::{Fleet, Spread, replay_fleet};
use super::search::{Pace, Target, descend, settle};
use super::segment::Segment;
use super::sketch::{Sketch, sketch};
use super::space::{Model, Parameter, Space};
use super::{EngineFlags, JointError};

/// Numbers of engines that are tried when none is given.
const REPLICAS: [u32; 4] = [1, 2, 4, 8];
/// Runs that a loss is averaged over: for a quick look, and to the end.
const QUICK: [f64; 1] = [0.0];
const FULL: [f64; 5] = [-0.004, -0.002, 0.0, 0.002, 0.004];
const FEW: [f64; 3] = [-0.003, 0.0, 0.003];
/// Shares of the most blocks that were in use without a limit, as limits.
const CACHES: [f64; 12] = [0.97, 0.9, 0.82, 0.74, 0.66, 0.58, 0.5, 0.42, 0.34, 0.26, 0.18, 0.1];
/// Costs around the first idea that are tried too.
const AROUND: [f64; 4] = [1.0, 0.8, 0.6, 1.25];
/// Shares of an iteration that are constant in further starts, and what each of sequences and their tokens gets
/// of the rest: prefill has a part of it too.
const CONSTANT: [f64; 4] = [0.8, 0.6, 0.45, 0.3];
const SEQUENCE: f64 = 0.35;
/// Shares of hits in the prefix cache that are tried; the unit of a search, and the most.
const HITS: [f64; 6] = [0.005, 0.02, 0.15, 0.3, 0.5, 0.75];
const HITS_UNIT: f64 = 0.2;
const HITS_MAX: f64 = 0.95;
/// How much a search tries: starts, and ends of these that are searched on from.
#[derive(Clone, Copy)]
struct Effort {
    starts: usize,
    kept: usize,
}
/// Of one arrangement on a short log, of many arrangements, and on windows of a long log, which hold more than
/// a short log does and take longer.
const THOROUGH: Effort = Effort { starts: 5, kept: 3 };
const BROAD: Effort = Effort { starts: 2, kept: 2 };
const LARGE: Effort = Effort { starts: 2, kept: 1 };
/// By how much a loss must fall for a cache that binds, for more than one engine, and for a further
/// coefficient.
const CACHE_GAIN: f64 = 0.4;
const REPLICA_GAIN: f64 = 0.3;
const FURTHER_GAIN: f64 = 0.3;
/// The short search, and the long one.
const SHORT: Pace = Pace { rounds: 5, reach: [0.08, 0.04], stride: 0.4, differences: false };
const LONG: Pace = Pace { rounds: 14, reach: [0.08, 0.03], stride: 0.3, differences: false };
const BY_DIFFERENCES: Pace = Pace { differences: true, ..LONG };
/// A cache binds only where, without a limit, first tokens come at other times than observed by more than this
/// share of their mean.
const LATE_MIN: f64 = 0.05;
/// By how many times its luck a loss must be better besides.
const LUCK: f64 = 0.5;
/// By how much more than the best a kind may lose after the short search.
const BEHIND: f64 = 3.0;
/// Reach of the last steps, and by how much the loss may rise on them: the lowest loss is a lucky one.
const SETTLE_REACH: f64 = 0.05;
const SETTLE_LOSS: f64 = 0.6;
/// Longest way between client and engine, s.
const ENTRY_MAX_S: f64 = 2.0;
/// Iterations that the first request waits in vain for a server to count as cold.
const COLD: f64 = 2.0;

/// What was found.
pub(super) struct Found {
    pub(super) space: Space,
    pub(super) place: Vec<f64>,
    pub(super) loss: f64,
}

impl Found {
    fn model(&self) -> Model {
        self.space.at(&self.place)
    }

    /// Whether there are several engines, and whether their caches bind.
    fn kind(&self) -> (bool, bool) {
        let room = self.space.has(Parameter::KvBlocks) || self.space.has(Parameter::PrefixHits);
        (self.replicas() > 1, room)
    }

    fn replicas(&self) -> u32 {
        self.space.base.fleet.replicas
    }
}

/// Finds the arrangement and the numbers that the fitted part of a log shows.
pub(super) fn best(fit: &[Segment], flags: &EngineFlags) -> Result<Found, JointError> {
    // On a long log the busiest window is enough to tell arrangements apart.
    let busiest = (0..fit.len()).max_by_key(|&window| fit[window].judged.start).unwrap_or(0);
    let scanned = &fit[busiest..=busiest];
    let quick = Target::new(scanned, &QUICK);
    let arrangements = arrangements(flags);
    let effort = match (fit.len(), arrangements.len()) {
        (1, 1) => THOROUGH,
        (1, _) => BROAD,
        _ => LARGE,
    };
    let mut found: Vec<Found> = arrangements
        .into_iter()
        .flat_map(|(replicas, spread)| candidates(&quick, scanned, flags, (replicas, spread), effort))
        .filter(|found| found.loss.is_finite())
        .collect();
    if found.is_empty() {
        return Err(JointError::Unservable(unservable(fit, flags)));
    }
    // The best of each kind: engines alone or several, caches that bind or not.
    found.sort_by(|a, b| a.loss.total_cmp(&b.loss));
    let full = Target::new(fit, if fit.len() == 1 { &FULL } else { &FEW });
    let mut kinds: Vec<Vec<Found>> = Vec::new();
    for found in found {
        match kinds.iter_mut().find(|kind| kind[0].kind() == found.kind()) {
            Some(kind) if kind.len() < effort.kept => kind.push(found),
            Some(_) => {}
            None => kinds.push(vec![found]),
        }
    }
    // Found sorted, so that the first of a kind is its best; a kind that is far behind will not catch up.
    let least = kinds.iter().map(|kind| kind[0].loss).fold(f64::INFINITY, f64::min);
    kinds.retain(|kind| kind[0].loss < least + BEHIND);
    let best_of = |kind: Vec<Found>| {
        let searched = kind.into_iter().map(|found| unbound(fit, flags, search_long(&full, found)));
        searched.min_by(|a, b| a.loss.total_cmp(&b.loss)).map(|best| finish(&full, best, effort))
    };
    let best = kinds.into_iter().filter_map(best_of).reduce(|a, b| simpler(&full, a, b));
    best.ok_or_else(|| JointError::Unservable(unservable(fit, flags)))
}

/// The simpler of two, unless the other is better by more than luck.
fn simpler(target: &Target, a: Found, b: Found) -> Found {
    let (simple, other) = if a.kind() <= b.kind() { (a, b) } else { (b, a) };
    let gain = simple.loss - other.loss;
    let better = if other.space.has(Parameter::KvBlocks) && !simple.space.has(Parameter::KvBlocks) {
        // Whose first token is late is luck where engines are many; how many are late is not.
        let [open, bound] = [&simple, &other].map(|found| target.first_token_distance(&found.model()));
        open > LATE_MIN && bound < open && gain > CACHE_GAIN
    } else {
        let asked = if other.replicas() > 1 && simple.replicas() == 1 { REPLICA_GAIN } else { CACHE_GAIN };
        gain > asked + LUCK * target.luck(&simple.model()).max(target.luck(&other.model()))
    };
    if better { other } else { simple }
}

/// A limit that was never reached is none.
fn unbound(fit: &[Segment], flags: &EngineFlags, found: Found) -> Found {
    let (_, engine) = found.model().fleet.engines();
    if !found.space.has(Parameter::KvBlocks)
        || peak_blocks(fit, &found.model()) >= u64::from(engine.kv_blocks)
    {
        return found;
    }
    let axes = found.space.axes.iter().zip(&found.place);
    let (axes, place) = axes.filter(|(axis, _)| axis.parameter != Parameter::KvBlocks).unzip();
    let mut space = Space { axes, base: found.space.base };
    space.base.fleet.engine.kv_blocks = ample(fit, flags);
    Found { space, place, loss: found.loss }
}

fn search_long(target: &Target, found: Found) -> Found {
    let mut best = found;
    for pace in [LONG, BY_DIFFERENCES, LONG] {
        let (place, loss) = descend(target, &best.space, best.place.clone(), pace);
        best = Found { place, loss, ..best };
    }
    best
}

/// Further coefficients, and the last steps.
fn finish(target: &Target, best: Found, effort: Effort) -> Found {
    let best = further(target, best, effort);
    let (place, loss) = settle(target, &best.space, &best.place, SETTLE_REACH);
    let luck = target.luck(&best.model());
    if loss < best.loss + SETTLE_LOSS + luck { Found { place, loss, ..best } } else { best }
}

fn unservable(fit: &[Segment], flags: &EngineFlags) -> String {
    let longest = fit
        .iter()
        .flat_map(Segment::observed)
        .map(|r| r.tokens_in.saturating_add(r.tokens_out))
        .max()
        .unwrap_or(0);
    let needed = longest.div_ceil(flags.block_tokens.max(1));
    format!(
        "the log cannot come from such an engine: its longest request holds {longest} tokens, {needed} blocks; \
         give kv_blocks and block_tokens as the server printed them"
    )
}

/// Numbers of engines and ways to spread over them.
fn arrangements(flags: &EngineFlags) -> Vec<(u32, Spread)> {
    let counts = flags.replicas.map_or_else(|| REPLICAS.to_vec(), |replicas| vec![replicas]);
    let spreads = flags.spread.map_or_else(
        || vec![Spread::LeastLoaded, Spread::RoundRobin, Spread::Lockstep],
        |spread| vec![spread],
    );
    let pairs = counts.iter().flat_map(|&count| spreads.iter().map(move |&spread| (count, spread)));
    pairs.enumerate().filter(|(index, (count, _))| *count > 1 || *index == 0).map(|(_, pair)| pair).collect()
}

/// The fits of one arrangement after a short search: with a cache that does not bind, and with one that does.
fn candidates(
    target: &Target,
    fit: &[Segment],
    flags: &EngineFlags,
    (replicas, spread): (u32, Spread),
    effort: Effort,
) -> Vec<Found> {
    let groups: Vec<&[ObservedRequest]> = fit.iter().map(Segment::observed).collect();
    let (engines, budget) = match spread {
        Spread::Lockstep => (1, flags.max_batched_tokens.saturating_mul(replicas)),
        Spread::RoundRobin | Spread::LeastLoaded => (replicas as usize, flags.max_batched_tokens),
    };
    let sketch = sketch(&groups, engines, budget);
    let open = flags.kv_blocks.unwrap_or_else(|| ample(fit, flags));
    let base = |share: f64| {
        let fleet = Fleet { engine: flags.engine(cost(&sketch, share), open), replicas, spread };
        Model { fleet, start_delay_s: 0.0, entry_s: 0.0 }
    };
    let mut starts: Vec<Model> = AROUND.iter().map(|&share| delayed(fit, base(share))).collect();
    for share in CONSTANT {
        let mut model = starts[0].clone();
        let (cost, scales) = (&mut model.fleet.engine.cost, sketch.scales);
        cost.c0_s = share * scales[0];
        cost.per_decode_sequence_s = (SEQUENCE * (1.0 - share) * scales[3]).min(0.01);
        cost.per_resident_token_s = (SEQUENCE * (1.0 - share) * scales[4]).min(0.01);
        starts.push(model);
    }
    let latency_s = mean_latency_s(fit);
    let open_space = Space::new(starts[0].clone(), &sketch);
    let open_space = open_space.with(Parameter::Entry, sketch.scales[0], 0.0, ENTRY_MAX_S);
    let cold = starts[0].start_delay_s > COLD * sketch.scales[0];
    if !cold {
        for model in &mut starts {
            model.start_delay_s = 0.0;
        }
    }
    let open_space = Space { base: starts[0].clone(), ..open_space };
    let open_space = if fit[0].opens_log && cold {
        open_space.with(Parameter::StartDelay, (0.2 * latency_s).max(sketch.scales[0]), 0.0, latency_s)
    } else {
        open_space
    };
    let search = |space: &Space, starts: &[Model]| {
        let losses = target.losses(starts);
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by(|a, b| losses[*a].total_cmp(&losses[*b]));
        let paces: &[Pace] =
            if effort.kept > 1 { &[SHORT, Pace { differences: true, ..SHORT }] } else { &[SHORT] };
        let mut ends: Vec<Found> = order
            .iter()
            .take(effort.starts)
            .flat_map(|&start| paces.iter().map(move |pace| (start, *pace)))
            .map(|(start, pace)| {
                let (place, loss) = descend(target, space, space.place(&starts[start]), pace);
                Found { space: space.clone(), place, loss }
            })
            .collect();
        ends.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        ends.truncate(effort.kept);
        ends
    };
    let unlimited = search(&open_space, &starts);
    if flags.kv_blocks.is_some() {
        // Where it binds, hits in the prefix cache make room, and leave their mark as much as its size does.
        let binds = unlimited
            .first()
            .is_some_and(|found| peak_blocks(fit, &found.model()) * 50 >= u64::from(open) * 49);
        if binds {
            let space = open_space.with(Parameter::PrefixHits, HITS_UNIT, 0.0, HITS_MAX);
            let shared: Vec<Model> =
                starts.iter().flat_map(|model| HITS.map(|hits| hit(model, hits))).collect();
            return unlimited.into_iter().chain(search(&space, &shared)).collect();
        }
        return unlimited;
    }
    let Some(best) = unlimited.first().map(Found::model) else { return unlimited };
    let peak = peak_blocks(fit, &best);
    let limits = CACHES.iter().map(|share| ((share * peak as f64) as u32).max(1));
    let limited: Vec<Model> = limits
        .flat_map(|blocks| {
            starts
                .iter()
                .chain([&best])
                .map(move |model| {
                    let mut model = model.clone();
                    model.fleet.engine.kv_blocks = blocks;
                    model
                })
                .collect::<Vec<_>>()
        })
        .collect();
    let space = open_space.with(Parameter::KvBlocks, peak as f64 / 2.0, 1.0, f64::from(open));
    let bound = search(&space, &limited);
    unlimited.into_iter().chain(bound).collect()
}

fn cost(sketch: &Sketch, share: f64) -> IterationCost {
    let [c0_s, per_prefill_token_s, per_prefill_context_s, per_decode_sequence_s, per_resident_token_s] =
        sketch.cost.map(|part| (part * share).min(0.01));
    IterationCost {
        c0_s: (sketch.cost[0] * share).max(c0_s),
        per_prefill_token_s,
        per_prefill_context_s,
        per_decode_sequence_s,
        per_resident_token_s,
        ..IterationCost::default()
    }
}

/// So many blocks that they never bind: all seats with the longest request.
fn ample(fit: &[Segment], flags: &EngineFlags) -> u32 {
    let requests = fit.iter().flat_map(|segment| &segment.requests);
    let longest =
        requests.map(|request| request.tokens_in.saturating_add(request.tokens_out)).max().unwrap_or(1);
    let blocks = u64::from(longest.div_ceil(flags.block_tokens) + 1) * u64::from(flags.max_seqs);
    blocks.min((1 << 31) / u64::from(flags.block_tokens) / 64).max(1) as u32
}

/// The first request meets idle engines: what it waits beyond its own prefill is the delay, roughly.
fn delayed(fit: &[Segment], model: Model) -> Model {
    let opening = &fit[0];
    if !opening.opens_log {
        return model;
    }
    let alone = Segment::whole(&opening.requests[..1], 0..1);
    let excess_s = match replay_fleet(&alone, &model.fleet, 0.0) {
        Ok((replayed, _)) => opening.requests[0].first_token_s - replayed[0].first_token_s,
        Err(_) => 0.0,
    };
    Model { start_delay_s: if excess_s > 0.0 { excess_s } else { 0.0 }, ..model }
}

fn mean_latency_s(fit: &[Segment]) -> f64 {
    let count = fit.iter().map(|segment| segment.judged.len()).sum::<usize>().max(1);
    fit.iter().flat_map(Segment::observed).map(ObservedRequest::latency_s).sum::<f64>() / count as f64
}

/// Most blocks in use in one engine.
pub(super) fn peak_blocks(segments: &[Segment], model: &Model) -> u64 {
    let peaks = segments.iter().filter_map(|segment| {
        let delay_s = if segment.opens_log { model.start_delay_s } else { 0.0 };
        replay_fleet(segment, &model.fleet, delay_s).ok().map(|(_, peaks)| peaks.kv_blocks)
    });
    peaks.max().unwrap_or(1).max(1)
}

/// Adds the coefficients that visibly improve the fit: hits in the prefix cache, and a dearer cache in mixed
/// iterations.
fn further(target: &Target, mut best: Found, effort: Effort) -> Found {
    let resident = best.space.axes[4].unit;
    for (parameter, unit, high) in
        [(Parameter::PrefixHits, HITS_UNIT, HITS_MAX), (Parameter::ResidentMixed, resident, 0.01)]
    {
        if best.space.has(parameter) {
            continue;
        }
        let space = best.space.clone().with(parameter, unit, 0.0, high);
        let starts = if parameter == Parameter::PrefixHits { with_hits(&best) } else { vec![best.model()] };
        let losses = target.losses(&starts);
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by(|a, b| losses[*a].total_cmp(&losses[*b]));
        let ends = order
            .iter()
            .take(effort.starts)
            .map(|&start| descend(target, &space, space.place(&starts[start]), SHORT));
        let Some((place, _)) = ends.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let (place, loss) = descend(target, &space, place, LONG);
        let luck = target.luck(&best.model());
        if loss < best.loss - FURTHER_GAIN - LUCK * luck {
            best = Found { space, place, loss };
        }
    }
    best
}

/// The same work with a share of hits: prompts cost as much less, and leave room for as much more.
fn with_hits(best: &Found) -> Vec<Model> {
    let model = best.model();
    let rooms: &[f64] =
        if best.space.has(Parameter::KvBlocks) { &[1.0, 0.85, 0.7, 0.55, 0.4] } else { &[1.0] };
    let mut all = Vec::new();
    for hits in HITS {
        for room in rooms {
            let mut model = hit(&model, hits);
            let blocks = &mut model.fleet.engine.kv_blocks;
            *blocks = ((f64::from(*blocks) * room) as u32).max(1);
            all.push(model);
        }
    }
    all
}

/// The same work with a share of hits: prompt tokens cost as much more as there are fewer to compute.
fn hit(model: &Model, hits: f64) -> Model {
    let mut model = model.clone();
    let engine = &mut model.fleet.engine;
    engine.prefix_hit_share = hits;
    engine.cost.per_prefill_token_s = (engine.cost.per_prefill_token_s / (1.0 - hits)).min(0.01);
    model
}
