//! Limiters, retries, closed loops, and several stations.

use super::setting::{Expressed, Kind, Measure, Setting};
use forebay_tests::scenario::theory;
use forebay_tests::table::Line;

/// A limiter in front of a station that never fills.
const LIMITED: &str = r#"
name = "limiter"
[run]
duration_s = 1
# Nothing reads the meters: they need not be read ten times a second.
[telemetry]
period_s = 1000
[workload.sources.arrivals]
kind = "poisson"
rate_per_s = 1.0
[workload.classes.customer]
[endpoints.desk]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1000
service_s = 0.001
"#;

/// Users who think, ask, and wait for the answer.
const CLOSED: &str = r#"
name = "closed loop"
[run]
duration_s = 1
[workload.sources.users]
kind = "closed_loop"
users = 20
think_s = { kind = "exponential", mean = 10.0 }
[workload.classes.customer]
[endpoints.desk]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 1.0 }
"#;

/// Two stations; with `retries`, what fails at the second goes back to the first. A visit to the second
/// fails when it takes longer than its limit: independently of all else, with a probability that the
/// limit gives.
const TWO_STATIONS: &str = r#"
name = "two stations"
[run]
duration_s = 1
[workload.sources.arrivals]
kind = "poisson"
rate_per_s = 1.0
[workload.classes.customer]
[endpoints.desk]
l1 = ["desk", "second"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 1.0 }
[stages.second]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.8 }
"#;

/// Four stations, each with its own quarter of the arrivals.
const SPLIT: &str = r#"
name = "random split"
[run]
duration_s = 1
[workload.sources.arrivals]
kind = "poisson"
rate_per_s = 3.6
[workload.classes]
a = { endpoint = "a" }
b = { endpoint = "b" }
c = { endpoint = "c" }
d = { endpoint = "d" }
[endpoints]
a = { l1 = ["first"] }
b = { l1 = ["second"] }
c = { l1 = ["third"] }
d = { l1 = ["fourth"] }
[stages]
first = { kind = "server", servers = 1, service_s = { kind = "exponential", mean = 1.0 } }
second = { kind = "server", servers = 1, service_s = { kind = "exponential", mean = 1.0 } }
third = { kind = "server", servers = 1, service_s = { kind = "exponential", mean = 1.0 } }
fourth = { kind = "server", servers = 1, service_s = { kind = "exponential", mean = 1.0 } }
"#;

/// Replicas that each have a queue of their own, as engines with continuous batching have: with one
/// sequence at a time they are single servers, and a service is a number of tokens of 1 ms. Rounding to
/// whole tokens moves the mean by less than a millionth.
const REPLICAS: &str = r#"
name = "replicas with queues of their own"
[run]
duration_s = 1
# Nothing reads the meters: they need not be read ten times a second.
[telemetry]
period_s = 1000
[workload.sources.arrivals]
kind = "poisson"
rate_per_s = 1.0
[workload.classes.customer]
tokens_out = { kind = "exponential", mean = 1000.0 }
[endpoints.desk]
l1 = ["desk"]
[stages.desk]
kind = "llm_batching"
replicas = 4
max_seqs = 1
max_batched_tokens = 1000000
kv_blocks = 1000
block_tokens = 1024
routing = "round_robin"
cost = { c0_s = 0.001, per_prefill_token_s = 0.0, per_prefill_context_s = 0.0, per_decode_sequence_s = 0.0, per_resident_token_s = 0.0 }
"#;

pub(crate) fn express(line: &Line) -> Option<Expressed> {
    match line.model.as_str() {
        "token bucket (=M/D/1/K, K=depth)" => bucket(line),
        "fixed-window limiter" => window(line),
        "sliding-window-log limiter (=M/D/N/N)" => sliding(line),
        "retry until success, max k attempts, independent failures" => retries(line),
        "M/M/1 feedback (Jackson, p=retry)" => feedback(line),
        "closed loop: N users, think Z, one exp server (MVA)" => closed(line),
        "tandem M/M/1 -> M/M/1 (Burke/Jackson)" => {
            let rate = line.param("lambda");
            let service = |mu: f64| format!("{{ kind = \"exponential\", mean = {:?} }}", 1.0 / mu);
            let setting = Setting::poisson(TWO_STATIONS, rate, 0.8)
                .set("stages.desk.service_s", service(line.param("mu1")))
                .set("stages.second.service_s", service(line.param("mu2")))
                .millions(3.0);
            Some(Expressed::new(setting, Measure::common(&line.metric)?))
        }
        "round-robin over n M/M/1 servers (E_n/M/1)" => {
            let setting = Setting::poisson(REPLICAS, line.param("lambda"), 0.9).millions(19.0);
            Some(Expressed::new(setting, Measure::common(&line.metric)?))
        }
        "join the shortest queue, 2 x M/M/1" => {
            let setting = Setting::poisson(REPLICAS, line.param("lambda"), 0.9)
                .set("stages.desk.replicas", 2)
                .set("stages.desk.routing", "least_loaded")
                .millions(19.0);
            Some(Expressed::new(setting, Measure::common(&line.metric)?))
        }
        "random split over n M/M/1 servers" => {
            let setting = Setting::poisson(SPLIT, line.param("lambda"), 0.9).millions(16.0);
            let measure = Measure::total(Kind::Moment, "wait_mean_s");
            Some(Expressed::new(setting, measure))
        }
        "Little's law" => {
            // The identity is checked to the nanosecond in every run; a breach is a violation.
            let setting = Setting::poisson(theory("theory-mm1"), 0.5, 0.5).millions(3.0);
            Some(Expressed::new(setting, Measure::new(Kind::Moment, |run| Some(run.violations.len() as f64))))
        }
        _ => None,
    }
}

