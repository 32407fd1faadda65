//! What must hold of the spans of a run whose requests are all followed.

use forebay_model::Replication;
use forebay_model::scenario::{Scenario, Stage};
use forebay_model::spans::{Answer, Asked, AttemptSpans, How, PlaceKind, RequestSpans};
use forebay_policies::Level;
use std::collections::BTreeMap;

/// What must hold of all requests of a run together: they are those of the ledger and of the metrics.
pub(crate) fn agree(scenario: &Scenario, requests: &[RequestSpans], run: &Replication) -> Result<(), String> {
    let ledger = &run.ledger;
    let mut ends: BTreeMap<How, u64> = BTreeMap::new();
    let mut codes: BTreeMap<(How, &str), u64> = BTreeMap::new();
    for request in requests {
        request.check()?;
        holds(request).map_err(|why| format!("{why}: {request:#?}"))?;
        *ends.entry(request.outcome.how).or_insert(0) += 1;
        if let Some(why) = &request.outcome.why {
            *codes.entry((request.outcome.how, why)).or_insert(0) += 1;
        }
    }
    answers(requests, run)?;
    let mut counted: BTreeMap<(How, &str), u64> = BTreeMap::new();
    for (how, of) in [(How::Rejected, &ledger.rejected), (How::Failed, &ledger.failed)] {
        counted.extend(of.iter().map(|(why, &n)| ((how, why.as_str()), n)));
    }
    if codes != counted {
        return Err(format!("the spans know of {codes:?}, the ledger of {counted:?}"));
    }
    for (how, n) in [
        (How::Answered, ledger.answered.total()),
        (How::TimedOut, ledger.timed_out),
        (How::Abandoned, ledger.abandoned),
        (How::InFlight, 0),
    ] {
        let found = ends.get(&how).copied().unwrap_or(0);
        if found != n {
            return Err(format!("{found} requests are {how:?} by their spans, {n} by the ledger"));
        }
    }
    metrics(scenario, requests, run)?;
    shadowed(requests, run)?;
    provided(scenario, requests, run)
}

/// The shadow has decided on all attempts that the live policy has.
fn shadowed(requests: &[RequestSpans], run: &Replication) -> Result<(), String> {
    let Some(shadow) = &run.shadow else { return Ok(()) };
    let attempts = requests.iter().filter(|r| !r.in_warm_up).flat_map(|request| &request.attempts);
    let arrived =
        attempts.filter(|attempt| attempt.decisions.iter().any(|d| d.asked == Asked::Arrival)).count();
    if arrived as u64 != shadow.attempts {
        return Err(format!("{arrived} attempts arrived, and the shadow knows of {}", shadow.attempts));
    }
    Ok(())
}

/// Calls of providers are those of the spans of requests that were born after the warm-up.
fn provided(scenario: &Scenario, requests: &[RequestSpans], run: &Replication) -> Result<(), String> {
    let mut calls: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    let measured = requests.iter().filter(|request| !request.in_warm_up);
    for attempt in measured.flat_map(|request| &request.attempts) {
        for span in attempt.spans.iter().filter(|span| span.kind == PlaceKind::Serving) {
            *calls.entry((&span.place, span.replica.unwrap_or(0))).or_insert(0) += 1;
        }
    }
    let stages = run.by.get("stage");
    for (name, stage) in &scenario.stages {
        let Stage::Providers(stage) = stage else { continue };
        for (provider, index) in stage.providers.keys().zip(0..) {
            let metrics = stages.and_then(|stages| stages.get(&format!("{name}.{provider}")));
            let measured = metrics.and_then(|metrics| metrics.get("calls")).and_then(|m| m.value);
            let found = calls.get(&(name.as_str(), index)).copied().unwrap_or(0);
            if measured != Some(found as f64) {
                return Err(format!("{found} calls of {name}.{provider} by the spans, not {measured:?}"));
            }
        }
    }
    Ok(())
}

/// Answers by level and from the cache are those of the ledger, and so are the tokens of the models.
fn answers(requests: &[RequestSpans], run: &Replication) -> Result<(), String> {
    let (mut levels, mut cached, mut tokens) = ([0; 4], 0, [0; 2]);
    for request in requests.iter().filter(|request| request.outcome.how == How::Answered) {
        let notes = request.attempts.last().into_iter().flat_map(|attempt| &attempt.notes);
        let Some(level) = request.outcome.level else { return Err("answered at no level".to_owned()) };
        if notes.into_iter().any(|note| note.what.starts_with("answered from the cache")) {
            cached += 1;
            continue;
        }
        levels[level.index()] += 1;
        if level <= Level::L2 && !request.in_warm_up {
            tokens[0] += u64::from(request.tokens_in);
            tokens[1] += u64::from(request.tokens_out);
        }
    }
    let answered = run.ledger.answered;
    let counted = [answered.l1, answered.l2, answered.l3, answered.l4];
    if (levels, cached) != (counted, answered.cache) {
        return Err(format!("{levels:?} answers and {cached} cached ones by the spans, not {answered:?}"));
    }
    let measured = ["tokens_in", "tokens_out"].map(|name| run.metrics.get(name).and_then(|m| m.value));
    if measured != tokens.map(|n| Some(n as f64)) {
        return Err(format!("{tokens:?} tokens in and out by the spans, not {measured:?}"));
    }
    Ok(())
}

