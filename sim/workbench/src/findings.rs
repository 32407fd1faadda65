//! Findings: what the tool noticed and the user should know. Each has a code, the parameter it is about,
//! the evidence, and what to do.
//!
//! | code | from | what |
//! | --- | --- | --- |
//! | `signal.vram_preallocated` | scenario | a policy follows NVML memory that an engine holds constant |
//! | `time_limit.not_inside_deadline` | scenario | a stage's limit can never act before the request's |
//! | `time_limit.budgets_exceed_deadline` | scenario | the stages' limits add up to more than the request's |
//! | `hysteresis.within_noise` | scenario | a threshold's band is narrower than its signal's noise |
//! | `run.single_replication` | scenario | no interval can be given |
//! | `calibration.outside_range` | scenario | an engine's calibration was measured on other lengths, or on fewer sequences at once |
//! | `signal.absent` | scenario | a rule, module, loop or alert follows a signal that nothing gives |
//! | `threshold.order` | scenario | a worse level is taken before a better one |
//! | `policy.never_asked` | scenario | a guard or gate stands at a call that no path makes |
//! | `parameter.no_effect` | scenario | nothing in the scenario reads it |
//! | `objective.no_value` | scenario | what is wanted has no value in this scenario |
//! | `engine.prompt_too_long` | scenario | the mean request is larger than the engine's KV memory |
//! | `trace.ends_early` | scenario | averages run over time in which the trace is over |
//! | `trace.cut_off` | scenario | a part of the trace is not replayed |
//! | `load.above_capacity` | scenario | more is offered than a stage can carry |
//! | `run.too_short` | run | the interval of the mean latency is wide |
//! | `run.nothing_random` | run | all replications were the same |
//! | `run.warmup` | run | the run had not settled when measuring began |
//! | `threshold.never_reached` | run | a level's threshold was not reached in any replication |
//! | `threshold.always_on` | run | a level's threshold was reached all the time |
//! | `gate.never_acts` | run | a gate was never half as full as its bound |
//! | `limiter.rules_wiped` | run | an empty rule set switched a limiter off |
//! | `bottleneck.near_saturation` | run | small errors of capacity become large errors of latency |

mod calibration;
mod configuration;
mod inert;
mod measured;
mod no_effect;
mod reach;
mod replay;
mod signals;
mod thresholds;

pub use configuration::of_scenario;
pub(crate) use measured::{Watch, nothing_random, of_run};

use serde::{Deserialize, Serialize};
use std::fmt;

/// Something the tool noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind it is, such as `run.too_short`.
    pub code: String,
    /// The parameter it is about.
    pub parameter: String,
    /// What was seen.
    pub evidence: String,
    /// What to do.
    pub advice: String,
}

impl Finding {
    pub(crate) fn new(
        code: &str,
        parameter: impl Into<String>,
        evidence: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            code: code.to_owned(),
            parameter: parameter.into(),
            evidence: evidence.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]: {}. {}.", self.parameter, self.code, self.evidence, self.advice)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The codes that a text gives to findings: the first literal of each.
    fn codes(text: &str) -> Vec<String> {
        let after = |mark: &'static str| text.split(mark).skip(1).map(str::trim_start);
        let literal = |rest: &str| Some(rest.strip_prefix('"')?.split('"').next()?.to_owned());
        after("Finding::new(").chain(after("let code = ")).filter_map(literal).collect()
    }

    #[test]
    fn the_table_holds_every_code_and_no_other() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let table: BTreeSet<String> = read(&source.join("findings.rs"))
            .lines()
            .filter_map(|line| Some(line.strip_prefix("//! | `")?.split('`').next()?.to_owned()))
            .collect();
        let files = std::fs::read_dir(source.join("findings")).unwrap();
        let given: BTreeSet<String> = files.flat_map(|file| codes(&read(&file.unwrap().path()))).collect();
        assert!(given.len() > 20, "{given:?}");
        assert_eq!(table, given);
    }
}
