//! Engine series: what LLM engines told about themselves over time, one row for each engine and moment, in
//! the one form in which they go about here. What an engine did not tell is a null, never a 0. Totals count
//! from the engine's start.
//!
//! | column | what |
//! | --- | --- |
//! | `t_ns` | nanoseconds from the first row; of a file without dates, on its own clock |
//! | `wall_ns` | the same moment, nanoseconds since 1970, UTC; 0 if it has no date |
//! | `engine` | its name; empty if there is one only |
//! | `running`, `waiting`, `swapped` | requests in the batch, in the queue, moved out of memory |
//! | `kv_usage` | share of the KV cache in use, 0 to 1 |
//! | `tokens_in`, `tokens_out` | tokens of prompts and answers, total |
//! | `preemptions`, `finished` | total |
//! | `prefix_tokens`, `prefix_hits` | prompt tokens looked up in the prefix cache and found there, total |
//! | `ttft_sum_s`, `ttft_count` | times to first token, total and how many |
//! | `latency_sum_s`, `latency_count` | arrival to last token, likewise |

use std::path::Path;

use crate::frames::{Table, TableColumn, TableError, Values, read_parquet};

/// What one engine told at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineSample {
    /// Nanoseconds from the series' first row, or on the clock of a file without dates.
    pub t_ns: u64,
    /// The same moment, nanoseconds since 1970, UTC; 0 if unknown.
    pub wall_ns: u64,
    /// The engine; empty if there is one only.
    pub engine: String,
    /// The numbers, in the order of [`NUMBERS`].
    pub numbers: [Option<f64>; NUMBERS.len()],
}

/// Name and unit of the numbers.
pub const NUMBERS: [(&str, &str); 14] = [
    ("running", ""),
    ("waiting", ""),
    ("swapped", ""),
    ("kv_usage", ""),
    ("tokens_in", ""),
    ("tokens_out", ""),
    ("preemptions", ""),
    ("finished", ""),
    ("prefix_tokens", ""),
    ("prefix_hits", ""),
    ("ttft_sum_s", "s"),
    ("ttft_count", ""),
    ("latency_sum_s", "s"),
    ("latency_count", ""),
];

/// The first number that is a total.
pub(crate) const FIRST_TOTAL: usize = 4;

/// The place of a number.
pub(crate) fn place(name: &str) -> Option<usize> {
    NUMBERS.iter().position(|(known, _)| *known == name)
}

impl EngineSample {
    /// Requests in the batch.
    pub fn running(&self) -> Option<f64> {
        self.numbers[0]
    }

    /// Requests in the queue.
    pub fn waiting(&self) -> Option<f64> {
        self.numbers[1]
    }

    /// Share of the KV cache in use.
    pub fn kv_usage(&self) -> Option<f64> {
        self.numbers[3]
    }
}

/// The samples as a table, one row each.
pub fn table(samples: &[EngineSample]) -> Table {
    let whole = |of: fn(&EngineSample) -> u64| Values::U64(samples.iter().map(of).collect());
    let engines = samples.iter().map(|sample| sample.engine.clone()).collect();
    let mut columns = vec![
        TableColumn::new("t_ns", "ns", whole(|sample| sample.t_ns)),
        TableColumn::new("wall_ns", "ns", whole(|sample| sample.wall_ns)),
        TableColumn::new("engine", "", Values::Str(engines)),
    ];
    for (index, (name, unit)) in NUMBERS.into_iter().enumerate() {
        let values = samples.iter().map(|sample| sample.numbers[index]).collect();
        columns.push(TableColumn::new(name, unit, Values::MaybeF64(values)));
    }
    Table { columns }
}

/// Reads a series that was written here. Columns that it does not know are left out, and those that are
/// missing are nulls; only `t_ns` must be there.
///
/// # Errors
/// [`TableError`]: there is no such file, it is no Parquet, or it is no engine series.
pub fn read(path: &Path) -> Result<Vec<EngineSample>, TableError> {
    let table = read_parquet(path)?;
    let column = |name: &str| table.columns.iter().find(|column| column.name == name).map(|c| &c.values);
    let (Some(Values::U64(times)), true) =
        (column("t_ns"), NUMBERS.iter().any(|(name, _)| column(name).is_some()))
    else {
        let reason = "an engine series has a column `t_ns` and some of its numbers, which this file lacks";
        return Err(TableError::Shape { path: path.to_owned(), reason: reason.to_owned() });
    };
    let mut samples: Vec<EngineSample> =
        times.iter().map(|&t_ns| EngineSample { t_ns, ..EngineSample::default() }).collect();
    if let Some(Values::U64(walls)) = column("wall_ns") {
        samples.iter_mut().zip(walls).for_each(|(sample, &wall)| sample.wall_ns = wall);
    }
    if let Some(Values::Str(engines)) = column("engine") {
        samples.iter_mut().zip(engines).for_each(|(sample, engine)| sample.engine.clone_from(engine));
    }
    for (index, (name, _)) in NUMBERS.into_iter().enumerate() {
        match column(name) {
            Some(Values::MaybeF64(values)) => {
                samples.iter_mut().zip(values).for_each(|(sample, value)| sample.numbers[index] = *value);
            }
            Some(Values::F64(values)) => {
                samples
                    .iter_mut()
                    .zip(values)
                    .for_each(|(sample, value)| sample.numbers[index] = Some(*value));
            }
            Some(_) => {
                let reason = format!("`{name}` does not hold numbers");
                return Err(TableError::Shape { path: path.to_owned(), reason });
            }
            None => {}
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::write_parquet;
    use crate::scratch::Folder;

    #[test]
    fn series_come_back_as_written() {
        let mut numbers = [None; NUMBERS.len()];
        numbers[0] = Some(3.0);
        numbers[3] = Some(0.25);
        let samples = [EngineSample { t_ns: 5, wall_ns: 7, engine: "0".to_owned(), numbers }];
        assert_eq!(
            (samples[0].running(), samples[0].waiting(), samples[0].kv_usage()),
            (Some(3.0), None, Some(0.25))
        );
        let folder = Folder::new("engine-series");
        let path = folder.path("series.parquet");
        write_parquet(&path, &table(&samples), false).unwrap();
        assert_eq!(read(&path).unwrap(), samples);
        let other = folder.path("other.parquet");
        let times = TableColumn::new("t_ns", "ns", Values::U64(vec![1]));
        write_parquet(&other, &Table { columns: vec![times] }, false).unwrap();
        assert!(read(&other).unwrap_err().to_string().contains("engine series"));
    }
}
