//! The wall clock, in one place: how long work took. Nothing that is simulated reads it.

/// Started when made.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// Starts.
    #[expect(clippy::disallowed_methods, reason = "the one place that times the program itself")]
    pub fn start() -> Self {
        Self(std::time::Instant::now())
    }

    /// Seconds since the start.
    pub fn elapsed_s(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The day in UTC, ISO 8601: what calibrations say of when they were fitted.
#[expect(clippy::disallowed_methods, reason = "a date in a file; nothing that is computed depends on it")]
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    day(since.map_or(0, |since| since.as_secs() / 86_400))
}

/// The day so many days after 1970-01-01: years of 365.2425 days, counted from a 1st of March.
fn day(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_have_dates() {
        let dates = [0, 59, 11_016, 20_787].map(day);
        assert_eq!(dates, ["1970-01-01", "1970-03-01", "2000-02-29", "2026-11-30"]);
    }
}
