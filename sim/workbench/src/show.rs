//! Numbers as people read them: with a unit that suits, and no more digits than they bear.

/// The unit in which a time is best read: its factor and its name.
pub fn time_unit(s: f64) -> (f64, &'static str) {
    match s.abs() {
        // The clock counts nanoseconds: less is nothing.
        a if a < 1e-9 => (0.0, "s"),
        a if a < 1e-3 => (1e6, "µs"),
        a if a < 1.0 => (1e3, "ms"),
        a if a < 10_000.0 => (1.0, "s"),
        _ => (1.0 / 3600.0, "h"),
    }
}

/// Three digits, those before the point included.
pub fn short(value: f64) -> String {
    let decimals = match value.abs() {
        a if a == 0.0 || a >= 100.0 => 0,
        a if a >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A time with a unit that suits it.
pub fn seconds(s: f64) -> String {
    let (factor, unit) = time_unit(s);
    format!("{} {unit}", short(s * factor))
}

/// A number with four digits that count, without zeros at its end.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let magnitude = libm::floor(libm::log10(value.abs())) as i32;
    let decimals = (3 - magnitude).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_units_that_suit() {
        let shown: Vec<String> = [0.0, 2.5e-5, 0.0421, 1.234, 250.4, 72_000.0].map(seconds).to_vec();
        assert_eq!(shown, ["0 s", "25.0 µs", "42.1 ms", "1.23 s", "250 s", "20.0 h"]);
    }

    #[test]
    fn numbers_have_sensible_digits() {
        let shown: Vec<String> = [0.0, 0.87, 0.040_051, 312.468, 12_345.6, -0.5, 1e-7].map(number).to_vec();
        assert_eq!(shown, ["0", "0.87", "0.04005", "312.5", "12346", "-0.5", "0.0000001"]);
    }
}
