//! Reason codes: why a decision was taken. Outcome tables, request traces, the dashboard and exported
//! metrics all use these codes, so they are one closed list: a driver counts them in a plain array
//! (by [`Reason::index`]) and no code can be misspelt.
//!
//! An open set of strings was rejected: it would let a module be added without touching this file, at
//! the price of a map in every counter and of codes that nobody can list.

use crate::Level;
use crate::signal::SignalKind;
use serde::{Deserialize, Serialize};

macro_rules! reasons {
    ($($variant:ident $code:literal $rule:literal [$found:literal, $threshold:literal];)*) => {
        /// Why a decision was taken.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        pub enum Reason {
            $(#[doc = $rule] #[serde(rename = $code)] $variant,)*
        }

        impl Reason {
            /// All reasons, in the order of [`Reason::index`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The code in files, tables and metrics, such as `gate.full`.
            pub fn code(self) -> &'static str {
                const CODES: &[&str] = &[$($code,)*];
                CODES[self.index()]
            }

            /// The rule behind it, in one sentence.
            pub fn rule(self) -> &'static str {
                const RULES: &[&str] = &[$($rule,)*];
                RULES[self.index()]
            }

            /// What the rule compares, with its unit: the value it found and the threshold.
            pub fn compares(self) -> (&'static str, &'static str) {
                const COMPARES: &[(&str, &str)] = &[$(($found, $threshold),)*];
                COMPARES[self.index()]
            }
        }
    };
}

