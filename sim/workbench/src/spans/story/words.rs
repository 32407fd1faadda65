//! Words for places and decisions.

use crate::show::{number, seconds};
use forebay_model::spans::{Answer, Asked, Decision, PlaceKind, PlaceSpan};
use forebay_policies::{Explanation, Level, Reason};

pub(super) fn business_class(class: u8) -> String {
    format!("S{class}")
}

/// A place, as a table names it.
pub(super) fn place(kind: PlaceKind, name: &str) -> String {
    match kind {
        PlaceKind::Backoff => "pauses before trying again".to_owned(),
        PlaceKind::Ingress => "on the way to the gateway".to_owned(),
        PlaceKind::Queue => format!("in the queue {name}"),
        PlaceKind::Gate => format!("held at the gate {name}"),
        PlaceKind::Waiting => format!("waiting for {name}"),
        PlaceKind::Serving => format!("served by {name}"),
    }
}

/// A span, as a sentence tells it.
pub(super) fn spent(span: &PlaceSpan) -> String {
    let (time, name) = (seconds(span.length_ns() as f64 * 1e-9), &span.place);
    match span.kind {
        PlaceKind::Backoff => format!("pauses for {time} before trying again"),
        PlaceKind::Ingress => format!("is on its way to the gateway for {time}"),
        PlaceKind::Queue => format!("waits for {time} in the queue {name}"),
        PlaceKind::Gate => {
            let by = span.module.as_ref().map(|module| format!(" by {module}")).unwrap_or_default();
            format!("is held for {time} at the gate {name}{by}")
        }
        PlaceKind::Waiting => format!("waits for {time} for {name}"),
        PlaceKind::Serving => {
            let by = span.replica.map(|replica| format!(", replica {replica}")).unwrap_or_default();
            format!("is served for {time} by {name}{by}")
        }
    }
}

/// A decision: what was decided; and where something stood in the way, why, and what it would have taken.
pub(super) fn decided(decision: &Decision) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", asked(decision.asked), answered(decision))];
    if decision.reason == Reason::Normal {
        return lines;
    }
    let Some(why) = &decision.explanation else {
        lines.push(format!("because {}", decision.reason));
        return lines;
    };
    lines.push(format!("because {} ({}): {}", why.reason, why.module, why.rule));
    let (found, threshold) = (number(why.found), number(why.threshold));
    lines.push(format!("{}: {found}; {}: {threshold}", why.quantity, why.threshold_name));
    lines.extend(taken(decision, why));
    lines
}

fn asked(asked: Asked) -> &'static str {
    match asked {
        Asked::Arrival => "on arrival",
        Asked::Turn => "in the queue",
        Asked::AfterRetrieval => "after retrieval",
        Asked::RerankCall => "before the rerank call",
        Asked::LlmCall => "before the model call",
    }
}

fn answered(decision: &Decision) -> String {
    let level = decision.level.map_or_else(String::new, |level| level.name().to_uppercase());
    let with = || match (decision.documents, decision.tokens) {
        (Some(documents), Some(tokens)) => format!(", {documents} documents, {tokens} tokens in its prompt"),
        _ => String::new(),
    };
    let again = decision
        .retry_after_ns
        .map(|ns| format!("; it may try again after {}", seconds(ns as f64 * 1e-9)))
        .unwrap_or_default();
    match decision.answer {
        Answer::Serve => format!("served at {level}{}", with()),
        Answer::Queue => format!("put into the queue {}", decision.queue.as_deref().unwrap_or_default()),
        Answer::Reject => format!("turned away{again}"),
        Answer::Proceed => format!("let through{}", with()),
        Answer::Wait => match decision.wait_at_most_ns {
            Some(ns) => format!("held, for at most {}", seconds(ns as f64 * 1e-9)),
            None => "held".to_owned(),
        },
        Answer::Skip => format!("the call is left out{}", with()),
        Answer::Busy => format!("told \"busy\"{again}"),
    }
}

