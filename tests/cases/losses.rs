//! What is lost, late or cold: G9, H5, H7, H8, H11, N1, N2, R7.

use super::decide::{S, governor, request};
use super::simulated::{finds, followed, metric, paired, percent, rejected, run, shown, values};
use forebay_engine::Interval;
use forebay_model::Replication;
use forebay_model::spans::{AttemptSpans, PlaceKind};
use forebay_policies::{Arrival, Governor, Moment, Notice, Signals, Ticked};
use forebay_tests::case_table::{Shown, show};

/// One endpoint behind a limiter whose rules come from elsewhere.
const RULES: &str = "
name = 'rules'
run = { duration_s = 300, warmup_s = 10 }
[workload.sources.crowd]
kind = 'poisson'
rate_per_s = 100
[workload.classes.any]
[endpoints.ask]
l1 = ['answer']
[stages.answer]
kind = 'server'
servers = 1000
service_s = 0.1
[policy.admission.entry]
kind = 'token_bucket'
rate_per_s = 20
burst = 20
[policy.store]
module = 'entry'
[faults.wiped]
kind = 'rules_wiped'
from_s = 100
to_s = 200
";

#[test]
fn g9_an_empty_rule_set() {
    let served = |settings: &[&str]| {
        let replications = run(RULES, settings, 4);
        let per_s = |replication: &Replication| {
            let points = replication.timeline.iter();
            let inside = points.filter(|point| point.t_s > 110.0 && point.t_s <= 190.0);
            inside.map(|point| point.answered[0]).sum::<u64>() as f64 / 80.0
        };
        let marked = |r: &Replication| r.marks.iter().any(|mark| mark.what == "rules_wiped" && mark.on);
        assert!(replications.iter().all(marked));
        Interval::of(&replications.iter().map(per_s).collect::<Vec<_>>(), 0.95)
    };
    let accept = "policy.store.accept_empty_rules=true";
    let [kept, wiped] = [served(&[]), served(&[accept])];
    assert!(19.0 < kept.lo && kept.hi < 21.0 && wiped.lo > 90.0, "{kept:?} {wiped:?}");
    let found = |settings: &[&str]| finds(RULES, settings, "limiter.rules_wiped");
    assert!(found(&[accept]) && !found(&[]));
    show(
        "G9",
        &Shown::met(format!(
            "20 per s become {} if it is accepted: a mark of the timeline and a finding; refused, {} stay",
            shown(&wiped, 1.0),
            shown(&kept, 1.0)
        )),
    );
}

const FORECAST: &str = "[admission.entry]\nkind = 'token_bucket'\nrate_per_s = 50\nburst = 10\n\
    [feedback.guard]\ncooldown_s = 0\n[feedback.forecast]\nprofile = [[0, 40], [600, 200], [1200, 60]]\ncourse = 'steps'\n\
    lead_s = 60\ntimetable = [[0, 70], [500, 150], [1300, 80]]\n\
    sets = { parameter = 'admission.entry.rate_per_s', per_rate = 1, least = 1, most = 1000 }\n";

/// When the parameter first had this value, seconds.
fn first_at(governor: &mut Governor, value: f64, until_s: u64) -> Option<u64> {
    (1..=until_s).find(|&second| {
        let mut ticked = Ticked::default();
        governor.tick(Moment(second * S), &Signals::default(), &mut ticked);
        ticked.commands.iter().any(|command| command.value == value)
    })
}

#[test]
fn h5_ahead_of_the_peak() {
    let ahead = first_at(&mut governor(FORECAST), 200.0, 700).expect("the peak is met");
    assert!((538..=542).contains(&ahead), "{ahead}");
    let mut lost = governor(FORECAST);
    lost.notice(Moment(0), Notice::ForecastLost);
    let by_timetable = first_at(&mut lost, 150.0, 700).expect("the timetable's step");
    assert!((498..=502).contains(&by_timetable), "{by_timetable}");
    assert!(lost.fallback_uses().forecast_lost > 0);
    show(
        "H5",
        &Shown::met(format!(
            "raised {} s before the peak; without a forecast by the timetable, to the second",
            600 - ahead
        )),
    );
}

/// Requests let in per second, of 2000 that ask.
fn admitted(governor: &mut Governor, second: u64) -> usize {
    let mut ticked = Ticked::default();
    (0..2000)
        .filter(|&n| {
            let now = Moment(second * S + n * S / 2000);
            if n % 200 == 0 {
                governor.tick(now, &Signals::default(), &mut ticked);
            }
            governor.arrived(now, &request(n as u32), &Signals::default()) == Arrival::Admit
        })
        .count()
}

