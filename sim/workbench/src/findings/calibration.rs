//! Calibrations used outside the range that they were measured in.

use super::{Finding, reach};
use crate::mix::weights;
use forebay_engine::DistError;
use forebay_model::Trace;
use forebay_model::scenario::load::Measured;
use forebay_model::scenario::{LlmBatching, Loaded, Scenario, Stage};
use forebay_model::trace::TraceRow;

/// A share of requests outside that is worth telling.
const OUTSIDE: f64 = 0.1;

/// Looks at every engine with a calibration.
pub(super) fn outside_range(loaded: &Loaded, found: &mut Vec<Finding>) {
    for (index, (name, stage)) in loaded.scenario.stages.iter().enumerate() {
        let Stage::LlmBatching(batching) = stage else { continue };
        let Some(calibration) = batching.calibration.as_deref().and_then(|name| of_inputs(loaded, name))
        else {
            continue;
        };
        // A scenario whose distributions cannot be built was refused when it was read.
        if let Ok(finding) = of_stage(loaded, (index, name), batching, calibration) {
            found.extend(finding);
        }
    }
}

/// What a calibration was measured on, and the sequences that its engine runs at once.
fn of_inputs(loaded: &Loaded, name: &str) -> Option<(Measured, u32)> {
    let measured = loaded.inputs.measured.get(name)?;
    Some((*measured, loaded.inputs.calibrations.get(name)?.max_seqs))
}

