//! The endpoints on one executor and one host: G5, G8, N3.

use super::simulated::{answered, metric, run, shown};
use forebay_tests::case_table::{Shown, show};

#[test]
fn g5_a_gate_counts_what_passes_it() {
    // 200 questions one after the other, each with two model calls, and a window of 100 for all: searches,
    // then chats.
    let text = "
name = 'calls'
run = { duration_s = 1000, drain_s = 10 }
[workload.sources.one_by_one]
kind = 'renewal'
gap_s = 5
[workload.classes.question]
[endpoints.search]
l1 = ['intent', 'rerank']
[endpoints.chat]
l1 = ['intent', 'stream']
[stages.intent]
kind = 'llm_slots'
replicas = 1
slots = 10
first_token_s = 0.1
[stages.rerank]
kind = 'llm_slots'
replicas = 1
slots = 10
first_token_s = 0.5
[stages.stream]
kind = 'llm_slots'
replicas = 1
slots = 10
first_token_s = 1
[policy.admission.limit]
kind = 'fixed_rate'
limit = 100
window_s = 2000
";
    for endpoint in ["search", "chat"] {
        let of = format!("workload.classes.question.endpoint={endpoint}");
        let [calls, requests] = ["llm_call", "front"]
            .map(|place| answered(&run(text, &[&of, &format!("policy.admission.limit.place={place}")], 1)));
        assert_eq!((calls, requests), (50, 100), "{endpoint}");
    }
    show(
        "G5",
        &Shown::met(
            "a limit of 100: 100 requests at the entry, 50 at the model client, searches and chats alike",
        ),
    );
}

#[test]
fn g8_the_memory_of_the_host() {
    let threads = run("endpoints", &["variant=threads"], 2);
    let resident = metric(&threads, "host_memory_max_mb").mean;
    assert!((resident / 965.0 - 1.0).abs() <= 0.05, "{resident}");
    let killed = |variant: &str| {
        let replications = run("endpoints", &[&format!("variant={variant}")], 12);
        let mut names: Vec<String> = replications
            .iter()
            .flat_map(|replication| &replication.marks)
            .filter(|mark| mark.on && mark.what.ends_with("killed"))
            .map(|mark| mark.name.clone())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let (container, host) = (killed("container"), killed("crowded_host"));
    assert_eq!(container, ["gateway"]);
    assert_eq!(host, ["database", "gateway", "log_shipper"]);
    let text = format!(
        "{resident} MB; a container kills {} alone, the host one of {}",
        container.join(", "),
        host.join(", ")
    );
    show("G8", &Shown::met(text));
}

#[test]
fn n3_where_the_limiter_stands() {
    let [late, early] =
        ["late_limit", "early_limit"].map(|variant| run("endpoints", &[&format!("variant={variant}")], 2));
    let embedder = [&late, &early].map(|runs| metric(runs, "stage.embed.utilisation"));
    let model = [&late, &early].map(|runs| metric(runs, "stage.stream.busy_mean"));
    assert!(embedder[0].lo > 0.99 && embedder[1].hi < 0.2, "{embedder:?}");
    assert!(model[0].hi < 0.5 * model[1].lo, "{model:?}");
    let told = |index: usize| {
        format!(
            "embedder {} % busy, {} model calls at once",
            shown(&embedder[index], 100.0),
            shown(&model[index], 1.0)
        )
    };
    show("N3", &Shown::met(format!("after the retrieval: {}; at the front: {}", told(0), told(1))));
}