#[test]
fn h7_what_the_limiter_falls_back_on() {
    let file =
        "[admission.entry]\nkind = 'token_bucket'\nrate_per_s = 800\nburst = 80\n[store]\nmodule = 'entry'\n";
    let mut store = governor(file);
    for second in 0..2 {
        admitted(&mut store, second);
    }
    store.notice(Moment(2 * S), Notice::StoreLost);
    admitted(&mut store, 2);
    let last = admitted(&mut store, 3);
    (4..302).for_each(|second| store.tick(Moment(second * S), &Signals::default(), &mut Ticked::default()));
    admitted(&mut store, 302);
    let later = admitted(&mut store, 303);
    let mut nodes = governor(file);
    for second in 0..2 {
        admitted(&mut nodes, second);
    }
    nodes.notice(Moment(2 * S), Notice::NodesDown);
    admitted(&mut nodes, 2);
    let fixed = admitted(&mut nodes, 3);
    assert!(
        last.abs_diff(800) <= 16 && later.abs_diff(500) <= 10 && fixed.abs_diff(500) <= 10,
        "{last} {later} {fixed}"
    );
    let (timeouts, down) = (store.fallback_uses().store_timeouts, nodes.fallback_uses().nodes_down);
    // Asked every second from the second when it was lost to the last: 302 times, and twice.
    assert_eq!((timeouts, down), (302, 2));
    let mut forecast = governor(FORECAST);
    forecast.notice(Moment(0), Notice::ForecastLost);
    assert!(first_at(&mut forecast, 70.0, 10).is_some());
    show(
        "H7",
        &Shown::met(format!(
            "store lost: {last} per s (800) for 5 min, then {later}; nodes down: {fixed}; forecast lost: timetable; counted {timeouts}, {down} and {} times",
            forecast.fallback_uses().forecast_lost
        )),
    );
}

/// A provider whose only place is taken for long: it answers 429, without saying when to come again.
const REFUSED: &str = "
name = 'refused'
run = { duration_s = 100, drain_s = 400 }
[workload.sources.first]
kind = 'microburst'
at_s = 0
count = 1
[workload.sources.crowd]
kind = 'microburst'
at_s = 90
count = 1
[workload.mix]
first = { long = 1 }
crowd = { any = 1 }
[workload.classes.long]
tokens_out = 3000
[workload.classes.any]
[workload.retries]
at_most = 3
base_s = 1
retry_after_default_s = 30
[endpoints.ask]
l1 = ['api']
[stages.api]
kind = 'providers'
[stages.api.providers.only]
first_token_s = 1
per_token_s = 1
max_at_once = 1
";

#[test]
fn h8_retries() {
    // The pauses between the calls of the second request, and that each call was made.
    let pauses = |text: &str, settings: &[&str]| {
        let requests = followed(text, settings);
        // An attempt begins with its pause.
        let sent = |attempt: &AttemptSpans| {
            let first = attempt.spans.iter().find(|span| span.kind != PlaceKind::Backoff);
            first.map_or(attempt.end_ns, |span| span.from_ns)
        };
        let sent: Vec<u64> = requests[1].attempts.iter().map(sent).collect();
        let calls = values(&run(text, settings, 1), "stage.api.only.calls")[0] - 1.0;
        assert_eq!(calls, sent.len() as f64);
        sent.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect::<Vec<_>>()
    };
    let default = pauses(REFUSED, &[]);
    let told = pauses(REFUSED, &["stages.api.providers.only.retry_after_s=20"]);
    let alone = pauses(&REFUSED.replace("retry_after_default_s = 30\n", ""), &[]);
    let writes = pauses(REFUSED, &["workload.classes.any.write_share=1"]);
    assert_eq!((default, told, alone, writes), (vec![30.0; 3], vec![20.0; 3], vec![1.0, 2.0, 4.0], vec![]));
    show(
        "H8",
        &Shown::met(
            "writes 1 call; reads 4, with pauses of 1, 2 and 4 s, of the 20 s that a Retry-After asks for, and of 30 s \
             where 30 s are taken for one that is absent",
        ),
    );
}

#[test]
fn h11_the_notice_of_the_wait() {
    let replications = run("shop-queue", &["variant=fifo", "gateway.wait_notice=true"], 8);
    let [error, wait] =
        ["wait_notice_error_s", "wait_noticed_mean_s"].map(|name| metric(&replications, name));
    // Better than to tell everybody nothing, which errs by the whole wait: by half of it at least.
    let half: Vec<f64> = values(&replications, "wait_noticed_mean_s").iter().map(|wait| wait / 2.0).collect();
    let better = Interval::paired(&half, &values(&replications, "wait_notice_error_s"), 0.95);
    assert!(better.lo > 0.0, "{better:?} {error:?} {wait:?}");
    show(
        "H11",
        &Shown::met(format!("mean error {} s of a mean wait of {} s", shown(&error, 1.0), shown(&wait, 1.0))),
    );
}

