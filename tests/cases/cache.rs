//! The semantic cache, patience and the price: S1, S2, F7, P3.

use super::simulated::{metric, paired, percent, run, shown, values};
use forebay_tests::case_table::{Shown, show};

#[test]
fn s1_the_similarity_threshold() {
    let thresholds = ["0.80", "0.85", "0.90", "0.92", "0.95", "0.98"];
    let runs = thresholds.map(|t| run("token-cache", &[&format!("stages.cache.threshold={t}")], 4));
    for pair in runs.windows(2) {
        assert!(paired(&pair[1], &pair[0], "cache_hit_rate").hi < 0.0);
        // Wrong answers out of the cache, of all questions.
        let wrong = |runs: &[forebay_model::Replication]| {
            let (hits, wrong) = (values(runs, "cache_hit_rate"), values(runs, "cache_wrong_rate"));
            hits.iter().zip(wrong).map(|(hits, wrong)| hits * wrong).collect::<Vec<_>>()
        };
        assert!(forebay_engine::Interval::paired(&wrong(&pair[1]), &wrong(&pair[0]), 0.95).hi < 0.0);
    }
    // Of the hits, as long as there are enough of them to tell.
    for pair in runs[..4].windows(2) {
        let wrong = paired(&pair[1], &pair[0], "cache_wrong_rate");
        assert!(wrong.hi < 0.0, "{wrong:?}");
    }
    let [low, high] = [&runs[0], &runs[5]];
    let (hits, wrong) = (metric(high, "cache_hit_rate"), metric(low, "cache_wrong_rate"));
    assert!(hits.mean < 0.1 && wrong.mean > 0.05 && wrong.lo > 0.0, "{hits:?} {wrong:?}");
    let told = |name: &str| {
        runs.iter().map(|r| format!("{:.1}", 100.0 * metric(r, name).mean)).collect::<Vec<_>>().join(", ")
    };
    let text = format!(
        "0.80 to 0.98: hits {} %, of them wrong {} %",
        told("cache_hit_rate"),
        told("cache_wrong_rate")
    );
    show("S1", &Shown::met(text));
}

#[test]
fn s2_keyword_check_and_time_to_live() {
    let threshold = "stages.cache.threshold=0.86";
    let plain = run("token-cache", &[threshold], 4);
    let mut told = Vec::new();
    for (name, setting) in [
        ("keyword check", "stages.cache.keyword_check={ own_pass = 0.95, foreign_pass = 0.3 }"),
        ("time-to-live of 600 s", "stages.cache.ttl_s=600"),
    ] {
        let with = run("token-cache", &[threshold, setting], 4);
        let (wrong, hits) =
            (paired(&with, &plain, "cache_wrong_rate"), paired(&with, &plain, "cache_hit_rate"));
        assert!(wrong.hi < 0.0 && hits.hi < 0.0, "{name}: {wrong:?} {hits:?}");
        told.push(format!("{name}: wrong {}, hits {} points", shown(&wrong, 100.0), shown(&hits, 100.0)));
    }
    show("S2", &Shown::met(told.join("; ")));
}

/// L3 asks through a cache beside L1's; what L3 writes may drive out what L1 wrote.
const POOLS: &str = "
name = 'pools'
run = { duration_s = 1800, warmup_s = 600 }
[workload.sources.l1]
kind = 'poisson'
rate_per_s = 5
[workload.sources.l3]
kind = 'poisson'
rate_per_s = 40
[workload.mix]
l1 = { full = 1 }
l3 = { rules = 1 }
[workload.questions]
clusters = 5000
exponent = 0.8
[workload.classes.full]
endpoint = 'full'
[workload.classes.rules]
endpoint = 'rules'
business_class = 4
[endpoints.full]
l1 = ['cache', 'llm']
l3 = ['cache', 'rules']
l4 = ['cache', 'rules']
[endpoints.rules]
l1 = ['cache', 'llm']
l3 = ['cache', 'rules']
l4 = ['cache', 'rules']
[stages.cache]
kind = 'semantic_cache'
lookup_s = 0.01
capacity = 1000
pools = 'shared'
[stages.llm]
kind = 'server'
servers = 1000
service_s = 1
[stages.rules]
kind = 'rules'
servers = 100
service_s = 0.02
[policy.queue]
kind = 'fifo'
";

#[test]
fn f7_whose_cache_l3_reads_through() {
    // The second source stands at L3 by its class: the ladder is down, and the first has its floor at L1.
    let ladder = "policy.fallback={ l3 = { queue_above = 0 }, class = { s2 = { min_level = \"l1\" } } }";
    let alone = run(POOLS, &[ladder, "workload.sources.l3.rate_per_s=0.000001"], 4);
    let shared = run(POOLS, &[ladder], 4);
    let isolated = run(POOLS, &[ladder, "stages.cache.pools=per_level"], 4);
    let hits = "stage.cache.l1.hit_rate";
    let evictions = "stage.cache.l1.evictions";
    let fall = paired(&shared, &alone, hits);
    let kept = paired(&isolated, &alone, hits);
    assert!(fall.hi < -0.02, "{fall:?}");
    for name in [hits, evictions] {
        assert_eq!(values(&isolated, name), values(&alone, name), "{name}: a pool of its own is untouched");
    }
    assert!(metric(&shared, evictions).lo > 1.5 * metric(&alone, evictions).hi);
    show(
        "F7",
        &Shown::met(format!(
            "shared: L1's hits fall by {} points, evictions {} -> {}; isolated: {} points",
            shown(&fall, -100.0),
            shown(&metric(&alone, evictions), 1.0),
            shown(&metric(&shared, evictions), 1.0),
            shown(&kept, 100.0)
        )),
    );
}

#[test]
fn p3_people_who_ask_again() {
    let quota = "policy.admission.application.quota=100000000";
    // An answer of 300 tokens takes 10 s.
    let slow = ["main", "second"].map(|provider| {
        format!(
            "stages.api.providers.{provider}.per_token_s={{ kind = \"lognormal\", mean = 0.031, cv = 0.2 }}"
        )
    });
    let asked = |settings: &[&str]| {
        let settings: Vec<&str> = [quota, &slow[0], &slow[1]].iter().chain(settings).copied().collect();
        run("token-cache", &settings, 12)
    };
    let cached = asked(&[]);
    let again = asked(&["variant=no_cache"]);
    let given_up = asked(&["variant=no_cache", "workload.people.resend.probability=0"]);
    // Asking again makes it worse than giving up would; the cache takes the load away.
    let worse = paired(&again, &given_up, "error_rate");
    let attempts = metric(&again, "attempts_per_request");
    assert!(worse.lo > 0.0 && attempts.lo > 1.5, "{worse:?} {attempts:?}");
    let [cached, circle, patient] = [&cached, &again, &given_up].map(|runs| metric(runs, "error_rate"));
    assert!(cached.hi < 0.1 * circle.lo, "{cached:?} {circle:?}");
    show(
        "P3",
        &Shown::met(format!(
            "without the cache {} fail, {} attempts for each question ({} if nobody asks again); with it {}",
            percent(&circle),
            shown(&attempts, 1.0),
            percent(&patient),
            percent(&cached)
        )),
    );
}