/// What another answer would have taken, from the two values that were compared. The wording of a reason
/// tells what kind of quantity it is.
fn taken(decision: &Decision, why: &Explanation) -> Option<String> {
    let goal = match decision.answer {
        Answer::Serve if decision.level > Some(Level::L1) => "a better level",
        Answer::Reject => "an answer",
        Answer::Skip | Answer::Busy => "the call",
        // Who is held gets what it waits for, or is told why not.
        Answer::Serve | Answer::Queue | Answer::Proceed | Answer::Wait => return None,
    };
    let (found, threshold) = (why.found, why.threshold);
    let needed = if why.quantity.starts_with("s until") {
        format!("coming {} later", seconds(found))
    } else if why.quantity.starts_with("waited") {
        format!("its turn within {}", seconds(threshold))
    } else if why.reason == Reason::ClassUnavailable {
        format!("at most {}", number(threshold))
    } else if found < threshold {
        format!("at least {}; it was {} too low", number(threshold), number(threshold - found))
    } else if found > threshold {
        let bound = if allows_its_threshold(why.reason) { "at most" } else { "less than" };
        format!("{bound} {}; it was {} too high", number(threshold), number(found - threshold))
    } else {
        format!("less than {}", number(threshold))
    };
    Some(format!("{goal} would have taken {needed}"))
}

/// Whether a rule that acts on large values lets the threshold itself pass.
fn allows_its_threshold(reason: Reason) -> bool {
    use Reason as R;
    // Time-outs count only above their threshold at every level, all else only at L4.
    let level = reason.code().starts_with("l4.") || reason.code().ends_with(".llm_timeouts");
    let others = matches!(
        reason,
        R::ClassMainProviderOnly
            | R::EarlyRejection
            | R::LoadShed
            | R::RerankGuardSlow
            | R::TokenWindowSpent
            | R::TokenWindowTooLarge
    );
    level || others
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_policies::Moment;

    fn decision(answer: Answer, reason: Reason, found: f64, threshold: f64) -> Decision {
        let (quantity, threshold_name) = reason.compares();
        Decision {
            at_ns: 0,
            asked: Asked::Arrival,
            answer,
            reason,
            explanation: Some(Explanation {
                reason,
                module: "m".to_owned(),
                rule: reason.rule().to_owned(),
                quantity: quantity.to_owned(),
                found,
                threshold_name: threshold_name.to_owned(),
                threshold,
                at: Moment(0),
            }),
            level: (answer == Answer::Serve).then_some(Level::L2),
            documents: None,
            tokens: None,
            queue: None,
            wait_at_most_ns: None,
            retry_after_ns: None,
        }
    }

    #[test]
    fn what_it_would_have_taken_follows_from_what_was_compared() {
        let last = |answer, reason, found, threshold| {
            decided(&decision(answer, reason, found, threshold)).pop().unwrap()
        };
        for (answer, reason, found, threshold, expected) in [
            (
                Answer::Serve,
                Reason::L2Vram,
                0.87,
                0.85,
                "a better level would have taken less than 0.85; it was 0.02 too high",
            ),
            (
                Answer::Serve,
                Reason::L4Vram,
                0.99,
                0.98,
                "a better level would have taken at most 0.98; it was 0.01 too high",
            ),
            (
                Answer::Reject,
                Reason::TokenWindowSpent,
                1200.0,
                1000.0,
                "an answer would have taken at most 1000; it was 200 too high",
            ),
            (
                Answer::Reject,
                Reason::TokenBucketEmpty,
                0.25,
                1.0,
                "an answer would have taken at least 1; it was 0.75 too low",
            ),
            (Answer::Reject, Reason::QueueFull, 8.0, 8.0, "an answer would have taken less than 8"),
            (Answer::Reject, Reason::ClassUnavailable, 3.0, 2.0, "an answer would have taken at most 2"),
            (
                Answer::Busy,
                Reason::GateWaitExpired,
                0.5,
                0.5,
                "the call would have taken its turn within 500 ms",
            ),
            (
                Answer::Skip,
                Reason::RerankGuardBusy,
                7.5,
                10.0,
                "the call would have taken coming 7.50 s later",
            ),
            (Answer::Wait, Reason::GateFull, 2.0, 2.0, "inside: 2; allowed at once: 2"),
        ] {
            assert_eq!(last(answer, reason, found, threshold), expected);
        }
        // A rule says itself whether it acts at its threshold or only above it.
        for &reason in Reason::ALL {
            let says = |words: &str| reason.rule().contains(words);
            let only_above = (says(" above the ") || says(" is too high") || says(" is above the "))
                && !says("at or above");
            assert!(!only_above || allows_its_threshold(reason), "{reason}: {}", reason.rule());
            assert!(!says("at or above") || !allows_its_threshold(reason), "{reason}: {}", reason.rule());
        }
        let normal = decided(&decision(Answer::Proceed, Reason::Normal, 0.0, 0.0));
        assert_eq!(normal, ["on arrival: let through"]);
    }
}
