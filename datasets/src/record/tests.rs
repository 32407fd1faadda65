//! The recorder against the stand-in for NVIDIA's library, loaded as the real one is.

use super::load::Load;
use super::{Ended, Manifest, Options, RecorderError, Selector, record};
use crate::frames::{Values, read_parquet};
use crate::recording::{self, Sample};
use crate::scratch::Folder;
use forebay_nvml_replay as replay;
use polars::prelude::{ChunkAgg, ParquetReader, SerReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A device that tells everything, with memory that grows by 1 MB in a millisecond.
const FULL: &str = r#"
[[device]]
uuid = "GPU-0"
name = "Stand-in"
memory_total = 24e9
memory_reserved = 0.5e9
memory_used = [[0, 1e9], [10, 11e9]]
busy = 75
memory_busy = 25
power_w = 300.5
power_limit_w = 450
energy_j = [[0, 1000], [10, 4000]]
temperature_c = 61
sm_clock_mhz = 1980
memory_clock_mhz = 2619
throttle = 4
processes = [{ pid = 4711, memory = 1e9 }, { pid = 4712 }]
"#;

/// A second device, of which only memory is told.
const PLAIN: &str = r#"
[[device]]
uuid = "GPU-1"
name = "Plain"
memory_total = 8e9
memory_used = 1e9
"#;

/// The stand-in with a script, in a folder of its own.
struct Machine {
    folder: Folder,
    library: PathBuf,
}

impl Machine {
    fn new(name: &str, script: &str) -> Self {
        let folder = Folder::new(name);
        let library = replay::place(folder.as_ref(), script).unwrap();
        Self { folder, library }
    }

    fn options(&self, period_ms: u64, limit_ms: u64) -> Options {
        Options {
            period: Duration::from_millis(period_ms),
            limit: Some(Duration::from_millis(limit_ms)),
            devices: Vec::new(),
            library: Some(self.library.clone()),
            out: self.folder.path("out"),
            overwrite: false,
            load: None::<Load>,
        }
    }

    fn record(&self, period_ms: u64, limit_ms: u64) -> (Manifest, Vec<Sample>) {
        recorded(&self.options(period_ms, limit_ms))
    }
}

fn recorded(options: &Options) -> (Manifest, Vec<Sample>) {
    let manifest = record(options, &AtomicBool::new(false), &mut |_| ()).unwrap();
    (manifest, recording::read(&options.out.join("gpu.parquet")).unwrap())
}

fn of(samples: &[Sample], device: u32) -> Vec<Sample> {
    samples.iter().filter(|sample| sample.device == device).cloned().collect()
}

#[test]
fn a_device_is_recorded_with_all_that_it_tells() {
    let machine = Machine::new("record-full", FULL);
    let (manifest, samples) = machine.record(10, 600);
    assert_eq!(manifest.ended, Ended::Time);
    assert_eq!((manifest.driver.as_deref(), manifest.nvml.as_deref()), (Some("570.0.1"), Some("12.570.0.1")));
    let device = &manifest.devices[0];
    assert_eq!((device.rows, device.power_limit_w), (samples.len() as u64, Some(450.0)));
    assert!(device.untold.is_empty() && device.failures == 0 && device.lost_at_s.is_none() && !device.hung);
    // A busy machine may miss ticks, and then says so; no tick is lost without being counted.
    let last = samples.last().unwrap();
    let ticks = device.rows + device.missed;
    assert!(ticks.abs_diff(last.t_ns / 10_000_000 + 1) <= 1, "{ticks} ticks to {} ns", last.t_ns);
    assert!(ticks > 40, "{ticks}");
    let gap_s = device.gaps.p50_s.unwrap();
    assert!((0.005..0.05).contains(&gap_s), "{gap_s}");
    for pair in samples.windows(2) {
        assert!(pair[0].t_ns < pair[1].t_ns && pair[0].memory_used < pair[1].memory_used);
        assert!(pair[0].energy_j <= pair[1].energy_j);
    }
    let first = &samples[0];
    let grown = (last.memory_used.unwrap() - first.memory_used.unwrap()) / (last.t_ns - first.t_ns) as f64;
    assert!((0.5..2.0).contains(&grown), "{grown} bytes in a nanosecond, not 1");
    assert_eq!((first.uuid.as_str(), first.name.as_str()), ("GPU-0", "Stand-in"));
    assert_eq!((first.memory_total, first.memory_reserved), (Some(24e9), Some(0.5e9)));
    assert_eq!(first.memory_free.unwrap(), 23.5e9 - first.memory_used.unwrap());
    assert_eq!((first.busy, first.memory_busy), (Some(0.75), Some(0.25)));
    assert_eq!((first.power_w, first.temperature_c), (Some(300.5), Some(61.0)));
    assert_eq!(
        (first.sm_clock_mhz, first.memory_clock_mhz, first.throttle),
        (Some(1980.0), Some(2619.0), Some(4.0))
    );
    let wall = |sample: &Sample| sample.wall_ns - manifest.started_wall_ns;
    assert!(wall(last).abs_diff(last.t_ns) < 1_000_000_000);
    assert_eq!(
        machine.folder.entries(),
        ["libforebay_nvml_replay.calls", replay::FILE, "libforebay_nvml_replay.toml", "out"]
    );
}

#[test]
fn processes_are_recorded_where_they_may_be_known() {
    let denied = format!("{FULL}denied = [\"processes\"]\n{FULL}");
    let machine = Machine::new("record-processes", &denied);
    let (manifest, _) = machine.record(20, 1200);
    let table = read_parquet(&machine.folder.path("out/processes.parquet")).unwrap();
    let column = |name: &str| &table.columns.iter().find(|column| column.name == name).unwrap().values;
    let Values::U64(pids) = column("pid") else { panic!("{table:?}") };
    assert_eq!(pids[..2], [4711, 4712]);
    assert!((4..=6).contains(&pids.len()), "once a second: {pids:?}");
    let Values::MaybeF64(memory) = column("memory_used") else { panic!("{table:?}") };
    assert_eq!(memory[..2], [Some(1e9), None]);
    assert_eq!(*column("device"), Values::U64(vec![1; pids.len()]));
    let untold = &manifest.devices[0].untold;
    assert_eq!(untold[0].what, "processes");
    assert!(untold[0].why.contains("permission"), "{untold:?}");
}

#[test]
fn what_is_not_supported_is_asked_once_and_what_fails_again() {
    let script = format!("{FULL}failing = [{{ call = \"power\", at_s = 0.0, for_s = 0.25 }}]\n{PLAIN}");
    let machine = Machine::new("record-unsupported", &script);
    let (manifest, samples) = machine.record(10, 500);
    let plain = of(&samples, 1);
    assert!(plain.iter().all(|s| s.memory_used == Some(1e9) && s.energy_j.is_none() && s.power_w.is_none()));
    let untold: Vec<&str> = manifest.devices[1].untold.iter().map(|untold| untold.what).collect();
    let columns =
        ["busy, memory_busy", "power_w", "energy_j", "temperature_c", "sm_clock_mhz", "memory_clock_mhz"];
    assert_eq!(untold[..6], columns);
    for call in
        ["utilization", "power", "energy", "temperature", "sm_clock", "memory_clock", "throttle", "processes"]
    {
        assert_eq!(replay::calls(&machine.library, 1, call).unwrap(), 1, "{call}");
    }
    assert_eq!(replay::calls(&machine.library, 1, "memory").unwrap(), plain.len() as u64);
    let full = of(&samples, 0);
    let (nulls, told): (Vec<_>, Vec<_>) = full.iter().partition(|sample| sample.power_w.is_none());
    assert!(!told.is_empty() && nulls.len() as u64 == manifest.devices[0].failures, "{manifest:?}");
    assert_eq!(replay::calls(&machine.library, 0, "power").unwrap(), full.len() as u64);
}

#[test]
fn a_device_that_disappears_ends_and_the_others_go_on() {
    let script = format!("{PLAIN}lost_at_s = 0.2\n{FULL}");
    let machine = Machine::new("record-lost", &script);
    let (manifest, samples) = machine.record(10, 700);
    assert_eq!(manifest.ended, Ended::Time);
    let (lost, other) = (&manifest.devices[0], &manifest.devices[1]);
    assert!(lost.lost_at_s.is_some_and(|at_s| (0.05..0.6).contains(&at_s)), "{lost:?}");
    assert!(lost.lost_why.as_ref().unwrap().contains("fell off the bus"), "{lost:?}");
    assert!(lost.rows > 0 && lost.rows < other.rows && other.lost_at_s.is_none(), "{manifest:?}");
    assert!(of(&samples, 0).iter().all(|sample| sample.t_ns < 600_000_000));
    let last_ns = |device| of(&samples, device).last().unwrap().t_ns;
    assert!(last_ns(1) > last_ns(0) + 100_000_000, "{manifest:?}");
}

#[test]
fn a_recording_ends_when_all_devices_are_gone() {
    let machine = Machine::new("record-all-lost", &format!("{PLAIN}lost_at_s = 0.2\n"));
    let (manifest, samples) = machine.record(10, 60_000);
    assert_eq!(manifest.ended, Ended::Devices);
    assert!(!samples.is_empty() && manifest.duration_s < 10.0);
}

#[test]
fn a_slow_call_shifts_no_schedule_and_stops_no_other_device() {
    let slow = "slow = [{ call = \"memory\", at_s = 0.1, for_s = 0.3 }]\n";
    let machine = Machine::new("record-slow", &format!("{PLAIN}{slow}{FULL}"));
    let (manifest, samples) = machine.record(10, 800);
    let (slow, other) = (&manifest.devices[0], &manifest.devices[1]);
    assert!(slow.missed >= 25 && slow.slowest_s >= 0.3, "{slow:?}");
    assert!(slow.gaps.max_s.unwrap() >= 0.3);
    assert!(other.missed + 15 < slow.missed, "{manifest:?}");
    let last_ns = of(&samples, 0).last().unwrap().t_ns;
    assert!((slow.rows + slow.missed).abs_diff(last_ns / 10_000_000 + 1) <= 1, "{slow:?} to {last_ns} ns");
}

#[test]
fn a_call_that_does_not_return_keeps_nobody() {
    let hung = "slow = [{ call = \"memory\", at_s = 0.1, for_s = 6.0 }]\n";
    let machine = Machine::new("record-hung", &format!("{PLAIN}{hung}{FULL}"));
    let (manifest, samples) = machine.record(20, 400);
    assert!(manifest.devices[0].hung && !manifest.devices[1].hung, "{manifest:?}");
    assert!(of(&samples, 1).len() > of(&samples, 0).len());
}

#[test]
fn mig_devices_are_recorded_beside_the_whole() {
    let parts = r#"
[[device.mig]]
uuid = "MIG-a"
name = "Stand-in MIG 1g"
memory_total = 10e9
memory_used = 2e9
[[device.mig]]
uuid = "MIG-b"
name = "Stand-in MIG 2g"
memory_total = 20e9
memory_used = 3e9
"#;
    let machine = Machine::new("record-mig", &format!("{PLAIN}{FULL}{parts}"));
    let (manifest, samples) = machine.record(20, 200);
    let places: Vec<_> = manifest.devices.iter().map(|device| (device.index, device.mig)).collect();
    assert_eq!(places, [(0, None), (1, None), (1, Some(0)), (1, Some(1))]);
    let part = &of(&samples, 3)[0];
    assert_eq!((part.uuid.as_str(), part.memory_used, part.busy), ("MIG-b", Some(3e9), None));

    let mut options = machine.options(20, 100);
    options.overwrite = true;
    for (asked, devices) in [
        (vec![Selector::Index(1)], vec!["GPU-0", "MIG-a", "MIG-b"]),
        (vec![Selector::Uuid("MIG-b".to_owned()), Selector::Index(0)], vec!["GPU-1", "MIG-b"]),
    ] {
        options.devices = asked;
        let (manifest, _) = recorded(&options);
        assert_eq!(manifest.devices.iter().map(|d| d.uuid.as_str()).collect::<Vec<_>>(), devices);
    }
    options.devices = vec![Selector::Index(7)];
    let error = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("`7`"), "{error}");
}

