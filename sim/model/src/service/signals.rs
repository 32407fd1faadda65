//! What happens by the clock: samples and their delivery, ticks of the feedback loops, points of the
//! timeline, the end of the warm-up and of the measured window.

use super::faults::Metering;
use super::{Event, Service, StageState};
use crate::ids::DeviceId;
use crate::timeline::Point;
use forebay_engine::{Calendar, Time};
use forebay_policies::Reading;
use forebay_policies::signal::SignalKind;

impl Service {
    /// Nothing more can happen: arrivals are over and nobody is left.
    pub(super) fn is_over(&self, now: Time) -> bool {
        now >= self.plan.end && self.attempts.iter().next().is_none()
    }

    /// Memory share that NVML shows: mean over the LLM devices that are there, and that of the fullest.
    fn memory_shown(&self, now: Time) -> Option<(f64, f64)> {
        let (mut sum, mut most, mut n) = (0.0, 0.0_f64, 0_u32);
        for device in &self.watched {
            let memory = &self.devices[device.0 as usize];
            if memory.lost == 0 {
                let shown = memory.shown(now);
                sum += shown;
                most = most.max(shown);
                n += 1;
            }
        }
        (n > 0).then(|| (sum / f64::from(n), most))
    }

    /// Share of KV blocks in use, mean over the replicas of all batching engines that run.
    fn kv_share(&self, now: Time) -> Option<f64> {
        mean(self.stages.iter().filter_map(StageState::batching).flat_map(|stage| stage.kv_shares(now)))
    }

    /// Share of the LLM's slots that are busy.
    fn llm_busy(&self) -> Option<f64> {
        let (mut busy, mut capacity) = (0, 0);
        for (state, measure) in self.stages.iter().zip(&self.measure.stages) {
            match state {
                StageState::Slots(slots) => {
                    busy += u64::from(slots.busy);
                    capacity += measure.capacity;
                }
                StageState::Batching(batching) => {
                    busy += batching.running;
                    capacity += measure.capacity;
                }
                StageState::Server(_) | StageState::Reranker(_) | StageState::Providers(_) => {}
            }
        }
        (capacity > 0).then(|| busy as f64 / capacity as f64)
    }

    /// Calls that wait at the model engines.
    fn llm_queue(&self) -> u64 {
        let engines = self.stages.iter().map(|state| match state {
            StageState::Slots(slots) => u64::from(slots.line.len()),
            StageState::Batching(batching) => batching.waiting,
            StageState::Providers(providers) => providers.waiting.len() as u64,
            StageState::Server(_) | StageState::Reranker(_) => 0,
        });
        engines.sum()
    }

    /// The meters are read.
    pub(super) fn sample(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let memory = self.memory_shown(now);
        let kv = self.kv_share(now);
        if self.in_window(now) {
            if let Some((mean, most)) = memory {
                self.measure.vram.add(mean);
                self.measure.vram_max = self.measure.vram_max.max(most);
            }
            for (state, measure) in self.stages.iter().zip(&mut self.measure.stages) {
                if let Some(share) = state.batching().and_then(|stage| mean(stage.kv_shares(now))) {
                    measure.kv.add(share);
                }
            }
            if let Some(kv) = kv {
                self.measure.kv.add(kv);
                self.measure.kv_max = self.measure.kv_max.max(kv);
            }
        }
        let shares = self.meter.close_period();
        let mut reading = Reading::new(self.moment(now));
        let mut set = |kind: SignalKind, value: Option<f64>| reading.values[kind.index()] = value;
        set(SignalKind::Vram, memory.map(|m| self.meter.noisy(m.0)));
        set(SignalKind::VramMax, memory.map(|m| self.meter.noisy(m.1)));
        set(SignalKind::Kv, kv);
        set(SignalKind::LlmBusy, self.llm_busy());
        set(SignalKind::LlmQueue, Some(self.llm_queue() as f64));
        set(SignalKind::QueueLength, Some(self.governor.queued() as f64));
        set(SignalKind::ErrorRate, shares.error_rate);
        set(SignalKind::LatencyP95, shares.latency_p95_s);
        set(SignalKind::ArrivalRate, Some(shares.arrival_rate_per_s));
        set(SignalKind::LlmTimeouts, Some(shares.llm_timeouts));
        set(SignalKind::CacheHitRate, shares.cache_hit_rate);
        if self.plan.reads {
            let waits = |queue| Some(self.governor.queue_len(queue) as f64);
            set(SignalKind::StoreLatency, shares.store_latency_s);
            set(SignalKind::L3Share, shares.l3_share);
            set(SignalKind::Csat, shares.csat);
            set(SignalKind::QueueHigh, waits(0));
            set(SignalKind::QueueStandard, waits(1));
            set(SignalKind::QueueDegraded, waits(2));
            set(SignalKind::TokenBalance, self.governor.token_balance(self.moment(now), &self.signals));
            set(SignalKind::TtftP95, shares.ttft_p95_s);
            set(SignalKind::InFlight, Some(f64::from(self.executor.busy)));
        }
        if self.in_window(now) {
            self.accounts.control.sampled(&reading);
        }
        match self.faults.metering() {
            Metering::Live => self.meter.shown = reading.values,
            Metering::Frozen => reading.values = self.meter.shown,
            Metering::Stopped => {}
        }
        if self.faults.metering() != Metering::Stopped {
            self.meter.in_transit.push_back(reading);
            calendar.after(self.meter.delay, Event::Deliver);
        }
        if !self.is_over(now) {
            calendar.schedule(self.meter.next(now), Event::Sample);
        }
    }

