//! The machine that the script describes, with its clock and its count of calls.

use crate::script::{Device, Script};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a call returns; the numbers are those of NVML.
pub(crate) type Code = u32;
pub(crate) const SUCCESS: Code = 0;
pub(crate) const UNINITIALIZED: Code = 1;
pub(crate) const INVALID_ARGUMENT: Code = 2;
pub(crate) const NOT_SUPPORTED: Code = 3;
pub(crate) const NO_PERMISSION: Code = 4;
pub(crate) const NOT_FOUND: Code = 6;
pub(crate) const INSUFFICIENT_SIZE: Code = 7;
pub(crate) const DRIVER_NOT_LOADED: Code = 9;
pub(crate) const GPU_IS_LOST: Code = 15;
pub(crate) const VERSION_MISMATCH: Code = 25;
pub(crate) const UNKNOWN: Code = 999;

static MACHINE: Mutex<Option<Arc<Machine>>> = Mutex::new(None);

/// The script at work.
pub(crate) struct Machine {
    pub(crate) script: Script,
    /// Where it was read.
    path: PathBuf,
    started: Instant,
    /// Calls by the index of the device and the name of the call.
    calls: Mutex<BTreeMap<(usize, &'static str), u64>>,
    /// Which slow calls were made already, by device and place in its list.
    slowed: BTreeMap<(usize, usize), AtomicBool>,
}

impl Machine {
    /// Reads the script and starts the clock.
    #[expect(clippy::disallowed_methods, reason = "it plays a machine, whose time is that of the wall")]
    pub(crate) fn start(path: &Path) -> Result<(), Code> {
        let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let parsed = read.and_then(|text| toml::from_str::<Script>(&text).map_err(|error| error.to_string()));
        let script = parsed.map_err(|error| {
            eprintln!("{}: {error}", path.display());
            UNKNOWN
        })?;
        if !script.loaded {
            return Err(DRIVER_NOT_LOADED);
        }
        let mut machine = Self {
            script,
            path: path.to_owned(),
            started: Instant::now(),
            calls: Mutex::default(),
            slowed: BTreeMap::new(),
        };
        let slow = machine.devices().into_iter().enumerate();
        let slow = slow.flat_map(|(index, device)| (0..device.slow.len()).map(move |n| (index, n)));
        machine.slowed = slow.map(|key| (key, AtomicBool::new(false))).collect();
        *MACHINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(machine));
        Ok(())
    }

    /// The machine, if it was started.
    pub(crate) fn running() -> Result<Arc<Self>, Code> {
        MACHINE.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or(UNINITIALIZED)
    }

    /// Stops it and writes how often it was asked what.
    pub(crate) fn stop() -> Result<(), Code> {
        let machine = MACHINE.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or(UNINITIALIZED)?;
        let calls = machine.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = calls.iter().map(|((device, call), count)| format!("{device} {call} {count}\n"));
        std::fs::write(machine.path.with_extension("calls"), lines.collect::<String>()).map_err(|_| UNKNOWN)
    }

    /// All devices: those with an index, and after them the MIG devices of each.
    pub(crate) fn devices(&self) -> Vec<&Device> {
        let whole = self.script.device.iter();
        whole.clone().chain(whole.flat_map(|device| &device.mig)).collect()
    }

    /// The place of a MIG device among all.
    pub(crate) fn mig(&self, parent: usize, index: usize) -> Option<usize> {
        self.script.device.get(parent)?.mig.get(index)?;
        let before: usize = self.script.device.iter().take(parent).map(|device| device.mig.len()).sum();
        Some(self.script.device.len() + before + index)
    }

    /// Answers a call of a device: takes the time that the script says, and fails as it says.
    pub(crate) fn ask<T>(
        &self,
        index: usize,
        call: &'static str,
        answer: impl FnOnce(&Device, f64) -> Option<T>,
    ) -> Result<T, Code> {
        let devices = self.devices();
        let device = *devices.get(index).ok_or(INVALID_ARGUMENT)?;
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry((index, call)).or_default() += 1;
        let t_s = self.started.elapsed().as_secs_f64();
        if device.lost_at_s.is_some_and(|lost_at_s| t_s >= lost_at_s) {
            return Err(GPU_IS_LOST);
        }
        for (n, slow) in device.slow.iter().enumerate() {
            let due = slow.call == call && t_s >= slow.at_s;
            if due && !self.slowed[&(index, n)].swap(true, Ordering::Relaxed) {
                std::thread::sleep(Duration::from_secs_f64(slow.for_s));
            }
        }
        if device.denied.iter().any(|denied| denied == call) {
            return Err(NO_PERMISSION);
        }
        let fails = |span: &crate::script::Span| {
            span.call == call && t_s >= span.at_s && t_s < span.at_s + span.for_s
        };
        if device.failing.iter().any(fails) {
            return Err(UNKNOWN);
        }
        answer(device, t_s).ok_or(NOT_SUPPORTED)
    }
}
