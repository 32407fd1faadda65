//! `forebay calibrate fit vram`

use super::super::log::LogArgs;
use super::{Common, Report, table, wrong};
use crate::failure::Failure;
use crate::units::number;
use clap::Args;
use forebay_datasets::fit::Calibration;
use forebay_datasets::fit::calibration::{VramCalibration, sha256};
use forebay_datasets::fit::vram::{LOG_COLUMNS, fit_vram, samples_of, works_of, works_of_requests};
use forebay_datasets::recording;
use forebay_model::scenario::Allocator;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct VramArgs {
    /// Recording of the GPU, as `calibrate record` and `calibrate import` write it.
    recording: PathBuf,
    /// What ran meanwhile: a request log, as `calibrate import` knows them; or `start_s`, `end_s` and some of `tokens_start`, `tokens_end`,
    /// `documents`, `calls`.
    log: PathBuf,
    /// Device of the recording.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &VramArgs) -> Result<(), Failure> {
    let VramArgs { recording, log, device, common } = arguments;
    common.check_out(&[recording, log])?;
    let samples = recording::read(recording).map_err(|error| wrong(recording, &error))?;
    let (columns, of_log) = table(log, &LOG_COLUMNS, None)?;
    let works = match works_of(&columns).map_err(|error| wrong(log, &error))? {
        Some(works) => works,
        None => works_of_requests(&LogArgs::default().read(log, common.quiet)?),
    };
    let samples = samples_of(&samples, *device, &works);
    let fit = fit_vram(&samples, &works)
        .map_err(|error| wrong(recording, &format!("device {device}: {error}; --device chooses another")))?;
    let of_recording =
        std::fs::read(recording).map(|bytes| sha256(&bytes)).map_err(|error| wrong(recording, &error))?;
    // Two files, one hash: that of their hashes, a line each.
    let hash = sha256(format!("{of_recording}\n{of_log}\n").as_bytes());
    let vram = VramCalibration::new(common.source_of(&[recording, log]), &hash, &fit);
    let kind = match vram.allocator {
        Allocator::Exact => "exact: the memory shown follows the load",
        Allocator::Caching => "caching: the memory shown stays at its peaks",
        Allocator::Preallocated => "preallocated: the memory shown is one level",
    };
    let mut report = Report::new(format!("allocator {kind}"));
    report.estimate("base", vram.base, "B");
    if vram.allocator != Allocator::Preallocated {
        report.estimate("per token", vram.per_token, "B");
        report.estimate("per document", vram.per_document, "B");
        report.estimate("per call", vram.per_call, "B");
        report.remark(format!("the telemetry is {} s late", number(vram.delay_s)));
    }
    if vram.released > 0 {
        report.remark(format!("memory was given back {} times", vram.released));
    }
    if let Some(share) = vram.held_out_of_movement {
        report.remark(format!("held-out error as a share of the range it moved in: {} %", number(share)));
    }
    report.judge("memory", &vram.evidence);
    common.finish(&Calibration::Vram(Box::new(vram)), &report)
}
