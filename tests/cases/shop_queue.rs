//! The shop's semantic queue, on the bundled `shop-queue` with one set of parameters: Q4, Q5, Q6, F8, C5, C6.

use super::simulated::{metric, near, paired, percent, run, shown};
use forebay_engine::Interval;
use forebay_model::Replication;
use forebay_tests::case_table::{Shown, show};

#[test]
fn q4_high_value_users_first() {
    let [fifo, semantic] =
        ["fifo", "right"].map(|variant| run("shop-queue", &[&format!("variant={variant}")], 8));
    // The response is the time to the first token, as people see it begin.
    let of = |runs: &[Replication], tier: &str| metric(runs, &format!("tier.{tier}.ttft_mean_s"));
    let high = [of(&fifo, "black_card"), of(&semantic, "black_card")];
    assert!(near(high[0].mean, 2.1, 0.25) && near(high[1].mean, 0.4, 0.25), "{high:?}");
    let mut told = vec![format!("black card {} -> {} s", shown(&high[0], 1.0), shown(&high[1], 1.0))];
    for tier in ["member", "guest"] {
        let others = [of(&fifo, tier), of(&semantic, tier)];
        assert!(near(others[0].mean, 1.8, 0.25) && near(others[1].mean, 1.9, 0.25), "{others:?}");
        // The same crowd waits longer, if only a little.
        let longer = paired(&semantic, &fifo, &format!("tier.{tier}.ttft_mean_s"));
        assert!(longer.lo > 0.0, "{tier}: {longer:?}");
        told.push(format!("{tier} {} -> {} s", shown(&others[0], 1.0), shown(&others[1], 1.0)));
    }
    show("Q4", &Shown::met(format!("time to the first token: {}", told.join(", "))));
}

#[test]
fn q5_where_the_scoring_stands() {
    let before = run("shop-queue", &["variant=ordinary"], 4);
    // The same crowd, with a scorer of 200 ms in the chain instead of the 15 ms before the queue.
    let inside = run(
        "shop-queue",
        &[
            "variant=ordinary",
            "gateway.ingress_delay_s=0.0",
            "stages.scorer={ kind = \"server\", servers = 1000, service_s = 0.2 }",
            "endpoints.ask.l1=[\"scorer\", \"llm\"]",
        ],
        4,
    );
    let cost = paired(&inside, &before, "latency_mean_s");
    // At least its whole cost: it also holds the executor's slot, so that others wait.
    assert!(cost.lo >= 0.2 - 0.015, "{cost:?}");
    show(
        "Q5",
        &Shown::met(format!(
            "in the chain {} ms more for each request than before the queue",
            shown(&cost, 1000.0)
        )),
    );
}

#[test]
fn q6_the_weight_of_urgency() {
    let [four, six] = ["0.4", "0.6"].map(|weight| {
        run("shop-queue", &["variant=after_sale", &format!("policy.queue.parts.urgent={weight}")], 32)
    });
    let gain = paired(&six, &four, "value");
    let share = |end: f64| end / metric(&four, "value").mean;
    let interval = Interval { mean: share(gain.mean), lo: share(gain.lo), hi: share(gain.hi), ..gain };
    assert!((interval.mean - 0.12).abs() <= 0.04, "{interval:?}");
    show("Q6", &Shown::met(format!("conversion {} more", percent(&interval))));
}

#[test]
fn f8_a_promotion_that_is_not_in_the_faq() {
    let [ordinary, promotion] =
        ["ordinary", "promotion"].map(|variant| run("shop-queue", &[&format!("variant={variant}")], 8));
    let share = metric(&promotion, "share_l3");
    assert!((share.mean - 0.45).abs() <= 0.05, "{share:?}");
    assert!(metric(&ordinary, "share_l3").hi < 0.01);
    let mut told = Vec::new();
    for (name, factor, allowed) in [
        ("vram_mean", 100.0, 0.01),
        ("class.question.latency_mean_s", 1.0, 0.1),
        ("error_rate", 100.0, 0.005),
    ] {
        let change = paired(&promotion, &ordinary, name);
        assert!(change.lo > -allowed && change.hi < allowed, "{name}: {change:?}");
        told.push(format!(
            "{name} {} -> {}",
            shown(&metric(&ordinary, name), factor),
            shown(&metric(&promotion, name), factor)
        ));
    }
    show("F8", &Shown::met(format!("L3 share {}; {}", percent(&share), told.join(", "))));
}

