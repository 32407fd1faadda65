//! A recording from its start to its end: threads that measure, and one place that gathers and writes.

use super::clock::{Clock, nanoseconds};
use super::device::{Processes, Watch, Watched};
use super::driver::{Driver, Found};
use super::load::{Begun, Exchange, Load, Status};
use super::manifest::{DeviceReport, Ended, Gaps, Manifest};
use super::writers::{MANIFEST, Writers};
use super::{LONGEST, Options, Progress, RecorderError, SHORTEST};
use crate::files::write_whole;
use crate::recording::Sample;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the end is looked for and the progress is told, at least.
const LOOK: Duration = Duration::from_millis(50);
/// How long calls and requests that are under way at the end may take to return.
const GRACE: Duration = Duration::from_secs(2);

/// What the threads send.
#[derive(Debug)]
pub(super) enum Event {
    /// A device at a tick.
    Sample(Box<Sample>),
    /// The processes on a device.
    Processes(Processes),
    /// A device's thread has ended.
    Watched(Watched),
    /// A request was sent.
    Begun(Begun),
    /// A request has ended.
    Exchange(Box<Exchange>),
    /// The load is through; with the reason, if it was broken off.
    LoadDone(Option<String>),
}

/// Records until the time is over, the load is through, all devices are gone, or `stop` is set, and writes
/// everything. `progress` is called about twenty times a second.
///
/// # Errors
/// [`RecorderError`]: nothing can be recorded, or the files cannot be written.
pub fn record(
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Manifest, RecorderError> {
    if options.period < SHORTEST || options.period > LONGEST {
        return Err(RecorderError::Period(options.period));
    }
    let driver = Driver::open(options.library.as_deref())?;
    let (found, absent) = driver.devices(&options.devices)?;
    let writers = Writers::create(&options.out, options.overwrite, options.load.is_some())?;
    let (clock, halt) = (Clock::start(), Arc::new(AtomicBool::new(false)));
    let started = clock.moment();
    let (sender, events) = channel();
    let mut threads = Vec::new();
    for (device, found) in (0..).zip(&found) {
        let watch = Watch {
            nvml: Arc::clone(&driver.nvml),
            found: found.clone(),
            device,
            clock,
            period: options.period,
            halt: Arc::clone(&halt),
            events: sender.clone(),
        };
        threads.push(spawn(format!("device {device}"), &halt, move || watch.run())?);
    }
    if let Some(load) = &options.load {
        let (load, halt_load) = (load.clone(), Arc::clone(&halt));
        spawn("the load".to_owned(), &halt, move || load.run(clock, &halt_load, &sender))?;
    } else {
        drop(sender);
    }
    let mut session = Session {
        clock,
        limit_ns: options.limit.map(nanoseconds),
        writers,
        devices: found.iter().map(|_| Device::default()).collect(),
        under_way: BTreeMap::new(),
        statuses: BTreeMap::new(),
        requests_all: options.load.as_ref().map_or(0, Load::requests),
        load_done: false,
        broken_off: None,
    };
    let ended = session.gather(&events, stop, progress);
    // However it ended: the threads are told, and what they still send is taken.
    halt.store(true, Ordering::Relaxed);
    let ended = ended?;
    let duration_ns = clock.now_ns();
    session.drain(&events, options.load.is_some())?;
    for (thread, device) in threads.into_iter().zip(&session.devices) {
        if device.watched.is_some() {
            // It has sent its last; a panic there would be an error of ours and shows in its own message.
            let _ = thread.join();
        }
    }
    let manifest = Manifest {
        kind: "recording",
        forebay: env!("CARGO_PKG_VERSION"),
        started_wall_ns: started.wall_ns,
        duration_s: duration_ns as f64 / 1e9,
        ended,
        driver: driver.version.clone(),
        nvml: driver.nvml_version.clone(),
        library: driver.library.clone(),
        period_asked_s: options.period.as_secs_f64(),
        devices: found.iter().zip(&session.devices).enumerate().map(report).collect(),
        absent,
        load: options.load.as_ref().map(|load| load.report(&session.statuses, session.broken_off.clone())),
    };
    session.writers.finish()?;
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default() + "\n";
    write_whole(&options.out.join(MANIFEST), text.as_bytes(), options.overwrite)?;
    Ok(manifest)
}

/// What is known of a device while it is recorded.
#[derive(Debug, Default)]
struct Device {
    rows: u64,
    watched: Option<Watched>,
}

struct Session {
    clock: Clock,
    limit_ns: Option<u64>,
    writers: Writers,
    devices: Vec<Device>,
    /// Requests that were sent and have not ended, by number.
    under_way: BTreeMap<u64, Begun>,
    statuses: BTreeMap<Status, u64>,
    requests_all: u64,
    load_done: bool,
    broken_off: Option<String>,
}

impl Session {
    /// Takes what the threads send until the recording ends.
    fn gather(
        &mut self,
        events: &Receiver<Event>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Ended, RecorderError> {
        let mut told_ns = None;
        loop {
            match events.recv_timeout(LOOK) {
                Ok(event) => self.take(event)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(Ended::Devices),
            }
            let now_ns = self.clock.now_ns();
            if told_ns.is_none_or(|told_ns| now_ns - told_ns >= nanoseconds(LOOK)) {
                told_ns = Some(now_ns);
                progress(&self.progress(now_ns));
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(Ended::Stopped);
            }
            if self.load_done {
                return Ok(Ended::Load);
            }
            if self.limit_ns.is_some_and(|limit_ns| now_ns >= limit_ns) {
                return Ok(Ended::Time);
            }
            if self.devices.iter().all(|device| device.watched.is_some()) {
                return Ok(Ended::Devices);
            }
        }
    }

    /// Takes what is sent after the end. Calls and requests that do not return in time are given up.
    fn drain(&mut self, events: &Receiver<Event>, load: bool) -> Result<(), RecorderError> {
        let until_ns = self.clock.now_ns() + nanoseconds(GRACE);
        while self.devices.iter().any(|device| device.watched.is_none()) || (load && !self.load_done) {
            let left = Duration::from_nanos(until_ns.saturating_sub(self.clock.now_ns()));
            match events.recv_timeout(left) {
                Ok(event) => self.take(event)?,
                Err(_) => break,
            }
        }
        for begun in std::mem::take(&mut self.under_way).into_values() {
            self.take(Event::Exchange(Box::new(begun.interrupted(self.clock.now_ns()))))?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), RecorderError> {
        match event {
            Event::Sample(sample) => {
                if let Some(device) = self.devices.get_mut(sample.device as usize) {
                    device.rows += 1;
                }
                self.writers.sample(*sample)?;
            }
            Event::Processes(found) => self.writers.processes(found)?,
            Event::Watched(watched) => {
                if let Some(device) = self.devices.get_mut(watched.device as usize) {
                    device.watched = Some(watched);
                }
            }
            Event::Begun(begun) => {
                self.under_way.insert(begun.request, begun);
            }
            Event::Exchange(exchange) => {
                self.under_way.remove(&exchange.begun.request);
                *self.statuses.entry(exchange.status).or_default() += 1;
                self.writers.exchange(*exchange)?;
            }
            Event::LoadDone(broken_off) => {
                self.load_done = true;
                self.broken_off = broken_off;
            }
        }
        Ok(())
    }

    fn progress(&self, now_ns: u64) -> Progress {
        let lost = self.devices.iter().filter(|device| device.watched.is_some()).count();
        let answered = self.statuses.get(&Status::Answered).copied().unwrap_or(0);
        let requests = self.statuses.values().sum();
        Progress {
            elapsed_s: now_ns as f64 / 1e9,
            rows: self.writers.rows(),
            devices: self.devices.len() - lost,
            lost,
            requests,
            failed: requests - answered,
            requests_all: self.requests_all,
        }
    }
}

fn report((device, (found, known)): (usize, (&Found, &Device))) -> DeviceReport {
    let watched = known.watched.as_ref();
    DeviceReport {
        device: device as u32,
        index: found.place.index,
        mig: found.place.mig,
        uuid: found.uuid.clone(),
        name: found.name.clone(),
        power_limit_w: found.power_limit_w,
        rows: known.rows,
        missed: watched.map_or(0, |watched| watched.missed),
        gaps: watched.map_or_else(Gaps::default, |watched| watched.gaps),
        slowest_s: watched.map_or(0.0, |watched| watched.slowest_s),
        untold: watched.map_or_else(Vec::new, |watched| watched.untold.clone()),
        failures: watched.map_or(0, |watched| watched.failures),
        lost_at_s: watched.and_then(|watched| Some(watched.lost.as_ref()?.0)),
        lost_why: watched.and_then(|watched| Some(watched.lost.as_ref()?.1.clone())),
        hung: watched.is_none(),
    }
}

/// Starts a thread. If that fails, those that run already are told to halt.
fn spawn(
    what: String,
    halt: &AtomicBool,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, RecorderError> {
    std::thread::Builder::new().name(what.clone()).spawn(work).map_err(|cause| {
        halt.store(true, Ordering::Relaxed);
        RecorderError::Thread { what, cause }
    })
}
