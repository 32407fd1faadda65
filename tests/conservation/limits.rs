//! Nobody is served more at once, waits longer, or takes longer than the scenario allows, as the spans of all
//! requests show; and no server idles while a call waits for it.

use forebay_model::scenario::{Clock, Scenario, Stage};
use forebay_model::spans::{Answer, Asked, AttemptSpans, How, PlaceKind, PlaceSpan, RequestSpans};
use forebay_policies::{Level, Queue};
use std::collections::BTreeMap;

/// A rounding of seconds to nanoseconds, and of a policy's own sums.
const ROUNDING_NS: f64 = 10.0;

/// Holds the spans of all requests of a run against the limits of its scenario.
pub(crate) fn kept(scenario: &Scenario, requests: &[RequestSpans]) -> Result<(), String> {
    servers(scenario, requests)?;
    executor(scenario, requests)?;
    for request in requests {
        let mut all = request.attempts.iter().map(|attempt| attempt_keeps(scenario, attempt));
        let turns = request.attempts.windows(2).map(|two| comes_again(scenario, &two[0], &two[1]));
        all.try_for_each(|kept| kept)
            .and_then(|()| turns.into_iter().collect())
            .and_then(|()| few_attempts(scenario, request))
            .map_err(|why| format!("{why}: {request:#?}"))?;
    }
    Ok(())
}

/// Servers of a stage whose calls take one each, in one queue.
fn servers_of(stage: &Stage) -> Option<u32> {
    match stage {
        Stage::Server(server) | Stage::Embedder(server) => Some(server.servers),
        Stage::Rules(rules) => Some(rules.servers),
        Stage::VectorStore(store) => Some(store.connections),
        Stage::SemanticCache(cache) => cache.lookups_at_once,
        Stage::Reranker(_)
        | Stage::LlmSlots(_)
        | Stage::LlmBatching(_)
        | Stage::Providers(_)
        | Stage::Agents(_) => None,
    }
}

/// At each moment: at most as many are served as there are servers, and only then does anybody wait.
fn servers(scenario: &Scenario, requests: &[RequestSpans]) -> Result<(), String> {
    let spans = || requests.iter().flat_map(|request| &request.attempts).flat_map(|attempt| &attempt.spans);
    for (name, stage) in &scenario.stages {
        let Some(servers) = servers_of(stage) else { continue };
        // A change of those served and of those waiting, by its time.
        let mut changes: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
        for span in spans().filter(|span| span.place == *name && span.length_ns() > 0) {
            let (served, waiting) = match span.kind {
                PlaceKind::Serving => (1, 0),
                PlaceKind::Waiting => (0, 1),
                _ => continue,
            };
            for (at, sign) in [(span.from_ns, 1), (span.to_ns, -1)] {
                let change = changes.entry(at).or_default();
                *change = (change.0 + sign * served, change.1 + sign * waiting);
            }
        }
        let (mut served, mut waiting) = (0, 0);
        for (at, change) in changes {
            (served, waiting) = (served + change.0, waiting + change.1);
            if served > i64::from(servers) || (waiting > 0 && served < i64::from(servers)) {
                return Err(format!(
                    "from {at} ns on stage {name} serves {served} with {servers} servers, and {waiting} wait"
                ));
            }
        }
    }
    replicas(scenario, spans())
}

/// No replica of a slots engine serves more at once than it has slots.
fn replicas<'a>(scenario: &Scenario, spans: impl Iterator<Item = &'a PlaceSpan>) -> Result<(), String> {
    let mut changes: BTreeMap<(&str, u32), BTreeMap<u64, i64>> = BTreeMap::new();
    for span in spans.filter(|span| span.kind == PlaceKind::Serving && span.length_ns() > 0) {
        if let Some(replica) = span.replica {
            let of = changes.entry((span.place.as_str(), replica)).or_default();
            *of.entry(span.from_ns).or_default() += 1;
            *of.entry(span.to_ns).or_default() -= 1;
        }
    }
    for ((name, replica), changes) in changes {
        let Some(Stage::LlmSlots(slots)) = scenario.stages.get(name) else { continue };
        let mut served = 0;
        for (at, change) in changes {
            served += change;
            if served > i64::from(slots.slots) {
                return Err(format!("from {at} ns on replica {replica} of {name} serves {served} calls"));
            }
        }
    }
    Ok(())
}

/// At each moment at most as many hold a slot of the executor as there are, and only then does anybody queue.
/// Whoever was in the queue takes a slot, at any level; whoever was not takes one at L1 and L2.
fn executor(scenario: &Scenario, requests: &[RequestSpans]) -> Result<(), String> {
    let slots = scenario.gateway.executor_slots.map_or(i64::MAX, i64::from);
    let mut changes: BTreeMap<u64, (i64, i64)> = BTreeMap::new();
    for attempt in requests.iter().flat_map(|request| &request.attempts) {
        let begins = attempt.decisions.iter().find(|decision| {
            matches!(decision.asked, Asked::Arrival | Asked::Turn) && decision.answer == Answer::Serve
        });
        let light = attempt.level.is_some_and(|level| level <= Level::L2);
        if let Some(begins) = begins.filter(|decision| decision.asked == Asked::Turn || light) {
            changes.entry(begins.at_ns).or_default().0 += 1;
            changes.entry(attempt.end_ns).or_default().0 -= 1;
        }
        for span in attempt.spans.iter().filter(|span| span.kind == PlaceKind::Queue) {
            changes.entry(span.from_ns).or_default().1 += 1;
            changes.entry(span.to_ns).or_default().1 -= 1;
        }
    }
    let (mut busy, mut queued) = (0, 0);
    for (at, change) in changes {
        (busy, queued) = (busy + change.0, queued + change.1);
        if busy > slots || (queued > 0 && busy < slots) {
            return Err(format!("from {at} ns on {busy} of {slots} slots are busy, and {queued} queue"));
        }
    }
    Ok(())
}

