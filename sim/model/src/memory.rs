//! GPU memory: what each device holds, what NVML would show of it, and when it runs out.
//!
//! Memory in use is a straight line between two changes: what calls took when they began, plus the KV
//! memory of the tokens they have made since. So a device keeps a level and a slope, and the instant at
//! which it is full has a closed form; nothing is updated token by token.

use crate::scenario::{Allocator, Device};
use forebay_engine::{Handle, Span, Time};

/// Memory of one device. Amounts in GB.
#[derive(Clone, Debug)]
pub(crate) struct DeviceMemory {
    capacity_gb: f64,
    /// Loaded models and other tenants.
    fixed_gb: f64,
    /// How many models are loaded: each is a process of its own.
    models: u32,
    allocator: Allocator,
    /// Held by calls at `at`.
    level_gb: f64,
    slope_gb_per_s: f64,
    at: Time,
    /// Most that was in use since the cache was last emptied (`caching` only).
    reserved_gb: f64,
    /// Calls and batches that hold memory.
    holders: u32,
    pub(crate) interference: f64,
    /// LLM calls and rerank batches that run here.
    pub(crate) llm_busy: u32,
    pub(crate) rerank_busy: u32,
    /// The pending event at which the device may be full.
    pub(crate) full: Option<(Time, Handle)>,
    /// Faults that have taken the device away: it is there while there is none.
    pub(crate) lost: u32,
}

