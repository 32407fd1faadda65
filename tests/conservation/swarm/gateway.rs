//! The gateway, its host, and the endpoints' paths.

use super::{Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    draft.line("[gateway]\nin_time_s = 2");
    if let Some(mut dice) = draft.on(Feature::Ingress) {
        let ingress = dice.law(0.02);
        draft.line(format!("ingress_delay_s = {ingress}"));
    }
    if let Some(mut dice) = draft.on(Feature::Deadline) {
        let deadline = dice.pick(&["0.001", "1", "5", "9"]);
        draft.line(format!("deadline_s = {deadline}"));
    }
    if let Some(mut dice) = draft.on(Feature::Slots) {
        let slots = dice.pick(&["1", "5", "30"]);
        draft.line(format!("executor_slots = {slots}"));
    }
    if draft.has(Feature::WaitNotice) {
        draft.line("wait_notice = true");
    }
    if draft.has(Feature::WallClock) {
        draft.line("clock = \"wall\"");
    }
    host(draft);
    endpoints(draft);
}

/// A host that holds its processes at rest and a few attempts.
fn host(draft: &mut Draft<'_>) {
    let Some(mut dice) = draft.on(Feature::Host) else { return };
    let (host, restart) = (dice.pick(&["100", "140"]), dice.pick(&["0", "0.5", "5"]));
    let limit = dice.option("container_limit_mb", &["35", "60"]);
    draft.line(format!(
        "[gateway.host]\nstack_mb = 2\nheap_mb = 15\nthreads_base = 2\nhost_mb = {host}\nrestart_s = {restart}\n\
         others_mb = {{ rerank = 30, model = 15, log = 10 }}\n{limit}"
    ));
}

fn endpoints(draft: &mut Draft<'_>) {
    let model = if draft.has(Feature::Engine) { "engine" } else { "model" };
    let answerer = if draft.has(Feature::Providers) { "api" } else { model };
    let cache = if draft.has(Feature::SemanticCache) { "\"cache\", " } else { "" };
    let desk = if draft.has(Feature::Agents) { "desk" } else { "faq" };
    let low = format!("l3 = [{cache}\"faq\"]\nl4 = [\"{desk}\"]");
    draft.line(format!(
        "[endpoints.chat]\nl1 = [{cache}\"search\", \"{model}\"]\nl2 = [{cache}\"store\", \"{answerer}\"]\n{low}\n\
         documents = 20\ndocuments_kept = 5\ndocuments_l2 = 3\ntokens_per_document = 30"
    ));
    draft.line(format!(
        "[endpoints.search]\nl1 = [\"embed\", \"store\", \"rerank\"]\n{low}\ndocuments = 12\ndocuments_kept = 4"
    ));
    draft.line(format!("[endpoints.ask]\nl1 = [{cache}\"model\", \"embed\", \"{answerer}\"]\n{low}"));
}
