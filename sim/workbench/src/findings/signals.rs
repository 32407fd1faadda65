//! Users of signals that nothing in the scenario gives.

use super::Finding;
use super::reach;
use super::thresholds::thresholds;
use forebay_model::scenario::{Scenario, Stage};
use forebay_policies::admission::weighted_bucket::Refill;
use forebay_policies::fallback::top_k::TopKBy;
use forebay_policies::{Admission, Policy, SignalKind, Site};

/// Looks at the live policy and its shadow.
pub(super) fn absent_signals(scenario: &Scenario, found: &mut Vec<Finding>) {
    for (table, policy) in reach::policies(scenario) {
        for (path, signal) in users(policy) {
            let Some(why) = absent(scenario, policy, signal) else { continue };
            found.push(Finding::new(
                "signal.absent",
                format!("{table}.{path}"),
                format!(
                    "it follows `{}`, and {why}: the signal is never there, and the rule never acts",
                    signal.name()
                ),
                "Follow a signal that the scenario has, such as the queue, or remove the rule",
            ));
        }
    }
}

/// Everything in a policy that reads a signal, with its path from the policy.
fn users(policy: &Policy) -> Vec<(String, SignalKind)> {
    let mut users: Vec<(String, SignalKind)> =
        thresholds(policy).into_iter().map(|threshold| (threshold.path, threshold.signal)).collect();
    for (name, module) in &policy.admission {
        let at = |field: &str| format!("admission.{name}.{field}");
        match module {
            Admission::WeightedBucket(bucket) if bucket.refill == Refill::Vram => {
                users.push((at("refill"), SignalKind::Vram));
            }
            Admission::WeightedBucket(bucket) if bucket.capacity_per_free > 0.0 => {
                users.push((at("capacity_per_free"), SignalKind::Vram));
            }
            Admission::LoadShed(shed) => users.push((at("signal"), shed.signal)),
            Admission::BacklogGate(gate) => users.push((at("signal"), gate.signal)),
            _ => {}
        }
    }
    if let Some(top_k) = &policy.fallback.top_k
        && top_k.by != TopKBy::ArrivalRate
    {
        users.push(("fallback.top_k.by".to_owned(), SignalKind::StoreLatency));
    }
    let feedback = &policy.feedback;
    for (name, rule) in &feedback.control_center {
        let conditions = rule.when.iter().enumerate();
        users.extend(conditions.map(|(index, condition)| {
            (format!("feedback.control_center.{name}.when.{index}.signal"), condition.signal)
        }));
    }
    for (index, preset) in feedback.presets.iter().enumerate() {
        let path = format!("feedback.presets.{index}");
        let of_rule = preset.rule().into_iter().flat_map(|rule| rule.when).map(|condition| condition.signal);
        let of_alert = preset.alert().into_iter().map(|rule| rule.signal);
        users.extend(of_rule.chain(of_alert).map(|signal| (path.clone(), signal)));
    }
    let setpoints = feedback.setpoints.iter();
    users.extend(setpoints.map(|(name, point)| (format!("feedback.setpoints.{name}.signal"), point.signal)));
    let alerts = feedback.alerts.iter();
    users.extend(alerts.map(|(name, rule)| (format!("feedback.alerts.{name}.signal"), rule.signal)));
    users
}

/// Why a signal is never there; `None`: something gives it.
fn absent(scenario: &Scenario, policy: &Policy, signal: SignalKind) -> Option<&'static str> {
    use SignalKind as S;
    let none = |kind: fn(&Stage) -> bool| !scenario.stages.values().any(kind);
    match signal {
        S::Vram | S::VramMax => none(|stage| reach::llm_device(stage).is_some()).then_some(NO_DEVICE),
        S::Kv => none(|stage| matches!(stage, Stage::LlmBatching(_))).then_some(NO_ENGINE),
        S::LlmBusy => none(|stage| matches!(stage, Stage::LlmSlots(_) | Stage::LlmBatching(_)))
            .then_some("no stage is a model engine"),
        S::StoreLatency => {
            none(|stage| matches!(stage, Stage::VectorStore(_))).then_some("no stage is a vector store")
        }
        S::CacheHitRate => none(|stage| matches!(stage, Stage::SemanticCache(_))).then_some(NO_CACHE),
        S::Csat => {
            let modelled = scenario.economics.as_ref().is_some_and(|economics| economics.csat.is_some());
            (!modelled).then_some("the scenario gives no satisfaction model")
        }
        S::TokenBalance => {
            let bucket = |module: &Admission| {
                let kind = matches!(
                    module,
                    Admission::TokenBucket(_) | Admission::WeightedBucket(_) | Admission::PriorityBuckets(_)
                );
                kind && module.place() == Site::Front
            };
            (!policy.admission.values().any(bucket)).then_some("no bucket stands at the front")
        }
        _ => None,
    }
}

/// Why there is no share of GPU memory.
pub(super) const NO_DEVICE: &str = "no LLM stage lives on a device";
/// Why there is no share of KV blocks.
pub(super) const NO_ENGINE: &str = "no stage is a batching engine";
/// Why there are no cache hits.
pub(super) const NO_CACHE: &str = "the scenario has no semantic cache";

#[cfg(test)]
mod tests {
    use crate::findings::of_scenario;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    fn absent(more: &str) -> Vec<String> {
        let opened = open_text("mm1", &format!("{MM1}{more}"), &[]).unwrap();
        let found = of_scenario(&opened.loaded).into_iter().filter(|finding| finding.code == "signal.absent");
        found.map(|finding| finding.parameter).collect()
    }

    #[test]
    fn whoever_follows_a_signal_that_nothing_gives_is_told() {
        let text = "
            [policy.fallback.l2]
            llm_busy_above = 0.9
            queue_above = 30
            [policy.admission.shed]
            kind = 'load_shed'
            signal = 'kv'
            from = 0.8
            to = 0.9
            [policy.feedback]
            presets = ['csat_low', 'queue_high']
            [policy.feedback.control_center.rule]
            when = [{ signal = 'queue_length', above = 5 }, { signal = 'token_balance', below = 0.1 }]
            set = 'fallback.l2.queue_above'
            to = 10
            [policy.feedback.setpoints.hold]
            signal = 'vram'
            target = 0.8
            parameter = 'fallback.l2.queue_above'
            least = 1
            most = 30
            kp = 1
            [policy.feedback.alerts.cold]
            signal = 'cache_hit_rate'
            below = 0.1
            severity = 'p2'
            [shadow.feedback.alerts.store]
            signal = 'store_latency'
            above = 1
            severity = 'p2'
        ";
        assert_eq!(
            absent(text),
            [
                "policy.fallback.l2.llm_busy_above",
                "policy.admission.shed.signal",
                "policy.feedback.control_center.rule.when.1.signal",
                "policy.feedback.presets.0",
                "policy.feedback.setpoints.hold.signal",
                "policy.feedback.alerts.cold.signal",
                "shadow.feedback.alerts.store.signal",
            ]
        );
    }

    #[test]
    fn a_signal_that_something_gives_is_not_told() {
        let text = "
            [policy.admission.entry]
            kind = 'token_bucket'
            rate_per_s = 100
            burst = 10
            [policy.feedback]
            presets = ['token_balance_low', 'l3_share_high', 'queue_degraded']
            [economics]
            csat = {}
            [policy.feedback.alerts.sad]
            signal = 'csat'
            below = 0.8
            severity = 'p2'
        ";
        assert_eq!(absent(text), Vec::<String>::new());
    }
}
