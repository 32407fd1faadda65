//! The thread of one device: it samples at every tick until the recording ends or the device is gone.

use super::clock::{Clock, Moment, nanoseconds};
use super::driver::Found;
use super::manifest::Gaps;
use super::manifest::Untold;
use super::probe::{Lost, Probe, Process};
use super::session::Event;
use super::ticks::Ticks;
use crate::recording::Sample;
use nvml_wrapper::Nvml;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Processes are asked for less often: the call is slow, and what they hold changes slowly.
const PROCESSES_EVERY_NS: u64 = 1_000_000_000;

/// What the thread needs.
pub(super) struct Watch {
    pub(super) nvml: Arc<Nvml>,
    pub(super) found: Found,
    /// Its index in the recording.
    pub(super) device: u32,
    pub(super) clock: Clock,
    pub(super) period: Duration,
    pub(super) halt: Arc<AtomicBool>,
    pub(super) events: Sender<Event>,
}

/// What processes had at a moment.
#[derive(Debug)]
pub(super) struct Processes {
    pub(super) moment: Moment,
    pub(super) device: u32,
    pub(super) list: Vec<Process>,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) device: u32,
    pub(super) missed: u64,
    pub(super) gaps: Gaps,
    pub(super) slowest_s: f64,
    pub(super) untold: Vec<Untold>,
    pub(super) failures: u64,
    /// When the device was found gone, and why.
    pub(super) lost: Option<(f64, String)>,
}

impl Watch {
    /// Runs to the end. A receiver that is gone ends it too.
    pub(super) fn run(self) {
        let mut ticks = Ticks::new(nanoseconds(self.period));
        let mut slowest_ns = 0;
        let (lost, untold, failures) = match self.found.place.open(&self.nvml) {
            Err(error) => (Some(Lost(error.to_string())), Vec::new(), 0),
            Ok(device) => {
                let mut probe = Probe::new(device);
                let lost = self.sample(&mut probe, &mut ticks, &mut slowest_ns).err();
                (lost, probe.untold(), probe.failures())
            }
        };
        let watched = Watched {
            device: self.device,
            missed: ticks.missed(),
            gaps: Gaps::of(ticks.gaps_ns()),
            slowest_s: slowest_ns as f64 / 1e9,
            untold,
            failures,
            lost: lost.map(|Lost(why)| (self.clock.now_ns() as f64 / 1e9, why)),
        };
        let _ = self.events.send(Event::Watched(watched));
    }

    fn sample(&self, probe: &mut Probe<'_>, ticks: &mut Ticks, slowest_ns: &mut u64) -> Result<(), Lost> {
        let template = Sample {
            device: self.device,
            uuid: self.found.uuid.clone(),
            name: self.found.name.clone(),
            ..Sample::default()
        };
        let mut processes_due_ns = 0;
        while self.clock.sleep_until(ticks.due_ns(), &self.halt) {
            let moment = self.clock.moment();
            let sample = probe.sample(moment, &template)?;
            ticks.made(moment.t_ns);
            if self.events.send(Event::Sample(Box::new(sample))).is_err() {
                break;
            }
            if moment.t_ns >= processes_due_ns {
                processes_due_ns = moment.t_ns + PROCESSES_EVERY_NS;
                let found = Processes { moment, device: self.device, list: probe.processes()? };
                if !found.list.is_empty() && self.events.send(Event::Processes(found)).is_err() {
                    break;
                }
            }
            let now_ns = self.clock.now_ns();
            *slowest_ns = (*slowest_ns).max(now_ns - moment.t_ns);
            ticks.worked_until(now_ns);
        }
        Ok(())
    }
}
