//! A fit as a calibration file.

use serde::{Deserialize, Serialize};

use super::super::calibration::{BatchingCalibration, MeasuredRange, MeasuredRun, Source, SplitErrors};
use super::fleet::{Fleet, Spread};
use super::report::{Coefficient, JointFit, KvCapacity, Window};

/// How the numbers of a calibration were found in a request log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inference {
    /// Engines behind the log. Those of `lockstep` are one in a simulation, which is what `engine` holds.
    pub replicas: u32,
    /// How requests are spread over them.
    pub spread: Spread,
    /// What is known of `engine.kv_blocks`.
    pub kv: KvCapacity,
    /// What passed between clients and engines, there and back, s. It is no part of the engine: a scenario adds
    /// its own.
    pub entry_s: f64,
    /// What was fitted, with standard errors and 95 % intervals.
    pub coefficients: Vec<Coefficient>,
    /// Requests that were fitted.
    pub fitted_on: Vec<Window>,
    /// Requests that judge.
    pub judged_on: Vec<Window>,
}

impl BatchingCalibration {
    /// A fit from a request log alone, with where the log comes from.
    pub fn of_log(source: Source, fit: &JointFit) -> Self {
        let (_, mut engine) = fit.fleet.engines();
        let prefix_hit_share = std::mem::take(&mut engine.prefix_hit_share);
        Self {
            source,
            engine,
            run: MeasuredRun {
                requests: fit.requests,
                fitted_on: fit.fitted_on.iter().map(|window| window.requests).sum(),
                prefix_hit_share,
                start_delay_s: fit.start_delay_s,
            },
            errors: SplitErrors { fitted: fit.fitted.rounded(), held_out: fit.held_out.rounded() },
            range: MeasuredRange {
                running: [1, fit.peaks.running],
                tokens_in: fit.range[0],
                tokens_out: fit.range[1],
            },
            inference: Some(Inference {
                replicas: fit.fleet.replicas,
                spread: fit.fleet.spread,
                kv: fit.kv,
                entry_s: fit.entry_s,
                coefficients: fit.coefficients.clone(),
                fitted_on: fit.fitted_on.clone(),
                judged_on: fit.judged_on.clone(),
            }),
        }
    }

    /// The engines as they were in the measured log: as many, and with the prompts' share of prefix hits.
    pub fn measured_fleet(&self) -> Fleet {
        let engine = self.measured_engine();
        match &self.inference {
            Some(found) if found.spread != Spread::Lockstep => {
                Fleet { engine, replicas: found.replicas, spread: found.spread }
            }
            _ => Fleet::single(engine),
        }
    }
}