#[test]
fn a_recording_that_is_stopped_is_complete_and_opens_in_polars() {
    let machine = Machine::new("record-stopped", FULL);
    let stop = AtomicBool::new(false);
    let options = Options { limit: None, ..machine.options(5, 0) };
    let mut shown = 0;
    let manifest = record(&options, &stop, &mut |progress| {
        shown += 1;
        stop.store(progress.rows >= 20, Ordering::Relaxed);
    });
    let manifest = manifest.unwrap();
    assert_eq!(manifest.ended, Ended::Stopped);
    assert!(shown > 0);
    let file = std::fs::File::open(options.out.join("gpu.parquet")).unwrap();
    let frame = ParquetReader::new(file).finish().unwrap();
    assert!(frame.height() >= 20 && frame.height() as u64 == manifest.devices[0].rows);
    assert_eq!(frame.width(), 17);
    assert!(frame.column("memory_used").unwrap().f64().unwrap().min().unwrap() >= 1e9);
    let written: serde_json::Value =
        serde_json::from_slice(&std::fs::read(options.out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!((&written["kind"], &written["ended"]), (&"recording".into(), &"stopped".into()));
    let names = ["gpu.parquet", "manifest.json", "processes.parquet"];
    let mut found: Vec<_> =
        std::fs::read_dir(&options.out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, names);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let machine = Machine::new("record-twice", PLAIN);
    machine.record(20, 100);
    let mut options = machine.options(20, 100);
    let error = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("--force"), "{error}");
    // Requests of an earlier recording would be taken for those of this one.
    std::fs::write(options.out.join("requests.parquet"), "").unwrap();
    options.overwrite = true;
    recorded(&options);
    assert!(!options.out.join("requests.parquet").exists());
}

#[test]
fn what_is_missing_is_said_in_one_line() {
    let machine = Machine::new("record-missing", "loaded = false");
    let empty = Machine::new("record-empty", "");
    let dead = Machine::new("record-dead", &format!("{PLAIN}lost_at_s = 0.0\n"));
    let with = |library: PathBuf| Options { library: Some(library), ..machine.options(100, 100) };
    let mut cases = vec![
        (with(machine.folder.path("none.so")), "cannot be loaded"),
        (with(machine.library.clone()), "NVIDIA driver is not loaded"),
        (with(empty.library.clone()), "knows no device"),
        (with(dead.library.clone()), "fell off the bus"),
        (Options { period: Duration::from_millis(4), ..with(empty.library.clone()) }, "5 ms to 1 s"),
        (Options { period: Duration::from_millis(1001), ..with(empty.library.clone()) }, "5 ms to 1 s"),
    ];
    if cfg!(target_os = "linux") {
        cases.push((with("libm.so.6".into()), "not NVIDIA's management library"));
    }
    for (options, words) in cases {
        let error = record(&options, &AtomicBool::new(false), &mut |_| ()).unwrap_err();
        let text = error.to_string();
        assert!(error.is_input() && text.contains(words) && text.lines().count() == 1, "{text}");
    }
    assert!(!machine.folder.path("out").exists());
    assert!(matches!("x".parse::<Selector>(), Err(text) if text.contains("GPU-")));
    let unknown = RecorderError::NoDevice { driver: "1".to_owned(), absent: Vec::new() };
    assert!(unknown.to_string().ends_with("that answers"));
}
