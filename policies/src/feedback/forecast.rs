//! The forecast: the rate of arrivals that a calendar lets expect, and a parameter that follows it ahead
//! of time (published cases H5, H7).
//!
//! Expected rate = profile(second of the day) * weekday factor * holiday factor * pay-day factor. The
//! profile, the factors and the interval come from [`learn`], or are written by hand. Around the
//! expected count n of a bin the prediction interval has a variance of n (chance of arrivals) and of
//! `spread` * n^2 (days differ).
//!
//! A parameter may follow the forecast: it is set for the greater of the rates expected now and in
//! `lead_s`, so that it rises ahead of a peak and does not fall before the peak is over. When the forecast
//! is lost, a fixed timetable takes its place.
//!
//! A model of more parts (trend, autoregression) was rejected: it needs months of counts, and the error
//! that matters here, a peak that comes early or late, is in the calendar.

pub mod learn;

use super::Loop;
use super::guard::check_parameter;
use crate::{Moment, Policy, PolicyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds of a day.
pub const DAY_S: f64 = 86_400.0;

/// How the rate runs between two points of the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Course {
    /// Straight from point to point, over midnight too.
    #[default]
    Linear,
    /// As at the last point.
    Steps,
}

/// The expected rate of arrivals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// Points `[second of the day, arrivals per second]`, in order of time.
    #[schemars(length(min = 1))]
    pub profile: Vec<(f64, f64)>,
    /// How the rate runs between two points.
    #[serde(default)]
    pub course: Course,
    /// Factor on the profile by weekday, Monday first.
    #[serde(default = "ones")]
    pub weekday_factors: [f64; 7],
    /// Weekday on which the driver starts; 0 is Monday.
    #[serde(default)]
    #[schemars(range(min = 0, max = 6))]
    pub start_weekday: u8,
    /// Second of the day at which the driver starts.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_399.0))]
    pub start_s: f64,
    /// Days that are holidays; day 0 is the one on which the driver starts.
    #[serde(default)]
    pub holidays: Vec<u32>,
    /// Factor on a holiday.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub holiday_factor: f64,
    /// Days that are pay days; day 0 is the one on which the driver starts.
    #[serde(default)]
    pub pay_days: Vec<u32>,
    /// Factor on a pay day.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub pay_day_factor: f64,
    /// Time over which the prediction interval holds for the mean rate, in seconds: the bin it was
    /// learned with.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 1.0, max = 86_400.0))]
    pub bin_s: f64,
    /// Variance of the rate beyond chance, as a share of the squared rate.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub spread: f64,
    /// Lower end of the prediction interval, in standard deviations from the expected rate.
    #[serde(default = "low_end")]
    #[schemars(range(min = -100.0, max = 0.0))]
    pub low_sd: f64,
    /// Upper end of the prediction interval, in standard deviations from the expected rate.
    #[serde(default = "high_end")]
    #[schemars(range(min = 0.0, max = 100.0))]
    pub high_sd: f64,
    /// How far ahead a rise is met, in seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub lead_s: f64,
    /// The parameter that follows the forecast; absent: none.
    #[serde(default)]
    pub sets: Option<Sets>,
    /// Steps `[second of the day, value of the parameter]`, in order of time: what the parameter is set to
    /// while the forecast is lost. Empty: it keeps the last value.
    #[serde(default)]
    pub timetable: Vec<(f64, f64)>,
}

/// Which end of the forecast a parameter follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Follow {
    /// The expected rate.
    #[default]
    Expected,
    /// The upper end of the prediction interval.
    High,
}

/// A parameter that follows the forecast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sets {
    /// Path of the parameter, such as `admission.entry.rate_per_s`.
    pub parameter: String,
    /// The parameter's value per expected arrival per second.
    #[serde(default = "one")]
    #[schemars(range(min = -1e9, max = 1e9))]
    pub per_rate: f64,
    /// Which end of the forecast it follows.
    #[serde(default)]
    pub follow: Follow,
    /// Least value of the parameter.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub least: f64,
    /// Greatest value of the parameter.
    #[schemars(range(min = -1e9, max = 1e9))]
    pub most: f64,
    /// The loop it runs on.
    #[serde(default, rename = "loop")]
    pub on: Loop,
}

fn one() -> f64 {
    1.0
}

fn ones() -> [f64; 7] {
    [1.0; 7]
}

fn five_minutes() -> f64 {
    300.0
}

fn low_end() -> f64 {
    -1.645
}

fn high_end() -> f64 {
    1.645
}

