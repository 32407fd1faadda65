//! What kind of file it is, told by its first lines.

use super::error::{Fault, fault};
use super::options::Kind;
use super::{clock, dcgm, dmon, engine, nvidia_smi};
use crate::trace::{Format, text_of};

/// Lines that are looked at.
const LINES: usize = 5000;
/// Bytes of an answer of Prometheus that are looked at.
const HEAD: usize = 1 << 16;

pub(super) fn kind(bytes: &[u8]) -> Result<Kind, Fault> {
    if bytes.starts_with(b"PAR1") {
        return Ok(Kind::Requests);
    }
    let text = text_of(bytes)?;
    let found = if text.trim_start().starts_with('{') { of_json(text) } else { of_lines(text) };
    found.ok_or_else(|| {
        let known = Kind::ALL.map(Kind::name).join(", ");
        fault(format!("the first lines do not tell what kind of file this is; say so with --from: {known}"))
            .line(1)
    })
}

/// The format of a request log by its content; none if it does not tell.
pub(super) fn log_format(bytes: &[u8]) -> Option<Format> {
    if bytes.starts_with(b"PAR1") {
        return Some(Format::Parquet);
    }
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    (first == Some(&b'{')).then_some(Format::JsonLines)
}

fn of_json(text: &str) -> Option<Kind> {
    let end = (0..=HEAD.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let head = &text[..end];
    if !(head.contains("\"result\"") && head.contains("\"metric\"")) {
        return Some(Kind::Requests);
    }
    if head.contains(dcgm::PREFIX) {
        return Some(Kind::Dcgm);
    }
    engine::PREFIXES.iter().any(|prefix| head.contains(prefix)).then_some(Kind::VllmMetrics)
}

fn of_lines(text: &str) -> Option<Kind> {
    let mut scrape = false;
    for (index, line) in text.lines().take(LINES).enumerate() {
        let line = line.trim();
        let metric = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE ")).unwrap_or(line);
        if metric.starts_with(dcgm::PREFIX) {
            return Some(Kind::Dcgm);
        }
        if engine::PREFIXES.iter().any(|prefix| metric.starts_with(prefix)) {
            return Some(Kind::VllmMetrics);
        }
        let comment = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        if !comment && dmon::is_header(line) {
            return Some(Kind::Dmon);
        }
        scrape |= line.starts_with("# ") || clock::epoch(line).is_some();
        if scrape || line.is_empty() {
            continue;
        }
        if index == 0 && engine::is_header(line) {
            return Some(Kind::EngineCsv);
        }
        if is_nvidia_smi(line) {
            return Some(Kind::NvidiaSmi);
        }
        if index == 0 && is_log_header(line) {
            return Some(Kind::Requests);
        }
    }
    None
}

/// A header with a name that only this tool has, or a row that begins with a moment as it writes them.
fn is_nvidia_smi(line: &str) -> bool {
    const NAMES: [&str; 6] = ["memory.", "utilization.", "power.draw", "temperature.", "clocks", "pci."];
    let of_tool = |cell: &str| NAMES.iter().any(|name| cell.trim().starts_with(name));
    if nvidia_smi::is_header(line) {
        return line.split(',').any(of_tool);
    }
    let first = line.split(',').next().unwrap_or_default().trim();
    first.get(..5).is_some_and(|year| year.ends_with('/'))
        && clock::moment(first, clock::UtcOffset::default()).is_some()
}

/// Several names, none of which is a number.
fn is_log_header(line: &str) -> bool {
    let mut names = line.split(',').map(str::trim);
    line.contains(',')
        && names.all(|name| name.trim_matches('"').starts_with(|c: char| c.is_alphabetic() || c == '_'))
}
