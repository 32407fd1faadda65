//! Rules and wishes that nothing in the scenario can answer to.

use super::Finding;
use super::no_effect::no_effect;
use super::reach;
use super::signals::{NO_CACHE, NO_DEVICE, NO_ENGINE, absent_signals};
use super::thresholds::{Threshold, thresholds};
use crate::wanted::wanted;
use forebay_model::scenario::{Loaded, Scenario, Stage};
use forebay_policies::Site;

pub(super) fn inert(loaded: &Loaded, found: &mut Vec<Finding>) {
    let scenario = &loaded.scenario;
    absent_signals(scenario, found);
    order(scenario, found);
    unpassed(scenario, found);
    no_effect(scenario, found);
    wishes(scenario, found);
    prompts_too_long(loaded, found);
}

/// A worse level that is taken before a better one by the same signal.
fn order(scenario: &Scenario, found: &mut Vec<Finding>) {
    let all = thresholds(&scenario.policy);
    let before =
        |a: &Threshold, b: &Threshold| a.signal == b.signal && a.level < b.level && b.above < a.above;
    for worse in &all {
        if let Some(better) = all.iter().find(|better| before(better, worse)) {
            found.push(Finding::new(
                "threshold.order",
                format!("policy.{}", worse.path),
                format!(
                    "{} is below policy.{} = {}, the threshold of a better level for the same signal: {} is never \
                     taken by it",
                    worse.above, better.path, better.above, better.level
                ),
                "Set the worse level's threshold above the better one's",
            ));
        }
    }
}

/// Guards and gates at calls that no path makes.
fn unpassed(scenario: &Scenario, found: &mut Vec<Finding>) {
    let reranks = reach::any(scenario, |stage| matches!(stage, Stage::Reranker(_)));
    let asks_model = reach::any(scenario, |stage| {
        matches!(stage, Stage::LlmSlots(_) | Stage::LlmBatching(_) | Stage::Providers(_))
    });
    let mut unpassed = |path: String, call: &str| {
        found.push(Finding::new(
            "policy.never_asked",
            path,
            format!("it stands at the {call} call, and no path makes one: it never acts"),
            "Put it where requests pass, or remove it",
        ));
    };
    if scenario.policy.fallback.rerank.is_some() && !reranks {
        unpassed("policy.fallback.rerank".to_owned(), "rerank");
    }
    let asks_providers = reach::any(scenario, |stage| matches!(stage, Stage::Providers(_)));
    if scenario.policy.fallback.providers.is_some() && !asks_providers {
        unpassed("policy.fallback.providers".to_owned(), "provider");
    }
    let retrieves = reach::any(scenario, |stage| matches!(stage, Stage::VectorStore(_)));
    if scenario.policy.fallback.top_k.is_some() && !retrieves {
        unpassed("policy.fallback.top_k".to_owned(), "retrieval");
    }
    for (name, module) in &scenario.policy.admission {
        let path = format!("policy.admission.{name}.place");
        match module.place() {
            Site::RerankCall if !reranks => unpassed(path, "rerank"),
            Site::LlmCall if !asks_model => unpassed(path, "model"),
            _ => (),
        }
    }
}

/// Constraints and objectives on what this scenario cannot give.
fn wishes(scenario: &Scenario, found: &mut Vec<Finding>) {
    let Some(objective) = &scenario.objective else { return };
    let lacks = |kind: fn(&Stage) -> bool| !scenario.stages.values().any(kind);
    let missing = |metric: &str| match metric {
        m if m.starts_with("vram_") && lacks(|stage| reach::llm_device(stage).is_some()) => Some(NO_DEVICE),
        m if (m.starts_with("kv_") || m == "preemptions")
            && lacks(|stage| matches!(stage, Stage::LlmBatching(_))) =>
        {
            Some(NO_ENGINE)
        }
        m if m.starts_with("cache_") && lacks(|stage| matches!(stage, Stage::SemanticCache(_))) => {
            Some(NO_CACHE)
        }
        m => forebay_model::metrics::missing(scenario, m),
    };
    for (path, metric) in wanted(objective) {
        if let Some(why) = missing(&metric) {
            found.push(Finding::new(
                "objective.no_value",
                path,
                format!("`{metric}` has no value in this scenario: {why}"),
                "Name another metric: one without a value counts as missed",
            ));
        }
    }
}

