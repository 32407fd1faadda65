//! The service: gateway, endpoints with their call graphs, stages, and GPU devices.

use super::{Agents, Autoscale, Host, Inputs, Providers, Rules, SemanticCache};
use crate::llm::batching::{BatchingConfig, IterationCost, QueueOrder};
use forebay_engine::Dist;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The gateway between clients and stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gateway {
    /// Delay from the client to the gateway, seconds; absent: none.
    pub ingress_delay_s: Option<Dist>,
    /// Attempts that may be served at once; a streaming answer holds its slot to the last token. Those
    /// beyond wait in the policy's queue, or without one first come first served. Absent: no bound.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub executor_slots: Option<u32>,
    /// An attempt that has not ended after this time is cut off, seconds; absent: never.
    #[schemars(range(min = 0.0))]
    pub deadline_s: Option<f64>,
    /// An answer that comes later than this after the question is late and no goodput, seconds; absent:
    /// never.
    #[schemars(range(min = 0.0))]
    pub in_time_s: Option<f64>,
    /// The clock that the policies are handed.
    pub clock: Clock,
    /// Memory of the gateway's process and of its host; absent: there is always enough.
    pub host: Option<Host>,
    /// Those who queue are told how long it will take, and how right that was is measured.
    pub wait_notice: bool,
}

/// A clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Clock {
    /// It counts from the start of the process, and only forward.
    #[default]
    Monotonic,
    /// It shows the time of day, and is set forward and back by a `clock_step` fault.
    Wall,
}

/// A call graph: the stages that an attempt passes, one after the other, at each level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Stages at L1.
    #[schemars(length(min = 1))]
    pub l1: Vec<String>,
    /// Stages at L2; absent: as at L1, and counted as L1.
    #[serde(default)]
    pub l2: Option<Vec<String>>,
    /// Stages at L3, which need no slot of the executor; needed where the policy may choose L3.
    #[serde(default)]
    pub l3: Option<Vec<String>>,
    /// Stages at L4, up to the hand-off, without a slot of the executor; needed where the policy may
    /// choose L4.
    #[serde(default)]
    pub l4: Option<Vec<String>>,
    /// Documents retrieved at L1.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    pub documents: u16,
    /// Documents kept after reranking, and retrieved at L2.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    pub documents_kept: u16,
    /// Documents retrieved at L2.
    #[serde(default)]
    #[schemars(range(max = 10_000))]
    pub documents_l2: u16,
    /// Tokens that each document in the prompt adds.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub tokens_per_document: u32,
}

/// A resource that a call occupies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stage {
    /// Parallel servers with one queue: the plain station of queueing theory.
    Server(Server),
    /// Embedding service: parallel workers with one queue.
    Embedder(Server),
    /// FAQ rules on CPU workers, or the making of a hand-off.
    Rules(Rules),
    /// Vector store behind a connection pool.
    VectorStore(VectorStore),
    /// Reranker that serves batches on GPUs.
    Reranker(Reranker),
    /// LLM engine as parallel slots per replica.
    LlmSlots(LlmSlots),
    /// LLM engine with continuous batching and paged KV memory.
    LlmBatching(LlmBatching),
    /// External providers of model answers, with fail-over between them.
    Providers(Providers),
    /// Semantic cache: answers found again by the likeness of questions.
    SemanticCache(SemanticCache),
    /// People who take hand-offs.
    Agents(Agents),
}

/// Parallel servers with one queue, first come first served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Servers.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub servers: u32,
    /// Service time, seconds.
    pub service_s: Dist,
    /// Calls that may wait; one more is turned away. Absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_queue: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
}

/// Vector store: a connection pool in front of searches whose time grows with the number of documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VectorStore {
    /// Connections.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub connections: u32,
    /// Time of a search without documents, seconds.
    pub base_s: Dist,
    /// Time that each document adds, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub per_document_s: f64,
    /// CPU cores of the store; when more searches run than cores, each is slowed in proportion as it
    /// starts. Absent: no contention.
    #[serde(default)]
    #[schemars(range(min = 0.01))]
    pub cores: Option<f64>,
    /// Calls that may wait; absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_queue: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
}

/// What becomes of an attempt whose call has used up its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnTimeLimit {
    /// It ends as timed out.
    #[default]
    Fail,
    /// It goes on with the first `documents_kept` documents in the order of the retrieval.
    Skip,
}

