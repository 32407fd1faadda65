//! Capacity in closed form, before any simulation: what each stage can carry at most, how much of that
//! is asked of it, and which one is full first.
//!
//! A stage of c servers that each request occupies for S seconds on average carries c / S requests a
//! second at most, and the service no more than the least of its stages (published case R1). All is for
//! requests served at L1; retries, people who ask again, fallback, interference between stages on one
//! device and limits of the policy are left out: that is what the simulation is for. A stage with autoscaling
//! counts with the most replicas that it may start: a ceiling is what cannot be exceeded.
//!
//! | module | what |
//! | --- | --- |
//! | `demand` | who arrives, how often, with what lengths |
//! | `stages` | the work that a request brings to each stage |
//! | `engine` | the batching engine's ceiling, from its iteration time |
//! | `providers` | ceilings of external providers, from their quotas |
//! | `queueing` | Erlang B and C, and the Allen-Cunneen estimate of waiting |

mod demand;
mod engine;
mod providers;
mod queueing;
mod stages;

pub use queueing::{Waiting, erlang_b, erlang_c, waiting};

use crate::summary::ScenarioId;
use demand::Demand;
use forebay_engine::DistError;
use forebay_model::scenario::Loaded;
use serde::Serialize;

/// What a service can carry, and what is asked of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// The scenario.
    pub scenario: ScenarioId,
    /// Requests per second that arrive, on average over the run; of a trace, over the time in which it sends.
    pub offered_per_s: f64,
    /// Requests per second that arrive at the busiest time.
    pub peak_per_s: f64,
    /// The least of the stages' ceilings, requests per second; absent when no stage has a bound.
    pub ceiling_per_s: Option<f64>,
    /// The stage with that ceiling.
    pub first_bottleneck: Option<String>,
    /// The stages, the executor first where it has a bound.
    pub stages: Vec<StageCapacity>,
    /// What the numbers leave out.
    pub notes: Vec<String>,
}

/// What one stage can carry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageCapacity {
    /// Its name; `executor` is the gateway's.
    pub name: String,
    /// What kind it is.
    pub kind: String,
    /// Parallel servers: connections, GPUs, slots, or sequences that run at once, with all replicas that
    /// autoscaling may start; absent: no bound, or none that is known.
    pub servers: Option<f64>,
    /// Time that a request occupies one of them, seconds, mean over the requests that come here.
    pub service_s: Option<f64>,
    /// Share of the requests that come here, at L1.
    pub visited_share: f64,
    /// Requests per second of the whole service at which it is full; absent when none come here.
    pub ceiling_per_s: Option<f64>,
    /// Offered load over the ceiling, on average over the run.
    pub load: Option<f64>,
    /// The same at the busiest time.
    pub peak_load: Option<f64>,
    /// Estimate of waiting at the average load; absent when there is no formula for it or it is full.
    pub waiting: Option<Waiting>,
    /// What bounds it, or why there is no estimate.
    pub note: Option<String>,
}

impl Capacity {
    /// The capacity of a scenario.
    ///
    /// # Errors
    /// A distribution is wrong; [`Loaded::read`] refuses such scenarios.
    pub fn of(loaded: &Loaded) -> Result<Self, DistError> {
        let demand = Demand::of(loaded)?;
        let stages = stages::capacities(loaded, &demand)?;
        let least = stages
            .iter()
            .filter_map(|stage| Some((stage.ceiling_per_s?, &stage.name)))
            .reduce(|least, other| if other.0 < least.0 { other } else { least });
        let mut notes = vec![
            "at L1, without retries, people who ask again, fallback, and interference on shared devices"
                .to_owned(),
        ];
        notes.extend(demand.notes.iter().cloned());
        Ok(Self {
            scenario: ScenarioId::of(loaded),
            offered_per_s: demand.offered_per_s(),
            peak_per_s: demand.peak_per_s(),
            ceiling_per_s: least.map(|(ceiling, _)| ceiling),
            first_bottleneck: least.map(|(_, name)| name.clone()),
            stages,
            notes,
        })
    }
}

/// Mean and mean square of a quantity that varies.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moments {
    mean: f64,
    square: f64,
}

impl Moments {
    fn constant(value: f64) -> Self {
        Self { mean: value, square: value * value }
    }

    fn of(law: &forebay_engine::Dist) -> Result<Self, DistError> {
        let sampler = law.sampler()?;
        let mean = sampler.mean();
        Ok(Self { mean, square: sampler.variance() + mean * mean })
    }

    fn variance(self) -> f64 {
        (self.square - self.mean * self.mean).max(0.0)
    }

    /// The squared coefficient of variation.
    fn scv(self) -> f64 {
        if self.mean > 0.0 { self.variance() / (self.mean * self.mean) } else { 0.0 }
    }

    /// Of the sum of independent quantities.
    fn plus(self, other: Self) -> Self {
        let mean = self.mean + other.mean;
        Self { mean, square: self.variance() + other.variance() + mean * mean }
    }

