//! Kolmogorov and Smirnov's distance, and what it is worth where parameters were fitted.

use forebay_engine::{Sampler, Stream};

use super::likelihood::{Candidate, Values, best_of};

/// Largest difference between a law's distribution function and that of a sample.
pub fn distance(sampler: &Sampler, values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let mut largest = 0.0_f64;
    let mut from = 0;
    while from < sorted.len() {
        // Values that are the same count at once: lengths are whole numbers.
        let to = from + sorted[from..].partition_point(|value| *value <= sorted[from]);
        let law = sampler.cdf(sorted[from]);
        largest = largest.max((law - from as f64 / n).abs()).max((law - to as f64 / n).abs());
        from = to;
    }
    largest
}

/// Samples of a law, each with the law of the same family that is likeliest for it.
pub(super) struct Drawn {
    /// Distances between the two.
    pub(super) distances: Vec<f64>,
    /// Parameters of the second.
    pub(super) parameters: Vec<Vec<f64>>,
}

pub(super) fn draw_and_refit(
    law: &Candidate,
    sampler: &Sampler,
    values: usize,
    draws: usize,
    stream: &mut Stream,
) -> Drawn {
    let mut found = Drawn { distances: Vec::new(), parameters: Vec::new() };
    for _ in 0..draws {
        let sample: Vec<f64> = (0..values).map(|_| sampler.at(stream.uniform())).collect();
        let refitted = best_of(&Values::new(&sample), &[law.family]);
        let Some(refitted) = refitted.first() else { continue };
        let Ok(sampler) = refitted.dist.sampler() else { continue };
        found.distances.push(distance(&sampler, &sample));
        found.parameters.push(refitted.parameters.iter().map(|(_, value)| *value).collect());
    }
    found
}
