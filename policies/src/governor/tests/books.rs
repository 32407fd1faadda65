//! A random driver that keeps its own books: permits never leak, nobody is lost or served twice, and a
//! restored governor goes on as the one that was saved.

use super::*;
use proptest::prelude::*;

const EVERYTHING: &str = "
    [admission.entry]
    kind = 'weighted_bucket'
    base_rate_per_s = 12
    [admission.user]
    kind = 'fixed_rate'
    key = 'user'
    limit = 5
    [admission.inside]
    kind = 'concurrency_gate'
    max_at_once = 7
    [admission.window]
    kind = 'token_window'
    quota = 30000
    window_s = 1
    requests = 30
    [admission.user_window]
    kind = 'token_window'
    key = 'user'
    quota = 1500
    window_s = 0.2
    sub_windows = 5
    estimate_factor = 1.1
    count_rejected = true
    [admission.late_window]
    kind = 'token_window'
    key = 'tenant'
    quota = 20000
    window_s = 0.5
    charge = 'on_end'
    [admission.shared_window]
    kind = 'token_window'
    key = 'tenant'
    quota = 25000
    window_s = 0.5
    requests = 200
    shared_window = true
    shared_expiry_s = 0.2
    [admission.frequency]
    kind = 'user_frequency'
    limit = 2
    window_s = 1
    [admission.classes]
    kind = 'priority_buckets'
    rate_per_s = 25
    step_cooldown_s = 0.2
    [admission.class_tokens]
    kind = 'priority_buckets'
    key = 'tenant'
    cost = 'tokens'
    rate_per_s = 1500
    [admission.limit]
    kind = 'adaptive_concurrency'
    law = { kind = 'aimd', latency_above_s = 0.2 }
    least = 6
    [admission.shed]
    kind = 'load_shed'
    signal = 'vram'
    from = 0.8
    to = 1.0
    [admission.early]
    kind = 'early_rejection'
    decode_at_once = 6
    prefill_ms_per_token = 0.2
    decode_ms_per_token = 1
    [admission.paced]
    kind = 'paced'
    place = 'llm_call'
    rate_per_s = 30
    wait_at_most_s = 0.03
    [admission.reserved]
    kind = 'token_window'
    place = 'llm_call'
    quota = 40000
    window_s = 1
    [admission.learning]
    kind = 'adaptive_concurrency'
    place = 'after_retrieval'
    key = 'tenant'
    law = { kind = 'gradient', window_s = 0.05, measure_every_s = 0.3, measure_requests = 3, measure_at = 1 }
    initial = 3
    most = 4
    wait_at_most_s = 0.1
    [admission.after]
    kind = 'concurrency_gate'
    place = 'after_retrieval'
    key = 'tenant'
    max_at_once = 3
    wait_at_most_s = 0.1
    [admission.calls]
    kind = 'token_bucket'
    place = 'llm_call'
    rate_per_s = 12
    burst = 2
    [admission.llm]
    kind = 'concurrency_gate'
    place = 'llm_call'
    max_at_once = 2
    wait_at_most_s = 0.1
    [admission.tenant]
    kind = 'concurrency_gate'
    place = 'llm_call'
    key = 'tenant'
    max_at_once = 1
    wait_at_most_s = 0.2
    [queue]
    kind = 'strict_priority'
    max_length = 1
    max_wait_s = 0.5
    aging_s = 0.2
    [fallback]
    l2.vram_above = 0.85
    l3.vram_above = 0.92
    l4.vram_above = 0.98
    least_dwell_s = 0.1
    class.s0 = { min_level = 'l2', red_line = true }
    class.s1 = { min_level = 'l2' }
    [fallback.rerank]
    max_at_once = 2
    wait_at_most_ms = 50
    degraded_s = 0.5
    p95_over = 5
    p95_above_ms = 90
    [signals.vram]
    filter = { kind = 'exponential_mean', time_constant_s = 0.05 }
";

/// A driver that does one random thing after another, keeps its own books, and compares.
#[derive(Clone)]
struct Driver {
    governor: Governor,
    signals: Signals,
    now: Moment,
    /// By slot: the attempt's generation, where it stands, and its tenant.
    attempts: Vec<(u32, Stage, u32)>,
    /// All that happened, in words.
    log: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Gone,
    Queued,
    Serving,
    Held(Site),
    Calling(Site),
}

#[derive(Clone, Debug)]
struct Deed {
    kind: u8,
    slot: usize,
    gap: u64,
    seed: u8,
}

const SLOTS: usize = 24;

impl Driver {
    fn new() -> Self {
        let policy: Policy = toml::from_str(EVERYTHING).expect("the test's own file");
        Self {
            governor: Governor::new(&policy).expect("the test's own values"),
            signals: Signals::new(&policy.signals),
            now: Moment(0),
            attempts: vec![(0, Stage::Gone, 0); SLOTS],
            log: Vec::new(),
        }
    }

    fn ticket(&self, slot: usize) -> Ticket {
        Ticket::of(slot as u32, self.attempts[slot].0)
    }