/// Reranker: each GPU serves one batch at a time; batch time = base + per document x documents, times a
/// residual.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reranker {
    /// GPUs, each serving one batch at a time.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub gpus: u32,
    /// Documents in a batch at most; a call with more is served in a batch of its own.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_docs: u32,
    /// A batch that is not full starts at the latest after its first call has waited this long,
    /// milliseconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub max_wait_ms: f64,
    /// Time of a batch without documents, seconds.
    #[schemars(range(min = 0.0))]
    pub base_s: f64,
    /// Time that each document adds, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub per_document_s: f64,
    /// Factor on the batch time, of mean 1.
    #[serde(default = "one")]
    pub residual: Dist,
    /// Calls that may wait; absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_queue: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
    /// What a call that takes longer than `time_limit_s` does.
    #[serde(default)]
    pub on_time_limit: OnTimeLimit,
    /// Device group whose memory the batches use; GPU i is device i of the group, round robin.
    #[serde(default)]
    pub device: Option<String>,
    /// Memory of the loaded model, GB per device.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub weights_gb: f64,
    /// Memory that each document of a running batch takes, GB.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub workspace_per_document_gb: f64,
}

/// How a call finds its replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// The replica with the fewest calls; ties are settled in a fixed order.
    #[default]
    LeastLoaded,
    /// One after the other.
    RoundRobin,
}

/// LLM engine as parallel slots: a call takes a slot for first token + tokens out x time per token,
/// stretched by how many slots of its replica are busy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmSlots {
    /// Replicas; with `autoscale` those at the start.
    #[schemars(range(min = 1, max = 100_000))]
    pub replicas: u32,
    /// Slots of each replica.
    #[schemars(range(min = 1, max = 100_000))]
    pub slots: u32,
    /// Time to the first token of a call that has its replica to itself, seconds.
    pub first_token_s: Dist,
    /// Time that each token of the prompt adds to the first, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub per_prompt_token_s: f64,
    /// Time of each further token of a call that has its replica to itself, seconds.
    #[serde(default = "zero")]
    pub per_token_s: Dist,
    /// Each further busy slot of the replica stretches time by this share: factor = 1 + this x
    /// (busy - 1).
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub slowdown_per_busy: f64,
    /// How a call finds its replica.
    #[serde(default)]
    pub routing: Routing,
    /// Calls that may wait; absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_queue: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
    /// The first call of a replica whose model is not loaded takes this much longer, and calls that come
    /// meanwhile wait for the rest of it, seconds. So it is at the start of the run, when the replica has
    /// been started by `autoscale`, and after a crash or the loss of its GPU.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub cold_first_call_s: f64,
    /// Replicas are warmed before they serve: no call is a first one, and a start takes long enough for it.
    #[serde(default)]
    pub warmed: bool,
    /// Starts and stops replicas; absent: their number is fixed.
    #[serde(default)]
    pub autoscale: Option<Autoscale>,
    /// What a call holds of its device's memory; absent: nothing.
    #[serde(default)]
    pub memory: Option<SlotMemory>,
}

/// What the calls of a slots engine hold of a device's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlotMemory {
    /// Device group; replica i lives on device i of it, round robin.
    #[schemars(length(min = 1))]
    pub device: String,
    /// Memory of the loaded model, GB per replica.
    #[schemars(range(min = 0.0))]
    pub weights_gb: f64,
    /// Workspace and activations of a running call, GB.
    #[serde(default = "zero")]
    pub per_call_gb: Dist,
    /// KV memory of each token of prompt and answer, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub per_token_mb: f64,
    /// What happens when an allocation fails.
    #[serde(default)]
    pub on_out_of_memory: OnOutOfMemory,
    /// Time to load the model after a restart, seconds.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub restart_s: f64,
}

/// What happens when an allocation on a device fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOutOfMemory {
    /// The latest admitted call on the device fails.
    #[default]
    FailCall,
    /// The engine dies: all its calls fail, and it is down while it loads again.
    Restart,
}