impl Forecast {
    /// The forecast of a profile that is the same every day.
    pub fn of_day(profile: Vec<(f64, f64)>) -> Self {
        Self {
            profile,
            course: Course::default(),
            weekday_factors: ones(),
            start_weekday: 0,
            start_s: 0.0,
            holidays: Vec::new(),
            holiday_factor: 1.0,
            pay_days: Vec::new(),
            pay_day_factor: 1.0,
            bin_s: five_minutes(),
            spread: 0.0,
            low_sd: low_end(),
            high_sd: high_end(),
            lead_s: 0.0,
            sets: None,
            timetable: Vec::new(),
        }
    }

    /// The expected rate at a moment, in arrivals per second.
    pub fn rate_per_s(&self, at: Moment) -> f64 {
        let (day, second) = self.calendar(at);
        let weekday = (u64::from(self.start_weekday) + day) % 7;
        let is_in = |days: &[u32]| days.iter().any(|&listed| u64::from(listed) == day);
        let holiday = if is_in(&self.holidays) { self.holiday_factor } else { 1.0 };
        let pay_day = if is_in(&self.pay_days) { self.pay_day_factor } else { 1.0 };
        self.profile_at(second) * self.weekday_factors[weekday as usize] * holiday * pay_day
    }

    /// The prediction interval around an expected rate, in arrivals per second.
    pub fn interval(&self, rate_per_s: f64) -> (f64, f64) {
        let count = rate_per_s * self.bin_s;
        let deviation = libm::sqrt(count + self.spread * count * count);
        let end = |deviations: f64| ((count + deviations * deviation) / self.bin_s).max(0.0);
        (end(self.low_sd), end(self.high_sd))
    }

    /// The parameter's value at a moment by the forecast; `None`: no parameter follows it.
    pub fn value(&self, now: Moment) -> Option<f64> {
        let sets = self.sets.as_ref()?;
        let ahead = self.rate_per_s(now.after(crate::moment::nanos(self.lead_s)));
        let rate = self.rate_per_s(now).max(ahead);
        let rate = match sets.follow {
            Follow::Expected => rate,
            Follow::High => self.interval(rate).1,
        };
        Some((rate * sets.per_rate).max(sets.least).min(sets.most))
    }

    /// The parameter's value at a moment by the timetable; `None`: there is none.
    pub fn timetable_value(&self, now: Moment) -> Option<f64> {
        let (_, second) = self.calendar(now);
        let before = self.timetable.partition_point(|&(at, _)| at <= second);
        // Before the first entry of the day the last one of yesterday holds.
        let entry = if before == 0 { self.timetable.last() } else { self.timetable.get(before - 1) };
        entry.map(|&(_, value)| value)
    }

    /// The day, counted from the driver's start, and the second of that day.
    fn calendar(&self, at: Moment) -> (u64, f64) {
        let since = self.start_s + at.seconds_since(Moment::ZERO);
        let day = libm::floor(since / DAY_S);
        (day as u64, since - day * DAY_S)
    }

    fn profile_at(&self, second: f64) -> f64 {
        let before = self.profile.partition_point(|&(at, _)| at <= second);
        let (Some(&first), Some(&last)) = (self.profile.first(), self.profile.last()) else { return 0.0 };
        let wrapped = |(at, rate): (f64, f64), by: f64| (at + by, rate);
        let left = if before == 0 { wrapped(last, -DAY_S) } else { self.profile[before - 1] };
        let right = self.profile.get(before).copied().unwrap_or(wrapped(first, DAY_S));
        match self.course {
            Course::Steps => left.1,
            Course::Linear if right.0 <= left.0 => left.1,
            Course::Linear => left.1 + (right.1 - left.1) * (second - left.0) / (right.0 - left.0),
        }
    }

