//! A folder of its own for each test, and the command run in it.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A queue at a load of 0.8, with an objective and a parameter to tune.
pub(crate) const SMALL: &str = r#"
name = "small"
[run]
duration_s = 200
warmup_s = 20
replications = 3
[workload.sources.all]
kind = "poisson"
rate_per_s = 8.0
[workload.classes.any]
[endpoints.ask]
l1 = ["desk"]
[stages.desk]
kind = "server"
servers = 1
service_s = { kind = "exponential", mean = 0.1 }
[objective]
maximize = "throughput_per_s"
constraints = ["latency_mean_s <= 0.5"]
[tune]
parameter = "workload.sources.all.rate_per_s"
from = 5.0
to = 9.5
points = 4
"#;

/// Folders made so far: tests of one process must not share one.
static MADE: AtomicU32 = AtomicU32::new(0);

/// A folder of its own for each test, gone at its end.
pub(crate) struct Workplace(PathBuf);

impl Workplace {
    /// With `small.toml` in it, which is [`SMALL`].
    pub(crate) fn new() -> Self {
        Self::with(SMALL)
    }

    /// With `small.toml` in it, of this text.
    pub(crate) fn with(scenario: &str) -> Self {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("forebay-command-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let place = Self(path);
        place.write("small.toml", scenario);
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    pub(crate) fn forebay(&self, arguments: &[&str]) -> Ended {
        let Output { status, stdout, stderr } = self.command(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended { code: status.code(), out: text(stdout), err: text(stderr) }
    }

    /// The result for programs of a command that does what it was asked, and has nothing to remark.
    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        let ended = self.forebay(&[arguments, &["--format", "json", "-q"]].concat()).with(0);
        assert_eq!(ended.err, "");
        ended.json()
    }

    /// Names of what is in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How the command ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    #[track_caller]
    pub(crate) fn with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}