fn bucket(line: &Line) -> Option<Expressed> {
    let module = format!(
        "{{ kind = \"token_bucket\", rate_per_s = {:?}, burst = {:?} }}",
        line.param("rate"),
        line.param("depth")
    );
    let setting = Setting::poisson(LIMITED, line.param("lambda"), 0.0)
        .set("policy.admission.entry", module)
        .millions(match line.param("depth") as u32 {
            20 => 26.0,
            10 => 16.0,
            _ => 3.0,
        });
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

fn window(line: &Line) -> Option<Expressed> {
    let module = format!("{{ kind = \"fixed_rate\", limit = {}, window_s = 1.0 }}", line.param("limit"));
    let setting = Setting::poisson(LIMITED, line.param("mean arrivals per window"), 0.0)
        .set("policy.admission.entry", module)
        .millions(rarity(line));
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

/// A limiter that counts those accepted in the last window is a loss system in which each stays for a
/// window, as the table says: that system is run.
fn sliding(line: &Line) -> Option<Expressed> {
    let setting = Setting::poisson(theory("theory-mmc"), line.param("mean arrivals per window"), 0.0)
        .set("stages.desk.servers", line.param("limit"))
        .set("stages.desk.max_queue", 0)
        .set("stages.desk.service_s", "1.0")
        .millions(rarity(line));
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}

/// A limiter of 60 at a rate of 50 rejects so few that it takes more requests to see it.
fn rarity(line: &Line) -> f64 {
    let spare = line.param("limit") / line.param("mean arrivals per window");
    if spare > 1.15 { 15.0 } else { 6.0 }
}

/// A station at which an attempt fails with this probability: its time is uniform over a second, and it
/// is cut off after the rest of that second.
fn failing(setting: Setting, stage: &str, probability: f64, scale_s: f64) -> Setting {
    setting
        .set(&format!("stages.{stage}.servers"), 1000)
        .set(
            &format!("stages.{stage}.service_s"),
            format!("{{ kind = \"uniform\", min = 0.0, max = {scale_s:?} }}"),
        )
        .set(&format!("stages.{stage}.time_limit_s"), format!("{:?}", (1.0 - probability) * scale_s))
}

fn retries(line: &Line) -> Option<Expressed> {
    let again = format!("{{ at_most = {}, base_s = 0.0 }}", line.param("k") - 1.0);
    let setting = failing(Setting::poisson(LIMITED, 20.0, 0.0), "desk", line.param("p_fail"), 1.0)
        .set("workload.retries", again)
        .millions(3.0);
    let measure = match line.metric.as_str() {
        "E[attempts]" => Measure::total(Kind::Moment, "attempts_per_request"),
        "P(final failure)" => Measure::total(Kind::Share, "error_rate"),
        _ => return None,
    };
    Some(Expressed::new(setting, measure))
}

/// The number at the first station alone; the second only decides who goes back.
fn feedback(line: &Line) -> Option<Expressed> {
    let rate = line.param("gamma");
    let setting = failing(Setting::poisson(TWO_STATIONS, rate, 0.0), "second", line.param("p"), 0.01)
        .set("workload.retries", "{ at_most = 100, base_s = 0.0 }")
        .millions(3.0);
    let measure = Measure::new(Kind::Moment, |run| {
        let value = |name: &str| run.by.get("stage")?.get("desk")?.get(name)?.value;
        Some(value("busy_mean")? + value("queue_mean")?)
    });
    (line.metric == "L").then(|| Expressed::new(setting, measure))
}

fn closed(line: &Line) -> Option<Expressed> {
    let think = format!("{{ kind = \"exponential\", mean = {:?} }}", line.param("Z"));
    let setting = Setting::new(CLOSED, 1.0, 0.0)
        .set("workload.sources.users.users", line.param("N"))
        .set("workload.sources.users.think_s", think)
        .millions(2.0);
    Some(Expressed::new(setting, Measure::common(&line.metric)?))
}
