//! What the feedback loops do to a running service.

use crate::service::tests::{BASE, metric, run};

/// Half a request per second; a rule cuts the entry to a fifth, and an alert says so.
const CUT: &str = r#"
[policy.admission.entry]
kind = "token_bucket"
rate_per_s = 100
burst = 10
[policy.feedback.control_center.cut]
when = [{ signal = "arrival_rate", above = 0.01 }]
set = "admission.entry.rate_per_s"
to = 0.1
hold_s = 100
[policy.feedback.alerts.crowd]
signal = "arrival_rate"
above = 0.01
severity = "p2"
"#;

#[test]
fn commands_are_in_force_counted_and_marked() {
    let text = format!("{BASE}{CUT}");
    let cut = run(&text, &[]);
    let marks: Vec<_> = cut.marks.iter().map(|mark| (mark.what.as_str(), mark.name.as_str())).collect();
    assert!(marks.contains(&("command", "admission.entry.rate_per_s = 0.1")), "{marks:?}");
    assert!(marks.contains(&("alert", "crowd")), "{marks:?}");
    assert_eq!(marks.iter().filter(|(what, _)| *what == "command").count(), 1);
    assert!((metric(&cut, "commands_per_min") - 60.0 / 1000.0).abs() < 1e-9);
    let open = run(&text, &["policy.feedback.manual=true"]);
    assert!(open.marks.iter().all(|mark| mark.what != "command"));
    assert_eq!(metric(&open, "error_rate"), 0.0);
    assert!(metric(&cut, "error_rate") > 0.5, "{}", metric(&cut, "error_rate"));
}
