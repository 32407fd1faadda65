//! Scrapes of metrics: lines of a name, labels in braces, a value, and perhaps a stamp.
//!
//! A scrape alone does not say when it was. A file of several is dated by a line with the moment before each
//! (`date +%s.%N`, `date -Is`, also behind a `#`), by stamps behind the values, or by `--every`.

use std::collections::BTreeSet;

use super::clock::{epoch, has_zone, moment};
use super::error::{Fault, fault};
use super::options::Options;
use super::points::{Point, Sink};
use super::report::{At, Notes};
use crate::trace::decimal::Decimal;
use crate::trace::layout::shortened;

/// Seconds since 1970 begin with nine digits from 1973 on; a smaller number alone on a line is no moment.
const FIRST_EPOCH_NS: u64 = 100_000_000_000_000_000;

/// A line of a scrape.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Vec<(String, String)>,
    pub(super) value: f64,
    pub(super) stamp_ns: Option<u64>,
    /// Name and labels as they stand there.
    series: &'a str,
}

pub(super) fn read(text: &str, options: &Options, notes: &mut Notes, sink: Sink<'_>) -> Result<bool, Fault> {
    let mut clock = Clock { options, stamp_ns: None, own: false, scrape: 0, seen: BTreeSet::new() };
    let complete = text.ends_with('\n');
    let count = text.lines().count();
    let mut undated = None;
    for (index, line) in text.lines().enumerate() {
        let at = At::Line(index + 1);
        let content = line.trim();
        if content.is_empty() {
            continue;
        }
        if let Some((stamp_ns, local)) = stamp(content, options) {
            if local && options.utc_offset.is_none() {
                notes.remark("a local time, taken as UTC (--utc-offset says otherwise)", at);
            }
            clock.stamp_ns = Some(stamp_ns);
            continue;
        }
        if content.starts_with('#') {
            continue;
        }
        let parsed = match parse(content) {
            Ok(parsed) => parsed,
            Err(_) if index + 1 == count && !complete => {
                notes.dropped("the last line, which is cut off", at);
                continue;
            }
            Err((character, what)) => {
                let what = format!("character {character}: {what}; found \"{}\"", shortened(content));
                return Err(fault(what).at(at.to_string()));
            }
        };
        let (at_ns, dated) = clock.time(&parsed, at)?;
        if !dated {
            undated.get_or_insert(at);
        } else if undated.is_some() {
            let what = "this value has a moment, and those above have none: put the moment before the first scrape too";
            return Err(fault(what).at(at.to_string()));
        }
        let point = Point { at, at_ns, name: parsed.name, labels: &parsed.labels, value: parsed.value };
        sink(&point, notes)?;
    }
    if let Some(at) = undated {
        notes.remark("the scrapes are not dated: times count from the first one", at);
    }
    Ok(undated.is_none())
}

/// When the present scrape was.
struct Clock<'a> {
    options: &'a Options,
    /// The moment on the last line that has one.
    stamp_ns: Option<u64>,
    /// Values have stamps of their own.
    own: bool,
    /// Scrapes before this one, in a file without moments.
    scrape: u64,
    /// The series of this scrape.
    seen: BTreeSet<String>,
}

impl Clock<'_> {
    fn time(&mut self, line: &Line<'_>, at: At) -> Result<(u64, bool), Fault> {
        if let Some(own) = line.stamp_ns {
            self.own = true;
            return Ok((own, true));
        }
        if self.own {
            let what = "this value has no stamp, and those above have one";
            return Err(fault(what).at(at.to_string()));
        }
        if let Some(stamp) = self.stamp_ns {
            return Ok((stamp, true));
        }
        if !self.seen.contains(line.series) {
            self.seen.insert(line.series.to_owned());
        } else if self.options.every_s.is_some() {
            self.scrape += 1;
            self.seen.clear();
            self.seen.insert(line.series.to_owned());
        } else {
            return Err(fault(
                "a second scrape begins here, and nothing says when it was: put a line with the moment before each \
                 (date +%s.%N), or give the time between two with --every",
            )
            .at(at.to_string()));
        }
        let ns = self.scrape.checked_mul(self.options.every_ns().unwrap_or(0));
        let ns = ns.ok_or_else(|| fault("the times go beyond what can be counted").at(at.to_string()))?;
        Ok((ns, false))
    }
}

