//! Lines of the reference table that are not run, each with the reason.

use forebay_tests::table::Line;

/// A kind of line that is not run.
pub(crate) struct LeftOut {
    /// How the model begins.
    model: &'static str,
    /// What its parameters hold.
    params: &'static str,
    /// How the metric begins.
    metric: &'static str,
    pub(crate) reason: &'static str,
}

impl LeftOut {
    pub(crate) fn covers(&self, line: &Line) -> bool {
        line.model.starts_with(self.model)
            && line.params.contains(self.params)
            && line.metric.starts_with(self.metric)
    }
}

const fn all(model: &'static str, reason: &'static str) -> LeftOut {
    LeftOut { model, params: "", metric: "", reason }
}

/// Why a metric is no metric of a run.
const BUSY_PERIOD: &str = "no metric of a run: busy periods are not recorded";
const SIXTH_MOMENT: &str = "an interval of 2 % would need some 10^11 requests: the variance of this estimate \
                            goes with the sixth moment of the service, 5^15";
const NO_FOURTH_MOMENT: &str = "no interval exists: with an infinite fourth moment of the service the mean wait \
                                of a run has no variance, and the model's Pareto is bounded";
const PREEMPTION: &str = "no stage interrupts a service for another class";

/// All that is not run.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        model: "M/M/1",
        params: "",
        metric: "asymptotic variance",
        reason: "a property of estimates, not of a run; the lengths of these runs follow from it",
    },
    LeftOut {
        model: "M/M/1",
        params: "",
        metric: "customers for a 99% CI",
        reason: "a length of runs, not a property of one",
    },
    LeftOut { model: "M/M/1", params: "", metric: "E[busy period]", reason: BUSY_PERIOD },
    LeftOut { model: "M/G/1 FCFS", params: "", metric: "E[busy period]", reason: BUSY_PERIOD },
    LeftOut { model: "M/G/1 FCFS", params: "S=LN scv=4", metric: "Var[Wq]", reason: SIXTH_MOMENT },
    LeftOut { model: "M/G/1 FCFS", params: "S=Pareto alpha=2.5", metric: "Wq", reason: NO_FOURTH_MOMENT },
    LeftOut { model: "M/G/1 FCFS", params: "S=Pareto alpha=2.5", metric: "W", reason: NO_FOURTH_MOMENT },
    LeftOut { model: "M/G/1 FCFS", params: "S=Pareto alpha=2.5", metric: "L", reason: NO_FOURTH_MOMENT },
    LeftOut {
        model: "M/G/1 FCFS",
        params: "S=Pareto alpha=3.5",
        metric: "Var[Wq]",
        reason: "the model's Pareto is bounded, and no bound that a run can live with keeps the third moment",
    },
    all("M/G/1 exceptional first service", "no stage has a longer first service after idleness"),
    all("M/G/1 multiple vacations", "no stage takes vacations"),
    all("M/M/1 breakdowns", "no stage breaks down by chance and goes on where it was"),
    all("M/G/c-PS", "no stage serves all at the full rate up to c and shares beyond"),
    all("M/G/1 preemptive-resume priority", PREEMPTION),
    all("M/M/1 non-preemptive SJF", "no queue knows the length of a service: that would be an oracle"),
    all("M/M/1 SRPT", PREEMPTION),
    LeftOut {
        model: "M/D^[all](k)/1 GPU dynamic batching",
        params: "",
        metric: "closed-form upper bound",
        reason: "a bound on W, not a value: the exact W beside it is run",
    },
    all("token bucket, one token per tick", "the token bucket refills continuously"),
    all("power of d choices", "no router samples d replicas; the value is a limit for endless many"),
    all("fork-join", "call graphs are sequences: no stage runs beside another for one attempt"),
    all("fan-out to k", "call graphs are sequences: no stage runs beside another for one attempt"),
    all("hedged request", "no client sends a second copy while the first runs"),
    all("TTL cache", "the model has no cache yet"),
];
