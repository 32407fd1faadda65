//! Published tables, row by row: what the fits of a table take in.

use super::phases::PhaseRow;
use crate::columns::{Columns, ColumnsError, Kind};

const MS: f64 = 1e-3;

/// Columns of [`phase_rows`] in their own layout: seconds and tokens.
const PHASES: [(&str, Kind); 9] = [
    ("model", Kind::Text),
    ("hardware", Kind::Text),
    ("parallel", Kind::Number),
    ("prompt", Kind::Number),
    ("batch", Kind::Number),
    ("tokens_out", Kind::Number),
    ("prefill_s", Kind::Number),
    ("per_token_s", Kind::Number),
    ("total_s", Kind::Number),
];

/// The same columns, as Splitwise's table names them; times there are milliseconds.
const SPLITWISE: [(&str, Kind); 9] = [
    ("model", Kind::Text),
    ("hardware", Kind::Text),
    ("tensor_parallel", Kind::Number),
    ("prompt_size", Kind::Number),
    ("batch_size", Kind::Number),
    ("token_size", Kind::Number),
    ("prompt_time", Kind::Number),
    ("token_time", Kind::Number),
    ("e2e_time", Kind::Number),
];

/// All names that [`phase_rows_of`] knows.
pub fn phase_columns() -> Vec<(&'static str, Kind)> {
    let mut all = PHASES.to_vec();
    all.extend(SPLITWISE.iter().filter(|column| !PHASES.contains(column)));
    all
}

/// Rows of prefill and decode times from CSV, in one of two layouts: `model, hardware, parallel, prompt,
/// batch, tokens_out, prefill_s, per_token_s` and perhaps `total_s`, or that of Splitwise's table
/// (`tensor_parallel, prompt_size, batch_size, token_size, prompt_time, token_time, e2e_time`, in ms).
///
/// # Errors
/// A missing column, or a cell that is no positive number.
pub fn phase_rows(text: &str) -> Result<Vec<PhaseRow>, ColumnsError> {
    phase_rows_of(&Columns::of_csv(text, &phase_columns())?)
}

/// The same from columns.
///
/// # Errors
/// As [`phase_rows`].
pub fn phase_rows_of(table: &Columns) -> Result<Vec<PhaseRow>, ColumnsError> {
    let (names, unit_s) =
        if table.has("prompt_time") { (SPLITWISE, MS) } else { (PHASES, 1.0) };
    let [model, hardware, parallel, prompt, batch, tokens_out, prefill, per_token, total] =
        names.map(|(name, _)| name);
    let models = table.texts(model)?;
    let hardwares = table.texts(hardware)?;
    let positive = |name: &str| -> Result<Vec<f64>, ColumnsError> {
        let numbers = table.numbers(name)?;
        match numbers.iter().position(|number| *number <= 0.0) {
            Some(row) => Err(table.refused(row, name, numbers[row])),
            None => Ok(numbers),
        }
    };
    let numbers = [parallel, prompt, batch, tokens_out, prefill, per_token].map(positive);
    let [parallel, prompt, batch, tokens_out, prefill, per_token] = numbers;
    let (parallel, prompt, batch) = (parallel?, prompt?, batch?);
    let (tokens_out, prefill, per_token) = (tokens_out?, prefill?, per_token?);
    let totals = if table.has(total) { table.maybe_numbers(total)?.to_vec() } else { vec![None; models.len()] };
    Ok((0..models.len())
        .map(|row| PhaseRow {
            model: models[row].clone(),
            hardware: hardwares[row].clone(),
            parallel: parallel[row] as u32,
            prompt: prompt[row],
            batch: batch[row],
            tokens_out: tokens_out[row],
            prefill_s: prefill[row] * unit_s,
            per_token_s: per_token[row] * unit_s,
            total_s: totals[row].map(|total| total * unit_s),
        })
        .collect())
}
