//! Queueing theory: the exact values of the reference table lie inside the simulation's 99.9 % intervals.
//!
//! Every line of the table is either run or named in [`left_out`] with the reason; the test counts both.
//!
//! The rule. The interval is Student's, over replications. Its half-width is at most 2 % of the exact
//! value, 5 % from a load of 0.95. For a share below 1 % it is at most 2 % of 1 %: what happens to one
//! request in ten thousand decides no threshold, and a fiftieth of that would need more requests than all
//! the rest of the table. A value of 0 must be met exactly, by every replication. A quantile comes from a
//! histogram and is the upper end of a bucket, which is at most 0.1 % wide: so much is allowed below.
//!
//! The seed is the same for every line and was never changed. Of 290 intervals at 99.9 % a quarter of such
//! tables would have a miss by chance alone; the answer to one is longer runs for the whole kind.
//!
//! Variances and tails are read with the mean as a control: see [`estimate`].

mod batch;
mod estimate;
mod left_out;
mod many;
mod network;
mod people;
mod setting;
mod single;

use estimate::Estimate;
use forebay_model::{Loaded, simulate};
use forebay_tests::scenario::{read, shown};
use forebay_tests::table::{Line, queueing};
use left_out::LEFT_OUT;
use rayon::prelude::*;
use setting::{Control, Expressed, Kind, Measure, Setting};
use std::collections::BTreeMap;

const SEED: u64 = 1;
const CONFIDENCE: f64 = 0.999;
/// Fewer lines than this must never be run.
const LEAST: usize = 120;
/// Width of a bucket of the histogram, relative.
const BUCKET: f64 = 0.001;

/// A setting and the lines that speak of it.
struct Group {
    setting: Setting,
    lines: Vec<(Line, Measure, Option<Control>)>,
}

fn express(line: &Line) -> Option<Expressed> {
    [single::express, many::express, people::express, batch::express, network::express]
        .iter()
        .find_map(|family| family(line))
}

/// The lines by setting, and how many are left out.
fn sort_out(lines: Vec<Line>) -> (Vec<Group>, usize) {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let mut left_out = 0;
    for line in lines {
        let reason = LEFT_OUT.iter().find(|entry| entry.covers(&line)).map(|entry| entry.reason);
        match (reason, reason.is_none().then(|| express(&line)).flatten()) {
            (Some(_), _) => left_out += 1,
            (None, None) => panic!("line {} is neither run nor left out: {line:?}", line.number),
            (None, Some(Expressed { setting, measure, control })) => {
                let group = groups
                    .entry(setting.key())
                    .or_insert_with(|| Group { setting: setting.clone(), lines: Vec::new() });
                group.setting.requests = group.setting.requests.max(setting.requests);
                group.lines.push((line, measure, control));
            }
        }
    }
    (groups.into_values().collect(), left_out)
}

/// The values of a group's lines in one replication, each with that of its control.
fn replicate(group: &Group, loaded: &Loaded, replication: u32) -> Vec<(f64, f64)> {
    let run = match simulate(loaded, SEED, u64::from(replication)) {
        Ok(run) => run,
        Err(error) => panic!("{}: {error}", group.setting.key()),
    };
    assert!(run.violations.is_empty(), "{}: {:?}", group.setting.key(), run.violations);
    let value = |line: &Line, measure: &Measure| {
        (measure.read)(&run).unwrap_or_else(|| panic!("line {}: no value of {}", line.number, line.metric))
    };
    let both = |(line, measure, control): &(Line, Measure, Option<Control>)| {
        (value(line, measure), control.as_ref().map_or(0.0, |c| value(line, &c.measure)))
    };
    group.lines.iter().map(both).collect()
}

/// How wide half of an interval may be.
fn allowed(line: &Line, kind: Kind, load: f64) -> f64 {
    let share = if load >= 0.95 { 0.05 } else { 0.02 };
    let scale = if kind == Kind::Share { line.value.abs().max(0.01) } else { line.value.abs() };
    share * scale
}

/// Judges a line, and writes its row of the table.
fn judge(line: &Line, kind: Kind, load: f64, estimate: Estimate) -> (bool, String) {
    let Estimate { mean, half_width } = estimate;
    let below = if kind == Kind::Quantile { BUCKET * line.value } else { 0.0 };
    let inside = (mean - half_width - below..=mean + half_width).contains(&line.value);
    let limit = allowed(line, kind, load);
    let verdict = match (inside, half_width <= limit) {
        (true, true) => "ok",
        (false, true) => "OUTSIDE",
        (true, false) => "TOO WIDE",
        (false, false) => "OUTSIDE, TOO WIDE",
    };
    let name = format!("{} {} {}", line.model, line.params, line.metric);
    let used = half_width / limit.max(f64::MIN_POSITIVE);
    let row = format!(
        "{:>3}  {name:<90}  {:>13.7}  {mean:>13.7}  {half_width:>10.2e}  {used:>5.2}  {verdict}",
        line.number, line.value,
    );
    (verdict == "ok", row)
}

#[test]
fn the_reference_table_holds() {
    let lines = queueing();
    let all = lines.len();
    for entry in LEFT_OUT {
        assert!(lines.iter().any(|line| entry.covers(line)), "no line is left out because {}", entry.reason);
    }
    let (groups, left_out) = sort_out(lines);
    let loaded: Vec<Loaded> = groups
        .iter()
        .map(|group| {
            read("theory", group.setting.base, &group.setting.all_sets())
                .unwrap_or_else(|problems| panic!("{}: {}", group.setting.key(), shown(&problems)))
        })
        .collect();
    let mut work: Vec<(usize, u32)> = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        work.extend((0..group.setting.replications).map(|replication| (index, replication)));
    }
    let values: Vec<Vec<(f64, f64)>> = work
        .par_iter()
        .map(|&(index, replication)| replicate(&groups[index], &loaded[index], replication))
        .collect();
    let (mut rows, mut run, mut failed) = (Vec::new(), 0, 0);
    for (index, group) in groups.iter().enumerate() {
        for (column, (line, measure, control)) in group.lines.iter().enumerate() {
            let own = work.iter().zip(&values).filter(|((of, _), _)| *of == index);
            let (values, controls): (Vec<f64>, Vec<f64>) = own.map(|(_, values)| values[column]).unzip();
            let estimate = match control {
                None => Estimate::plain(&values, CONFIDENCE),
                Some(control) => Estimate::controlled(&values, &controls, control.exact, CONFIDENCE),
            };
            run += 1;
            let (holds, row) = judge(line, measure.kind, group.setting.load, estimate);
            failed += usize::from(!holds);
            rows.push((line.number, row));
        }
    }
    rows.sort();
    println!("line  what  exact  simulated  half-width  half-width/allowed  verdict");
    for (_, row) in &rows {
        println!("{row}");
    }
    println!("{run} lines run, {left_out} left out, {all} in all");
    assert_eq!(run + left_out, all, "a line was skipped");
    assert!(run >= LEAST, "only {run} lines were run");
    assert_eq!(failed, 0, "{failed} lines do not hold; the table above names them");
}
