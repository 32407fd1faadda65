//! How long the service needs to be itself again after a surge or a fault.
//!
//! A disturbance is a microburst, a Poisson source that comes and goes, the rise of a profile to its
//! peak, or a fault. Its end is the end of the burst, of the source, of the fault, or the last moment of
//! the peak. The level before is taken between the warm-up and the first disturbance. The service has
//! recovered at the first moment after the end from which, over [`STEPS`] steps of the timeline together,
//! the share of errors is at most [`ERROR_MARGIN`] above the level before, and the mean latency of answers
//! at most [`LATENCY_FACTOR`] times it. The time from the end to that moment is the recovery; of several
//! disturbances the longest counts. It is as fine as the timeline's step.

use crate::scenario::{Scenario, Source};
use crate::timeline::Point;

/// Steps of the timeline that are judged together.
const STEPS: usize = 5;
/// Errors above the level before that count as recovered, as a share.
const ERROR_MARGIN: f64 = 0.01;
/// Latency that counts as recovered, as a multiple of the level before.
const LATENCY_FACTOR: f64 = 1.2;
/// A profile's peak is a surge if it is so many times the rate from which it rises.
const SURGE: f64 = 1.5;
/// Of repeated disturbances so many are looked at.
const MOST: usize = 1000;

const NONE: &str = "the scenario has no fault or surge to recover from";
const NO_BEFORE: &str = "nothing ended between the warm-up and the first fault or surge";
const NOT_YET: &str = "the service had not recovered when the run ended";

/// Why a scenario can have no recovery; `None`: it may have one.
pub(super) fn missing(scenario: &Scenario) -> Option<&'static str> {
    disturbances(scenario).is_empty().then_some(NONE)
}

/// The longest recovery, in seconds, or why there is none.
pub(super) fn recovery_s(scenario: &Scenario, timeline: &[Point]) -> Result<f64, &'static str> {
    let disturbances = disturbances(scenario);
    let first = disturbances.iter().map(|&(from, _)| from).fold(f64::INFINITY, f64::min);
    if first.is_infinite() {
        return Err(NONE);
    }
    let warmup_s = scenario.run.warmup_s;
    let step = timeline.first().map_or(0.0, |point| point.t_s);
    let before = timeline.iter().filter(|point| point.t_s - step >= warmup_s && point.t_s <= first);
    let before = Level::of(before).ok_or(NO_BEFORE)?;
    let mut longest = 0.0_f64;
    for (_, until) in disturbances {
        longest = longest.max(recovered(&before, timeline, until, step).ok_or(NOT_YET)?);
    }
    Ok(longest)
}

/// What some steps of the timeline were like together.
#[derive(Clone, Copy, Debug)]
struct Level {
    errors: f64,
    /// Mean latency of the answers; none: nothing was answered.
    latency_s: Option<f64>,
}

impl Level {
    /// `None`: nothing ended.
    fn of<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Self> {
        let (mut answered, mut errors, mut latency_s) = (0, 0, 0.0);
        for point in points {
            let here = point.answers();
            answered += here;
            errors += point.rejected + point.lost;
            latency_s += here as f64 * point.latency_mean_s;
        }
        let ended = answered + errors;
        (ended > 0).then(|| Self {
            errors: errors as f64 / ended as f64,
            latency_s: (answered > 0).then(|| latency_s / answered as f64),
        })
    }

    fn is_like(&self, before: &Self) -> bool {
        let as_fast = match (self.latency_s, before.latency_s) {
            (Some(now), Some(before)) => now <= LATENCY_FACTOR * before,
            (_, None) => true,
            (None, Some(_)) => false,
        };
        as_fast && self.errors <= before.errors + ERROR_MARGIN
    }
}

/// Time from `until` to the first moment from which the service is as before.
fn recovered(before: &Level, timeline: &[Point], until: f64, step: f64) -> Option<f64> {
    let first = timeline.partition_point(|point| point.t_s <= until);
    (first..(timeline.len() + 1).saturating_sub(STEPS)).find_map(|index| {
        let level = Level::of(timeline[index..index + STEPS].iter())?;
        let begins = timeline[index].t_s - step;
        level.is_like(before).then(|| (begins - until).max(0.0))
    })
}

