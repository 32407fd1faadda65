//! Costs, business value and satisfaction, request by request.
//!
//! All three are of the requests born after the warm-up, so that they belong to the same crowd: a
//! request's calls cost what they cost, whenever they end. Hours of GPUs and of agents are of the measured
//! window.

use crate::attempts::Request;
use crate::measure::Ended;
use crate::outcome::End;
use crate::scenario::{Csat, Economics, Scenario};
use forebay_policies::RequestView;

/// What requests of one kind brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Earned {
    pub(crate) ended: u64,
    /// Sum of the satisfaction of all who asked.
    pub(crate) satisfaction: f64,
    pub(crate) value: f64,
}

impl Earned {
    fn add(&mut self, satisfaction: f64, value: f64) {
        self.ended += 1;
        self.satisfaction += satisfaction;
        self.value += value;
    }

    /// Mean satisfaction.
    pub(crate) fn csat(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.satisfaction / self.ended as f64)
    }
}

/// The account of costs, value and satisfaction.
#[derive(Clone, Debug)]
pub(crate) struct Money {
    pub(crate) economics: Economics,
    /// By stage: the price of a prompt token and of an answer's.
    prices: Vec<Option<(f64, f64)>>,
    /// Value of an answer, by class.
    values: Vec<f64>,
    /// What calls cost.
    pub(crate) calls: f64,
    pub(crate) total: Earned,
    pub(crate) by_class: Vec<Earned>,
    pub(crate) by_tier: Vec<Earned>,
}

impl Money {
    /// `None`: the scenario gives neither prices nor values nor a model of satisfaction.
    pub(crate) fn new(scenario: &Scenario) -> Option<Self> {
        let values: Vec<f64> = scenario.workload.classes.values().map(|class| class.value).collect();
        if scenario.economics.is_none() && values.iter().all(|&value| value == 0.0) {
            return None;
        }
        let economics = scenario.economics.clone().unwrap_or_default();
        let price = |name: &String| {
            economics.tokens.get(name).map(|price| (price.in_per_1k / 1000.0, price.out_per_1k / 1000.0))
        };
        Some(Self {
            prices: scenario.stages.keys().map(price).collect(),
            by_class: vec![Earned::default(); values.len()],
            by_tier: vec![Earned::default(); scenario.workload.population.tiers.len().max(1)],
            values,
            calls: 0.0,
            total: Earned::default(),
            economics,
        })
    }

    /// Whether any class gives a value.
    pub(crate) fn has_values(&self) -> bool {
        self.values.iter().any(|&value| value > 0.0)
    }

    /// Whether anything has a price.
    pub(crate) fn has_prices(&self) -> bool {
        let Economics { agent_per_min, gpu_per_hour, tokens, .. } = &self.economics;
        *agent_per_min > 0.0 || *gpu_per_hour > 0.0 || !tokens.is_empty()
    }

    /// A call was served to its end: its tokens are paid.
    #[inline]
    pub(crate) fn call(&mut self, stage: usize, tokens_in: u32, tokens_out: u32) {
        if let Some(Some((price_in, price_out))) = self.prices.get(stage) {
            self.calls += price_in * f64::from(tokens_in) + price_out * f64::from(tokens_out);
        }
    }

    /// A request has its end. Gives the person's satisfaction, if that is modelled.
    pub(crate) fn ended(&mut self, request: &Request, view: &RequestView, ended: &Ended) -> Option<f64> {
        let csat = self.economics.csat.map(|csat| satisfaction(&csat, ended));
        if !ended.counts {
            return csat;
        }
        let class = usize::from(request.class);
        let earns = ended.end == End::Answered && ended.right && ended.in_time;
        let value = if earns { self.values.get(class).copied().unwrap_or(0.0) } else { 0.0 };
        let tier = self.by_tier.get_mut(usize::from(view.tier));
        for earned in [Some(&mut self.total), self.by_class.get_mut(class), tier].into_iter().flatten() {
            earned.add(csat.unwrap_or(0.0), value);
        }
        csat
    }
}

/// How satisfied a person is with the end of a request, 0 to 1.
fn satisfaction(csat: &Csat, ended: &Ended) -> f64 {
    let taken = match ended.end {
        End::Answered => {
            let late_s = (ended.ttft.as_secs_f64() - csat.tolerance_s).max(0.0);
            let wrong = if ended.right { 0.0 } else { csat.wrong };
            wrong + csat.per_further_s * late_s
        }
        End::RejectedBy(..) | End::StageFull(_) => csat.rejected,
        End::Abandoned => csat.abandoned,
        End::TimedOut | End::Failed(_) => csat.failed,
    };
    (1.0 - taken).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_engine::Span;
    use forebay_policies::Level;

    fn ended(end: End, right: bool, ttft_s: f64) -> Ended {
        Ended {
            end,
            level: Level::L1,
            cached: false,
            right,
            in_time: true,
            counts: true,
            in_window: true,
            latency: Span::from_secs_f64(ttft_s),
            ttft: Span::from_secs_f64(ttft_s),
            waited: Span::ZERO,
        }
    }

    #[test]
    fn each_shortcoming_takes_its_share() {
        let csat = Csat { tolerance_s: 2.0, per_further_s: 0.1, wrong: 0.5, ..Csat::default() };
        let of = |end, right, ttft_s| satisfaction(&csat, &ended(end, right, ttft_s));
        assert_eq!(of(End::Answered, true, 2.0), 1.0);
        assert!((of(End::Answered, true, 5.0) - 0.7).abs() < 1e-12);
        assert!((of(End::Answered, false, 4.0) - 0.3).abs() < 1e-12);
        assert_eq!(of(End::Answered, true, 60.0), 0.0);
        assert_eq!(of(End::Abandoned, false, 0.0), 0.0);
        assert!((of(End::StageFull(0), false, 0.0) - 0.2).abs() < 1e-12);
    }
}
