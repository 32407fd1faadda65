//! `forebay check`

use super::run_screen::findings;
use crate::arguments::{CheckArguments, Format};
use crate::failure::Failure;
use crate::terminal::{complain, print};
use forebay_workbench::Finding;
use forebay_workbench::findings::of_scenario;
use forebay_workbench::output::{Folder, Manifest, json, write_result};
use forebay_workbench::summary::ScenarioId;
use serde::Serialize;

/// The result for programs.
#[derive(Serialize)]
struct Checked {
    scenario: ScenarioId,
    findings: Vec<Finding>,
}

pub(crate) fn check(arguments: &CheckArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    if let Some(out) = &common.out {
        Folder::check(out, common.force)?;
    }
    let opened = common.open(arguments.simulated.settings())?;
    let loaded = &opened.loaded;
    let scenario = ScenarioId::of(loaded);
    let checked = Checked { scenario, findings: of_scenario(loaded) };
    let found = checked.findings.len();
    let said = match found {
        0 => "no findings".to_owned(),
        1 => "1 finding".to_owned(),
        n => format!("{n} findings"),
    };
    match common.format {
        Format::Json => print(&json(&checked))?,
        Format::Text => {
            let mut text = format!("{}: the scenario is sound, {said}\n", checked.scenario);
            findings(&mut text, &checked.findings);
            print(&text)?;
        }
    }
    if let Some(out) = &common.out {
        let manifest = Manifest::unsimulated("check", loaded);
        let folder =
            write_result(out, common.force, loaded, &manifest, &checked).map_err(Failure::unwritten)?;
        if !common.quiet {
            complain(&format!("written: {}", folder.display()));
        }
    }
    if arguments.require && found > 0 { Err(Failure::Against(said)) } else { Ok(()) }
}
