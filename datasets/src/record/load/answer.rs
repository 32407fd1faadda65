//! A streamed answer, as it comes in: server-sent events, each with a piece of JSON.

use serde_json::Value;

/// Longest line that is taken for one of a stream.
const LONGEST_LINE: usize = 1 << 20;
/// Longest piece of what the other side sent that is repeated in an error.
const LONGEST_QUOTE: usize = 120;

/// What has come in so far.
#[derive(Debug, Default)]
pub(super) struct Answer {
    line: Vec<u8>,
    /// Events that were read.
    events: u64,
    /// When tokens came: the first and the last time.
    pub(super) first_ns: Option<u64>,
    pub(super) last_ns: Option<u64>,
    /// Times between pieces with tokens, nanoseconds.
    gaps_ns: Vec<u64>,
    /// Pieces with tokens.
    pub(super) chunks: u64,
    /// Tokens of the prompt and of the answer, as the endpoint counts them.
    pub(super) usage: Option<(u64, u64)>,
    finished: bool,
    done: bool,
}

/// Why nothing more is read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is complete.
    Complete,
    /// It is complete and held no token.
    Empty,
    /// It ended before its end.
    BrokenOff(String),
    /// The endpoint says that it failed.
    Failed(String),
    /// It is not what it should be.
    Rubbish(String),
}

impl Answer {
    /// Takes what has come in at a time; tells of an end before the end of the stream.
    pub(super) fn feed(&mut self, bytes: &[u8], now_ns: u64) -> Option<End> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if self.line.len() > LONGEST_LINE {
                return Some(End::Rubbish("a line of more than 1 MiB".to_owned()));
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                if let Some(end) = self.line(&line, now_ns) {
                    return Some(end);
                }
            }
        }
        None
    }

    /// The stream has ended.
    pub(super) fn ended(&mut self, now_ns: u64) -> End {
        let rest = std::mem::take(&mut self.line);
        if let Some(end) = self.line(&rest, now_ns) {
            return end;
        }
        if self.finished || self.done {
            return self.complete();
        }
        if self.events == 0 {
            let quote = quoted(&rest);
            let quote = if quote.is_empty() { String::new() } else { format!("; it ends with {quote}") };
            return End::Rubbish(format!("the answer is no stream of events{quote}"));
        }
        End::BrokenOff(format!("the stream ended after {} events, before its end", self.events))
    }

    /// Mean, median and longest time between pieces with tokens, seconds.
    pub(super) fn gaps_s(&self) -> Option<(f64, f64, f64)> {
        let mut sorted = self.gaps_ns.clone();
        sorted.sort_unstable();
        let longest = *sorted.last()?;
        let half = sorted.len() / 2;
        let middle = if sorted.len() % 2 == 1 {
            sorted[half] as f64
        } else {
            f64::midpoint(sorted[half - 1] as f64, sorted[half] as f64)
        };
        let mean = sorted.iter().map(|gap| *gap as f64).sum::<f64>() / sorted.len() as f64;
        Some((mean / 1e9, middle / 1e9, longest as f64 / 1e9))
    }

    fn complete(&self) -> End {
        if self.chunks == 0 { End::Empty } else { End::Complete }
    }

    fn line(&mut self, line: &[u8], now_ns: u64) -> Option<End> {
        // Other lines are comments, which keep the connection alive, and names of events, which say nothing here.
        let data = line.strip_prefix(b"data:")?.trim_ascii();
        if data.is_empty() {
            return None;
        }
        self.events += 1;
        if data == b"[DONE]" {
            self.done = true;
            return Some(self.complete());
        }
        let Ok(Value::Object(event)) = serde_json::from_slice(data) else {
            return Some(End::Rubbish(format!("an event is no JSON object: {}", quoted(data))));
        };
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            let message =
                error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned);
            return Some(End::Failed(quoted(message.as_bytes())));
        }
        let count = |name: &str| event.get("usage")?.get(name)?.as_u64();
        if let (Some(tokens_in), Some(tokens_out)) = (count("prompt_tokens"), count("completion_tokens")) {
            self.usage = Some((tokens_in, tokens_out));
        }
        if let Some(choice) = event.get("choices").and_then(|choices| choices.get(0)) {
            if has_tokens(choice) {
                self.token(now_ns);
            }
            self.finished |= choice.get("finish_reason").is_some_and(|reason| !reason.is_null());
        }
        None
    }

    fn token(&mut self, now_ns: u64) {
        self.chunks += 1;
        if let Some(last_ns) = self.last_ns {
            self.gaps_ns.push(now_ns.saturating_sub(last_ns));
        }
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = Some(now_ns);
    }
}

