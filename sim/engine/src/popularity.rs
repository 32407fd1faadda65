//! Who is chosen how often: a fixed set of items with weights, drawn in constant time.
//!
//! Walker's alias table, from `rand_distr`, takes two numbers and two look-ups however many items
//! there are; it is additions and comparisons only, hence the same on every machine. (Zipf by
//! rejection costs ten times as much a draw, and calls powers whose last bit depends on the build.)

use rand::Rng;
use rand::distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;

use crate::distribution::DistError;

/// Items `0..len`, each with its share of the draws.
#[derive(Clone, Debug)]
pub struct Popularity {
    table: WeightedAliasIndex<f64>,
    shares: Vec<f64>,
}

impl Popularity {
    /// Zipf: item `i` of `n` has weight `(i + 1)^-exponent`; exponent 0 makes all alike.
    ///
    /// # Errors
    /// When `n` is 0 or more than 2^32 - 1, or `exponent` is not within 0 and 20.
    pub fn zipf(n: usize, exponent: f64) -> Result<Self, DistError> {
        if !(0.0..=20.0).contains(&exponent) {
            let allowed = "0 to 20".into();
            return Err(DistError::OutOfRange { field: "exponent".into(), found: exponent, allowed });
        }
        let weight = |item: usize| libm::pow((item + 1) as f64, -exponent);
        Self::new((0..n).map(weight).collect())
    }

    /// Items with these weights, which need not add up to 1.
    ///
    /// # Errors
    /// When there is none or more than 2^32 - 1, one is negative or not finite, or all are 0.
    pub fn weights(weights: &[f64]) -> Result<Self, DistError> {
        Self::new(weights.to_vec())
    }

    fn new(weights: Vec<f64>) -> Result<Self, DistError> {
        if weights.is_empty() {
            return Err(DistError::TooFew { field: "weights".into(), found: 0, least: 1 });
        }
        if let Some(at) = weights.iter().position(|weight| !(0.0..f64::INFINITY).contains(weight)) {
            return Err(DistError::OutOfRange {
                field: format!("weights[{at}]").into(),
                found: weights[at],
                allowed: "a finite number, 0 or more".into(),
            });
        }
        let total: f64 = weights.iter().sum();
        // What is left to refuse: a total of 0, one that overflows, more items than the table's index
        // can name.
        let refused = DistError::OutOfRange {
            field: "weights".into(),
            found: total,
            allowed: "a finite total above 0, over at most 2^32 - 1 items".into(),
        };
        if !(total > 0.0 && total.is_finite()) {
            return Err(refused);
        }
        let shares = weights.iter().map(|weight| weight / total).collect();
        let table = WeightedAliasIndex::new(weights).map_err(|_| refused)?;
        Ok(Self { table, shares })
    }

    /// Chooses an item.
    #[inline]
    pub fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> usize {
        self.table.sample(rng)
    }

    /// The share of draws that choose `item`; 0 when there is no such item.
    pub fn share(&self, item: usize) -> f64 {
        self.shares.get(item).copied().unwrap_or(0.0)
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// Never: a popularity has at least one item.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    #[test]
    fn draws_follow_the_shares() {
        let zipf = Popularity::zipf(50, 1.1).unwrap();
        let mut stream = Stream::new(1, 0, "popularity", 0);
        let mut counts = vec![0_u32; zipf.len()];
        let n = 200_000;
        for _ in 0..n {
            counts[zipf.draw(&mut stream)] += 1;
        }
        let chi_square: f64 = counts
            .iter()
            .enumerate()
            .map(|(item, &count)| {
                let expected = f64::from(n) * zipf.share(item);
                (f64::from(count) - expected) * (f64::from(count) - expected) / expected
            })
            .sum();
        // The 99.9th percentile of chi square with 49 degrees of freedom is 85.4.
        assert!(chi_square < 85.4, "chi square {chi_square}");
        assert!((zipf.share(0) / zipf.share(9) - libm::pow(10.0, 1.1)).abs() < 1e-9);
    }

    #[test]
    fn weights_of_zero_are_never_drawn() {
        let choice = Popularity::weights(&[0.0, 3.0, 0.0, 1.0]).unwrap();
        assert_eq!((choice.share(1), choice.share(2), choice.share(9)), (0.75, 0.0, 0.0));
        let mut stream = Stream::new(1, 0, "choice", 0);
        assert!((0..1000).all(|_| choice.draw(&mut stream) % 2 == 1));
    }

    #[test]
    fn mistakes_are_named() {
        let message = |result: Result<Popularity, DistError>| result.unwrap_err().to_string();
        assert_eq!(message(Popularity::weights(&[])), "`weights` has 0 entries, at least 1 are needed");
        assert_eq!(
            message(Popularity::weights(&[1.0, f64::NAN])),
            "`weights[1]` is NaN, allowed is a finite number, 0 or more"
        );
        assert!(message(Popularity::weights(&[0.0, 0.0])).starts_with("`weights` is 0, allowed is"));
        assert!(message(Popularity::zipf(5, -1.0)).starts_with("`exponent` is -1, allowed is"));
        assert!(Popularity::weights(&[1e308, 1e308]).is_err());
    }
}
