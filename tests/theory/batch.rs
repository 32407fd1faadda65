//! Servers that take many at once: batches, and the sharing of one server by all.

use super::setting::{Expressed, Kind, Measure, Setting};
use forebay_tests::scenario::theory;
use forebay_tests::table::Line;

/// One LLM replica with room for everybody: with a slow-down per call it is a shared server.
const SHARED: &str = r#"
name = "shared server"
[run]
duration_s = 1
[workload.sources.arrivals]
kind = "poisson"
rate_per_s = 1.0
[workload.classes.customer]
[endpoints.desk]
l1 = ["desk"]
[stages.desk]
kind = "llm_slots"
replicas = 1
slots = 100000
first_token_s = { kind = "exponential", mean = 1.0 }
"#;

pub(crate) fn express(line: &Line) -> Option<Expressed> {
    match line.model.as_str() {
        "M/M^[1,b]/1 bulk service" => {
            let residual = "{ kind = \"exponential\", mean = 1.0 }";
            bulk(
                line,
                Setting::poisson(theory("theory-batch"), line.param("lambda"), 0.0)
                    .set("stages.desk.residual", residual),
            )
        }
        "M/D^[1,b]/1 bulk service" => bulk(
            line,
            Setting::poisson(theory("theory-batch"), line.param("lambda"), 0.0)
                .set("stages.desk.residual", 1.0),
        ),
        "M/D^[all](k)/1 GPU dynamic batching (Inoue 2021)" => growing(line),
        "M/M/1-PS" => {
            let load = line.param("lambda");
            let millions = if load > 0.85 { 24.0 } else { 10.0 };
            let law = "{ kind = \"exponential\", mean = 1.0 }";
            // The mean time in the system is that of M/M/1.
            let time = Measure::total(Kind::Moment, "latency_mean_s");
            Some(shared(line, load, 1.0, law, millions)?.with_control(line, time, 1.0 / (1.0 - load)))
        }
        "M/G/1-GPS load-dependent (continuous batching, insensitive)" => {
            let rate = line.param("lambda");
            // Only the mean of the work matters, so each line has another law.
            let (law, millions) = match rate as u32 {
                5 => ("1.0", 2.0),
                10 => ("{ kind = \"lognormal\", mean = 1.0, cv = 1.0 }", 3.0),
                _ => ("{ kind = \"exponential\", mean = 1.0 }", 6.0),
            };
            shared(line, rate, 0.05, law, millions)
        }
        _ => None,
    }
}

fn measure(metric: &str) -> Option<Measure> {
    Some(match metric {
        "P(idle)" => Measure::desk(Kind::Share, "utilisation").map(|busy| 1.0 - busy),
        "mean batch size" => Measure::desk(Kind::Moment, "batch_mean"),
        other => Measure::common(other)?,
    })
}

fn bulk(line: &Line, setting: Setting) -> Option<Expressed> {
    let millions = match (line.model.starts_with("M/M"), line.param("lambda") as u32) {
        (true, 7) => 50.0,
        (true, _) => 14.0,
        (false, _) => 4.0,
    };
    let setting = setting.set("stages.desk.max_docs", line.param("b")).millions(millions);
    Some(Expressed::new(setting, measure(&line.metric)?))
}

/// Batches of all who wait, whose time grows with their number.
fn growing(line: &Line) -> Option<Expressed> {
    let (rate, per_call, fixed) = (line.param("lambda"), line.param("alpha"), line.param("tau0"));
    let setting = Setting::poisson(theory("theory-batch"), rate, 0.0)
        .set("stages.desk.max_docs", 1_000_000)
        .set("stages.desk.base_s", fixed)
        .set("stages.desk.per_document_s", per_call)
        .set("stages.desk.residual", 1.0)
        .millions(4.0);
    Some(Expressed::new(setting, measure(&line.metric)?))
}

fn shared(line: &Line, rate: f64, slowdown: f64, law: &str, millions: f64) -> Option<Expressed> {
    let setting = Setting::poisson(SHARED, rate, 0.0)
        .set("stages.desk.slowdown_per_busy", slowdown)
        .set("stages.desk.first_token_s", law)
        .millions(millions);
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}
