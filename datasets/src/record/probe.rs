//! What one device is asked at a tick, and what it refuses to tell.

use super::clock::Moment;
use super::manifest::Untold;
use crate::recording::Sample;
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use std::collections::BTreeMap;

/// A question to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Memory,
    Utilization,
    Power,
    Energy,
    Temperature,
    SmClock,
    MemoryClock,
    Throttle,
    Processes,
}

impl Call {
    /// The columns that it fills.
    fn columns(self) -> &'static str {
        match self {
            Self::Memory => "memory_used, memory_reserved, memory_free, memory_total",
            Self::Utilization => "busy, memory_busy",
            Self::Power => "power_w",
            Self::Energy => "energy_j",
            Self::Temperature => "temperature_c",
            Self::SmClock => "sm_clock_mhz",
            Self::MemoryClock => "memory_clock_mhz",
            Self::Throttle => "throttle",
            Self::Processes => "processes",
        }
    }
}

/// A device is gone; with the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lost(pub(super) String);

/// Memory of a process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Bytes; `None` where the driver does not tell.
    pub(super) memory: Option<f64>,
}

/// A device with the memory of what it refused.
pub(super) struct Probe<'nvml> {
    device: Device<'nvml>,
    /// What is not asked again, with the reason.
    refused: BTreeMap<Call, String>,
    failures: u64,
}

impl<'nvml> Probe<'nvml> {
    pub(super) fn new(device: Device<'nvml>) -> Self {
        Self { device, refused: BTreeMap::new(), failures: 0 }
    }

    /// Everything that it tells now.
    pub(super) fn sample(&mut self, moment: Moment, template: &Sample) -> Result<Sample, Lost> {
        let mut sample = Sample { t_ns: moment.t_ns, wall_ns: moment.wall_ns, ..template.clone() };
        // Memory first: it is what the moment should be closest to.
        if let Some(memory) = self.ask(Call::Memory, Device::memory_info)? {
            sample.memory_used = Some(memory.used as f64);
            sample.memory_reserved = Some(memory.reserved as f64);
            sample.memory_free = Some(memory.free as f64);
            sample.memory_total = Some(memory.total as f64);
        }
        if let Some(shares) = self.ask(Call::Utilization, Device::utilization_rates)? {
            sample.busy = Some(f64::from(shares.gpu) / 100.0);
            sample.memory_busy = Some(f64::from(shares.memory) / 100.0);
        }
        sample.power_w = self.ask(Call::Power, Device::power_usage)?.map(|mw| f64::from(mw) / 1e3);
        sample.energy_j = self.ask(Call::Energy, Device::total_energy_consumption)?.map(|mj| mj as f64 / 1e3);
        let temperature = |device: &Device<'_>| device.temperature(TemperatureSensor::Gpu);
        sample.temperature_c = self.ask(Call::Temperature, temperature)?.map(f64::from);
        let clock = |clock| move |device: &Device<'_>| device.clock_info(clock);
        sample.sm_clock_mhz = self.ask(Call::SmClock, clock(Clock::SM))?.map(f64::from);
        sample.memory_clock_mhz = self.ask(Call::MemoryClock, clock(Clock::Memory))?.map(f64::from);
        let reasons = self.ask(Call::Throttle, Device::current_throttle_reasons)?;
        sample.throttle = reasons.map(|reasons| reasons.bits() as f64);
        Ok(sample)
    }

    /// The processes that compute on it.
    pub(super) fn processes(&mut self) -> Result<Vec<Process>, Lost> {
        let processes = self.ask(Call::Processes, Device::running_compute_processes)?.unwrap_or_default();
        let process = |process: nvml_wrapper::struct_wrappers::device::ProcessInfo| Process {
            pid: process.pid,
            memory: match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes as f64),
                UsedGpuMemory::Unavailable => None,
            },
        };
        Ok(processes.into_iter().map(process).collect())
    }

    /// What it refused.
    pub(super) fn untold(&self) -> Vec<Untold> {
        let untold = |(call, why): (&Call, &String)| Untold { what: call.columns(), why: why.clone() };
        self.refused.iter().map(untold).collect()
    }

    /// Calls that failed and were made again at the next tick.
    pub(super) fn failures(&self) -> u64 {
        self.failures
    }

    fn ask<T>(
        &mut self,
        call: Call,
        question: impl FnOnce(&Device<'nvml>) -> Result<T, NvmlError>,
    ) -> Result<Option<T>, Lost> {
        if self.refused.contains_key(&call) {
            return Ok(None);
        }
        let error = match question(&self.device) {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        match error {
            NvmlError::GpuLost | NvmlError::ResetRequired | NvmlError::Uninitialized => {
                return Err(Lost(error.to_string()));
            }
            // Every device tells its memory: one that no longer knows itself is a MIG device taken down.
            NvmlError::InvalidArg | NvmlError::NotFound if call == Call::Memory => {
                return Err(Lost(error.to_string()));
            }
            NvmlError::NotSupported
            | NvmlError::NoPermission
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::FunctionNotFound
            | NvmlError::InvalidArg
            | NvmlError::NotFound
            | NvmlError::UnexpectedVariant(_) => {
                self.refused.insert(call, error.to_string());
            }
            _ => self.failures += 1,
        }
        Ok(None)
    }
}
