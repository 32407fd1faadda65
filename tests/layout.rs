//! The layout of the repository: the dependency rule between its crates, what the light crates must not
//! pull in, what stands at the top level, and the length of files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Table;

/// Longest source file, in lines.
const LONGEST: usize = 500;
/// Longer files, each with the reason. Paths from the root of the repository.
const LONGER: &[(&str, &str)] = &[];

/// What each crate may use of ours: the dependency rule of the design.
const RULE: &[(&str, &[&str])] = &[
    ("policies", &[]),
    ("sim/engine", &[]),
    ("sim/model", &["forebay-engine", "forebay-policies"]),
    ("datasets", &["forebay-engine", "forebay-model", "forebay-nvml-replay", "forebay-policies"]),
    // What tests load instead of NVIDIA's library; a crate beside it may only test with it.
    ("datasets/nvml-replay", &[]),
    ("sim/workbench", &["forebay-datasets", "forebay-engine", "forebay-model", "forebay-policies"]),
    (
        "sim/cli",
        &[
            "forebay-datasets",
            "forebay-engine",
            "forebay-model",
            "forebay-nvml-replay",
            "forebay-policies",
            "forebay-workbench",
        ],
    ),
    (
        "gui",
        &["forebay-datasets", "forebay-engine", "forebay-model", "forebay-policies", "forebay-workbench"],
    ),
    (
        "tests",
        &[
            "forebay",
            "forebay-datasets",
            "forebay-engine",
            "forebay-model",
            "forebay-policies",
            "forebay-workbench",
        ],
    ),
];

/// Crates that stay light, so that they build in seconds and embed anywhere.
const LIGHT: &[&str] = &["policies", "sim/engine", "sim/model"];
/// All that they may use of others: data in and out, numbers, and nothing that runs, draws, searches or
/// reads tables.
const LIGHT_USES: &[&str] = &[
    "hdrhistogram",
    "indexmap",
    "libm",
    "rand",
    "rand_core",
    "rand_distr",
    "rand_xoshiro",
    "schemars",
    "serde",
    "serde_json",
    "strsim",
    "thiserror",
    "toml",
];

/// Crates with lints of their own, each with the reason.
const OWN_LINTS: &[(&str, &str)] =
    &[("datasets/nvml-replay", "a library with a C interface cannot be written without `unsafe`")];

/// What stands at the top level; everything else needs a reason to be there.
const TOP: &[&str] = &[
    ".cargo",
    ".ci",
    ".github",
    ".gitattributes",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "clippy.toml",
    "datasets",
    "deny.toml",
    "docs",
    "gui",
    "policies",
    "rust-toolchain.toml",
    "rustfmt.toml",
    "sim",
    "tests",
];
/// What git or a build leaves there.
const LEFT_THERE: &[&str] = &[".git", "target", "out"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the repository").to_owned()
}

fn manifest(path: &Path) -> Table {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn members() -> Vec<String> {
    let workspace = manifest(&root().join("Cargo.toml"));
    let list = workspace["workspace"]["members"].as_array().expect("a list of members");
    list.iter().map(|member| member.as_str().expect("a path").to_owned()).collect()
}

/// Names of a crate's dependencies in the tables given, those of targets included.
fn dependencies(member: &str, tables: &[&str]) -> Vec<String> {
    let manifest = manifest(&root().join(member).join("Cargo.toml"));
    let targets = manifest.get("target").and_then(|t| t.as_table()).into_iter().flat_map(Table::values);
    let places = std::iter::once(&manifest).chain(targets.filter_map(|t| t.as_table()));
    places
        .flat_map(|place| tables.iter().filter_map(|table| place.get(*table)?.as_table()))
        .flat_map(|table| table.keys().cloned())
        .collect()
}

const BUILT: &[&str] = &["dependencies", "build-dependencies"];
const ALL: &[&str] = &["dependencies", "build-dependencies", "dev-dependencies"];

#[test]
fn crates_depend_on_what_the_design_allows() {
    let rule: BTreeMap<_, _> = RULE.iter().copied().collect();
    for member in members() {
        let allowed = rule.get(member.as_str()).unwrap_or_else(|| panic!("{member} is not in the design"));
        for name in dependencies(&member, ALL) {
            let ours = name == "forebay" || name.starts_with("forebay-");
            assert!(!ours || allowed.contains(&name.as_str()), "{member} depends on {name}");
        }
        let stand_in = dependencies(&member, BUILT).iter().any(|name| name == "forebay-nvml-replay");
        assert!(!stand_in, "{member} is built on the stand-in for NVML, which is for tests");
    }
}

#[test]
fn the_light_crates_stay_light() {
    for member in LIGHT {
        for name in dependencies(member, BUILT) {
            let ours = name.starts_with("forebay-");
            assert!(ours || LIGHT_USES.contains(&name.as_str()), "{member} pulls in {name}");
        }
    }
}

#[test]
fn one_version_of_each_dependency_stands_in_the_workspace() {
    for member in members() {
        let manifest = manifest(&root().join(&member).join("Cargo.toml"));
        for table in ALL.iter().filter_map(|table| manifest.get(*table)?.as_table()) {
            for (name, value) in table {
                let shared = value.get("workspace").and_then(toml::Value::as_bool) == Some(true);
                assert!(shared, "{member}: {name} is not taken from the workspace");
            }
        }
        let own = OWN_LINTS.iter().any(|(excepted, _)| *excepted == member);
        let lints = manifest["lints"].get("workspace").and_then(toml::Value::as_bool) == Some(true);
        assert!(lints || own, "{member} does not take the lints");
    }
}

#[test]
fn the_top_level_holds_what_the_design_says() {
    for entry in std::fs::read_dir(root()).expect("the repository can be read") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(
            TOP.contains(&name.as_str()) || LEFT_THERE.contains(&name.as_str()),
            "{name} at the top level"
        );
    }
    for member in members() {
        assert!(root().join(&member).join("Cargo.toml").is_file(), "{member}");
    }
}

/// All Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn files_are_of_a_length_that_can_be_read_and_say_what_they_are() {
    let (root, mut wrong) = (root(), Vec::new());
    let mut files = Vec::new();
    for member in members() {
        sources(&root.join(member), &mut files);
    }
    assert!(files.len() > 100, "only {} files were found", files.len());
    for file in &files {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
        let lines = text.lines().count();
        if lines > LONGEST && !LONGER.iter().any(|(longer, _)| *longer == name) {
            wrong.push(format!("{name} has {lines} lines"));
        }
        if !text.starts_with("//!") {
            wrong.push(format!("{name} does not open by saying what it is"));
        }
    }
    for (longer, reason) in LONGER {
        assert!(root.join(longer).is_file() && !reason.is_empty(), "{longer} is excepted and not there");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
