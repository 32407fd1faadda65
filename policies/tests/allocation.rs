//! A governor allocates nothing in its steady state, with every module on.
//!
//! The traffic is the same every [`ROUND`] requests, with more users than the maps by key hold before
//! they are swept, and with all that makes lists grow: queues that fill up, calls that wait and give up,
//! failures, ticks. When some rounds have passed all lists have their size; what still changes from round
//! to round is what the limits have learnt.
//!
//! A new module: add it to the policy of its family below.

use allocation_counter::measure;
use forebay_policies::{
    Arrival, Call, CallEnd, CallView, End, Governor, Level, Moment, Next, Outcome, Policy, Reading,
    RequestView, SignalKind, Signals, Site, Ticked, Ticket,
};
use std::collections::VecDeque;

const MS: u64 = 1_000_000;
/// After so many requests the traffic begins anew.
const ROUND: u64 = 10_000;
/// Attempts in flight at most.
const SLOTS: u64 = 500;

const ADMISSION: &str = "
    [admission.rate]
    kind = 'fixed_rate'
    key = 'user'
    limit = 2
    window_s = 0.5
    [admission.bucket]
    kind = 'token_bucket'
    key = 'tenant'
    rate_per_s = 150
    burst = 50
    [admission.weight]
    kind = 'weighted_bucket'
    key = 'endpoint'
    base_rate_per_s = 120
    [admission.app]
    kind = 'token_window'
    quota = 9000000
    window_s = 10
    requests = 4500
    [admission.user_tokens]
    kind = 'token_window'
    key = 'user'
    quota = 1900
    window_s = 5
    [admission.late]
    kind = 'token_window'
    key = 'tenant'
    quota = 1000000
    window_s = 1
    charge = 'on_end'
    [admission.shared]
    kind = 'token_window'
    key = 'user'
    quota = 100000
    window_s = 1
    requests = 20
    shared_window = true
    [admission.frequency]
    kind = 'user_frequency'
    limit = 6
    window_s = 2
    [admission.classes]
    kind = 'priority_buckets'
    key = 'tenant'
    cost = 'tokens'
    rate_per_s = 10000
    [admission.limit]
    kind = 'adaptive_concurrency'
    key = 'endpoint'
    law = { kind = 'aimd', latency_above_s = 0.3, decrease = 0.95 }
    initial = 60
    least = 60
    most = 70
    [admission.shed]
    kind = 'load_shed'
    key = 'user'
    signal = 'vram'
    from = 0.8
    to = 1.0
    [admission.early]
    kind = 'early_rejection'
    decode_at_once = 120
    prefill_ms_per_token = 0.1
    decode_ms_per_token = 1
    [admission.inside]
    kind = 'concurrency_gate'
    max_at_once = 150
    [admission.learning]
    kind = 'adaptive_concurrency'
    place = 'after_retrieval'
    key = 'tenant'
    law = { kind = 'gradient', measure_every_s = 2, measure_requests = 5 }
    wait_at_most_s = 0.05
    [admission.paced]
    kind = 'paced'
    place = 'llm_call'
    rate_per_s = 900
    wait_at_most_s = 0.02
    [admission.llm]
    kind = 'concurrency_gate'
    place = 'llm_call'
    max_at_once = 10
    wait_at_most_s = 0.05
";
const QUEUE: &str = "
    [queue]
    kind = 'strict_priority'
    max_length = 50
    max_wait_s = 0.5
    aging_s = 0.2
";
const FALLBACK: &str = "
    [fallback]
    l2.vram_above = 0.85
    l3.vram_above = 0.95
    l4 = { llm_timeouts_above = 100, llm_timeouts_window_s = 1 }
    class.s0 = { min_level = 'l2', red_line = true }
    class.s1 = { min_level = 'l2' }
    [fallback.rerank]
    max_at_once = 4
    degraded_s = 0.5
    p95_above_ms = 370
    wait_at_most_ms = 40
    [signals.vram]
    filter = { kind = 'sliding_mean', window_s = 1 }
    [signals.llm_busy]
    filter = { kind = 'median', window_s = 1 }
    [signals.queue_length]
    filter = { kind = 'exponential_mean', time_constant_s = 1 }
