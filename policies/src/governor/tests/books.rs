//! A random driver that keeps its own books: permits never leak, nobody is lost or served twice, and a
//! restored governor goes on as the one that was saved.

use super::*;
use proptest::prelude::*;

const EVERYTHING: &str = "
    [admission.entry]
    kind = 'weighted_bucket'
    base_rate_per_s = 200
    [admission.user]
    kind = 'fixed_rate'
    key = 'user'
    limit = 40
    [admission.inside]
    kind = 'concurrency_gate'
    max_at_once = 12
    [admission.after]
    kind = 'concurrency_gate'
    place = 'after_retrieval'
    key = 'tenant'
    max_at_once = 3
    wait_at_most_s = 0.1
    [admission.calls]
    kind = 'token_bucket'
    place = 'llm_call'
    rate_per_s = 50
    burst = 10
    [admission.llm]
    kind = 'concurrency_gate'
    place = 'llm_call'
    max_at_once = 3
    wait_at_most_s = 0.2
    [admission.tenant]
    kind = 'concurrency_gate'
    place = 'llm_call'
    key = 'tenant'
    max_at_once = 2
    wait_at_most_s = 0.3
    [queue]
    kind = 'strict_priority'
    max_length = 4
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
                let end =
                    CallEnd { ticket, site, latency_ns, ok: true, timed_out: deed.seed > 250, tokens: None };
                self.governor.ended(self.now, &end);
                self.attempts[slot].1 = Stage::Serving;
                String::new()
            }
            (9, stage) if stage != Stage::Gone => {
                self.governor.left(self.now, ticket, &End::GONE);
                self.attempts[slot].1 = Stage::Gone;
                String::new()
            }
            (10, _) => {
                let reading = Reading::new(self.now).with(SignalKind::Vram, f64::from(deed.seed) / 255.0);
                self.signals.deliver(self.now, &reading);
                self.governor.tick(self.now, &self.signals, &mut crate::Ticked::default());
                String::new()
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
        let request = RequestView { class, tenant, user, ..RequestView::new(self.ticket(slot)) };
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
        assert!(llm <= 3 && rerank <= 2, "a gate let {llm} and {rerank} in");
        for tenant in 0..3 {
            let calling = |attempt: &&(u32, Stage, u32)| {
                attempt.1 == Stage::Calling(Site::LlmCall) && attempt.2 == tenant
            };
            assert!(self.attempts.iter().filter(calling).count() <= 2);
        }
        assert_eq!(self.governor.queued(), queued);
        let present = self.attempts.iter().filter(|attempt| attempt.1 != Stage::Gone).count();
        assert_eq!(self.governor.permits_out("inside", 0), Some(present as u32));
    }

    /// Everybody leaves: nothing may be left behind.
    fn finish(&mut self) {
        for slot in 0..SLOTS {
            self.governor.left(self.now, self.ticket(slot), &End::GONE);
        }
        assert_eq!((self.governor.queued(), self.governor.woken()), (0, None));
        for module in ["inside", "after", "llm", "tenant"] {
            for key in 0..3 {
                assert_eq!(self.governor.permits_out(module, key), Some(0), "{module} leaked a permit");
            }
        }
        assert_eq!(self.governor.rerank.as_mut().map(|guard| guard.gate().permits.taken(0)), Some(0));
    }
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = (0..11_u8, 0..SLOTS, 0..30 * MS, any::<u8>()).prop_map(|(kind, slot, gap, seed)| Deed {
        kind,
        slot,
        gap,
        seed,
    });
    prop::collection::vec(deed, 1..500)
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
