//! What is wanted, in a form that can be evaluated: a metric with a direction, and constraints.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Names of the metrics that a run reports for the whole service.
pub const METRICS: &[&str] = &[
    "error_rate",
    "goodput_per_s",
    "throughput_per_s",
    "right_share",
    "latency_mean_s",
    "latency_p50_s",
    "latency_p90_s",
    "latency_p95_s",
    "latency_p99_s",
    "latency_p999_s",
    "latency_max_s",
    "latency_sd_s",
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p95_s",
    "ttft_p99_s",
    "ttft_p999_s",
    "ttft_max_s",
    "tpot_mean_s",
    "wait_mean_s",
    "share_l1",
    "share_l2",
    "share_l3",
    "share_l4",
    "vram_mean",
    "vram_sd",
    "vram_max",
    "kv_mean",
    "kv_max",
    "preemptions",
    "in_system_mean",
    "in_system_variance",
    "queue_mean",
    "tokens_in",
    "tokens_out",
    "rerank_skipped_share",
    "attempts_per_request",
    "out_of_memory",
    "engine_restarts",
    "replicas_mean",
    "replica_hours",
    "timetable_used",
    "host_memory_max_mb",
    "gateway_kills",
    "neighbour_kills",
    "commands_per_min",
    "fairness_jain",
    "cache_hit_rate",
    "cache_wrong_rate",
    "cost",
    "cost_tokens",
    "cost_agents",
    "cost_gpus",
    "cost_providers",
    "csat",
    "value",
    "recovery_s",
    "oscillations_per_min",
    "shadow_differs_share",
    "alerts",
    "wait_notice_error_s",
    "wait_notice_bias_s",
    "wait_noticed_mean_s",
];

/// Which side of a limit is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The metric must not be above the limit.
    AtMost,
    /// The metric must not be below the limit.
    AtLeast,
}

/// A condition that must hold, such as `error_rate <= 0.04`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Constraint {
    /// Name of the metric.
    pub metric: String,
    /// Which side is allowed.
    pub side: Side,
    /// The limit, in the metric's unit.
    pub limit: f64,
}

impl Constraint {
    /// Reads `metric <= number` or `metric >= number`.
    ///
    /// # Errors
    /// What is allowed instead.
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = || "`<metric> <= <number>` or `<metric> >= <number>`".to_owned();
        let (side, operator) = if text.contains("<=") {
            (Side::AtMost, "<=")
        } else if text.contains(">=") {
            (Side::AtLeast, ">=")
        } else {
            return Err(allowed());
        };
        let (metric, limit) = text.split_once(operator).ok_or_else(allowed)?;
        let limit: f64 = limit.trim().parse().map_err(|_| allowed())?;
        if !limit.is_finite() {
            return Err(allowed());
        }
        Ok(Self { metric: metric.trim().to_owned(), side, limit })
    }

    /// By how much a value breaks the condition; 0 or less when it holds.
    pub fn violation(&self, value: f64) -> f64 {
        match self.side {
            Side::AtMost => value - self.limit,
            Side::AtLeast => self.limit - value,
        }
    }

    /// Whether a value keeps the condition.
    pub fn holds(&self, value: f64) -> bool {
        self.violation(value) <= 0.0
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.side == Side::AtMost { "<=" } else { ">=" };
        write!(f, "{} {operator} {}", self.metric, self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constraints_are_read_and_judged() {
        let constraint = Constraint::parse("error_rate <= 0.04").expect("readable");
        assert_eq!(constraint.to_string(), "error_rate <= 0.04");
        assert!(constraint.holds(0.04) && !constraint.holds(0.041));
        let constraint = Constraint::parse("goodput_per_s>=100").expect("readable");
        assert!(constraint.holds(100.0) && !constraint.holds(99.0));
        for wrong in ["error_rate", "error_rate < 0.1", "error_rate <= x", "error_rate <= inf"] {
            assert!(Constraint::parse(wrong).is_err(), "{wrong}");
        }
    }
}