impl DeviceMemory {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            capacity_gb: device.memory_gb,
            fixed_gb: device.other_tenants_gb,
            models: 0,
            allocator: device.allocator,
            level_gb: 0.0,
            slope_gb_per_s: 0.0,
            at: Time::ZERO,
            reserved_gb: device.other_tenants_gb,
            holders: 0,
            interference: device.interference,
            llm_busy: 0,
            rerank_busy: 0,
            full: None,
            lost: 0,
        }
    }

    /// Loads a model, or takes an engine's own share. A new process finds nothing in the caches of others.
    pub(crate) fn load(&mut self, gb: f64) {
        self.models += 1;
        self.fixed_gb += gb;
        self.reserved_gb = (self.reserved_gb + gb).min(self.capacity_gb);
    }

    /// Loads a model while the device is in use.
    pub(crate) fn load_now(&mut self, now: Time, gb: f64) {
        self.advance(now);
        self.load(gb);
    }

    /// A model's process ends and gives back what it took; the last one of a device leaves no cache behind.
    pub(crate) fn unload(&mut self, now: Time, gb: f64) {
        self.advance(now);
        self.models -= 1;
        self.fixed_gb -= gb;
        let used_gb = self.fixed_gb + self.level_gb;
        let kept_gb = if self.models == 0 { used_gb } else { self.reserved_gb - gb };
        self.reserved_gb = kept_gb.max(used_gb);
    }

    pub(crate) fn capacity_gb(&self) -> f64 {
        self.capacity_gb
    }

    /// In use at `now`, GB.
    #[inline]
    pub(crate) fn used_gb(&self, now: Time) -> f64 {
        self.fixed_gb + self.level_gb + self.slope_gb_per_s * now.since(self.at).as_secs_f64()
    }

    /// What NVML shows at `now`, as a share of the device.
    #[inline]
    pub(crate) fn shown(&self, now: Time) -> f64 {
        let used = self.used_gb(now);
        let shown = match self.allocator {
            Allocator::Exact | Allocator::Preallocated => used,
            Allocator::Caching => self.reserved_gb.max(used),
        };
        shown.min(self.capacity_gb) / self.capacity_gb
    }

    /// Whether `gb` more would fit at `now`. A failing `caching` allocator empties its cache and tries
    /// again, so what is merely kept does not count.
    #[inline]
    pub(crate) fn fits(&self, now: Time, gb: f64) -> bool {
        self.used_gb(now) + gb <= self.capacity_gb
    }

    /// A call or batch begins: takes `gb` at once, then grows.
    #[inline]
    pub(crate) fn take(&mut self, now: Time, gb: f64, growth_gb_per_s: f64) {
        self.advance(now);
        self.level_gb += gb;
        self.slope_gb_per_s += growth_gb_per_s;
        self.holders += 1;
    }

    /// A call or batch ends: gives back all that it held at `now`, and grows no more.
    #[inline]
    pub(crate) fn give_back(&mut self, now: Time, gb: f64, growth_gb_per_s: f64) {
        self.advance(now);
        self.holders -= 1;
        if self.holders == 0 {
            // Sums of many terms drift by rounding; an empty device is exactly empty.
            (self.level_gb, self.slope_gb_per_s) = (0.0, 0.0);
        } else {
            self.level_gb -= gb;
            self.slope_gb_per_s -= growth_gb_per_s;
        }
    }

    /// The cache is emptied.
    pub(crate) fn empty_cache(&mut self, now: Time) {
        self.advance(now);
        self.reserved_gb = self.fixed_gb + self.level_gb;
    }

    /// When the device will be full if nothing changes; `None` if it will not.
    #[inline]
    pub(crate) fn full_at(&self, now: Time) -> Option<Time> {
        if self.slope_gb_per_s <= 1e-12 {
            return None;
        }
        let room = self.capacity_gb - self.used_gb(now);
        let seconds = (room / self.slope_gb_per_s).max(0.0);
        // One nanosecond past the crossing, so that the device is full when the event comes.
        (seconds < 1e9).then(|| now + Span::from_secs_f64(seconds) + Span::from_nanos(1))
    }

    /// Calls and batches that hold memory.
    pub(crate) fn holders(&self) -> u32 {
        self.holders
    }

    #[inline]
    fn advance(&mut self, now: Time) {
        self.level_gb += self.slope_gb_per_s * now.since(self.at).as_secs_f64();
        self.at = now;
        self.reserved_gb = self.reserved_gb.max(self.fixed_gb + self.level_gb);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(allocator: Allocator) -> DeviceMemory {
        let mut memory = DeviceMemory::new(&Device {
            count: 1,
            memory_gb: 20.0,
            other_tenants_gb: 1.0,
            allocator,
            empty_cache_every_s: None,
            interference: 1.0,
        });
        memory.load(9.0);
        memory
    }

    fn at(s: f64) -> Time {
        Time::ZERO + Span::from_secs_f64(s)
    }

    #[test]
    fn use_is_a_line_and_fills_when_it_says() {
        let mut memory = device(Allocator::Exact);
        memory.take(at(1.0), 2.0, 0.5);
        memory.take(at(3.0), 1.0, 0.5);
        assert!((memory.used_gb(at(4.0)) - 15.0).abs() < 1e-9);
        let full = memory.full_at(at(4.0)).expect("it grows");
        assert!((full.as_secs_f64() - 9.0).abs() < 1e-6);
        assert!(memory.used_gb(full) >= 20.0);
        memory.give_back(at(5.0), 4.0, 0.5);
        memory.give_back(at(5.0), 2.0, 0.5);
        assert_eq!(memory.used_gb(at(100.0)), 10.0);
        assert_eq!(memory.full_at(at(5.0)), None);
    }

    #[test]
    fn allocators_show_what_theirs_would() {
        let mut exact = device(Allocator::Exact);
        let mut caching = device(Allocator::Caching);
        for memory in [&mut exact, &mut caching] {
            memory.take(at(1.0), 6.0, 0.0);
            memory.give_back(at(2.0), 6.0, 0.0);
        }
        assert!((exact.shown(at(3.0)) - 0.5).abs() < 1e-12);
        assert!((caching.shown(at(3.0)) - 0.8).abs() < 1e-12);
        assert!(caching.fits(at(3.0), 10.0), "kept memory is free for the next call");
        caching.empty_cache(at(4.0));
        assert!((caching.shown(at(5.0)) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_model_that_is_unloaded_takes_its_memory_with_it() {
        let mut memory = device(Allocator::Caching);
        memory.take(at(1.0), 4.0, 0.0);
        memory.give_back(at(2.0), 4.0, 0.0);
        // 1 GB of others, 9 of a model, 4 of its cache; the second model finds no room in them.
        memory.load_now(at(3.0), 5.0);
        assert!((memory.shown(at(3.0)) - 19.0 / 20.0).abs() < 1e-12);
        memory.unload(at(4.0), 5.0);
        assert!((memory.shown(at(4.0)) - 14.0 / 20.0).abs() < 1e-12);
        memory.unload(at(5.0), 9.0);
        assert!((memory.shown(at(5.0)) - 1.0 / 20.0).abs() < 1e-12);
    }
}
