//! Parameters that nothing in the scenario reads.

use super::Finding;
use super::reach;
use forebay_model::scenario::{Endpoint, Fault, OnNoMatch, Scenario, Stage};
use forebay_policies::Level;

pub(super) fn no_effect(scenario: &Scenario, found: &mut Vec<Finding>) {
    let mut tell = |path: String, why: String, advice: &str| {
        found.push(Finding::new("parameter.no_effect", path, format!("{why}: it has no effect"), advice));
    };
    for (name, fault) in &scenario.faults {
        if let Some((why, advice)) = fault_hits_nothing(scenario, fault) {
            tell(format!("faults.{name}"), why.to_owned(), advice);
        }
    }
    for (index, (name, stage)) in scenario.stages.iter().enumerate() {
        if hands_over(stage)
            && !reach::endpoints(scenario, index).iter().all(|endpoint| endpoint.l4.is_some())
        {
            tell(
                format!("stages.{name}.knowledge_base.on_no_match"),
                "a question that nothing matches is to be handed over, and an endpoint on its way has no path at L4"
                    .to_owned(),
                "Give the endpoint a path `l4`, or let the rules answer with `on_no_match`",
            );
        }
    }
    for (name, endpoint) in &scenario.endpoints {
        for (field, why) in documents(scenario, name, endpoint) {
            tell(
                format!("endpoints.{name}.{field}"),
                why.to_owned(),
                "Leave it out, or put the stage that reads it on the path",
            );
        }
    }
}

/// Why a fault changes nothing, and what to do.
fn fault_hits_nothing(scenario: &Scenario, fault: &Fault) -> Option<(&'static str, &'static str)> {
    let mut policies = reach::policies(scenario);
    match fault {
        Fault::StoreTimeout { .. } | Fault::LimiterNodesDown { .. } | Fault::RulesWiped { .. } => {
            policies.all(|(_, policy)| policy.store.is_none()).then_some((
                "it hits the store that a limiter's nodes share, and the policy has none",
                "Give the policy a [policy.store], or remove the fault",
            ))
        }
        Fault::ForecastLost { .. } => {
            policies.all(|(_, policy)| policy.feedback.forecast.is_none()).then_some((
                "it takes the forecast away, and the policy has none",
                "Give the policy a [policy.feedback.forecast], or remove the fault",
            ))
        }
        _ => None,
    }
}

/// Whether rules hand over what they do not match.
fn hands_over(stage: &Stage) -> bool {
    match stage {
        Stage::Rules(rules) => {
            rules.knowledge_base.as_ref().is_some_and(|base| base.on_no_match == OnNoMatch::HandOver)
        }
        _ => false,
    }
}

/// Numbers of documents that no stage on the endpoint's paths reads, each with the reason.
fn documents(scenario: &Scenario, name: &str, endpoint: &Endpoint) -> Vec<(&'static str, &'static str)> {
    let passes = |level: Level, kind: fn(&Stage) -> bool| {
        scenario.stages_at(name, level).into_iter().any(|index| kind(&scenario.stages[index]))
    };
    let anywhere = |kind: fn(&Stage) -> bool| Level::ALL.iter().any(|level| passes(*level, kind));
    let model: fn(&Stage) -> bool =
        |stage| matches!(stage, Stage::LlmSlots(_) | Stage::LlmBatching(_) | Stage::Providers(_));
    let reranks: fn(&Stage) -> bool = |stage| matches!(stage, Stage::Reranker(_));
    let searches: fn(&Stage) -> bool = |stage| matches!(stage, Stage::VectorStore(_) | Stage::Reranker(_));
    let in_prompts = endpoint.tokens_per_document > 0;
    let read_at = |level: Level| passes(level, searches) || (in_prompts && passes(level, model));
    let by_quality = !scenario.quality.recall_points.is_empty();
    let any = endpoint.documents > 0 || endpoint.documents_l2 > 0;
    let mut unread = Vec::new();
    if endpoint.documents > 0 && !by_quality && !read_at(Level::L1) {
        unread.push(("documents", "no stage at L1 reads documents"));
    }
    if endpoint.documents_l2 > 0 && !by_quality && (endpoint.l2.is_none() || !read_at(Level::L2)) {
        unread.push(("documents_l2", "no stage at an L2 of its own reads documents"));
    }
    if endpoint.documents_kept > 0 && !anywhere(reranks) {
        unread.push(("documents_kept", "no reranker on its paths keeps documents"));
    }
    if in_prompts && !(any && anywhere(model)) {
        unread.push(("tokens_per_document", "no model on its paths is sent documents"));
    }
    unread
}

