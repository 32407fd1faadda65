//! Moments as other programs write them, as nanoseconds since 1970, UTC.

use std::str::FromStr;

use crate::trace::datetime;
use crate::trace::decimal::Decimal;

/// By how much local time is ahead of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcOffset {
    seconds: i64,
}

impl FromStr for UtcOffset {
    type Err = String;

    /// `+02:00`, `-0730`, `+2` or `Z`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a time that local clocks are ahead of UTC, such as +02:00, -0730 or Z".to_owned();
        if text == "Z" {
            return Ok(Self::default());
        }
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').ok_or_else(wrong)?),
        };
        if !digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
            return Err(wrong());
        }
        let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
            (Some((hours, minutes)), 4 | 5) if minutes.len() == 2 => (hours, minutes),
            (None, 1 | 2) => (digits, "0"),
            (None, 4) => digits.split_at(2),
            _ => return Err(wrong()),
        };
        let number = |text: &str| text.parse::<i64>().map_err(|_| wrong());
        let (hours, minutes) = (number(hours)?, number(minutes)?);
        if hours > 14 || minutes > 59 {
            return Err(wrong());
        }
        Ok(Self { seconds: sign * (hours * 60 + minutes) * 60 })
    }
}

impl UtcOffset {
    /// A local moment as UTC.
    pub(super) fn to_utc(self, local_ns: i128) -> i128 {
        local_ns - i128::from(self.seconds) * 1_000_000_000
    }
}

/// A date and a time of day: `2026/07/23 12:00:09.000` or with dashes, a `T` between, and a zone at the end. The
/// offset counts only where there is no zone. None for anything else, and for moments beyond the year 2500.
pub(super) fn moment(text: &str, offset: UtcOffset) -> Option<u64> {
    let mut date = text.get(..10)?.to_owned();
    if date.bytes().filter(|byte| *byte == b'/').count() == 2 {
        date = date.replace('/', "-");
    }
    let ns = datetime::parse(&(date + &text[10..]))?;
    u64::try_from(if has_zone(text) { ns } else { offset.to_utc(ns) }).ok()
}

/// Whether a date and time ends in a zone.
pub(super) fn has_zone(text: &str) -> bool {
    text.get(19..).is_some_and(|rest| rest.contains(['Z', '+', '-']))
}

/// Seconds since 1970, as `date +%s.%N` writes them.
pub(super) fn epoch(text: &str) -> Option<u64> {
    let (ns, _) = Decimal::parse(text)?.scaled(9)?;
    u64::try_from(ns).ok()
}

/// Nanoseconds from midnight of a time of day such as `12:00:09`.
pub(super) fn time_of_day(text: &str) -> Option<u64> {
    u64::try_from(datetime::parse(&format!("1970-01-01 {text}"))?)
        .ok()
        .filter(|_| !text.contains(['Z', '+', '-']))
}

/// Seconds of nanoseconds.
pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_are_brought_to_utc() {
        let at = |text: &str, offset: &str| moment(text, offset.parse().unwrap());
        let utc = at("2026-07-23 10:00:09.25", "Z").unwrap();
        assert_eq!(utc % 1_000_000_000, 250_000_000);
        assert_eq!(at("2026/07/23 12:00:09.250", "+02:00"), Some(utc));
        assert_eq!(at("2026/07/23 02:30:09.250", "-0730"), Some(utc));
        assert_eq!(at("2026-07-23T10:00:09.250Z", "+02:00"), Some(utc));
        assert_eq!(at("2026-07-23T12:00:09.250+02:00", "-07:00"), Some(utc));
        assert_eq!(at("1970-01-01 00:30:00", "+01:00"), None);
        assert_eq!(at("2026/13/23 12:00:09", "Z"), None);
        assert_eq!(at("é026/07/23 12:00:09", "Z"), None);
    }

    #[test]
    fn offsets_are_read_strictly() {
        let seconds = |text: &str| text.parse::<UtcOffset>().map(|offset| offset.seconds);
        assert_eq!(seconds("+2"), Ok(7200));
        assert_eq!(seconds("-07:30"), Ok(-27_000));
        assert_eq!(seconds("+0530"), Ok(19_800));
        for wrong in ["", "2", "+", "+15:00", "+02:60", "+2:3", "CET", "+-2", "+99999999999999999999"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn stamps_of_other_programs() {
        assert_eq!(epoch("1784800000.25"), Some(1_784_800_000_250_000_000));
        assert_eq!(epoch("-1"), None);
        assert_eq!(time_of_day("12:00:09"), Some(43_209_000_000_000));
        assert_eq!(time_of_day("12:00"), None);
        assert_eq!(time_of_day("12:00:09Z"), None);
    }
}
