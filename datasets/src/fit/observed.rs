//! Requests as a server logged them, on one clock.

use serde::Deserialize;

/// One request that was served. Times are seconds on one clock, the first arrival near 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservedRequest {
    /// Prompt length, tokens.
    pub tokens_in: u32,
    /// Answer length, tokens.
    pub tokens_out: u32,
    /// When the request was sent, s.
    pub arrival_s: f64,
    /// When its first token came out, s.
    pub first_token_s: f64,
    /// When its last token came out, s.
    pub last_token_s: f64,
}

impl ObservedRequest {
    /// Arrival to first token, s.
    pub fn ttft_s(&self) -> f64 {
        self.first_token_s - self.arrival_s
    }

    /// Arrival to last token, s.
    pub fn latency_s(&self) -> f64 {
        self.last_token_s - self.arrival_s
    }

    /// Mean time per token after the first, s.
    pub fn tpot_s(&self) -> f64 {
        per_token(self.last_token_s - self.first_token_s, self.tokens_out)
    }
}

/// A stretch after the first token, per token; an answer of one token has none and counts as one.
pub(super) fn per_token(stretch_s: f64, tokens_out: u32) -> f64 {
    stretch_s / f64::from(tokens_out.max(2) - 1)
}

/// A log that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A line is not a request.
    #[error("line {line}: {source}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// Times that cannot be.
    #[error("line {line}: {what}")]
    Times {
        /// Line number, from 1.
        line: usize,
        /// What is wrong with them.
        what: &'static str,
    },
    /// A table lacks a column.
    #[error("there is no column `{name}`")]
    Column {
        /// Its name.
        name: &'static str,
    },
    /// A cell is not what its column needs.
    #[error("line {line}: `{column}` is missing or not a positive number")]
    Value {
        /// Line number, from 1.
        line: usize,
        /// The column.
        column: String,
    },
    /// Too little to fit and to judge.
    #[error("{found} requests: at least {needed} are needed")]
    TooFew {
        /// How many there are.
        found: usize,
        /// How many are needed.
        needed: usize,
    },
}

/// A line of the log, as `vLLM` benchmark recorders write it: the client's wall clock for the arrival, the
/// server's monotonic clock for the rest.
#[derive(Deserialize)]
struct Line {
    input_toks: u32,
    output_toks: u32,
    arrival_time: f64,
    queued_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
}

/// Reads a JSON-lines log (`input_toks`, `output_toks`, `arrival_time` in epoch seconds, and `queued_ts`,
/// `first_token_ts`, `last_token_ts` in seconds of a monotonic clock), sorted by arrival.
///
/// The two clocks are joined by the smallest difference between queueing and arrival: at least one
/// request finds the engine ready, and its way there is short against an iteration. `queued_ts` itself
/// serves for nothing else: an engine takes new requests between two iterations, so that it already
/// contains a part of the waiting which a simulation must produce by itself.
///
/// # Errors
/// A line that is not such an object, times that are not finite or run backwards, an empty log.
pub fn read_vllm_log(text: &str) -> Result<Vec<ObservedRequest>, LogError> {
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
        let line = index + 1;
        let parsed: Line = serde_json::from_str(text).map_err(|source| LogError::Line { line, source })?;
        let times = [parsed.arrival_time, parsed.queued_ts, parsed.first_token_ts, parsed.last_token_ts];
        if !times.iter().all(|time| time.is_finite()) {
            return Err(LogError::Times { line, what: "a time is not a finite number" });
        }
        if parsed.first_token_ts < parsed.queued_ts || parsed.last_token_ts < parsed.first_token_ts {
            return Err(LogError::Times { line, what: "a token came out before what precedes it" });
        }
        lines.push(parsed);
    }
    lines.sort_by(|a, b| a.arrival_time.total_cmp(&b.arrival_time));
    let Some(first) = lines.first() else { return Err(LogError::TooFew { found: 0, needed: 1 }) };
    let start = first.arrival_time;
    let offset = lines.iter().map(|line| line.queued_ts - line.arrival_time).fold(f64::INFINITY, f64::min);
    let requests = lines.iter().map(|line| ObservedRequest {
        tokens_in: line.input_toks,
        tokens_out: line.output_toks,
        arrival_s: line.arrival_time - start,
        first_token_s: line.first_token_ts - offset - start,
        last_token_s: line.last_token_ts - offset - start,
    });
    Ok(requests.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"input_toks": 7, "output_toks": 3, "arrival_time": 1000.5, "queued_ts": 20.25,
        "scheduled_ts": 20.25, "first_token_ts": 20.5, "last_token_ts": 21.0}"#;

    #[test]
    fn joins_the_clocks() {
        let line = LINE.replace('\n', " ");
        let later = line.replace("1000.5", "1001.0").replace("20.25", "21.0").replace("20.5", "21.0");
        let requests = read_vllm_log(&format!("{later}\n\n{line}")).unwrap();
        assert_eq!(requests.len(), 2);
        let first = requests[0];
        assert_eq!((first.tokens_in, first.tokens_out, first.arrival_s), (7, 3, 0.0));
        assert!((first.ttft_s() - 0.25).abs() < 1e-9 && (first.tpot_s() - 0.25).abs() < 1e-9);
        assert!((requests[1].arrival_s - 0.5).abs() < 1e-9 && (requests[1].ttft_s() - 0.25).abs() < 1e-9);
    }

    #[test]
    fn refuses_what_is_no_log() {
        let line = LINE.replace('\n', " ");
        for bad in ["", "{}", "not json", &line.replace("21.0", "1e999"), &line.replace("21.0", "20.0")] {
            assert!(read_vllm_log(bad).is_err(), "{bad}");
        }
        let error = read_vllm_log(&format!("{line}\n{{}}")).unwrap_err();
        assert!(error.to_string().starts_with("line 2: "), "{error}");
    }
}
