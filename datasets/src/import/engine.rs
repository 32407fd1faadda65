//! What LLM engines tell about themselves: vLLM's metrics, and tables with a column for each of some of them.

use std::collections::BTreeMap;

use super::clock::{epoch, moment, seconds};
use super::error::{Fault, fault};
use super::gaps::Steps;
use super::options::Options;
use super::points::{self, Point};
use super::quantity::{Cell, cell};
use super::report::{At, Notes, Report};
use crate::engine_series::{EngineSample, FIRST_TOTAL, NUMBERS, place};
use crate::trace::layout::shortened;

/// What vLLM's metrics begin with; some relays turn the colon into an underscore.
pub(super) const PREFIXES: [&str; 2] = ["vllm:", "vllm_"];

/// The number that a metric of vLLM, named without its beginning, goes into.
fn number(name: &str) -> Option<usize> {
    place(match name {
        "num_requests_running" => "running",
        "num_requests_waiting" => "waiting",
        "num_requests_swapped" => "swapped",
        "gpu_cache_usage_perc" | "kv_cache_usage_perc" => "kv_usage",
        "prompt_tokens_total" => "tokens_in",
        "generation_tokens_total" => "tokens_out",
        "num_preemptions_total" => "preemptions",
        "request_success_total" => "finished",
        "prefix_cache_queries_total" | "gpu_prefix_cache_queries_total" => "prefix_tokens",
        "prefix_cache_hits_total" | "gpu_prefix_cache_hits_total" => "prefix_hits",
        "time_to_first_token_seconds_sum" => "ttft_sum_s",
        "time_to_first_token_seconds_count" => "ttft_count",
        "e2e_request_latency_seconds_sum" => "latency_sum_s",
        "e2e_request_latency_seconds_count" => "latency_count",
        _ => return None,
    })
}

pub(super) fn read_metrics(
    text: &str,
    options: &Options,
    notes: &mut Notes,
) -> Result<Vec<EngineSample>, Fault> {
    let mut gathering = Gathering::default();
    let mut found = false;
    let dated = points::read(text, options, notes, &mut |point, notes| {
        found |= gathering.point(point, notes);
        Ok(())
    })?;
    if !found {
        return Err(fault("there are no metrics of vLLM in it: their names begin with vllm:"));
    }
    gathering.finish(dated, notes)
}

/// The numbers of an engine at a moment.
type Numbers = [Option<f64>; NUMBERS.len()];

/// Values by moment and engine, and where they came from.
#[derive(Default)]
struct Gathering {
    rows: BTreeMap<(u64, String), (Numbers, At)>,
}

impl Gathering {
    /// Takes a value; whether it is one of vLLM's.
    fn point(&mut self, point: &Point<'_>, notes: &mut Notes) -> bool {
        let Some(name) = PREFIXES.iter().find_map(|prefix| point.name.strip_prefix(prefix)) else {
            notes.dropped("values of metrics that are not of vLLM", point.at);
            return false;
        };
        let Some(number) = number(name) else {
            if name.ends_with("_bucket") {
                notes.dropped("buckets of histograms", point.at);
            } else if name.ends_with("_created") {
                notes.dropped("moments at which counters began", point.at);
            } else {
                notes.dropped(
                    &format!("values of `{}`, which has no column", shortened(point.name)),
                    point.at,
                );
            }
            return true;
        };
        let labels = ["instance", "pod", "model_name", "engine"].map(|label| point.label(label));
        let engine: Vec<&str> = labels.into_iter().filter(|label| !label.is_empty()).collect();
        self.set(point.at_ns, &engine.join("/"), number, point.value, point.at, notes);
        true
    }

    fn set(&mut self, at_ns: u64, engine: &str, number: usize, value: f64, at: At, notes: &mut Notes) {
        let name = NUMBERS[number].0;
        if value.is_nan() {
            notes.dropped(&format!("`{name}` not told: no number"), at);
            return;
        }
        if value < 0.0 || (name == "kv_usage" && value > 1.0) {
            notes.dropped(&format!("a value of `{name}` below 0 or beyond its whole"), at);
            return;
        }
        let row = self.rows.entry((at_ns, engine.to_owned()));
        let (numbers, _) = row.or_insert_with(|| ([None; NUMBERS.len()], at));
        match &mut numbers[number] {
            None => numbers[number] = Some(value),
            // One counter for each way to finish.
            Some(sum) if name == "finished" => *sum += value,
            Some(_) => {
                notes.dropped(&format!("a second value of `{name}` of an engine at the same moment"), at);
            }
        }
    }

    fn finish(self, dated: bool, notes: &mut Notes) -> Result<Vec<EngineSample>, Fault> {
        let Some(((first_ns, first), _)) = self.rows.first_key_value() else {
            return Err(fault("there are no rows with values in it"));
        };
        let origin_ns = if dated { *first_ns } else { 0 };
        let one = self.rows.keys().all(|(_, engine)| engine == first);
        let mut before: BTreeMap<String, Numbers> = BTreeMap::new();
        let mut samples = Vec::with_capacity(self.rows.len());
        for ((at_ns, engine), (numbers, at)) in self.rows {
            let last = before.entry(engine.clone()).or_insert(numbers);
            let fell = (FIRST_TOTAL..NUMBERS.len())
                .any(|total| numbers[total] < last[total] && numbers[total].is_some());
            if fell {
                notes.remark("a total fell: the engine was started again", at);
            }
            *last = numbers;
            samples.push(EngineSample {
                t_ns: at_ns - origin_ns,
                wall_ns: if dated { at_ns } else { 0 },
                engine: if one { String::new() } else { engine },
                numbers,
            });
        }
        Ok(samples)
    }
}

