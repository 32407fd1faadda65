//! The gateway's host: what of its memory the gateway's process takes, and who else takes some.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Memory of the gateway's process and of its host. The process has a thread, with its stack, for every
/// attempt that is being served, from leaving the queue to its end: it holds the thread while it waits at
/// a gate or for a stage. Attempts in the queue have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Stack of each thread, MB.
    #[serde(default = "one")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub stack_mb: f64,
    /// Threads besides those that serve an attempt.
    #[serde(default)]
    #[schemars(range(max = 1_000_000))]
    pub threads_base: u32,
    /// Heap, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000_000.0))]
    pub heap_mb: f64,
    /// Class metadata, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000_000.0))]
    pub metaspace_mb: f64,
    /// Buffers outside the heap, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000_000.0))]
    pub direct_mb: f64,
    /// Compiled code, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000_000.0))]
    pub code_mb: f64,
    /// An agent in the same process, MB.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1_000_000_000.0))]
    pub agent_mb: f64,
    /// Hard limit of the gateway's container, MB: beyond it this process alone is killed. Absent: none.
    #[serde(default)]
    #[schemars(range(min = 1.0, max = 1_000_000_000.0))]
    pub container_limit_mb: Option<f64>,
    /// Memory of the host, MB: beyond it the host kills any one of its processes, the larger the likelier.
    #[schemars(range(min = 1.0, max = 1_000_000_000.0))]
    pub host_mb: f64,
    /// Other processes on the host by name, and their memory, MB. One that bears the name of a stage is
    /// that stage: when it is killed, its calls fail.
    #[serde(default)]
    pub others_mb: IndexMap<String, f64>,
    /// Time until a process that was killed is back, seconds.
    #[serde(default = "restart")]
    #[schemars(range(min = 0.0, max = 86_400.0))]
    pub restart_s: f64,
}

impl Host {
    /// Memory of the gateway's process while it serves nobody, MB.
    pub fn at_rest_mb(&self) -> f64 {
        self.heap_mb
            + self.metaspace_mb
            + self.direct_mb
            + self.code_mb
            + self.agent_mb
            + self.stack_mb * f64::from(self.threads_base)
    }
}

fn one() -> f64 {
    1.0
}
fn restart() -> f64 {
    30.0
}
