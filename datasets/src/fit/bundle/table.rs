//! The table of held-out errors that stands in the crate's README.

use std::fmt::Write as _;

use super::super::batches::{CurveFit, Quantity, fit_batches, overall};
use super::super::calibration::Calibration;
use super::super::phases::{self, fit_phases};
use super::super::slots::read_batch_rows;
use super::super::tables::phase_rows;
use super::{Bundled, Read};

/// The table, from all lines of the measured tables and from the calibrations: `others` are those that are
/// not made from tables, by name and as their files are.
///
/// # Errors
/// A file that cannot be read, or that a fit cannot use.
pub fn error_table(read: Read<'_>, bundled: &[Bundled], others: &[(&str, &str)]) -> Result<String, String> {
    let mut out = String::from(
        "| data | what | held out to judge | median error, % | asked for |\n| --- | --- | --- | --- | --- |\n",
    );
    tables(&mut out, read)?;
    out += "\nThe bundled calibrations, each on what its fit did not see:\n\n\
            | calibration | measured range | held out | error, % (median; worst) |\n| --- | --- | --- | --- |\n";
    for Bundled { name, calibration, .. } in bundled {
        of_calibration(&mut out, name, calibration);
    }
    out += "\nThe replayed engine runs, signed, percent:\n\n\
            | calibration | TTFT mean | latency mean | latency p99 | TPOT mean |\n| --- | --- | --- | --- | --- |\n";
    for (name, text) in others {
        let read = Calibration::parse(text).map_err(|error| format!("{name}: {error}"))?;
        if let Calibration::Batching(of) = read {
            let errors = of.errors.held_out.all().map(|error| format!("{error:+.2}"));
            let _ = writeln!(out, "| `{name}` | {} |", errors.join(" | "));
        }
    }
    Ok(out)
}

fn tables(out: &mut String, read: Read<'_>) -> Result<(), String> {
    let rows = read_batch_rows(&read("ml-energy/llm_configs.csv")?).map_err(|error| error.to_string())?;
    for (quantity, what, asked) in [(Quantity::TokenTime, "time per token", 5), (Quantity::Power, "power", 3)]
    {
        let fits = fit_batches(&rows, quantity);
        let of_gpu = |gpu: &'static str| fits.iter().filter(move |fit: &&CurveFit| fit.of["gpu"] == gpu);
        let (all, rows) = overall(&fits);
        let [h100, b200] = ["H100", "B200"].map(|gpu| overall(of_gpu(gpu)).0);
        let _ = writeln!(
            out,
            "| ml-energy | {what} against batch size, {} lines | every second batch size: {rows} rows | {all:.2} \
             (H100 {h100:.2}, B200 {b200:.2}) | {asked} |",
            fits.len()
        );
    }
    let rows = phase_rows(&read("splitwise/perf_model.csv")?).map_err(|error| error.to_string())?;
    let fits = fit_phases(&rows);
    let points: usize = fits.iter().map(|fit| fit.points[1]).sum();
    for ((what, asked), error) in [("decode", 5), ("prefill", 10)].into_iter().zip(phases::overall(&fits)) {
        let _ = writeln!(
            out,
            "| splitwise | {what} against prompt and batch, {} lines | every second point, with all its repeats: \
             {points} points | {error:.2} | {asked} |",
            fits.len()
        );
    }
    Ok(())
}

fn of_calibration(out: &mut String, name: &str, calibration: &Calibration) {
    let mut row = |what: &str, range: String, evidence: &super::Evidence| {
        let _ = writeln!(
            out,
            "| `{name}`{what} | {range} | {} | {:.2}; {:.2} |",
            evidence.rows[1], evidence.held_out_error, evidence.held_out_worst
        );
    };
    let between = |[least, most]: [f64; 2], unit: &str| format!("{least:.0} to {most:.0} {unit}");
    match calibration {
        Calibration::Decode(of) | Calibration::Power(of) => {
            row("", between(of.range, &of.against), &of.evidence);
        }
        Calibration::Phases(of) => {
            row(", decode", between(of.range.batch, "sequences"), &of.decode.evidence);
            row(", prefill", between(of.range.prompt, "tokens"), &of.prefill.evidence);
            row(", prefill in the engine's form", between(of.range.prompt, "tokens"), &of.engine_evidence);
        }
        Calibration::Lengths(of) => {
            for (length_of, law) in &of.laws {
                let what = format!(
                    ", {length_of} ({}; its quantiles: {:.2} %)",
                    law.dist.kind(),
                    law.quantiles_held_out_error
                );
                row(&what, between(law.range, &law.unit), &law.evidence);
            }
        }
        Calibration::Load(of) => row("", format!("{} days", of.days), &of.evidence),
        _ => {}
    }
}
