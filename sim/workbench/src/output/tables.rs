//! The tables of a run folder: `timeline.parquet`, the service step by step; `marks.parquet`, what began and
//! ended meanwhile, on the same clock; and `requests.parquet`, if it is asked for: the requests of the first
//! replication that had their end, with the columns of a request log ([`forebay_datasets::request_log`]) and
//! more.
//!
//! | column of `requests.parquet` | what |
//! | --- | --- |
//! | `request` | how many requests were born before it |
//! | `class` | its class |
//! | `arrival_s`, `first_token_s`, `last_token_s` | its stamps; the latter two of answers alone |
//! | `tokens_in`, `tokens_out` | tokens of the question and of a full answer |
//! | `status` | `ok` of an answer; else how it ended, and why |
//! | `level` | the level that answered, from `l1`; empty without an answer |
//! | `end_s` | when it had its end |
//!
//! | column of `marks.parquet` | what |
//! | --- | --- |
//! | `replication`, `t_s` | when |
//! | `what` | the kind of a fault as the scenario writes it, `gateway_killed`, `neighbour_killed`, `command` or `alert` |
//! | `name` | the fault's, the process's, the alert's; of a command `parameter = value` |
//! | `on` | it began; else it ended |
//! | `found`, `threshold` | of an alert: the value that was found, and what it was compared with |
//! | `cause` | of an alert whose rule asks for it: the most frequent unmatched questions |

use crate::run::Happened;
use forebay_datasets::frames::{Table, TableColumn, Values};
use forebay_datasets::request_log::SERVED;
use forebay_model::accounts::alerts::{RaisedAlert, Topic};
use forebay_model::request_log::LoggedRequest;
use forebay_model::scenario::Loaded;
use forebay_model::spans::How;
use forebay_model::timeline::{Mark, Point};

/// The timelines of all replications as one table.
pub(super) fn timeline(timelines: &[Vec<Point>]) -> Table {
    let rows = || timelines.iter().flatten();
    let f64s = |of: fn(&Point) -> f64| Values::F64(rows().map(of).collect());
    let counts = |of: fn(&Point) -> u64| Values::U64(rows().map(of).collect());
    let replication =
        timelines.iter().enumerate().flat_map(|(index, points)| vec![index as u64; points.len()]);
    let column = TableColumn::new;
    Table {
        columns: vec![
            column("replication", "", Values::U64(replication.collect())),
            column("t_s", "s", f64s(|p| p.t_s)),
            column("offered", "", counts(|p| p.offered)),
            column("answered_l1", "", counts(|p| p.answered[0])),
            column("answered_l2", "", counts(|p| p.answered[1])),
            column("answered_l3", "", counts(|p| p.answered[2])),
            column("answered_l4", "", counts(|p| p.answered[3])),
            column("answered_cache", "", counts(|p| p.cached)),
            column("rejected", "", counts(|p| p.rejected)),
            column("lost", "", counts(|p| p.lost)),
            column("latency_mean_s", "s", f64s(|p| p.latency_mean_s)),
            column("in_system", "", counts(|p| p.in_system)),
            column("queued", "", counts(|p| p.queued)),
            column("vram", "share", Values::MaybeF64(rows().map(|p| p.vram).collect())),
            column("kv", "share", Values::MaybeF64(rows().map(|p| p.kv).collect())),
        ],
    }
}

