//! Dates with a time of day, read to the nanosecond.
//!
//! The Azure traces write seven decimals of a second. Reading them with polars would need its temporal
//! features, which lengthen the build, for one format that a page of code covers.

const NS_PER_S: i128 = 1_000_000_000;

/// `YYYY-MM-DD HH:MM:SS`, with `T` instead of the space if liked, up to nine decimals of a second, and
/// optionally `Z` or an offset (`+02:00`); as nanoseconds since 1970. `None` for anything else, for
/// dates that do not exist, and outside the years 1970 to 9999. Without an offset the time is taken
/// as UTC, so a file in local time must not cross a change of the clocks.
pub(crate) fn parse(text: &str) -> Option<i128> {
    let (date, rest) = text.split_at_checked(10)?;
    let rest = rest.strip_prefix([' ', 'T'])?;
    let (clock, rest) = rest.split_at_checked(8)?;
    let (nanos, zone) = fraction(rest)?;
    let days = days_since_1970(date)?;
    let [hours, minutes, seconds] = numbers(clock, ':', [2, 2, 2])?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let seconds = ((days * 24 + hours) * 60 + minutes) * 60 + seconds - offset_s(zone)?;
    Some(i128::from(seconds) * NS_PER_S + i128::from(nanos))
}

/// The decimals of a second, as nanoseconds, and what follows them.
fn fraction(rest: &str) -> Option<(i64, &str)> {
    let Some(tail) = rest.strip_prefix('.') else { return Some((0, rest)) };
    let length = tail.bytes().take_while(u8::is_ascii_digit).count();
    if length == 0 || length > 9 {
        return None;
    }
    let (digits, zone) = tail.split_at(length);
    let value = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some((value.fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0')), zone))
}

/// Seconds that local time is ahead of UTC.
fn offset_s(zone: &str) -> Option<i64> {
    if zone.is_empty() || zone == "Z" {
        return Some(0);
    }
    let (sign, rest) = match zone.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, zone.strip_prefix('+')?),
    };
    let [hours, minutes] = numbers(rest, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

fn days_since_1970(date: &str) -> Option<i64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let leap_day = i64::from(leap(year));
    let lengths = [31, 28 + leap_day, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before = usize::try_from(month - 1).ok().filter(|&index| index < lengths.len())?;
    if year < 1970 || day < 1 || day > lengths[before] {
        return None;
    }
    // Leap years up to and with the given one, since the calendar began.
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let whole_years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    Some(whole_years + lengths[..before].iter().sum::<i64>() + day - 1)
}

/// Numbers of exactly these lengths, with a separator between them.
fn numbers<const N: usize>(text: &str, separator: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut values = [0; N];
    for (value, length) in values.iter_mut().zip(lengths) {
        let part = parts.next()?;
        if part.len() != length || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *value = part.parse().ok()?;
    }
    parts.next().is_none().then_some(values)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments() {
        assert_eq!(parse("1970-01-01 00:00:00"), Some(0));
        assert_eq!(parse("2023-11-16 18:15:46.6805900"), Some(1_700_158_546_680_590_000));
        assert_eq!(parse("2000-02-29T00:00:00Z"), Some(951_782_400_000_000_000));
        assert_eq!(parse("2024-05-10 00:00:00.009930+00:00"), Some(1_715_299_200_009_930_000));
        assert_eq!(parse("2024-05-10 02:00:00+02:00"), parse("2024-05-10 00:00:00"));
        assert_eq!(parse("2024-05-09 22:30:00-01:30"), parse("2024-05-10 00:00:00"));
        assert_eq!(parse("9999-12-31 23:59:59.999999999"), Some(253_402_300_799_999_999_999));
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2023",
            "2023-11-16",
            "2023-13-01 00:00:00",
            "2023-00-01 00:00:00",
            "2023-02-29 00:00:00",
            "2100-02-29 00:00:00",
            "2023-11-31 00:00:00",
            "2023-11-00 00:00:00",
            "1969-12-31 23:59:59",
            "12023-11-16 18:15:46",
            "2023-11-16 24:00:00",
            "2023-11-16 18:60:00",
            "2023-11-16 18:15:60",
            "2023-11-16 18:15:46.",
            "2023-11-16 18:15:46.1234567890",
            "2023-11-16 18:15:46 ",
            "2023-11-16 18:15:46+2",
            "2023-11-16 18:15:46+25:00",
            "2023-11-16_18:15:46",
            "-023-11-16 18:15:46",
            "2023-+1-16 18:15:46",
            "２０２３-11-16 18:15:46",
            "1700158546",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn days_follow_each_other(year in 1970_i64..9999, month in 1_i64..=12) {
            let day = |year, month, day| days_since_1970(&format!("{year:04}-{month:02}-{day:02}"));
            let last = (28..=31).rev().find_map(|number| day(year, month, number)).unwrap();
            let (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            prop_assert_eq!(day(year, month, 1), Some(last + 1));
        }

        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            let _ = parse(&text);
        }
    }
}
