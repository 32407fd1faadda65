//! Assumptions that are inputs, and where they are used: W9, F4, F6.

use super::simulated::{close, metric, percent, read, run};
use forebay_tests::case_table::{Shown, show};

#[test]
fn w9_memory_of_two_models() {
    // Both models on one device of 80 GB, and no call: what stays resident is what is shown.
    let text = "
name = 'resident'
run = { duration_s = 10 }
[workload.sources.none]
kind = 'poisson'
rate_per_s = 0
[workload.classes.any]
[endpoints.small]
l1 = ['llama3_8b']
[endpoints.large]
l1 = ['qwen2_72b']
[stages.llama3_8b]
kind = 'llm_slots'
replicas = 1
slots = 1
first_token_s = 1
memory = { device = 'gpu', weights_gb = 4.2 }
[stages.qwen2_72b]
kind = 'llm_slots'
replicas = 1
slots = 1
first_token_s = 1
memory = { device = 'gpu', weights_gb = 28 }
[devices.gpu]
count = 1
memory_gb = 80
";
    let text = text.replace("[workload.classes.any]", "[workload.classes.any]\nendpoint = 'small'");
    let resident = metric(&run(&text, &[], 1), "vram_mean");
    close(resident.mean, (4.2 + 28.0) / 80.0, 1e-12);
    let used = format!("`weights_gb` of two stages in this test: {} of an 80 GB device", percent(&resident));
    show("W9", &Shown::given(used));
}

#[test]
fn f4_what_the_faq_covers() {
    let scenario = read("shop-peak", &[]).scenario;
    let classes = || scenario.workload.classes.values();
    let weight: f64 = classes().map(|class| class.weight).sum();
    let share = |of: f64| 100.0 * of / weight;
    let faq = share(classes().map(|class| class.weight * class.faq_share).sum());
    let new = share(classes().map(|class| class.weight * class.new_share).sum());
    let shares = [faq, 100.0 - faq - new, new];
    let used = format!(
        "`faq_share` and `new_share` of the classes of `shop-peak`, by weight: {:.1} % | {:.1} % | {:.1} %",
        shares[0], shares[1], shares[2]
    );
    let same = shares.iter().zip([73.6, 21.2, 5.2]).all(|(found, given)| (found - given).abs() < 0.05);
    let shown =
        if same { Shown::given(used) } else { Shown::unmet(used, "the scenario assumes other shares") };
    show("F4", &shown);
}

#[test]
fn f6_what_a_summary_is_worth() {
    let text = "
name = 'hand-off'
run = { duration_s = 200000, warmup_s = 5000 }
[workload.sources.crowd]
kind = 'poisson'
rate_per_s = 0.05
[workload.classes.question]
[endpoints.ask]
l1 = ['people']
[stages.people]
kind = 'agents'
agents = 6
handling_s = 100
first_contact_share = 0.6
";
    let without = run(text, &[], 8);
    let with = run(text, &["stages.people.summary={}"], 8);
    let each = |of: &[forebay_model::Replication]| {
        metric(of, "stage.people.agent_minutes").mean / metric(of, "stage.people.calls").mean * 60.0
    };
    let saved = each(&without) - each(&with);
    close(saved, 42.0, 0.1);
    let settled = [&without, &with].map(|replications| metric(replications, "right_share").mean);
    let gain = 100.0 * (settled[1] / settled[0] - 1.0);
    close(gain, 37.0, 1.0);
    let used = format!(
        "`summary` of `agents` stages, by its defaults: handling {saved:.1} s shorter, first-contact \
         resolution +{gain:.1} %"
    );
    show("F6", &Shown::given(used));
}