/// Begin and end of each disturbance that ends within the run, in seconds.
fn disturbances(scenario: &Scenario) -> Vec<(f64, f64)> {
    let duration_s = scenario.run.duration_s;
    let mut found = Vec::new();
    for source in scenario.workload.sources.values() {
        match source {
            Source::Poisson { rate_per_s, from_s, to_s, .. } if *rate_per_s > 0.0 && *from_s > 0.0 => {
                found.extend(to_s.map(|to_s| (*from_s, to_s)));
            }
            Source::Microburst { at_s, within_s, every_s, .. } => {
                found.extend(repeated((*at_s, at_s + within_s), *every_s, duration_s));
            }
            Source::Profile { points, repeat_s, .. } => {
                found.extend(peak(points).into_iter().flat_map(|p| repeated(p, *repeat_s, duration_s)));
            }
            _ => {}
        }
    }
    found.extend(
        scenario.faults.values().map(|fault| (fault.from_s(), fault.to_s().unwrap_or(fault.from_s()))),
    );
    found.retain(|&(from, until)| from > 0.0 && until < duration_s);
    found
}

fn repeated(
    (from, until): (f64, f64),
    every_s: Option<f64>,
    duration_s: f64,
) -> impl Iterator<Item = (f64, f64)> {
    let times = every_s.map_or(1, |_| MOST);
    let at = move |k: usize| every_s.unwrap_or(0.0) * k as f64;
    (0..times).map(move |k| (from + at(k), until + at(k))).take_while(move |&(from, _)| from < duration_s)
}

/// The rise of a profile to its highest rate: where it begins, and the last moment of the peak.
fn peak(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let most = points.iter().map(|&(_, rate)| rate).fold(0.0, f64::max);
    let top = points.iter().position(|&(_, rate)| rate == most)?;
    // From the peak back to where the rate no longer falls.
    let foot = (1..=top).rev().find(|&i| points[i - 1].1 >= points[i].1).unwrap_or(0);
    let last = points[top..].iter().take_while(|&&(_, rate)| rate == most).last()?;
    (most >= SURGE * points[foot].1 && foot < top).then_some((points[foot].0, last.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(second: u32, latency_mean_s: f64, rejected: u64) -> Point {
        let t_s = f64::from(second);
        Point { t_s, answered: [10, 0, 0, 0], rejected, latency_mean_s, ..Point::default() }
    }

    const BEFORE: Level = Level { errors: 0.0, latency_s: Some(1.0) };

    #[test]
    fn the_service_has_recovered_when_errors_and_latency_are_as_before() {
        let slow = |second: u32| if (20..=34).contains(&second) { 3.0 } else { 1.1 };
        let errors = |second: u32| if (20..=41).contains(&second) { 5 } else { 0 };
        let timeline: Vec<_> = (1..=100).map(|second| point(second, slow(second), errors(second))).collect();
        // The last second with errors is the 42nd: steps that begin at 41 s and later are without.
        assert_eq!(recovered(&BEFORE, &timeline, 25.0, 1.0), Some(16.0));
        assert_eq!(recovered(&BEFORE, &timeline, 60.0, 1.0), Some(0.0));
        assert_eq!(recovered(&BEFORE, &timeline[..44], 25.0, 1.0), None);
    }

    #[test]
    fn nobody_answered_is_no_recovery() {
        let silent = Point { rejected: 0, lost: 1, ..Point::default() };
        let timeline: Vec<_> = (1..=20_u32).map(|s| Point { t_s: f64::from(s), ..silent }).collect();
        assert_eq!(recovered(&BEFORE, &timeline, 5.0, 1.0), None);
    }

    #[test]
    fn answers_from_a_cache_are_answers() {
        let of = |second: u32, answered, cached, latency_mean_s| Point {
            t_s: f64::from(second),
            answered: [answered, 0, 0, 0],
            cached,
            latency_mean_s,
            ..Point::default()
        };
        let all_cached: Vec<_> = (1..=20).map(|second| of(second, 0, 10, 0.02)).collect();
        assert_eq!(recovered(&BEFORE, &all_cached, 5.0, 1.0), Some(0.0));
        let half = Level::of([of(1, 5, 5, 0.6)].iter()).expect("something ended");
        assert_eq!((half.errors, half.latency_s), (0.0, Some(0.6)));
    }

    #[test]
    fn a_profiles_surge_is_its_rise_to_the_peak() {
        let points = [(0.0, 10.0), (60.0, 12.0), (100.0, 10.0), (110.0, 40.0), (150.0, 40.0), (160.0, 10.0)];
        assert_eq!(peak(&points), Some((100.0, 150.0)));
        assert_eq!(peak(&[(0.0, 10.0), (50.0, 14.0)]), None);
        assert_eq!(peak(&[(0.0, 10.0)]), None);
        assert_eq!(peak(&[(0.0, 40.0), (9.0, 10.0)]), None);
    }

    #[test]
    fn repeated_bursts_are_all_looked_at() {
        let bursts: Vec<_> = repeated((10.0, 11.0), Some(20.0), 60.0).collect();
        assert_eq!(bursts, [(10.0, 11.0), (30.0, 31.0), (50.0, 51.0)]);
        assert_eq!(repeated((10.0, 11.0), None, 60.0).count(), 1);
    }
}
