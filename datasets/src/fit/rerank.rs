//! Rerank time: base + per document, and the law of what is left.

use super::families::{Effort, LawError, LawFit, fit_law};
use super::robust::{Estimate, median, regress};

/// A fitted line of batch times.
#[derive(Clone, Debug, PartialEq)]
pub struct RerankFit {
    /// Time of a batch without documents, s.
    pub base_s: Estimate,
    /// Added per document, s.
    pub per_document_s: Estimate,
    /// The factor on the line: measured over fitted time, of mean 1.
    pub residual: Option<LawFit>,
    /// Rows that are outliers of the line.
    pub outliers: usize,
    /// Batches fitted, and batches that judged.
    pub batches: [usize; 2],
    /// Median absolute error, percent, on the two.
    pub errors: [f64; 2],
    /// The largest on the second.
    pub held_out_worst: f64,
    /// Smallest and largest batch measured, documents.
    pub documents: [f64; 2],
}

/// Fewest batches.
const BATCHES_MIN: usize = 8;

/// Fits batches `(documents, seconds)`, in the order in which they were measured: of the batches that
/// share a size every second one judges, and of sizes measured but once every second size.
///
/// # Errors
/// Too few batches, or numbers that are not positive.
pub fn fit_rerank(batches: &[(f64, f64)], effort: Effort) -> Result<RerankFit, LawError> {
    if batches.len() < BATCHES_MIN {
        return Err(LawError::TooFew { found: batches.len() });
    }
    let sound = |value: f64| value.is_finite() && value > 0.0;
    if let Some(place) = batches.iter().position(|&(documents, s)| !sound(documents) || !sound(s)) {
        let (documents, s) = batches[place];
        return Err(LawError::Value {
            place: place + 1,
            found: if sound(documents) { s } else { documents },
        });
    }
    // By size, and within a size as measured: neighbours alternate.
    let mut sorted = batches.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitted: Vec<(f64, f64)> = sorted.iter().copied().step_by(2).collect();
    let others: Vec<(f64, f64)> = sorted.iter().copied().skip(1).step_by(2).collect();
    let basis: Vec<Vec<f64>> = fitted.iter().map(|(documents, _)| vec![1.0, *documents]).collect();
    let values: Vec<f64> = fitted.iter().map(|batch| batch.1).collect();
    let line = regress(&basis, &values, &values).ok_or(LawError::None)?;
    let at = |documents: f64| line.at(&[1.0, documents]);
    let errors = |batches: &[(f64, f64)]| -> Vec<f64> {
        batches.iter().map(|&(documents, s)| 100.0 * (at(documents) / s - 1.0).abs()).collect()
    };
    let ratios: Vec<f64> = sorted.iter().map(|&(documents, s)| s / at(documents)).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let ratios: Vec<f64> = ratios.iter().map(|ratio| ratio / mean).collect();
    let held_out = errors(&others);
    Ok(RerankFit {
        base_s: line.coefficients[0],
        per_document_s: line.coefficients[1],
        residual: fit_law(&ratios, effort).ok(),
        outliers: line.used.iter().filter(|used| !**used).count(),
        batches: [fitted.len(), others.len()],
        errors: [median(errors(&fitted)), median(held_out.clone())],
        held_out_worst: held_out.iter().copied().fold(0.0, f64::max),
        documents: [sorted[0].0, sorted[sorted.len() - 1].0],
    })
}

#[cfg(test)]
mod tests {
    use super::super::coverage::{about_95_in_100, noise};
    use super::*;
    use forebay_engine::Stream;

    const QUICK: Effort = Effort { draws: 20, values: 100 };

    fn made_up(trial: u64) -> Vec<(f64, f64)> {
        let mut stream = Stream::new(41, trial, "rerank", 0);
        let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
        (0..64)
            .map(|i| {
                let documents: f64 = sizes[i % 8];
                (documents, (0.004 + 0.0015 * documents) * libm::exp(0.03 * noise(&mut stream)))
            })
            .collect()
    }

    #[test]
    fn a_line_is_found_with_its_scatter() {
        let mut batches = made_up(0);
        batches[9].1 *= 6.0;
        let fit = fit_rerank(&batches, QUICK).unwrap();
        assert!((fit.base_s.value / 0.004 - 1.0).abs() < 0.05 && fit.errors[1] < 4.0, "{fit:?}");
        assert_eq!((fit.batches, fit.documents), ([32, 32], [1.0, 128.0]));
        assert!(fit.residual.is_some());
    }

    #[test]
    fn intervals_hold_the_truth_95_times_in_100() {
        let fits: Vec<RerankFit> = (1..=300)
            .map(|trial| fit_rerank(&made_up(trial), Effort { draws: 2, values: 20 }).unwrap())
            .collect();
        about_95_in_100(300, |trial| fits[trial as usize].base_s.holds(0.004));
        about_95_in_100(300, |trial| fits[trial as usize].per_document_s.holds(0.0015));
    }

    #[test]
    fn wrong_batches_are_refused() {
        assert!(fit_rerank(&[(1.0, 0.1); 3], QUICK).is_err());
        assert!(fit_rerank(&[(0.0, 0.1); 9], QUICK).is_err());
        assert!(fit_rerank(&[(1.0, -0.1); 9], QUICK).is_err());
    }
}
