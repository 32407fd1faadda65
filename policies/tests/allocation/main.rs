//! A governor allocates nothing in its steady state, with every module on and with every kind of queue.
//!
//! The traffic is the same every [`ROUND`] requests, with more users than the maps by key hold before
//! they are swept, and with all that makes lists grow: queues that fill up, calls that wait and give up,
//! failures, losses, ticks. After some slow rounds all lists have nearly their size; what still changes from
//! round to round is what the limits have learnt. Then ten rounds in a row must pass without an allocation.
//!
//! A new module: add it to the policy of its family in `policy`, and the reasons that it gives to [`SEEN`].
//! That none is missing is read from the schema.

mod policy;

use allocation_counter::measure;
use forebay_policies::{
    Admission, Arrival, Call, CallEnd, CallView, End, Governor, Level, Moment, Next, Notice, Outcome,
    ProviderEnd, Queue, Reading, RequestView, Route, SignalKind, Signals, Site, Ticked, Ticket,
};
use policy::{QUEUES, SEEN, policy};
use std::collections::{BTreeSet, VecDeque};

const MS: u64 = 1_000_000;
/// After so many requests the traffic begins anew.
const ROUND: u64 = 10_000;
/// Rounds in which every list is to grow.
const WARM: u64 = 8;
/// Attempts in flight at most.
const SLOTS: u64 = 500;

/// What an attempt does next, in the order of the moments at which it does.
#[derive(Clone, Copy)]
enum Deed {
    Call(Site),
    /// The wait for a permit or a turn is over.
    Waited(Site),
    Ended(Site),
    /// The call at this provider has ended.
    Provided(u8),
    Route,
    Leave(Outcome),
}

/// A driver with a short memory: what comes next of each attempt stands in one of a few lists, each for
/// one delay, so that the lists are in order of time.
struct Driver {
    governor: Governor,
    signals: Signals,
    ticked: Ticked,
    now: Moment,
    /// By slot: the number of the request in it, if it is in use.
    slots: Vec<Option<u64>>,
    due: [VecDeque<(Moment, Ticket, Deed)>; 4],
    served: u64,
    /// To begin with all takes three times as long, classes and tenants come in long stretches, and nobody is
    /// served in some of them, and then many at once: every line is then as long as it will ever be.
    warming: bool,
}

/// What is lost and comes back, in turn.
const NOTICES: [Notice; 8] = [
    Notice::StoreLost,
    Notice::RulesWiped,
    Notice::StoreBack,
    Notice::NodesDown,
    Notice::RulesBack,
    Notice::ForecastLost,
    Notice::NodesUp,
    Notice::ForecastBack,
];

/// The delays, in milliseconds.
const DELAYS_MS: [u64; 4] = [5, 20, 50, 200];

impl Driver {
    fn new(queue: &str) -> Self {
        let policy = policy(queue);
        Self {
            governor: Governor::new(&policy).expect("the test's own values"),
            signals: Signals::new(&policy.signals),
            ticked: Ticked::default(),
            now: Moment(0),
            slots: vec![None; SLOTS as usize],
            due: std::array::from_fn(|_| VecDeque::with_capacity(4 * SLOTS as usize)),
            served: 0,
            warming: true,
        }
    }

    fn later(&mut self, delay: usize, ticket: Ticket, deed: Deed) {
        self.due[delay].push_back((
            self.now.after(if self.warming { 3 } else { 1 } * DELAYS_MS[delay] * MS),
            ticket,
            deed,
        ));
    }

    /// The n-th request arrives, a millisecond after the last, and what is due by then is done first.
    fn step(&mut self, n: u64) {
        self.now = Moment(n * MS);
        for list in 0..self.due.len() {
            while let Some(&(at, ticket, deed)) = self.due[list].front()
                && at <= self.now
            {
                self.due[list].pop_front();
                self.act(ticket, deed);
            }
        }
        if n.is_multiple_of(100) {
            // Up and down in each round.
            let way = (n % ROUND) as f64 / ROUND as f64;
            let vram = 0.75 + 0.22 * (1.0 - (2.0 * way - 1.0).abs());
            let reading = Reading::new(self.now)
                .with(SignalKind::Vram, vram)
                .with(SignalKind::LlmBusy, way)
                .with(SignalKind::LlmQueue, 10.0 * way)
                .with(SignalKind::ArrivalRate, 200.0 * way)
                .with(SignalKind::QueueLength, self.governor.queued() as f64);
            self.signals.deliver(self.now, &reading);
            self.ticked.clear();
            self.governor.tick(self.now, &self.signals, &mut self.ticked);
        }
        if n.is_multiple_of(ROUND / 20) {
            self.governor.notice(self.now, NOTICES[(n / (ROUND / 20)) as usize % NOTICES.len()]);
        }
        while let Some((ticket, _)) = self.governor.expire(self.now) {
            self.slots[ticket.slot()] = None;
        }
        self.arrive(n);
        // Served at a steady pace, far slower than they come in the first quarter of a round.
        let at_this = n.is_multiple_of(16) || (n.is_multiple_of(2) && n % ROUND >= ROUND / 4);
        if at_this && !self.pauses(n) {
            self.serve();
        }
        if self.pauses(n) && n % 1000 == 999 {
            (0..50).for_each(|_| self.serve());
        }
        while let Some((ticket, site)) = self.governor.woken() {
            self.answered(ticket, site, Call::Proceed);
        }
    }

