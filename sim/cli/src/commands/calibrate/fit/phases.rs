//! `forebay calibrate fit phases`

use super::{Common, Report, Rows, table, wrong};
use crate::failure::Failure;
use clap::Args;
use forebay_datasets::fit::Calibration;
use forebay_datasets::fit::calibration::PhasesCalibration;
use forebay_datasets::fit::phases::fit_phases;
use forebay_datasets::fit::tables::{phase_columns, phase_rows_of};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct PhasesArgs {
    /// Table with `model`, `hardware`, `parallel`, `prompt`, `batch`, `tokens_out`, `prefill_s`, `per_token_s`
    /// and perhaps `total_s`; or with the columns of Splitwise's table.
    data: PathBuf,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(arguments: &PhasesArgs) -> Result<(), Failure> {
    let PhasesArgs { data, rows, common } = arguments;
    common.check_out(&[data])?;
    let (columns, hash) = table(data, &phase_columns(), Some(rows))?;
    let fits = fit_phases(&phase_rows_of(&columns).map_err(|error| wrong(data, &error))?);
    let fit = match fits.as_slice() {
        [fit] => fit,
        [] => return Err(wrong(data, &"no line has six points of prompt and batch")),
        many => {
            let name = |of: &forebay_datasets::fit::phases::PhaseRow| {
                format!("{} on {} {}", of.model, of.parallel, of.hardware)
            };
            let names: Vec<String> = many.iter().map(|fit| name(&fit.of)).collect();
            let text = format!("choose one line with --where: there are {}", names.join("; "));
            return Err(wrong(data, &text));
        }
    };
    let phases = PhasesCalibration::new(common.source_of(&[data]), &hash, fit);
    let mut report = Report::new(format!(
        "prefill and decode of {} on {} {}",
        phases.model, phases.parallel, phases.hardware
    ));
    report.estimate("decode: base", phases.decode.base_s, "s");
    report.estimate("decode: per sequence", phases.decode.per_sequence_s, "s");
    report.estimate("decode: per resident token", phases.decode.per_resident_token_s, "s");
    report.estimate("prefill: floor", phases.prefill.floor_s, "s");
    report.estimate("prefill: per token", phases.prefill.per_token_s, "s");
    let beyond = format!("prefill: more per token beyond {}", phases.prefill.knee_tokens);
    report.estimate(&beyond, phases.prefill.beyond_knee_s, "s");
    report.judge("decode", &phases.decode.evidence);
    report.judge("prefill", &phases.prefill.evidence);
    if fit.contradictions > 0 {
        report.remark(format!("left out: {} rows that take longer than their parts", fit.contradictions));
    }
    common.finish(&Calibration::Phases(Box::new(phases)), &report)
}
