//! One of several distributions, chosen by weight; the hyperexponential is a mixture of exponentials.
//!
//! A draw takes one number for the choice and then draws from the chosen part. The quantile function
//! has no closed form; it is found by halving.

use rand::Rng;

use super::check::{finite, positive, weights};
use super::exponential::Exponential;
use super::{Below, Law, Shape, nested};
use crate::distribution::{DistError, Part, Phase, Sampler};
use crate::stream::unit;

#[derive(Clone, Debug)]
pub(crate) struct Mixture {
    parts: Vec<Component>,
}

#[derive(Clone, Debug)]
struct Component {
    weight: f64,
    /// The weights up to and with this one; of the last, exactly 1.
    up_to: f64,
    law: Sampler,
}

impl Mixture {
    pub(super) fn from_parts(parts: &[Part]) -> Result<Self, DistError> {
        weights("parts", parts.iter().map(|part| part.weight))?;
        let laws = parts.iter().enumerate().map(|(at, part)| {
            let law = nested(&format!("parts[{at}].dist"), &part.dist)?;
            Ok((part.weight, law))
        });
        Ok(Self::new(laws.collect::<Result<_, DistError>>()?))
    }

    /// From `phases`, or from `mean` and `cv` as two phases with balanced means: each phase
    /// contributes half of the mean, which fixes the third of three parameters.
    pub(super) fn hyperexponential(
        phases: Option<&[Phase]>,
        mean: Option<f64>,
        cv: Option<f64>,
    ) -> Result<Self, DistError> {
        let exponential = |mean: f64| Sampler::new(Law::Exponential(Exponential::new(mean)));
        match (phases, mean, cv) {
            (Some(phases), None, None) => {
                weights("phases", phases.iter().map(|phase| phase.weight))?;
                let laws = phases.iter().enumerate().map(|(at, phase)| {
                    let mean = positive(format!("phases[{at}].mean"), phase.mean)?;
                    Ok((phase.weight, exponential(mean)))
                });
                Ok(Self::new(laws.collect::<Result<_, DistError>>()?))
            }
            (None, Some(mean), Some(cv)) => {
                let mean = positive("mean", mean)?;
                let cv = finite("cv", cv, "1 to 1000", |cv| (1.0..=1000.0).contains(&cv))?;
                let square = cv * cv;
                let lean = ((square - 1.0) / (square + 1.0)).sqrt();
                // (1 - lean) / 2 without the cancellation at large cv.
                let rare = 1.0 / ((square + 1.0) * (1.0 + lean));
                let common = 1.0 - rare;
                Ok(Self::new(vec![
                    (common, exponential(0.5 * mean / common)),
                    (rare, exponential(0.5 * mean / rare)),
                ]))
            }
            _ => {
                let mut found = vec![];
                found.extend(phases.map(|_| "phases"));
                found.extend(mean.map(|_| "mean"));
                found.extend(cv.map(|_| "cv"));
                let found = if found.is_empty() { "no parameters".to_owned() } else { found.join(", ") };
                let kind = "hyperexponential".into();
                Err(DistError::Choice { kind, found: found.into(), allowed: "phases; mean and cv" })
            }
        }
    }

    /// Weights are at least 0 and 1 together; parts that never happen are left out.
    fn new(laws: Vec<(f64, Sampler)>) -> Self {
        let total: f64 = laws.iter().map(|(weight, _)| weight).sum();
        let mut up_to = 0.0;
        let mut parts: Vec<Component> = laws
            .into_iter()
            .filter(|(weight, _)| *weight > 0.0)
            .map(|(weight, law)| {
                let weight = weight / total;
                up_to += weight;
                Component { weight, up_to, law }
            })
            .collect();
        if let Some(last) = parts.last_mut() {
            last.up_to = 1.0;
        }
        Self { parts }
    }

    fn sum(&self, of: impl Fn(&Sampler) -> f64) -> f64 {
        self.parts.iter().map(|part| part.weight * of(&part.law)).sum()
    }
}

impl Shape for Mixture {
    fn mean(&self) -> f64 {
        self.sum(Sampler::mean)
    }

    fn variance(&self) -> f64 {
        // Within the parts plus between them: no difference of large numbers.
        let mean = self.mean();
        self.sum(|law| {
            let off = law.mean() - mean;
            law.variance() + off * off
        })
    }

    fn min(&self) -> f64 {
        self.parts.iter().map(|part| part.law.min()).fold(f64::INFINITY, f64::min)
    }

    fn quantile(&self, q: f64) -> f64 {
        // The mixture's quantile lies between the least and the greatest of its parts'.
        let quantiles = self.parts.iter().map(|part| part.law.quantile(q));
        let (mut low, mut high) =
            quantiles.fold((f64::INFINITY, 0.0_f64), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
        if high == f64::INFINITY {
            // Only at q = 1, of which an unbounded part never reaches its share.
            return high;
        }
        if self.below(low).probability >= q {
            return low;
        }
        loop {
            let middle = low + 0.5 * (high - low);
            if middle <= low || middle >= high {
                return high;
            }
            if self.below(middle).probability >= q {
                high = middle;
            } else {
                low = middle;
            }
        }
    }

    fn below(&self, x: f64) -> Below {
        let mut sum = Below::NOTHING;
        for part in &self.parts {
            let below = part.law.below(x);
            sum.probability += part.weight * below.probability;
            sum.first += part.weight * below.first;
            sum.second += part.weight * below.second;
        }
        sum
    }

    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let u = unit(rng.next_u64());
        // The last part's bound is 1 and `u` is below it, so one is always found.
        self.parts.iter().find(|part| u <= part.up_to).map_or(0.0, |part| part.law.sample(rng))
    }
}
