//! Nearly independent values out of one long, correlated series.

/// The means of `batches` equal, consecutive pieces of the series. Observations that do not fill the
/// pieces are left out at the beginning, where the warm-up is. Empty when the series is shorter than
/// `batches`, or `batches` is 0.
///
/// Once pieces are much longer than the correlation in the series, their means are nearly independent
/// and normal, and [`Interval::of`](super::Interval::of) applies to them. 20 to 30 pieces are usual.
pub fn batch_means(series: &[f64], batches: usize) -> Vec<f64> {
    if batches == 0 || series.len() < batches {
        return Vec::new();
    }
    let size = series.len() / batches;
    series[series.len() - size * batches..]
        .chunks_exact(size)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_equal_pieces_of_the_end() {
        assert_eq!(batch_means(&[9.0, 1.0, 3.0, 5.0, 7.0], 2), [2.0, 6.0]);
        assert_eq!(batch_means(&[1.0, 2.0], 2), [1.0, 2.0]);
    }

    #[test]
    fn too_little_gives_nothing() {
        assert!(batch_means(&[1.0], 2).is_empty());
        assert!(batch_means(&[1.0], 0).is_empty());
        assert!(batch_means(&[], 1).is_empty());
    }
}
