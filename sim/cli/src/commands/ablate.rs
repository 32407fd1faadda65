//! `forebay run --ablate`

use super::ablate_screen::screen;
use crate::arguments::{Format, RunArguments};
use crate::failure::Failure;
use crate::terminal::{Counter, complain, print};
use crate::units::{count, seconds};
use forebay_workbench::output::{Folder, Manifest, json, write_result};

pub(crate) fn ablate(arguments: &RunArguments) -> Result<(), Failure> {
    let common = &arguments.common;
    let opened = common.open(arguments.simulated.settings())?;
    if let Some(out) = &common.out {
        // Before the work, not after it.
        Folder::check(out, common.force)?;
    }
    let workers = arguments.simulated.workers()?;
    let counter = Counter::new("simulation", common.quiet);
    let ablation = forebay_workbench::ablate(&opened, &workers, &|done, all| counter.count(done, all))?;
    drop(counter);
    match common.format {
        Format::Json => print(&json(&ablation))?,
        Format::Text => print(&screen(&opened.loaded, &ablation))?,
    }
    if !common.quiet {
        let runs = 1 + ablation.modules.iter().filter(|module| module.refused.is_none()).count();
        let simulations = count(runs as u64 * u64::from(ablation.replications));
        let threads = workers.threads();
        complain(&format!("{simulations} simulations in {} on {threads} threads", seconds(ablation.wall_s)));
    }
    // After the result is out: a disk that is full must not cost hours of simulation.
    if let Some(out) = &common.out {
        let digest = Some(ablation.digest.clone());
        let manifest = Manifest::new("ablation", &opened.loaded, digest, ablation.wall_s);
        let folder = write_result(out, common.force, &opened.loaded, &manifest, &ablation)
            .map_err(Failure::unwritten)?;
        if !common.quiet {
            complain(&format!("written: {}", folder.display()));
        }
    }
    Ok(())
}
