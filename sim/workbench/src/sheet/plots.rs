//! A fit against data, as points of plots.

use super::SheetError;
use forebay_datasets::fit::BatchRow;
use forebay_datasets::fit::batches::{Quantity, names};
use forebay_datasets::fit::calibration::CurveCalibration;
use forebay_datasets::fit::{
    BatchingCalibration, Calibration, LatencyErrors, ObservedRequest, SlotsCalibration, read_batch_rows,
    replay,
};
use forebay_datasets::import::{Imported, Kind, Options, import};
use serde::Serialize;
use std::path::Path;
use toml::{Table, Value};

/// Points along the fit.
const STEPS: usize = 64;
/// The signs of a plot's points.
const MEASURED: char = '○';
const FITTED: char = '●';

/// A plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What it shows, with units.
    pub title: String,
    /// Its points: where, and the sign that stands for them.
    pub points: Vec<(f64, f64, char)>,
    /// What can be said of it.
    pub remarks: Vec<String>,
}

/// The curve of a table with points, such as `points = [[1.0, 2.0], [4.0, 8.0]]`.
pub(super) fn of_points(key: &str, table: &Table) -> Option<Plot> {
    let number = |value: &Value| value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    let points = table.get("points")?.as_array()?.iter().map(|point| match point.as_array()?.as_slice() {
        [x, y] => Some((number(x)?, number(y)?, FITTED)),
        _ => None,
    });
    let points: Vec<_> = points.collect::<Option<_>>()?;
    let title = if key.is_empty() { "points" } else { key };
    Some(Plot { title: format!("{title}, as the file has it"), points, remarks: Vec::new() })
}

/// The fit against data that it may have seen: a request log for an engine's iterations, the benchmark's table for
/// a time per token.
///
/// # Errors
/// The data cannot be read, or are not of the calibration.
pub fn against(calibration: &Calibration, data: &Path) -> Result<Vec<Plot>, SheetError> {
    match calibration {
        Calibration::Batching(calibration) => of_engine(calibration, data),
        Calibration::Slots(calibration) => of_slots(calibration, data).map(|plot| vec![plot]),
        Calibration::Decode(calibration) => of_curve(calibration, data, Quantity::TokenTime),
        Calibration::Power(calibration) => of_curve(calibration, data, Quantity::Power),
        other => Err(SheetError::Data(format!(
            "a calibration of the kind `{}` is not plotted against data: leave the data out",
            other.kind()
        ))),
    }
}

fn of_engine(calibration: &BatchingCalibration, data: &Path) -> Result<Vec<Plot>, SheetError> {
    let options = Options { from: Some(Kind::Requests), ..Options::default() };
    let (imported, _) = import(data, &options).map_err(|error| SheetError::Data(error.to_string()))?;
    let Imported::Requests(log) = imported else {
        return Err(SheetError::Data(format!("{}: a request log is wanted", data.display())));
    };
    let observed = log.observed();
    let unfit = |what: &str| SheetError::Data(format!("{}: {what}", data.display()));
    if observed.is_empty() {
        return Err(unfit("no request was served and is told completely"));
    }
    let replayed = replay(&observed, &calibration.measured_engine(), calibration.run.start_delay_s)
        .map_err(|error| unfit(&error.to_string()))?;
    if replayed.iter().any(|request| request.last_token_s.is_nan()) {
        return Err(unfit(
            "some requests do not fit into the calibrated engine's KV cache: it is another server's log",
        ));
    }
    let mut said = vec![errors("over the log", &LatencyErrors::new(&observed, &replayed))];
    let split = calibration.run.fitted_on;
    if observed.len() == calibration.run.requests && split < observed.len() {
        said.push(errors(
            "on the part not fitted",
            &LatencyErrors::new(&observed[split..], &replayed[split..]),
        ));
    }
    let plot = |title: &str, of: fn(&ObservedRequest) -> f64, remarks: Vec<String>| {
        let pairs = observed.iter().zip(&replayed);
        let points = pairs.flat_map(|(request, replayed)| {
            let ours = replayed.in_place_of(request);
            [(request.arrival_s, of(request), MEASURED), (request.arrival_s, of(&ours), FITTED)]
        });
        Plot {
            title: format!("{title} over seconds of arrival ({MEASURED} measured, {FITTED} replayed)"),
            points: points.collect(),
            remarks,
        }
    };
    Ok(vec![
        plot("time to first token, s,", ObservedRequest::ttft_s, Vec::new()),
        plot("latency, s,", ObservedRequest::latency_s, said),
    ])
}

fn errors(of: &str, errors: &LatencyErrors) -> String {
    let [ttft, mean, p99, tpot] = errors.all();
    format!(
        "errors {of}: TTFT mean {ttft:+.2} %, latency mean {mean:+.2} %, latency p99 {p99:+.2} %, TPOT mean {tpot:+.2} %"
    )
}