/// Whether a choice brings tokens: those of the answer, of the thoughts before it, or of a call of a tool.
fn has_tokens(choice: &Value) -> bool {
    let delta = choice.get("delta").unwrap_or(choice);
    let text = |name: &str| delta.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let tools = delta.get("tool_calls").and_then(Value::as_array).is_some_and(|calls| !calls.is_empty());
    tools || ["content", "reasoning_content", "reasoning", "text"].into_iter().any(text)
}

/// What somebody else sent, on one line and not too long.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * LONGEST_QUOTE)]).into_owned();
    let plain = text.chars().map(|char| if char.is_control() { ' ' } else { char });
    let line = plain.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAM: &str = concat!(
        ": a comment\r\n",
        "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\r\n\r\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"é\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n",
        "data: [DONE]\n\n",
    );

    #[test]
    fn tokens_are_timed_from_the_first_that_is_one() {
        let mut answer = Answer::default();
        let mut end = None;
        for (n, line) in (0..).zip(STREAM.split_inclusive('\n')) {
            end = end.or_else(|| answer.feed(line.as_bytes(), n));
        }
        assert_eq!(end, Some(End::Complete));
        assert_eq!((answer.first_ns, answer.last_ns), (Some(3), Some(5)));
        assert_eq!((answer.chunks, answer.usage), (2, Some((7, 3))));
        assert_eq!(answer.gaps_s(), Some((2e-9, 2e-9, 2e-9)));
    }

    #[test]
    fn streams_end_as_what_they_are() {
        let token = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        let finish = "data: {\"choices\":[{\"text\":\"b\",\"finish_reason\":\"length\"}]}";
        for (text, word) in [
            (String::new(), "Rubbish"),
            ("<html>\nno\n".to_owned(), "Rubbish"),
            ("{\"choices\":[]}".to_owned(), "Rubbish"),
            ("data: nonsense\n".to_owned(), "Rubbish"),
            ("data: [1]\n".to_owned(), "Rubbish"),
            (token.to_owned(), "BrokenOff"),
            (format!("{token}{finish}"), "Complete"),
            ("data: [DONE]\n".to_owned(), "Empty"),
            (
                format!("{token}data: {{\"error\":{{\"message\":\"out of memory\"}}}}\n"),
                "Failed(\"out of memory\")",
            ),
            (format!("data: {}\n", "x".repeat(LONGEST_LINE)), "Rubbish(\"a line"),
        ] {
            let mut answer = Answer::default();
            let end = answer.feed(text.as_bytes(), 1).unwrap_or_else(|| answer.ended(2));
            assert!(format!("{end:?}").starts_with(word), "{end:?} for {}", quoted(text.as_bytes()));
        }
    }

    #[test]
    fn quotes_are_short_and_on_one_line() {
        assert_eq!(quoted(b" a\n\x1b[1mb \xff"), "a [1mb \u{fffd}");
        assert_eq!(quoted("é".repeat(1000).as_bytes()).chars().count(), LONGEST_QUOTE + 1);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_no_cut_changes_it(
            cuts in prop::collection::vec(0..STREAM.len(), 0..5),
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut answer = Answer::default();
            answer.feed(&noise, 1);
            answer.ended(2);
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let mut answer = Answer::default();
            let ends: Vec<_> =
                cuts.windows(2).filter_map(|cut| answer.feed(&STREAM.as_bytes()[cut[0]..cut[1]], 1)).collect();
            prop_assert_eq!(ends.first(), Some(&End::Complete));
            prop_assert_eq!((answer.chunks, answer.usage), (2, Some((7, 3))));
        }
    }
}
