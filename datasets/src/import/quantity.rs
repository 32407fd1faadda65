//! Values with units as monitoring tools write them, in the units of recordings.

/// What a value measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quantity {
    Memory,
    Share,
    Power,
    Energy,
    Temperature,
    Clock,
    /// A whole number of bits, decimal or hexadecimal.
    Bits,
}

impl Quantity {
    /// A value in this unit, in the unit of recordings; none, if the unit is another quantity's. `MB` of these
    /// tools are mebibytes.
    pub(super) fn convert(self, value: f64, unit: &str) -> Option<f64> {
        const MIB: f64 = 1_048_576.0;
        // Divided where that is exact, and multiplication by a fraction is not.
        Some(match (self, unit) {
            (Self::Memory, "B")
            | (Self::Share, "share")
            | (Self::Power, "W")
            | (Self::Energy, "J")
            | (Self::Temperature, "C")
            | (Self::Clock, "MHz")
            | (Self::Bits, "") => value,
            (Self::Memory, "KiB") => value * 1024.0,
            (Self::Memory, "MiB" | "MB") => value * MIB,
            (Self::Memory, "GiB") => value * (1024.0 * MIB),
            (Self::Share, "%") => value / 100.0,
            (Self::Power, "mW") | (Self::Energy, "mJ") | (Self::Clock, "kHz") => value / 1000.0,
            (Self::Energy, "kJ") | (Self::Clock, "GHz") => value * 1000.0,
            _ => return None,
        })
    }

    /// The units that are known.
    pub(super) fn units(self) -> &'static str {
        match self {
            Self::Memory => "B, KiB, MiB, MB or GiB",
            Self::Share => "%",
            Self::Power => "W or mW",
            Self::Energy => "J, mJ or kJ",
            Self::Temperature => "C",
            Self::Clock => "MHz, kHz or GHz",
            Self::Bits => "no unit",
        }
    }

    /// Why a value, in the units of recordings, cannot be; none if it can.
    pub(super) fn impossible(self, value: f64) -> Option<&'static str> {
        match self {
            Self::Temperature => None,
            _ if value < 0.0 => Some("below 0"),
            Self::Share if value > 1.0 => Some("beyond 100 %"),
            _ => None,
        }
    }
}

/// A cell.
#[derive(Debug, PartialEq)]
pub(super) enum Cell<'a> {
    /// A number and its unit, if one stands behind it.
    Number(f64, &'a str),
    /// What stands for a value that was not told.
    NotTold(&'a str),
    /// Something else.
    Text,
}

/// Reads a cell. Whatever stands in brackets is the tool's word for "none": `[N/A]`, `[Not Supported]`,
/// `[Unknown Error]`, `[GPU requires reset]`.
pub(super) fn cell(text: &str) -> Cell<'_> {
    const NONE: [&str; 8] = ["", "-", "N/A", "n/a", "Not Supported", "ERR!", "Unknown Error", "NaN"];
    let text = text.trim();
    if NONE.contains(&text) || (text.starts_with('[') && text.ends_with(']')) {
        return Cell::NotTold(text.trim_matches(['[', ']']));
    }
    let (digits, unit) = text.split_once(' ').map_or((text, ""), |(digits, unit)| (digits, unit.trim()));
    match number(digits) {
        Some(value) => Cell::Number(value, unit),
        None => Cell::Text,
    }
}

/// A finite number, decimal or hexadecimal.
pub(super) fn number(text: &str) -> Option<f64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(|bits| bits as f64);
    }
    // Words such as `inf` parse as numbers too.
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    plain.then(|| text.parse().ok()).flatten().filter(|value: &f64| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_numbers_or_not_told_or_text() {
        assert_eq!(cell(" 40962 MiB"), Cell::Number(40962.0, "MiB"));
        assert_eq!(cell("490.00 W "), Cell::Number(490.0, "W"));
        assert_eq!(cell("0x0000000000000004"), Cell::Number(4.0, ""));
        assert_eq!(cell("[Not Supported]"), Cell::NotTold("Not Supported"));
        assert_eq!(cell("-"), Cell::NotTold("-"));
        for text in ["P0", "inf", "NVIDIA A10", "0x", "0xg", "1e999"] {
            assert_eq!(cell(text), Cell::Text, "{text}");
        }
    }

    #[test]
    fn units_are_those_of_recordings() {
        let of = Quantity::convert;
        assert_eq!(of(Quantity::Memory, 2.0, "MiB"), Some(2_097_152.0));
        assert_eq!(of(Quantity::Memory, 2.0, "MB"), Some(2_097_152.0));
        assert_eq!(of(Quantity::Share, 89.0, "%"), Some(0.89));
        assert_eq!(of(Quantity::Power, 490_000.0, "mW"), Some(490.0));
        assert_eq!(of(Quantity::Share, 57.0, "%"), Some(0.57));
        assert_eq!(of(Quantity::Power, 1.0, "MiB"), None);
        assert_eq!(Quantity::Share.impossible(1.01), Some("beyond 100 %"));
        assert_eq!(Quantity::Temperature.impossible(-5.0), None);
    }
}
