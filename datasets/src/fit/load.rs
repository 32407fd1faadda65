//! The load of a day and who makes it, from rates over several days and from the rates of clients.
//!
//! The shape is the mean of the even days, each point an hour about it; the odd days judge it. Days differ
//! in how much they bring (which the shape leaves out, and `days_between` tells) and in when they bring it
//! (which is the error).

use super::robust::median;
use super::solver::minimise;

/// Seconds of a day, and points of its shape.
pub const DAY_S: f64 = 86_400.0;
const POINTS: usize = 48;
/// Fewest days.
const DAYS_MIN: usize = 4;

/// The load of a day.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadFit {
    /// Points `[second of the day, rate over the mean rate]`; the last repeats the first a day later.
    pub points: Vec<(f64, f64)>,
    /// Mean rate over all days, 1/s.
    pub mean_rate_per_s: f64,
    /// Days.
    pub days: usize,
    /// Mean rate of the calmest and of the busiest day over that of all.
    pub days_between: [f64; 2],
    /// Absolute errors of the shape, percent: on the even days' own points, each day apart; then on the odd
    /// days' mean.
    pub errors: [Vec<f64>; 2],
}

/// Rates `(s, 1/s)` from the start of a day on; a part of a day at the end is left out. `None` with fewer
/// than four days, or where an hour of the day has no rate or none but 0.
pub fn fit_load(rates: &[(f64, f64)]) -> Option<LoadFit> {
    let day_of = |t_s: f64| (t_s / DAY_S) as usize;
    let last = rates.iter().map(|rate| rate.0).fold(0.0, f64::max);
    let step = rates.windows(2).map(|two| two[1].0 - two[0].0).fold(DAY_S, f64::min);
    let days = day_of(last + step);
    if days < DAYS_MIN {
        return None;
    }
    let of_day: Vec<[f64; POINTS]> = (0..days).map(|day| shape(rates, |t_s| day_of(t_s) == day)).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let means: Vec<f64> = of_day.iter().map(|points| mean(points)).collect();
    let overall = mean(&means);
    let together = |parity: usize| {
        let chosen: Vec<usize> = (0..days).filter(|day| day % 2 == parity).collect();
        let of_point = |point: usize| {
            let sum: f64 = chosen.iter().map(|&day| of_day[day][point] / means[day]).sum();
            sum / chosen.len() as f64
        };
        std::array::from_fn::<f64, POINTS, _>(of_point)
    };
    let [even, odd] = [0, 1].map(together);
    if !even.iter().chain(&odd).all(|share| share.is_finite() && *share > 0.0) {
        return None;
    }
    let off = |points: &[f64]| -> Vec<f64> {
        even.iter().zip(points).map(|(fitted, measured)| 100.0 * (fitted / measured - 1.0).abs()).collect()
    };
    let own = (0..days).step_by(2).flat_map(|day| off(&of_day[day].map(|rate| rate / means[day])));
    let mut points: Vec<(f64, f64)> =
        even.iter().enumerate().map(|(i, share)| (DAY_S / POINTS as f64 * i as f64, *share)).collect();
    points.push((DAY_S, even[0]));
    Some(LoadFit {
        points,
        mean_rate_per_s: overall,
        days,
        days_between: [
            means.iter().copied().fold(f64::INFINITY, f64::min) / overall,
            means.iter().copied().fold(0.0, f64::max) / overall,
        ],
        errors: [own.collect(), off(&odd)],
    })
}

/// Mean rate in the hour about each point of the day.
fn shape(rates: &[(f64, f64)], is_wanted: impl Fn(f64) -> bool) -> [f64; POINTS] {
    let width = DAY_S / POINTS as f64;
    let (mut sums, mut counts) = ([0.0; POINTS], [0.0; POINTS]);
    for &(t_s, rate) in rates.iter().filter(|rate| is_wanted(rate.0)) {
        let within = t_s % DAY_S / width;
        // Each rate belongs to the points before and after it: half an hour to either side.
        for point in [within as usize % POINTS, (within as usize + 1) % POINTS] {
            sums[point] += rate;
            counts[point] += 1.0;
        }
    }
    std::array::from_fn(|point| sums[point] / counts[point])
}

/// The exponent of the Zipf law that is likeliest for some rates; 0 where all are the same or there are
/// fewer than two.
pub fn zipf_exponent(rates: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = rates.iter().copied().filter(|rate| *rate > 0.0).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let whole: f64 = sorted.iter().sum();
    if sorted.len() < 2 || whole <= 0.0 {
        return 0.0;
    }
    let logs: Vec<f64> = (1..=sorted.len()).map(|rank| libm::log(rank as f64)).collect();
    let mean_log: f64 = sorted.iter().zip(&logs).map(|(rate, log)| rate / whole * log).sum();
    let unlikeliness = |point: &[f64]| {
        let sum: f64 = logs.iter().map(|log| libm::exp(-point[0] * log)).sum();
        point[0] * mean_log + libm::log(sum)
    };
    let found = minimise(&unlikeliness, &[1.0], &[0.5, -0.2, 0.05], 80);
    found.map_or(0.0, |(point, _)| point[0].max(0.0))
}

/// Median errors on the fitted and on the judging points, and the largest on the latter, percent.
pub fn summary(fit: &LoadFit) -> [f64; 3] {
    let [fitted, held_out] = [0, 1].map(|part| median(fit.errors[part].clone()));
    [fitted, held_out, fit.errors[1].iter().copied().fold(0.0, f64::max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_up(days: usize) -> Vec<(f64, f64)> {
        (0..days * 144)
            .map(|i| {
                let t_s = 600.0 * i as f64;
                let turn = std::f64::consts::TAU * t_s / DAY_S;
                (t_s, (1.0 + 0.1 * (i / 144) as f64) * (10.0 + 5.0 * libm::sin(turn)))
            })
            .collect()
    }

    #[test]
    fn a_daily_shape_is_found() {
        let fit = fit_load(&made_up(6)).unwrap();
        assert_eq!((fit.days, fit.points.len()), (6, POINTS + 1));
        let noon = fit.points.iter().find(|point| point.0 == DAY_S / 4.0).unwrap();
        assert!((noon.1 - 1.5).abs() < 0.02, "{noon:?}");
        assert!(summary(&fit)[1] < 1e-9 && fit.days_between[0] < 0.85, "{:?}", fit.days_between);
        let mean = fit.points[..POINTS].iter().map(|point| point.1).sum::<f64>() / POINTS as f64;
        assert!((mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn too_few_days_are_refused() {
        assert_eq!(fit_load(&made_up(3)), None);
        assert_eq!(fit_load(&[]), None);
    }

    #[test]
    fn the_exponent_of_a_zipf_law_is_found() {
        let rates: Vec<f64> = (1..=100).map(|rank| libm::exp(-1.3 * libm::log(f64::from(rank)))).collect();
        assert!((zipf_exponent(&rates) - 1.3).abs() < 1e-3);
        assert!(zipf_exponent(&[2.0; 50]) < 1e-2 && zipf_exponent(&[1.0]) == 0.0);
    }
}
