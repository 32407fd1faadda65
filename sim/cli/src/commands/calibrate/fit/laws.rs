//! `forebay calibrate fit service` and `rerank`

use super::{Common, Report, Rows, TimeUnit, table, wrong};
use crate::failure::Failure;
use crate::units::number;
use clap::Args;
use forebay_datasets::columns::Kind;
use forebay_datasets::fit::Calibration;
use forebay_datasets::fit::calibration::{Law, RerankCalibration, ServiceCalibration};
use forebay_datasets::fit::families::{Effort, fit_law};
use forebay_datasets::fit::rerank::fit_rerank;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ServiceArgs {
    /// Table in CSV, JSON lines or Parquet; rows in the order in which they were measured.
    data: PathBuf,
    /// Column with the times.
    #[arg(long, value_name = "COLUMN", default_value = "service_s")]
    column: String,
    /// Unit of the times; lengths are taken as they are with the unit s.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = TimeUnit::S)]
    unit: TimeUnit,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
pub(super) struct RerankArgs {
    /// Table in CSV, JSON lines or Parquet, one row for each batch.
    data: PathBuf,
    /// Column with the documents of a batch.
    #[arg(long, value_name = "COLUMN", default_value = "documents")]
    documents: String,
    /// Column with the time of a batch.
    #[arg(long, value_name = "COLUMN", default_value = "batch_s")]
    column: String,
    /// Unit of the times.
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = TimeUnit::S)]
    unit: TimeUnit,
    #[command(flatten)]
    rows: Rows,
    #[command(flatten)]
    common: Common,
}

pub(super) fn service(arguments: &ServiceArgs) -> Result<(), Failure> {
    let ServiceArgs { data, column, unit, rows, common } = arguments;
    common.check_out(&[data])?;
    let (columns, hash) = table(data, &[(column.as_str(), Kind::Number)], Some(rows))?;
    let values = columns.numbers(column).map_err(|error| wrong(data, &error))?;
    let values: Vec<f64> = values.iter().map(|value| value * unit.seconds()).collect();
    let fit = fit_law(&values, Effort::default())
        .map_err(|error| wrong(data, &format!("column `{column}`: {error}")))?;
    let law = Law::new(&hash, "s", &fit);
    let mut report = Report::new(format!("{column}: {}", law.dist.kind()));
    of_law(&mut report, &law, "s");
    report.judge("mean, median and 95th percentile", &law.evidence);
    let service = ServiceCalibration { source: common.source_of(&[data]), law };
    common.finish(&Calibration::Service(Box::new(service)), &report)
}

fn of_law(report: &mut Report, law: &Law, unit: &str) {
    for (name, estimate) in &law.parameters {
        report.estimate(
            name,
            *estimate,
            if matches!(name.as_str(), "cv" | "shape" | "alpha") { "" } else { unit },
        );
    }
    let mut behind: Vec<(&String, &f64)> = law.behind.iter().collect();
    behind.sort_by(|a, b| a.1.total_cmp(b.1));
    let behind: Vec<String> = behind.iter().map(|(name, by)| format!("{name} +{}", number(**by))).collect();
    report.remark(format!("Akaike's criterion above the best: {}", behind.join(", ")));
    let verdict = if law.p_value < 0.05 {
        "the law is not right; `quantiles` in the file is the data itself"
    } else {
        "nothing speaks against the law"
    };
    report.remark(format!(
        "Kolmogorov-Smirnov over {} values: distance {}, p {} (bootstrap, parameters fitted): {verdict}",
        law.checked,
        number(law.distance),
        law.p_value
    ));
    report.remark(format!("held-out error of the quantiles: {} %", number(law.quantiles_held_out_error)));
}

pub(super) fn rerank(arguments: &RerankArgs) -> Result<(), Failure> {
    let RerankArgs { data, documents, column, unit, rows, common } = arguments;
    common.check_out(&[data])?;
    let wanted = [(documents.as_str(), Kind::Number), (column.as_str(), Kind::Number)];
    let (columns, hash) = table(data, &wanted, Some(rows))?;
    let [sizes, times] =
        [documents, column].map(|name| columns.numbers(name).map_err(|error| wrong(data, &error)));
    let batches: Vec<(f64, f64)> =
        sizes?.into_iter().zip(times?).map(|(size, time)| (size, time * unit.seconds())).collect();
    let fit = fit_rerank(&batches, Effort::default()).map_err(|error| wrong(data, &error))?;
    let rerank = RerankCalibration::new(common.source_of(&[data]), &hash, &fit);
    let mut report = Report::new(format!(
        "rerank time over batches of {} to {} documents",
        rerank.documents[0], rerank.documents[1]
    ));
    report.estimate("base", rerank.base_s, "s");
    report.estimate("per document", rerank.per_document_s, "s");
    if let Some(law) = &rerank.residual {
        report.remark(format!("factor on it: {}", law.dist.kind()));
        of_law(&mut report, law, "");
    }
    if fit.outliers > 0 {
        report.remark(format!("{} fitted batches are outliers and were left out of the line", fit.outliers));
    }
    report.judge("line", &rerank.evidence);
    common.finish(&Calibration::Rerank(Box::new(rerank)), &report)
}
