//! One request's story in words: when it was asked, what each policy decided and why, where it waited and
//! for how long, how it ended, and what it would have taken.

mod words;

use super::{Followed, Origin};
use crate::show::seconds;
use forebay_model::spans::{Answer, AttemptSpans, Decision, How, PlaceKind, RequestSpans};
use forebay_policies::Level;
use serde::Serialize;
use words::{business_class, decided, place, spent};

/// A story, for programs and for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Told {
    /// The run it is from.
    pub origin: Origin,
    /// The record.
    pub request: RequestSpans,
    /// Where its time went, for the person who asked.
    pub time: Vec<Spent>,
    /// The story, line by line.
    pub story: Vec<String>,
}

/// Time in one place, over all attempts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spent {
    /// The place, in words.
    pub place: String,
    /// Seconds there.
    pub s: f64,
    /// As a share of the time from asking to the end; absent where that took no time.
    pub share: Option<f64>,
}

/// Tells a request's story.
pub fn tell(followed: &Followed, request: &RequestSpans) -> Told {
    let mut story = vec![header(request), ending(request)];
    for attempt in &request.attempts {
        story.push(String::new());
        story.extend(of_attempt(request, attempt));
    }
    Told { origin: followed.origin.clone(), request: request.clone(), time: time(request), story }
}

fn header(request: &RequestSpans) -> String {
    let RequestSpans { request: number, class, endpoint, user, tokens_in, tokens_out, .. } = request;
    let tier = request.tier.as_ref().map(|tier| format!(", tier {tier}")).unwrap_or_default();
    let warm_up = if request.in_warm_up { "; in the warm-up, so only the ledger counts it" } else { "" };
    format!(
        "request {number}, asked at {}: class {class} ({}){tier}, endpoint {endpoint}, user {user}; tokens: \
         {tokens_in} in, {tokens_out} for a full answer{warm_up}",
        instant(request.born_ns),
        business_class(request.business_class)
    )
}

fn ending(request: &RequestSpans) -> String {
    let after = seconds(span_s(request.born_ns, request.end_ns));
    if request.outcome.how == How::InFlight {
        return format!("not over when the run stopped, {after} later");
    }
    let first = request.first_token_ns.map(|first| seconds(span_s(request.born_ns, first)));
    let first = first.map(|first| format!("first token after {first}"));
    let answer = format!("{} after {after}", request.outcome);
    let verdict = |is: Option<bool>, yes, no| is.map(|is| if is { yes } else { no });
    let verdicts = [verdict(request.right, "right", "wrong"), verdict(request.in_time, "in time", "late")];
    let words = verdicts.into_iter().flatten().map(str::to_owned);
    std::iter::once(answer).chain(first).chain(words).collect::<Vec<_>>().join(", ")
}

/// A line of an attempt's story: when it happened, what comes first of what happened at one instant, and
/// the words.
struct Line {
    at_ns: u64,
    rank: u8,
    words: Vec<String>,
}

fn of_attempt(request: &RequestSpans, attempt: &AttemptSpans) -> Vec<String> {
    let mut lines: Vec<Line> = Vec::new();
    let mut add = |at_ns, rank, words| lines.push(Line { at_ns, rank, words });
    // A decision sends the attempt to the place where its next span begins.
    for decision in &attempt.decisions {
        let mut words = decided(decision);
        words.extend(detour(decision, attempt));
        add(decision.at_ns, 0, words);
    }
    for note in &attempt.notes {
        add(note.at_ns, 1, vec![note.what.clone()]);
    }
    for span in &attempt.spans {
        add(span.from_ns, 2, vec![spent(span)]);
    }
    if let Some(left) = attempt.left_ns {
        add(left, 3, vec!["the person gave up; nobody noticed, and the work went on".to_owned()]);
    }
    add(attempt.end_ns, 4, vec![attempt.outcome.to_string()]);
    lines.sort_by_key(|line| (line.at_ns, line.rank));
    let offset = |at_ns| format!("+{}", seconds(span_s(request.born_ns, at_ns)));
    let width = lines.iter().map(|line| offset(line.at_ns).chars().count()).max().unwrap_or(0);
    let mut out = vec![format!("attempt {}, at {}", attempt.attempt, instant(attempt.sent_ns))];
    for Line { at_ns, words, .. } in lines {
        for (index, line) in words.into_iter().enumerate() {
            let when = if index == 0 { offset(at_ns) } else { String::new() };
            out.push(format!("  {when:>width$}  {line}"));
        }
    }
    out
}

/// That it takes the path of another level than was decided, where the endpoint has none at that one.
fn detour(decision: &Decision, attempt: &AttemptSpans) -> Option<String> {
    let (decided, taken) = (decision.level?, attempt.level?);
    let differs = decision.answer == Answer::Serve && decided != taken;
    let name = |level: Level| level.name().to_uppercase();
    differs.then(|| format!("there is no path at {}: it takes that of {}", name(decided), name(taken)))
}

/// Where the time of the person who asked went, in the order in which the places were first seen.
fn time(request: &RequestSpans) -> Vec<Spent> {
    let mut places: Vec<(PlaceKind, &str, u64)> = Vec::new();
    for attempt in &request.attempts {
        let until = attempt.waited_until_ns();
        for span in &attempt.spans {
            let length = span.to_ns.min(until).saturating_sub(span.from_ns);
            if length == 0 {
                continue;
            }
            let same = |seen: &&mut (PlaceKind, &str, u64)| (seen.0, seen.1) == (span.kind, &span.place);
            match places.iter_mut().find(same) {
                Some(seen) => seen.2 += length,
                None => places.push((span.kind, &span.place, length)),
            }
        }
    }
    let all = request.end_ns - request.born_ns;
    places
        .into_iter()
        .map(|(kind, name, length)| Spent {
            place: place(kind, name),
            s: length as f64 * 1e-9,
            share: (all > 0).then(|| length as f64 / all as f64),
        })
        .collect()
}

/// An instant of the run, to the millisecond.
fn instant(ns: u64) -> String {
    format!("{:.3} s", ns as f64 * 1e-9)
}

fn span_s(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 * 1e-9
}
