//! The parts of a log that a fit works on: the whole of a short log, windows of a long one.
//!
//! A window is a stretch of consecutive requests that is replayed from some time before, so that the batch
//! is as full as it was. Requests that were in the engine when the replay begins are taken along: what was
//! computed of them is a part of their prompt there, and what was not is their answer. Their latencies
//! count for nothing.
//!
//! Rejected: to replay a million requests in every step of a search, which takes hours; and random
//! requests, which share no batch.

use std::ops::Range;

use super::super::observed::ObservedRequest;

/// Most requests in a part that is replayed as a whole.
const WHOLE_MAX: usize = 600;
/// Requests of a window that count.
const WINDOW: usize = 150;
/// Windows to fit on, and to judge by, as shares of the way from the calmest to the busiest.
const FIT_AT: [f64; 3] = [0.1, 0.6, 1.0];
const JUDGE_AT: [f64; 6] = [0.05, 0.3, 0.5, 0.7, 0.9, 1.0];
/// Fewest requests before a window.
const WARM_UP_MIN: usize = 60;

/// Consecutive requests to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The requests by arrival, those taken along first.
    pub requests: Vec<ObservedRequest>,
    /// Those whose latencies count.
    pub judged: Range<usize>,
    /// The place in the log of the first that counts.
    pub first: usize,
    /// What to add to an index for its place in the log, for requests that take turns.
    pub turn: usize,
    /// It begins where the log does, so that the server may have been cold.
    pub opens_log: bool,
}

impl Segment {
    /// All of a log, of which a part counts.
    pub fn whole(log: &[ObservedRequest], judged: Range<usize>) -> Self {
        Self { requests: log.to_vec(), first: judged.start, judged, turn: 0, opens_log: true }
    }

    /// The requests whose latencies count.
    pub fn observed(&self) -> &[ObservedRequest] {
        &self.requests[self.judged.clone()]
    }

    /// First and last arrival of those that count, s.
    pub fn span_s(&self) -> [f64; 2] {
        let observed = self.observed();
        let at = |request: Option<&ObservedRequest>| request.map_or(0.0, |request| request.arrival_s);
        [at(observed.first()), at(observed.last())]
    }
}

/// What to fit on, among the first `half` requests of a log, and what to judge by, among the others.
pub(super) fn segments(log: &[ObservedRequest], half: usize) -> [Vec<Segment>; 2] {
    if log.len() - half <= WHOLE_MAX && half <= WHOLE_MAX {
        return [vec![Segment::whole(log, 0..half)], vec![Segment::whole(log, half..log.len())]];
    }
    let present = present_at_arrival(log);
    let pick = |part: Range<usize>, places: &[f64]| {
        let mut picked: Vec<Segment> =
            chosen(&present, part, places).into_iter().map(|start| window(log, &present, start)).collect();
        picked.sort_by_key(|segment| segment.first);
        picked
    };
    [pick(0..half, &FIT_AT), pick(half..log.len(), &JUDGE_AT)]
}

/// How many requests are in the engine when each arrives, itself left out.
fn present_at_arrival(log: &[ObservedRequest]) -> Vec<u32> {
    let mut ends: Vec<f64> = log.iter().map(|request| request.last_token_s).collect();
    ends.sort_by(f64::total_cmp);
    let mut over = 0;
    let present = log.iter().enumerate().map(|(index, request)| {
        while ends.get(over).is_some_and(|end| *end <= request.arrival_s) {
            over += 1;
        }
        index.saturating_sub(over) as u32
    });
    present.collect()
}

/// Where the windows of a part begin: at these shares of the way from the calmest to the busiest.
fn chosen(present: &[u32], part: Range<usize>, places: &[f64]) -> Vec<usize> {
    let mut windows: Vec<(u64, usize)> = part
        .clone()
        .step_by(WINDOW)
        .filter(|start| start + WINDOW <= part.end)
        .map(|start| (present[start..start + WINDOW].iter().map(|&n| u64::from(n)).sum(), start))
        .collect();
    windows.sort_unstable();
    let mut starts: Vec<usize> = places
        .iter()
        .filter_map(|share| {
            let place = (share * windows.len().saturating_sub(1) as f64).round() as usize;
            windows.get(place).map(|window| window.1)
        })
        .collect();
    starts.dedup();
    starts
}

/// The window that begins at a request, with what must be replayed before and after.
fn window(log: &[ObservedRequest], present: &[u32], start: usize) -> Segment {
    let warm_up = (present[start] as usize).max(WARM_UP_MIN);
    let (latest, earliest) = (start.saturating_sub(warm_up), start.saturating_sub(2 * warm_up));
    // As little as may be is taken along.
    let from = (earliest..=latest).min_by_key(|&index| (present[index], index)).unwrap_or(latest);
    let judged_end = (start + WINDOW).min(log.len());
    let over_s = log[start..judged_end].iter().map(|request| request.last_token_s).fold(0.0, f64::max);
    let until = log[judged_end..].iter().take_while(|request| request.arrival_s < over_s).count();
    let mut requests = taken_along(log, from, present[from] as usize);
    let before = requests.len();
    requests.extend_from_slice(&log[from..judged_end + until]);
    Segment {
        requests,
        judged: before + (start - from)..before + (judged_end - from),
        first: start,
        // A number of whole turns is added, so that it does not fall below 0.
        turn: from + TURNS - before % TURNS,
        opens_log: from == 0,
    }
}

/// A multiple of all numbers of replicas up to 16.
const TURNS: usize = 720_720;

/// The requests in the engine when request `from` arrives, as that moment finds them.
fn taken_along(log: &[ObservedRequest], from: usize, present: usize) -> Vec<ObservedRequest> {
    let now_s = log[from].arrival_s;
    let mut along = Vec::with_capacity(present);
    for request in log[..from].iter().rev() {
        if along.len() == present {
            break;
        }
        if request.last_token_s <= now_s {
            continue;
        }
        let share = (now_s - request.first_token_s) / (request.last_token_s - request.first_token_s);
        let done = (share.clamp(0.0, 1.0) * f64::from(request.tokens_out)) as u32;
        let done = done.min(request.tokens_out.saturating_sub(1));
        along.push(ObservedRequest {
            tokens_in: request.tokens_in.saturating_add(done),
            tokens_out: request.tokens_out - done,
            arrival_s: now_s,
            ..*request
        });
    }
    along.sort_by(|a, b| a.first_token_s.total_cmp(&b.first_token_s));
    along
}