/// The log of requests as a table.
pub(super) fn requests(log: &[LoggedRequest], loaded: &Loaded) -> Table {
    let classes: Vec<&String> = loaded.scenario.workload.classes.keys().collect();
    let answered = |logged: &LoggedRequest| logged.outcome.how == How::Answered;
    let counts = |of: fn(&LoggedRequest) -> u64| Values::U64(log.iter().map(of).collect());
    let seconds =
        |of: fn(&LoggedRequest) -> u64| Values::F64(log.iter().map(|r| of(r) as f64 / 1e9).collect());
    let of_answers = |of: &dyn Fn(&LoggedRequest) -> Option<u64>| {
        let value =
            |logged: &LoggedRequest| of(logged).filter(|_| answered(logged)).map(|ns| ns as f64 / 1e9);
        Values::MaybeF64(log.iter().map(value).collect())
    };
    let texts = |of: &dyn Fn(&LoggedRequest) -> String| Values::Str(log.iter().map(of).collect());
    let column = TableColumn::new;
    Table {
        columns: vec![
            column("request", "", counts(|r| r.request)),
            column(
                "class",
                "",
                texts(&|r| classes.get(usize::from(r.class)).map_or_else(String::new, ToString::to_string)),
            ),
            column("arrival_s", "s", seconds(|r| r.born_ns)),
            column("tokens_in", "", counts(|r| u64::from(r.tokens_in))),
            column("tokens_out", "", counts(|r| u64::from(r.tokens_out))),
            column("first_token_s", "s", of_answers(&|r| r.first_token_ns)),
            column("last_token_s", "s", of_answers(&|r| Some(r.end_ns))),
            column(
                "status",
                "",
                texts(&|r| if answered(r) { SERVED.to_owned() } else { r.outcome.to_string() }),
            ),
            column(
                "level",
                "",
                texts(&|r| r.outcome.level.map_or_else(String::new, |level| level.name().to_owned())),
            ),
            column("end_s", "s", seconds(|r| r.end_ns)),
        ],
    }
}

/// What an alert's mark is called.
const ALERT: &str = "alert";

/// The marks of the same replications as one table, in order of time.
pub(super) fn marks(happened: &[Happened]) -> Table {
    let rows: Vec<(u64, &Mark, Option<&RaisedAlert>)> = happened
        .iter()
        .enumerate()
        .flat_map(|(index, happened)| told(happened).map(move |(mark, alert)| (index as u64, mark, alert)))
        .collect();
    let texts =
        |of: fn(&Mark) -> &str| Values::Str(rows.iter().map(|(_, mark, _)| of(mark).to_owned()).collect());
    let of_alerts =
        |of: fn(&RaisedAlert) -> f64| Values::MaybeF64(rows.iter().map(|row| row.2.map(of)).collect());
    let column = TableColumn::new;
    Table {
        columns: vec![
            column("replication", "", Values::U64(rows.iter().map(|row| row.0).collect())),
            column("t_s", "s", Values::F64(rows.iter().map(|row| row.1.at_s).collect())),
            column("what", "", texts(|mark| &mark.what)),
            column("name", "", texts(|mark| &mark.name)),
            column("on", "", Values::Bool(rows.iter().map(|row| row.1.on).collect())),
            column("found", "", of_alerts(|alert| alert.found)),
            column("threshold", "", of_alerts(|alert| alert.threshold)),
            column(
                "cause",
                "",
                Values::Str(rows.iter().map(|row| row.2.map(cause).unwrap_or_default()).collect()),
            ),
        ],
    }
}

/// Each mark, and the alert behind it. Alerts leave their marks in the order in which they are raised; of very
/// many the later ones have a mark only.
fn told(happened: &Happened) -> impl Iterator<Item = (&Mark, Option<&RaisedAlert>)> {
    let mut alerts = happened.alerts.iter();
    happened.marks.iter().map(move |mark| (mark, if mark.what == ALERT { alerts.next() } else { None }))
}

