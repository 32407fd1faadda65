//! What is lost, late or cold: G9, H5, H7, H8, H11, N1, N2, R7.

use super::decide::{S, governor, request};
use super::simulated::{ledger, metric, rejected, run, shown, values};
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
        let replications = run(RULES, settings, 2);
        let points = replications[0].timeline.iter();
        let inside = points.filter(|point| point.t_s > 110.0 && point.t_s <= 190.0);
        let per_s = inside.map(|point| point.answered[0]).sum::<u64>() as f64 / 80.0;
        assert!(replications[0].marks.iter().any(|mark| mark.what == "rules_wiped" && mark.on));
        per_s
    };
    let accept = "policy.store.accept_empty_rules=true";
    let [kept, wiped] = [served(&[]), served(&[accept])];
    assert!((kept - 20.0).abs() < 1.0 && wiped > 90.0, "{kept} {wiped}");
    let found = |settings: &[&str]| {
        let loaded = super::simulated::read(RULES, settings);
        let workers = forebay_workbench::Workers::new(Some(1)).expect("one worker");
        let run = forebay_workbench::run(&loaded, &workers, false, &|_, _| {}).expect("it runs");
        run.summary.findings.iter().any(|finding| finding.code == "limiter.rules_wiped")
    };
    assert!(found(&[accept]) && !found(&[]));
    show(
        "G9",
        &Shown::met(format!(
            "20 per s become {wiped:.0} if it is accepted: a mark of the timeline and a finding; refused, {kept:.1} stay"
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
    assert!(timeouts > 300 && down >= 2, "{timeouts} {down}");
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
    // Calls that the second request made, and when the last of them ended.
    let calls = |settings: &[&str]| {
        let replications = run(REFUSED, settings, 1);
        let refused = replications[0].timeline.iter().filter(|point| point.rejected + point.lost > 0);
        let last_s = refused.map(|point| point.t_s).fold(0.0, f64::max);
        (values(&replications, "stage.api.only.calls")[0] - 1.0, last_s - 90.0)
    };
    let (reads, last_s) = calls(&[]);
    let (writes, at_once_s) = calls(&["workload.classes.any.write_share=1"]);
    assert_eq!((reads, writes), (4.0, 1.0));
    // Three waits of 30 s, which no Retry-After asks for.
    assert!((90.0..91.0).contains(&last_s) && at_once_s < 1.0, "{last_s} {at_once_s}");
    show(
        "H8",
        &Shown::met(format!(
            "writes {writes} call, reads {reads}; the last {last_s:.0} s after the first: three waits of 30 s"
        )),
    );
}

#[test]
fn h11_the_notice_of_the_wait() {
    let replications = run("shop-queue", &["variant=fifo", "gateway.wait_notice=true"], 8);
    let [error, wait] =
        ["wait_notice_error_s", "wait_noticed_mean_s"].map(|name| metric(&replications, name));
    // Better than to tell everybody nothing, which errs by the whole wait.
    assert!(error.hi < 0.5 * wait.lo, "{error:?} {wait:?}");
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
        let ends = ledger(&replications);
        (ends.answered.total() + ends.in_flight_at_end) as f64 / 4.0
    };
    let [wall, monotonic] = ["wall", "monotonic"].map(passed);
    let due = 2.0 + 100.0 * 300.0;
    assert!((monotonic / due - 1.0).abs() <= 0.01, "{monotonic}");
    assert!((wall / due - 1.0).abs() > 0.05, "{wall}");
    show(
        "N1",
        &Shown::met(format!(
            "{due} are due: {monotonic:.0} by the monotonic clock, {wall:.0} by the stepped one"
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
    // All providers are out for a while: those that are asked then fail, or have the nearest cached answer.
    let out = "faults={ main = { kind = \"provider_outage\", stage = \"api\", provider = \"main\", from_s = 700, to_s = 1700 }, \
               second = { kind = \"provider_outage\", stage = \"api\", provider = \"second\", from_s = 700, to_s = 1700 } }";
    let strict = "stages.cache.threshold=0.95";
    let with = run("token-cache", &[out, strict], 4);
    let without =
        run("token-cache", &[out, strict, "policy.fallback.cache_last_resort={ min_similarity = 1 }"], 4);
    let served = metric(&with, "stage.cache.l1.last_resorts");
    assert!(served.lo > 10.0, "{served:?}");
    let [kept, lost] = [&with, &without].map(|runs| metric(runs, "error_rate"));
    assert!(kept.hi < lost.lo, "{kept:?} {lost:?}");
    show(
        "R7",
        &Shown::met(format!(
            "{} nearest answers served; errors {} % instead of {} %",
            shown(&served, 1.0),
            shown(&kept, 100.0),
            shown(&lost, 100.0)
        )),
    );
}
