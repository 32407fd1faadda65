//! `forebay calibrate record` as its users meet it, with the stand-in for NVIDIA's library.

#![allow(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

use forebay_nvml_replay::place;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// One device that tells little, and one that is lost soon.
const SCRIPT: &str = r#"
[[device]]
uuid = "GPU-0"
name = "Stand-in"
memory_total = 24e9
memory_used = [[0, 1e9], [10, 11e9]]
power_w = 300
[[device]]
uuid = "GPU-1"
name = "Lost"
memory_total = 24e9
lost_at_s = 0.2
"#;

/// A folder of its own for each test, with the stand-in in it, gone at its end.
struct Workplace {
    folder: PathBuf,
    library: PathBuf,
}

impl Workplace {
    fn new(name: &str, script: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("forebay-record-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let library = place(&folder, script).unwrap();
        Self { folder, library }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        command.args(["calibrate", "record", "--library"]).arg(&self.library).args(arguments);
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn record(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        ended(&self.command(arguments).output().unwrap())
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn ended(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn rows(out: &Path) -> usize {
    forebay_datasets::recording::read(&out.join("gpu.parquet")).unwrap().len()
}

#[test]
fn a_recording_tells_what_it_holds_and_what_was_not_told() {
    let place = Workplace::new("told", SCRIPT);
    let (code, out, err) = place.record(&["--every", "20ms", "--for", "600ms", "--out", "out"]);
    assert_eq!(code, Some(0), "{err}");
    for words in [
        "the time was over",
        "0 Stand-in",
        "device 1 was lost after",
        "fell off the bus",
        "device 0 does not tell energy_j: ",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    assert_eq!(err, "written: out\n");
    assert!(rows(&place.folder.join("out")) > 10);

    let (code, out, err) = place.record(&["--for", "200ms", "--out", "out"]);
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    assert!(err.contains("--force"), "{err}");
    let json = ["--for", "200ms", "--out", "out", "--force", "--format", "json", "--device", "0", "-q"];
    let (code, out, err) = place.record(&json);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let manifest: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(manifest["devices"].as_array().unwrap().len(), 1);
    assert_eq!(out, std::fs::read_to_string(place.folder.join("out/manifest.json")).unwrap());
}

#[cfg(unix)]
#[test]
fn a_signal_leaves_a_complete_recording() {
    let place = Workplace::new("signal", SCRIPT);
    let mut command = place.command(&["--every", "10ms", "--out", "out"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is recording when its hidden files are there.
    let out = place.folder.join("out");
    for _ in 0..500 {
        if std::fs::read_dir(&out).is_ok_and(|entries| entries.count() >= 2) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let (code, text, err) = ended(&child.wait_with_output().unwrap());
    assert_eq!(code, Some(0), "{err}");
    assert!(text.contains("it was stopped"), "{text}");
    assert!(rows(&out) > 5);
    let mut names: Vec<_> =
        std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["gpu.parquet", "manifest.json", "processes.parquet"]);
}

#[test]
fn what_cannot_be_recorded_is_said_in_one_line() {
    let place = Workplace::new("cannot", "loaded = false");
    let load = ["--out", "out", "--model", "m", "--load"];
    for (arguments, words) in [
        (vec!["--out", "out"], "NVIDIA driver is not loaded"),
        (vec!["--out", "out", "--every", "1ms"], "5 ms to 1 s"),
        ([&load[..], &["https://localhost/v1"]].concat(), "https is not spoken here"),
        ([&load[..], &["nowhere"]].concat(), "is no address of an endpoint"),
        ([&load[..], &["http://localhost/v1", "--key-env", "FOREBAY_NO_KEY"]].concat(), "FOREBAY_NO_KEY"),
        ([&load[..], &["http://localhost/v1", "--per-step", "0"]].concat(), "requests per step"),
    ] {
        let (code, out, err) = place.record(&arguments);
        assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
        assert!(err.contains(words), "{err}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(["calibrate", "record", "--library", "no-such-library.so", "--out", "out"]);
    let (code, out, err) = ended(&command.current_dir(&place.folder).output().unwrap());
    assert_eq!((code, out.as_str(), err.lines().count()), (Some(2), "", 1), "{err}");
    assert!(err.contains("cannot be loaded") && err.contains("--library"), "{err}");
    assert!(!place.folder.join("out").exists());
}

#[test]
fn devices_that_are_all_lost_and_endpoints_that_never_answer_are_found_against_the_user() {
    let lost = Workplace::new("lost", SCRIPT);
    let (code, _, err) = lost.record(&["--every", "20ms", "--for", "60s", "--device", "1", "--out", "out"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("all devices were lost"), "{err}");
    assert!(rows(&lost.folder.join("out")) > 0);

    let silent = Workplace::new("silent", SCRIPT);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/v1");
    let arguments = ["--out", "out", "--load", &url, "--model", "m", "--per-step", "1", "--concurrency", "1"];
    let (code, out, err) = silent.record(&arguments);
    assert_eq!(code, Some(1), "{err}");
    assert!(out.contains("4 requests: 4 refused") && err.contains("answered none of 4"), "{out}{err}");
}
