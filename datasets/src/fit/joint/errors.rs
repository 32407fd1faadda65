//! Standard errors, by drawing stretches of the log anew.
//!
//! Requests that share a batch are off together, so that whole stretches of consecutive requests are drawn,
//! with replacement, and the linear model around the fit is fitted to each draw. What a fit cannot resolve
//! (a simulated latency is a step in the coefficients) is added.

use rayon::prelude::*;

use super::linear::least_deviations;
use super::search::{Slopes, Target};
use super::space::Space;

/// Draws.
const DRAWS: u64 = 200;
/// Requests of a stretch at least, and stretches at most.
const STRETCH_MIN: usize = 5;
const STRETCHES_MAX: usize = 30;

/// Standard error of each axis, in its unit, and by what to multiply it for 95 % on both sides.
pub(super) fn standard_errors(target: &Target, space: &Space, place: &[f64], at: &Slopes) -> (Vec<f64>, f64) {
    let requests = at.deviations.len();
    let stretches = (requests / STRETCH_MIN).clamp(2, STRETCHES_MAX);
    let bound = |low: bool| -> Vec<f64> {
        let axes = space.axes.iter().zip(place);
        // Free to both sides, also where the fit lies at a bound: how far it could be is what is asked.
        axes.map(|(axis, _)| if low { -axis.high } else { axis.high }).collect()
    };
    let (low, high) = (bound(true), bound(false));
    let steps: Vec<Vec<f64>> = (0..DRAWS)
        .into_par_iter()
        .map(|draw| {
            let mut state = draw.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1;
            let mut counts = vec![0.0; stretches];
            for _ in 0..stretches {
                counts[(mixed(&mut state) % stretches as u64) as usize] += 1.0;
            }
            let rows = target.rows(at, &|index| counts[index * stretches / requests]);
            least_deviations(&rows, &low, &high)
        })
        .collect();
    // A draw of few stretches varies less than the log does.
    let small = (stretches as f64 / (stretches as f64 - 1.0)).sqrt();
    let errors = (0..place.len()).map(|axis| {
        let mean = steps.iter().map(|step| step[axis]).sum::<f64>() / DRAWS as f64;
        let squares = steps.iter().map(|step| (step[axis] - mean).powi(2)).sum::<f64>();
        small * (squares / (DRAWS - 1) as f64).sqrt()
    });
    // Student's factor for 95 %, to a hundredth above eight degrees of freedom.
    let freedom = (stretches - 1) as f64;
    (errors.collect(), 1.96 + 2.4 / freedom + 2.8 / (freedom * freedom))
}

/// The next of a series of numbers without pattern (`SplitMix64`).
fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
