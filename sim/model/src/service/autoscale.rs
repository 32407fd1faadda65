//! Replicas that are started and stopped while the service runs.
//!
//! Every check compares the replicas that are wanted with those that are there. Too few: those that were
//! about to stop go on, then others are started, lowest number first, where their GPU is there and their
//! model fits. Too many for long enough: those that only start are called off, then the highest numbers
//! take no further calls, and are given back at the first check after their last call.
//!
//! Rejected: giving a replica back at the instant of its last call. It needs a look at every end of a
//! call, for a difference of one check at most, which real autoscalers have as well.

use super::{Event, Service, StageState};
use crate::ids::StageId;
use crate::scenario::{Autoscale, Loaded, ScaleBy, Scenario, Stage};
use forebay_engine::{Calendar, Handle, Span, Time, TimeWeighted};

/// Where a replica is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It does not exist.
    Off,
    /// It loads and warms up; it serves when the event comes.
    Starting(Handle),
    /// It serves.
    Serving,
    /// It serves the calls that it has.
    Draining,
}

/// Replicas of a stage over the measured window: those that took up hardware.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) mean: f64,
    pub(crate) max: f64,
    pub(crate) hours: f64,
}

/// What an autoscaler did over the measured window.
#[derive(Clone, Copy, Debug)]
struct Scaled {
    replicas: Replicas,
    /// Replicas that could serve, those about to stop included: what utilisation is a share of.
    able_mean: f64,
}

/// The autoscaler of one stage.
#[derive(Clone, Debug)]
pub(crate) struct Scaler {
    pub(crate) stage: StageId,
    scale: Autoscale,
    /// Slots, or sequences, of a replica.
    slots: u32,
    weights_gb: f64,
    lives: Vec<Life>,
    /// Since when fewer would do, and the most that were wanted since.
    fewer: Option<(Time, u32)>,
    /// Busy slots, integrated, at the last check.
    seen: (Time, u128),
    /// Replicas that take up hardware: they start, serve or drain.
    held: TimeWeighted<u64>,
    able: TimeWeighted<u64>,
    closed: Option<Scaled>,
    /// Checks at which the timetable stood in for a forecast.
    pub(crate) timetable_used: u64,
}

impl Scaler {
    /// The autoscaler of a stage with so many replicas at the start, if it has one.
    pub(crate) fn new(scenario: &Scenario, stage: StageId, slots: u32) -> Option<Self> {
        let (scale, replicas, weights_gb) = match &scenario.stages[stage.index()] {
            Stage::LlmSlots(s) => {
                (s.autoscale.as_ref()?, s.replicas, s.memory.as_ref().map_or(0.0, |memory| memory.weights_gb))
            }
            Stage::LlmBatching(s) => {
                let group = s.device.as_ref().and_then(|name| scenario.devices.get(name));
                (s.autoscale.as_ref()?, s.replicas, group.map_or(0.0, |d| d.memory_gb * s.memory_share))
            }
            _ => return None,
        };
        let places = scale.most.max(replicas) as usize;
        let lives = (0..places).map(|i| if i < replicas as usize { Life::Serving } else { Life::Off });
        let level = TimeWeighted::new(Time::ZERO, u64::from(replicas));
        Some(Self {
            stage,
            slots,
            weights_gb,
            lives: lives.collect(),
            fewer: None,
            seen: (Time::ZERO, 0),
            held: level,
            able: level,
            closed: None,
            timetable_used: 0,
            scale: scale.clone(),
        })
    }

    fn count(&self, which: impl Fn(Life) -> bool) -> u32 {
        self.lives.iter().filter(|life| which(**life)).count() as u32
    }

    /// Replicas that serve or will: what is compared with those wanted.
    fn present(&self) -> u32 {
        self.count(|life| matches!(life, Life::Starting(_) | Life::Serving))
    }

    /// The replicas that keep so many busy slots at the target.
    fn enough_for(&self, busy: f64) -> u32 {
        let target = f64::from(self.slots) * self.scale.target_utilisation;
        // A whole number that rounding has put a little above itself is still that number.
        libm::ceil(busy / target - 1e-9).max(0.0) as u32
    }

    /// Forgets what was measured before `now`.
    pub(crate) fn restart(&mut self, now: Time) {
        self.held.reset(now);
        self.able.reset(now);
        self.seen = (now, 0);
        self.timetable_used = 0;
    }

    /// Fixes the averages at the end of the measured window.
    pub(crate) fn close(&mut self, now: Time) {
        let (mean, hours) = (self.held.mean(now), self.held.observed(now).as_secs_f64() / 3600.0);
        let replicas = Replicas { mean, max: self.held.max() as f64, hours: mean * hours };
        self.closed = Some(Scaled { replicas, able_mean: self.able.mean(now) });
    }

