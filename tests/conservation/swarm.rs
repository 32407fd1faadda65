//! Random small scenarios: every feature of the model on or off, with settings that hurt.
//!
//! All of a scenario follows from a seed for the values and a list of features. When a case fails, proptest
//! switches features off one after the other for as long as it still fails; each part of a scenario has dice
//! of its own, so that what is left keeps its values.

mod admission;
mod beside;
mod engines;
mod fallback;
mod faults;
mod feedback;
mod gateway;
mod stages;
mod workload;

macro_rules! features {
    ($($feature:ident)*) => {
        /// Something that a scenario may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Feature {
            $($feature,)*
        }

        impl Feature {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$feature,)*];
        }
    };
}

features! {
    // Who asks.
    SteadySource WavesSource BurstSource ClosedLoopSource SpellSource Mix Channels Questions
    Patience Resend Retries
    ClassService Estimate Value
    // The gateway.
    Ingress Deadline Slots WaitNotice Host WallClock
    // What serves.
    Embedder Rules KnowledgeBase Agents SemanticCache Providers Engine
    BoundedStages LimitedStages SlowedByLoad
    OnDevice SlotMemory EngineDevice OtherTenants
    Cold ScaledModel ScaledEngine
    // What breaks.
    ProviderOutage LatencyFactor GpuLost ReplicaCrash StoreTimeout LimiterNodesDown RulesWiped ForecastLost
    MetricsFrozen KnowledgeBaseStale ClockStep NetworkDelay
    // What decides.
    FixedRate TokenBucket WeightedBucket ConcurrencyGate SecondGate BacklogGate TokenWindow UserFrequency
    PriorityBuckets AdaptiveConcurrency Paced EarlyRejection LoadShed Store
    Queue QueueLimits
    Levels Floors RerankGuard TopK FailOver LastResort
    Filters ControlCenter Setpoint Forecast ForecastSets Presets Alerts Guard Manual
    // What is measured and reckoned beside it.
    Telemetry Quality Prices Csat Shadow
}

/// Numbers from a seed (splitmix64): the same scenario for the same seed, on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    fn coin(&mut self) -> bool {
        self.roll(2) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len() as u64) as usize]
    }

    /// A line `name = value` with one of the values, or half the time nothing.
    fn option(&mut self, name: &str, values: &[&str]) -> String {
        let value = self.pick(values);
        if self.coin() { format!("{name} = {value}\n") } else { String::new() }
    }

    /// A distribution with about this mean.
    fn law(&mut self, mean: f64) -> String {
        match self.roll(6) {
            0 => format!("{mean:?}"),
            1 => format!("{{ kind = \"uniform\", min = 0.0, max = {:?} }}", 2.0 * mean),
            2 => format!("{{ kind = \"lognormal\", mean = {mean:?}, cv = 2.0 }}"),
            3 => format!(
                "{{ kind = \"pareto\", min = {:?}, max = {:?}, alpha = 1.2 }}",
                mean / 4.0,
                mean * 50.0
            ),
            4 => format!("{{ kind = \"gamma\", mean = {mean:?}, cv = 0.5 }}"),
            _ => format!("{{ kind = \"exponential\", mean = {mean:?} }}"),
        }
    }
}

/// A scenario in the making.
struct Draft<'a> {
    text: String,
    seed: u64,
    features: &'a [Feature],
    /// The policy that is being written: `policy` or `shadow`.
    root: &'static str,
}

impl Draft<'_> {
    fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Dice of this name alone, in each of the two policies others.
    fn dice(&self, name: &str) -> Dice {
        let name = self.root.bytes().chain(name.bytes());
        let salt =
            name.fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Dice(self.seed ^ salt)
    }

    /// The dice of a feature, if the scenario has it.
    fn on(&self, feature: Feature) -> Option<Dice> {
        self.has(feature).then(|| self.dice(&format!("{feature:?}")))
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Begins a table of the policy that is being written.
    fn table(&mut self, name: &str) {
        self.line(format!("[{}.{name}]", self.root));
    }
}

/// The scenario of a seed and a list of features.
pub(crate) fn scenario(seed: u64, features: &[Feature]) -> String {
    let mut draft = Draft { text: String::new(), seed, features, root: "policy" };
    let warm_s = draft.dice("run").roll(5);
    draft.line("name = \"swarm\"");
    draft
        .line(format!("[run]\nduration_s = 20\ndrain_s = 1000000\nwarmup_s = {warm_s}\ntimeline_points = 7"));
    workload::write(&mut draft);
    gateway::write(&mut draft);
    stages::write(&mut draft);
    engines::write(&mut draft);
    faults::write(&mut draft);
    beside::write(&mut draft);
    policy(&mut draft);
    if draft.has(Feature::Shadow) {
        draft.root = "shadow";
        policy(&mut draft);
    }
    draft.text
}

fn policy(draft: &mut Draft<'_>) {
    admission::write(draft);
    fallback::write(draft);
    feedback::write(draft);
}