reasons! {
    Normal "normal" "Nothing stood in the way." ["", ""];
    FixedRateSpent "fixed_rate.spent" "The limit of this fixed window is used up."
        ["requests in this window", "limit"];
    TokenBucketEmpty "token_bucket.empty" "The bucket holds less than one token."
        ["tokens in the bucket", "tokens needed"];
    WeightedBucketEmpty "weighted_bucket.empty" "The balance, overdraft included, is less than the request's weight."
        ["balance with overdraft", "weight of the request"];
    GateFull "gate.full" "As many as the gate allows are inside."
        ["inside", "allowed at once"];
    GateWaitExpired "gate.wait_expired" "No permit of the gate came free within the longest wait."
        ["waited, s", "longest wait, s"];
    BacklogGateLong "backlog_gate.long" "The backlog behind the gate is as long as it may be."
        ["calls in the backlog", "allowed"];
    QueueFull "queue.full" "The queue has reached its greatest length."
        ["requests in the queue", "greatest length"];
    QueueExpired "queue.expired" "The request has waited in the queue for longer than its limit."
        ["waited, s", "longest wait, s"];
    ClassMinLevel "class.min_level" "The class is answered at its least level although the ladder stands lower."
        ["level of the ladder (1 to 4)", "least level (1 to 4)"];
    ClassUnavailable "class.unavailable" "The class has a red line: no answer rather than one below its least level."
        ["level of the ladder (1 to 4)", "least level (1 to 4)"];
    RerankGuardBusy "rerank_guard.busy" "Reranking is skipped for a while because a call waited too long for it."
        ["s until a probe", "s of skipping"];
    RerankGuardWaitExpired "rerank_guard.wait_expired" "No place at the reranker came free within the longest wait."
        ["waited, s", "longest wait, s"];
    RerankGuardSlow "rerank_guard.slow" "Reranking is skipped for a while because the p95 of its last calls is too high."
        ["p95, s", "allowed p95, s"];
    ControlRule "control.rule" "The conditions of a rule of the control centre hold."
        ["its first signal", "threshold"];
    ControlRelease "control.release" "The conditions of a rule of the control centre no longer hold."
        ["its first signal", "threshold"];
    ControlSetpoint "control.setpoint" "A controller holds a signal at its target." ["signal", "target"];
    ControlForecast "control.forecast" "The parameter follows the expected rate of arrivals."
        ["expected per s", "value before"];
    ControlTimetable "control.timetable" "The forecast is lost, and the timetable takes its place."
        ["value of the timetable", "value before"];
    ControlCooldown "control.cooldown" "A command was held back: the parameter was commanded a short time ago."
        ["since the last command, s", "cooldown, s"];
    ControlManual "control.manual" "A command was held back: automatic control is off." ["switch", "0"];
    ControlStep "control.step" "A command was cut to the largest step." ["value wanted", "value set"];
    ControlRefused "control.refused" "A command was refused: the policy does not allow the value."
        ["value wanted", "value before"];
    StoreTimedOut "store.timed_out" "The shared store does not answer: the last rate is used." ["age of the rate, s", "longest use, s"];
    StoreFixedRate "store.fixed_rate" "The shared rate cannot be had: the fixed rate is used."
        ["age of the last rate, s", "longest use, s"];
    StoreRulesWiped "store.rules_wiped" "The rule source delivered no rules: the limiters at the front are not asked."
        ["rules delivered", "rules needed"];
    StoreRulesKept "store.rules_kept" "The rule source delivered no rules: the gateway keeps those it has."
        ["rules delivered", "rules needed"];
    // The three blocks below are laid out by `Reason::of_level`: a level's reasons stand in the order
    // of `SignalKind::ALL`, up to `SignalKind::LADDER`.
    L2Vram "l2.vram" "Mean GPU memory in use is at or above the threshold of L2." ["share of GPU memory", "threshold"];
    L2VramMax "l2.vram_max" "The fullest GPU is at or above the threshold of L2." ["share of GPU memory", "threshold"];
    L2Kv "l2.kv" "KV occupancy is at or above the threshold of L2." ["share of KV blocks", "threshold"];
    L2LlmBusy "l2.llm_busy" "Busy model slots are at or above the threshold of L2." ["share of slots", "threshold"];
    L2Queue "l2.queue" "The queue is at or above the threshold of L2." ["requests waiting", "threshold"];
    L2ErrorRate "l2.error_rate" "The error rate is at or above the threshold of L2." ["share of errors", "threshold"];
    L2Latency "l2.latency" "The p95 latency is at or above the threshold of L2." ["p95 latency, s", "threshold, s"];
    L2ArrivalRate "l2.arrival_rate" "The arrival rate is at or above the threshold of L2." ["arrivals per s", "threshold per s"];
    L2LlmTimeouts "l2.llm_timeouts" "Model time-outs are above the threshold of L2." ["time-outs", "threshold"];
    L3Vram "l3.vram" "Mean GPU memory in use is at or above the threshold of L3." ["share of GPU memory", "threshold"];
    L3VramMax "l3.vram_max" "The fullest GPU is at or above the threshold of L3." ["share of GPU memory", "threshold"];
    L3Kv "l3.kv" "KV occupancy is at or above the threshold of L3." ["share of KV blocks", "threshold"];
    L3LlmBusy "l3.llm_busy" "Busy model slots are at or above the threshold of L3." ["share of slots", "threshold"];
    L3Queue "l3.queue" "The queue is at or above the threshold of L3." ["requests waiting", "threshold"];
    L3ErrorRate "l3.error_rate" "The error rate is at or above the threshold of L3." ["share of errors", "threshold"];
    L3Latency "l3.latency" "The p95 latency is at or above the threshold of L3." ["p95 latency, s", "threshold, s"];
    L3ArrivalRate "l3.arrival_rate" "The arrival rate is at or above the threshold of L3." ["arrivals per s", "threshold per s"];
    L3LlmTimeouts "l3.llm_timeouts" "Model time-outs are above the threshold of L3." ["time-outs", "threshold"];
    L4Vram "l4.vram" "Mean GPU memory in use is above the threshold of L4." ["share of GPU memory", "threshold"];
    L4VramMax "l4.vram_max" "The fullest GPU is above the threshold of L4." ["share of GPU memory", "threshold"];
    L4Kv "l4.kv" "KV occupancy is above the threshold of L4." ["share of KV blocks", "threshold"];
    L4LlmBusy "l4.llm_busy" "Busy model slots are above the threshold of L4." ["share of slots", "threshold"];
    L4Queue "l4.queue" "The queue is above the threshold of L4." ["requests waiting", "threshold"];
    L4ErrorRate "l4.error_rate" "The error rate is above the threshold of L4." ["share of errors", "threshold"];
    L4Latency "l4.latency" "The p95 latency is above the threshold of L4." ["p95 latency, s", "threshold, s"];
    L4ArrivalRate "l4.arrival_rate" "The arrival rate is above the threshold of L4." ["arrivals per s", "threshold per s"];
    L4LlmTimeouts "l4.llm_timeouts" "Model time-outs are above the threshold of L4." ["time-outs", "threshold"];
    SemanticDegraded "semantic.degraded" "The question's score put it into the queue that is answered at a lower level."
        ["score", "score of the better queue"];
    SemanticBelowL1 "semantic.below_l1" "The question's score is below what L1 is given for." ["score", "least score"];
    TokenWindowSpent "token_window.spent" "The window's quota of tokens does not hold the request's estimate."
        ["tokens in the window with the estimate", "quota"];
    TokenWindowRequests "token_window.requests" "The window's limit of requests is used up."
        ["requests in the window", "limit"];
    TokenWindowTooLarge "token_window.too_large" "The request's estimate alone is above the window's quota of tokens."
        ["estimate, tokens", "quota"];
    UserFrequencySpent "user_frequency.spent" "The user has had as many requests within the window as are allowed."
        ["requests in the window", "limit"];
    AdaptiveFull "adaptive_concurrency.full" "As many as the limit allows at present are inside."
        ["inside", "limit at present"];
    AdaptiveWaitExpired "adaptive_concurrency.wait_expired" "No permit came free within the longest wait."
        ["waited, s", "longest wait, s"];
    PriorityBucketEmpty "priority_buckets.empty" "The bucket of the request's class holds less than the request takes."
        ["tokens in the bucket", "tokens needed"];
    PriorityBucketTooLarge "priority_buckets.too_large" "A full bucket of the request's class holds less than the request takes."
        ["tokens in a full bucket", "tokens needed"];
    LoadShed "load_shed.shed" "A share of the class's requests is shed while the signal is above the class's threshold."
        ["signal", "threshold of the class"];
    EarlyRejection "early_rejection.decode_full" "The decode stage could not take the request."
        ["requests in the decode stage with this one", "most at once"];
    PacedTooEarly "paced.too_early" "The request's turn is further away than it may wait."
        ["s until its turn", "longest wait, s"];
    ClassMainProviderOnly "class.main_provider_only" "The class has a red line: no answer rather than one by another than the main provider."
        ["place of the next provider", "last place allowed"];
    ProvidersFailOver "providers.fail_over" "The call goes to a later provider because those before it failed or rest."
        ["place of the provider", "place of the main one"];
    ProvidersExhausted "providers.exhausted" "Every provider that the attempt may ask has failed."
        ["calls made", "calls allowed"];
    ProvidersAllOpen "providers.all_open" "Every provider that the attempt may ask rests after failures."
        ["s until the first may be asked", "s of cooldown"];
    ProvidersWaitExpired "providers.wait_expired" "No provider could be asked again within the longest wait."
        ["waited, s", "longest wait, s"];
    CacheLastResort "cache_last_resort.served" "The nearest cached answer is served because the model cannot answer."
        ["similarity", "least similarity"];
    TopKRate "top_k.rate" "Fewer documents are retrieved because the arrival rate is at or above a threshold."
        ["arrivals per s", "threshold per s"];
    TopKStoreLatency "top_k.store_latency" "Fewer documents are retrieved because the vector store is slow."
        ["latency of the store, s", "threshold, s"];
}