/// What a column of a table is: the time, or a number and by how much to divide it.
enum Column {
    Time,
    Engine,
    Number(usize, f64),
    Left,
}

fn column(name: &str) -> Column {
    let number = |name: &str, by| place(name).map_or(Column::Left, |place| Column::Number(place, by));
    match name {
        "t" | "t_s" | "time" | "time_s" | "timestamp" => Column::Time,
        "engine" => Column::Engine,
        "num_running" => number("running", 1.0),
        "num_waiting" => number("waiting", 1.0),
        "kv_cache_pct" | "kv_usage_pct" => number("kv_usage", 100.0),
        "kv_cache_usage" => number("kv_usage", 1.0),
        known => number(known, 1.0),
    }
}

/// Whether a header is one of a table of engine metrics: a time, and running or waiting.
pub(super) fn is_header(line: &str) -> bool {
    let columns: Vec<Column> = line.split(',').map(|name| column(name.trim())).collect();
    let number = |wanted: &str| {
        let place = place(wanted);
        columns.iter().any(|column| matches!(column, Column::Number(number, _) if Some(*number) == place))
    };
    columns.iter().any(|column| matches!(column, Column::Time)) && (number("running") || number("waiting"))
}

/// Reads a table: times in seconds, from any start or since 1970, or dates with a time of day.
pub(super) fn read_csv(text: &str, options: &Options, notes: &mut Notes) -> Result<Vec<EngineSample>, Fault> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (At::Line(index + 1), line));
    let header = lines.next().map_or("", |(_, line)| line);
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    if !is_header(header) {
        let what = "a header with a time (t) and running or waiting is wanted, separated by commas";
        return Err(fault(what).line(1));
    }
    let columns: Vec<Column> = names.iter().map(|name| column(name)).collect();
    for (name, _) in names.iter().zip(&columns).filter(|(_, column)| matches!(column, Column::Left)) {
        notes.dropped(&format!("column `{}`, which engine series do not have", shortened(name)), At::Line(1));
    }
    let complete = text.ends_with('\n');
    let count = text.lines().count();
    let mut gathering = Gathering::default();
    let mut dated = true;
    for (at, line) in lines {
        if line.trim().is_empty() {
            notes.dropped("a blank line", at);
            continue;
        }
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != columns.len() {
            if at == At::Line(count) && !complete {
                notes.dropped("the last line, which is cut off", at);
                continue;
            }
            let (found, wanted) = (cells.len(), columns.len());
            return Err(
                fault(format!("found {found} fields, and the header has {wanted}")).at(at.to_string())
            );
        }
        let of = |wanted: fn(&Column) -> bool| columns.iter().position(wanted).map(|place| cells[place]);
        let time = of(|column| matches!(column, Column::Time)).unwrap_or_default();
        let engine = of(|column| matches!(column, Column::Engine)).unwrap_or_default();
        let at_ns = epoch(time).or_else(|| moment(time, options.utc_offset.unwrap_or_default())).ok_or_else(
            || {
                let what = format!("found \"{}\"; seconds or a date and time are wanted", shortened(time));
                fault(what).at(at.to_string()).column("t")
            },
        )?;
        dated &= at_ns > 1_000_000_000_000_000_000;
        for (place, text) in cells.iter().enumerate() {
            let Column::Number(number, by) = columns[place] else { continue };
            match cell(text) {
                Cell::Number(value, "") => gathering.set(at_ns, engine, number, value / by, at, notes),
                Cell::NotTold(_) => notes.dropped(&format!("`{}` not told", shortened(names[place])), at),
                _ => {
                    let what = format!("found \"{}\"; a number is wanted, or nothing", shortened(text));
                    return Err(fault(what).at(at.to_string()).column(&shortened(names[place])));
                }
            }
        }
    }
    gathering.finish(dated, notes)
}

/// The report of a series.
pub(super) fn describe(samples: &[EngineSample], report: Report) -> Report {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    let mut steps = Steps::default();
    for (index, sample) in samples.iter().enumerate() {
        if let Some(before) = last.insert(&sample.engine, sample.t_ns) {
            steps.add(sample.t_ns - before, At::Row(index + 1));
        }
    }
    let (period_s, gaps) = steps.judge();
    let name =
        |engine: &&str| if engine.is_empty() { "one engine".to_owned() } else { format!("engine {engine}") };
    Report {
        rows: samples.len() as u64,
        sources: last.keys().map(name).collect(),
        span_s: samples
            .first()
            .zip(samples.last())
            .map_or(0.0, |(first, last)| seconds(last.t_ns - first.t_ns)),
        period_s,
        gaps,
        ..report
    }
}