fn of_slots(calibration: &SlotsCalibration, data: &Path) -> Result<Plot, SheetError> {
    let unfit = |what: String| SheetError::Data(format!("{}: {what}", data.display()));
    let text = std::fs::read_to_string(data).map_err(|error| unfit(error.to_string()))?;
    let rows = read_batch_rows(&text).map_err(|error| unfit(error.to_string()))?;
    let own = |row: &&forebay_datasets::fit::BatchRow| {
        row.model == calibration.model
            && row.task == calibration.task
            && row.gpu == calibration.gpu
            && row.gpus == calibration.gpus
            && row.precision == calibration.precision
    };
    let measured: Vec<(f64, f64)> =
        rows.iter().filter(own).map(|row| (row.batch, row.token_mean_s)).collect();
    if measured.is_empty() {
        let (model, gpu) = (&calibration.model, &calibration.gpu);
        return Err(unfit(format!(
            "there are no rows of {model} on {gpu} with the calibration's task and precision"
        )));
    }
    let line = |batch: f64| calibration.base_s + calibration.per_sequence_s * batch;
    let [least, most] = calibration.batch;
    let fitted = (0..STEPS).map(|step| least + (most - least) * step as f64 / (STEPS - 1) as f64);
    let mut points: Vec<(f64, f64, char)> = fitted.map(|batch| (batch, line(batch), '·')).collect();
    points.extend(measured.iter().map(|&(batch, token_s)| (batch, token_s, MEASURED)));
    let mut off: Vec<f64> =
        measured.iter().map(|&(batch, token_s)| 100.0 * (line(batch) / token_s - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    let (median, worst) = (off[off.len() / 2], off[off.len() - 1]);
    Ok(Plot {
        title: format!("time per token, s, over sequences in the batch ({MEASURED} measured, · the fit)"),
        points,
        remarks: vec![format!(
            "sizes of the errors over {} rows: median {median:.2} %, worst {worst:.2} %",
            measured.len()
        )],
    })
}

fn of_curve(
    calibration: &CurveCalibration,
    data: &Path,
    quantity: Quantity,
) -> Result<Vec<Plot>, SheetError> {
    let unfit = |what: String| SheetError::Data(format!("{}: {what}", data.display()));
    let text = std::fs::read_to_string(data).map_err(|error| unfit(error.to_string()))?;
    let rows = read_batch_rows(&text).map_err(|error| unfit(error.to_string()))?;
    let own = |row: &&BatchRow| names(row) == calibration.of;
    let measured: Vec<(f64, f64)> =
        rows.iter().filter(own).filter_map(|row| Some((row.batch, quantity.of(row)?))).collect();
    if measured.is_empty() {
        return Err(unfit("there are no rows of the calibration's model, task and hardware".to_owned()));
    }
    let [least, most] = calibration.range;
    let fitted = (0..STEPS).map(|step| least + (most - least) * step as f64 / (STEPS - 1) as f64);
    let mut points: Vec<(f64, f64, char)> =
        fitted.map(|batch| (batch, calibration.curve.at(batch), '·')).collect();
    points.extend(measured.iter().map(|&(batch, value)| (batch, value, MEASURED)));
    let evidence = &calibration.evidence;
    let title = format!("{} over {} ({MEASURED} measured, · the fit)", calibration.unit, calibration.against);
    let remark = format!(
        "errors of the {} rows held out: median {:.2} %, worst {:.2} %",
        evidence.rows[1], evidence.held_out_error, evidence.held_out_worst
    );
    Ok(vec![Plot { title, points, remarks: vec![remark] }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &str) -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/measured").join(path)
    }

    #[test]
    fn an_engine_is_plotted_against_its_log() {
        let (calibration, _) = super::super::open("vllm-rtx4090-llama-3.1-8b").unwrap();
        let plots =
            against(&calibration, &measured("vllm-runs/RTX4090-Llama-3.1-8B/requests.jsonl")).unwrap();
        assert_eq!((plots.len(), plots[0].points.len()), (2, 600));
        let Calibration::Batching(batching) = &calibration else { panic!("an engine") };
        let held_out = batching.errors.held_out.all();
        let said = &plots[1].remarks[1];
        assert!(said.contains(&format!("TTFT mean {:+.2} %", held_out[0])), "{said}");
        let other = against(&calibration, &measured("ml-energy/llm_configs.csv")).unwrap_err();
        assert!(other.to_string().contains("llm_configs.csv"), "{other}");
    }

    #[test]
    fn a_time_per_token_is_plotted_against_its_table() {
        let (calibration, _) = super::super::open("ml-energy-llama-3.1-8b-h100").unwrap();
        let plots = against(&calibration, &measured("ml-energy/llm_configs.csv")).unwrap();
        assert_eq!(plots[0].points.iter().filter(|point| point.2 == MEASURED).count(), 11);
        assert!(
            plots[0].remarks[0].starts_with("sizes of the errors over 11 rows"),
            "{:?}",
            plots[0].remarks
        );
        assert!(against(&calibration, &measured("vllm-runs/NOTICE.md")).is_err());
    }

    #[test]
    fn curves_are_plotted_against_their_table() {
        for name in ["decode-llama-3.1-8b-h100", "power-llama-3.1-8b-h100"] {
            let (calibration, _) = super::super::open(name).unwrap();
            let plots = against(&calibration, &measured("ml-energy/llm_configs.csv")).unwrap();
            assert_eq!(plots[0].points.iter().filter(|point| point.2 == MEASURED).count(), 11);
        }
        let (calibration, _) = super::super::open("devices-nvml").unwrap();
        let error = against(&calibration, &measured("ml-energy/llm_configs.csv")).unwrap_err();
        assert!(error.to_string().contains("devices"), "{error}");
    }
}
