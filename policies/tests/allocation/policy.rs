//! The policy of the allocation test: every module of every family, each with values at which it acts.

use forebay_policies::{Policy, Reason};

const ADMISSION: &str = "
    [admission.rate]
    kind = 'fixed_rate'
    key = 'user'
    limit = 2
    window_s = 0.5
    [admission.bucket]
    kind = 'token_bucket'
    key = 'tenant'
    rate_per_s = 90
    burst = 20
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
    initial = 20
    least = 18
    most = 25
    [admission.shed]
    kind = 'load_shed'
    key = 'user'
    signal = 'vram'
    from = 0.8
    to = 1.0
    [admission.early]
    kind = 'early_rejection'
    decode_at_once = 60
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
    rate_per_s = 350
    wait_at_most_s = 0.02
    [admission.llm]
    kind = 'concurrency_gate'
    place = 'llm_call'
    max_at_once = 3
    wait_at_most_s = 0.03
    [admission.backlog]
    kind = 'backlog_gate'
    place = 'llm_call'
    below = 30
";
/// Every kind of queue; that nobody may wait long is said for all.
pub(crate) const QUEUES: [&str; 6] = [
    "kind = 'fifo'\nmax_length = 35",
    "kind = 'strict_priority'\nmax_length = 15\naging_s = 0.2",
    "kind = 'lifo_under_overload'\nmax_length = 35\noverload_wait_s = 0.1",
    "kind = 'earliest_deadline'\nmax_length = 35\ntarget_s = { s0 = 0.1, s1 = 0.1, s2 = 0.2, s3 = 0.5, s4 = 1 }",
    "kind = 'weighted_fair'\nmax_length = 35\nby = 'user'\ncost = 'tokens'\nmax_length_of_flow = 3",
    "kind = 'semantic'\nmax_length = 12\nmove_above = 0.9\naging_s = 0.2\ndecay_window_s = 1",
];
const LONGEST_WAIT: &str = "\nmax_wait_s = 0.3\n";
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
    [fallback.providers]
    window_s = 1
    least_calls = 5
    error_share_above = 0.3
    cooldown_s = 0.2
    probes = 2
    retries = 1
    backoff_s = 0.01
    when_all_open = 'last_resort'
    [fallback.cache_last_resort]
    min_similarity = 0.8
    [fallback.top_k]
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

/// Reasons that the traffic must have met with every queue, or modules stood in the policy and did nothing.
pub(crate) const SEEN: &[Reason] = &[
    Reason::FixedRateSpent,
    Reason::TokenBucketEmpty,
    Reason::WeightedBucketEmpty,
    Reason::TokenWindowSpent,
    Reason::UserFrequencySpent,
    Reason::PriorityBucketEmpty,
    Reason::AdaptiveFull,
    Reason::AdaptiveWaitExpired,
    Reason::LoadShed,
    Reason::EarlyRejection,
    Reason::GateWaitExpired,
    Reason::PacedTooEarly,
    Reason::BacklogGateLong,
    Reason::QueueFull,
    Reason::QueueExpired,
    Reason::L2Vram,
    Reason::L3Vram,
    Reason::ClassMinLevel,
    Reason::ClassUnavailable,
    Reason::RerankGuardBusy,
    Reason::RerankGuardSlow,
    Reason::RerankGuardWaitExpired,
    Reason::ProvidersFailOver,
    Reason::ProvidersAllOpen,
    Reason::ProvidersExhausted,
    Reason::CacheLastResort,
    Reason::TopKRate,
    Reason::StoreTimedOut,
    Reason::StoreFixedRate,
    Reason::StoreRulesKept,
    Reason::ControlRule,
    Reason::ControlCooldown,
];

/// The policy with this queue.
pub(crate) fn policy(queue: &str) -> Policy {
    let file = [ADMISSION, "[queue]\n", queue, LONGEST_WAIT, FALLBACK, FEEDBACK].concat();
    toml::from_str(&file).expect("the test's own file")
}
