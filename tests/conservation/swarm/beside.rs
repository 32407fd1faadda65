//! What is measured and reckoned beside the run: telemetry, quality, prices and satisfaction.

use super::{Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    draft.line("[telemetry]\nperiod_s = 0.25");
    if let Some(mut dice) = draft.on(Feature::Telemetry) {
        let window = dice.pick(&["0.5", "3"]);
        draft.line(format!("delay_s = 0.4\nnoise = 0.05\nwindow_s = {window}"));
    }
    if draft.has(Feature::Quality) {
        draft.line("[quality]\nkept_without_rerank = 0.5\nl1 = { new = 0.5 }\nl3 = { generative = 0.1 }");
        draft.line("l4 = { faq = 0.9 }\nrecall_points = [[2, 0.3], [10, 0.9]]");
    }
    if draft.has(Feature::Prices) || draft.has(Feature::Csat) {
        draft.line("[economics]\ncurrency = \"EUR\"");
    }
    if let Some(mut dice) = draft.on(Feature::Prices) {
        let (agent, gpu) = (dice.pick(&["0", "1.5"]), dice.pick(&["0", "2"]));
        draft.line(format!(
            "agent_per_min = {agent}\nhandoff_agent_s = 90\ngpu_per_hour = {gpu}\n\
             tokens = {{ model = {{ in_per_1k = 0.5, out_per_1k = 1.5 }}, engine = {{ out_per_1k = 3 }} }}"
        ));
    }
    if let Some(mut dice) = draft.on(Feature::Csat) {
        let tolerance = dice.pick(&["0", "1"]);
        draft.line(format!("csat = {{ tolerance_s = {tolerance}, per_further_s = 0.2 }}"));
    }
}