    /// Whether nobody is served for a while, so that the queue fills up with one class.
    fn pauses(&self, n: u64) -> bool {
        self.warming && (n / 1000).is_multiple_of(2)
    }

    fn arrive(&mut self, n: u64) {
        let slot = n % SLOTS;
        if self.slots[slot as usize].is_some() {
            return;
        }
        // Each number of the round is spread, so that users and classes do not go in step.
        let spread = (n % ROUND).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let class = if self.warming { n / 2000 } else { spread };
        let tenant = if self.warming && n / 1000 % 4 == 2 { n / 4000 } else { spread };
        let request = RequestView {
            class: (class % 5) as u8,
            tenant: (tenant % 8) as u32,
            endpoint: (spread % 4) as u16,
            // Most come once in a round; a few come again and again.
            user: if spread.is_multiple_of(3) { spread % 50 } else { n % ROUND },
            chars: (spread % 2000) as u32,
            tokens_in: (spread % 1500) as u32,
            tokens_out_estimate: (spread % 500) as u32,
            ..RequestView::new(Ticket::of(slot as u32, (n / SLOTS) as u32))
        };
        match self.governor.arrived(self.now, &request, &self.signals) {
            Arrival::Reject { .. } => {}
            Arrival::Queue { .. } => {
                self.slots[slot as usize] = Some(n);
                // One in twenty gives up while it waits; more of them leave more gaps in the lines.
                if n.is_multiple_of(if self.warming { 2 } else { 20 }) {
                    self.later(1, request.ticket, Deed::Leave(Outcome::Gone));
                }
                if n.is_multiple_of(50) {
                    self.governor.expected_wait(self.now, request.ticket);
                }
            }
            Arrival::Admit | Arrival::Degrade { .. } => {
                self.slots[slot as usize] = Some(n);
                self.later(1, request.ticket, Deed::Leave(Outcome::Answered));
            }
        }
    }

    fn serve(&mut self) {
        loop {
            match self.governor.next(self.now, &self.signals) {
                Next::Serve(dispatch) => {
                    return self.later(0, dispatch.ticket, Deed::Call(Site::RerankCall));
                }
                Next::Drop { ticket, .. } => self.slots[ticket.slot()] = None,
                Next::Idle => return,
            }
        }
    }

    fn act(&mut self, ticket: Ticket, deed: Deed) {
        let Some(n) = self.slots[ticket.slot()] else { return };
        if ticket.generation() != (n / SLOTS) as u32 {
            return;
        }
        let odd = n % 7;
        match deed {
            Deed::Call(site) => {
                let call =
                    CallView { ticket, site, endpoint: 0, class: 2, tenant: 0, level: Level::L1, size: 1 };
                let answer = self.governor.call(self.now, &call, &self.signals);
                self.answered(ticket, site, answer);
            }
            Deed::Waited(site) => {
                let answer = self.governor.waited(self.now, ticket, site);
                self.answered(ticket, site, answer);
            }
            Deed::Ended(site) => {
                let end = CallEnd {
                    ticket,
                    site,
                    latency_ns: (20 + 60 * odd) * MS,
                    ok: odd != 3,
                    timed_out: odd == 4,
                    tokens: (odd != 3).then_some(800),
                };
                self.governor.ended(self.now, &end);
                match site {
                    Site::RerankCall => self.later(0, ticket, Deed::Call(Site::AfterRetrieval)),
                    Site::AfterRetrieval => self.later(0, ticket, Deed::Call(Site::LlmCall)),
                    _ => {
                        let outcome = if odd == 3 { Outcome::Failed } else { Outcome::Answered };
                        self.later(3, ticket, Deed::Leave(outcome));
                    }
                }
            }
            Deed::Provided(provider) => {
                // Some fail everywhere, most nowhere; for half a second of each round all do.
                let is_out = n % ROUND < ROUND / 20;
                let fault = if is_out || n.is_multiple_of(10) { n % 3 } else { n + u64::from(provider) };
                let end = match fault % 30 {
                    0 => ProviderEnd::Failed,
                    1 => ProviderEnd::RateLimited { retry_after_ns: Some(20 * MS) },
                    2 => ProviderEnd::TimedOut,
                    _ => ProviderEnd::Ok,
                };
                self.governor.provider_ended(self.now, ticket, provider, end, 20 * MS);
                match end {
                    ProviderEnd::Ok => self.later(0, ticket, Deed::Ended(Site::LlmCall)),
                    _ => self.route(ticket),
                }
            }
            Deed::Route => self.route(ticket),
            Deed::Leave(outcome) => {
                let end = End { outcome, tokens: Some(900), latency_ns: (100 + 50 * odd) * MS };
                self.governor.left(self.now, ticket, &end);
                self.served += 1;
                self.slots[ticket.slot()] = None;
            }
        }
    }