    /// Of a multiple.
    fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, square: self.square * factor * factor }
    }

    /// Of the product of independent quantities.
    fn product(self, other: Self) -> Self {
        Self { mean: self.mean * other.mean, square: self.square * other.square }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::open_text;

    /// Published case R1, with the numbers of case R2 for the reranker.
    const RAG: &str = r#"
name = "rag"
[run]
duration_s = 100
[workload.sources.all]
kind = "poisson"
rate_per_s = 6.0
[workload.classes.any]
tokens_in = 100
tokens_out = 101
[endpoints.ask]
l1 = ["store", "rerank", "llm"]
documents = 50
documents_kept = 5
tokens_per_document = 100
[stages.store]
kind = "vector_store"
connections = 32
base_s = 0.03
per_document_s = 0.0004
[stages.rerank]
kind = "reranker"
gpus = 1
max_docs = 50
base_s = 0.02
per_document_s = 0.002
[stages.llm]
kind = "llm_slots"
replicas = 2
slots = 10
first_token_s = 0.4
per_prompt_token_s = 0.001
per_token_s = 0.01
"#;

    fn capacity(text: &str) -> Capacity {
        Capacity::of(&open_text("test", text, &[]).unwrap().loaded).unwrap()
    }

    #[test]
    fn the_ceiling_is_the_least_of_the_stages() {
        let capacity = capacity(RAG);
        let ceilings: Vec<f64> = capacity.stages.iter().map(|stage| stage.ceiling_per_s.unwrap()).collect();
        // 32 / 50 ms; 50 documents in 120 ms; 20 / (0.4 + 600 x 1 ms + 100 x 10 ms).
        let expected = [640.0, 8.333_333_333_333_334, 10.0];
        for (found, expected) in ceilings.iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
        }
        assert_eq!(capacity.first_bottleneck.as_deref(), Some("rerank"));
        assert!((capacity.stages[2].load.unwrap() - 0.6).abs() < 1e-9);
        assert!(capacity.stages[2].waiting.is_some() && capacity.stages[1].waiting.is_none());
    }

    #[test]
    fn cores_bound_a_vector_store() {
        let capacity =
            capacity(&RAG.replace("per_document_s = 0.0004", "per_document_s = 0.0004\ncores = 8"));
        assert!((capacity.stages[0].ceiling_per_s.unwrap() - 160.0).abs() < 1e-9);
    }

    #[test]
    fn an_executor_is_held_for_the_whole_path() {
        let text = RAG.replace("[endpoints.ask]", "[gateway]\nexecutor_slots = 10\n[endpoints.ask]");
        let capacity = capacity(&text);
        assert_eq!(capacity.first_bottleneck.as_deref(), Some("executor"));
        // 0.05 + 0.12 + 2 s for each of 10 slots.
        assert!((capacity.ceiling_per_s.unwrap() - 10.0 / 2.17).abs() < 1e-9);
    }

    #[test]
    fn a_plain_queue_gets_its_exact_wait() {
        let capacity = capacity(crate::run::tests::MM1);
        // M/M/1 at 0.8 with 0.1 s: the wait is 0.4 s, and 80 % wait.
        let waiting = capacity.stages[0].waiting.unwrap();
        assert!((waiting.mean_s - 0.4).abs() < 1e-9 && (waiting.probability - 0.8).abs() < 1e-9);
    }

    #[test]
    fn an_autoscaled_stage_counts_at_its_most() {
        let scaled =
            RAG.replace("slots = 10", "slots = 10\nautoscale = { by = \"demand\", least = 1, most = 6 }");
        let capacity = capacity(&scaled);
        let llm = &capacity.stages[2];
        assert_eq!((llm.servers, llm.waiting), (Some(60.0), None));
        assert!((llm.ceiling_per_s.unwrap() - 30.0).abs() < 1e-9);
        assert!(llm.note.as_deref().unwrap().contains("6 replicas"), "{llm:?}");
    }

    #[test]
    fn what_has_no_bound_has_no_servers_and_no_ceiling() {
        let cached = RAG.replace("[\"store\", ", "[\"cache\", \"store\", ").replace(
            "[stages.store]",
            "[stages.cache]\nkind = \"semantic_cache\"\nlookup_s = 0.02\n[stages.store]",
        );
        let open = capacity(&cached);
        let cache = &open.stages[0];
        assert_eq!((cache.servers, cache.ceiling_per_s, cache.load), (None, None, None));
        assert_eq!(open.first_bottleneck.as_deref(), Some("rerank"));
        let bound = capacity(&cached.replace("lookup_s = 0.02", "lookup_s = 0.02\nlookups_at_once = 3"));
        assert_eq!(bound.stages[0].servers, Some(3.0));
        assert!((bound.stages[0].ceiling_per_s.unwrap() - 150.0).abs() < 1e-9);
    }

    #[test]
    fn a_source_with_a_mix_of_its_own_brings_that() {
        let two = RAG.replace(
            "[endpoints.ask]",
            "[workload.classes.short]\nendpoint = \"chat\"\n[endpoints.chat]\nl1 = [\"llm\"]\n[endpoints.ask]",
        );
        let share =
            |text: &str| capacity(text).stages.iter().find(|s| s.name == "rerank").unwrap().visited_share;
        let two = two.replace("[workload.classes.any]", "[workload.classes.any]\nendpoint = \"ask\"");
        assert!((share(&two) - 0.5).abs() < 1e-9);
        let mixed = format!("{two}[workload.mix.all]\nany = 1\nshort = 3\n");
        assert!((share(&mixed) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn moments_of_sums_and_products() {
        let x = Moments { mean: 2.0, square: 5.0 };
        let y = Moments { mean: 3.0, square: 13.0 };
        assert_eq!(x.plus(y), Moments { mean: 5.0, square: 1.0 + 4.0 + 25.0 });
        assert_eq!(x.product(y), Moments { mean: 6.0, square: 65.0 });
        assert_eq!(x.times(2.0), Moments { mean: 4.0, square: 20.0 });
        assert_eq!(Moments::constant(3.0).scv(), 0.0);
    }
}