";
/// The rule commands once, and its other value then waits for a cooldown that never ends; the controller
/// and the forecast find their values in force.
const FEEDBACK: &str = "
    [store]
    module = 'bucket'
    nodes = 3
    [feedback]
    presets = ['token_balance_low', 'queue_high', 'csat_drift']
    guard = { cooldown_s = 86400 }
    [feedback.control_center.dwell]
    when = [{ signal = 'vram', above = 0.85 }]
    set = 'fallback.least_dwell_s'
    to = 0.01
    otherwise = 0
    loop = 'limiter'
    [feedback.setpoints.busy]
    signal = 'llm_busy'
    target = 0.5
    parameter = 'admission.weight.base_rate_per_s'
    ki = 1
    least = 120
    most = 120
    loop = 'limiter'
    [feedback.forecast]
    profile = [[0, 500], [43200, 1000]]
    sets = { parameter = 'admission.classes.rate_per_s', least = 10000, most = 10000, loop = 'limiter' }
    [feedback.alerts.drift]
    signal = 'llm_busy'
    from_baseline = 0.3
    baseline_s = 2
    severity = 'p2'
    loop = 'limiter'
";

/// What an attempt does next, in the order of the moments at which it does.
#[derive(Clone, Copy)]
enum Deed {
    Call(Site),
    /// The wait for a permit or a turn is over.
    Waited(Site),
    Ended(Site),
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
}

/// The delays, in milliseconds.
const DELAYS_MS: [u64; 4] = [5, 20, 50, 200];

impl Driver {
    fn new() -> Self {
        let policy: Policy =
            toml::from_str(&[ADMISSION, QUEUE, FALLBACK, FEEDBACK].concat()).expect("the test's own file");
        Self {
            governor: Governor::new(&policy).expect("the test's own values"),
            signals: Signals::new(&policy.signals),
            ticked: Ticked::default(),
            now: Moment(0),
            slots: vec![None; SLOTS as usize],
            due: std::array::from_fn(|_| VecDeque::with_capacity(4 * SLOTS as usize)),
            served: 0,
        }
    }

    fn later(&mut self, delay: usize, ticket: Ticket, deed: Deed) {
        self.due[delay].push_back((self.now.after(DELAYS_MS[delay] * MS), ticket, deed));
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
                .with(SignalKind::QueueLength, self.governor.queued() as f64);
            self.signals.deliver(self.now, &reading);
            self.ticked.clear();
            self.governor.tick(self.now, &self.signals, &mut self.ticked);
        }
        self.arrive(n);
        // Served at a steady pace, slower than they come in the busy half of a round.
        if n.is_multiple_of(2) || n % ROUND < ROUND / 2 {
            self.serve();
        }
        while let Some((ticket, site)) = self.governor.woken() {
            self.later(1, ticket, Deed::Ended(site));
        }
    }

    fn arrive(&mut self, n: u64) {
        let slot = n % SLOTS;
        if self.slots[slot as usize].is_some() {
            return;
        }
        // Each number of the round is spread, so that users and classes do not go in step.
        let spread = (n % ROUND).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let request = RequestView {
            class: (spread % 5) as u8,
            tenant: (spread % 8) as u32,
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
                // One in twenty gives up while it waits.
                if n.is_multiple_of(20) {
                    self.later(1, request.ticket, Deed::Leave(Outcome::Gone));
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
            Deed::Leave(outcome) => {
                let end = End { outcome, tokens: Some(900), latency_ns: (100 + 50 * odd) * MS };
                self.governor.left(self.now, ticket, &end);
                self.served += 1;
                self.slots[ticket.slot()] = None;
            }
        }
    }

    fn answered(&mut self, ticket: Ticket, site: Site, answer: Call) {
        match answer {
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
    let mut driver = Driver::new();
    (0..10 * ROUND).for_each(|n| driver.step(n));
    let served = driver.served;
    let allocated = measure(|| (10 * ROUND..20 * ROUND).for_each(|n| driver.step(n)));
    let served = driver.served - served;
    assert!(served > 20_000, "only {served} of 100000 came through");
    assert_eq!(allocated.count_total, 0, "{allocated:?}");
}
