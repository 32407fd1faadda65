//! `forebay calibrate fit decode` and `power`

use super::{Common, Report, Rows, TimeUnit, table, wrong};
use crate::failure::Failure;
use clap::Args;
use forebay_datasets::columns::Kind;
use forebay_datasets::fit::Calibration;
use forebay_datasets::fit::batches::{CurveFit, Quantity, fit_points};
use forebay_datasets::fit::calibration::CurveCalibration;
use forebay_datasets::recording;
use std::path::PathBuf;

/// Steps of load into which a recording is gathered, and fewest samples of a step.
const STEPS: usize = 20;
const STEP_SAMPLES: usize = 5;

#[derive(Debug, Args)]
pub(super) struct CurveArgs {
    /// Table in CSV, JSON lines or Parquet.
    data: PathBuf,
    /// Column with the batch size.
    #[arg(long, value_name = "COLUMN", default_value = "batch")]
    x: String,
    /// Column with the time per token.
    #[arg(long, value_name = "COLUMN", default_value = "per_token_s")]
    y: String,
    /// Unit of that time.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = TimeUnit::S)]
    unit: TimeUnit,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(super) struct PowerArgs {
    /// Table in CSV, JSON lines or Parquet; or a recording, of which busy time is the load.
    data: PathBuf,
    /// Column with the batch size or the load.
    #[arg(long, value_name = "COLUMN", default_value = "load")]
    x: String,
    /// Column with the power, W.
    #[arg(long, value_name = "COLUMN", default_value = "power_w")]
    y: String,
    /// Device of a recording.
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    common: Common,
}

pub(super) fn decode(arguments: &CurveArgs) -> Result<(), Failure> {
    let CurveArgs { data, x, y, unit, rows, common } = arguments;
    common.check_out(&[data])?;
    let wanted = [(x.as_str(), Kind::Number), (y.as_str(), Kind::Number)];
    let (columns, hash) = table(data, &wanted, Some(rows))?;
    let [xs, ys] = [x, y].map(|name| columns.numbers(name).map_err(|error| wrong(data, &error)));
    let points = xs?.into_iter().zip(ys?).map(|(x, y)| (x, y * unit.seconds())).collect();
    let fit = fitted(fit_points(points, Quantity::TokenTime), rows).map_err(|error| wrong(data, &error))?;
    let curve = CurveCalibration::new(common.source_of(&[data]), &hash, ["s", x], &fit);
    let report = report("time per token, s", &curve);
    common.finish(&Calibration::Decode(Box::new(curve)), &report)
}

pub(super) fn power(arguments: &PowerArgs) -> Result<(), Failure> {
    let PowerArgs { data, x, y, device, rows, common } = arguments;
    common.check_out(&[data])?;
    let wanted = [
        ("t_ns", Kind::Number),
        ("busy", Kind::Number),
        (x.as_str(), Kind::Number),
        (y.as_str(), Kind::Number),
    ];
    let (columns, hash) = table(data, &wanted, Some(rows))?;
    let (points, against) = if columns.has("t_ns") && columns.has("busy") && !columns.has(x) {
        (of_recording(arguments, *device)?, "share of time that kernels ran")
    } else {
        let [xs, ys] = [x, y].map(|name| columns.numbers(name).map_err(|error| wrong(data, &error)));
        (xs?.into_iter().zip(ys?).collect(), x.as_str())
    };
    let fit = fitted(fit_points(points, Quantity::Power), rows).map_err(|error| wrong(data, &error))?;
    let curve = CurveCalibration::new(common.source_of(&[data]), &hash, ["W", against], &fit);
    let report = report("power, W", &curve);
    common.finish(&Calibration::Power(Box::new(curve)), &report)
}

/// Median power of a device in each step of its busy share.
fn of_recording(arguments: &PowerArgs, device: u32) -> Result<Vec<(f64, f64)>, Failure> {
    let samples = recording::read(&arguments.data).map_err(|error| wrong(&arguments.data, &error))?;
    let mut steps: Vec<Vec<(f64, f64)>> = vec![Vec::new(); STEPS + 1];
    for sample in samples.iter().filter(|sample| sample.device == device) {
        if let (Some(busy), Some(power_w)) = (sample.busy, sample.power_w) {
            steps[(busy.clamp(0.0, 1.0) * STEPS as f64) as usize].push((busy, power_w));
        }
    }
    steps.retain(|step| step.len() >= STEP_SAMPLES);
    let middle = |values: Vec<f64>| {
        let mut values = values;
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let point = |step: &Vec<(f64, f64)>| {
        let busy = middle(step.iter().map(|sample| sample.0).collect());
        // A curve over a logarithm has no place for an idle device; half a percent is as idle as can be told.
        (busy.max(0.005), middle(step.iter().map(|sample| sample.1).collect()))
    };
    Ok(steps.iter().map(point).collect())
}

/// A fit, with the rows that were chosen as its names.
fn fitted(fit: Option<CurveFit>, rows: &Rows) -> Result<CurveFit, String> {
    let fit = fit.ok_or(
        "at least three points are needed, at different places and above 0; rows of several lines are told \
         apart by --where",
    )?;
    Ok(CurveFit { of: rows.only.iter().cloned().collect(), ..fit })
}

fn report(what: &str, curve: &CurveCalibration) -> Report {
    let [least, most] = curve.range;
    let mut report = Report::new(format!(
        "{what}, against {} from {least} to {most}: a curve through {} points",
        curve.against,
        curve.curve.points.len()
    ));
    for (index, [x, _]) in curve.curve.points.iter().enumerate() {
        report.estimate(&format!("at {x}"), curve.curve.estimate(index), &curve.unit);
    }
    report.judge("curve", &curve.evidence);
    report.remark("fitted rows are judged with each left out in turn");
    report
}