/// The greatest share of errors among what ended in any 10 s of the timeline, mean over the replications.
fn peak_errors(replications: &[Replication]) -> f64 {
    let of = |replication: &Replication| {
        let share = |points: &[forebay_model::timeline::Point]| {
            let answered: u64 = points.iter().map(forebay_model::timeline::Point::answers).sum();
            let lost: u64 = points.iter().map(|p| p.rejected + p.lost).sum();
            lost as f64 / (answered + lost).max(1) as f64
        };
        replication.timeline.windows(10).map(share).fold(0.0, f64::max)
    };
    replications.iter().map(of).sum::<f64>() / replications.len() as f64
}

#[test]
fn c5_a_sudden_surge() {
    let [open, closed] =
        ["surge", "surge_governed"].map(|variant| run("shop-queue", &[&format!("variant={variant}")], 16));
    let recovery = [&open, &closed].map(|runs| metric(runs, "recovery_s"));
    assert!(near(recovery[0].mean, 47.0, 0.3) && near(recovery[1].mean, 6.3, 0.3), "{recovery:?}");
    let peaks = [&open, &closed].map(|runs| peak_errors(runs));
    let fall = 1.0 - peaks[1] / peaks[0];
    assert!(near(fall, 0.68, 0.3), "{peaks:?}");
    show(
        "C5",
        &Shown::met(format!(
            "recovery {} s -> {} s; peak error rate {:.1} % -> {:.1} %, -{:.0} %",
            shown(&recovery[0], 1.0),
            shown(&recovery[1], 1.0),
            100.0 * peaks[0],
            100.0 * peaks[1],
            100.0 * fall
        )),
    );
}

#[test]
fn c6_a_loop_without_filter_and_cooldown() {
    // People who lose patience ask again, and a rule closes the entry while the queue is long.
    let loops = |filter: &str, cooldown: &str| {
        let settings = [
            "variant=fifo".to_owned(),
            "workload.people.patience.give_up_after_s={ kind = \"lognormal\", median = 4, p95 = 10 }"
                .to_owned(),
            "workload.people.resend={ probability = 0.8, after_s = 1, at_most = 5 }".to_owned(),
            "workload.sources.crowd.rate_per_s=6".to_owned(),
            "policy.admission.entry={ kind = \"token_bucket\", rate_per_s = 20, burst = 5 }".to_owned(),
            format!(
                "policy.feedback={{ guard = {{ cooldown_s = {cooldown} }}, control_center = {{ close = {{ when = [{{ signal = \
                 \"queue_length\", above = 8 }}], set = \"admission.entry.rate_per_s\", to = 2, otherwise = 20, loop = \"limiter\" }} }} }}"
            ),
            format!("policy.signals.queue_length.filter={filter}"),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        run("shop-queue", &settings, 8)
    };
    let raw = loops("{ kind = \"none\" }", "0");
    let calm = loops("{ kind = \"sliding_mean\", window_s = 30 }", "10");
    let per_min = |runs: &[Replication]| metric(runs, "oscillations_per_min");
    let fewer = paired(&calm, &raw, "oscillations_per_min");
    assert!(
        fewer.hi < 0.0 && per_min(&calm).hi < 0.25 * per_min(&raw).lo,
        "{:?} {:?}",
        per_min(&raw),
        per_min(&calm)
    );
    show(
        "C6",
        &Shown::met(format!(
            "turns of the loop per minute: {} raw, {} with both",
            shown(&per_min(&raw), 1.0),
            shown(&per_min(&calm), 1.0)
        )),
    );
}