/// The moment that a line gives, if that is what it is, and whether it is a local time without a zone.
fn stamp(line: &str, options: &Options) -> Option<(u64, bool)> {
    let text = line.trim_start_matches('#').trim();
    if let Some(ns) = epoch(text).filter(|ns| *ns >= FIRST_EPOCH_NS) {
        return Some((ns, false));
    }
    Some((moment(text, options.utc_offset.unwrap_or_default())?, !has_zone(text)))
}

/// Parses a line; the error has the character that it is about, counted from 1, and what is wanted there.
pub(super) fn parse(line: &str) -> Result<Line<'_>, (usize, &'static str)> {
    let name_end =
        line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).unwrap_or(line.len());
    let (name, mut rest) = line.split_at(name_end);
    let at = |rest: &str| line.len() - rest.len() + 1;
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err((1, "the name of a metric is wanted"));
    }
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                rest = after;
                break;
            }
            let (label, after) =
                rest.split_once('=').ok_or((at(rest), "a label such as gpu=\"0\" is wanted"))?;
            let quoted =
                after.trim_start().strip_prefix('"').ok_or((at(after), "a value in quotes is wanted"))?;
            let (value, after) =
                unquote(quoted).ok_or((at(quoted), "the value of the label has no closing quote"))?;
            labels.push((label.trim().to_owned(), value));
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after,
                None if rest.starts_with('}') => {}
                None => return Err((at(rest), "a comma or a closing brace is wanted")),
            }
        }
    }
    let series = &line[..line.len() - rest.len()];
    // Exemplars of OpenMetrics stand behind a number sign.
    let values = rest.split_once(" # ").map_or(rest, |(values, _)| values);
    let mut words = values.split_ascii_whitespace();
    let value = words.next().ok_or((at(rest), "a value is wanted"))?;
    let value: f64 =
        value.parse().map_err(|_| (at(rest), "a number is wanted behind the name and its labels"))?;
    let stamp_ns = match words.next() {
        None => None,
        Some(word) => {
            Some(own_stamp(word).ok_or((at(rest), "behind the value a stamp in milliseconds is wanted"))?)
        }
    };
    if words.next().is_some() {
        return Err((at(rest), "nothing is wanted behind the stamp"));
    }
    let value = if value.is_finite() { value } else { f64::NAN };
    Ok(Line { name, labels, value, stamp_ns, series })
}

/// A stamp behind a value: milliseconds, or seconds in the newer form of the format, which are fewer by far.
fn own_stamp(word: &str) -> Option<u64> {
    let (ms, _) = Decimal::parse(word)?.scaled(6)?;
    u64::try_from(ms).ok().filter(|ns| *ns >= FIRST_EPOCH_NS).or_else(|| epoch(word))
}

/// A text up to its closing quote, and what follows it.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_name_labels_a_value_and_a_stamp() {
        let line =
            parse("DCGM_FI_DEV_FB_USED{gpu=\"0\",model=\"A \\\"x\\\", }\",} 4845 1784800000000").unwrap();
        assert_eq!(
            (line.name, line.value, line.stamp_ns),
            ("DCGM_FI_DEV_FB_USED", 4845.0, Some(1_784_800_000_000_000_000))
        );
        assert_eq!(
            line.labels,
            [("gpu".to_owned(), "0".to_owned()), ("model".to_owned(), "A \"x\", }".to_owned())]
        );
        let line = parse("vllm:num_requests_running 3 1784800000.5 # {trace=\"x\"} 1").unwrap();
        assert_eq!((line.value, line.stamp_ns), (3.0, Some(1_784_800_000_500_000_000)));
        assert!(parse("a NaN").unwrap().value.is_nan());
    }

    #[test]
    fn malformed_lines_are_refused_with_their_character() {
        let refused = |line: &str| parse(line).unwrap_err();
        assert_eq!(refused("{a=\"b\"} 1"), (1, "the name of a metric is wanted"));
        assert_eq!(refused("a{b} 1").0, 3);
        assert_eq!(refused("a{b=1} 1"), (5, "a value in quotes is wanted"));
        assert_eq!(refused("a{b=\"1} 1").1, "the value of the label has no closing quote");
        assert_eq!(refused("a{b=\"1\"c=\"2\"} 1"), (8, "a comma or a closing brace is wanted"));
        assert_eq!(refused("a"), (2, "a value is wanted"));
        assert_eq!(refused("a x").0, 2);
        assert_eq!(refused("a 1 x").1, "behind the value a stamp in milliseconds is wanted");
        assert_eq!(refused("a 1 2 3").1, "nothing is wanted behind the stamp");
    }
}