    fn step(&mut self, deed: &Deed) {
        self.now = self.now.after(deed.gap);
        let slot = deed.slot % SLOTS;
        let (ticket, stage) = (self.ticket(slot), self.attempts[slot].1);
        let entry = match (deed.kind, stage) {
            (0..=3, Stage::Gone) => format!("{:?}", self.arrive(slot, deed.seed)),
            (4..=5, _) => format!("{:?}", self.next()),
            (6..=8, Stage::Serving) => format!("{:?}", self.call(slot, deed.seed)),
            (6..=8, Stage::Held(site)) => {
                let answer = self.governor.waited(self.now, ticket, site);
                self.answered(slot, site, answer);
                format!("{answer:?}")
            }
            (6..=8, Stage::Calling(site)) => {
                let latency_ns = u64::from(deed.seed) * MS;
                let (ok, timed_out) = (!deed.seed.is_multiple_of(16), deed.seed > 250);
                let tokens = ok.then_some(u32::from(deed.seed) * 8);
                let end = CallEnd { ticket, site, latency_ns, ok, timed_out, tokens };
                self.governor.ended(self.now, &end);
                self.attempts[slot].1 = Stage::Serving;
                String::new()
            }
            (9, stage) if stage != Stage::Gone => {
                let end = match deed.seed % 4 {
                    0 => End::GONE,
                    1 => End { outcome: crate::Outcome::Failed, ..End::GONE },
                    _ => End::answered(u64::from(deed.seed) * MS, Some(u32::from(deed.seed) * 8)),
                };
                self.governor.left(self.now, ticket, &end);
                self.attempts[slot].1 = Stage::Gone;
                String::new()
            }
            (10, _) => {
                let reading = Reading::new(self.now).with(SignalKind::Vram, f64::from(deed.seed) / 255.0);
                self.signals.deliver(self.now, &reading);
                self.governor.tick(self.now, &self.signals, &mut crate::Ticked::default());
                String::new()
            }
            (11, _) if deed.seed < 16 => {
                let value = 2.0 + f64::from(deed.seed);
                let path = ["classes.rate_per_s", "early.decode_at_once", "window.requests"];
                let path = format!("admission.{}", path[usize::from(deed.seed % 3)]);
                self.governor.set(self.now, &path, value).expect("a value within its range");
                path
            }
            _ => String::new(),
        };
        self.log.push(format!("{} {entry}", self.now.0));
        while let Some((ticket, site)) = self.governor.woken() {
            self.log.push(format!("woken {ticket:?}"));
            assert_eq!(self.attempts[ticket.slot()].1, Stage::Held(site));
            self.attempts[ticket.slot()].1 = Stage::Calling(site);
        }
    }

    fn arrive(&mut self, slot: usize, seed: u8) -> Arrival {
        self.attempts[slot].0 += 1;
        let tenant = u32::from(seed % 3);
        self.attempts[slot].2 = tenant;
        let (class, user) = (seed % 5, u64::from(seed % 7));
        let (tokens_in, tokens_out_estimate) = (u32::from(seed) * 4, u32::from(seed ^ 0x55) * 4);
        let request = RequestView {
            class,
            tenant,
            user,
            tokens_in,
            tokens_out_estimate,
            ..RequestView::new(self.ticket(slot))
        };
        let arrival = self.governor.arrived(self.now, &request, &self.signals);
        self.attempts[slot].1 = match arrival {
            Arrival::Admit | Arrival::Degrade { .. } => Stage::Serving,
            Arrival::Queue { .. } => Stage::Queued,
            Arrival::Reject { .. } => Stage::Gone,
        };
        arrival
    }

    fn next(&mut self) -> Next {
        let next = self.governor.next(self.now, &self.signals);
        let (ticket, stage) = match next {
            Next::Serve(dispatch) => (dispatch.ticket, Stage::Serving),
            Next::Drop { ticket, .. } => (ticket, Stage::Gone),
            Next::Idle => {
                assert!(self.attempts.iter().all(|attempt| attempt.1 != Stage::Queued), "one was lost");
                return next;
            }
        };
        assert_eq!(self.attempts[ticket.slot()].1, Stage::Queued, "one was handed out twice");
        assert_eq!(self.ticket(ticket.slot()), ticket);
        self.attempts[ticket.slot()].1 = stage;
        next
    }

    fn call(&mut self, slot: usize, seed: u8) -> Call {
        let site = Site::ALL[1 + usize::from(seed % 3)];
        let tenant = self.attempts[slot].2;
        let view = CallView { ticket: self.ticket(slot), tenant, ..call_of(0, site) };
        let answer = self.governor.call(self.now, &view, &self.signals);
        self.answered(slot, site, answer);
        answer
    }

    fn answered(&mut self, slot: usize, site: Site, answer: Call) {
        self.attempts[slot].1 = match answer {
            Call::Proceed if site == Site::AfterRetrieval => Stage::Serving,
            Call::Proceed => Stage::Calling(site),
            Call::Wait { .. } => Stage::Held(site),
            Call::Skip { .. } | Call::Busy { .. } => Stage::Serving,
        };
    }

