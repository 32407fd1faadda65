//! Numbers for people: with units, and no more digits than they bear.

pub(crate) use forebay_workbench::show::seconds;
use forebay_workbench::show::{short, time_unit};
use forebay_workbench::summary::MetricSummary;

/// Shown where there is no value.
pub(crate) const NONE: &str = "-";

/// A count with its thousands apart.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A share in percent; one that would round to 0 or 100 and is not gets more digits.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent == 100.0 {
        format!("{percent:.0} %")
    } else if percent < 0.1 || (percent > 99.9 && percent < 100.0) {
        format!("{percent:.3} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A number with three or four digits that count.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        a if a >= 1000.0 || a == 0.0 => 0,
        a if a >= 100.0 => 1,
        a if a >= 10.0 => 2,
        a if a >= 0.1 => 3,
        a if a >= 0.01 => 4,
        a if a >= 0.001 => 5,
        _ => return format!("{value:.2e}"),
    };
    format!("{value:.decimals$}")
}

/// Half-width with the decimals of two digits that count.
fn margin(half: f64) -> String {
    if half == 0.0 || !half.is_finite() {
        return "0".to_owned();
    }
    let decimals = match half {
        h if h >= 10.0 => 0,
        h if h >= 1.0 => 1,
        h if h >= 0.1 => 2,
        h if h >= 0.01 => 3,
        _ => 4,
    };
    format!("{half:.decimals$}")
}

/// A time metric with its interval.
pub(crate) fn seconds_of(metric: Option<&MetricSummary>) -> String {
    let Some(value) = metric.and_then(|metric| metric.value) else { return NONE.to_owned() };
    let (factor, unit) = time_unit(value);
    match metric.and_then(MetricSummary::half_width) {
        Some(half) => format!("{} ±{} {unit}", short(value * factor), margin(half * factor)),
        None => format!("{} {unit}", short(value * factor)),
    }
}

/// A share metric with its interval, in percent.
pub(crate) fn percent_of(metric: Option<&MetricSummary>) -> String {
    let Some(value) = metric.and_then(|metric| metric.value) else { return NONE.to_owned() };
    match metric.and_then(MetricSummary::half_width) {
        Some(half) if half > 0.0 => {
            let text = percent(value);
            format!("{} ±{} %", text.trim_end_matches(" %"), margin(half * 100.0))
        }
        _ => percent(value),
    }
}

/// Any metric with its interval.
pub(crate) fn number_of(metric: Option<&MetricSummary>) -> String {
    let Some(value) = metric.and_then(|metric| metric.value) else { return NONE.to_owned() };
    match metric.and_then(MetricSummary::half_width) {
        Some(half) => format!("{} ±{}", number(value), margin(half)),
        None => number(value),
    }
}

/// A difference with its sign and the half-width of its interval.
pub(crate) fn signed(difference: f64, half: Option<f64>) -> String {
    let sign = if difference < 0.0 { "" } else { "+" };
    match half {
        Some(half) => format!("{sign}{} ±{}", short(difference), margin(half)),
        None => format!("{sign}{}", short(difference)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(
            [0.0, 0.123, 1.0, 0.0004, 0.9999, 1.68].map(percent),
            ["0 %", "12.3 %", "100 %", "0.040 %", "99.990 %", "168.0 %"]
        );
        assert_eq!(
            [1e-12, 0.012, 1.5, 250.0, 3e-6].map(seconds),
            ["0 s", "12.0 ms", "1.50 s", "250 s", "3.00 µs"]
        );
        let metric = |value, ci95| MetricSummary { value, ci95, unit: String::new(), reason: None };
        assert_eq!(seconds_of(Some(&metric(Some(1.5), Some([1.4, 1.6])))), "1.50 ±0.10 s");
        assert_eq!(percent_of(Some(&metric(Some(0.5), Some([0.48, 0.52])))), "50.0 ±2.0 %");
        assert_eq!(seconds_of(Some(&metric(None, None))), NONE);
        assert_eq!(number_of(Some(&metric(Some(312.4), None))), "312.4");
    }
}
