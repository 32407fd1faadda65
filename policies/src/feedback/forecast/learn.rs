//! Learns a [`Forecast`] from past counts: what part of a day falls in each bin, and how days differ.
//!
//! The model is a product: expected count = base * share of the bin * weekday * holiday * pay day. The
//! shares are the column sums and need no search, because a product keeps them the same on every day.
//! The factors of the days are fitted to the days' totals by taking one after the other for known, until
//! nothing moves; for counts this is the maximum of the likelihood.
//!
//! The interval: the variance beyond chance is taken from the squared residuals, and the interval's ends are
//! the quantiles of the residuals in standard deviations as they were found, so that skewed counts get a
//! skewed interval.

use super::{Course, DAY_S, Forecast};
use crate::feedback::forecast::ones;

/// Most rounds of the fit; it stops when nothing moves.
const MOST_ROUNDS: usize = 200;

/// Past counts of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct History<'a> {
    /// Length of a bin, in seconds; divides the day.
    pub bin_s: f64,
    /// Arrivals in each bin, from a midnight on. A last day that is not whole is left out.
    pub counts: &'a [u64],
    /// Weekday of the first day; 0 is Monday.
    pub first_weekday: u8,
    /// Days that were holidays, counted from 0.
    pub holidays: &'a [u32],
    /// Days that were pay days, counted from 0.
    pub pay_days: &'a [u32],
    /// Share of the bins that the prediction interval shall hold, such as 0.9.
    pub coverage: f64,
}

/// Why nothing can be learned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// The bins do not make up a day.
    #[error("bins of {bin_s} s do not divide a day of 86400 s")]
    Bins {
        /// Length of a bin, in seconds.
        bin_s: f64,
    },
    /// There is no whole day.
    #[error("{found} bins were counted, and a day has {needed}")]
    TooShort {
        /// Bins that were counted.
        found: usize,
        /// Bins of one day.
        needed: usize,
    },
    /// Nobody came.
    #[error("all counts are 0")]
    Empty,
    /// The coverage is no share.
    #[error("a coverage of {coverage} is not between 0 and 1")]
    Coverage {
        /// What was asked for.
        coverage: f64,
    },
}

/// A day's calendar.
#[derive(Clone, Copy, Debug)]
struct Day {
    total: f64,
    weekday: usize,
    is_holiday: bool,
    is_paid: bool,
}

/// Factors of the days.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    /// Total of an ordinary day of each weekday; `None`: never seen.
    weekday: [Option<f64>; 7],
    holiday: f64,
    pay_day: f64,
}

/// Learns the profile, the factors and the interval. The forecast begins on a Monday at midnight without
/// holidays or pay days ahead: who uses it says when it begins and which are.
///
/// # Errors
/// The history holds too little to learn from.
pub fn learn(history: &History<'_>) -> Result<Forecast, LearnError> {
    let History { bin_s, counts, coverage, .. } = *history;
    let bins = (DAY_S / bin_s).round();
    if !(bin_s.is_finite() && (1.0..=DAY_S).contains(&bins) && (bins * bin_s - DAY_S).abs() < 1e-6) {
        return Err(LearnError::Bins { bin_s });
    }
    if !(coverage > 0.0 && coverage < 1.0) {
        return Err(LearnError::Coverage { coverage });
    }
    let bins = bins as usize;
    if counts.len() < bins {
        return Err(LearnError::TooShort { found: counts.len(), needed: bins });
    }
    let mut shares = vec![0.0; bins];
    let mut days = Vec::with_capacity(counts.len() / bins);
    for (index, row) in counts.chunks_exact(bins).enumerate() {
        row.iter().zip(&mut shares).for_each(|(&count, share)| *share += count as f64);
        days.push(Day {
            total: row.iter().sum::<u64>() as f64,
            weekday: (usize::from(history.first_weekday) + index) % 7,
            is_holiday: history.holidays.contains(&(index as u32)),
            is_paid: history.pay_days.contains(&(index as u32)),
        });
    }
    let all: f64 = shares.iter().sum();
    if all == 0.0 {
        return Err(LearnError::Empty);
    }
    for share in &mut shares {
        *share /= all;
    }
    let factors = fit(&days);
    let seen: Vec<f64> = factors.weekday.iter().flatten().copied().collect();
    let base = seen.iter().sum::<f64>() / seen.len() as f64;
    let mut forecast = Forecast {
        course: Course::Steps,
        weekday_factors: ones(),
        holiday_factor: factors.holiday,
        pay_day_factor: factors.pay_day,
        bin_s,
        ..Forecast::of_day(
            shares
                .iter()
                .enumerate()
                .map(|(bin, share)| (bin as f64 * bin_s, share * base / bin_s))
                .collect(),
        )
    };
    for (factor, total) in forecast.weekday_factors.iter_mut().zip(factors.weekday) {
        *factor = total.map_or(1.0, |total| total / base);
    }
    let expected: Vec<f64> =
        days.iter().flat_map(|day| shares.iter().map(move |share| share * factors.of(day))).collect();
    let free = seen.len()
        + bins
        + usize::from(days.iter().any(|day| day.is_holiday))
        + usize::from(days.iter().any(|day| day.is_paid));
    spread(&mut forecast, counts, &expected, free, coverage);
    Ok(forecast)
}

