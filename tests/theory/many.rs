//! Many servers, with room to wait, with little, with none, and so many that nobody waits.

use super::setting::{Expressed, Kind, Measure, Setting};
use forebay_model::Replication;
use forebay_tests::scenario::theory;
use forebay_tests::table::{Line, queueing};
use std::f64::consts::{PI, TAU};

const SERVICE: &str = "stages.desk.service_s";
const SERVERS: &str = "stages.desk.servers";
const ROOM: &str = "stages.desk.max_queue";
const UNIFORM: &str = "{ kind = \"uniform\", min = 0.0, max = 2.0 }";
const LOGNORMAL: &str = "{ kind = \"lognormal\", mean = 1.0, cv = 2.0 }";

/// So many servers that nobody waits.
const ENDLESS: u32 = 100_000;

pub(crate) fn express(line: &Line) -> Option<Expressed> {
    match line.model.as_str() {
        "M/M/c" => {
            let (servers, rate) = (line.param("c"), line.param("lambda"));
            let millions = match servers as u32 {
                2 => 12.0,
                4 => 30.0,
                8 => 34.0,
                10 => 24.0,
                _ => 54.0,
            };
            plain(line, servers, rate, rate / servers, millions)
        }
        "central queue M/M/n" => plain(line, 4.0, line.param("lambda"), 0.9, 30.0),
        "M/G/c/c (Erlang B, insensitive)" => loss(line),
        "M/M/c/K" => bounded(line),
        "M/G/inf (insensitive)" => endless(line),
        "M/G/inf transient from empty" => transient(line),
        "M_t/G/inf sinusoidal" => wave(line),
        _ => None,
    }
}

fn plain(line: &Line, servers: f64, rate: f64, load: f64, millions: f64) -> Option<Expressed> {
    let setting = Setting::poisson(theory("theory-mmc"), rate, load).set(SERVERS, servers).millions(millions);
    // The mean wait of the same queue stands in the table.
    let same =
        |other: &Line| other.params == line.params && other.model == line.model && other.metric == "Wq";
    let exact = queueing().into_iter().find(same)?.value;
    let wait = Measure::desk(Kind::Moment, "wait_mean_s");
    Some(Expressed::new(setting, Measure::common(&line.metric)?).with_control(line, wait, exact))
}

/// Erlang's loss system. Only the mean of the service matters, so each line has another law.
fn loss(line: &Line) -> Option<Expressed> {
    let (servers, offered) = (line.param("c"), line.param("a"));
    let law = match servers as u32 {
        1 => "1.0",
        10 => LOGNORMAL,
        60 => UNIFORM,
        _ => "{ kind = \"hyperexponential\", mean = 1.0, cv = 2.0 }",
    };
    let setting = Setting::poisson(theory("theory-mmc"), offered, offered / servers)
        .set(SERVERS, servers)
        .set(ROOM, 0)
        .set(SERVICE, law)
        .millions(if servers < 100.0 { 3.0 } else { 52.0 });
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

fn bounded(line: &Line) -> Option<Expressed> {
    let (servers, room, rate) = (line.param("c"), line.param("K"), line.param("lambda"));
    let setting = Setting::poisson(theory("theory-mmc"), rate, rate / servers)
        .set(SERVERS, servers)
        .set(ROOM, room - servers)
        .millions(if room == 20.0 && rate < servers { 24.0 } else { 6.0 });
    // A load above 1 is no reason for a wide interval where the queue is bounded.
    let setting = Setting { load: 0.0, ..setting };
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

fn endless_setting(rate: f64, law: &str) -> Setting {
    Setting::poisson(theory("theory-mmc"), rate, 0.0).set(SERVERS, ENDLESS).set(SERVICE, law)
}

/// Points of the timeline after the warm-up, which here is the longest service.
fn settled(run: &Replication) -> impl Iterator<Item = u64> {
    run.timeline.iter().filter(|point| point.t_s >= 2.0).map(|point| point.in_system)
}

fn share_of_points(run: &Replication, holds: impl Fn(u64) -> bool) -> Option<f64> {
    let (n, all) =
        settled(run).fold((0_u32, 0_u32), |(n, all), level| (n + u32::from(holds(level)), all + 1));
    (all > 0).then(|| f64::from(n) / f64::from(all))
}

/// M/G/inf: moments from the integral of the number in the system, its law from the points of the
/// timeline.
fn endless(line: &Line) -> Option<Expressed> {
    let mut setting = endless_setting(line.param("lambda"), UNIFORM).millions(30.0);
    setting.points_per_s = 4.0;
    let measure = match line.metric.as_str() {
        "P(N=20)" => Measure::new(Kind::Share, |run| share_of_points(run, |n| n == 20)),
        "P(N>30)" => Measure::new(Kind::Share, |run| share_of_points(run, |n| n > 30)),
        "N quantile 0.99" => Measure::new(Kind::Moment, |run| {
            let at_least = |n: &u64| share_of_points(run, |level| level <= *n).is_some_and(|p| p >= 0.99);
            (0..1000).find(at_least).map(|n| n as f64)
        }),
        other => Measure::common(other)?,
    };
    Some(Expressed::new(setting, measure))
}

/// The last point of the timeline: the number in the system at the end of the run.
fn at_the_end() -> Measure {
    Measure::new(Kind::Moment, |run| run.timeline.last().map(|point| point.in_system as f64))
}

fn transient(line: &Line) -> Option<Expressed> {
    let exponential = line.params.contains("Exp(1)");
    let law = if exponential { "{ kind = \"exponential\", mean = 1.0 }" } else { "1.0" };
    let mut setting = endless_setting(line.param("lambda"), law);
    setting.transient_s = Some(line.param("t"));
    setting.replications = 4000;
    (line.metric == "E[N(t)]").then(|| Expressed::new(setting, at_the_end()))
}

/// A sinusoidal rate. The maximum of the mean lies an eighth of a period after that of the rate: the
/// length of the run, after four periods. The rate is drawn by 256 straight lines per period, which takes
/// 5e-5 off its swing.
fn wave(line: &Line) -> Option<Expressed> {
    const LINES: u32 = 256;
    let points: Vec<String> = (0..=LINES)
        .map(|i| TAU * f64::from(i) / f64::from(LINES))
        .map(|t| format!("[{t:?}, {:?}]", 20.0 + 10.0 * t.sin()))
        .collect();
    let source = format!("{{ kind = \"profile\", repeat_s = {TAU:?}, points = [{}] }}", points.join(", "));
    let mut setting = Setting::new(theory("theory-mmc"), 20.0, 0.0)
        .set("workload.sources.arrivals", source)
        .set(SERVERS, ENDLESS);
    setting.transient_s = Some(4.0 * TAU + 0.75 * PI);
    setting.replications = 1500;
    (line.metric == "max_t E[N(t)]").then(|| Expressed::new(setting, at_the_end()))
}
