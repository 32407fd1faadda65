//! Which requests are followed: so many, evenly over all births, without knowing how many there will be.
//!
//! Every request is followed at first. Whenever twice as many as wanted are held, every second one is let
//! go, and from then on only every second, fourth, eighth ... birth begins to be followed. What is left at
//! the end lies between once and twice the number wanted, evenly spaced, and is thinned to it.
//!
//! A hash of the number of the request was rejected: it leaves gaps as long as chance will have them, and
//! needs the number of births beforehand all the same.

use std::collections::BTreeMap;

/// Follows every n-th birth.
#[derive(Clone, Debug)]
pub(super) struct Stride {
    wanted: usize,
    every: u64,
}

impl Stride {
    pub(super) fn new(wanted: u32) -> Self {
        Self { wanted: wanted as usize, every: 1 }
    }

    /// Whether the request with this number is followed.
    pub(super) fn takes(&self, request: u64) -> bool {
        self.wanted > 0 && request.is_multiple_of(self.every)
    }

    /// Lets go of every second one when there are twice as many as wanted; says whether it did.
    pub(super) fn thin<T>(&mut self, held: &mut BTreeMap<u64, T>) -> bool {
        let full = held.len() >= 2 * self.wanted.max(1);
        if full {
            self.every = self.every.saturating_mul(2);
            held.retain(|request, _| request.is_multiple_of(self.every));
        }
        full
    }

    /// Of those held at the end, as many as are wanted, evenly.
    pub(super) fn choose<T>(&self, held: BTreeMap<u64, T>) -> Vec<T> {
        let (all, wanted) = (held.len(), self.wanted);
        let mut chosen = 0;
        held.into_values()
            .enumerate()
            .filter(|(index, _)| {
                // The k-th chosen is the first at or after its even share.
                let fits = all <= wanted || *index * wanted >= chosen * all;
                chosen += usize::from(fits);
                fits
            })
            .map(|(_, value)| value)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn followed(wanted: u32, births: u64) -> Vec<u64> {
        let mut stride = Stride::new(wanted);
        let mut held = BTreeMap::new();
        for request in 0..births {
            if stride.takes(request) {
                held.insert(request, request);
                stride.thin(&mut held);
            }
            assert!(held.len() < 2 * wanted as usize, "memory is bounded");
        }
        stride.choose(held)
    }

    proptest! {
        #[test]
        fn as_many_as_wanted_evenly_from_the_first(wanted in 1_u32..40, births in 0_u64..3000) {
            let chosen = followed(wanted, births);
            prop_assert_eq!(chosen.len() as u64, births.min(u64::from(wanted)));
            prop_assert!(births == 0 || chosen[0] == 0);
            let gaps: Vec<u64> = chosen.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let (least, most) = (gaps.iter().min(), gaps.iter().max());
            if let (Some(least), Some(most)) = (least, most) {
                prop_assert!(*least > 0 && *most <= 2 * least, "{gaps:?}");
                // The last stretch is covered like all others.
                prop_assert!(births - chosen[chosen.len() - 1] <= 2 * most);
            }
        }
    }

    #[test]
    fn nothing_wanted_is_nothing_followed() {
        assert!(!Stride::new(0).takes(0));
    }
}
