//! Published tables, row by row: what the fits of a table take in.

use std::collections::BTreeMap;

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
    let (names, unit_s) = if table.has("prompt_time") { (SPLITWISE, MS) } else { (PHASES, 1.0) };
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
    let totals =
        if table.has(total) { table.maybe_numbers(total)?.to_vec() } else { vec![None; models.len()] };
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

/// Lengths by what they are the length of: those of the first part, and those of the second.
pub type Lengths = BTreeMap<String, [Vec<f64>; 2]>;

/// Counted lengths from CSV with the columns `part, length_of, value, count`. The part that comes first is
/// the first; all others are the second.
///
/// # Errors
/// A missing column, or a cell that is no number.
pub fn length_rows(text: &str) -> Result<Lengths, ColumnsError> {
    let wanted =
        [("part", Kind::Text), ("length_of", Kind::Text), ("value", Kind::Number), ("count", Kind::Number)];
    let table = Columns::of_csv(text, &wanted)?;
    let (parts, names) = (table.texts("part")?, table.texts("length_of")?);
    let (values, counts) = (table.numbers("value")?, table.numbers("count")?);
    let mut lengths = Lengths::new();
    for row in 0..parts.len() {
        let part = usize::from(parts[row] != parts[0]);
        let of = lengths.entry(names[row].clone()).or_default();
        of[part].extend(std::iter::repeat_n(values[row], counts[row] as usize));
    }
    Ok(lengths)
}

/// Pairs of numbers by name.
pub type Pairs = BTreeMap<String, Vec<(f64, f64)>>;

/// Rates over time by model, `(s, 1/s)`, from CSV with the columns `model, t_s, requests_per_s`.
///
/// # Errors
/// A missing column, or a cell that is no number.
pub fn rate_rows(text: &str) -> Result<Pairs, ColumnsError> {
    pairs(text, ["model", "t_s", "requests_per_s"])
}

/// Clients by model, `(mean rate, variation of gaps)`, from CSV with the columns `model, mean_rate_rps,
/// rate_weighted_cv`.
///
/// # Errors
/// A missing column, or a cell that is no number.
pub fn client_rows(text: &str) -> Result<Pairs, ColumnsError> {
    pairs(text, ["model", "mean_rate_rps", "rate_weighted_cv"])
}

fn pairs(text: &str, [name, first, second]: [&str; 3]) -> Result<Pairs, ColumnsError> {
    let table = Columns::of_csv(text, &[(name, Kind::Text), (first, Kind::Number), (second, Kind::Number)])?;
    let mut pairs = Pairs::new();
    let numbers = table.numbers(first)?.into_iter().zip(table.numbers(second)?);
    for (name, pair) in table.texts(name)?.iter().zip(numbers) {
        pairs.entry(name.clone()).or_default().push(pair);
    }
    Ok(pairs)
}
