//! What serves, the models excepted: servers, rules, people, caches, the store, the reranker; and devices.

use super::{Dice, Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    let kind = if draft.has(Feature::Embedder) { "embedder" } else { "server" };
    server(draft, "embed", kind, 0.01);
    let rules = draft.has(Feature::Rules) || draft.has(Feature::KnowledgeBase);
    server(draft, "faq", if rules { "rules" } else { "server" }, 0.05);
    knowledge_base(draft);
    store(draft);
    reranker(draft);
    cache(draft);
    desk(draft);
    devices(draft);
}

/// The bounds of a stage's queue and of its calls' time, where the scenario has them.
pub(super) fn limits(draft: &Draft<'_>, dice: &mut Dice) -> String {
    let (queue, time) = (dice.pick(&["0", "3", "10"]), dice.pick(&["0.05", "0.5", "3"]));
    let queue = draft.has(Feature::BoundedStages).then(|| format!("max_queue = {queue}\n"));
    let time = draft.has(Feature::LimitedStages).then(|| format!("time_limit_s = {time}\n"));
    queue.into_iter().chain(time).collect()
}

fn server(draft: &mut Draft<'_>, name: &str, kind: &str, mean_s: f64) {
    let mut dice = draft.dice(name);
    let (law, more) = (dice.law(mean_s), limits(draft, &mut dice));
    draft.line(format!("[stages.{name}]\nkind = \"{kind}\"\nservers = 2\nservice_s = {law}\n{more}"));
}

fn knowledge_base(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::KnowledgeBase) else { return };
    let unmatched = dice.pick(&["answer", "hand_over"]);
    let age =
        if dice.coin() { "loses_per_day = 0.9\nage_at_start_s = 43200\nupdated_every_s = 3\n" } else { "" };
    let new = dice.option("new_entered_at_s", &["0", "7"]);
    draft.line(format!(
        "[stages.faq.knowledge_base]\nfaq_match_share = 0.9\ngenerative_match_share = 0.2\n\
         on_no_match = \"{unmatched}\"\n{age}{new}"
    ));
}

fn store(draft: &mut Draft<'_>) {
    let mut dice = draft.dice("store");
    let (law, more) = (dice.law(0.02), limits(draft, &mut dice));
    draft.line(format!(
        "[stages.store]\nkind = \"vector_store\"\nconnections = 3\nbase_s = {law}\nper_document_s = 0.001\n\
         cores = 2\n{more}"
    ));
}

fn reranker(draft: &mut Draft<'_>) {
    let mut dice = draft.dice("rerank");
    let (wait, more) = (dice.pick(&["0", "20"]), limits(draft, &mut dice));
    let then = dice.pick(&["fail", "skip"]);
    draft.line(format!(
        "[stages.rerank]\nkind = \"reranker\"\ngpus = 2\nmax_docs = 40\nmax_wait_ms = {wait}\nbase_s = 0.02\n\
         per_document_s = 0.002\nworkspace_per_document_gb = 0.05\non_time_limit = \"{then}\"\n{more}"
    ));
    if draft.has(Feature::OnDevice) {
        draft.line("device = \"gpu\"\nweights_gb = 1");
    }
}

fn cache(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::SemanticCache) else { return };
    let (lookup, threshold) = (dice.law(0.005), dice.pick(&["0.5", "0.92", "1"]));
    let pools = dice.pick(&["shared", "per_level"]);
    let more = dice.option("lookups_at_once", &["1", "3"])
        + &dice.option("time_limit_s", &["0.01", "0.5"])
        + &dice.option("ttl_s", &["0.5", "5"])
        + &dice.option("stale_after_s", &["0.1", "{ kind = \"exponential\", mean = 3.0 }"])
        + &dice.option("capacity", &["1", "4"])
        + &dice.option("keyword_check", &["{}", "{ own_pass = 0.5, foreign_pass = 0.5 }"]);
    draft.line(format!(
        "[stages.cache]\nkind = \"semantic_cache\"\nlookup_s = {lookup}\nthreshold = {threshold}\n\
         pools = \"{pools}\"\n{more}"
    ));
}

fn desk(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::Agents) else { return };
    let (agents, handling, patience) = (dice.pick(&["1", "3"]), dice.law(2.0), dice.law(3.0));
    let more = dice.option("hand_off_s", &["0", "0.5"])
        + &dice.option("summary", &["{}", "{ saves_s = 1, first_contact_gain = 0.5 }"])
        + &dice.option("first_contact_share", &["0", "0.6"])
        + &dice.option("give_up_after_s", &[&patience])
        + &dice.option("max_waiting", &["0", "4"]);
    draft.line(format!(
        "[stages.desk]\nkind = \"agents\"\nagents = {agents}\nhandling_s = {handling}\n{more}"
    ));
}

fn devices(draft: &mut Draft<'_>) {
    let mut dice = draft.dice("gpu");
    let allocator = dice.pick(&["exact", "caching", "preallocated"]);
    let (interference, memory) = (dice.pick(&["1", "1.5"]), dice.pick(&["8", "10", "40"]));
    let others = if draft.has(Feature::OtherTenants) { "0.5" } else { "0" };
    draft.line(format!(
        "[devices.gpu]\ncount = 2\nmemory_gb = {memory}\nallocator = \"{allocator}\"\nempty_cache_every_s = 3\n\
         interference = {interference}\nother_tenants_gb = {others}"
    ));
}
