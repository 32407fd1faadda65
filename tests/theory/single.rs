//! One server: M/M/1, M/G/1, M/D/1 and D/M/1.

use super::setting::{Expressed, Kind, Measure, Setting};
use forebay_tests::scenario::theory;
use forebay_tests::table::Line;

/// Where the scenario says how long a service takes.
const SERVICE: &str = "stages.desk.service_s";

pub(crate) fn express(line: &Line) -> Option<Expressed> {
    match line.model.as_str() {
        "M/M/1" => general(line, "M"),
        "M/G/1 FCFS" => general(line, line.params.strip_prefix("S=")?.split(';').next()?),
        "M/D/1 FCFS" => deterministic(line),
        "D/M/1" => regular(line),
        _ => None,
    }
}

/// A service law of the table, with its squared coefficient of variation.
fn service(law: &str) -> Option<(&'static str, f64)> {
    Some(match law {
        "M" => ("{ kind = \"exponential\", mean = 1.0 }", 1.0),
        "D" => ("1.0", 0.0),
        "E2" => ("{ kind = \"gamma\", mean = 1.0, cv = 0.7071067811865476 }", 0.5),
        "U(0,2)" => ("{ kind = \"uniform\", min = 0.0, max = 2.0 }", 1.0 / 3.0),
        "LN scv=1" => ("{ kind = \"lognormal\", mean = 1.0, cv = 1.0 }", 1.0),
        "LN scv=4" => ("{ kind = \"lognormal\", mean = 1.0, cv = 2.0 }", 4.0),
        // Two phases with balanced means: the one whose third moment gives the table's Var[Wq].
        "H2 scv=4" => ("{ kind = \"hyperexponential\", mean = 1.0, cv = 2.0 }", 4.0),
        // Cut at 1000 times the mean: that takes 3e-8 off the first moment and 2e-5 off the second,
        // far below the interval. The third, and with it Var[Wq], would not survive the cut.
        "Pareto alpha=3.5" => {
            ("{ kind = \"pareto\", min = 0.7142857142857143, max = 1000.0, alpha = 3.5 }", 0.19)
        }
        _ => return None,
    })
}

fn general(line: &Line, law: &str) -> Option<Expressed> {
    let (text, scv) = service(law)?;
    let measure = Measure::common(&line.metric)?;
    let load = line.param("lambda");
    let setting =
        Setting::poisson(theory("theory-mm1"), load, load).set(SERVICE, text).millions(millions(law, load));
    Some(controlled(line, setting, measure, load, scv))
}

/// The mean wait is known (Pollaczek and Khinchine).
fn controlled(line: &Line, setting: Setting, measure: Measure, load: f64, scv: f64) -> Expressed {
    let wait = Measure::desk(Kind::Moment, "wait_mean_s");
    let exact = load * (1.0 + scv) / (2.0 * (1.0 - load));
    Expressed::new(setting, measure).with_control(line, wait, exact)
}

/// How many millions of requests a setting needs, as pilot runs of an eighth of that showed: then the
/// widest of its intervals is a tenth narrower than it may be. In heavy traffic the number goes with
/// `lambda E[S^2] / (1 - rho)^2`; services with a long tail need more.
fn millions(law: &str, load: f64) -> f64 {
    let at = |half: f64, at_08: f64, at_09: f64| match load {
        _ if load < 0.6 => half,
        _ if load < 0.85 => at_08,
        _ => at_09,
    };
    match law {
        _ if load >= 0.95 => 68.0,
        "M" => at(3.0, 14.0, 35.0),
        "D" => at(3.0, 7.0, 34.0),
        "LN scv=1" => at(3.0, 18.0, 46.0),
        "LN scv=4" => at(24.0, 42.0, 130.0),
        "Pareto alpha=3.5" => at(3.0, 6.0, 18.0),
        _ => at(6.0, 8.0, 28.0),
    }
}

/// M/D/1. Every service takes 1 s, so a wait of at most t is a time in the system of at most t + 1 s: the
/// share of answers that come in time, when that is what in time means.
fn deterministic(line: &Line) -> Option<Expressed> {
    let load = line.param("lambda");
    let mut setting =
        Setting::poisson(theory("theory-mm1"), load, load).set(SERVICE, "1.0").millions(millions("D", load));
    let measure = if let Some(limit) = line.metric.strip_prefix("P(Wq<=") {
        let limit_s: f64 = limit.trim_end_matches(')').parse().ok()?;
        if limit_s == 0.0 {
            Measure::desk(Kind::Share, "delayed_share").map(|delayed| 1.0 - delayed)
        } else {
            setting = setting.set("gateway.in_time_s", limit_s + 1.0).millions(5.0);
            Measure::new(Kind::Share, |run| {
                let value = |name: &str| run.metrics.get(name)?.value;
                Some(value("goodput_per_s")? / value("throughput_per_s")?)
            })
        }
    } else {
        Measure::common(&line.metric)?
    };
    Some(controlled(line, setting, measure, load, 0.0))
}

/// D/M/1: a renewal source whose gaps are all alike.
fn regular(line: &Line) -> Option<Expressed> {
    let load: f64 = line.params.strip_prefix("interarrival=1/")?.split(';').next()?.parse().ok()?;
    let source = format!("{{ kind = \"renewal\", gap_s = {:?} }}", 1.0 / load);
    let setting = Setting::new(theory("theory-mm1"), load, load)
        .set("workload.sources.arrivals", source)
        .millions(if load > 0.8 { 14.0 } else { 3.0 });
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}