    fn route(&mut self, ticket: Ticket) {
        match self.governor.route(self.now, ticket, 3) {
            // One in a hundred leaves during the call, also where it is a probe.
            Route::Use { .. } if ticket.slot() % 100 == 7 => {
                self.later(0, ticket, Deed::Leave(Outcome::Gone));
            }
            Route::Use { provider, .. } => self.later(2, ticket, Deed::Provided(provider)),
            Route::Wait { .. } => self.later(1, ticket, Deed::Route),
            Route::Fail { .. } => self.later(0, ticket, Deed::Ended(Site::LlmCall)),
            Route::LastResort { .. } => {
                self.governor.last_resort(self.now, ticket, Some(0.9));
                self.later(0, ticket, Deed::Ended(Site::LlmCall));
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, site: Site, answer: Call) {
        match answer {
            Call::Proceed if site == Site::LlmCall => self.route(ticket),
            // Some give up in the line.
            Call::Wait { .. } if ticket.slot() % 40 == 3 => self.later(0, ticket, Deed::Leave(Outcome::Gone)),
            Call::Proceed => self.later(1, ticket, Deed::Ended(site)),
            // The longest wait of all; who is woken before is over by then or answers that it proceeds.
            Call::Wait { .. } => self.later(2, ticket, Deed::Waited(site)),
            Call::Skip { .. } => self.later(0, ticket, Deed::Call(Site::AfterRetrieval)),
            Call::Busy { .. } => self.later(0, ticket, Deed::Leave(Outcome::Answered)),
        }
    }
}

#[test]
fn nothing_is_allocated_in_the_steady_state() {
    for queue in QUEUES {
        let mut driver = Driver::new(queue);
        (0..WARM * ROUND).for_each(|n| driver.step(n));
        driver.warming = false;
        let (mut quiet, mut rounds, served) = (0, 0, driver.served);
        // A list that is longer than ever before grows once; what allocates by request or by tick would do so
        // in every round.
        while quiet < 10 && rounds < 60 {
            let from = (WARM + rounds) * ROUND;
            let allocated = measure(|| (from..from + ROUND).for_each(|n| driver.step(n)));
            quiet = if allocated.count_total == 0 { quiet + 1 } else { 0 };
            rounds += 1;
        }
        assert_eq!(quiet, 10, "{queue}: something is allocated in round after round");
        let per_round = (driver.served - served) / rounds;
        assert!(per_round > 1000, "{queue}: only {per_round} of {ROUND} came through");
        let unseen: Vec<_> = SEEN.iter().filter(|&&why| driver.governor.explain(why).is_none()).collect();
        assert!(unseen.is_empty(), "{queue}: {unseen:?}");
    }
}

#[test]
fn every_kind_of_module_and_queue_is_among_them() {
    let kinds = |schema: &serde_json::Value| -> BTreeSet<String> {
        let variants = schema["oneOf"].as_array().into_iter().flatten();
        variants.filter_map(|kind| Some(kind["properties"]["kind"]["const"].as_str()?.to_owned())).collect()
    };
    let admission = kinds(&schemars::schema_for!(Admission).into());
    let policy = serde_json::to_value(policy(QUEUES[0])).expect("a policy is plain data");
    let here = policy["admission"].as_object().into_iter().flatten();
    let here: BTreeSet<String> =
        here.filter_map(|(_, module)| Some(module["kind"].as_str()?.to_owned())).collect();
    assert_eq!(here, admission);
    let here = QUEUES.iter().filter_map(|queue| Some(queue.split('\'').nth(1)?.to_owned()));
    assert_eq!(here.collect::<BTreeSet<_>>(), kinds(&schemars::schema_for!(Queue).into()));
    let fallback = policy["fallback"].as_object().into_iter().flatten();
    let absent: Vec<_> = fallback.filter(|(_, part)| part.is_null()).map(|(name, _)| name).collect();
    assert!(absent.is_empty(), "{absent:?}");
}
