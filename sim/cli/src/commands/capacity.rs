//! `forebay capacity`

use crate::arguments::{CapacityArguments, Format};
use crate::failure::Failure;
use crate::table::{row, write};
use crate::terminal::{complain, print};
use crate::units::{NONE, number, percent, seconds};
use anyhow::Context;
use forebay_workbench::capacity::{Capacity, StageCapacity};
use forebay_workbench::output::{Folder, Manifest, json, write_result};
use std::fmt::Write;

pub(crate) fn capacity(arguments: &CapacityArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    if let Some(out) = &common.out {
        Folder::check(out, common.force)?;
    }
    let opened = common.open(arguments.simulated.settings())?;
    let capacity = Capacity::of(&opened.loaded).context("the capacity cannot be computed")?;
    match common.format {
        Format::Json => print(&json(&capacity))?,
        Format::Text => print(&text(&capacity))?,
    }
    if let Some(out) = &common.out {
        let manifest = Manifest::unsimulated("capacity", &opened.loaded);
        let folder = write_result(out, common.force, &opened.loaded, &manifest, &capacity)
            .map_err(Failure::unwritten)?;
        if !common.quiet {
            complain(&format!("written: {}", folder.display()));
        }
    }
    Ok(())
}

fn text(capacity: &Capacity) -> String {
    let mut out = String::new();
    match (capacity.ceiling_per_s, &capacity.first_bottleneck) {
        (Some(ceiling), Some(stage)) => {
            let _ = writeln!(
                out,
                "{}: carries {} requests/s at most; {stage} is full first",
                capacity.scenario,
                number(ceiling)
            );
        }
        _ => {
            let _ = writeln!(out, "{}: no stage has a bound", capacity.scenario);
        }
    }
    let (offered, peak) = (capacity.offered_per_s, capacity.peak_per_s);
    let _ = write!(out, "offered: {} requests/s on average", number(offered));
    let _ = if (peak / offered - 1.0).abs() > 1e-6 {
        writeln!(out, ", {} at the busiest time\n", number(peak))
    } else {
        writeln!(out, "\n")
    };
    let mut rows = vec![row([
        "stage",
        "kind",
        "servers",
        "service",
        "comes here",
        "ceiling",
        "load",
        "peak load",
        "must wait",
        "wait",
    ])];
    rows.extend(capacity.stages.iter().map(line));
    write(&mut out, &rows);
    out.push('\n');
    for stage in &capacity.stages {
        if let Some(note) = &stage.note {
            let _ = writeln!(out, "{}: {note}", stage.name);
        }
    }
    for note in &capacity.notes {
        let _ = writeln!(out, "all: {note}");
    }
    out
}

fn line(stage: &StageCapacity) -> Vec<String> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    vec![
        stage.name.clone(),
        stage.kind.clone(),
        or_none(stage.servers.map(|servers| format!("{servers:.0}"))),
        or_none(stage.service_s.map(seconds)),
        percent(stage.visited_share),
        or_none(stage.ceiling_per_s.map(|ceiling| format!("{} /s", number(ceiling)))),
        or_none(stage.load.map(percent)),
        or_none(stage.peak_load.map(percent)),
        or_none(stage.waiting.map(|waiting| percent(waiting.probability))),
        match (stage.waiting, stage.load) {
            (Some(waiting), _) => seconds(waiting.mean_s),
            (None, Some(load)) if load >= 1.0 => "without end".to_owned(),
            _ => NONE.to_owned(),
        },
    ]
}
