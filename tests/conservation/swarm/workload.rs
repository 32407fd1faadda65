//! Who asks: sources, users, classes, and how people and clients behave.

use super::{Draft, Feature};

pub(super) fn write(draft: &mut Draft<'_>) {
    sources(draft);
    crowd(draft);
    classes(draft);
    people(draft);
}

fn sources(draft: &mut Draft<'_>) {
    let rate = draft.dice("crowd").pick(&[2.0, 10.0, 40.0]);
    draft.line(format!("[workload.sources.crowd]\nkind = \"poisson\"\nrate_per_s = {rate:?}"));
    if let Some(mut dice) = draft.on(Feature::SteadySource) {
        let gap = dice.law(0.2);
        draft.line(format!("[workload.sources.steady]\nkind = \"renewal\"\ngap_s = {gap}"));
    }
    if draft.has(Feature::WavesSource) {
        let points = "points = [[0, 0], [5, 30], [6, 0]]\nrepeat_s = 7";
        draft.line(format!("[workload.sources.waves]\nkind = \"profile\"\n{points}"));
    }
    if let Some(mut dice) = draft.on(Feature::BurstSource) {
        let within = dice.pick(&["0", "0.5"]);
        draft.line(format!(
            "[workload.sources.burst]\nkind = \"microburst\"\nat_s = 1\ncount = 60\nevery_s = 9\n\
             within_s = {within}"
        ));
    }
    if let Some(mut dice) = draft.on(Feature::ClosedLoopSource) {
        let think = dice.law(1.0);
        draft.line(format!("[workload.sources.users]\nkind = \"closed_loop\"\nusers = 7\nthink_s = {think}"));
    }
    if let Some(mut dice) = draft.on(Feature::SpellSource) {
        let to = dice.pick(&["4.5", "8", "30"]);
        draft.line(format!(
            "[workload.sources.spell]\nkind = \"poisson\"\nrate_per_s = 30\nfrom_s = 4\nto_s = {to}"
        ));
    }
    if draft.has(Feature::Mix) {
        draft.line("[workload.mix]\ncrowd = { a = 1, c = 3 }");
    }
}

fn crowd(draft: &mut Draft<'_>) {
    draft.line("[workload.population]\nusers = 50\nactivity_exponent = 0.9\ntenants = 3");
    draft.line("tiers = { gold = 0.1, silver = 0.3, plain = 0.6 }");
    if draft.has(Feature::Channels) {
        draft.line("channels = { app = 0.2, mini_program = 0.5, h5 = 0.3 }");
    }
    if let Some(mut dice) = draft.on(Feature::Questions) {
        let (clusters, exponent) = (dice.pick(&[1, 5, 100]), dice.pick(&["0", "1"]));
        draft.line(format!("[workload.questions]\nclusters = {clusters}\nexponent = {exponent}"));
    }
}

fn classes(draft: &mut Draft<'_>) {
    for (class, endpoint, business_class) in [("a", "chat", 0), ("b", "search", 2), ("c", "ask", 4)] {
        let mut dice = draft.dice(class);
        let (tokens_in, tokens_out) = (dice.law(200.0), dice.law(60.0));
        draft.line(format!(
            "[workload.classes.{class}]\nendpoint = \"{endpoint}\"\nbusiness_class = {business_class}\n\
             tokens_in = {tokens_in}\ntokens_out = {tokens_out}\nchars = 40\nhistory_turns = 2\n\
             intent_complexity = {{ kind = \"uniform\", min = 0, max = 1 }}\nurgent_share = 0.2\n\
             service_keyword_share = 0.2\nexpedite_share = 0.1\nfollow_up_share = 0.2\nwrite_share = 0.1\n\
             faq_share = 0.3\nnew_share = 0.2"
        ));
        if let Some(mut dice) = draft.on(Feature::ClassService) {
            let law = dice.law(0.03);
            draft.line(format!("service_s = {law}"));
        }
        if let Some(mut dice) = draft.on(Feature::Estimate) {
            let tokens = dice.pick(&[0, 10, 5000]);
            draft.line(format!("tokens_out_estimate = {tokens}"));
        }
        if draft.has(Feature::Value) {
            draft.line(format!("value = {business_class}"));
        }
    }
}

fn people(draft: &mut Draft<'_>) {
    if let Some(mut dice) = draft.on(Feature::Patience) {
        let (patience, noticed) = (dice.law(1.5), dice.coin());
        let until = dice.pick(&["service", "first_token", "last_token"]);
        draft.line(format!(
            "[workload.people.patience]\ngive_up_after_s = {patience}\nuntil = \"{until}\"\nnoticed = {noticed}"
        ));
        if let Some(mut dice) = draft.on(Feature::Resend) {
            let after = dice.law(0.5);
            draft
                .line(format!("[workload.people.resend]\nprobability = 0.8\nafter_s = {after}\nat_most = 3"));
        }
    }
    if let Some(mut dice) = draft.on(Feature::Retries) {
        let base = dice.pick(&["0", "0.3"]);
        let more = dice.option("honour_retry_after", &["false"])
            + &dice.option("after_failures", &["false"])
            + &dice.option("retry_after_default_s", &["0", "2"]);
        draft.line(format!("[workload.retries]\nat_most = 3\nbase_s = {base}\njitter_share = 0.5\n{more}"));
    }
}