    /// A reading arrives at the gateway, which hears it if it is there.
    pub(super) fn deliver(&mut self, now: Time) {
        if let Some(reading) = self.meter.in_transit.pop_front()
            && !self.gateway_down()
        {
            let moment = self.moment(now);
            self.signals.deliver(moment, &reading);
            if let Some(shadow) = &mut self.shadow {
                shadow.deliver(moment, &reading);
            }
            self.pump = true;
        }
    }

    /// The feedback loops run; those of a gateway that is down stand still.
    pub(super) fn tick(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        if !self.gateway_down() {
            self.run_loops(now, calendar);
        }
        if let Some(period) = self.governor.tick_period_ns()
            && !self.is_over(now)
        {
            calendar.after(forebay_engine::Span::from_nanos(period), Event::Tick);
        }
    }

    fn run_loops(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        self.governor.tick(self.moment(now), &self.signals, &mut self.ticked);
        let in_window = self.in_window(now);
        self.accounts.control.ticked(in_window, self.governor.levels_now(), &self.ticked.commands);
        self.accounts.alerts.add(now, &self.ticked.alerts);
        self.mark_ticked(now);
        self.ticked.clear();
        self.wake_held(now, calendar);
        self.pump = true;
    }

    /// What a tick brought leaves its marks.
    fn mark_ticked(&mut self, now: Time) {
        for command in &self.ticked.commands {
            if self.timeline.takes_commands() {
                let name = format!("{} = {}", command.parameter, command.value);
                self.timeline.mark(now, "command", &name, true);
            }
        }
        for alert in &self.ticked.alerts {
            if let Some(name) = self.accounts.alerts.name(alert.rule) {
                self.timeline.mark(now, "alert", name, true);
            }
        }
    }

    /// The next point of the timeline.
    pub(super) fn point(&mut self, now: Time, calendar: &mut Calendar<Event>) {
        let state = Point {
            in_system: self.present,
            queued: self.governor.queued() as u64,
            vram: self.memory_shown(now).map(|m| m.0),
            kv: self.kv_share(now),
            ..Point::default()
        };
        self.timeline.close_step(now, state);
        let next = now + self.timeline.step;
        if next <= self.plan.end || !self.is_over(now) {
            calendar.schedule(next, Event::Point);
        }
    }

    pub(super) fn empty_cache(&mut self, now: Time, device: DeviceId, calendar: &mut Calendar<Event>) {
        let index = device.0 as usize;
        self.devices[index].empty_cache(now);
        if let Some(period) = self.plan.empty_cache[index]
            && !self.is_over(now)
        {
            calendar.after(period, Event::EmptyCache(device.0));
        }
    }

    /// The warm-up is over: what was measured so far is forgotten, the ledger and the digest are not.
    pub(super) fn warm(&mut self, now: Time) {
        for stage in &mut self.measure.stages {
            stage.restart(now);
        }
        self.executor.measure.restart(now);
        for scaler in &mut self.scalers {
            scaler.restart(now);
        }
        if let Some(host) = &mut self.host {
            host.restart();
        }
        self.measure.before_warm = self.measure.in_system.integral(now);
        self.measure.in_system.reset(now);
    }

    /// Arrivals are over: time averages are fixed here, so that the draining does not dilute them.
    pub(super) fn close(&mut self, now: Time) {
        for stage in &mut self.measure.stages {
            stage.close(now);
        }
        self.executor.measure.close(now);
        for scaler in &mut self.scalers {
            scaler.close(now);
            let stage = &mut self.measure.stages[scaler.stage.index()];
            if let (Some(capacity), Some(closed)) = (scaler.capacity_mean(), &mut stage.closed) {
                closed.utilisation = closed.busy_mean / capacity;
            }
        }
        let in_system = &self.measure.in_system;
        self.measure.in_system_closed = Some((in_system.mean(now), in_system.variance(now)));
    }
}

/// The mean of some values, if there are any.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0_u32), |(sum, n), value| (sum + value, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