impl Factors {
    /// The expected total of a day.
    fn of(&self, day: &Day) -> f64 {
        self.weekday[day.weekday].unwrap_or_default() * self.special(day)
    }

    fn special(&self, day: &Day) -> f64 {
        let holiday = if day.is_holiday { self.holiday } else { 1.0 };
        holiday * if day.is_paid { self.pay_day } else { 1.0 }
    }
}

/// Fits the factors of the days to their totals.
fn fit(days: &[Day]) -> Factors {
    let mut factors = Factors { weekday: [None; 7], holiday: 1.0, pay_day: 1.0 };
    for _ in 0..MOST_ROUNDS {
        let before = factors;
        for weekday in 0..7 {
            let part = |day: &&Day| day.weekday == weekday;
            factors.weekday[weekday] = ratio(days.iter().filter(part), |day| before.special(day));
        }
        let others = Factors { holiday: 1.0, ..factors };
        factors.holiday =
            ratio(days.iter().filter(|day| day.is_holiday), |day| others.of(day)).unwrap_or(1.0);
        let others = Factors { pay_day: 1.0, ..factors };
        factors.pay_day = ratio(days.iter().filter(|day| day.is_paid), |day| others.of(day)).unwrap_or(1.0);
        if factors == before {
            break;
        }
    }
    factors
}

/// What these days had in all over what was expected of them without the factor that is looked for.
fn ratio<'a>(days: impl Iterator<Item = &'a Day>, without: impl Fn(&Day) -> f64) -> Option<f64> {
    let (found, expected) =
        days.fold((0.0, 0.0), |(found, expected), day| (found + day.total, expected + without(day)));
    (expected > 0.0).then(|| found / expected)
}

/// Sets the variance beyond chance and the ends of the interval. `free`: numbers that were fitted.
fn spread(forecast: &mut Forecast, counts: &[u64], expected: &[f64], free: usize, coverage: f64) {
    let n = expected.len();
    // Residuals of a fit are smaller than those of new counts, by as much as was fitted.
    let inflation = if n > free { n as f64 / (n - free) as f64 } else { 1.0 };
    let pairs = || counts.iter().zip(expected).map(|(&count, &mean)| (count as f64, mean));
    let (mut beyond, mut squares) = (0.0, 0.0);
    for (count, mean) in pairs() {
        beyond += (count - mean) * (count - mean) * inflation - mean;
        squares += mean * mean;
    }
    forecast.spread = (beyond / squares).clamp(0.0, 100.0);
    let mut residuals: Vec<f64> = pairs()
        .filter(|&(_, mean)| mean > 0.0)
        .map(|(count, mean)| {
            (count - mean) * libm::sqrt(inflation) / libm::sqrt(mean + forecast.spread * mean * mean)
        })
        .collect();
    residuals.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| {
        let rank = share * (residuals.len() - 1) as f64;
        let (below, part) = (libm::floor(rank), rank - libm::floor(rank));
        let next = residuals[(below as usize + 1).min(residuals.len() - 1)];
        residuals[below as usize] * (1.0 - part) + next * part
    };
    forecast.low_sd = quantile((1.0 - coverage) / 2.0).clamp(-100.0, 0.0);
    forecast.high_sd = quantile(f64::midpoint(1.0, coverage)).clamp(0.0, 100.0);
}

#[cfg(test)]
#[path = "learn_tests.rs"]
mod tests;
