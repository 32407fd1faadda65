//! Random small scenarios: every feature of the model on or off, with settings that hurt.
//!
//! All of a scenario follows from two numbers: a seed for the values, and a set of bits for the features.
//! When a case fails, proptest switches features off one after the other for as long as it still fails.

use std::fmt::Write;

/// Features that a scenario may have; each is a bit.
pub(crate) const FEATURES: u32 = 24;

/// Numbers from a seed (splitmix64): the same scenario for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }

    /// A distribution with about this mean.
    fn law(&mut self, mean: f64) -> String {
        match self.roll(6) {
            0 => format!("{mean:?}"),
            1 => format!("{{ kind = \"uniform\", min = 0.0, max = {:?} }}", 2.0 * mean),
            2 => format!("{{ kind = \"lognormal\", mean = {mean:?}, cv = 2.0 }}"),
            3 => format!(
                "{{ kind = \"pareto\", min = {:?}, max = {:?}, alpha = 1.2 }}",
                mean / 4.0,
                mean * 50.0
            ),
            4 => format!("{{ kind = \"gamma\", mean = {mean:?}, cv = 0.5 }}"),
            _ => format!("{{ kind = \"exponential\", mean = {mean:?} }}"),
        }
    }
}

/// A scenario in the making.
struct Draft {
    text: String,
    dice: Dice,
    features: u32,
}

impl Draft {
    fn has(&self, feature: u32) -> bool {
        debug_assert!(feature < FEATURES);
        self.features & (1 << feature) != 0
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }
}

/// The scenario of a seed and a set of features.
pub(crate) fn scenario(seed: u64, features: u32) -> String {
    let mut draft = Draft { text: String::new(), dice: Dice(seed), features };
    let warm_s = draft.dice.roll(5);
    draft.line("name = \"swarm\"");
    let _ = write!(
        draft.text,
        "[run]\nduration_s = 20\ndrain_s = 1000000\nwarmup_s = {warm_s}\ntimeline_points = 7\n"
    );
    workload(&mut draft);
    people(&mut draft);
    gateway(&mut draft);
    stages(&mut draft);
    policy(&mut draft);
    draft.text
}

fn workload(draft: &mut Draft) {
    let rate = [2.0, 10.0, 40.0][draft.dice.roll(3) as usize];
    draft.line(format!("[workload.sources.crowd]\nkind = \"poisson\"\nrate_per_s = {rate:?}"));
    if draft.has(0) {
        let gap = draft.dice.law(0.2);
        draft.line(format!("[workload.sources.steady]\nkind = \"renewal\"\ngap_s = {gap}"));
    }
    if draft.has(1) {
        let points = "points = [[0, 0], [5, 30], [6, 0]]\nrepeat_s = 7";
        draft.line(format!("[workload.sources.waves]\nkind = \"profile\"\n{points}"));
    }
    if draft.has(2) {
        let within = draft.dice.pick(&["0", "0.5"]);
        draft.line(format!(
            "[workload.sources.burst]\nkind = \"microburst\"\nat_s = 1\ncount = 60\nevery_s = 9\nwithin_s = {within}"
        ));
    }
    if draft.has(3) {
        let think = draft.dice.law(1.0);
        draft.line(format!("[workload.sources.users]\nkind = \"closed_loop\"\nusers = 7\nthink_s = {think}"));
    }
    draft.line("[workload.population]\nusers = 50\nactivity_exponent = 0.9\ntenants = 3");
    draft.line("tiers = { gold = 0.1, silver = 0.3, plain = 0.6 }");
    for (class, endpoint, business_class) in [("a", "chat", 0), ("b", "search", 2), ("c", "ask", 4)] {
        let (tokens_in, tokens_out) = (draft.dice.law(200.0), draft.dice.law(60.0));
        draft.line(format!(
            "[workload.classes.{class}]\nendpoint = \"{endpoint}\"\nbusiness_class = {business_class}"
        ));
        draft.line(format!(
            "tokens_in = {tokens_in}\ntokens_out = {tokens_out}\nchars = 40\nhistory_turns = 2"
        ));
        draft.line("urgent_share = 0.2\nservice_keyword_share = 0.2\nwrite_share = 0.1\nfaq_share = 0.3");
    }
}

