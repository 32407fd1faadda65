//! The functions of the C interface, as NVML's documentation gives them.

#![allow(non_snake_case, reason = "the names are those of the C interface")]

use crate::machine::{
    Code, INSUFFICIENT_SIZE, INVALID_ARGUMENT, Machine, NOT_FOUND, SUCCESS, VERSION_MISMATCH,
};
use crate::script::{Device, Level};
use std::ffi::{c_char, c_uint, c_ulonglong, c_void};
use std::path::PathBuf;

/// What stands for a device: its place among all, from 1, dressed as a pointer that nobody follows.
type Handle = *mut c_void;

fn handle(index: usize) -> Handle {
    std::ptr::without_provenance_mut(index + 1)
}

fn index(device: Handle) -> Result<usize, Code> {
    device.addr().checked_sub(1).ok_or(INVALID_ARGUMENT)
}

fn code(done: Result<(), Code>) -> Code {
    done.err().unwrap_or(SUCCESS)
}

/// Writes a value where the caller wants it.
///
/// # Safety
/// `place` is null or may be written to.
unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: it is not null, and the caller says that it may be written to.
    unsafe { place.write(value) };
    Ok(())
}

/// Writes a text with its final zero.
///
/// # Safety
/// `place` is null or has room for `length` characters.
unsafe fn put_text(place: *mut c_char, length: c_uint, text: &str) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: there is room for the text and the zero, as was just checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}

/// Asks a device and writes its answer.
///
/// # Safety
/// `place` is null or may be written to.
unsafe fn tell<T>(
    device: Handle,
    call: &'static str,
    place: *mut T,
    answer: impl FnOnce(&Device, f64) -> Option<T>,
) -> Code {
    let asked = index(device).and_then(|index| Machine::running()?.ask(index, call, answer));
    // SAFETY: passed on.
    code(asked.and_then(|value| unsafe { put(place, value) }))
}

/// A level in a unit of which there are `per_unit` in the script's.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the casts saturate")]
fn scaled(level: Option<&Level>, t_s: f64, per_unit: f64) -> Option<u64> {
    level.map(|level| (level.at(t_s) * per_unit) as u64)
}

fn narrow(value: u64) -> c_uint {
    c_uint::try_from(value).unwrap_or(c_uint::MAX)
}

/// The script's place: `NVML_REPLAY`, or the file beside this library.
fn script() -> Option<PathBuf> {
    std::env::var_os("NVML_REPLAY").map(PathBuf::from).or_else(|| Some(own_file()?.with_extension("toml")))
}

#[cfg(unix)]
fn own_file() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_int};
    use std::os::unix::ffi::OsStrExt;

    #[repr(C)]
    struct Found {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }
    unsafe extern "C" {
        fn dladdr(address: *const c_void, found: *mut Found) -> c_int;
    }
    let mut found = Found {
        file: std::ptr::null(),
        base: std::ptr::null_mut(),
        symbol: std::ptr::null(),
        address: std::ptr::null_mut(),
    };
    // SAFETY: the address is that of a function of this library, and the result has the form that the
    // system's manual gives.
    let known = unsafe { dladdr(own_file as *const c_void, &raw mut found) };
    if known == 0 || found.file.is_null() {
        return None;
    }
    // SAFETY: the loader's name of a loaded library is a text with a final zero, and stays while it is loaded.
    let file = unsafe { CStr::from_ptr(found.file) };
    Some(PathBuf::from(OsStr::from_bytes(file.to_bytes())))
}

