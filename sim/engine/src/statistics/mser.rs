//! Where the warm-up of a run ends.

const BATCH: usize = 5;
/// The statistic of the last few batches is small by chance; they do not compete.
const LEAST_BATCHES: usize = 5;

/// The index at which to cut a series so that the mean of the rest has the smallest estimated error:
/// MSER-5 (White, "An effective truncation heuristic for bias reduction in simulation output",
/// Simulation 69, 1997; White, Cobb and Spratt 2000 for the batches of five).
///
/// Batches of five are averaged; the cut minimises the variance of those kept over their number. The
/// index is a multiple of five, 0 for series too short to judge. A cut past half the series means
/// that the run was too short for its warm-up: warn and run longer.
pub fn mser5(series: &[f64]) -> usize {
    let batches: Vec<f64> =
        series.chunks_exact(BATCH).map(|batch| batch.iter().sum::<f64>() / BATCH as f64).collect();
    // From the end backwards, so that each cut adds one batch to what is kept.
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    let (mut best, mut least) = (0, f64::INFINITY);
    for (cut, &value) in batches.iter().enumerate().rev() {
        count += 1.0;
        let off = value - mean;
        mean += off / count;
        squares += off * (value - mean);
        let statistic = squares / (count * count);
        // An earlier cut that is as good keeps more.
        if batches.len() - cut >= LEAST_BATCHES && statistic <= least {
            least = statistic;
            best = cut;
        }
    }
    best * BATCH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    #[test]
    fn finds_the_end_of_a_transient() {
        let mut stream = Stream::new(5, 0, "noise", 0);
        let series: Vec<f64> =
            (0..2000).map(|n| 10.0 - 10.0 * libm::exp(-f64::from(n) / 50.0) + stream.uniform()).collect();
        let cut = mser5(&series);
        assert_eq!(cut % 5, 0);
        assert!((100..400).contains(&cut), "{cut}");
    }

    #[test]
    fn a_series_without_transient_is_kept() {
        assert_eq!(mser5(&[3.0; 500]), 0);
        let mut stream = Stream::new(6, 0, "noise", 0);
        let series: Vec<f64> = (0..2000).map(|_| stream.uniform()).collect();
        assert!(mser5(&series) < 1000);
    }

    #[test]
    fn a_run_that_never_settles_is_cut_past_its_half() {
        let series: Vec<f64> = (0..1000).map(f64::from).collect();
        assert!(mser5(&series) > 500);
    }

    #[test]
    fn short_series_are_left_alone() {
        assert_eq!(mser5(&[]), 0);
        assert_eq!(mser5(&[9.0, 1.0, 1.0, 1.0]), 0);
        assert_eq!(mser5(&[9.0; 24]), 0);
    }
}
