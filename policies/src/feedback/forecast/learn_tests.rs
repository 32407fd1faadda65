//! Tests of what is learned from past counts.

use super::*;
use crate::Moment;
use crate::moment::nanos;

const BIN_S: f64 = 1800.0;
const WEEK: [f64; 7] = [1.2, 1.1, 1.0, 1.0, 1.2, 0.8, 0.7];
const HOLIDAYS: [u32; 3] = [9, 23, 31];
const PAY_DAYS: [u32; 2] = [14, 45];

/// A small generator of the test's own, so that the counts are the same everywhere.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// A count of this mean: chance alone, as the normal law has it for the large means of this test.
    fn count(&mut self, mean: f64) -> u64 {
        (mean + libm::sqrt(mean) * self.normal()).round().max(0.0) as u64
    }
}

/// Arrivals per second at a bin of an ordinary day: two humps.
fn shape(bin: usize) -> f64 {
    let hour = bin as f64 * BIN_S / 3600.0;
    let hump = |at: f64| libm::exp(-(hour - at) * (hour - at) / 8.0);
    0.1 + hump(9.5) + 0.7 * hump(18.0)
}

fn factor(day: u32) -> f64 {
    let special = |days: &[u32], factor| if days.contains(&day) { factor } else { 1.0 };
    WEEK[(day as usize + 2) % 7] * special(&HOLIDAYS, 0.4) * special(&PAY_DAYS, 1.8)
}

/// Counts of so many days from a Wednesday on; each bin's rate also swings by a share `swing`.
fn counts(days: u32, swing: f64, seed: u64) -> Vec<u64> {
    let mut draws = Draws(seed);
    let mut counts = Vec::new();
    for day in 0..days {
        for bin in 0..48 {
            let rate = shape(bin) * factor(day) * (1.0 + swing * draws.normal()).max(0.0);
            counts.push(draws.count(rate * BIN_S));
        }
    }
    counts
}

fn history(counts: &[u64]) -> History<'_> {
    History {
        bin_s: BIN_S,
        counts,
        first_weekday: 2,
        holidays: &HOLIDAYS,
        pay_days: &PAY_DAYS,
        coverage: 0.9,
    }
}

#[test]
fn exact_counts_are_recovered_exactly() {
    let counts: Vec<u64> = (0..56)
        .flat_map(|day| (0..48).map(move |bin| (shape(bin) * factor(day) * 1e9).round() as u64))
        .collect();
    let forecast = learn(&history(&counts)).unwrap();
    let mean = WEEK.iter().sum::<f64>() / 7.0;
    for (found, known) in forecast.weekday_factors.iter().zip(WEEK) {
        assert!((found - known / mean).abs() < 1e-6, "{found} for {}", known / mean);
    }
    assert!((forecast.holiday_factor - 0.4).abs() < 1e-6 && (forecast.pay_day_factor - 1.8).abs() < 1e-6);
    for (bin, &(_, rate)) in forecast.profile.iter().enumerate() {
        assert!((rate * BIN_S / 1e9 / (shape(bin) * mean) - 1.0).abs() < 1e-6);
    }
    assert!(forecast.spread < 1e-9);
}

/// The means over twelve histories. One history errs by 0.6 % for a weekday and by 1.3 % for two or three
/// special days (a simulation apart from this code); the bounds are four standard errors of the mean.
#[test]
fn noisy_counts_give_the_factors_and_the_swing() {
    const HISTORIES: u64 = 12;
    let (mut errors, mut swing) = ([0.0; 9], 0.0);
    let mean = WEEK.iter().sum::<f64>() / 7.0;
    for seed in 0..HISTORIES {
        let forecast = learn(&history(&counts(56, 0.1, seed))).unwrap();
        let found =
            forecast.weekday_factors.into_iter().chain([forecast.holiday_factor, forecast.pay_day_factor]);
        let known = WEEK.into_iter().map(|factor| factor / mean).chain([0.4, 1.8]);
        for ((error, found), known) in errors.iter_mut().zip(found).zip(known) {
            *error += (found / known - 1.0) / HISTORIES as f64;
        }
        swing += libm::sqrt(forecast.spread) / HISTORIES as f64;
    }
    assert!(errors[..7].iter().all(|error| error.abs() < 0.007), "{errors:?}");
    assert!(errors[7..].iter().all(|error| error.abs() < 0.015), "{errors:?}");
    assert!((swing - 0.1).abs() < 0.005, "{swing}");
}

/// The interval holds its share of counts that it has not seen.
#[test]
fn the_interval_covers_days_to_come() {
    for (swing, seed) in [(0.0, 2), (0.1, 3), (0.25, 4)] {
        let all = counts(112, swing, seed);
        let (past, future) = all.split_at(56 * 48);
        let forecast = Forecast { start_weekday: 2, ..learn(&history(past)).unwrap() };
        let inside = future.iter().enumerate().filter(|&(index, &count)| {
            let at = (56 * 48 + index) as f64 * BIN_S;
            let (low, high) = forecast.interval(forecast.rate_per_s(Moment(nanos(at))));
            (low..=high).contains(&(count as f64 / BIN_S))
        });
        let share = inside.count() as f64 / future.len() as f64;
        assert!((share - 0.9).abs() < 0.03, "with a swing of {swing}: {share}");
    }
}

#[test]
fn one_day_is_enough_for_a_profile() {
    let counts = counts(1, 0.0, 5);
    let forecast = learn(&history(&counts)).unwrap();
    assert_eq!(forecast.weekday_factors, [1.0; 7]);
    assert_eq!((forecast.holiday_factor, forecast.pay_day_factor), (1.0, 1.0));
    let first = forecast.rate_per_s(Moment::ZERO) * BIN_S;
    assert!((first - counts[0] as f64).abs() < 1e-9);
}

#[test]
fn what_cannot_be_learned_from_is_refused() {
    let counts = [1, 2, 3];
    assert!(matches!(learn(&history(&counts)), Err(LearnError::TooShort { found: 3, needed: 48 })));
    assert!(matches!(learn(&History { bin_s: 7.0, ..history(&counts) }), Err(LearnError::Bins { .. })));
    assert!(matches!(learn(&History { bin_s: f64::NAN, ..history(&counts) }), Err(LearnError::Bins { .. })));
    assert!(matches!(
        learn(&History { coverage: 1.0, ..history(&counts) }),
        Err(LearnError::Coverage { .. })
    ));
    assert!(matches!(learn(&history(&[0; 48])), Err(LearnError::Empty)));
}