/// LLM engine with continuous batching, as vLLM does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LlmBatching {
    /// Replicas; with `autoscale` those at the start.
    #[schemars(range(min = 1, max = 100_000))]
    pub replicas: u32,
    /// Name of a bundled calibration, or path of a calibration file, whose iteration cost and limits serve where none are given here.
    #[serde(default)]
    pub calibration: Option<String>,
    /// Iteration time; absent: from the calibration.
    #[serde(default)]
    pub cost: Option<IterationCost>,
    /// Sequences that run at once at most; absent: from the calibration.
    #[serde(default)]
    #[schemars(range(min = 1, max = 65_536))]
    pub max_seqs: Option<u32>,
    /// Tokens of one iteration at most; absent: from the calibration.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_batched_tokens: Option<u32>,
    /// KV blocks; absent: from the calibration.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2_147_483_648_u32))]
    pub kv_blocks: Option<u32>,
    /// Tokens in a KV block; absent: from the calibration, or 16.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1024))]
    pub block_tokens: Option<u32>,
    /// Share of every prompt found in the prefix cache; absent: from the calibration, or 0.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub prefix_hit_share: Option<f64>,
    /// Let a call in only when there is room for its whole prompt; if not, for its first chunk.
    #[serde(default)]
    pub reserve_full_prompt: Option<bool>,
    /// A preempted call finds those of its blocks that are still there; if not, it starts anew.
    #[serde(default)]
    pub resume_from_cache: Option<bool>,
    /// Order of the engine's own queue; absent: from the calibration, or by arrival.
    #[serde(default)]
    pub queue: Option<QueueOrder>,
    /// How a call finds its replica.
    #[serde(default)]
    pub routing: Routing,
    /// Calls that may be in the engine, running or waiting, over all replicas; absent: no bound.
    #[serde(default)]
    #[schemars(range(max = 100_000_000))]
    pub max_calls: Option<u32>,
    /// A call that takes longer than this, waiting included, fails, seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub time_limit_s: Option<f64>,
    /// Starts and stops replicas; absent: their number is fixed. A slot is a sequence of the batch.
    #[serde(default)]
    pub autoscale: Option<Autoscale>,
    /// Device group that holds the replicas; absent: no memory is shown to NVML.
    #[serde(default)]
    pub device: Option<String>,
    /// Share of the device's memory that the engine takes at its start and keeps.
    #[serde(default = "engine_share")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub memory_share: f64,
}

/// A group of equal GPU devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Devices in the group.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
    /// Memory of each, GB.
    #[schemars(range(min = 0.001, max = 100_000.0))]
    pub memory_gb: f64,
    /// Memory that others hold on each, GB.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub other_tenants_gb: f64,
    /// How memory is taken and given back, and so what NVML shows.
    #[serde(default)]
    pub allocator: Allocator,
    /// A `caching` allocator gives freed memory back every so many seconds; absent: never.
    #[serde(default)]
    #[schemars(range(min = 0.001))]
    pub empty_cache_every_s: Option<f64>,
    /// A call or batch that starts while the device's other stage is busy takes this much longer.
    #[serde(default = "one_factor")]
    #[schemars(range(min = 1.0, max = 1000.0))]
    pub interference: f64,
}

/// How memory is taken and given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// NVML shows what is in use.
    #[default]
    Exact,
    /// Freed memory is kept for the next call, as `PyTorch` does: NVML shows the most that was in use
    /// since the cache was last emptied (`empty_cache_every_s`).
    Caching,
    /// Everything is taken at the start, as vLLM does: NVML shows a constant.
    Preallocated,
}

fn one() -> Dist {
    Dist::Constant { value: 1.0 }
}
fn zero() -> Dist {
    Dist::Constant { value: 0.0 }
}
fn one_factor() -> f64 {
    1.0
}
fn engine_share() -> f64 {
    0.9
}

impl LlmBatching {
    /// The engine's full configuration: what the stage says, and its calibration for the rest.
    ///
    /// # Errors
    /// What is missing, in words.
    pub fn config(&self, inputs: &Inputs) -> Result<BatchingConfig, String> {
        let calibration = match &self.calibration {
            Some(wanted) => Some(
                inputs
                    .calibrations
                    .get(wanted)
                    .ok_or_else(|| format!("there is no calibration `{wanted}`"))?,
            ),
            None => None,
        };
        let need = |what: &str| format!("`{what}` is missing, and no calibration gives it");
        let mut config = match calibration {
            Some(calibration) => calibration.clone(),
            None => BatchingConfig {
                cost: self.cost.clone().ok_or_else(|| need("cost"))?,
                max_seqs: self.max_seqs.ok_or_else(|| need("max_seqs"))?,
                max_batched_tokens: self.max_batched_tokens.ok_or_else(|| need("max_batched_tokens"))?,
                kv_blocks: self.kv_blocks.ok_or_else(|| need("kv_blocks"))?,
                block_tokens: 16,
                prefix_hit_share: 0.0,
                queue: QueueOrder::Arrival,
                async_scheduling: true,
                reserve_full_prompt: true,
                resume_from_cache: true,
            },
        };
        if let Some(cost) = &self.cost {
            config.cost = cost.clone();
        }
        config.max_seqs = self.max_seqs.unwrap_or(config.max_seqs);
        config.max_batched_tokens = self.max_batched_tokens.unwrap_or(config.max_batched_tokens);
        config.kv_blocks = self.kv_blocks.unwrap_or(config.kv_blocks);
        config.block_tokens = self.block_tokens.unwrap_or(config.block_tokens);
        config.prefix_hit_share = self.prefix_hit_share.unwrap_or(config.prefix_hit_share);
        config.reserve_full_prompt = self.reserve_full_prompt.unwrap_or(config.reserve_full_prompt);
        config.resume_from_cache = self.resume_from_cache.unwrap_or(config.resume_from_cache);
        config.queue = self.queue.unwrap_or(config.queue);
        Ok(config)
    }
}