    pub(crate) fn check(&self, path: &str, policy: &Policy) -> Result<(), PolicyError> {
        let wrong = |name: &str, found: String, allowed: &str| {
            Err(PolicyError::not_allowed(format!("{path}.{name}"), found, allowed))
        };
        if self.profile.is_empty() {
            return wrong("profile", "no point".to_owned(), "at least one");
        }
        for (name, points) in [("profile", &self.profile), ("timetable", &self.timetable)] {
            let mut last = -1.0;
            for &(at, value) in points {
                if !(at > last && at < DAY_S && value.is_finite() && value.abs() <= 1e9) {
                    let allowed = "seconds of the day in rising order, each with a number up to 1e9";
                    return wrong(name, format!("[{at}, {value}]"), allowed);
                }
                last = at;
            }
        }
        if let Some((at, rate)) = self.profile.iter().find(|(_, rate)| *rate < 0.0) {
            return wrong("profile", format!("[{at}, {rate}]"), "no negative rate");
        }
        if let Some(factor) = self.weekday_factors.iter().find(|factor| !(0.0..=1_000.0).contains(*factor)) {
            return wrong("weekday_factors", factor.to_string(), "0 to 1000");
        }
        let Some(sets) = &self.sets else {
            let unused = !self.timetable.is_empty();
            let allowed = "none, as there is no `sets`, the parameter that it is for";
            return if unused { wrong("timetable", "values".to_owned(), allowed) } else { Ok(()) };
        };
        PolicyError::ordered(&format!("{path}.sets"), ("least", sets.least), ("most", sets.most))?;
        let name = format!("{path}.sets.parameter");
        for (end, value) in [("least", sets.least), ("most", sets.most)] {
            let value_path = format!("{path}.sets.{end}");
            check_parameter((&name, &sets.parameter), (&value_path, Some(value)), policy)?;
        }
        for &(_, value) in &self.timetable {
            let value_path = format!("{path}.timetable");
            check_parameter((&name, &sets.parameter), (&value_path, Some(value)), policy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at: f64) -> Moment {
        Moment(crate::moment::nanos(at))
    }

    #[test]
    fn a_linear_profile_runs_over_midnight() {
        let forecast = Forecast::of_day(vec![(21_600.0, 10.0), (64_800.0, 50.0)]);
        for (at, rate) in
            [(21_600.0, 10.0), (43_200.0, 30.0), (64_800.0, 50.0), (0.0, 30.0), (86_399.999, 30.0)]
        {
            assert!((forecast.rate_per_s(second(at)) - rate).abs() < 1e-4, "at {at}");
        }
    }

    #[test]
    fn steps_hold_until_the_next_point() {
        let profile = vec![(3600.0, 10.0), (7200.0, 50.0)];
        let forecast = Forecast { course: Course::Steps, ..Forecast::of_day(profile) };
        for (at, rate) in [(0.0, 50.0), (3600.0, 10.0), (7199.0, 10.0), (7200.0, 50.0)] {
            assert_eq!(forecast.rate_per_s(second(at)), rate);
        }
    }

    #[test]
    fn days_have_their_factors() {
        let forecast = Forecast {
            weekday_factors: [1.0, 1.0, 1.0, 1.0, 1.5, 0.5, 0.25],
            start_weekday: 4,
            start_s: 80_000.0,
            holidays: vec![3],
            holiday_factor: 0.1,
            pay_days: vec![3, 7],
            pay_day_factor: 2.0,
            ..Forecast::of_day(vec![(0.0, 8.0)])
        };
        // The first day has 6400 s left.
        for (day, rate) in [(0.0, 12.0), (1.0, 4.0), (2.0, 2.0), (3.0, 1.6), (4.0, 8.0), (7.0, 24.0)] {
            let rate_per_s = forecast.rate_per_s(second(day * DAY_S + 6_000.0 * f64::from(day == 0.0)));
            assert!((rate_per_s - rate).abs() < 1e-9, "day {day}: {rate_per_s}");
        }
    }

    #[test]
    fn the_interval_has_chance_and_spread() {
        let forecast =
            Forecast { bin_s: 100.0, spread: 0.01, low_sd: -2.0, high_sd: 1.0, ..Forecast::of_day(vec![]) };
        // 400 expected: a deviation of sqrt(400 + 0.01 * 400^2) = 44.72.
        let (low, high) = forecast.interval(4.0);
        assert!((low - (400.0 - 2.0 * 44.721_36) / 100.0).abs() < 1e-6, "{low}");
        assert!((high - (400.0 + 44.721_36) / 100.0).abs() < 1e-6, "{high}");
        assert_eq!(forecast.interval(0.0), (0.0, 0.0));
    }

    #[test]
    fn a_rise_is_met_ahead_and_a_fall_on_time() {
        let sets = Sets {
            parameter: String::new(),
            per_rate: 1.2,
            follow: Follow::Expected,
            least: 5.0,
            most: 1_000.0,
            on: Loop::Routing,
        };
        let profile = vec![(0.0, 1.0), (30_000.0, 100.0), (33_600.0, 10.0)];
        let forecast = Forecast {
            course: Course::Steps,
            lead_s: 600.0,
            sets: Some(sets),
            timetable: vec![(28_800.0, 90.0), (36_000.0, 20.0)],
            ..Forecast::of_day(profile)
        };
        for (at, value) in
            [(0.0, 5.0), (29_399.0, 5.0), (29_400.0, 120.0), (33_599.0, 120.0), (33_600.0, 12.0)]
        {
            assert_eq!(forecast.value(second(at)), Some(value), "at {at}");
        }
        for (at, value) in [(0.0, 20.0), (28_799.0, 20.0), (28_800.0, 90.0), (40_000.0, 20.0)] {
            assert_eq!(forecast.timetable_value(second(at)), Some(value), "at {at}");
        }
    }
}