#[cfg(not(unix))]
fn own_file() -> Option<PathBuf> {
    None
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> Code {
    code(script().ok_or(NOT_FOUND).and_then(|path| Machine::start(&path)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInitWithFlags(_flags: c_uint) -> Code {
    nvmlInit_v2()
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> Code {
    code(Machine::stop())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetDriverVersion(place: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller gives room for `length` characters.
    code(Machine::running().and_then(|machine| unsafe { put_text(place, length, &machine.script.driver) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlSystemGetNVMLVersion(place: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller gives room for `length` characters.
    code(Machine::running().and_then(|machine| unsafe { put_text(place, length, &machine.script.nvml) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCount_v2(place: *mut c_uint) -> Code {
    let count = Machine::running().map(|machine| narrow(machine.script.device.len() as u64));
    // SAFETY: the caller gives room for a number.
    code(count.and_then(|count| unsafe { put(place, count) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, place: *mut Handle) -> Code {
    let device = Machine::running().and_then(|machine| {
        let known = (number as usize) < machine.script.device.len();
        if known { machine.ask(number as usize, "handle", |_, _| Some(())) } else { Err(INVALID_ARGUMENT) }
    });
    // SAFETY: the caller gives room for a handle.
    code(device.and_then(|()| unsafe { put(place, handle(number as usize)) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetName(device: Handle, place: *mut c_char, length: c_uint) -> Code {
    let asked =
        index(device).and_then(|index| Machine::running()?.ask(index, "name", |d, _| Some(d.name.clone())));
    // SAFETY: the caller gives room for `length` characters.
    code(asked.and_then(|name| unsafe { put_text(place, length, &name) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUUID(device: Handle, place: *mut c_char, length: c_uint) -> Code {
    let asked =
        index(device).and_then(|index| Machine::running()?.ask(index, "uuid", |d, _| Some(d.uuid.clone())));
    // SAFETY: the caller gives room for `length` characters.
    code(asked.and_then(|uuid| unsafe { put_text(place, length, &uuid) }))
}

/// Memory, in the second version of its form.
#[repr(C)]
struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the casts saturate")]
unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Handle, place: *mut Memory) -> Code {
    if place.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: it is not null, and the caller has set the version before.
    let version = unsafe { (&raw const (*place).version).read() };
    if version as usize != size_of::<Memory>() | (2 << 24) {
        return VERSION_MISMATCH;
    }
    let answer = |device: &Device, t_s: f64| {
        let total = device.memory_total?;
        let used = device.memory_used.at(t_s);
        let free = (total - used - device.memory_reserved).max(0.0);
        Some(Memory {
            version,
            total: total as u64,
            reserved: device.memory_reserved as u64,
            free: free as u64,
            used: used as u64,
        })
    };
    // SAFETY: passed on.
    unsafe { tell(device, "memory", place, answer) }
}

/// Shares of time, per cent.
#[repr(C)]
struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetUtilizationRates(device: Handle, place: *mut Utilization) -> Code {
    let answer = |device: &Device, t_s: f64| {
        let gpu = narrow(scaled(device.busy.as_ref(), t_s, 1.0)?);
        let memory = narrow(scaled(Some(&device.memory_busy), t_s, 1.0)?);
        Some(Utilization { gpu, memory })
    };
    // SAFETY: passed on.
    unsafe { tell(device, "utilization", place, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetPowerUsage(device: Handle, place: *mut c_uint) -> Code {
    // SAFETY: passed on.
    unsafe { tell(device, "power", place, |d, t_s| scaled(d.power_w.as_ref(), t_s, 1e3).map(narrow)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, place: *mut c_uint) -> Code {
    let answer = |d: &Device, t_s| scaled(d.power_limit_w.as_ref(), t_s, 1e3).map(narrow);
    // SAFETY: passed on.
    unsafe { tell(device, "power_limit", place, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTotalEnergyConsumption(device: Handle, place: *mut c_ulonglong) -> Code {
    // SAFETY: passed on.
    unsafe { tell(device, "energy", place, |d, t_s| scaled(d.energy_j.as_ref(), t_s, 1e3)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetTemperature(device: Handle, sensor: c_uint, place: *mut c_uint) -> Code {
    if sensor != 0 {
        return INVALID_ARGUMENT;
    }
    // SAFETY: passed on.
    unsafe {
        tell(device, "temperature", place, |d, t_s| scaled(d.temperature_c.as_ref(), t_s, 1.0).map(narrow))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetClockInfo(device: Handle, clock: c_uint, place: *mut c_uint) -> Code {
    // Those of the multiprocessors and of the memory; the others are not in the script.
    let call = match clock {
        1 => "sm_clock",
        2 => "memory_clock",
        _ => return INVALID_ARGUMENT,
    };
    let answer = |device: &Device, t_s: f64| {
        let level = if clock == 1 { &device.sm_clock_mhz } else { &device.memory_clock_mhz };
        scaled(level.as_ref(), t_s, 1.0).map(narrow)
    };
    // SAFETY: passed on.
    unsafe { tell(device, call, place, answer) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: Handle,
    place: *mut c_ulonglong,
) -> Code {
    // SAFETY: passed on.
    unsafe { tell(device, "throttle", place, |d, t_s| scaled(d.throttle.as_ref(), t_s, 1.0)) }
}

/// A process with memory on a device.
#[repr(C)]
#[derive(Clone, Copy)]
struct Process {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

#[unsafe(no_mangle)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the casts saturate")]
unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Handle,
    count: *mut c_uint,
    place: *mut Process,
) -> Code {
    let answer = |device: &Device, _| {
        let process = |process: &crate::script::Process| Process {
            pid: process.pid,
            memory: process.memory.map_or(u64::MAX, |memory| memory as u64),
            gpu_instance: c_uint::MAX,
            compute_instance: c_uint::MAX,
        };
        device.processes.as_ref().map(|processes| processes.iter().map(process).collect::<Vec<_>>())
    };
    let asked = index(device).and_then(|index| Machine::running()?.ask(index, "processes", answer));
    let processes = match asked {
        Ok(processes) => processes,
        Err(code) => return code,
    };
    if count.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: it is not null, and the caller has set how many there is room for.
    let room = unsafe { count.read() } as usize;
    // SAFETY: as above.
    unsafe { count.write(narrow(processes.len() as u64)) };
    if room < processes.len() {
        return INSUFFICIENT_SIZE;
    }
    if !place.is_null() {
        // SAFETY: there is room for all of them.
        unsafe { std::ptr::copy_nonoverlapping(processes.as_ptr(), place, processes.len()) };
    }
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Handle,
    current: *mut c_uint,
    pending: *mut c_uint,
) -> Code {
    let on = index(device).and_then(|index| {
        Machine::running()?.ask(index, "mig_mode", |d, _| Some(c_uint::from(!d.mig.is_empty())))
    });
    // SAFETY: the caller gives room for both numbers.
    code(on.and_then(|on| unsafe { put(current, on).and_then(|()| put(pending, on)) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, place: *mut c_uint) -> Code {
    // Like a real device, it has more places than are taken.
    // SAFETY: passed on.
    unsafe { tell(device, "mig_count", place, |d, _| Some(narrow(d.mig.len() as u64 + 1))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Handle,
    number: c_uint,
    place: *mut Handle,
) -> Code {
    let found =
        index(device).and_then(|index| Machine::running()?.mig(index, number as usize).ok_or(NOT_FOUND));
    // SAFETY: the caller gives room for a handle.
    code(found.and_then(|index| unsafe { put(place, handle(index)) }))
}