fn time_limit_s(stage: &Stage) -> Option<f64> {
    match stage {
        Stage::Server(stage) | Stage::Embedder(stage) => stage.time_limit_s,
        Stage::Rules(stage) => stage.time_limit_s,
        Stage::VectorStore(stage) => stage.time_limit_s,
        Stage::SemanticCache(stage) => stage.time_limit_s,
        Stage::Reranker(stage) => stage.time_limit_s,
        Stage::LlmSlots(stage) => stage.time_limit_s,
        Stage::LlmBatching(stage) => stage.time_limit_s,
        Stage::Providers(_) | Stage::Agents(_) => None,
    }
}

fn longest_wait_s(queue: &Queue) -> Option<f64> {
    match queue {
        Queue::Fifo(queue) => queue.max_wait_s,
        Queue::StrictPriority(queue) => queue.max_wait_s,
        Queue::LifoUnderOverload(queue) => queue.max_wait_s,
        Queue::EarliestDeadline(queue) => queue.max_wait_s,
        Queue::WeightedFair(queue) => queue.max_wait_s,
        Queue::Semantic(queue) => queue.max_wait_s,
    }
}

/// Whether a time is within a limit, where there is one.
fn within(ns: u64, limit_s: Option<f64>) -> bool {
    limit_s.is_none_or(|limit| ns as f64 <= limit * 1e9 + ROUNDING_NS)
}

fn attempt_keeps(scenario: &Scenario, attempt: &AttemptSpans) -> Result<(), String> {
    let mut call: Option<(&str, u64)> = None;
    let mut at_gateway = 0;
    for span in &attempt.spans {
        if !matches!(span.kind, PlaceKind::Backoff | PlaceKind::Ingress) {
            at_gateway += span.length_ns();
        }
        if !matches!(span.kind, PlaceKind::Waiting | PlaceKind::Serving) {
            call = None;
            continue;
        }
        let before = call.filter(|(place, _)| *place == span.place).map_or(0, |(_, ns)| ns);
        let ns = before + span.length_ns();
        // What is served is over: the next span is of another call.
        call = (span.kind == PlaceKind::Waiting).then_some((span.place.as_str(), ns));
        let limit = scenario.stages.get(&span.place).and_then(time_limit_s);
        if !within(ns, limit) {
            return Err(format!("a call of {ns} ns at {} with a limit of {limit:?} s", span.place));
        }
    }
    if !within(at_gateway, scenario.gateway.deadline_s) {
        return Err(format!("{at_gateway} ns at the gateway, beyond its deadline"));
    }
    // A clock that is set lengthens waits that policies measure.
    if scenario.gateway.clock == Clock::Wall {
        return Ok(());
    }
    let longest = scenario.policy.queue.as_ref().and_then(longest_wait_s);
    for span in &attempt.spans {
        if span.kind == PlaceKind::Queue && !within(span.length_ns(), longest) {
            return Err(format!("{} ns in a queue of at most {longest:?} s", span.length_ns()));
        }
        if span.kind == PlaceKind::Gate {
            let of =
                |at: u64| attempt.decisions.iter().rev().find(|d| d.at_ns == at && d.answer == Answer::Wait);
            let most = of(span.from_ns).and_then(|decision| decision.wait_at_most_ns);
            if most.is_none_or(|most| span.length_ns() > most) {
                return Err(format!("{} ns held at a gate for at most {most:?} ns", span.length_ns()));
            }
        }
    }
    Ok(())
}

/// One who was told when to come again does not come earlier.
fn comes_again(scenario: &Scenario, before: &AttemptSpans, again: &AttemptSpans) -> Result<(), String> {
    let Some(retries) = scenario.workload.retries.as_ref().filter(|retries| retries.honour_retry_after)
    else {
        return Ok(());
    };
    // Nobody was told anything by a failure, and who gave up during the pause did not wait for its end.
    let gave_up = again.outcome.how == How::Abandoned || again.left_ns.is_some();
    if before.outcome.how != How::Rejected || before.left_ns.is_some() || gave_up {
        return Ok(());
    }
    let by_policy = before.decisions.last().filter(|d| matches!(d.answer, Answer::Reject | Answer::Busy));
    let told_ns = match by_policy.and_then(|decision| decision.retry_after_ns) {
        Some(told) => told as f64,
        None if before.outcome.why.as_ref().is_some_and(|why| why.starts_with("providers.")) => return Ok(()),
        None => retries.retry_after_default_s.unwrap_or(0.0) * 1e9,
    };
    let pause = again.spans.first().filter(|span| span.kind == PlaceKind::Backoff);
    let pause_ns = pause.map_or(0, PlaceSpan::length_ns) as f64;
    if pause_ns + ROUNDING_NS < told_ns {
        return Err(format!("told to come again after {told_ns} ns, it came after {pause_ns} ns"));
    }
    Ok(())
}

fn few_attempts(scenario: &Scenario, request: &RequestSpans) -> Result<(), String> {
    let retries = scenario.workload.retries.as_ref().map_or(0, |retries| retries.at_most);
    let resends = scenario.workload.people.resend.as_ref().map_or(0, |resend| resend.at_most);
    // Whoever asks again begins to try anew.
    let most = (1 + usize::from(retries)) * (1 + usize::from(resends));
    if request.attempts.len() > most {
        return Err(format!("{} attempts, and {most} are allowed", request.attempts.len()));
    }
    Ok(())
}
