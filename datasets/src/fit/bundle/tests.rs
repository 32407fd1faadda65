//! The bundled calibrations are those that the tables give, and their errors are those that they state.

use std::path::PathBuf;

use super::*;
use crate::bundled;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(folder().join("measured").join(path)).map_err(|error| format!("{path}: {error}"))
}

const BEGIN: &str = "<!-- errors: written by the example fit_tables -->\n";
const END: &str = "<!-- end of errors -->\n";

/// Every calibration from a table, and the table of errors, are what the measured files give.
#[test]
fn the_bundled_files_are_current() {
    let all = all(&read).unwrap();
    for made in &all {
        assert_eq!(
            Calibration::parse(&made.text().unwrap()).as_ref(),
            Ok(&made.calibration),
            "{}",
            made.name
        );
        let there = bundled::calibration(&made.name);
        assert_eq!(there, Some(made.text().unwrap().as_str()), "{}: `{COMMAND}` writes it anew", made.name);
    }
    let others: Vec<(&str, &str)> = bundled::calibration_names()
        .filter(|name| all.iter().all(|made| made.name != *name))
        .filter_map(|name| Some((name, bundled::calibration(name)?)))
        .collect();
    let readme = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, below) = readme.split_once(BEGIN).expect("the README has a place for the table");
    let (table, _) = below.split_once(END).expect("the README's table ends");
    assert_eq!(table, error_table(&read, &all, &others).unwrap(), "`{COMMAND}` writes it anew");
}

#[test]
fn what_is_asked_for_is_met() {
    for made in all(&read).unwrap() {
        let (evidence, most) = match &made.calibration {
            Calibration::Phases(of) => (&of.prefill.evidence, 10.0),
            Calibration::Load(of) => (&of.evidence, 20.0),
            _ => continue,
        };
        assert!(evidence.held_out_error < most, "{}: {evidence:?}", made.name);
    }
}

/// What stands in a calibration stands in a scenario as it is.
#[test]
fn laws_and_loads_serve_in_scenarios() {
    let all = all(&read).unwrap();
    let find = |name: &str| all.iter().find(|made| made.name == name).unwrap().calibration.clone();
    let Calibration::Lengths(lengths) = find("lengths-zh-crosswoz") else { panic!("no lengths") };
    let Calibration::Load(load) = find("load-servegen-m-small") else { panic!("no load") };
    let inline = |value: &dyn erased::Toml| value.inline();
    let question = &lengths.laws["question_chars"];
    let text = format!(
        "name = \"calibrated\"\n[run]\nduration_s = 10\nreplications = 1\n\
         [workload.population]\nusers = {}\nactivity_exponent = {}\n\
         [workload.sources]\nday = {}\n\
         [workload.classes.question]\nchars = {}\ntokens_in = {}\n\
         [endpoints.chat]\nl1 = [\"desk\"]\n\
         [stages.desk]\nkind = \"server\"\nservers = 2000\nservice_s = 0.1\n",
        load.clients.count,
        load.clients.activity_exponent,
        inline(&load.arrivals),
        inline(&question.dist),
        inline(&question.quantiles),
    );
    let source = forebay_model::document::Source::new("calibrated", &text);
    let loaded = forebay_model::Loaded::read(&source, &[], |_| Ok(forebay_model::Inputs::default()));
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:?}"));
    let run = forebay_model::simulate(&loaded, 1, 0).unwrap();
    assert!(run.violations.is_empty() && run.events > 1000);
}

/// Values as inline TOML.
mod erased {
    pub(super) trait Toml {
        fn inline(&self) -> String;
    }

    impl<T: serde::Serialize> Toml for T {
        fn inline(&self) -> String {
            toml::Value::try_from(self).unwrap().to_string()
        }
    }
}