    /// The measured window is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Capacity over the measured window, slots.
    pub(crate) fn capacity_mean(&self) -> Option<f64> {
        self.closed.map(|closed| closed.able_mean * f64::from(self.slots))
    }
}

impl Service {
    /// Stops the replicas that are not there at the start, and puts the first checks on the calendar.
    pub(super) fn start_scalers(&mut self, calendar: &mut Calendar<Event>) {
        for index in 0..self.scalers.len() {
            let scaler = &self.scalers[index];
            let stage = scaler.stage;
            calendar.schedule(
                Time::ZERO + Span::from_secs_f64(scaler.scale.check_every_s),
                Event::Scale(index as u16),
            );
            for replica in 0..scaler.lives.len() as u32 {
                if self.scalers[index].lives[replica as usize] == Life::Off {
                    self.set_running(stage, replica, false);
                }
            }
            self.count_replicas(Time::ZERO, index);
        }
    }

    /// Looks at how many replicas are wanted, and starts or stops some.
    pub(super) fn scale(&mut self, now: Time, index: u16, calendar: &mut Calendar<Event>) {
        let index = usize::from(index);
        let wanted = self.wanted(now, index);
        let scaler = &mut self.scalers[index];
        let present = scaler.present();
        if wanted >= present {
            scaler.fewer = None;
            self.start_more(now, index, wanted - present, calendar);
        } else {
            let (since, most) = scaler.fewer.get_or_insert((now, wanted));
            *most = wanted.max(*most);
            let (since, most) = (*since, *most);
            if now.since(since) >= Span::from_secs_f64(scaler.scale.stop_after_s) {
                scaler.fewer = None;
                self.stop_some(now, index, present - most, calendar);
            }
        }
        self.give_drained_back(now, index, calendar);
        self.count_replicas(now, index);
        let every = Span::from_secs_f64(self.scalers[index].scale.check_every_s);
        if !self.is_over(now) {
            calendar.after(every, Event::Scale(index as u16));
        }
    }

    /// The replicas that are wanted now.
    fn wanted(&mut self, now: Time, index: usize) -> u32 {
        let busy = &self.measure.stages[self.scalers[index].stage.index()].busy;
        let (integral, level) = (busy.integral(now), busy.level());
        let ahead = Span::from_secs_f64(self.scalers[index].scale.lead_s());
        let (present, later) = (self.moment(now), self.moment(now + ahead));
        let scaler = &mut self.scalers[index];
        let (from_s, to_s) = (now.as_secs_f64(), (now + ahead).as_secs_f64());
        let scheduled = scaler.scale.scheduled(from_s, to_s).unwrap_or(scaler.scale.least);
        let wanted = match scaler.scale.by {
            ScaleBy::Demand => {
                let nanos = now.since(scaler.seen.0).as_nanos();
                let busy = if nanos == 0 {
                    level as f64
                } else {
                    integral.saturating_sub(scaler.seen.1) as f64 / nanos as f64
                };
                scaler.seen = (now, integral);
                scaler.enough_for(busy)
            }
            ScaleBy::Schedule => scheduled,
            ScaleBy::Forecast => {
                // What is wanted now is not stopped because less is wanted soon.
                let forecast = (self.governor.forecast(present), self.governor.forecast(later));
                if let (Some(here), Some(there)) = forecast {
                    let seconds = scaler.scale.seconds_per_arrival.unwrap_or(0.0);
                    scaler.enough_for(here.max(there) * seconds)
                } else {
                    scaler.timetable_used += 1;
                    scheduled
                }
            }
        };
        wanted.max(scaler.scale.least).min(scaler.scale.most)
    }

    /// Replicas of a stage; none of one that has none, or as long as the measured window is not over.
    pub(crate) fn replicas_of(&self, loaded: &Loaded, stage: usize) -> Option<Replicas> {
        let fixed = match &loaded.scenario.stages[stage] {
            Stage::LlmSlots(slots) => slots.replicas,
            Stage::LlmBatching(batching) => batching.replicas,
            _ => return None,
        };
        if let Some(scaler) = self.scalers.iter().find(|scaler| scaler.stage.index() == stage) {
            return scaler.closed.map(|closed| closed.replicas);
        }
        let run = &loaded.scenario.run;
        let hours = f64::from(fixed) * (run.duration_s - run.warmup_s) / 3600.0;
        Some(Replicas { mean: f64::from(fixed), max: f64::from(fixed), hours })
    }

    /// Gives back the replicas that have served their last call.
    fn give_drained_back(&mut self, now: Time, index: usize, calendar: &mut Calendar<Event>) {
        let stage = self.scalers[index].stage;
        for replica in 0..self.scalers[index].lives.len() as u32 {
            let draining = self.scalers[index].lives[replica as usize] == Life::Draining;
            if draining && self.stages[stage.index()].router().is_some_and(|router| router.load(replica) == 0)
            {
                self.switch_off(now, index, replica, calendar);
            }
        }
    }

