//! Small scenarios that unit tests run again and again, and what they ask of a run.

use crate::document::{Problem, Setting, Source};
use crate::replication::{Replication, simulate};
use crate::scenario::{Inputs, Loaded};

/// One server behind one endpoint; each test changes what it is about.
pub(crate) const BASE: &str = r#"
name = "small"
[run]
duration_s = 1000
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 0.5
[workload.classes.question]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 1.0 }
"#;

/// L1 on a device that fills, L2 on a server that needs none.
pub(crate) const MEMORY: &str = r#"
name = "memory"
[run]
duration_s = 300
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 4
[workload.classes.question]
tokens_out = 101
[endpoints.ask]
l1 = ["llm"]
l2 = ["light"]
[stages.llm]
kind = "llm_slots"
replicas = 1
slots = 8
first_token_s = 0.5
per_token_s = 0.01
[stages.llm.memory]
device = "gpu"
weights_gb = 10
per_call_gb = 1.0
per_token_mb = 1.0
[stages.light]
kind = "server"
servers = 100
service_s = 0.1
[devices.gpu]
count = 1
memory_gb = 20
"#;

pub(crate) const RERANK: &str = r#"
name = "rerank"
[run]
duration_s = 600
warmup_s = 20
[workload.sources.crowd]
kind = "poisson"
rate_per_s = 20
[workload.classes.question]
[endpoints.ask]
l1 = ["rerank"]
documents = 50
documents_kept = 5
[stages.rerank]
kind = "reranker"
gpus = 1
max_docs = 50
base_s = 0.02
per_document_s = 0.002
"#;

pub(crate) fn load(text: &str, settings: &[&str]) -> Loaded {
    read(text, settings).unwrap_or_else(|problems| panic!("{}", in_words(&problems)))
}

/// What is wrong with a scenario, a line for each problem.
pub(crate) fn refused(text: &str, settings: &[&str]) -> String {
    in_words(&read(text, settings).expect_err("it is refused"))
}

fn read(text: &str, settings: &[&str]) -> Result<Loaded, Vec<Problem>> {
    let settings: Vec<_> = settings.iter().map(|s| Setting::parse(s).expect("a setting")).collect();
    Loaded::read(&Source::new("test.toml", text), &settings, |_| Ok(Inputs::default()))
}

fn in_words(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(crate) fn run(text: &str, settings: &[&str]) -> Replication {
    let replication = simulate(&load(text, settings), 1, 0).expect("it runs");
    assert_eq!(replication.violations, Vec::<String>::new());
    assert_eq!(replication.ledger.accounted(), replication.ledger.offered);
    replication
}

pub(crate) fn metric(replication: &Replication, name: &str) -> f64 {
    replication.metrics[name].value.unwrap_or_else(|| panic!("{name} has no value"))
}

pub(crate) fn stage(replication: &Replication, stage: &str, name: &str) -> f64 {
    replication.by["stage"][stage][name].value.unwrap_or_else(|| panic!("{stage}.{name} has no value"))
}