/// What the metrics give is what the spans come to: shares and means of the requests born after the warm-up,
/// rates of those that ended within the measured window.
fn metrics(scenario: &Scenario, requests: &[RequestSpans], run: &Replication) -> Result<(), String> {
    let plan = &scenario.run;
    let window_s = plan.duration_s - plan.warmup_s;
    let (warm_ns, over_ns) = (plan.warmup_s * 1e9, plan.duration_s * 1e9);
    let (mut ended, mut answered, mut right, mut attempts) = (0.0, 0.0, 0.0, 0.0);
    let (mut latency_ns, mut longest_ns, mut ttft_ns, mut waited_ns) = (0.0, 0.0_f64, 0.0, 0.0);
    let (mut in_window, mut good) = (0.0, 0.0);
    for request in requests {
        attempts += request.attempts.len() as f64;
        let is_answered = request.outcome.how == How::Answered;
        let end_ns = request.end_ns as f64;
        if is_answered && (warm_ns..=over_ns).contains(&end_ns) {
            in_window += 1.0;
            good += f64::from(request.right == Some(true) && request.in_time == Some(true));
        }
        if request.in_warm_up {
            continue;
        }
        ended += 1.0;
        if !is_answered {
            continue;
        }
        answered += 1.0;
        right += f64::from(request.right == Some(true));
        let length_ns = (request.end_ns - request.born_ns) as f64;
        latency_ns += length_ns;
        longest_ns = longest_ns.max(length_ns);
        ttft_ns += (request.first_token_ns.unwrap_or(request.end_ns) - request.born_ns) as f64;
        let last = request.attempts.last().into_iter().flat_map(|attempt| &attempt.spans);
        let waits =
            last.filter(|s| matches!(s.kind, PlaceKind::Queue | PlaceKind::Gate | PlaceKind::Waiting));
        waited_ns += waits.map(|span| span.length_ns() as f64).sum::<f64>();
    }
    for (name, part, whole) in [
        ("error_rate", ended - answered, ended),
        ("right_share", right, answered),
        ("attempts_per_request", attempts, requests.len() as f64),
        ("latency_mean_s", latency_ns / 1e9, answered),
        ("latency_max_s", longest_ns / 1e9 * answered, answered),
        ("ttft_mean_s", ttft_ns / 1e9, answered),
        ("wait_mean_s", waited_ns / 1e9, answered),
        ("throughput_per_s", in_window, window_s),
        ("goodput_per_s", good, window_s),
    ] {
        let found = run.metrics.get(name).and_then(|metric| metric.value);
        let expected = (whole > 0.0).then(|| part / whole);
        let same = match (found, expected) {
            (Some(found), Some(expected)) => (found - expected).abs() < 1e-8,
            (found, expected) => found == expected,
        };
        if !same {
            return Err(format!("{name} is {found:?}, and by the spans {expected:?}"));
        }
    }
    Ok(())
}

/// What holds of a request beside what [`RequestSpans::check`] says.
fn holds(request: &RequestSpans) -> Result<(), &'static str> {
    let within = request.first_token_ns.is_none_or(|at| (request.born_ns..=request.end_ns).contains(&at));
    if !within {
        return Err("a first token before the birth or after the end");
    }
    let numbered = request.attempts.iter().zip(1..).all(|(attempt, number)| attempt.attempt == number);
    if !numbered || request.attempts.is_empty() {
        return Err("attempts are not numbered from 1");
    }
    request.attempts.iter().try_for_each(attempt_holds)?;
    let last = request.attempts.last().filter(|last| last.left_ns.is_none());
    if last.is_some_and(|last| last.outcome != request.outcome) {
        return Err("the request does not end as its last attempt");
    }
    // Where no rule matches, it is handed over from the path that it began on.
    if let (How::Answered, Some(last)) = (request.outcome.how, request.attempts.last())
        && (last.level.is_none() || last.level > request.outcome.level)
    {
        return Err("answered at a better level than the one whose path it took");
    }
    if (request.outcome.how == How::Answered) != (request.right.is_some() && request.in_time.is_some()) {
        return Err("an answer that is neither right nor wrong, or no answer that is");
    }
    Ok(())
}

fn attempt_holds(attempt: &AttemptSpans) -> Result<(), &'static str> {
    if !attempt.decisions.windows(2).all(|two| two[0].at_ns <= two[1].at_ns) {
        return Err("decisions out of order");
    }
    if attempt.left_ns.is_some_and(|left| left < attempt.sent_ns) {
        return Err("a person who left an attempt before it was sent");
    }
    if let Some(last) = attempt.decisions.last()
        && matches!(last.answer, Answer::Reject | Answer::Busy)
        && attempt.outcome.why.as_deref() != Some(last.reason.code())
    {
        return Err("turned away, and it ends otherwise");
    }
    // The pause, the way, the queue; then gates and stages in any order.
    let rank = |kind: PlaceKind| match kind {
        PlaceKind::Backoff => 0,
        PlaceKind::Ingress => 1,
        PlaceKind::Queue => 2,
        PlaceKind::Gate | PlaceKind::Waiting | PlaceKind::Serving => 3,
    };
    if !attempt.spans.windows(2).all(|two| rank(two[0].kind) <= rank(two[1].kind)) {
        return Err("places out of order");
    }
    let served = attempt.spans.iter().any(|span| span.kind == PlaceKind::Serving);
    if served && attempt.level.is_none() {
        return Err("served at no level");
    }
    Ok(())
}