    /// Compares the governor's books with the driver's.
    fn audit(&mut self) {
        let count = |site| self.attempts.iter().filter(|attempt| attempt.1 == Stage::Calling(site)).count();
        let queued = self.attempts.iter().filter(|attempt| attempt.1 == Stage::Queued).count();
        let (llm, rerank) = (count(Site::LlmCall), count(Site::RerankCall));
        assert!(llm <= 2 && rerank <= 2, "a gate let {llm} and {rerank} in");
        for tenant in 0..3 {
            let calling = |attempt: &&(u32, Stage, u32)| {
                attempt.1 == Stage::Calling(Site::LlmCall) && attempt.2 == tenant
            };
            assert!(self.attempts.iter().filter(calling).count() <= 1);
        }
        assert_eq!(self.governor.queued(), queued);
        let present = self.attempts.iter().filter(|attempt| attempt.1 != Stage::Gone).count();
        for module in ["inside", "limit"] {
            assert_eq!(self.governor.permits_out(module, 0), Some(present as u32));
        }
        assert!((0..3).all(|tenant| self.governor.permits_out("learning", tenant) <= Some(4)));
    }

    /// Everybody leaves: nothing may be left behind.
    fn finish(&mut self) {
        for slot in 0..SLOTS {
            self.governor.left(self.now, self.ticket(slot), &End::GONE);
        }
        assert_eq!((self.governor.queued(), self.governor.woken()), (0, None));
        for module in ["inside", "after", "llm", "tenant", "limit", "learning"] {
            for key in 0..3 {
                assert_eq!(self.governor.permits_out(module, key), Some(0), "{module} leaked a permit");
            }
        }
        assert_eq!(self.governor.rerank.as_mut().map(|guard| guard.gate().permits.taken(0)), Some(0));
        // No module has a note left on an attempt that is over.
        for unit in &self.governor.units {
            let saved = serde_json::to_value(&unit.state).expect("a state is plain data");
            for (name, state) in saved.as_object().into_iter().flatten() {
                let notes = ["noted", "places"].iter().filter_map(|list| state[list]["slots"].as_array());
                assert!(notes.flatten().all(serde_json::Value::is_null), "{name} kept a note");
                assert!(state["inside"].as_array().is_none_or(Vec::is_empty), "{name} kept one inside");
            }
        }
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = (0..12_u8, 0..SLOTS, 0..30 * MS, any::<u8>()).prop_map(|(kind, slot, gap, seed)| Deed {
        kind,
        slot,
        gap,
        seed,
    });
    prop::collection::vec(deed, 1..500)
}

/// Every module turns somebody away, so that what holds below holds for each.
#[test]
fn the_random_driver_meets_every_module() {
    let mut driver = Driver::new();
    let mut state = 1_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for _ in 0..40_000 {
        let (kind, slot, seed) = (draw(12) as u8, draw(SLOTS as u64) as usize, draw(256) as u8);
        // Now a crowd, now hardly anybody.
        let gap = match draw(100) {
            0 => draw(S),
            1..50 => draw(MS),
            _ => draw(8 * MS),
        };
        driver.step(&Deed { kind, slot, gap, seed });
        driver.log.clear();
        driver.audit();
    }
    let modules = [
        "fixed_rate",
        "token_bucket",
        "weighted_bucket",
        "gate",
        "token_window",
        "user_frequency",
        "adaptive_concurrency",
        "priority_buckets",
        "load_shed",
        "early_rejection",
        "paced",
        "queue",
        "rerank_guard",
    ];
    let of_these =
        |reason: &&Reason| modules.iter().any(|name| reason.code().split('.').next() == Some(name));
    let unheard = |reason: &&Reason| driver.governor.explain(**reason).is_none();
    let unheard: Vec<&Reason> = Reason::ALL.iter().filter(of_these).filter(unheard).collect();
    assert_eq!(unheard, [] as [&Reason; 0]);
    driver.finish();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Gates keep their bounds and leak nothing, queues lose and duplicate nobody, whatever happens.
    #[test]
    fn the_books_agree_under_any_order_of_events(deeds in deeds()) {
        let mut driver = Driver::new();
        for deed in &deeds {
            driver.step(deed);
            driver.audit();
        }
        driver.finish();
    }

    /// A governor that was saved and restored in the middle decides as the one that was not.
    #[test]
    fn a_restored_governor_goes_on_identically(deeds in deeds(), at in any::<prop::sample::Index>()) {
        let mut straight = Driver::new();
        let cut = at.index(deeds.len());
        deeds[..cut].iter().for_each(|deed| straight.step(deed));
        let saved = serde_json::to_string(&(&straight.governor, &straight.signals)).unwrap();
        let (governor, signals) = serde_json::from_str(&saved).unwrap();
        let mut restored = Driver { governor, signals, ..straight.clone() };
        for deed in &deeds[cut..] {
            straight.step(deed);
            restored.step(deed);
        }
        prop_assert_eq!(straight.log, restored.log);
        prop_assert_eq!(
            serde_json::to_string(&straight.governor).unwrap(),
            serde_json::to_string(&restored.governor).unwrap()
        );
    }
}
