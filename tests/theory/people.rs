//! People and their order: those who give up while they wait, and those who are served first.

use super::setting::{Expressed, Kind, Measure, Setting};
use forebay_tests::scenario::theory;
use forebay_tests::table::Line;

const SERVERS: &str = "stages.desk.servers";
const PATIENCE: &str = "workload.people.patience.give_up_after_s";

pub(crate) fn express(line: &Line) -> Option<Expressed> {
    match line.model.as_str() {
        "M/M/c+M (Erlang A)" => {
            let patience = format!("{{ kind = \"exponential\", mean = {:?} }}", 1.0 / line.param("theta"));
            abandonment(line, &patience)
        }
        "M/M/1+D (deterministic timeout)" | "M/M/c+D (deterministic timeout)" => {
            abandonment(line, &format!("{:?}", line.param("timeout")))
        }
        "M/G/1 non-preemptive priority" | "M/M/c non-preemptive priority" => priority(line),
        _ => None,
    }
}

/// The load is no reason for a wide interval here: the queue is short, because people leave it.
fn abandonment(line: &Line, patience: &str) -> Option<Expressed> {
    let (rate, servers) = (line.param("lambda"), line.find("c").unwrap_or(1.0));
    let setting = Setting::poisson(theory("theory-abandon"), rate, 0.0)
        .set(SERVERS, servers)
        .set(PATIENCE, patience)
        .millions(match rate as u32 {
            100 => 30.0,
            7 => 9.0,
            _ => 4.0,
        });
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

fn exponential(mean: f64) -> String {
    format!("{{ kind = \"exponential\", mean = {mean:?} }}")
}

fn priority(line: &Line) -> Option<Expressed> {
    let class = |n: &str| {
        let key = match n {
            "1" => "first",
            "2" => "second",
            _ => "third",
        };
        Measure::of("class", key, Kind::Moment, "wait_mean_s")
    };
    let measure = class(line.metric.strip_prefix("Wq class ")?);
    let (rates, servers, services, load): ([f64; 3], u32, [f64; 3], f64) = match line.params.as_str() {
        "l=(0.3,0.5);S1,S2~Exp(1)" => ([0.3, 0.5, 0.0], 1, [1.0; 3], 0.8),
        "l=(0.4,0.1);S1~Exp(0.5),S2~Exp(mean 5)" => ([0.4, 0.1, 0.0], 1, [0.5, 5.0, 1.0], 0.7),
        "l=(0.2,0.3,0.4);S=1 det" => ([0.2, 0.3, 0.4], 1, [0.0; 3], 0.9),
        "c=8;mu=1;l=(2.2,5.0)" => ([2.2, 5.0, 0.0], 8, [1.0; 3], 0.9),
        _ => return None,
    };
    let mut setting = Setting::poisson(theory("theory-priority"), rates.iter().sum(), load)
        .set(SERVERS, servers)
        .set("gateway.executor_slots", servers)
        .millions(if servers == 1 { 13.0 } else { 48.0 });
    for ((name, rate), mean) in ["first", "second", "third"].iter().zip(rates).zip(services) {
        let class = format!("workload.classes.{name}");
        setting = setting.set(&format!("{class}.weight"), rate);
        if mean > 0.0 {
            setting = setting.set(&format!("{class}.service_s"), exponential(mean));
        }
    }
    Some(Expressed::new(setting, measure))
}