impl Reason {
    /// How many reasons there are: the length of an array that counts them.
    pub const COUNT: usize = Self::ALL.len();

    /// Position in [`Reason::ALL`], for counting in an array.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// The reason with this code.
    pub fn from_code(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|reason| reason.code() == code)
    }

    /// The reason for answering at `level` because of `signal`; [`Reason::Normal`] for L1 and for a signal
    /// that the ladder does not read.
    pub fn of_level(level: Level, signal: SignalKind) -> Self {
        if level == Level::L1 || signal.index() >= SignalKind::LADDER {
            return Self::Normal;
        }
        let block = Self::L2Vram.index() + (level.index() - 1) * SignalKind::LADDER;
        Self::ALL[block + signal.index()]
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.code())
    }
}

impl std::str::FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(code: &str) -> Result<Self, UnknownReason> {
        Self::from_code(code).ok_or_else(|| UnknownReason(code.to_owned()))
    }
}

/// A code that is no reason's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no reason code")]
pub struct UnknownReason(
    /// The code that was read.
    pub String,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_round_trip() {
        for (index, &reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
            assert_eq!(reason.code().parse(), Ok(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.code());
        }
        assert!("gate.ful".parse::<Reason>().is_err());
    }

    #[test]
    fn level_reasons_are_laid_out_by_signal() {
        for level in [Level::L2, Level::L3, Level::L4] {
            for signal in &SignalKind::ALL[..SignalKind::LADDER] {
                let code = Reason::of_level(level, *signal).code();
                let (head, tail) = code.split_once('.').unwrap();
                assert_eq!(head, level.name());
                assert!(signal.name().starts_with(tail), "{code} for {}", signal.name());
            }
        }
        assert_eq!(Reason::of_level(Level::L1, SignalKind::Kv), Reason::Normal);
    }
}
