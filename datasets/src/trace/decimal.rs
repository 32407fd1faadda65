//! Decimal numbers read exactly: `1787267980.0827403` seconds are 1787267980082740300 nanoseconds, and
//! not the nearest binary fraction of them.
//!
//! Going through `f64` was rejected: an epoch time in seconds is then only known to a quarter of a
//! microsecond, and the same moment would differ between a CSV file and a Parquet file of integers.

/// More digits than this before the unit's last place are beyond any time or count that is read.
const MAX_PLACES: i64 = 30;

/// A decimal number as it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// `None` unless the text is a sign, digits with at most one point, and an exponent, in this order
    /// and all but the digits optional. `NaN` and infinities are therefore not numbers here.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, i64::from(exponent.parse::<i16>().ok()?)),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(fraction.bytes());
        let sound = digits().next().is_some() && digits().all(|byte| byte.is_ascii_digit());
        sound.then_some(Self { negative, whole: whole.trim_start_matches('0'), fraction, exponent })
    }

    /// The number times ten to the `places`, rounded half away from zero, and whether nothing had to be
    /// rounded away. `None` when it is too large to be held.
    pub(crate) fn scaled(self, places: u8) -> Option<(i128, bool)> {
        let digits = || self.whole.bytes().chain(self.fraction.bytes()).map(|byte| i128::from(byte - b'0'));
        // Where the point falls among the digits, once it has moved.
        let point = self.whole.len() as i64 + self.exponent + i64::from(places);
        if digits().all(|digit| digit == 0) {
            return Some((0, true));
        }
        if point > MAX_PLACES {
            return None;
        }
        let kept = usize::try_from(point).unwrap_or(0);
        let mut value =
            digits().chain(std::iter::repeat(0)).take(kept).fold(0, |sum, digit| sum * 10 + digit);
        let exact = digits().skip(kept).all(|digit| digit == 0);
        // A point before the first digit leaves at least one zero behind it: nothing rounds up there.
        if point >= 0 && digits().nth(kept).is_some_and(|digit| digit >= 5) {
            value += 1;
        }
        Some((if self.negative { -value } else { value }, exact))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scaled(text: &str, places: u8) -> Option<(i128, bool)> {
        Decimal::parse(text).and_then(|number| number.scaled(places))
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(scaled("1787267980.0827403", 9), Some((1_787_267_980_082_740_300, true)));
        assert_eq!(scaled("12", 0), Some((12, true)));
        assert_eq!(scaled("374.0", 0), Some((374, true)));
        assert_eq!(scaled("374.5", 0), Some((375, false)));
        assert_eq!(scaled("-1.25", 2), Some((-125, true)));
        assert_eq!(scaled("0.0000000004", 9), Some((0, false)));
        assert_eq!(scaled("0.0000000005", 9), Some((1, false)));
        assert_eq!(scaled("0.00000000005", 9), Some((0, false)));
        assert_eq!(scaled(".5", 1), Some((5, true)));
        assert_eq!(scaled("5.", 0), Some((5, true)));
        assert_eq!(scaled("1.7e3", 0), Some((1700, true)));
        assert_eq!(scaled("25E-1", 1), Some((25, true)));
        assert_eq!(scaled("0e999", 0), Some((0, true)));
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        for text in [
            "", ".", "-", "e5", "NaN", "inf", "-inf", "1_000", "1,5", "0x10", "1e", "1e99999", "--1",
            "1.2.3", "١",
        ] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
        assert_eq!(scaled("1e31", 0), None);
        assert_eq!(scaled(&"9".repeat(4000), 0), None);
    }

    proptest! {
        #[test]
        fn agrees_with_floats(value in 0.0_f64..1e6) {
            let (ns, _) = scaled(&format!("{value}"), 9).unwrap();
            prop_assert!((ns as f64 - value * 1e9).abs() <= 1.0);
        }

        #[test]
        fn never_panics(text in "[-+]?[0-9.eE]{0,40}") {
            let _ = scaled(&text, 9);
        }
    }
}