#[cfg(test)]
mod tests {
    use crate::findings::of_scenario;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    fn unread(text: &str) -> Vec<String> {
        let opened = open_text("mm1", text, &[]).unwrap();
        let found = of_scenario(&opened.loaded).into_iter();
        found
            .filter(|finding| finding.code == "parameter.no_effect")
            .map(|finding| finding.parameter)
            .collect()
    }

    #[test]
    fn faults_of_what_the_policy_does_not_have_are_found() {
        let faults = "
            [faults.a]
            kind = 'store_timeout'
            from_s = 10
            to_s = 20
            [faults.b]
            kind = 'rules_wiped'
            from_s = 10
            to_s = 20
            [faults.c]
            kind = 'forecast_lost'
            from_s = 10
            to_s = 20
            [faults.d]
            kind = 'latency_factor'
            from_s = 10
            to_s = 20
            stage = 'desk'
            factor = 2
        ";
        assert_eq!(unread(&format!("{MM1}{faults}")), ["faults.a", "faults.b", "faults.c"]);
        let has = "
            [policy.admission.entry]
            kind = 'fixed_rate'
            limit = 100
            [policy.store]
            module = 'entry'
            fixed_rate_per_s = 10
            [shadow.feedback.forecast]
            profile = [[0, 8]]
        ";
        assert_eq!(unread(&format!("{MM1}{faults}{has}")), Vec::<String>::new());
    }

    #[test]
    fn a_hand_over_without_a_path_to_people_is_found() {
        let rules = MM1.replace("l1 = [\"desk\"]", "l1 = [\"desk\"]\nl3 = [\"faq\"]")
            + "[stages.faq]\nkind = \"rules\"\nservers = 4\nservice_s = 0.01\n\
               knowledge_base = { on_no_match = \"hand_over\" }\n";
        assert_eq!(unread(&rules), ["stages.faq.knowledge_base.on_no_match"]);
        let people = rules.replace("l3 = [", "l4 = []\nl3 = [");
        assert_eq!(unread(&people), Vec::<String>::new());
        assert_eq!(unread(&rules.replace("hand_over", "answer")), Vec::<String>::new());
    }

    #[test]
    fn documents_that_no_stage_reads_are_found() {
        let given = "l1 = [\"desk\"]\ndocuments = 20\ndocuments_kept = 5\ndocuments_l2 = 3\ntokens_per_document = 100";
        let text = MM1.replace("l1 = [\"desk\"]", given);
        assert_eq!(
            unread(&text),
            ["documents", "documents_l2", "documents_kept", "tokens_per_document"]
                .map(|field| format!("endpoints.ask.{field}"))
        );
        let stages = "
            [stages.rerank]
            kind = 'reranker'
            gpus = 1
            max_docs = 50
            base_s = 0.01
            [stages.llm]
            kind = 'llm_slots'
            replicas = 1
            slots = 10
            first_token_s = 0.1
        ";
        let read = text.replace("l1 = [\"desk\"]", "l1 = [\"desk\", \"rerank\", \"llm\"]\nl2 = [\"llm\"]");
        assert_eq!(unread(&format!("{read}{stages}")), Vec::<String>::new());
    }
}