    /// Lets draining replicas go on, then starts others.
    fn start_more(&mut self, now: Time, index: usize, mut more: u32, calendar: &mut Calendar<Event>) {
        let stage = self.scalers[index].stage;
        for replica in 0..self.scalers[index].lives.len() as u32 {
            if more == 0 {
                break;
            }
            if self.scalers[index].lives[replica as usize] == Life::Draining {
                self.scalers[index].lives[replica as usize] = Life::Serving;
                self.set_up(stage, replica, true);
                more -= 1;
            }
        }
        for replica in 0..self.scalers[index].lives.len() as u32 {
            if more == 0 {
                break;
            }
            if self.scalers[index].lives[replica as usize] != Life::Off {
                continue;
            }
            let weights_gb = self.scalers[index].weights_gb;
            if let Some(device) = self.stages[stage.index()].device(replica) {
                let memory = &mut self.devices[device.0 as usize];
                if memory.lost > 0 || !memory.fits(now, weights_gb) {
                    continue;
                }
                memory.load_now(now, weights_gb);
                self.watch_memory(now, device, calendar);
            }
            let start = Span::from_secs_f64(self.scalers[index].scale.start_s);
            let handle = calendar.after(start, Event::Started(index as u16, replica));
            self.scalers[index].lives[replica as usize] = Life::Starting(handle);
            more -= 1;
        }
        self.fill_slots(now, stage, calendar);
    }

    /// Calls off replicas that only start, then lets others drain.
    fn stop_some(&mut self, now: Time, index: usize, mut surplus: u32, calendar: &mut Calendar<Event>) {
        let stage = self.scalers[index].stage;
        let all = 0..self.scalers[index].lives.len() as u32;
        for replica in all.clone().rev() {
            let Life::Starting(handle) = self.scalers[index].lives[replica as usize] else { continue };
            if surplus == 0 {
                return;
            }
            calendar.cancel(handle);
            self.switch_off(now, index, replica, calendar);
            surplus -= 1;
        }
        for replica in all.rev() {
            if surplus == 0 {
                return;
            }
            if self.scalers[index].lives[replica as usize] == Life::Serving {
                self.scalers[index].lives[replica as usize] = Life::Draining;
                self.set_up(stage, replica, false);
                surplus -= 1;
            }
        }
    }

    /// A replica has started and serves from now on.
    pub(super) fn started(&mut self, now: Time, index: u16, replica: u32, calendar: &mut Calendar<Event>) {
        let index = usize::from(index);
        let stage = self.scalers[index].stage;
        self.scalers[index].lives[replica as usize] = Life::Serving;
        self.set_running(stage, replica, true);
        self.count_replicas(now, index);
        self.fill_slots(now, stage, calendar);
    }

    /// A replica that takes no calls and has none is given back, with the memory of its model.
    fn switch_off(&mut self, now: Time, index: usize, replica: u32, calendar: &mut Calendar<Event>) {
        let (stage, weights_gb) = (self.scalers[index].stage, self.scalers[index].weights_gb);
        self.scalers[index].lives[replica as usize] = Life::Off;
        if let StageState::Batching(batching) = &mut self.stages[stage.index()] {
            batching.replicas[replica as usize].off = true;
        }
        if let Some(device) = self.stages[stage.index()].device(replica) {
            self.devices[device.0 as usize].unload(now, weights_gb);
            self.watch_memory(now, device, calendar);
        }
    }

    /// A replica comes into being, its model not loaded yet, or is taken out of it.
    fn set_running(&mut self, stage: StageId, replica: u32, running: bool) {
        match &mut self.stages[stage.index()] {
            StageState::Slots(slots) => slots.replicas[replica as usize].cold(),
            StageState::Batching(batching) => batching.replicas[replica as usize].off = !running,
            StageState::Server(_) | StageState::Reranker(_) | StageState::Providers(_) => {}
        }
        self.set_up(stage, replica, running);
    }

    fn set_up(&mut self, stage: StageId, replica: u32, up: bool) {
        if let Some(router) = self.stages[stage.index()].router_mut() {
            router.set_up(replica, up);
        }
    }

    /// Brings the counts of replicas up to date, and with them the stage's capacity.
    fn count_replicas(&mut self, now: Time, index: usize) {
        let scaler = &mut self.scalers[index];
        let held = scaler.count(|life| life != Life::Off);
        let able = scaler.count(|life| matches!(life, Life::Serving | Life::Draining));
        scaler.held.set(now, u64::from(held));
        scaler.able.set(now, u64::from(able));
        self.measure.stages[scaler.stage.index()].capacity = u64::from(able) * u64::from(scaler.slots);
    }
}

#[cfg(test)]
#[path = "autoscale_tests.rs"]
mod tests;