fn cause(alert: &RaisedAlert) -> String {
    let topic = |topic: &Topic| format!("{}: {}", topic.class, topic.requests);
    alert.unmatched.iter().map(topic).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use crate::inputs::open_text;
    use crate::run::{run, run_following, tests::MM1};
    use crate::workers::Workers;
    use forebay_datasets::frames::Values;
    use forebay_datasets::request_log::RequestLog;
    use forebay_model::Following;
    use forebay_model::document::Setting;

    /// A desk that is slow for a while, an alert on it, and a rule that sets the limit at the door.
    const SLOW: &str = r#"
[faults.slow]
kind = "latency_factor"
from_s = 300
to_s = 600
stage = "desk"
factor = 3
[gateway]
executor_slots = 1
[policy.queue]
kind = "fifo"
[policy.admission.entry]
kind = "fixed_rate"
limit = 1000
[policy.feedback.alerts.long]
signal = "queue_length"
above = 50
for_s = 5
severity = "p1"
cause = "top_unmatched"
[policy.feedback.control_center.shut]
when = [{ signal = "queue_length", above = 50 }]
set = "admission.entry.limit"
to = 5
"#;

    #[test]
    fn every_end_is_in_the_log_of_requests_and_nothing_else_changes() {
        let settings = [Setting::new("run.replications", "1"), Setting::new("run.drain_s", "0")];
        let strict =
            format!("{MM1}[policy.admission.entry]\nkind = \"token_bucket\"\nrate_per_s = 6\nburst = 2\n");
        let opened = open_text("strict", &strict, &settings).unwrap();
        let workers = Workers::new(Some(1)).unwrap();
        let logged =
            run_following(&opened.loaded, &workers, true, Following { spans: 0, log: true }, &|_, _| ())
                .unwrap();
        let plain = run(&opened.loaded, &workers, true, &|_, _| ()).unwrap();
        assert_eq!((plain.requests, logged.followed), (None, None));
        assert_eq!(plain.summary.digest, logged.summary.digest);
        let log = RequestLog::of_table(&super::requests(&logged.requests.unwrap(), &opened.loaded)).unwrap();
        let ledger = &logged.summary.ledger;
        assert_eq!(log.requests.len() as u64, ledger.offered - ledger.in_flight_at_end);
        let served = log.requests.iter().filter(|request| request.served());
        assert_eq!(served.clone().count() as u64, ledger.answered.total());
        let mean = served.clone().map(|r| r.last_token_s.unwrap() - r.arrival_s).sum::<f64>()
            / served.count() as f64;
        assert!(mean > 0.05 && mean < 1.0, "{mean}");
        assert_eq!(log.statuses.len(), 2);
        assert!(log.statuses[1].starts_with("rejected ("), "{:?}", log.statuses);
    }

    #[test]
    fn faults_commands_and_alerts_leave_marks_in_order_of_time() {
        let opened = open_text("slow", &format!("{MM1}{SLOW}"), &[]).unwrap();
        let run = run(&opened.loaded, &Workers::new(Some(2)).unwrap(), true, &|_, _| ()).unwrap();
        let marks = super::marks(&run.happened);
        let column = |name: &str| &marks.columns.iter().find(|column| column.name == name).unwrap().values;
        let (Values::Str(what), Values::Str(name), Values::Str(cause)) =
            (column("what"), column("name"), column("cause"))
        else {
            panic!("texts")
        };
        let (Values::F64(t_s), Values::Bool(on), Values::U64(replication)) =
            (column("t_s"), column("on"), column("replication"))
        else {
            panic!("numbers")
        };
        let Values::MaybeF64(found) = column("found") else { panic!("numbers") };
        let of = |kind: &str| (0..what.len()).filter(|&row| what[row] == kind).collect::<Vec<_>>();
        let faults = of("latency_factor");
        assert_eq!(faults.len(), 2 * 4, "{what:?}");
        assert_eq!((t_s[faults[0]], on[faults[0]], name[faults[0]].as_str()), (300.0, true, "slow"));
        assert_eq!((t_s[faults[1]], on[faults[1]]), (600.0, false));
        let first_command = of("command")[0];
        assert_eq!(name[first_command], "admission.entry.limit = 5");
        let first_alert = of("alert")[0];
        assert_eq!(name[first_alert], "long");
        assert!(found[first_alert].unwrap() >= 50.0 && cause[first_alert].starts_with("any: "), "{cause:?}");
        assert!(found[first_command].is_none() && cause[first_command].is_empty());
        let in_order =
            |pair: &[usize]| (replication[pair[0]], t_s[pair[0]]) <= (replication[pair[1]], t_s[pair[1]]);
        assert!((0..what.len()).collect::<Vec<_>>().windows(2).all(in_order));
    }
}
