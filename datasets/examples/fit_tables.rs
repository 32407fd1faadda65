//! Fits the bundled calibrations that come from published tables again, and writes them with the README's
//! table of held-out errors: `cargo run --release -p forebay-datasets --example fit_tables`.

use std::error::Error;
use std::path::PathBuf;

use forebay_datasets::bundled;
use forebay_datasets::files::write_whole;
use forebay_datasets::fit::bundle::{all, error_table};

const BEGIN: &str = "<!-- errors: written by the example fit_tables -->\n";
const END: &str = "<!-- end of errors -->\n";

fn main() -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let measured = folder.join("measured");
    let read =
        |path: &str| std::fs::read_to_string(measured.join(path)).map_err(|error| format!("{path}: {error}"));
    let all = all(&read)?;
    for made in &all {
        let path = folder.join("calibrations").join(format!("{}.toml", made.name));
        write_whole(&path, made.text()?.as_bytes(), true)?;
    }
    // Those from logs are as they were built in: another example makes them.
    let others: Vec<(&str, &str)> = bundled::calibration_names()
        .filter(|name| all.iter().all(|made| made.name != *name))
        .filter_map(|name| Some((name, bundled::calibration(name)?)))
        .collect();
    let table = error_table(&read, &all, &others)?;
    let path = folder.join("README.md");
    let readme = std::fs::read_to_string(&path)?;
    let (above, rest) = readme.split_once(BEGIN).ok_or("README.md has no place for the table")?;
    let (_, below) = rest.split_once(END).ok_or("README.md: the table does not end")?;
    write_whole(&path, format!("{above}{BEGIN}{table}{END}{below}").as_bytes(), true)?;
    print!("{table}");
    Ok(())
}