fn people(draft: &mut Draft) {
    if draft.has(4) {
        let (patience, until) =
            (draft.dice.law(1.5), draft.dice.pick(&["service", "first_token", "last_token"]));
        let noticed = draft.dice.pick(&["true", "false"]);
        draft.line(format!(
            "[workload.people.patience]\ngive_up_after_s = {patience}\nuntil = \"{until}\"\nnoticed = {noticed}"
        ));
        if draft.has(5) {
            let after = draft.dice.law(0.5);
            draft
                .line(format!("[workload.people.resend]\nprobability = 0.8\nafter_s = {after}\nat_most = 3"));
        }
    }
    if draft.has(6) {
        let base = draft.dice.pick(&["0", "0.3"]);
        draft.line(format!("[workload.retries]\nat_most = 3\nbase_s = {base}\njitter_share = 0.5"));
    }
}

fn gateway(draft: &mut Draft) {
    draft.line("[gateway]\nin_time_s = 2");
    if draft.has(7) {
        let ingress = draft.dice.law(0.02);
        draft.line(format!("ingress_delay_s = {ingress}"));
    }
    if draft.has(8) {
        let deadline = draft.dice.pick(&["0.001", "1", "5"]);
        draft.line(format!("deadline_s = {deadline}"));
    }
    if draft.has(9) {
        let slots = draft.dice.pick(&["1", "5", "30"]);
        draft.line(format!("executor_slots = {slots}"));
    }
    let model = if draft.has(10) { "engine" } else { "model" };
    draft.line(format!(
        "[endpoints.chat]\nl1 = [\"search\", \"{model}\"]\nl2 = [\"store\", \"{model}\"]\nl3 = [\"faq\"]\nl4 = [\"faq\"]"
    ));
    draft.line("documents = 20\ndocuments_kept = 5\ndocuments_l2 = 3\ntokens_per_document = 30");
    draft.line(
        "[endpoints.search]\nl1 = [\"embed\", \"store\", \"rerank\"]\nl3 = [\"faq\"]\nl4 = [\"faq\"]\ndocuments = 12\ndocuments_kept = 4",
    );
    draft.line(format!(
        "[endpoints.ask]\nl1 = [\"model\", \"embed\", \"{model}\"]\nl3 = [\"faq\"]\nl4 = [\"faq\"]"
    ));
}

