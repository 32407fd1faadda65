//! Lists the files that are built into the crate, so that the command needs no folder beside it.
//!
//! A file is bundled by being where such files are:
//! - `scenarios/<name>.toml` and `calibrations/<name>.toml`;
//! - `measured/<source>/<name>.trace.{csv,jsonl,parquet}`, with a `NOTICE.md` in the same folder that says
//!   where the data comes from and under which licence.
//!
//! The lists are sorted by name, and so the same on every machine.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let mut table = String::new();
    for (list, folder) in [("SCENARIOS", "scenarios"), ("CALIBRATIONS", "calibrations")] {
        writeln!(table, "const {list}: &[(&str, &str)] = &[")?;
        for (name, path) in texts(Path::new(folder))? {
            writeln!(table, "    ({name:?}, include_str!({})),", location(&path)?)?;
        }
        writeln!(table, "];")?;
    }
    writeln!(table, "const TRACES: &[BundledTrace] = &[")?;
    for (name, (format, path)) in traces(Path::new("measured"))? {
        let notice = location(&path.with_file_name("NOTICE.md"))?;
        let bytes = location(&path)?;
        writeln!(table, "    BundledTrace {{ name: {name:?}, format: Format::{format},")?;
        writeln!(table, "        bytes: include_bytes!({bytes}), notice: include_str!({notice}) }},")?;
    }
    writeln!(table, "];")?;
    std::fs::write(PathBuf::from(std::env::var("OUT_DIR")?).join("bundled_files.rs"), table)?;
    Ok(())
}

/// The TOML files of a folder, by name. A folder that is not there has none.
fn texts(folder: &Path) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut found = BTreeMap::new();
    for path in entries(folder)? {
        if path.extension().is_some_and(|extension| extension == "toml") {
            add(&mut found, &path, ".toml", path.clone())?;
        }
    }
    Ok(found)
}

/// The traces in the folders of a folder, by name, with the variant of `Format`.
fn traces(folder: &Path) -> Result<BTreeMap<String, (&'static str, PathBuf)>, Failure> {
    const KINDS: [(&str, &str); 3] =
        [(".trace.csv", "Csv"), (".trace.jsonl", "JsonLines"), (".trace.parquet", "Parquet")];
    let mut found = BTreeMap::new();
    for source in entries(folder)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&source)? {
            let Some((suffix, format)) = KINDS.iter().find(|(suffix, _)| ends_with(&path, suffix)) else {
                continue;
            };
            if !source.join("NOTICE.md").is_file() {
                return Err(
                    format!("{}: a trace is bundled with a NOTICE.md beside it", path.display()).into()
                );
            }
            add(&mut found, &path, suffix, (*format, path.clone()))?;
        }
    }
    Ok(found)
}

fn add<T>(found: &mut BTreeMap<String, T>, path: &Path, suffix: &str, value: T) -> Result<(), Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(suffix));
    let plain = |name: &&str| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.')
    };
    let name =
        name.filter(plain).ok_or_else(|| format!("{}: names are of a-z, 0-9, - and .", path.display()))?;
    match found.insert(name.to_owned(), value) {
        Some(_) => Err(format!("{}: there are two of this name", path.display()).into()),
        None => Ok(()),
    }
}

fn ends_with(path: &Path, suffix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(suffix))
}

/// What is in a folder. Cargo looks again when something in it changes.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !folder.is_dir() {
        // The crate's own folder changes when the missing one appears.
        println!("cargo::rerun-if-changed=.");
        return Ok(Vec::new());
    }
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    Ok(entries.collect::<Result<_, _>>()?)
}

/// An expression for the place of a file. It leaves the place of the checkout to the compiler.
fn location(path: &Path) -> Result<String, Failure> {
    let path = path.to_str().ok_or("a path is not text")?.replace('\\', "/");
    Ok(format!("concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?})", format!("/{path}")))
}
