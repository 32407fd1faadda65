//! Calibrations used outside the range that they were measured in.

use super::Finding;
use forebay_datasets::fit::{BatchingCalibration, Calibration};
use forebay_engine::DistError;
use forebay_model::Trace;
use forebay_model::scenario::{Class, Endpoint, LlmBatching, Loaded, Scenario, Source, Stage};

/// A share of requests outside that is worth telling.
const OUTSIDE: f64 = 0.1;

/// Looks at every engine with a bundled calibration.
pub(super) fn outside_range(loaded: &Loaded, found: &mut Vec<Finding>) {
    for (name, stage) in &loaded.scenario.stages {
        let Stage::LlmBatching(batching) = stage else { continue };
        let Some(calibration) = batching.calibration.as_deref().and_then(bundled) else { continue };
        // A scenario whose distributions cannot be built was refused when it was read.
        if let Ok(finding) = of_stage(loaded, name, batching, &calibration) {
            found.extend(finding);
        }
    }
}

fn bundled(name: &str) -> Option<BatchingCalibration> {
    match Calibration::parse(forebay_datasets::bundled::calibration(name)?) {
        Ok(Calibration::Batching(calibration)) => Some(*calibration),
        _ => None,
    }
}

fn of_stage(
    loaded: &Loaded,
    name: &str,
    stage: &LlmBatching,
    calibration: &BatchingCalibration,
) -> Result<Option<Finding>, DistError> {
    let range = &calibration.range;
    let [prompts, answers] = outside(loaded, range.tokens_in, range.tokens_out)?;
    let mut evidence = Vec::new();
    for (what, share, [least, most]) in
        [("prompts", prompts, range.tokens_in), ("answers", answers, range.tokens_out)]
    {
        if share > OUTSIDE {
            evidence.push(format!("{:.0} % of the {what} ({least} to {most} tokens)", share * 100.0));
        }
    }
    let seqs = stage.max_seqs.unwrap_or(calibration.engine.max_seqs);
    let measured = range.running[1];
    if evidence.is_empty() {
        return Ok(None);
    }
    Ok(Some(Finding::new(
        "calibration.outside_range",
        format!("stages.{name}.calibration"),
        format!(
            "outside what it was measured on are {}; it saw at most {measured} sequences at once, and up to \
             {seqs} may run",
            evidence.join(" and ")
        ),
        "Take the latencies as an extrapolation, or calibrate on a load like this one",
    )))
}

/// Shares of prompts and of answers whose lengths lie outside two ranges, over all arrivals; each source
/// counts alike.
fn outside(loaded: &Loaded, tokens_in: [u32; 2], tokens_out: [u32; 2]) -> Result<[f64; 2], DistError> {
    let scenario = &loaded.scenario;
    let mut sum = [0.0; 2];
    for source in scenario.workload.sources.values() {
        let trace = match source {
            Source::Trace { trace, .. } => loaded.inputs.traces.get(trace),
            _ => None,
        };
        let shares = match trace {
            Some(trace) => of_trace(trace, tokens_in, tokens_out),
            None => of_classes(scenario, tokens_in, tokens_out)?,
        };
        sum = [sum[0] + shares[0], sum[1] + shares[1]];
    }
    Ok(sum.map(|share| share / scenario.workload.sources.len().max(1) as f64))
}

fn of_trace(trace: &Trace, tokens_in: [u32; 2], tokens_out: [u32; 2]) -> [f64; 2] {
    let rows = trace.rows();
    let share = |[least, most]: [u32; 2], of: fn(&forebay_model::trace::TraceRow) -> u32| {
        let outside = rows.iter().filter(|row| !(least..=most).contains(&of(row))).count();
        outside as f64 / rows.len() as f64
    };
    [share(tokens_in, |row| row.tokens_in), share(tokens_out, |row| row.tokens_out)]
}

fn of_classes(scenario: &Scenario, tokens_in: [u32; 2], tokens_out: [u32; 2]) -> Result<[f64; 2], DistError> {
    let mut sum = [0.0; 2];
    let mut whole = 0.0;
    for class in scenario.workload.classes.values() {
        let documents = document_tokens(scenario, class);
        let share = |law: &forebay_engine::Dist, [least, most]: [u32; 2], more: f64| {
            let sampler = law.sampler()?;
            let below = sampler.cdf(f64::from(least) - more - 1.0);
            Ok::<f64, DistError>(below + 1.0 - sampler.cdf(f64::from(most) - more))
        };
        sum[0] += class.weight * share(&class.tokens_in, tokens_in, documents)?;
        sum[1] += class.weight * share(&class.tokens_out, tokens_out, 0.0)?;
        whole += class.weight;
    }
    Ok(sum.map(|share| if whole > 0.0 { share / whole } else { 0.0 }))
}

/// Tokens that documents add to a class's prompts at L1.
fn document_tokens(scenario: &Scenario, class: &Class) -> f64 {
    let endpoint: Option<&Endpoint> = match &class.endpoint {
        Some(name) => scenario.endpoints.get(name),
        None => scenario.endpoints.first().map(|(_, endpoint)| endpoint),
    };
    endpoint.map_or(0.0, |endpoint| {
        let reranks =
            endpoint.l1.iter().any(|stage| matches!(scenario.stages.get(stage), Some(Stage::Reranker(_))));
        let documents =
            if reranks { endpoint.documents.min(endpoint.documents_kept) } else { endpoint.documents };
        f64::from(documents) * f64::from(endpoint.tokens_per_document)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open_text;
    use crate::run::tests::MM1;

    #[test]
    fn shares_outside_are_counted() {
        let text = MM1.replace(
            "[workload.classes.any]",
            "[workload.classes.any]\ntokens_in = { kind = \"uniform\", min = 0, max = 100 }\ntokens_out = 5",
        );
        let opened = open_text("mm1", &text, &[]).unwrap();
        let [prompts, answers] = outside(&opened.loaded, [21, 80], [1, 4]).unwrap();
        assert!((prompts - 0.4).abs() < 1e-9 && answers == 1.0, "{prompts} {answers}");
    }

    #[test]
    fn a_trace_outside_its_calibration_is_told() {
        let opened = crate::inputs::open("azure-conversations", &[]).unwrap();
        let mut found = Vec::new();
        outside_range(&opened.loaded, &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].parameter, "stages.llm.calibration");
    }
}
