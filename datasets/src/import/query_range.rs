//! Prometheus' answers to `query_range` and `query`, one or several in a file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::{Fault, fault};
use super::points::{Point, Sink};
use super::report::{At, Notes};
use crate::trace::layout::shortened;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
    #[serde(default)]
    value: Option<(f64, String)>,
}

pub(super) fn read(text: &str, notes: &mut Notes, sink: Sink<'_>) -> Result<(), Fault> {
    let mut number = 0;
    for answer in serde_json::Deserializer::from_str(text).into_iter::<Answer>() {
        let answer = answer.map_err(|error| {
            let text = error.to_string();
            let reason = text.split(" at line ").next().unwrap_or_default();
            let what = format!(
                "character {}: not an answer of Prometheus ({{\"data\":{{\"result\":[{{\"metric\":{{…}},\"values\":\
                 [[seconds,\"value\"],…]}}]}}}}): {reason}",
                error.column()
            );
            fault(what).line(error.line())
        })?;
        if let Some(error) = answer.error {
            return Err(fault(format!("Prometheus answered with an error: {}", shortened(&error))));
        }
        let data = answer.data.ok_or_else(|| fault("the answer of Prometheus has no `data`"))?;
        for series in data.result {
            number += 1;
            read_series(series, At::Series(number), notes, sink)?;
        }
    }
    if number == 0 {
        return Err(fault("the answer of Prometheus holds no series"));
    }
    Ok(())
}

fn read_series(series: Series, at: At, notes: &mut Notes, sink: Sink<'_>) -> Result<(), Fault> {
    let mut metric = series.metric;
    let Some(name) = metric.remove("__name__") else {
        notes.dropped("a series without a name, as expressions give", at);
        return Ok(());
    };
    let labels: Vec<(String, String)> = metric.into_iter().collect();
    for (seconds, value) in series.values.iter().chain(&series.value) {
        // Stamps have milliseconds; a float holds microseconds of them.
        let micros = (seconds * 1e6).round();
        if !(0.0..1e16).contains(&micros) {
            let what = format!("found {seconds} as a stamp; seconds since 1970 are wanted");
            return Err(fault(what).at(at.to_string()));
        }
        let value: f64 = value.parse().map_err(|_| {
            fault(format!("found \"{}\" as a value; a number is wanted", shortened(value))).at(at.to_string())
        })?;
        let value = if value.is_finite() { value } else { f64::NAN };
        let point = Point { at, at_ns: micros as u64 * 1000, name: &name, labels: &labels, value };
        sink(&point, notes)?;
    }
    Ok(())
}