fn stages(draft: &mut Draft) {
    let bounded = draft.has(11);
    let limited = draft.has(12);
    let limits = |dice: &mut Dice| {
        let mut text = String::new();
        if bounded {
            let _ = writeln!(text, "max_queue = {}", dice.pick(&["0", "1", "10"]));
        }
        if limited {
            let _ = writeln!(text, "time_limit_s = {}", dice.pick(&["0.01", "0.5", "3"]));
        }
        text
    };
    let dice = &mut draft.dice;
    let mut text = String::new();
    for (name, mean) in [("embed", 0.01), ("faq", 0.05)] {
        let (law, more) = (dice.law(mean), limits(dice));
        let _ = writeln!(text, "[stages.{name}]\nkind = \"server\"\nservers = 2\nservice_s = {law}\n{more}");
    }
    let (law, more) = (dice.law(0.02), limits(dice));
    let _ = writeln!(
        text,
        "[stages.store]\nkind = \"vector_store\"\nconnections = 3\nbase_s = {law}\nper_document_s = 0.001\ncores = 2\n{more}"
    );
    let (wait, more) = (dice.pick(&["0", "20"]), limits(dice));
    let _ = writeln!(
        text,
        "[stages.rerank]\nkind = \"reranker\"\ngpus = 2\nmax_docs = 40\nmax_wait_ms = {wait}\nbase_s = 0.02\n\
         per_document_s = 0.002\nworkspace_per_document_gb = 0.05\n{more}"
    );
    draft.text.push_str(&text);
    let on_device = draft.has(13);
    if on_device {
        draft.line("device = \"gpu\"\nweights_gb = 1");
    }
    let (first, more) = (draft.dice.law(0.1), limits(&mut draft.dice));
    let routing = draft.dice.pick(&["least_loaded", "round_robin"]);
    let slowdown = if draft.has(14) { "0.3" } else { "0" };
    draft.line(format!(
        "[stages.model]\nkind = \"llm_slots\"\nreplicas = 2\nslots = 3\nfirst_token_s = {first}\nper_token_s = 0.004\n\
         slowdown_per_busy = {slowdown}\nrouting = \"{routing}\"\n{more}"
    ));
    if on_device && draft.has(15) {
        let then = draft.dice.pick(&["fail_call", "restart"]);
        draft.line(format!(
            "memory = {{ device = \"gpu\", weights_gb = 3, per_call_gb = 0.6, per_token_mb = 5, \
             on_out_of_memory = \"{then}\", restart_s = 1.5 }}"
        ));
    }
    let (blocks, more) =
        (draft.dice.pick(&["20", "60", "1000"]), if limited { "time_limit_s = 2" } else { "" });
    let calls = if bounded { "max_calls = 6" } else { "" };
    draft.line(format!(
        "[stages.engine]\nkind = \"llm_batching\"\nreplicas = 2\nmax_seqs = 4\nmax_batched_tokens = 128\n\
         kv_blocks = {blocks}\nblock_tokens = 16\nrouting = \"{routing}\"\n{calls}\n{more}\n\
         cost = {{ c0_s = 0.005, per_prefill_token_s = 0.0001, per_prefill_context_s = 0.0, \
         per_decode_sequence_s = 0.0002, per_resident_token_s = 0.000001 }}"
    ));
    let (allocator, interference) =
        (draft.dice.pick(&["exact", "caching", "preallocated"]), draft.dice.pick(&["1", "1.5"]));
    let memory = draft.dice.pick(&["6", "9", "40"]);
    draft.line(format!(
        "[devices.gpu]\ncount = 2\nmemory_gb = {memory}\nallocator = \"{allocator}\"\nempty_cache_every_s = 3\n\
         interference = {interference}"
    ));
}

fn policy(draft: &mut Draft) {
    if draft.has(16) {
        let kind = draft.dice.pick(&["fifo", "strict_priority"]);
        draft.line(format!("[policy.queue]\nkind = \"{kind}\""));
        if draft.has(17) {
            draft.line("max_length = 5\nmax_wait_s = 0.4");
        }
    }
    if draft.has(18) {
        let module = draft.dice.pick(&[
            "kind = \"fixed_rate\"\nlimit = 5",
            "kind = \"token_bucket\"\nrate_per_s = 8\nburst = 4\nkey = \"tenant\"",
            "kind = \"weighted_bucket\"\nbase_rate_per_s = 10",
            "kind = \"concurrency_gate\"\nmax_at_once = 6\nretry_after_s = 1",
        ]);
        draft.line(format!("[policy.admission.entry]\n{module}"));
    }
    if draft.has(19) {
        let (place, full) = (
            draft.dice.pick(&["llm_call", "rerank_call", "after_retrieval"]),
            draft.dice.pick(&["busy", "skip"]),
        );
        let wait = draft.dice.pick(&["0", "0.2"]);
        draft.line(format!(
            "[policy.admission.gate]\nkind = \"concurrency_gate\"\nplace = \"{place}\"\nmax_at_once = 2\n\
             wait_at_most_s = {wait}\non_full = \"{full}\""
        ));
    }
    if draft.has(20) {
        draft.line("[policy.fallback]\nleast_dwell_s = 0.5\nl2.vram_above = 0.6\nl3.llm_busy_above = 0.9");
        draft.line("l4.queue_above = 8\nclass.s0 = { min_level = \"l2\", red_line = true }");
        if draft.has(21) {
            draft.line("rerank = { max_at_once = 2, wait_at_most_ms = 30, p95_above_ms = 40, p95_over = 5, degraded_s = 1 }");
        }
    }
    draft.line("[telemetry]\nperiod_s = 0.25");
    if draft.has(22) {
        draft.line("delay_s = 0.4\nnoise = 0.05");
    }
    if draft.has(23) {
        draft.line("[quality]\nkept_without_rerank = 0.5\nl1 = { new = 0.5 }\nl3 = { generative = 0.1 }");
    }
}