fn of_stage(
    loaded: &Loaded,
    (index, name): (usize, &str),
    stage: &LlmBatching,
    (range, own_seqs): (Measured, u32),
) -> Result<Option<Finding>, DistError> {
    let [prompts, answers] = outside(loaded, index, range.tokens_in, range.tokens_out)?;
    let mut evidence = Vec::new();
    for (what, share, [least, most]) in
        [("prompts", prompts, range.tokens_in), ("answers", answers, range.tokens_out)]
    {
        if share > OUTSIDE {
            evidence.push(format!("{:.0} % of the {what} ({least} to {most} tokens)", share * 100.0));
        }
    }
    let seqs = stage.max_seqs.unwrap_or(own_seqs);
    let measured = range.running[1];
    if stage.max_seqs.is_some_and(|asked| asked > measured.max(own_seqs)) {
        evidence.push(format!("up to {seqs} sequences at once"));
    }
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

/// Shares of prompts and of answers whose lengths lie outside two ranges, over the requests that come to the
/// stage of that index at some level; each source counts alike.
fn outside(
    loaded: &Loaded,
    stage: usize,
    tokens_in: [u32; 2],
    tokens_out: [u32; 2],
) -> Result<[f64; 2], DistError> {
    let scenario = &loaded.scenario;
    let reaching = reach::classes(scenario, stage);
    let mut sum = [0.0; 2];
    for (name, source) in &scenario.workload.sources {
        let shares = match reach::trace(loaded, source) {
            Some(trace) => of_trace(scenario, trace, &reaching, tokens_in, tokens_out),
            None => of_classes(scenario, name, &reaching, tokens_in, tokens_out)?,
        };
        sum = [sum[0] + shares[0], sum[1] + shares[1]];
    }
    Ok(sum.map(|share| share / scenario.workload.sources.len().max(1) as f64))
}

fn of_trace(
    scenario: &Scenario,
    trace: &Trace,
    reaching: &[bool],
    tokens_in: [u32; 2],
    tokens_out: [u32; 2],
) -> [f64; 2] {
    let rows = || trace.rows().iter().filter(|row| reach::row(scenario, trace, row.class, reaching));
    let share = |[least, most]: [u32; 2], of: fn(&TraceRow) -> u32| {
        let outside = rows().filter(|row| !(least..=most).contains(&of(row))).count();
        outside as f64 / rows().count().max(1) as f64
    };
    [share(tokens_in, |row| row.tokens_in), share(tokens_out, |row| row.tokens_out)]
}

fn of_classes(
    scenario: &Scenario,
    source: &str,
    reaching: &[bool],
    tokens_in: [u32; 2],
    tokens_out: [u32; 2],
) -> Result<[f64; 2], DistError> {
    let mut sum = [0.0; 2];
    let mut whole = 0.0;
    let weights = weights(&scenario.workload, source);
    let classes = scenario.workload.classes.values().zip(weights).zip(reaching);
    for ((class, weight), _) in classes.filter(|(_, reaches)| **reaches) {
        let documents = reach::document_tokens(scenario, class);
        let share = |law: &forebay_engine::Dist, [least, most]: [u32; 2], more: f64| {
            let sampler = law.sampler()?;
            let below = sampler.cdf(f64::from(least) - more - 1.0);
            Ok::<f64, DistError>(below + 1.0 - sampler.cdf(f64::from(most) - more))
        };
        sum[0] += weight * share(&class.tokens_in, tokens_in, documents)?;
        sum[1] += weight * share(&class.tokens_out, tokens_out, 0.0)?;
        whole += weight;
    }
    Ok(sum.map(|share| if whole > 0.0 { share / whole } else { 0.0 }))
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
        let [prompts, answers] = outside(&opened.loaded, 0, [21, 80], [1, 4]).unwrap();
        assert!((prompts - 0.4).abs() < 1e-9 && answers == 1.0, "{prompts} {answers}");
        // Those who never come to the stage do not count.
        let elsewhere = "[workload.classes.other]\nendpoint = \"chat\"\ntokens_in = 500\n[endpoints.chat]\n\
                         l1 = [\"bar\"]\n[stages.bar]\nkind = \"server\"\nservers = 1\nservice_s = 0.01\n";
        let both =
            text.replace("[workload.classes.any]", "[workload.classes.any]\nendpoint = \"ask\"") + elsewhere;
        let opened = open_text("mm1", &both, &[]).unwrap();
        let [again, _] = outside(&opened.loaded, 0, [21, 80], [1, 4]).unwrap();
        assert!((again - 0.4).abs() < 1e-9, "{again}");
        // Nor do those of a class that the source never sends.
        let mixed = format!("{text}[workload.classes.long]\ntokens_in = 500\n[workload.mix.all]\nany = 1\n");
        let opened = open_text("mm1", &mixed, &[]).unwrap();
        let [again, _] = outside(&opened.loaded, 0, [21, 80], [1, 4]).unwrap();
        assert!((again - 0.4).abs() < 1e-9, "{again}");
    }

    #[test]
    fn a_trace_outside_its_calibration_is_told() {
        let opened = crate::inputs::open("azure-conversations", &[]).unwrap();
        let mut found = Vec::new();
        outside_range(&opened.loaded, &mut found);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].parameter, "stages.llm.calibration");
    }

    #[test]
    fn every_kind_of_engine_has_its_range() {
        let scenario = |lengths: &str, more: &str| {
            MM1.replace("[workload.classes.any]", &format!("[workload.classes.any]\n{lengths}"))
                .replace("kind = \"server\"\nservers = 1\n", "kind = \"llm_batching\"\nreplicas = 1\n")
                .replace(
                    "service_s = { kind = \"exponential\", mean = 0.1 }",
                    &format!("calibration = \"phases-llama2-70b-h100-x4\"\n{more}"),
                )
        };
        let found = |lengths: &str, more: &str| {
            let opened = open_text("mm1", &scenario(lengths, more), &[]).unwrap();
            let mut found = Vec::new();
            outside_range(&opened.loaded, &mut found);
            found.first().map(|finding| finding.evidence.clone()).unwrap_or_default()
        };
        assert_eq!(found("tokens_in = 1000\ntokens_out = 200", ""), "");
        assert!(found("tokens_in = 20000\ntokens_out = 200", "").contains("100 % of the prompts"));
        assert!(found("tokens_in = 1000\ntokens_out = 20", "").contains("100 % of the answers"));
        let many = found("tokens_in = 1000\ntokens_out = 200", "max_seqs = 200\n");
        assert!(many.contains("up to 200 sequences at once"), "{many}");
    }
}
