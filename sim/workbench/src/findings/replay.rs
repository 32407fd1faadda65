//! Traces against the time that the run takes.

use super::Finding;
use super::reach;
use crate::show::seconds;
use forebay_model::scenario::{Loaded, Source};

/// A trace that ends before this share of the run leaves dead time.
const ENDS_EARLY: f64 = 0.8;
/// A share of rows not replayed that is worth telling.
const CUT_OFF: f64 = 0.01;

pub(super) fn replay(loaded: &Loaded, found: &mut Vec<Finding>) {
    let scenario = &loaded.scenario;
    let duration_s = scenario.run.duration_s;
    // Where others send too, the time after a trace is not dead.
    let alone = scenario.workload.sources.len() == 1;
    for (name, source) in &scenario.workload.sources {
        let (Source::Trace { speed, .. }, Some(trace)) = (source, reach::trace(loaded, source)) else {
            continue;
        };
        let length_s = trace.duration_ns() as f64 * 1e-9 / speed;
        let rows = trace.rows();
        let end_ns = duration_s * 1e9 * speed;
        let left = rows.len() - rows.partition_point(|row| row.at_ns as f64 <= end_ns);
        let share = left as f64 / rows.len() as f64;
        if alone && length_s < ENDS_EARLY * duration_s {
            found.push(Finding::new(
                "trace.ends_early",
                "run.duration_s",
                format!(
                    "the trace of {name} takes {}, and the run {}: averages over time run over {} without \
                     arrivals",
                    seconds(length_s),
                    seconds(duration_s),
                    seconds(duration_s - length_s)
                ),
                format!("Set run.duration_s to {:.0}", length_s.ceil().max(1.0)),
            ));
        } else if share > CUT_OFF {
            found.push(Finding::new(
                "trace.cut_off",
                "run.duration_s",
                format!(
                    "the trace of {name} takes {}, and the run {}: {:.0} % of its requests are not replayed",
                    seconds(length_s),
                    seconds(duration_s),
                    100.0 * share
                ),
                format!("Set run.duration_s to {:.0} to replay all of it", length_s.ceil()),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open;
    use forebay_model::document::Setting;

    fn found(duration_s: &str) -> Vec<Finding> {
        let settings = [Setting::new("run.duration_s", duration_s)];
        let mut found = Vec::new();
        replay(&open("azure-conversations", &settings).unwrap().loaded, &mut found);
        found
    }

    #[test]
    fn a_trace_is_held_against_the_duration() {
        assert!(found("3600").is_empty(), "{:?}", found("3600"));
        let early = found("36000");
        assert_eq!(early[0].code, "trace.ends_early");
        let cut = found("900");
        assert_eq!(cut[0].code, "trace.cut_off");
        assert!(cut[0].evidence.contains("% of its requests"), "{cut:?}");
    }
}
