//! What the service can carry: R1, R2, R8.

use super::simulated::{close, deviation, ledger, metric, percent, read, run, shown};
use forebay_tests::case_table::{Shown, show};
use forebay_workbench::capacity::Capacity;

/// Retrieval, reranking and a model, whose ceilings are 200, 9.09 and 16 per second. Constant times.
const CHAIN: &str = "
name = 'chain'
run = { duration_s = 200, warmup_s = 20 }
[workload.sources.all]
kind = 'poisson'
rate_per_s = 5
[workload.classes.any]
tokens_out = 101
[endpoints.ask]
l1 = ['retrieve', 'rerank', 'llm']
documents = 50
[stages.retrieve]
kind = 'vector_store'
connections = 5
base_s = 0.025
[stages.rerank]
kind = 'reranker'
gpus = 1
max_docs = 100
base_s = 0.02
per_document_s = 0.002
[stages.llm]
kind = 'llm_slots'
replicas = 4
slots = 8
first_token_s = 0.5
per_token_s = 0.015
";

#[test]
fn r1_the_ceiling_is_the_least_of_three() {
    let mut off = 0.0_f64;
    let mut first = Vec::new();
    for (connections, gpus, replicas) in
        [(5.0, 1.0, 4.0), (5.0, 2.0, 4.0), (5.0, 30.0, 60.0), (1.0, 9.0, 40.0)]
    {
        let settings = [
            format!("stages.retrieve.connections={connections}"),
            format!("stages.rerank.gpus={gpus}"),
            format!("stages.llm.replicas={replicas}"),
        ];
        let capacity =
            Capacity::of(&read(CHAIN, &settings.each_ref().map(String::as_str))).expect("a sound scenario");
        let three = [
            ("retrieve", connections / 0.025),
            // A batch of 100 documents is two queries.
            ("rerank", gpus * 2.0 / (0.02 + 100.0 * 0.002)),
            ("llm", replicas * 8.0 / (0.5 + 100.0 * 0.015)),
        ];
        for (stage, ceiling) in three {
            let found = capacity.stages.iter().find(|s| s.name == stage).and_then(|s| s.ceiling_per_s);
            off = off.max(close(found.expect("a ceiling"), ceiling, 1e-9 * ceiling));
        }
        let least = three.into_iter().reduce(|a, b| if b.1 < a.1 { b } else { a }).expect("three stages");
        assert_eq!(capacity.first_bottleneck.as_deref(), Some(least.0));
        off = off.max(close(capacity.ceiling_per_s.expect("a ceiling"), least.1, 1e-9 * least.1));
        first.push(least.0);
    }
    assert_eq!(first, ["rerank", "llm", "retrieve", "retrieve"]);
    // Twice the load goes in, and the ceiling comes out.
    let served = metric(&run(CHAIN, &["workload.sources.all.rate_per_s=18"], 4), "throughput_per_s");
    close(served.mean, 2.0 / 0.22, 0.05);
    let text = format!(
        "closed form {} for 4 services, each stage the least of one or two; simulated at twice a ceiling of \
         9.091 per s, {} per s are served",
        deviation(off),
        shown(&served, 1.0)
    );
    show("R1", &Shown::met(text));
}

#[test]
fn r2_one_rerank_gpu() {
    let text = "
name = 'reranker'
run = { duration_s = 2000, warmup_s = 100 }
[workload.sources.all]
kind = 'poisson'
rate_per_s = 12
[workload.classes.any]
[endpoints.ask]
l1 = ['rerank']
documents = 50
[stages.rerank]
kind = 'reranker'
gpus = 1
max_docs = 50
base_s = 0.02
per_document_s = 0.002
max_queue = 100
";
    let capacity =
        Capacity::of(&read(text, &[])).expect("a sound scenario").ceiling_per_s.expect("a ceiling");
    close(capacity, 1.0 / 0.12, 1e-9);
    let served = metric(&run(text, &[], 8), "throughput_per_s");
    assert!(8.33 * 0.995 <= served.lo && served.hi <= 8.33 * 1.005, "{served:?}");
    let text =
        format!("closed form {capacity:.3}; at 12 queries per s, {} per s are served", shown(&served, 1.0));
    show("R2", &Shown::met(text));
}

/// A service in the stages of a load test. Times and sizes are assumptions, but for the reranker's.
const STAGED: &str = "
name = 'staged'
run = { duration_s = 600, warmup_s = 20, drain_s = 60 }
[workload.sources.test]
kind = 'poisson'
rate_per_s = 2
[workload.classes.question]
tokens_out = { kind = 'lognormal', mean = 120, cv = 0.6 }
[endpoints.ask]
l1 = ['retrieve', 'rerank', 'llm']
documents = 50
documents_kept = 8
tokens_per_document = 200
[stages.retrieve]
kind = 'vector_store'
connections = 20
base_s = { kind = 'lognormal', mean = 0.01, cv = 0.3 }
per_document_s = 0.0002
time_limit_s = 0.5
[stages.rerank]
kind = 'reranker'
gpus = 2
max_docs = 50
base_s = 0.02
per_document_s = 0.002
device = 'gpu'
weights_gb = 1.1
workspace_per_document_gb = 0.012
[stages.llm]
kind = 'llm_slots'
replicas = 2
slots = 8
first_token_s = { kind = 'lognormal', mean = 0.15, cv = 0.3 }
per_prompt_token_s = 0.00008
per_token_s = 0.008
memory = { device = 'gpu', weights_gb = 15.2, per_call_gb = 0.2 }
[devices.gpu]
count = 2
memory_gb = 24
";

#[test]
fn r8_a_load_test_in_three_stages() {
    let stage = |path: &str| run(STAGED, &[&format!("endpoints.ask.l1={path}")], 8);
    let vector = stage("['retrieve']");
    let search = metric(&vector, "latency_p99_s");
    let ends = ledger(&vector);
    assert_eq!(ends.answered.total(), ends.offered, "{ends:?}");
    assert!(search.hi < 0.035, "{search:?}");
    let rerank = stage("['rerank']");
    let (memory, batch) = (metric(&rerank, "vram_max"), metric(&rerank, "latency_p95_s"));
    assert!(memory.hi < 0.85 && batch.hi < 0.150, "{memory:?} {batch:?}");
    let whole = stage("['retrieve', 'rerank', 'llm']");
    let first = metric(&whole, "ttft_p99_s");
    let ends = ledger(&whole);
    assert_eq!(ends.answered.total(), ends.offered, "{ends:?}");
    assert!(first.hi < 0.800, "{first:?}");
    let text = format!(
        "at 2 questions per s, stage 1: p99 {} ms, none timed out; stage 2: VRAM up to {}, p95 {} ms; \
         stage 3: none failed, p99 of the first token {} ms",
        shown(&search, 1e3),
        percent(&memory),
        shown(&batch, 1e3),
        shown(&first, 1e3)
    );
    show("R8", &Shown::met(text));
}