/// Classes whose mean request is larger than the KV memory of an engine on their way.
fn prompts_too_long(loaded: &Loaded, found: &mut Vec<Finding>) {
    let scenario = &loaded.scenario;
    // The lengths of a trace are its own, and those of the classes do not count.
    let sources = scenario.workload.sources.values();
    let own = sources.clone().any(|source| reach::trace(loaded, source).is_none());
    for (index, (name, stage)) in scenario.stages.iter().enumerate() {
        let Stage::LlmBatching(batching) = stage else { continue };
        let Ok(config) = batching.config(&loaded.inputs) else { continue };
        let memory = f64::from(config.kv_blocks) * f64::from(config.block_tokens);
        let reaching = reach::classes(scenario, index);
        let mut too_long = Vec::new();
        for ((class_name, class), _) in
            scenario.workload.classes.iter().zip(&reaching).filter(|(_, reaches)| own && **reaches)
        {
            // A scenario whose distributions cannot be built was refused when it was read.
            too_long.extend(
                reach::mean_tokens(scenario, class)
                    .ok()
                    .filter(|tokens| *tokens > memory)
                    .map(|tokens| format!("class {class_name} has {tokens:.0}")),
            );
        }
        for trace in sources.clone().filter_map(|source| reach::trace(loaded, source)) {
            let rows = trace.rows().iter().filter(|row| reach::row(scenario, trace, row.class, &reaching));
            let (sum, n) = rows.fold((0.0, 0.0), |(sum, n), row| {
                (sum + f64::from(row.tokens_in) + f64::from(row.tokens_out), n + 1.0)
            });
            if sum > memory * n {
                too_long.push(format!("trace {} has {:.0}", trace.name(), sum / n));
            }
        }
        if !too_long.is_empty() {
            found.push(Finding::new(
                "engine.prompt_too_long",
                format!("stages.{name}"),
                format!(
                    "its KV memory holds {memory:.0} tokens, and {} on average in prompt, documents and answer: \
                     such requests cannot be served",
                    too_long.join(", ")
                ),
                "Give it more KV blocks, or send it shorter prompts or fewer documents",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::of_scenario;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    fn codes(text: &str) -> Vec<(String, String)> {
        let opened = open_text("mm1", text, &[]).unwrap();
        of_scenario(&opened.loaded).into_iter().map(|f| (f.code, f.parameter)).collect()
    }

    fn has(text: &str, code: &str, parameter: &str) {
        let found = codes(text);
        assert!(found.contains(&(code.to_owned(), parameter.to_owned())), "{found:?}");
    }

    #[test]
    fn a_sound_scenario_has_no_such_findings() {
        assert_eq!(codes(MM1), []);
    }

    #[test]
    fn levels_in_the_wrong_order_are_found() {
        let ladder = MM1.replace("l1 = [\"desk\"]", "l1 = [\"desk\"]\nl3 = []");
        let text = format!(
            "{ladder}\n[policy.fallback.l2]\nqueue_above = 20\n[policy.fallback.l3]\nqueue_above = 9\n"
        );
        has(&text, "threshold.order", "policy.fallback.l3.queue_above");
    }

    #[test]
    fn guards_of_calls_that_nobody_makes_are_found() {
        has(&format!("{MM1}\n[policy.fallback.rerank]\n"), "policy.never_asked", "policy.fallback.rerank");
        let gate =
            "\n[policy.admission.gate]\nkind = \"concurrency_gate\"\nplace = \"llm_call\"\nmax_at_once = 4\n";
        has(&format!("{MM1}{gate}"), "policy.never_asked", "policy.admission.gate.place");
    }

    #[test]
    fn wishes_that_nothing_answers_are_found() {
        let text = format!(
            "{MM1}\n[objective]\nmaximize = \"csat\"\nconstraints = [\"vram_max <= 0.9\", \"kv_max <= 0.9\"]\n"
        );
        has(&text, "objective.no_value", "objective.maximize");
        assert_eq!(codes(&text).len(), 3, "{:?}", codes(&text));
    }

    #[test]
    fn prompts_beyond_the_memory_are_found() {
        let text = format!(
            "{}\n[stages.llm]\nkind = \"llm_batching\"\nreplicas = 1\nmax_seqs = 8\nmax_batched_tokens = 512\n\
             kv_blocks = 10\nblock_tokens = 16\n[stages.llm.cost]\nc0_s = 0.01\nper_prefill_token_s = 1e-4\n\
             per_prefill_context_s = 0.0\nper_decode_sequence_s = 1e-4\nper_resident_token_s = 1e-7\n",
            MM1.replace("[\"desk\"]", "[\"desk\", \"llm\"]").replace(
                "[workload.classes.any]",
                "[workload.classes.any]\ntokens_in = 150\ntokens_out = 50"
            )
        );
        has(&text, "engine.prompt_too_long", "stages.llm");
        let short = text.replace("tokens_in = 150", "tokens_in = 15");
        assert!(!codes(&short).iter().any(|(code, _)| code == "engine.prompt_too_long"));
    }
}
