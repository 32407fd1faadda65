//! Device memory that runs out: whose call breaks, and engines that restart.

use super::{Event, Service, StageState};
use crate::attempts::Phase;
use crate::ids::{AttemptId, DeviceId, StageId};
use crate::outcome::{End, Failure};
use crate::scenario::OnOutOfMemory;
use forebay_engine::{Calendar, Time};

impl Service {
    /// Keeps the event at which a device is full no later than the instant when it will be.
    pub(super) fn watch_memory(&mut self, now: Time, device: DeviceId, calendar: &mut Calendar<Event>) {
        let memory = &mut self.devices[device.0 as usize];
        let Some(full_at) = memory.full_at(now) else {
            // An idle device leaves no event behind: a run ends when nobody is left.
            if let Some((_, handle)) = memory.full.take() {
                calendar.cancel(handle);
            }
            return;
        };
        if memory.full.is_some_and(|(at, _)| at <= full_at) {
            return;
        }
        if let Some((_, handle)) = memory.full.take() {
            calendar.cancel(handle);
        }
        memory.full = Some((full_at, calendar.schedule(full_at, Event::DeviceFull(device.0))));
    }

    /// A device may be full: if it is, an allocation fails.
    pub(super) fn device_full(&mut self, now: Time, device: DeviceId, calendar: &mut Calendar<Event>) {
        let memory = &mut self.devices[device.0 as usize];
        memory.full = None;
        if memory.fits(now, 0.0) {
            self.watch_memory(now, device, calendar);
        } else {
            self.run_out(now, device, None, calendar);
        }
    }

    /// The call that was admitted last on a device.
    fn latest_call(&self, device: DeviceId) -> Option<(StageId, u32, AttemptId)> {
        let mut latest: Option<(Time, StageId, u32, AttemptId)> = None;
        for (index, state) in self.stages.iter().enumerate() {
            let StageState::Slots(slots) = state else { continue };
            for (replica, place) in slots.replicas.iter().enumerate() {
                if place.device != Some(device) {
                    continue;
                }
                for job in &place.jobs {
                    let candidate =
                        (self.attempts[job.id].started, StageId(index as u16), replica as u32, job.id);
                    latest = latest.max(Some(candidate));
                }
            }
        }
        latest.map(|(_, stage, replica, id)| (stage, replica, id))
    }

    /// An allocation on a device has failed: the call that made it fails, or its engine restarts. When
    /// it was the growth of the device's calls, the call is the one admitted last.
    pub(super) fn run_out(
        &mut self,
        now: Time,
        device: DeviceId,
        asked: Option<(StageId, u32, AttemptId)>,
        calendar: &mut Calendar<Event>,
    ) {
        self.measure.out_of_memory += u64::from(self.in_window(now));
        let Some((stage, replica, id)) = asked.or_else(|| self.latest_call(device)) else { return };
        if self.slots(stage).on_out_of_memory == OnOutOfMemory::FailCall {
            self.break_in_slot(now, id, stage, Failure::OutOfMemory, calendar);
            self.fill_slots(now, stage, calendar);
            self.watch_memory(now, device, calendar);
            return;
        }
        self.measure.restarts += u64::from(self.in_window(now));
        let slots = self.slots(stage);
        slots.router.set_up(replica, false);
        slots.replicas[replica as usize].cold();
        let restart = slots.restart;
        while let Some(job) = self.slots(stage).replicas[replica as usize].jobs.last() {
            let other = job.id;
            let why = if other == id { Failure::OutOfMemory } else { Failure::EngineRestarted };
            self.break_in_slot(now, other, stage, why, calendar);
        }
        calendar.after(restart, Event::ReplicaUp(stage.0, replica));
        self.fill_slots(now, stage, calendar);
    }

    /// A call in a slot breaks.
    fn break_in_slot(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        why: Failure,
        calendar: &mut Calendar<Event>,
    ) {
        self.end_slot(now, id, stage, false, calendar);
        self.break_call(now, id, stage, why, calendar);
    }

    /// A call that holds nothing of its stage any more breaks.
    pub(super) fn break_call(
        &mut self,
        now: Time,
        id: AttemptId,
        stage: StageId,
        why: Failure,
        calendar: &mut Calendar<Event>,
    ) {
        self.call_ended(now, id, false, false, calendar);
        self.attempts[id].phase = Phase::Between;
        self.end_at(now, id, stage, End::Failed(why));
    }

    /// A replica has loaded its model again.
    pub(super) fn replica_up(
        &mut self,
        now: Time,
        stage: StageId,
        replica: u32,
        calendar: &mut Calendar<Event>,
    ) {
        self.slots(stage).router.set_up(replica, true);
        self.fill_slots(now, stage, calendar);
    }
}