/// A bucket driven by the gateway's clock, which is stepped by 100 ms to and fro.
const CLOCK: &str = "
name = 'clock'
run = { duration_s = 300, warmup_s = 0 }
[workload.sources.crowd]
kind = 'poisson'
rate_per_s = 1000
[workload.classes.any]
[gateway]
clock = 'wall'
[endpoints.ask]
l1 = ['answer']
[stages.answer]
kind = 'server'
servers = 1000
service_s = 0.01
[policy.admission.entry]
kind = 'token_bucket'
rate_per_s = 100
burst = 2
[faults.jitter]
kind = 'clock_step'
from_s = 1
to_s = 300
by_s = 0.1
every_s = 0.2
";

#[test]
fn n1_a_wall_clock_that_is_stepped() {
    let passed = |clock: &str| {
        let steady = ["gateway.clock=monotonic", "faults={}"];
        let replications = run(CLOCK, if clock == "wall" { &[] } else { &steady }, 4);
        let passed = |r: &Replication| (r.ledger.answered.total() + r.ledger.in_flight_at_end) as f64;
        Interval::of(&replications.iter().map(passed).collect::<Vec<_>>(), 0.95)
    };
    let [wall, monotonic] = ["wall", "monotonic"].map(passed);
    let due = 2.0 + 100.0 * 300.0;
    assert!(0.99 * due < monotonic.lo && monotonic.hi < 1.01 * due, "{monotonic:?}");
    assert!(wall.hi < 0.95 * due || wall.lo > 1.05 * due, "{wall:?}");
    show(
        "N1",
        &Shown::met(format!(
            "{due} are due: {} by the monotonic clock, {} by the stepped one",
            shown(&monotonic, 1.0),
            shown(&wall, 1.0)
        )),
    );
}

#[test]
fn n2_the_first_call() {
    let text = "
name = 'cold'
run = { duration_s = 60, drain_s = 60 }
[workload.sources.one_by_one]
kind = 'renewal'
gap_s = 20
[workload.classes.any]
[endpoints.ask]
l1 = ['llm']
[stages.llm]
kind = 'llm_slots'
replicas = 1
slots = 1
first_token_s = 1
cold_first_call_s = 11
[policy.admission.entry]
kind = 'token_bucket'
rate_per_s = 10
burst = 10
";
    let longest = |settings: &[&str]| {
        let replications = run(text, settings, 1);
        assert_eq!(rejected(&replications, "token_bucket.empty"), 0);
        values(&replications, "latency_max_s")[0]
    };
    let (cold, warmed) = (longest(&[]), longest(&["stages.llm.warmed=true"]));
    assert!(cold > 10.0 && (warmed - 1.0).abs() < 0.001, "{cold} {warmed}");
    show(
        "N2",
        &Shown::met(format!(
            "the first call {cold} s, {warmed} s after a warm-up; the limiter lets both pass"
        )),
    );
}

#[test]
fn r7_the_cache_as_last_resort() {
    // All providers fail for a while, or answer 429, or answer too late: those that are asked then fail, or have
    // the nearest cached answer.
    let both = |what: &str| {
        ["main", "second"].map(|provider| format!("stages.api.providers.{provider}.{what}")).to_vec()
    };
    let out = ["main", "second"].map(|provider| {
        format!(
            "faults.{provider}={{ kind = \"provider_outage\", stage = \"api\", provider = \"{provider}\", \
             from_s = 700, to_s = 1700 }}"
        )
    });
    let mut told = Vec::new();
    for (what, settings) in
        [("out", out.to_vec()), ("429", both("requests_per_min=20")), ("timed out", both("time_limit_s=3"))]
    {
        let settings: Vec<&str> =
            settings.iter().map(String::as_str).chain(["stages.cache.threshold=0.95"]).collect();
        let with = run("token-cache", &settings, 4);
        let never = ["policy.fallback.cache_last_resort={ min_similarity = 1 }"];
        let without = run("token-cache", &[&settings[..], &never].concat(), 4);
        let served = metric(&with, "stage.cache.l1.last_resorts");
        assert!(served.lo > 10.0, "{what}: {served:?}");
        let fewer = paired(&with, &without, "error_rate");
        assert!(fewer.hi < 0.0, "{what}: {fewer:?}");
        let [kept, lost] = [&with, &without].map(|runs| metric(runs, "error_rate"));
        told.push(format!(
            "{what}: {} nearest answers served, errors {} instead of {}",
            shown(&served, 1.0),
            percent(&kept),
            percent(&lost)
        ));
    }
    show("R7", &Shown::met(told.join("; ")));
}
